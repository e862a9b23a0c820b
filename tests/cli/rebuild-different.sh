python3 "$CASES/models.py" sampler in.onnx
weir convert in.onnx out.onnx --external --quiet
sed -i 's/"form":"external","data_file":null/"form":"inline","data_file":null/' out.onnx.manifest.json
weir rebuild out.onnx --source in.onnx
