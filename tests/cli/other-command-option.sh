weir convert in.onnx out.onnx --tree
