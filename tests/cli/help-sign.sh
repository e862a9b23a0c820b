weir sign --help
