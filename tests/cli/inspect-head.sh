# The listing stops with its reader.
weir inspect "$DATA/parakeet-dynamo/encoder-model.onnx" --tree | head -3
