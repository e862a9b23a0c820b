python3 "$CASES/models.py" sampler in.onnx
weir conv2matmul in.onnx out.onnx --quiet
weir rebuild out.onnx --source in.onnx
weir rebuild out.onnx.manifest.json --source in.onnx --write again
ls again
