# Asked for without a terminal, and against NO_COLOR.
NO_COLOR=1 weir inspect missing.onnx --color
weir inspect missing.onnx --no-color
weir inspect missing.onnx -q
