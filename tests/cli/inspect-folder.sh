mkdir models
cp "$DATA"/parakeet-dynamo/encoder-model.onnx* models
cp models/encoder-model.onnx models/again.onnx
python3 "$CASES/models.py" sampler models/m.onnx
rm models/m.onnx.data
echo '<!DOCTYPE html><html></html>' > models/page.onnx
echo a b c > models/vocab.txt
weir inspect models
weir inspect models --tree || echo "exit code $?"
