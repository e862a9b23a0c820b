weir plan --help > help && awk -f "$CASES/help.awk" help
