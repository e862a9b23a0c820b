# One command of the document; the whole is held against its schema and against --help by tests/e2e.
weir --generate json | sed -n '/"name": "clean"/,/^    }/p'
