# A folder as OUT, to be made or there; the input's own; one whose parent is missing.
cp $DATA/tied/model.onnx .
weir convert model.onnx new/ --quiet && weir convert model.onnx -o new --force --quiet && weir audit new/model.onnx
ls new
weir convert model.onnx .
weir convert model.onnx no/such/
weir convert model.onnx new
