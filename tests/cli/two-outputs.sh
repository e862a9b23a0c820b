weir conv2matmul in.onnx out.onnx --inplace
