"""The kit's tables of operators and of defaults against the installed onnx: every row is true, and none is missing."""

import re
from collections import defaultdict
from pathlib import Path

import onnx.defs

KIT = Path(__file__).resolve().parents[2] / "src" / "passes" / "kit"
KINDS = {"INT": int, "FLOAT": float, "STRING": str}


def schemas():
    versions = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions[schema.name].append(schema)
    return {name: sorted(each, key=lambda s: s.since_version) for name, each in versions.items()}


SCHEMAS = schemas()


def operators():
    found = re.findall(r'^KIT_OP\((\w+), (\w+), "(\w+)", (\d+), (\w+), (.*)\)$', (KIT / "kit_ops.def").read_text(), re.M)
    assert len(found) == sum(line.startswith("KIT_OP(") for line in (KIT / "kit_ops.def").read_text().splitlines())
    return found


def defaults():
    """{(operator, attribute): [(version, kind, value)]} as the table has them."""
    text = (KIT / "kit_defaults.def").read_text()
    rows = re.findall(r'^KIT_ATTR_DEFAULT\((\w+), "(\w+)", (\d+), (\w+), (-?\d+), (\S+), "(.*)"\)$', text, re.M)
    assert len(rows) == sum(line.startswith("KIT_ATTR_DEFAULT(") for line in text.splitlines())
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows), "rows are in order"
    table = defaultdict(list)
    for op, name, version, kind, i, f, s in rows:
        value = {"INT": int(i), "FLOAT": float.fromhex(f), "STRING": s}.get(kind)
        table[op, name].append((int(version), kind, value))
    return table


def test_every_operator_has_a_number():
    listed = {name: (int(least), most) for _, domain, name, least, most, _ in operators() if domain == "ONNX"}
    assert set(listed) == set(SCHEMAS)
    for name, (least, most) in listed.items():
        assert least == min(schema.min_input for schema in SCHEMAS[name]), name
        largest = max(schema.max_input for schema in SCHEMAS[name])
        assert most == ("KIT_ANY" if largest > 200 else str(largest)), name


def held(schema, name):
    """The default that a schema itself has, as (kind, value); None without one, or of another type than the table's."""
    attribute = schema.attributes.get(name)
    if attribute is None or not attribute.default_value.name:
        return None
    value = onnx.helper.get_attribute_value(attribute.default_value)
    value = value.decode() if isinstance(value, bytes) else value
    for kind, python in KINDS.items():
        if type(value) is python:
            return kind, value
    return None


def in_force(rows, version):
    best = None
    for since, kind, value in rows:
        if since <= version:
            best = None if kind == "UNDEFINED" else (kind, value)
    return best


def test_defaults_are_those_of_the_schemas():
    table = defaults()
    in_words = {key for key, rows in table.items() if rows[0][1] in ("ONES", "ZEROS", "REVERSED")}
    assert {name for _, name in in_words} == {"dilations", "output_padding", "pads", "perm", "strides"}
    seen = set()
    for op, versions in SCHEMAS.items():
        for schema in versions:
            for name in {*schema.attributes, *(name for each, name in table if each == op)}:
                if (op, name) in in_words:
                    continue
                assert in_force(table[op, name], schema.since_version) == held(schema, name), (op, name, schema.since_version)
                seen.add((op, name))
    assert set(table) - in_words <= seen


def test_a_false_default_would_be_seen():
    """The control: Softmax's axis did change, and the table says both."""
    rows = defaults()["Softmax", "axis"]
    assert in_force(rows, 12) == ("INT", 1) and in_force(rows, 13) == ("INT", -1)
    assert held(SCHEMAS["Softmax"][0], "axis") == ("INT", 1)
