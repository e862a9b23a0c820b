weir clean no/such/folder
