weir passes conv2matmul --json
