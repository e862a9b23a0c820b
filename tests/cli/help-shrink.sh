weir shrink --help
