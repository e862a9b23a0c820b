python3 "$CASES/models.py" sampler m.onnx
weir inspect m.onnx --json --tensors --tree > out.json
# Valid for another reader, and as it was.
python3 -c "import json; json.load(open(\"out.json\"))"
cat out.json
