weir convert in.onnx out.onnx --forse
