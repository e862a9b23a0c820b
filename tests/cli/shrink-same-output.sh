mkdir a b
touch a/m.onnx b/m.onnx
weir shrink a b --output-dir out
