"""Numbers of 64 bits are printed by `decimal` and `integer` (src/base/span.h): the letters of printf for them are not the same on all systems."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
LONG = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?l+[diuxX]")
# Of types that are long, or unsigned long long, by their own declaration.
ALLOWED = {"array_npz.c", "runtime_process.c"}


def long_formats(text):
    return [literal for literal in LITERAL.findall(text) if LONG.search(literal.replace("%%", ""))]


def test_no_format_depends_on_what_long_is():
    files = [path for folder in ("src", "tools") for path in (ROOT / folder).rglob("*.[ch]") if "platform" not in path.parts]
    assert len(files) > 500
    assert {path.name: found for path in files if path.name not in ALLOWED and (found := long_formats(path.read_text()))} == {}


def test_formats_that_are_found():
    assert long_formats('f("%lu bytes", n); g("%-8lld|%%lu", n);') == ['"%lu bytes"', '"%-8lld|%%lu"']
    assert long_formats('f("%s at 5 %% later, %zu, %.9g", s);') == []
