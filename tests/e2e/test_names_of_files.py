"""Comments and pages name files that there are (`tests/support/names_of_files.py` prints those that are not)."""

import names_of_files


def test_every_file_that_is_named_is_there():
    assert names_of_files.all_missing() == []


def test_no_name_is_allowed_in_vain():
    known = names_of_files.ends(names_of_files.tree())
    assert not names_of_files.ALLOWED & known


def test_where_names_are_looked_for():
    """Comments and pages, not code; a name with folders is the end of a path."""
    known = names_of_files.ends(["src/kit/kit.c", "docs/rules.md", "tests/run"])

    def missing(name, text):
        return names_of_files.missing(name, text, known)

    assert missing("a.c", '#include "old.h"\n// kit.c, kit/kit.c and src/kit; old.c\nf("old.c");  /* rules/kit.c */\n') == [(2, "old.c"), (3, "rules/kit.c")]
    assert missing("a.py", 'x = "old.c"  # old.py\ndef f():\n    """As\n    old.def."""\n') == [(1, "old.py"), (4, "old.def")]
    assert missing("run", "sed old.c # old.sh\n") == [(1, "old.sh")]
    assert missing("a.md", "`old.c`, tests/run\n\n```c\nold.h\n```\nin tests/old\n") == [(1, "old.c"), (6, "tests/old")]
    assert missing("a.md", "w.bin, tests/model.onnx, *_old.c, tests/NAME/run and x.h.y") == []
