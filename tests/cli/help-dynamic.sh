weir dynamic --help
