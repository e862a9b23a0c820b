weir smooth --help > help && awk -f "$CASES/help.awk" help
