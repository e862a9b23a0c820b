weir run "$DATA/parakeet-dynamo/encoder-model.onnx" out.onnx --pass conv2matmul:form=flat --pass conv2matmul --quiet
ls out.onnx
weir run "$DATA/parakeet-dynamo/encoder-model.onnx" loud.onnx --pass conv2matmul:form=flat --pass conv2matmul | sed -f "$END"
