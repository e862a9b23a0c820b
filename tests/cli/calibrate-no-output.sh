weir calibrate model.onnx --generate 2
