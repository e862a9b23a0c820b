weir passes optimize
