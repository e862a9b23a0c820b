"""Each operator that quantize_static knows, alone between two others: with --compat both forms are what that tool writes.

Random graphs have the usual ones many times over (test_static.py); here is every row of static_ops.def, with its options, and one that
has none. What the tool writes must run, or ours must.
"""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat

import quantizers
from conftest import ALL
from quantized_alike import alike
from static_pair import Setup, flags, theirs

pytestmark = pytest.mark.in_memory

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TABLE = Path(__file__).resolve().parents[2] / "src" / "passes" / "int8_static" / "inside" / "static_ops.def"


def normal(*dims):
    return np.random.default_rng([3, *dims]).normal(0, 0.5, dims).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


ROWS, IMAGE = (2, 3, 8), (1, 4, 6, 6)
# Operator: (dims of what it reads, its other inputs in order, attributes); None: an optional input.
OPERATORS = {
    "Add": (ROWS, [normal(8)], {}),
    "ArgMax": (ROWS, [], {"axis": 2}),
    "AveragePool": (IMAGE, [], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "BatchNormalization": (IMAGE, [1 + normal(4), normal(4), normal(4), 1 + np.abs(normal(4))], {}),
    "Clip": (ROWS, [np.float32(0), np.float32(6)], {}),
    "Concat": (ROWS, [normal(2, 3, 8)], {"axis": 1}),
    "Conv": (IMAGE, [normal(5, 4, 3, 3), normal(5)], {}),
    "ConvTranspose": (IMAGE, [normal(4, 5, 3, 3), normal(5)], {}),
    "CumSum": (ROWS, [ints(1)[0]], {}),
    "Flatten": (ROWS, [], {}),
    "Gather": (ROWS, [ints(1, 0)], {"axis": 1}),
    "GatherElements": (ROWS, [np.zeros((2, 2, 8), np.int64)], {"axis": 1}),
    "Gemm": ((3, 8), [normal(5, 8), normal(5)], {"transB": 1}),
    "GlobalAveragePool": (IMAGE, [], {}),
    "InstanceNormalization": (IMAGE, [1 + normal(4), normal(4)], {}),
    "LayerNormalization": (ROWS, [1 + normal(8), normal(8)], {}),
    "LeakyRelu": (ROWS, [], {"alpha": 0.2}),
    "MatMul": (ROWS, [normal(8, 5)], {}),
    "MaxPool": (IMAGE, [], {"kernel_shape": [2, 2]}),
    "Mul": (ROWS, [normal(8)], {}),
    "Pad": (IMAGE, [ints(0, 0, 1, 1, 0, 0, 0, 0)], {}),
    "Relu": (ROWS, [], {}),
    "Reshape": (ROWS, [ints(2, 24)], {}),
    "Resize": (IMAGE, [None, np.array([1, 1, 2, 2], np.float32)],
               {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    "Sigmoid": (ROWS, [], {}),
    "Slice": (ROWS, [ints(0), ints(2), ints(1)], {}),
    "Softmax": (ROWS, [], {"axis": 1}),
    "Split": (ROWS, [ints(3, 5)], {"axis": 2}),
    "Squeeze": ((1, 3, 8), [ints(0)], {}),
    "TopK": (ROWS, [ints(2)], {}),
    "Transpose": (ROWS, [], {"perm": [0, 2, 1]}),
    "Unsqueeze": (ROWS, [ints(0)], {}),
    "Where": (ROWS, [normal(2, 3, 8)], {}),
    "Tanh": (ROWS, [], {}),  # no row
}  # fmt: skip
# Others that a row has its own rules for.
VARIANTS = {
    "Pad, reflect": ("Pad", IMAGE, [ints(0, 0, 1, 1, 0, 0, 0, 0)], {"mode": "reflect"}),
    "Pad with a number": ("Pad", IMAGE, [ints(0, 0, 1, 1, 0, 0, 0, 0), np.float32(0.5)], {}),
    "Softmax, the last": ("Softmax", ROWS, [], {"axis": -1}),
    "MatMul by a vector": ("MatMul", ROWS, [normal(8)], {}),
    "MatMul of batches": ("MatMul", ROWS, [normal(2, 8, 5)], {}),
    "a depthwise Conv": ("Conv", IMAGE, [normal(4, 1, 3, 3)], {"group": 4}),
    "Relu6": ("Clip", ROWS, [np.float32(-1), np.float32(1)], {}),
}
CASES = {**{op: (op, *rest) for op, rest in OPERATORS.items()}, **VARIANTS}
ELSEWHERE = {"DequantizeLinear", "QuantizeLinear", "EmbedLayerNormalization"}  # never; and below


def test_every_row_has_a_case():
    rows = set(re.findall(r'^STATIC_OP\("(\w+)"', TABLE.read_text(), re.M))
    assert rows - ELSEWHERE == set(OPERATORS) - {"Tanh"}


def model_of(case):
    """x ─ Add ─ the operator ─ Mul: what it is given is quantized, and what it gives."""
    op, dims, others, attributes = CASES[case]
    tensors, inputs = {"c": normal(*dims), "d": np.float32(1.5)}, ["h"]
    for i, x in enumerate(others):
        inputs.append("" if x is None else f"i{i}")
        if x is not None:
            tensors[f"i{i}"] = x
    if op == "Where":
        tensors["mask"] = normal(*dims) > 0
        inputs = ["mask", *inputs]
    outputs = ["o", "p"] if op in ("Split", "TopK") else ["o"]
    nodes = [helper.make_node("Add", ["x", "c"], ["h"], "before"), helper.make_node(op, inputs, outputs, "it", **attributes)]
    y = ["o", "p"][1:] if op == "TopK" else []
    if op != "ArgMax":
        nodes.append(helper.make_node("Mul", ["o", "d"], ["y"], "behind"))
        y.append("y")
    kind = {"p": INT64, "o": INT64}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, dims)],
        [helper.make_tensor_value_info(v, kind.get(v, FLOAT), None) for v in y or ["o"]],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model), {"x": normal(*dims)}


def runs(path, feeds):
    """As it stands and optimized, in the tests' own runtime. (1.32 alone runs a batch with a scale a channel.)"""
    try:
        for optimized in (False, True):
            quantizers.outputs(path, feeds, optimized)
    except Exception:  # the runtime raises what it likes
        return False
    return True


CODES = QuantFormat.QOperator
FORMS = {
    "qdq": Setup("uint8", per_channel=True),
    "qdq, int8": Setup(),
    "qdq, listed": Setup("uint8", ops=("Add", "Mul")),
    "qoperator": Setup("uint8", per_channel=True, form=CODES),
    "qoperator, int8": Setup(form=CODES),
    "qoperator, forced": Setup("uint8", form=CODES, extra={"ForceQuantizeNoInputCheck": True}),
}


def forms_of(case):
    """All; ordinarily one of each kind, others for each case."""
    return [*FORMS] if ALL else [*FORMS][[*CASES].index(case) % 3 :: 3]


def compare_forms(weir, folder, model, feeds, op, forms, tool=quantizers.HERE):
    source, cache, made, out = (folder / n for n in ("m.onnx", "c.json", "t.onnx", "o.onnx"))
    onnx.save(model, source)
    for form in forms:
        setup = FORMS[form]
        setup = Setup(**{**vars(setup), "ops": (*setup.ops, op)}) if setup.ops else setup
        failure = tool(theirs, source, made, cache, setup, [feeds])
        weir("static", source, out, "--force", *flags(setup, cache, folder, tool))
        differences = [failure] if failure else alike(out, made)
        if differences:
            print(op, form, failure or "what the tool writes does not run")
            assert failure or not runs(made, feeds), (form, differences)
            assert runs(out, feeds), (form, differences)


@pytest.mark.parametrize("case", CASES)
def test_an_operator_as_the_tool_quantizes_it(weir, tmp_path, case):
    model, feeds = model_of(case)
    compare_forms(weir, tmp_path, model, feeds, CASES[case][0], forms_of(case))


@pytest.mark.parametrize("case", CASES if ALL else [*CASES][::5])
def test_an_operator_as_the_newest_quantizes_it(weir, tmp_path, newest, case):
    model, feeds = model_of(case)
    compare_forms(weir, tmp_path, model, feeds, CASES[case][0], forms_of(case), newest)


def embedding(mask, outputs):
    """Words, their places and segments, added and normalized: com.microsoft's, whose tables are weights."""
    tensors = {"words": normal(20, 8), "places": normal(4, 8), "segments": normal(2, 8), "gain": 1 + normal(8), "shift": normal(8),
               "d": np.float32(1.5)}  # fmt: skip
    ids = {"ids": np.array([[1, 19, 0, 3]], np.int32), "parts": np.array([[0, 0, 1, 1]], np.int32)}
    ids |= {"mask": np.array([[1, 1, 1, 0]], np.int32)} if mask else {}
    inputs = ["ids", "parts", "words", "places", "segments", "gain", "shift", *(["mask"] if mask else [])]
    nodes = [helper.make_node("EmbedLayerNormalization", inputs, ["e", "n", "sum"][:outputs], "it", domain="com.microsoft", epsilon=1e-5),
             helper.make_node("Mul", ["e", "d"], ["y"], "behind")]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(n, TensorProto.INT32, [1, 4]) for n in ids],
        [helper.make_tensor_value_info("y", FLOAT, [1, 4, 8])], [numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()],
        value_info=[helper.make_tensor_value_info(n, FLOAT, [1, 4, 8]) for n in ("e", "sum")[: outputs - 1]])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), ids


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("outputs", [2, 3])
def test_embeddings_as_the_tool_quantizes_them(weir, tmp_path, mask, outputs):
    model, feeds = embedding(mask, outputs)
    compare_forms(weir, tmp_path, model, feeds, "EmbedLayerNormalization", FORMS)
    # Without --compat it is asked for, and near what the floats give.
    out = tmp_path / "own.onnx"
    weir("static", tmp_path / "m.onnx", out, "--ranges", tmp_path / "c.json", "--format", "qoperator", "--op-types", "EmbedLayerNormalization")
    assert [n.op_type for n in onnx.load(out).graph.node] == ["QEmbedLayerNormalization" if outputs == 2 else "EmbedLayerNormalization", "Mul"]
    run = lambda path: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]  # noqa: E731
    want, got = run(tmp_path / "m.onnx"), run(out)
    assert np.linalg.norm(got - want) < 0.02 * np.linalg.norm(want)
