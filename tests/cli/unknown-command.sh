weir inpsect x.onnx
