weir calibrate --help
