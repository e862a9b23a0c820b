for m in dynamo torchscript; do
  weir check "$DATA/parakeet-$m/encoder-model.onnx" | sed "s|$DATA/||"
done
