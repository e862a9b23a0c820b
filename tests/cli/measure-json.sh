ln -s "$DATA/parakeet-dynamo" in
weir measure in/encoder-model.onnx --candidates 4:64 --include '*val_205' --json
