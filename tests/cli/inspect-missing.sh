weir inspect no-such.onnx
