weir passes conv2matmull
