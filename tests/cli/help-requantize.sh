weir requantize --help
