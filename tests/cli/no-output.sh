weir conv2matmul in.onnx
