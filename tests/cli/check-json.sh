python3 "$CASES/models.py" undefined m.onnx
weir check m.onnx --json
