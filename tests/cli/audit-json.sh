python3 "$CASES/models.py" sampler m.onnx
python3 "$CASES/models.py" manifest m.onnx 65536
printf x | dd of=m.onnx.data bs=1 seek=200000 conv=notrunc 2>/dev/null
weir audit m.onnx --json
