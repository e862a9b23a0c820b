touch m_quantized_weights.onnx m.onnx
weir shrink m_quantized_weights.onnx
weir shrink m.onnx --suffix .onnx
ls
