ln -s "$DATA/parakeet-dynamo" in
weir inspect in/encoder-model.onnx
