weir shrink --help > help && awk -f "$CASES/help.awk" help
