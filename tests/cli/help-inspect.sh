weir inspect --help > help && awk -f "$CASES/help.awk" help
