weir measure $DATA/parakeet-dynamo/encoder-model.onnx --candidates 4:64,4:64:sym,8:128 --io sync
