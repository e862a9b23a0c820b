#!/usr/bin/env python3
"""Counts constructions that docs/STYLE.md advises against, in what users read:

    plain_words.py [--show] FILE…     the count of each file, per 1,000 words; --show: each place with its line
    plain_words.py --budget           the places of every file that has any, as tests/data/plain-words.json holds them

.md: prose without code. .c, .h and .def: strings of at least four words; adjacent strings are one. Comments are not counted.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUDGET = ROOT / "tests" / "data" / "plain-words.json"

WHAT_VERBS = "is|are|was|were|has|have|does|do|comes|goes|makes|reads|writes|gives|stays|holds|could|can|cannot|must|may|needs?"
MARKERS = [
    r"(?<!from )(?<!hide )\bbehind\b",
    r"\bbeside(?! the point)\b|\bbesides\b",
    r"\blies\b|\blie (?:in|on|at|there|side|behind|one)\b",
    r"\b(?:comes?|came|becomes?) of\b",
    r"\bgo(?:es)? on\b|\bwent on\b",
    r"\bwhoever\b|\bwherever\b|\bsomebody else\b|\bnobody\b",
    r"\b(?:is|are|was|were) (?:said|told)\b",
    r"\b(?:is|are) none\b",
    r"\b(?:of|for|by|with|in|at|to|behind|from|on) (?:what|whom|who) (?:it|they|is|are|was|were|has|have|had|the|a|one|weir|you)\b",
    r"\bwhat (?:it|they|one|is|are|was|were|has|have|comes|does|do) (?:given|made|done|kept|there|asked|taken|found|written|in|of|out)\b",
    rf"(?:^|[.;:] )What [a-z]+ (?:{WHAT_VERBS})\b",
    rf"(?:^|[.] )What (?:{WHAT_VERBS})\b(?![^.\n]*\?)",
    r"(?:^|[.] )Of [a-z]+\b",
    r"\bas (?:it|they) (?:was|were|is|are|lies?|lay|stands?)\b",
    r"\bas (?:large|long|many|much) as (?:it|they) (?:is|are|may)\b",
    r"\bthan it (?:was|is) (?:said|given)\b",
    r"\bmakes? (?:anew|of it|of them)\b|\banew\b",
    r"\bthose (?:that|which|who) (?:are|were|is) (?:there|none)\b",
    r"\b(?:take|takes|took|taken|taking) over\b",
    r"\bwants? (?:a|an|the|to be|no|of)\b(?=[^.]*\b(?:operator|file|row|rule|option|kernel|runtime|model|input)\b)",
    r"\bmost of all\b|\bat the most\b",
    r"\bnor\b(?! mal)",
    r"\bthereof\b|\btherein\b|\bhereby\b|\bthereby\b",
    r"\bis (?:it )?to be (?:had|seen|found)\b|\bare to be (?:had|seen|found)\b",
    r"\bat hand\b",
    r"\bone (?:behind|after|beside) the other\b",
    r"\band the like\b|\bits like\b|\bthe like of\b",
    r"\bis no use\b|\bof no use\b|\bof use\b",
    r"\bsays? nothing (?:of|about)\b|\bsays? so\b",
]
MARKER = re.compile("|".join(f"(?:{marker})" for marker in MARKERS), re.M)
WORD = re.compile(r"[A-Za-z][A-Za-z']+")
GLUE = r"(?:\s|\\\n)*"  # between literals that are one string; a macro has backslashes at the ends of lines
LITERAL = r'"(?:\\.|[^"\\\n])*"'
STRINGS = re.compile(rf"'(?:\\.|[^'\\\n])'|//[^\n]*|/\*.*?\*/|{LITERAL}(?:{GLUE}(?:PRI[a-zA-Z0-9]+{GLUE})?{LITERAL})*", re.S)


def of_markdown(text):
    text = re.sub(r"(?s)```.*?```|<!--.*?-->", lambda found: "\n" * found[0].count("\n"), text)
    return [(0, re.sub(r"`[^`\n]*`", "x", text))]


def of_source(text):
    """Texts in strings; a conversion such as %s counts as no word, but keeps its neighbours apart."""
    found = []
    for match in STRINGS.finditer(text):
        if match[0][0] in "/'":
            continue
        string = re.sub(rf'"{GLUE}(?:PRI[a-zA-Z0-9]+{GLUE})?"', "", match[0]).strip('"').replace("\\n", "\n").replace('\\"', '"')
        if len(string.split()) >= 4:
            found.append((match.start(), string))
    return found


def texts(path):
    text = path.read_text()
    return text, of_markdown(text) if path.suffix == ".md" else of_source(text)


def count(path, show=None):
    """(words, places) of a file; show: is called with (line, excerpt)."""
    words = places = 0
    whole, found = texts(path)
    for start, text in found:
        words += len(WORD.findall(text))
        for match in MARKER.finditer(text):
            places += 1
            if show:
                line = whole.count("\n", 0, start) + text.count("\n", 0, match.start()) + 1
                show(line, " ".join(text[max(0, match.start() - 50) : match.end() + 40].split()))
    return words, places


def files_for_users():
    """{what: its files}: what the bounds of test_plain_words.py are about."""
    sources = [path for folder in ("src", "tools") for kind in ("*.c", "*.h", "*.def") for path in sorted((ROOT / folder).rglob(kind))]
    helps = [path for path in sources if path.name in ("commands.def", "options.def")]
    return {
        "help": helps,
        "errors": [path for path in sources if path not in helps],
        "README": [ROOT / "README.md"],
        "docs": [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "STYLE.md"],
    }


def budget():
    rows = {}
    for paths in files_for_users().values():
        for path in paths:
            places = count(path)[1]
            if places:
                rows[path.relative_to(ROOT).as_posix()] = places
    return rows


def main(words):
    if words[:1] == ["--budget"]:
        print(json.dumps(budget(), indent=1))
        return
    show = words[:1] == ["--show"]
    for name in words[1:] if show else words:
        printed = (lambda line, excerpt, name=name: print(f"{name}:{line}: {excerpt}")) if show else None
        number, places = count(Path(name), printed)
        print(f"{name}: {number} words, {places} places, {1000 * places / max(number, 1):.1f} per 1,000")


if __name__ == "__main__":
    main(sys.argv[1:]) if len(sys.argv) > 1 else print(__doc__)
