# What bash would offer for the line "weir ...": one word a line.
weir completion bash > weir.bash
cat > ask.bash <<"END"
. ./weir.bash
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_weir
printf "%s\n" "${COMPREPLY[@]}"
echo --
END
bash ask.bash weir con
bash ask.bash weir convert in.onnx --e
bash ask.bash weir convert --io ""
bash ask.bash weir convert --io = s
mkdir "a folder"; : > a.onnx
bash ask.bash weir inspect a
bash ask.bash weir clean a
bash ask.bash weir help m
bash ask.bash weir passes fu
bash ask.bash weir passes --j
bash ask.bash weir --help
bash ask.bash weir shrink --output-dir a
bash ask.bash weir optimize a b --only optimize/at
bash ask.bash weir optimize a b --skip ti
