"""The Markdown pages of the project: their links and headings."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\[(?:[^][]|\[[^][]*\])*\]\(([^()\s]+)\)")


def pages():
    """Paths from the root, of all pages that users read."""
    docs = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    return [
        "README.md",
        "HACKING.md",
        "CHANGELOG.md",
        *(f"{folder}/README.md" for folder in ("bench", "packaging", "src", "src/passes/rules", "src/schema", "tests")),
        *docs,
    ]


def without_code(text):
    """Fences become blank; the lines stay."""
    return re.sub(r"(?ms)^```.*?^```$", lambda match: "\n" * match[0].count("\n"), text)


def links(page):
    """[(line, target)] of a page."""
    found = []
    for number, line in enumerate(without_code((ROOT / page).read_text()).splitlines(), 1):
        found += [(number, target) for target in LINK.findall(re.sub(r"`[^`]*`", "x", line))]
    return found


def anchors(path):
    """What a link to the page may have after #: its headings, as GitHub names them, and explicit ids."""
    text, found, seen = without_code(path.read_text()), set(), {}
    for title in re.findall(r"(?m)^#+ +(.*?) *#*$", text):
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
    return found | set(re.findall(r'<a id="([^"]+)">', text))
