weir rebuild --help > help && awk -f "$CASES/help.awk" help
