"""src/README.md lists the rooms that the build has (`tests/support/rooms_page.py --write` writes the table)."""

import rooms_page
from conftest import built_tool


def test_the_table_is_that_of_the_build():
    text = rooms_page.PAGE.read_text()
    assert text == rooms_page.written(text, (built_tool("..") / "generated" / "rooms.txt").read_text())
