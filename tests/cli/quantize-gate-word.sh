weir quantize $DATA/parakeet-dynamo/encoder-model.onnx out.onnx --gate sqnr:20
