weir verify --help > help && awk -f "$CASES/help.awk" help
