weir inspect "$DATA/parakeet-dynamo/encoder-model.onnx"
