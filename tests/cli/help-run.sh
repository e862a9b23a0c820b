weir run --help > help && awk -f "$CASES/help.awk" help
