weir run "$DATA/parakeet-dynamo/encoder-model.onnx" out.onnx --pass 'repeat(conv2matmul,quantize:block_size=32)' --report-json report.json | sed -f "$END"
python3 - <<'END'
import json
for step in json.load(open("report.json"))["passes"]:
    print(step["name"], step["rounds"], step["converted"], step["skipped"], len(step["nodes"]))
END
