weir run --help
