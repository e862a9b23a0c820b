weir replay --help > help && awk -f "$CASES/help.awk" help
