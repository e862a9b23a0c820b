# The record of a seal beside the model: neither old nor new is whole.
python3 "$CASES/models.py" sampler m.onnx
python3 "$CASES/models.py" manifest m.onnx 65536
mkdir .m.onnx.0123456789abcdef.weir
echo "{}" > .m.onnx.0123456789abcdef.weir/seal.json
weir audit m.onnx
