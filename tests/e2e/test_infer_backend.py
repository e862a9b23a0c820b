"""What inference says of ONNX's own test models, against the truth: the outputs that come with them, and what onnx's
inference says. Nothing may be wrong; what onnx knows must be known."""

import functools
import json
import subprocess

import numpy as np
import onnx
import pytest
from onnx.backend.test.case.model import collect_testcases as collect_models
from onnx.backend.test.case.node import collect_testcases as collect_nodes

from conftest import built_tool

TOOL = built_tool("infer_tool")


@functools.cache
def cases():
    """Made where they are used: each process that runs tests reads this file."""
    found = {case.name: case for case in collect_nodes(None)}
    found.update({case.name: case for case in collect_models() if case.kind == "simple"})
    return {name: case for name, case in found.items() if case.model is not None}


def told(folder, models, *options):
    """What the tool says of models, by name."""
    paths = {}
    for name, model in models.items():
        path = folder / f"{name}.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        paths[str(path)] = name
    said = {}
    names = list(paths)
    for at in range(0, len(names), 200):
        done = subprocess.run([TOOL, *options, *names[at : at + 200]], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            row = json.loads(line)
            row["values"] = {value["name"]: value for value in row.get("values", [])}
            said[paths[row["model"]]] = row
    return said


def undeclared(model):
    """The model without what it declares of the values that its nodes make."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for output in bare.graph.output:
        output.ClearField("type")
    return bare


@functools.cache
def bare_models():
    return {name: undeclared(case.model) for name, case in cases().items()}


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    return told(tmp_path_factory.mktemp("bare"), bare_models())


def arrays(case):
    """Each set of data as {name of a graph's output: array}; sequences and maps are left out."""
    names = [output.name for output in case.model.graph.output]
    for _, outputs in case.data_sets or []:
        yield {name: array for name, array in zip(names, outputs) if isinstance(array, np.ndarray)}


def wrong_dims(value, array):
    """What is wrong about a value whose array is known, or None."""
    if value["kind"] != "tensor":
        return None if value["kind"] in ("other", "optional") else f"kind {value['kind']}"
    if value["dims"] is None:
        return None
    if len(value["dims"]) != array.ndim:
        return f"{value['dims']} is {array.shape}"
    if any(isinstance(dim, int) and dim != real for dim, real in zip(value["dims"], array.shape)):
        return f"{value['dims']} is {array.shape}"
    if "elements" in value and value["dtype"] not in ("string", None):
        real = array.astype(np.float64).ravel()
        for said, is_really in zip(value["elements"], real):
            if isinstance(said, str) and said.startswith("("):
                num, den = said[1:].split(") / ")
                said = int(num) / int(den) if num.lstrip("-").isdigit() else None
            if isinstance(said, int | float) and said != is_really:
                return f"elements {value['elements'][:8]} are {real[:8]}"
    return None


def test_outputs_that_came_with_the_models(known):
    wrong, right = [], 0
    for name, case in cases().items():
        for outputs in arrays(case):
            for output, array in outputs.items():
                why = wrong_dims(known[name]["values"][output], array)
                wrong += [f"{name} {output}: {why}"] if why else []
                right += why is None
    assert not wrong, "\n".join(wrong)
    assert right > 1500


def test_no_model_is_refused(known):
    """They are all valid: nothing may be said against a node."""
    said = [f"{name}: {row.get('error') or row['said']}" for name, row in known.items() if row.get("error") or row["said"]]
    assert not said, "\n".join(said)


def as_onnx_knows(model):
    """What onnx's inference says of outputs: {name: (dtype, dims or None)}; unknown dims are None."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError):
        return {}
    out = {}
    for value in [*inferred.graph.value_info, *inferred.graph.output]:
        if value.type.WhichOneof("value") != "tensor_type":
            continue
        t = value.type.tensor_type
        dims = None
        if t.HasField("shape"):
            dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in t.shape.dim]
        out[value.name] = (t.elem_type, dims)
    return out


# Scan outputs of a Loop whose trips are known to nobody: without a trip they have one dim in the runtime, and ONNX's inference overlooks that.
IDLE = {("test_loop11", "res_scan")}


def test_nothing_that_onnx_knows_is_missing(known):
    missing = []
    for name, model in bare_models().items():
        for output, (dtype, dims) in as_onnx_knows(model).items():
            ours = known[name]["values"].get(output)
            if ours is None or ours["kind"] != "tensor":
                continue
            if dtype and ours["dtype"] is None:
                missing.append(f"{name} {output}: dtype {onnx.TensorProto.DataType.Name(dtype)}")
            if dims is None or (name, output) in IDLE:
                continue
            if ours["dims"] is None or len(ours["dims"]) != len(dims):
                missing.append(f"{name} {output}: {ours['dims']} ({ours['why']}), onnx has {dims}")
            elif any(isinstance(theirs, int) and mine != theirs for mine, theirs in zip(ours["dims"], dims)):
                missing.append(f"{name} {output}: {ours['dims']} ({ours['why']}), onnx has {dims}")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("opset", (27, 28))
def test_the_newest_versions_are_among_the_models(opset):
    """Of all operators that have one but Optional, of which onnx has no model."""
    new = {each.name for each in onnx.defs.get_all_schemas_with_history() if each.domain == "" and each.since_version == opset}
    for case in cases().values():
        imported = max((each.version for each in case.model.opset_import if each.domain == ""), default=0)
        if imported >= opset:
            new -= {node.op_type for node in case.model.graph.node if node.domain == ""}
    assert new == {27: set(), 28: {"Optional"}}[opset]


def held(op, declared, dtype=onnx.TensorProto.FLOAT, **attributes):
    """A node whose input x is a sequence, or an optional, of tensors."""
    made = {"sequence": onnx.helper.make_sequence_type_proto, "optional": onnx.helper.make_optional_type_proto}
    kind, dims = declared
    of = made[kind](onnx.helper.make_tensor_type_proto(dtype, dims))
    inputs = ["x", "zero"] if op == "SequenceAt" else ["x"]
    node = onnx.helper.make_node(op, inputs, ["y"], **attributes)
    zero = onnx.numpy_helper.from_array(np.array(0), "zero")
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_value_info("x", of)], [onnx.ValueInfoProto(name="y")], [zero] * (len(inputs) - 1))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])


def test_what_sequences_and_optionals_are_declared_to_hold(tmp_path):
    """Numbers hold for each, names only where it is one tensor: those of a sequence may differ."""
    models = {
        "optional": held("OptionalGetElement", ("optional", ["N", 3])),
        "unranked": held("OptionalGetElement", ("optional", None)),
        "sequence": held("SequenceAt", ("sequence", ["N", 3])),
        "bare": held("SequenceAt", ("sequence", None), onnx.TensorProto.INT32),
        "joined": held("ConcatFromSequence", ("sequence", ["N", 3]), axis=0),
        "stacked": held("ConcatFromSequence", ("sequence", [2, 3]), axis=0, new_axis=1),
    }
    y = {name: row["values"]["y"] for name, row in told(tmp_path, models).items()}
    known = {name: (value["kind"], value["dtype"], value["dims"]) for name, value in y.items()}
    assert known["optional"] == ("tensor", "float", ["N", 3])
    assert known["unranked"] == ("tensor", "float", None)
    assert known["sequence"] == ("tensor", "float", ["?1", 3])
    assert known["bare"] == ("tensor", "int32", None)
    assert known["joined"] == ("tensor", "float", ["?1", 3])
    assert known["stacked"] == ("tensor", "float", ["?1", 2, 3])
