weir run in.onnx out.onnx
