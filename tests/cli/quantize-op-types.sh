weir quantize in.onnx out.onnx --op-types Conv
