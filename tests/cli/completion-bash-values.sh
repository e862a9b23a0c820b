# Values with : and =, where bash begins another word, and commas between them: what is put in place of
# the last word.
weir completion bash > weir.bash
cat > ask.bash <<"END"
. ./weir.bash
ask() {
  COMP_LINE=$1; COMP_POINT=${#1}; shift
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _weir
  echo "$COMP_LINE: ${COMPREPLY[*]}"
}
ask "weir quantize a b --gate " weir quantize a b --gate ""
ask "weir quantize a b --gate s" weir quantize a b --gate s
ask "weir quantize a b --gate=c" weir quantize a b --gate = c
ask "weir quantize a b --gate sqnr=2" weir quantize a b --gate sqnr = 2
ask "weir quantize a b --candidates " weir quantize a b --candidates ""
ask "weir quantize a b --candidates 4:" weir quantize a b --candidates 4 :
ask "weir quantize a b --candidates 4:1" weir quantize a b --candidates 4 : 1
ask "weir measure a --candidates 4:128,8" weir measure a --candidates 4 : 128,8
ask "weir measure a --candidates=4:128,8:" weir measure a --candidates = 4 : 128,8 :
ask "weir quantize --io=s" weir quantize --io = s
ask "weir quantize --io " weir quantize --io ""
COMP_WORDBREAKS=" "
ask "weir measure a --candidates 4:128,8:" weir measure a --candidates 4:128,8:
END
bash ask.bash
