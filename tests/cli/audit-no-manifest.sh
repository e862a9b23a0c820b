python3 "$CASES/models.py" sampler m.onnx
weir audit m.onnx
