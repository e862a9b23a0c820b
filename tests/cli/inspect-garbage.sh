echo "this is no model" > text.onnx
weir inspect text.onnx
