python3 "$CASES/models.py" sampler m.onnx
weir check m.onnx
