weir help infer > help && awk -f "$CASES/help.awk" help
