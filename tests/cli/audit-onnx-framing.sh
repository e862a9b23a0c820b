# Lengths that no longer fit: nobody can be asked for tensors, and what is left is the damaged range and the whole ones.
python3 "$CASES/models.py" sampler m.onnx
python3 "$CASES/models.py" manifest m.onnx 2048
printf x | dd of=m.onnx bs=1 seek=20 conv=notrunc 2>/dev/null
weir audit m.onnx
