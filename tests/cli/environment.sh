# What the command line says wins; what is set to nothing is not set; a bad value is named.
cp $DATA/tied/model.onnx .
WEIR_MEMORY=20M WEIR_JOBS=2 WEIR_IO=sync weir convert model.onnx -n --json | grep -E '"(io|memory_bytes)"'
WEIR_MEMORY=20M WEIR_JOBS= WEIR_IO=x weir convert model.onnx -n --json --memory 12M -j 1 --io sync | grep -E '"(io|memory_bytes)"'
WEIR_JOBS=many weir inspect model.onnx --quiet >/dev/null && echo inspect has no workers
WEIR_JOBS=many weir audit model.onnx
WEIR_MEMORY=64K weir convert model.onnx out.onnx
