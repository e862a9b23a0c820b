python3 "$CASES/models.py" sampler m.onnx
python3 "$CASES/models.py" manifest m.onnx 65536
printf x | dd of=m.onnx bs=1 seek=20 conv=notrunc 2>/dev/null
rm m.onnx.data
weir audit m.onnx
