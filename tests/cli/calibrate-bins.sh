weir calibrate model.onnx -o r.jsonl --generate 2 --method entropy --bins 20
