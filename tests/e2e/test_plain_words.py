"""Texts for users keep to docs/STYLE.md, by count: no file has more places than tests/data/plain-words.json allows it.

The budget may only fall: a file that is not in it has none, and a row that allows more than the file has is out of date
(`tests/support/plain_words.py --budget` prints what is there now).
"""

import json

import pytest

import plain_words

BOUNDS = {"help": 0.5, "errors": 0.5, "README": 0.5, "docs": 1.0}  # places per 1,000 words
BUDGET = json.loads(plain_words.BUDGET.read_text())


def test_no_file_exceeds_its_budget():
    found, shown = plain_words.budget(), []
    for name, places in found.items():
        if places > BUDGET.get(name, 0):
            plain_words.count(plain_words.ROOT / name, lambda line, excerpt, name=name: shown.append(f"{name}:{line}: {excerpt}"))
    assert not shown, "see docs/STYLE.md:\n" + "\n".join(shown)


def test_the_budget_has_only_fallen():
    found = plain_words.budget()
    assert {name: found.get(name, 0) for name in BUDGET} == BUDGET


@pytest.mark.parametrize("kind", BOUNDS)
def test_bounds(kind):
    files = plain_words.files_for_users()[kind]
    words, places = (sum(column) for column in zip(*map(plain_words.count, files)))
    assert words > 1000 and 1000 * places / words <= BOUNDS[kind]


def test_the_counter_counts(tmp_path):
    """Markers in prose and in strings, on their lines; neither in code nor in comments."""
    page, source = tmp_path / "page.md", tmp_path / "source.c"
    page.write_text("# A page\n\nThe data lies behind it.\n\n```sh\nit lies behind\n```\nWhat it does is `lies behind`.\n")
    shown = []
    assert plain_words.count(page, lambda line, excerpt: shown.append(line)) == (10, 3) and shown == [3, 3, 8]
    source.write_text('// lies behind\nf("the file %s lies "\n  "behind \\"it\\"", "behind");\n')
    shown = []
    assert plain_words.count(source, lambda line, excerpt: shown.append(line))[1] == 2
