# The ten worst of all; or all, in the order of the model.
M=$DATA/parakeet-dynamo/encoder-model.onnx
weir measure "$M" --candidates 4:64,4:64:sym,8:128 --io sync | sed -f "$END"
weir measure "$M" --candidates 4:64,8:128 --include '*MatMul_2*' | sed -f "$END"
weir measure "$M" --candidates 4:64 --all | sed -f "$END"
