weir --generate man no/such/folder
