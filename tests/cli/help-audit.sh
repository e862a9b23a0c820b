weir audit --help > help && awk -f "$CASES/help.awk" help
