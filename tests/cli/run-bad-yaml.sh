printf 'passes:\n\t- conv2matmul\n' > p.yaml
weir run in.onnx out.onnx --config p.yaml
