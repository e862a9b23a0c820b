weir shrink a.onnx b.onnx --report-json r.json
