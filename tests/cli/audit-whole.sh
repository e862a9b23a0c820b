python3 "$CASES/models.py" sampler m.onnx
python3 "$CASES/models.py" manifest m.onnx 65536
weir audit m.onnx
weir audit m.onnx.manifest.json --jobs 1
mkdir sub && mv m.onnx* sub
weir audit sub/m.onnx
