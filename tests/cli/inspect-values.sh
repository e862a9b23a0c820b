weir inspect "$DATA/exports/cnn-folded-torchscript-14.onnx" --values
