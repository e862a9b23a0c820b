weir finalize --help > help && awk -f "$CASES/help.awk" help
