weir passes conv2matmul
