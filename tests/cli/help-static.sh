weir static --help
