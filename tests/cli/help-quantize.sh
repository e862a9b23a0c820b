weir quantize --help > help && awk -f "$CASES/help.awk" help
