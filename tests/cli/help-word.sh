weir help clean
