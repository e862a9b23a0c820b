weir plan in.onnx out.onnx
