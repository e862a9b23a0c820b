weir check no-such.onnx
