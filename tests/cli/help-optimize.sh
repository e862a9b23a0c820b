weir help optimize > help && awk -f "$CASES/help.awk" help
