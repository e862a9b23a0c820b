"""The table of operators (src/schema/*.ops, as the built program has it) against the installed onnx and the newest ONNX Runtime:
every row is true, and none is missing. What a raise of the opset does to a node against the schemas of onnx."""

import copy
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import pytest
from onnx.reference import ReferenceEvaluator

import compare
import runtimes
import schema_facts
from conftest import DATA, built_tool, package_models

SCHEMA = Path(__file__).resolve().parents[2] / "src" / "schema"
sys.path.insert(0, str(SCHEMA))

import compile_schema  # noqa: E402

NEWEST = 28  # opset of ai.onnx
OURS = {"onnx_passes.ops"}  # domains that no package has
UNSAID = {"bounds", "one_or_all", "more", "rule", "random"}  # what is not among the members of a schema


def in_order(types):
    return {kind: sorted(dtypes) for kind, dtypes in sorted(types.items())}


def from_table(row):
    """A line of schema_tool in the order that facts have; what the schemas do not say is left out."""
    for formal in row["inputs"] + row["outputs"]:
        formal["types"] = in_order(formal["types"])
    for attribute in row["attributes"].values():
        if isinstance(attribute["default"], dict) and "words" in attribute["default"]:
            attribute["default"] = None
    row["variables"] = {name: in_order(types) for name, types in sorted(row["variables"].items())}
    return {key: value for key, value in row.items() if key not in UNSAID}


TABLE = json.loads(subprocess.check_output([built_tool("schema_tool")]))
BOUNDS = {(row["domain"], row["name"], row["since"]): row["bounds"] for row in TABLE}
ONE_OR_ALL = {(row["domain"], row["name"], row["since"]) for row in TABLE if row["one_or_all"]}
MORE = {(row["domain"], row["name"], row["since"]) for row in TABLE if row["more"]}
RANDOM = {row["name"] for row in TABLE if row["random"] and row["domain"] == ""}
WORDS = {(name, attribute["default"]["words"]) for row in TABLE for name, attribute in row["attributes"].items()
         if isinstance(attribute["default"], dict) and "words" in attribute["default"]}  # fmt: skip
ROWS = {(row["domain"], row["name"], row["since"]): from_table(row) for row in TABLE if row["domain"] not in OURS}
OF_ONNX = schema_facts.onnx_facts()
try:
    NO_RUNTIME, OF_RUNTIME = None, schema_facts.runtime_facts(schema_facts.newest_runtime(), OF_ONNX)
except runtimes.Missing as why:
    NO_RUNTIME, OF_RUNTIME = str(why), {}
FACTS = OF_ONNX | OF_RUNTIME
HISTORIES = schema_facts.histories(FACTS)
FROM_RUNTIME = {"com.microsoft", schema_facts.RUNTIME}  # domains


# ---- signatures -------------------------------------------------------------------------------------------------


def missing(keys):
    """The lines that are wanted, for who reads the failure."""
    names = sorted({(domain, name) for domain, name, _ in keys})
    return "\n".join("\n".join([f"{domain}: {name}", *schema_facts.rows(HISTORIES[domain, name])]) for domain, name in names)


def need(domain):
    if domain in FROM_RUNTIME and NO_RUNTIME:
        pytest.skip(NO_RUNTIME)


DOMAINS = sorted({domain for domain, _, _ in ROWS})


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_table_has_every_version_of_every_operator(domain):
    need(domain)
    theirs, ours = ({key for key in keys if key[0] == domain} for keys in (FACTS, ROWS))
    assert not theirs - ours, missing(theirs - ours)
    assert not ours - theirs


@pytest.mark.parametrize("domain", DOMAINS)
def test_signatures_are_those_of_the_packages(domain):
    need(domain)
    compared = 0
    for key in FACTS:
        if key[0] == domain:
            assert ROWS[key] == FACTS[key], missing([key])
            compared += 1
    assert compared >= {"": 620, "com.microsoft": 145, "ai.onnx.ml": 25, "onnxruntime": 25}.get(domain, 1)


@pytest.mark.parametrize("opset", (27, 28))
def test_the_newest_opsets_are_covered(opset):
    """What is compared above has all that onnx.defs has of them, in both directions."""
    theirs = {each.name for each in onnx.defs.get_all_schemas_with_history() if each.domain == "" and each.since_version == opset}
    assert theirs == {name for domain, name, since in ROWS if domain == "" and since == opset}
    assert len(theirs) >= {27: 3, 28: 19}[opset]


def narrower(old, new):
    """What a node of an older release may have that the table would find fault with."""
    found = []
    for kind, required in (("inputs", "single"), ("outputs", "single")):
        for at, formal in enumerate(old[kind]):
            now = new[kind][at] if at < len(new[kind]) else None
            if now is None or (formal["option"] != now["option"] and formal["option"] == "optional"):
                found.append((kind, at))
            elif any(set(types) - set(now["types"].get(of, ())) for of, types in formal["types"].items()):
                found.append((f"types of {kind}", at))
        found += [(kind, at) for at in range(len(old[kind]), len(new[kind])) if new[kind][at]["option"] == required]
    for name, attribute in new["attributes"].items():
        before = old["attributes"].get(name)
        if attribute["required"] > (before or {"required": False})["required"] or (before and before["default"] != attribute["default"]):
            found.append(("attribute", name))
    return found + [("attribute", name) for name in old["attributes"] if name not in new["attributes"]]


def test_nodes_of_older_runtimes_are_still_valid():
    """The domain of com.microsoft has one version: releases add what may be left out, and take nothing away."""
    older = schema_facts.runtime_facts(sys.executable, OF_ONNX)
    found = {key[1]: faults for key, fact in older.items() if key[0] == "com.microsoft" and (faults := narrower(fact, ROWS[key]))}
    assert found == {} and len(older) > 130


def test_a_narrower_row_would_be_seen():
    """The control: an input, a type or an attribute less, and one more that must be there."""
    row = ROWS["com.microsoft", "GatedDeltaNet", 1]
    assert not narrower(row, row)
    for change in (
        lambda fact: fact["inputs"].pop(),
        lambda fact: fact["inputs"][0]["types"]["tensor"].remove("bfloat16"),
        lambda fact: fact["attributes"].pop("scale"),
        lambda fact: fact["attributes"]["scale"].update(required=True),
        lambda fact: fact["inputs"].append({**fact["inputs"][0], "option": "single"}),
    ):
        fact = copy.deepcopy(row)
        change(fact)
        assert narrower(row, fact)


def test_a_false_signature_would_be_seen():
    """The control: neighbours in the history of an operator do differ, in types, attributes, defaults and inputs."""
    for name, one, other in (("Add", 13, 14), ("Softmax", 11, 13), ("Selu", 1, 6), ("Split", 11, 13), ("Upsample", 9, 10)):
        assert ROWS["", name, one] != {**FACTS["", name, other], "since": one}


def test_counts_of_inputs_and_outputs_are_those_of_onnx():
    bound = lambda n: min(n, 255)
    for schema in onnx.defs.get_all_schemas_with_history():
        theirs = [schema.min_input, bound(schema.max_input), schema.min_output, bound(schema.max_output)]
        assert BOUNDS[schema.domain, schema.name, schema.since_version] == theirs, schema.name


def verdict(schema, n_in, n_out):
    """What the checker says of a node with so many inputs and outputs and an attribute that no operator has."""
    names = lambda letter, n: [f"{letter}{i}" for i in range(n)]
    node = onnx.helper.make_node(schema.name, names("x", n_in), names("y", n_out), domain=schema.domain, unheard_of=1)
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {schema.domain: schema.since_version}
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as e:
        return str(e).strip().splitlines()[0]
    return ""


def test_counts_of_outputs_in_between_and_attributes_that_are_not_listed():
    one_or_all, more = set(), set()
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.deprecated:
            continue
        key = schema.domain, schema.name, schema.since_version
        said = [verdict(schema, schema.min_input, n) for n in range(schema.min_output, min(schema.max_output, 9) + 1)]
        if not any(said):
            more.add(key)
        elif any("Unrecognized attribute" not in each for each in said):
            assert ["output size" in each for each in said] == [False, *[True] * (len(said) - 2), False], key
            one_or_all.add(key)
    assert one_or_all == ONE_OR_ALL and len(one_or_all) == 6
    assert more == {key for key in MORE if key[0] not in OURS} and len(more) == 1


def test_defaults_in_words_are_of_lists():
    assert WORDS == {("dilations", "ones"), ("strides", "ones"), ("pads", "zeros"), ("output_padding", "zeros"), ("perm", "reversed")}


def test_random_operators_are_those_of_onnx():
    bodies = {"If", "Loop", "Scan", "SequenceMap", "AffineGrid"}  # have graphs, or stand for nodes that do: as random as these
    kind = onnx.defs.OpSchema.NodeDeterminism.NonDeterministic
    theirs = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and schema.node_determinism == kind}
    assert RANDOM == theirs - bodies


# ---- where a small change of an input is no small change of an output ----------------------------------------------


FLAGGED = [(id, op) for id, _, op, _, _, _ in compile_schema.kit_rows(compile_schema.load()[0])]
REALS = {"float", "float16", "bfloat16", "double"}


def test_whole_numbers_and_truth_values_of_floats_jump():
    """But for those that follow from dims or whole numbers, whatever the floats are."""
    found = set()
    for id, op in FLAGGED:
        tensors = lambda formals: [formal.types.get("tensor", set()) for formal in formals]  # noqa: E731
        if any(types and not types & REALS for version in op.versions for types in tensors(version.outputs) if any(each & REALS for each in tensors(version.inputs))):
            found.add(id)
    jumps = {id for id, op in FLAGGED if "jumps" in op.flags}
    assert found - jumps == {"Dropout", "OptionalHasElement", "Shape", "Size", "ms_EmbedLayerNormalization", "ms_QEmbedLayerNormalization"}


def test_operators_of_one_float_jump_and_round_as_the_table_says():
    """Beside each other on a grid: a jump is a change that is many times as large as that of the input."""
    grid = np.arange(-256, 257, dtype=np.float32) / 64
    x = np.concatenate([np.nextafter(grid, np.float32(-9)), grid, np.nextafter(grid, np.float32(9))]).astype(np.float32)
    infinities = {"IsInf", "IsNaN"}  # a sum that just overflows
    by_default = {"Shrink"}  # rounds nothing while its bias is 0
    compared = 0
    for id, op in FLAGGED:
        if op.domain or "unary" not in op.flags or any(each.required for each in op.versions[-1].attributes) or id in infinities:
            continue
        if not any(formal.types.get("tensor", set()) & REALS for formal in op.versions[-1].inputs):
            continue
        node = onnx.helper.make_node(id, ["x"], ["y"])
        graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_tensor_value_info("x", 1, [len(x)])], [onnx.helper.make_tensor_value_info("y", 1, [len(x)])])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)], ir_version=10)
        with np.errstate(all="ignore"):
            y = ReferenceEvaluator(model).run(None, {"x": x})[0].astype(np.float64)
        before, at, after = y.reshape(3, -1)
        with np.errstate(all="ignore"):
            near = [np.nanmax(np.where(np.isfinite(a) & np.isfinite(b), abs(a - b), 0)) for a, b in ((before, at), (at, after))]
        assert (max(near) > 1e-2) == ("jumps" in op.flags), (id, near)
        whole = (y == np.round(y)) | (abs(y) == abs(x)) | ~np.isfinite(y)
        assert whole.all() == ("unrounded" in op.flags or id in by_default), id
        compared += 1
    assert compared > 30


# ---- other versions ----------------------------------------------------------------------------------------------


OPERATORS = [op for op in compile_schema.load()[0] if op.domain == ""]


def rows():
    for op in OPERATORS:
        for version in op.versions:
            yield op.name, version.since, version.change, version.names


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


def allowed(change, names):
    """What a change's condition keeps away from, as structural_changes says it."""
    return {
        "without": {("attribute", name) for name in names},
        "dropout_12": {("attribute", name) for name in names},
        "with": {("attribute changed", name) for name in names},
        "one_output": {("output", at) for at in range(1, 8)},
        "floating": {("input type", 0), ("output", 0)},
        "last_axis": {("attribute changed", name) for name in names},
        "sampling": {("attribute changed", name) for name in names},
    }.get(change, set())


def test_no_row_promises_more_than_the_schemas_keep():
    for op, version, change, names in rows():
        old = [schema for schema in SCHEMAS[op] if schema.since_version < version]
        if not old or change == "changed":
            assert old or change == "same", op
            continue
        new = next(schema for schema in SCHEMAS[op] if schema.since_version == version)
        assert structural_changes(old[-1], new) <= allowed(change, names), (op, version, change)
        for name in names:
            assert name in old[-1].attributes, (op, version, name)


def test_a_false_row_would_be_seen():
    """The control: were Softmax 13 or ReduceMean 18 said to be the same, the test above would fail."""
    for op, version in (("Softmax", 13), ("ReduceMean", 18), ("Squeeze", 13), ("Dropout", 10), ("Upsample", 10)):
        [at] = [i for i, schema in enumerate(SCHEMAS[op]) if schema.since_version == version]
        assert structural_changes(SCHEMAS[op][at - 1], SCHEMAS[op][at])


NO_REWRITE = {("Attention", 24), ("Attention", 25), ("AveragePool", 19), ("BatchNormalization", 14), ("ConvTranspose", 11), ("Dropout", 10), ("Erf", 13), ("GRU", 3),
              ("ReduceLogSum", 28), ("ReduceLogSumExp", 28), ("Scan", 9)}  # fmt: skip


def rewrites():
    """(operator, the version before, the version, steps) of every version that changed."""
    for op in OPERATORS:
        for old, new in zip(op.versions, op.versions[1:]):
            if new.change != "same":
                yield op, old, new, [step.split() for step in new.rewrite.split(", ")] if new.rewrite else []


def names(of):
    return {each.name for each in of}


def operator_named(name):
    return next(op for op in OPERATORS if op.name == name)


def gone(step, old, new):
    """The attributes that a step takes away; a step that speaks of what is not there fails."""
    word, *rest = step
    pairs = [each.partition("=")[::2] for each in rest]
    if word in ("drop", "drop_if", "inputs", "rename", "scales", "flatten", "test_mode", "vector"):
        assert {a for a, _ in pairs} <= names(old.attributes)
    if word == "inputs":
        assert {b or a for a, b in pairs} <= names(new.inputs)
    if word == "say":
        assert {a for a, _ in pairs} <= names(new.attributes)
    if word in ("words", "integer", "number"):
        assert rest[0] in names(old.attributes) & names(new.attributes)
    if word == "rename":
        assert {b for _, b in pairs} <= names(new.attributes)
    if word in ("attributes", "shift", "per_channel", "only_one"):
        assert set(rest) <= names(old.inputs) and set(rest) <= names(new.attributes if word == "attributes" else new.inputs)
    if word in ("drop", "drop_if", "inputs", "rename", "scales"):
        return {a for a, _ in pairs}
    return {"axis", "broadcast"} & names(old.attributes) if word == "align" else set()


def test_rewrites_make_nodes_valid():
    """No attribute is left that the new version does not have, and none is missing that it must have."""
    none = set()
    for op, old, new, steps in rewrites():
        if not steps:
            none.add((op.name, new.since))
            continue
        left = names(old.attributes) - set().union(*(gone(step, old, new) for step in steps))
        renamed = [step for step in steps if step[0] == "operator"]
        if renamed:
            new = next(v for v in reversed(operator_named(renamed[0][1]).versions) if v.since <= new.since)
        assert left <= names(new.attributes), (op.name, new.since)
        said = {pair.partition("=")[0] for step in steps if step[0] == "say" for pair in step[1:]}
        given = {pair.partition("=")[2] for step in steps if step[0] == "rename" for pair in step[1:]} | said
        given |= {"scales"} & {step[0] for step in steps}
        must = {each.name for each in new.attributes if each.required} - {each.name for each in old.attributes if each.required}
        assert must <= given or (op.name, new.since, must) == ("LpPool", 2, {"kernel_shape"}), (op.name, new.since)
    assert none == NO_REWRITE


def test_a_false_rewrite_would_be_seen():
    """The control: a step that speaks of an attribute or input that is not there."""
    op = operator_named("ReduceMean")
    old, new = op.versions[-2:]
    assert gone(["inputs", "axes"], old, new) == {"axes"}
    for step in (["inputs", "keepdims"], ["drop", "axis"], ["rename", "axes=axis"], ["say", "axes=1"], ["shift", "axes"]):
        with pytest.raises(AssertionError):
            gone(step, old, new)


def sources():
    yield from (DATA / name for name in ("parakeet-dynamo/encoder-model.onnx", "parakeet-torchscript/encoder-model.onnx",
                                         "tied/model.onnx"))  # fmt: skip
    for package in ("rapidocr", "silero_vad", "magika"):
        yield from package_models(package)


@pytest.mark.parametrize("path", list(sources()), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_operators_of_real_models_are_listed(path):
    listed = {op.name for op in OPERATORS}
    used = {node.op_type for node in compare.nodes(compare.structure(path)) if node.domain in ("", "ai.onnx")}
    assert used <= listed


def test_releases_are_those_of_onnx():
    """The first release of every opset that had one, up to the newest."""
    text = (SCHEMA / "releases.def").read_text()
    ours = {int(opset): release for opset, release in re.findall(r'^OPSET\((\d+), "([\d.]+)", \d{4}\)$', text, re.M)}
    theirs = {}
    for release, _, opset, *_ in onnx.helper.VERSION_TABLE:
        theirs.setdefault(opset, release.removesuffix(".0") if release.count(".") == 2 else release)
    theirs[9] = "1.4"  # the table begins with the second of its releases
    assert ours == {opset: release for opset, release in theirs.items() if opset <= NEWEST}
    years = [int(year) for year in re.findall(r", (\d{4})\)$", text, re.M)]
    assert years == sorted(years)
