weir cast in.onnx out.onnx
