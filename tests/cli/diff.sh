weir quantize "$DATA/parakeet-dynamo/encoder-model.onnx" q.onnx --block-size 64 --quiet
weir diff "$DATA/parakeet-dynamo/encoder-model.onnx" q.onnx --weights values | sed "s|$DATA/||; /of memory/d"
