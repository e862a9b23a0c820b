weir jobs --help > help && awk -f "$CASES/help.awk" help
