python3 "$CASES/models.py" sampler a.onnx
mkdir b && cp a.onnx a.onnx.data b
weir diff a.onnx b/a.onnx | sed '/of memory/d'
weir diff a.onnx b/a.onnx --quiet
