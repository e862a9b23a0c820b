# What is held back is said and counted; the words that record the run have the cap.
weir run "$DATA/parakeet-dynamo/encoder-model.onnx" out.onnx --pass conv2matmul --pass cast:to=float16 --exactness zero --report-json report.json --edit-log log.jsonl | sed -f "$END"
python3 - <<'END'
import json
print([(p["name"], p.get("held_back"), p["converted"]) for p in json.load(open("report.json"))["passes"]])
print(json.loads(open("log.jsonl").readline())["options"]["exactness"])
END
weir conv2matmul "$DATA/parakeet-dynamo/encoder-model.onnx" two.onnx --exactness exact | sed -f "$END"
# Passes that did not run are counted as passes, each once: nobody knows how many rewrites they would have been.
weir run "$DATA/parakeet-dynamo/encoder-model.onnx" three.onnx --pass conv2matmul --pass EliminateComplementationDiv --pass conv2matmul --exactness exact | sed -f "$END"
