weir static --help > help && awk -f "$CASES/help.awk" help
