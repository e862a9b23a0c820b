weir conv2matmul in.onnx out.onnx --max-dilation 0
