weir calibrate model.onnx -o ranges.jsonl
