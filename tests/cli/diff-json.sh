python3 "$CASES/models.py" sampler a.onnx
weir run a.onnx b.onnx --pass tidy --quiet
weir diff a.onnx b.onnx --json
