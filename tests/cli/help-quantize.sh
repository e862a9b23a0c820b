weir quantize --help
