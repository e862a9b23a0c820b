weir convert in.onnx out.onnx --edit-log --force
