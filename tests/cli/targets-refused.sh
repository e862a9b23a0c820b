for words in "--target ort-1.22 --bits 8" "--target webgpu --algorithm hqq" "--target openvino --format qdq --bits 2" \
  "--target ort-1.20 --tensor *=bits8" "--target ort-1.22 --budget 1M --candidates 4:32,8:32" \
  "--target ort-1.22 --gate sqnr=20dB --gate-action raise" "--target qnn-htp --algorithm hqq" \
  "--target tensorrt --format qoperator" "--target web"; do
  set -f
  weir quantize in.onnx out.onnx $words || echo "exit $?"
done
