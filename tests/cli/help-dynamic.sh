weir dynamic --help > help && awk -f "$CASES/help.awk" help
