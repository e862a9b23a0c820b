weir conv2matmul --help > help && awk -f "$CASES/help.awk" help
