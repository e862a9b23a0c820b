weir shrink a.onnx b.onnx
