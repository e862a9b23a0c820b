printf 'passes:\n  - conv2matmul:\n      from: flat\n' > p.yaml
weir run in.onnx out.onnx --config p.yaml
