mkdir e
weir shrink e
