weir calibrate --help > help && awk -f "$CASES/help.awk" help
