# A tensor that no data file of that size holds: before anything is written.
weir quantize $DATA/parakeet-dynamo/encoder-model.onnx m.onnx --split 2000
code=$?
ls
exit $code
