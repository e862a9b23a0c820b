weir passes
