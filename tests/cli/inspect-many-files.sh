weir inspect "$DATA/parakeet-torchscript/encoder-model.onnx"
