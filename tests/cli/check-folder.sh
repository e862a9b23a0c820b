mkdir models
cp "$DATA"/parakeet-dynamo/encoder-model.onnx* models
python3 "$CASES/models.py" undefined models/u.onnx
weir check models
