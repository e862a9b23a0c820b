weir convert in.onnx out.onnx --memory=lots
