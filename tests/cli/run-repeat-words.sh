weir run in.onnx out.onnx --pass 'repeat(cast:to=float16,min_elements=3)'
