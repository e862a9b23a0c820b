#!/bin/bash
# The real program, killed before every single file-system call of staging, records and seal.
#
#   kill_loop.sh WEIR_FAULT MODEL.onnx fresh|force|inplace|split [EVERY]
#
# WEIR_FAULT is the program with the fault table (fs_fault.h). After each kill the same command, given
# again (every second time with --resume), must complete: the bytes of an undisturbed run, an audit without damage, nothing left over.
# split: three data files take the names of four, of which the last one goes.
# EVERY: not before every call but every so many (an odd number), as under sanitizers; WEIR_TEST_ALL=1 takes them all.
# The model should be small and have convolutions to convert: it is converted some hundred times.
set -u
weir=$1 model=$2 mode=$3 every=${4:-1}
[ "${WEIR_TEST_ALL-0}" != 1 ] || every=1
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT

# What lies there before each run is written once, then copied.
mkdir "$dir/old"
split=()
[ "$mode" != split ] || split=(--split 150K)
[ "$mode" = fresh ] || "$weir" convert "$model" "$dir/old/m.onnx" "${split[@]}" --quiet >/dev/null || exit 2
prepare() {
  rm -rf "$dir/out"
  cp -a "$dir/old" "$dir/out"
}
run() {
  case $mode in
  fresh) "$weir" conv2matmul "$model" "$dir/out/m.onnx" --tensor-digests --quiet "$@" ;;
  force) "$weir" conv2matmul "$model" "$dir/out/m.onnx" --force --quiet "$@" ;;
  split) "$weir" conv2matmul "$model" "$dir/out/m.onnx" --force --split 200K --quiet "$@" ;;
  inplace) "$weir" conv2matmul "$dir/out/m.onnx" --inplace --quiet "$@" ;;
  *) echo "unknown mode $mode" >&2 && exit 2 ;;
  esac >"$dir/said" 2>&1
}
sums() { (cd "$dir/out" && sha256sum -- * 2>/dev/null | sha256sum); }
broken() {
  echo "$mode, killed before call $n: $1"
  cat "$dir/said"
  ls -lA "$dir/out"
  exit 1
}

n=0
prepare
run || broken "the undisturbed run failed"
whole=$(sums)
prepare
before=$(sums)
for ((n = 1; n < 500; n += every)); do
  prepare
  WEIR_FAULT=kill:$n run
  status=$?
  [ $status -eq 0 ] && break
  [ $status -eq 137 ] || broken "exit code $status"
  # Where all is in place and only the staging folder is left, the same command is a run of its own.
  if [ $((n % 2)) -eq 0 ] || ls -A "$dir/out" "$dir"/out/.*.weir 2>/dev/null | grep -qE '\.done\.weir$|^sealed\.json$'; then
    run --resume || broken "--resume failed"
  else
    run || broken "the same command, given again, failed"
  fi
  [ "$(sums)" = "$whole" ] || broken "another result"
  "$weir" audit "$dir/out/m.onnx" >/dev/null || broken "the audit found damage"
  [ -z "$(find "$dir/out" -name '.*.weir')" ] || broken "a staging folder was left"
done
# Control: the loop did kill, and the result is not what was there before.
[ $n -gt 40 ] && [ $n -lt 500 ] && [ "$before" != "$whole" ] || broken "the loop proves nothing"
echo "$mode: $(((n - 1) / every)) kills"
