python3 "$CASES/models.py" operators m.onnx
weir check m.onnx
