weir help infer
