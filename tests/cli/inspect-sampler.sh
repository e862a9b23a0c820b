python3 "$CASES/models.py" sampler m.onnx
weir inspect m.onnx
