# A link that the user named is followed; a data file that is one, out of the folder, is marked and not.
python3 "$CASES/models.py" sampler m.onnx
mkdir here
ln -s ../m.onnx here/link.onnx
ln -s ../m.onnx.data here/m.onnx.data
weir inspect here/link.onnx --allow-links > /dev/null
weir inspect here/link.onnx | head -3
