weir targets
