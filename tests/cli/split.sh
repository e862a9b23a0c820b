# Several data files, then fewer of them: the names, and what is gone.
model=$DATA/parakeet-dynamo/encoder-model.onnx
weir convert $model m.onnx --split 150K --quiet; ls
weir cast $model m.onnx --to float16 --split 150K --force --no-manifest --json | grep data_files; ls
weir convert $model w.onnx --data-file w.bin --split 400K --quiet && ls w.*
