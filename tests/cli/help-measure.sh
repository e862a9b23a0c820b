weir measure --help
