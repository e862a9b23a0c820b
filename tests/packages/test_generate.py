"""What the generator makes of commands, options and documents that there are not yet."""

import ast
import importlib
import json
import subprocess
import sys

import pytest

from conftest import ROOT


def option(name, kind, **more):
    base = {"name": name, "letter": None, "kind": kind, "metavar": None, "default": None, "repeated": kind == "list"}
    return {**base, "required": False, "takes_false": False, "group": "Options", "help": f"the option '{name}'; see --other", "excludes": [], **more}


OPTIONS = [
    option("lambda", "number", metavar="N", default="3"),
    option("other", "choice", choices=["1", "two"], hidden_choices=["3"]),
    option("a-flag", "flag"),
    option("maybe", "maybe", choices=["a", "b"], hidden_choices=[]),
    option("must", "text", metavar="TEXT", required=True),
    option("lengths", "list", metavar="N"),
    option("shown", "flag", excludes=["json"]),
    option("json", "flag", group="Messages", excludes=["shown"]),
]
COMMAND = {
    "name": "import",
    "summary": 'a "summary" with \\ and """',
    "about": "About it, see --other and --nothing.",
    "pass": None,
    "operands": [{"name": "IN", "optional": False, "repeated": False}, {"name": "WHERE", "optional": True, "repeated": False}],
    "options": OPTIONS,
    "examples": [{"line": "weir import", "why": "because"}],
}
SCHEMA = {
    "title": "A document of a command that is new",
    "type": "object",
    "properties": {
        "schema": {"const": 1},
        "command": {"type": "string"},
        "class": {"type": "integer"},
        "a-b": {"type": "array", "items": {"type": "object", "properties": {"x": {"oneOf": []}}, "required": ["x"]}},
        "word": {"anyOf": [{"$ref": "common.json#/$defs/count"}, {"const": "all"}, {"const": "none"}]},
        "mixed": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {}}]},
        "by_name": {"type": "object", "additionalProperties": {"$ref": "common.json#/$defs/figure"}},
        "maybe": {"anyOf": [{"type": "null"}, {"$ref": "common.json#/$defs/file"}]},
    },
    "required": ["schema", "command", "a-b", "maybe"],
}


def generate(folder, commands, name="made"):
    """The text that is said, and the package if there is one."""
    package = folder / name
    schemas = folder / "schemas"
    package.mkdir()
    schemas.mkdir(exist_ok=True)
    for path in (ROOT / "docs" / "schema").glob("*.json"):
        (schemas / path.name).write_text(path.read_text())
    (schemas / "import.json").write_text(json.dumps(SCHEMA))
    for path in (ROOT / "packaging" / "python" / "weir").glob("*.py"):
        (package / path.name).write_text(path.read_text())
    tables = folder / "tables.json"
    tables.write_text(json.dumps({"version": "9.8.7", "commands": commands}))
    words = [sys.executable, "-B", ROOT / "packaging" / "python" / "generate.py", tables, schemas, package]
    return subprocess.run(words, capture_output=True, text=True)


def test_new_commands_appear_by_themselves(tmp_path, monkeypatch):
    assert generate(tmp_path, [COMMAND]).returncode == 0
    for path in (tmp_path / "made").glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("made")
    assert made.__version__ == "9.8.7" and "import_" in made.__all__
    function = made.import_
    assert '"summary" with \\ and """' in function.__doc__ and "see other and --nothing" in function.__doc__
    fake = tmp_path / "fake"
    fake.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps({{'command': 'import', 'class': 3, 'a-b': [{{'x': sys.argv[1:]}}], 'word': 'all', 'mixed': 'm', 'by_name': {{'n': 'NaN'}}, 'maybe': None}}))\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys.modules["made._run"], "find_weir_bin", lambda: str(fake))
    found = function("in", lambda_=4, other="two", a_flag=True, maybe=True, must="x y")
    assert found.a_b[0].x == ["import", "--json", "--lambda=4", "--other=two", "--a-flag", "--maybe", "--must=x y", "--", "in"]
    assert found.class_ == 3 and found.word == "all" and found.mixed == "m" and found.maybe is None
    assert found.by_name["n"] != found.by_name["n"]
    assert function("in", "there", must="", maybe="b").a_b[0].x[2:] == ["--maybe=b", "--must=", "--", "in", "there"]
    for several in ([64, "80"], (64, "80"), iter([64, "80"])):
        assert function("in", must="x", lengths=several).a_b[0].x[2:] == ["--must=x", "--lengths=64", "--lengths=80", "--", "in"]
    assert function("in", must="x", lengths=64).a_b[0].x[2:] == ["--must=x", "--lengths=64", "--", "in"]
    for wrong in ({"must": "x", "shown": True}, {"must": "x", "json": True}, {}):
        with pytest.raises(TypeError):
            function("in", **wrong)
    for name, value in (("must", ["x", "y"]), ("must", ["x"]), ("lambda_", (1, 2)), ("other", {"two"}), ("maybe", ["a"]), ("lengths", {"a": 64}), ("lengths", [[64]])):
        with pytest.raises(TypeError, match=f"^{name.rstrip('_')}_? "):
            function("in", **{"must": "x", name: value})
    for operand in (["in", "there"], ["in"]):
        with pytest.raises(TypeError, match="^input takes one value"):
            function(operand, must="x")


def test_two_things_of_one_name_are_refused(tmp_path):
    twice = {**COMMAND, "options": [*OPTIONS, option("where", "text", metavar="TEXT")]}
    done = generate(tmp_path, [twice])
    assert done.returncode and "an operand and an option are both named ['where']" in done.stderr
