weir run in.onnx out.onnx --pass tidy:exlude=x
