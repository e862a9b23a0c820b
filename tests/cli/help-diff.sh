weir help diff > help && awk -f "$CASES/help.awk" help
