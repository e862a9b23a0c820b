weir quantize in.onnx out.onnx --block-size 100
