"""src/schema/ops.def against the installed onnx: every row is true, and none is missing."""

import re
from collections import defaultdict
from pathlib import Path

import onnx
import onnx.defs
import pytest

import compare
from conftest import DATA, package_models

TABLE = Path(__file__).resolve().parents[2] / "src" / "schema" / "ops.def"
NEWEST = 28  # what the table says it covers
LEFT_OUT = {"Attention", "RotaryEmbedding", "TensorScatter"}


def rows():
    text = TABLE.read_text()
    found = re.findall(r'^OP\("(\w+)", (.*)\)$', text, re.M)
    assert len(found) == sum(line.startswith("OP(") for line in text.splitlines())
    for op, history in found:
        assert re.fullmatch(r'\w+\(\d+(, "[\w ]+")?\)( \w+\(\d+(, "[\w ]+")?\))*', history), op
        for rule, version, names in re.findall(r'(\w+)\((\d+)(?:, "(.*?)")?\)', history):
            yield op, int(version), rule, names.split()


def schemas():
    versions = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= NEWEST:
            versions[schema.name].append(schema)
    return {name: sorted(each, key=lambda s: s.since_version) for name, each in versions.items()}


SCHEMAS = schemas()


def default(attribute):
    held = attribute.default_value
    return onnx.helper.get_attribute_value(held) if held.name else None


def types(schema, formal):
    constraints = {each.type_param_str: set(each.allowed_type_strs) for each in schema.type_constraints}
    return constraints.get(formal.type_str, {formal.type_str})


def structural_changes(old, new):
    """What a node written for `old` could run into under `new`, as far as schemas say."""
    found = set()
    for name, attribute in old.attributes.items():
        later = new.attributes.get(name)
        if later is None:
            found.add(("attribute", name))
        elif default(attribute) != default(later) or attribute.type != later.type or later.required > attribute.required:
            found.add(("attribute changed", name))
    for name, attribute in new.attributes.items():
        if name not in old.attributes and attribute.required:
            found.add(("attribute", name))
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    for at, formal in enumerate(new.inputs):
        if at >= len(old.inputs):
            if formal.option != optional:
                found.add(("input", at))
        elif formal.option != old.inputs[at].option and formal.option != optional:
            found.add(("input", at))
        elif types(old, old.inputs[at]) - types(new, formal):
            found.add(("input type", at))
    if len(new.inputs) < len(old.inputs):
        found.add(("input", len(new.inputs)))
    for at, formal in enumerate(old.outputs):
        if at >= len(new.outputs) or types(old, formal) - types(new, new.outputs[at]):
            found.add(("output", at))
    if new.deprecated:
        found.add(("deprecated", 0))
    return found


def test_every_operator_is_listed_with_all_of_its_versions():
    listed = defaultdict(list)
    for op, version, _, _ in rows():
        listed[op].append(version)
    assert set(listed) == set(SCHEMAS) - LEFT_OUT
    for op, versions in listed.items():
        assert versions == [schema.since_version for schema in SCHEMAS[op]], op


def allowed(rule, names):
    """What a rule's condition keeps away from, as structural_changes says it."""
    return {
        "WITHOUT": {("attribute", name) for name in names},
        "WITH": {("attribute changed", name) for name in names},
        "ONE_OUTPUT": {("output", at) for at in range(1, 8)},
        "FLOATING": {("input type", 0), ("output", 0)},
        "LAST_AXIS": {("attribute changed", name) for name in names},
        "SAMPLING": {("attribute changed", name) for name in names},
    }.get(rule, set())


def test_no_row_promises_more_than_the_schemas_keep():
    for op, version, rule, names in rows():
        old = [schema for schema in SCHEMAS[op] if schema.since_version < version]
        if rule in ("FIRST", "CHANGED"):
            assert (rule == "FIRST") == (not old), op
            continue
        new = next(schema for schema in SCHEMAS[op] if schema.since_version == version)
        assert structural_changes(old[-1], new) <= allowed(rule, names), (op, version, rule)
        for name in names:
            assert name in old[-1].attributes, (op, version, name)


def test_a_false_row_would_be_seen():
    """The control: were Softmax 13 or ReduceMean 18 said to be SAME, the test above would fail."""
    for op, version in (("Softmax", 13), ("ReduceMean", 18), ("Squeeze", 13), ("Dropout", 10), ("Upsample", 10)):
        [at] = [i for i, schema in enumerate(SCHEMAS[op]) if schema.since_version == version]
        assert structural_changes(SCHEMAS[op][at - 1], SCHEMAS[op][at])


def sources():
    yield from (DATA / name for name in ("parakeet-dynamo/encoder-model.onnx", "parakeet-torchscript/encoder-model.onnx",
                                         "tied/model.onnx"))  # fmt: skip
    for package in ("rapidocr", "silero_vad", "magika"):
        yield from package_models(package)


@pytest.mark.parametrize("path", list(sources()), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_operators_of_real_models_are_listed(path):
    listed = {op for op, _, _, _ in rows()}
    used = {node.op_type for node in compare.nodes(compare.structure(path)) if node.domain in ("", "ai.onnx")}
    assert used <= listed


def test_releases_are_those_of_onnx():
    """The first release of every opset that had one, up to the newest."""
    text = (TABLE.parent / "releases.def").read_text()
    ours = {int(opset): release for opset, release in re.findall(r'^OPSET\((\d+), "([\d.]+)", \d{4}\)$', text, re.M)}
    theirs = {}
    for release, _, opset, *_ in onnx.helper.VERSION_TABLE:
        theirs.setdefault(opset, release.removesuffix(".0") if release.count(".") == 2 else release)
    theirs[9] = "1.4"  # the table begins with the second of its releases
    assert ours == {opset: release for opset, release in theirs.items() if opset <= NEWEST}
    years = [int(year) for year in re.findall(r", (\d{4})\)$", text, re.M)]
    assert years == sorted(years)
