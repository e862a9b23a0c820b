weir convert in.onnx out.onnx --inline --data-file x.data
