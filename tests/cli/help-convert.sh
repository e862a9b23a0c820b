weir convert --help > help && awk -f "$CASES/help.awk" help
