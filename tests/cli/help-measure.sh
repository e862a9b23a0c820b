weir measure --help > help && awk -f "$CASES/help.awk" help
