weir conv2matmul --help
