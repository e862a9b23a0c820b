weir run in.onnx out.onnx --config p.yaml
