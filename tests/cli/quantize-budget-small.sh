weir quantize $DATA/parakeet-dynamo/encoder-model.onnx out.onnx --budget 100K; code=$?; ls; exit $code
