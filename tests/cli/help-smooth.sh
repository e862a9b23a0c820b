weir smooth --help
