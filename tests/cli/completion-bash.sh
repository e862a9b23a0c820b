# What bash would offer for the line "weir ...": one word a line.
weir --generate bash > weir.bash
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
