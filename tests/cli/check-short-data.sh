python3 "$CASES/models.py" sampler m.onnx
truncate -s 200000 m.onnx.data
weir check m.onnx
