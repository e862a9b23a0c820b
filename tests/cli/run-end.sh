# How runs end: what was done, the worst layer, what was kept, what was written; nothing with --quiet.
M=$DATA/parakeet-dynamo/encoder-model.onnx
mkdir int4 half
weir run "$M" int4/m.onnx --pass conv2matmul --pass matmulnbits:block_size=64 | sed -f "$END"
weir cast "$M" half.onnx --to float16 --tensor-digests --no-manifest | sed -f "$END"
weir quantize "$M" mixed.onnx --tensor '*val_2*=bits8' --block-size 32 --exclude '*val_3*' | sed -f "$END"
weir shrink "$M" -o shrunk.onnx | sed -f "$END"
weir convert "$M" one.onnx --inline | sed -f "$END"
weir conv2matmul "$M" c.onnx --edit-log log.jsonl | sed -f "$END"
weir replay log.jsonl "$M" int4/c.onnx --no-manifest | sed -f "$END"
weir conv2matmul "$M" strict.onnx --strict-compat
for words in "quantize $M q1.onnx --block-size 64" "cast $M q2.onnx --to float16" "shrink $M -o q3.onnx" \
  "convert $M q4.onnx" "conv2matmul $M q5.onnx --strict-compat" "replay log.jsonl $M half/c.onnx" \
  "quantize $M --dry-run --block-size 64"; do
  weir $words --quiet 2>&1 || echo "exit code $?"
done
