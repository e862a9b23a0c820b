"""A room includes what it sees: `check_includes.py rooms.txt STAMP`, which the build runs (generated/rooms.txt has a row for each weir_room).

A quoted include in src and tools is a path from there ("plan/plan.h"); the files that the build makes have bare names. The folder of the path
belongs to a room that the includer's room is linked to, directly or through the rooms that those name, and a header in inside/ to its own.
The programs (main.c, weir-ort, the tests) belong to no room, and see all of them.

Headers of the operating system, and code for one system alone, are in src/platform. (pthread.h is wherever threads are.)
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'\s*#\s*include "([^"]+)"')
SYSTEM_HEADER = re.compile(
    r"\s*#\s*include <((?:sys|linux|asm|arpa|netinet|net)/.*|(?:unistd|fcntl|dirent|signal|poll|spawn|sched|regex|fnmatch|glob|termios|pwd|grp|malloc|link"
    r"|elf|dlfcn|time|windows|io|libgen|syslog|ftw|wordexp|utime|ucontext|execinfo|mqueue|semaphore|aio|strings)\.h)>"
)
SYSTEM_BRANCH = re.compile(r"\s*#\s*(?:el)?if.*\b(__linux__|__linux|__gnu_linux__|__unix__|__APPLE__|__FreeBSD__|_WIN32|_WIN64|__MINGW32__|__GLIBC__)\b")


def system_fault(path, line):
    """What is wrong with a line that only src/platform may have."""
    if path.parts[:2] == ("src", "platform"):
        return None
    header, branch = SYSTEM_HEADER.match(line), SYSTEM_BRANCH.match(line)
    if header:
        return f"#include <{header[1]}>: a header of the system, which src/platform includes alone"
    return f"{branch[1]}: code for one system is in src/platform" if branch else None


def rooms_of(rows):
    """{folder: [room]}, {room: rooms that its users see with it}, {room: rooms that it sees itself}."""
    folders, shown, seen = {}, {}, {}
    for row in rows.splitlines():
        name, folder, *words = row.split()
        at = words.index("BEHIND") if "BEHIND" in words else len(words)
        folders.setdefault(folder, []).append(f"weir_{name}")
        shown[f"weir_{name}"] = words[:at]
        seen[f"weir_{name}"] = words[:at] + words[at + 1 :]
    return folders, shown, seen


def reach(room, shown, seen):
    """The rooms that a room sees."""
    found, left = {room}, list(seen[room])
    while left:
        other = left.pop()
        if other not in found:
            found.add(other)
            left += shown.get(other, [])
    return found


def room_folder(path):
    """A file's folder, that of its room where the file is inside/; and whether it is."""
    folder = path.parent
    return (folder.parent, True) if folder.name == "inside" else (folder, False)


def faults(root, rows):
    folders, shown, seen = rooms_of(rows)
    files = [path.relative_to(root) for top in ("src", "tools") for path in (root / top).rglob("*") if path.suffix in (".c", ".h", ".def")]
    names = {path.name for path in files}
    tops = {"/".join(path.parts[1:]): path for path in files}
    reached = {room: reach(room, shown, seen) for room in seen}
    for path in sorted(files):
        home, _ = room_folder(path)
        own = folders.get(home.as_posix())
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            if of_system := system_fault(path, line):
                yield f"{path.as_posix()}:{number}: {of_system}"
            found = INCLUDE.match(line)
            if not found or ("/" not in found[1] and found[1] not in names):
                continue
            told = None
            if found[1] not in tops:
                told = "an include is a path from src or tools" if "/" not in found[1] else "there is no such file"
            else:
                other, inside = room_folder(tops[found[1]])
                theirs = folders.get(other.as_posix(), [])
                if inside and other != home:
                    told = f"only {other.as_posix()} includes what is in its inside/"
                elif own and other != home and reached[own[-1]].isdisjoint(theirs):
                    told = f"{own[-1]} is not linked to {' or '.join(theirs) or other.as_posix()} (weir_room in CMakeLists.txt)"
            if told:
                yield f'{path.as_posix()}:{number}: #include "{found[1]}": {told}'


def main():
    rows, stamp = map(Path, sys.argv[1:])
    found = list(faults(ROOT, rows.read_text()))
    print("\n".join(found), end="\n" if found else "")
    if found:
        sys.exit(1)
    stamp.touch()


if __name__ == "__main__":
    main()
