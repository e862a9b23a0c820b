weir cast --help
