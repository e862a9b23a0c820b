weir help preprocess > help && awk -f "$CASES/help.awk" help
