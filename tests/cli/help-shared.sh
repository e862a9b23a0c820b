# The options that commands share, each once. The case help-COMMAND of each command has the rest of its help.
commands=$(weir -h | sed -n 's/^  \([a-z0-9]*\)  .*/\1/p')
for command in $commands; do
  weir "$command" --help > "$command" || exit
  [ -e "$CASES/help-$command.sh" ] || echo "there is no case help-$command" >&2
done
awk -f "$CASES/help.awk" -v shared=1 $commands
