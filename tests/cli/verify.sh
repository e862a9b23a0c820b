weir conv2matmul in.onnx out.onnx --verify-lengths 64,80
