weir measure $DATA/parakeet-dynamo/encoder-model.onnx --candidates 4:64 --include '*val_205' --json
