weir run "$DATA/parakeet-dynamo/encoder-model.onnx" out.onnx --pass tidy --pass 'repeat(fuse)' --pass tidy/identity | sed -f "$END"
