weir run "$DATA/parakeet-dynamo/encoder-model.onnx" out.onnx --pass conv2matmul:form=flat --pass conv2matmul --quiet
