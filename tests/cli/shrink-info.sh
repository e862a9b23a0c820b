weir shrink "$DATA/parakeet-dynamo/encoder-model.onnx" --info | tail -n +2
