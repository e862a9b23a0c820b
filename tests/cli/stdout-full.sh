# Output that cannot be written is an error, not silence.
weir --help > /dev/full
