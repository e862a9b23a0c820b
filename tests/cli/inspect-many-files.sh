ln -s "$DATA/parakeet-torchscript" in
weir inspect in/encoder-model.onnx
