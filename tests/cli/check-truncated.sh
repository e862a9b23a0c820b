python3 "$CASES/models.py" sampler m.onnx
truncate -s 3000 m.onnx
weir check m.onnx
