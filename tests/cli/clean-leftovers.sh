mkdir .a.onnx.0123456789abcdef.weir .b.onnx.0123456789abcdef.weir .c.onnx.0123456789abcdef.done.weir
head -c 100000 /dev/zero > .a.onnx.0123456789abcdef.weir/a.onnx
echo "{}" > .b.onnx.0123456789abcdef.weir/seal.json
for f in .?.onnx.*; do : > $f/lock; done
echo kept > kept.onnx.data
weir clean . | sed "s/  [0-9.]* [kM]*B$/  SIZE/; s/([0-9.]* [kM]*B)/(SIZE)/"
echo "-- --yes"
weir clean . --yes | sed "s/  [0-9.]* [kM]*B\\( *removed\\)\\{0,1\\}$/  SIZE\\1/; s/([0-9.]* [kM]*B)/(SIZE)/"
echo "-- left"
ls -A
