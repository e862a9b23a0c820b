python3 "$CASES/models.py" sampler m.onnx
rm m.onnx.data
weir check m.onnx
