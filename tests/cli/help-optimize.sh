weir help optimize
