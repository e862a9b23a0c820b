weir quantize $DATA/parakeet-dynamo/encoder-model.onnx out.onnx --gate sqnr=20.5dB --gate-action fail; code=$?; ls; exit $code
