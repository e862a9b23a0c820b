mkdir d; : > d/x.onnx
weir clean d
weir clean d --yes --json
