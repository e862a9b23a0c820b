weir conv2matmul "$DATA/parakeet-dynamo/encoder-model.onnx" c.onnx --quiet
ln -s "$DATA/parakeet-dynamo" in
weir diff in/encoder-model.onnx c.onnx --format markdown
