# A damaged .onnx that can still be read: what it says of its own tensors is said, and from whom it comes.
python3 "$CASES/models.py" sampler m.onnx
python3 "$CASES/models.py" manifest m.onnx 2048
printf x | dd of=m.onnx bs=1 seek=3000 conv=notrunc 2>/dev/null
weir audit m.onnx
