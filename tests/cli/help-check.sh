weir check --help > help && awk -f "$CASES/help.awk" help
