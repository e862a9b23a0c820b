python3 "$CASES/models.py" sampler m.onnx
ln -s m.onnx link.onnx
weir inspect link.onnx --allow-links > /dev/null
weir inspect link.onnx
