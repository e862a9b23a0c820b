"""Puts the style and the script of pages into C: the texts, and what a Content-Security-Policy calls them by.

    embed_page.py -o OUT.c page.css page.js

For each file NAME.EXT: `html_page_EXT`, its lines and a NULL, and `html_page_EXT_hash` with 'sha256-…'.
"""

import argparse
import base64
import hashlib
from pathlib import Path


def literal(text):
    quoted = "".join(c if 32 <= ord(c) < 127 and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode()) for c in text)
    return f'"{quoted}"'


def embedded(path):
    text = path.read_text(encoding="utf-8")
    if "</" in text or "<!--" in text:
        raise SystemExit(f"{path}: '</' and '<!--' cannot stand in an element of a page")
    name = f"html_page_{path.suffix[1:]}"
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    lines = "".join(f"    {literal(line)},\n" for line in text.splitlines(keepends=True))
    return f"const char *const {name}[] = {{\n{lines}    NULL}};\nconst char {name}_hash[] = \"'sha256-{digest}'\";\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", dest="output", type=Path, required=True)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    args.output.write_text('#include "render/html/html_files.h"\n\n#include <stddef.h>\n\n' + "\n".join(embedded(path) for path in args.files), encoding="utf-8")


if __name__ == "__main__":
    main()
