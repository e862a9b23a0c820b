weir help clean > help && awk -f "$CASES/help.awk" help
