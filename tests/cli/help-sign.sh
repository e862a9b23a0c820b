weir sign --help > help && awk -f "$CASES/help.awk" help
