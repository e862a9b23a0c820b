weir help preprocess
