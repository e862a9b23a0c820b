weir cast --help > help && awk -f "$CASES/help.awk" help
