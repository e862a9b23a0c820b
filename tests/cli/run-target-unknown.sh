printf 'target: web\npasses: [quantize]\n' > pipeline.yaml
weir run in.onnx out.onnx --config pipeline.yaml
