weir passes --help
