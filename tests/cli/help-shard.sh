weir shard --help > help && awk -f "$CASES/help.awk" help
