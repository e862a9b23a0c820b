python3 "$CASES/models.py" sampler a.onnx
weir diff a.onnx no-such.onnx
