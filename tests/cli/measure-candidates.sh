weir measure $DATA/parakeet-dynamo/encoder-model.onnx --candidates 4:64,5:32
