#!/usr/bin/env python3
"""The table of rooms in src/README.md:

    rooms_page.py --check     prints what it would change, and fails if that is anything
    rooms_page.py --write     writes the table between the marks

The rows of the build (`generated/rooms.txt` in its folder; --rooms FILE reads another one) name the rooms, their folders and the rooms that
they see. The table has those of src. A room's description is the first sentence after `// Room: `, with which one file of its folder begins.
"""

import argparse
import difflib
import re
import sys
from pathlib import Path

from pages import ROOT

PAGE = ROOT / "src" / "README.md"
MARKS = ("<!-- rooms: tests/support/rooms_page.py --write -->\n", "<!-- end of rooms -->\n")


def description(folder):
    """(file, sentence) of the room in a folder."""
    found = []
    for path in sorted([*folder.glob("*.[ch]"), *folder.glob("inside/*.h")]):
        text = path.read_text()
        if text.startswith("// Room: "):
            paragraph = " ".join(line.strip("/ ") for line in re.match(r"(?:// .*\n)+", text)[0].splitlines())
            found.append((path, re.match(r"Room: (.*?)\.(?= |$)", paragraph)[1]))
    if len(found) != 1:
        sys.exit(f"{folder.relative_to(ROOT)}: {len(found)} files begin with '// Room: ', one must")
    return found[0]


def table(rows):
    rooms = [row.split() for row in rows.splitlines()]
    known = {f"weir_{name}" for name, *_ in rooms} - {"weir_kernels_table"}
    lines = ["| room | contains | sees | uses inside |\n", "|---|---|---|---|\n"]
    shown = {folder: (name, words) for name, folder, *words in rooms if folder.startswith("src/")}  # of two for one folder, the room itself
    for folder, (name, words) in sorted(shown.items()):
        path, sentence = description(ROOT / folder)
        at = words.index("BEHIND") if "BEHIND" in words else len(words)
        sees, uses = (" ".join(dict.fromkeys(word[5:] for word in some if word in known)) for some in (words[:at], words[at:]))
        place = path.relative_to(PAGE.parent).as_posix()
        lines.append(f"| [{folder[4:]}]({place}){'' if folder.endswith('/' + name) else f' ({name})'} | {sentence} | {sees} | {uses} |\n")
    return "".join(lines)


def written(text, rows):
    """The page with the table of these rows."""
    head, rest = text.split(MARKS[0])
    return head + MARKS[0] + table(rows) + MARKS[1] + rest.split(MARKS[1])[1]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    parser.add_argument("--rooms", type=Path, default=ROOT / "build" / "plain" / "generated" / "rooms.txt")
    asked = parser.parse_args()
    before = PAGE.read_text()
    after = written(before, asked.rooms.read_text())
    if asked.write:
        PAGE.write_text(after)
    else:
        changed = list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "src/README.md", "of the build"))
        sys.stdout.writelines(changed)
        sys.exit(bool(changed))


if __name__ == "__main__":
    main()
