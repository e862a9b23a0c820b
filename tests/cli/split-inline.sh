weir convert in.onnx out.onnx --inline --split 1GiB
