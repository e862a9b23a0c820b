#!/usr/bin/env python3
"""Files of this tree that comments and pages name, and that it does not have:

    names_of_files.py     prints them, each with its place

Looked at are comments (of Python texts that are statements too) and pages without their blocks of code. A name is a word that ends
as our sources do, or a path that begins with one of our folders; with folders it must be the end of a path. Names of a user's files
(model.onnx, w.bin) are not looked at.
"""

import io
import re
import subprocess
import tokenize
from pathlib import Path

from plain_words import ROOT, STRINGS

# Names without a file, and whose they are.
OTHERS = {
    "the system's": {"pthread.h", "setjmp.h", "stdarg.h"},
    "libraries'": {"cmocka.h", "liburing.h", "onnx.pb-c.h", "yaml.h", "zlib.h"},
    "ONNX Runtime's": {"calibrate.py"},
    "made while weir or its packages are built": {"_commands.py", "_version.py", "documents.py", "kit_ops.def", "schema_rules.def", "schema_table.c"},
    "the reader's": {"CASE.case", "FILE.case", "FILE.rules", "NAME.sh", "OUT.c", "demo.rules", "export.py", "many.rules", "my.rules"},
    "a test's": {"t.rules"},
    "no names: members": {"options.rules", "t.c"},
}
ALLOWED = set().union(*OTHERS.values())
NAME = re.compile(r"(?<![\w./<>$*{}…-])(?:[\w.-]+/)*\w[\w.-]*\.(?:c|h|def|py|cmake|rules|case|sh|md)(?![\w*/({-]|\.\w)")
PATH = re.compile(r"(?<![\w./<>$*{}…-])(?:src|tests|tools|docs|packaging|bench)/[a-z\d_./-]*[a-z\d](?![\w*<{/…-])")


def tree():
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    return [name for name in subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0") if name]


def of_c(text):
    return [(match.start(), match[0]) for match in STRINGS.finditer(text) if match[0][0] == "/"]


def of_python(text):
    found, lines, fresh = [], [0], True
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and fresh):
            found.append((lines[token.start[0] - 1] + token.start[1], token.string))
        elif token.type not in (tokenize.NL, tokenize.STRING):
            fresh = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return found


def of_shell(text):
    return [(match.start(), match[0]) for match in re.finditer(r"(?m)(?:^|(?<=\s))#.*", text)]


def of_page(text):
    return [(0, re.sub(r"(?s)```.*?```", lambda block: "\n" * block[0].count("\n"), text))]


READERS = {
    **dict.fromkeys((".c", ".h", ".def"), of_c),
    **dict.fromkeys((".py",), of_python),
    **dict.fromkeys((".cmake", ".sh", ".rules", ".case", "CMakeLists.txt", ""), of_shell),
    **dict.fromkeys((".md",), of_page),
}


def ends(names):
    """Every end of every path, and every folder."""
    found = set()
    for name in names:
        parts = name.split("/")
        found.update("/".join(parts[at:]) for at in range(len(parts)))
        found.update("/".join(parts[:at]) for at in range(1, len(parts)))
    return found


def missing(name, text, known):
    """[(line, word)] of a file's text."""
    path = Path(name)
    read = READERS.get(path.name) or READERS.get(path.suffix)
    found = []
    for start, piece in read(text) if read else []:
        for match in sorted({match.span(): match for form in (NAME, PATH) for match in form.finditer(piece)}.items()):
            word = re.sub(r"^(\.\./)+", "", match[1][0])
            if word not in known and word not in ALLOWED and Path(word).suffix not in (".onnx", ".data"):
                found.append((text.count("\n", 0, start) + piece.count("\n", 0, match[0][0]) + 1, word))
    return found


def all_missing():
    names = tree()
    known = ends(names)
    found = []
    for name in names:
        path = ROOT / name
        if name.startswith("tests/fuzz/corpus/") or not path.is_file() or path.is_symlink():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{name}:{line}: {word}" for line, word in missing(name, text, known)]
    return found


if __name__ == "__main__":
    print("\n".join(all_missing()))
