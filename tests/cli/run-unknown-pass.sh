weir run in.onnx out.onnx --pass conv2matmull
