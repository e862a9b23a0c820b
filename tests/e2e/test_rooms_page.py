"""src/README.md lists the rooms that the build has (`tests/support/rooms_page.py --write` writes the table)."""

import rooms_page
from conftest import built_tool


def rows():
    return (built_tool("..") / "generated" / "rooms.txt").read_text()


def test_the_table_is_that_of_the_build():
    text = rooms_page.PAGE.read_text()
    assert text == rooms_page.written(text, rows())


def test_passes_and_stream_never_meet():
    folders, sees = {}, {}
    for name, folder, *words in map(str.split, rows().splitlines()):
        folders[f"weir_{name}"], sees[f"weir_{name}"] = folder, words
    for start in (name for name in folders if folders[name].startswith("src/passes")):
        met, left = set(), [start]
        while left:
            name = left.pop()
            if name in folders and name not in met:
                met.add(name)
                left += sees[name]
        assert [name for name in met if folders[name].startswith("src/stream")] == [], start
