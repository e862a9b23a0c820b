weir help diff
