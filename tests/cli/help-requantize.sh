weir requantize --help > help && awk -f "$CASES/help.awk" help
