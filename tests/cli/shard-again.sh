# A shard that has nothing left to do says so.
plan=$(weir plan "$DATA/parakeet-dynamo/encoder-model.onnx" out.onnx --pass conv2matmul --quiet && echo .out.onnx.*.weir)
for member in 0/2 1/2 0/2 1/2 0/1; do weir shard "$plan" --index "${member%/*}" --count "${member#*/}" | sed 's/ made in [0-9.]* m\{0,1\}s/ made in T/'; done
