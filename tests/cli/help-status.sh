weir status --help > help && awk -f "$CASES/help.awk" help
