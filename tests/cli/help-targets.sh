weir targets --help > help && awk -f "$CASES/help.awk" help
