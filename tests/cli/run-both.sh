weir run in.onnx out.onnx --pass conv2matmul --config p.yaml
