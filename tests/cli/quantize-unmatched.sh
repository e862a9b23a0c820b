weir quantize "$DATA/parakeet-dynamo/encoder-model.onnx" --dry-run --exclude 'node_MatMul_20x' | head -2
weir quantize "$DATA/parakeet-dynamo/encoder-model.onnx" --dry-run --exclude 'node_MatMul_20x' 2>&1 >/dev/null | cat
