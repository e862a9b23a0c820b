weir passes --help > help && awk -f "$CASES/help.awk" help
