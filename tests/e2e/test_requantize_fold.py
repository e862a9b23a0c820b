"""requantize: constants behind QuantizeLinear become stored codes, and the model computes what it computed, bit for bit, in ONNX Runtime without
optimization: models of PyTorch's quantization-aware training (support/export_qat.py), and graphs of one weight in every type and layout."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import DATA

pytestmark = pytest.mark.in_memory

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def fold(weir, folder, model, *words, name="out.onnx"):
    """The result, and what its report says of the nodes."""
    source, out = folder / f"source-{name}", folder / name
    onnx.save(model, source)
    report = weir.report("requantize", source, out, *words)
    weir("check", out)
    return onnx.load(out), [(s["op_type"], s["status"], s["reason"]) for p in report["passes"] for s in p["nodes"]]


def quantized_constants(model):
    """QuantizeLinear nodes whose input is known before the model runs."""
    known = {t.name for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" or (node.input and all(x in known or not x for x in node.input)):
            known.update(node.output)
    return [n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] in known]


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


# ---- PyTorch -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, weights", [("fake_quant", 3), ("converted", 0)])
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_exports_of_pytorch(weir, tmp_path, name, weights, form):
    source = onnx.load(DATA / "qat" / f"{name}.onnx")
    result, sites = fold(weir, tmp_path, source, "--to", form)
    assert len(quantized_constants(source)) == weights and not quantized_constants(result)
    assert sum(s == ("QuantizeLinear", "converted", "folded") for s in sites) >= weights
    # What PyTorch puts between codes and their DequantizeLinear, and makes zero points of, is gone; its Clips to 127 are not.
    left = {n.op_type for n in result.graph.node}
    assert not left & {"Cast", "ConstantOfShape", "Identity"}
    assert ("Clip" in left) == (name == "fake_quant")
    floats = {t.name for t in result.graph.initializer if t.data_type == FLOAT and len(t.dims) > 1}
    assert not floats
    for seed in range(3):
        feeds = {"x": np.random.default_rng(seed).standard_normal((2, 3, 8, 8)).astype(np.float32)}
        (want,), (got,) = run(source, feeds), run(result, feeds)
        if form == "qdq":
            same_bits(want, got)
        else:  # operators on codes round once where the float ones round twice: a step of the output, if at all
            steps = sorted(set(np.diff(np.unique(want)).tolist()))
            assert np.abs(want - got).max() <= steps[0] * 1.001


# ---- one weight ----------------------------------------------------------------------------------

TYPES = {
    "int8": (TensorProto.INT8, 13, (-128, 127)),
    "uint8": (TensorProto.UINT8, 13, (0, 255)),
    "int16": (TensorProto.INT16, 21, (-32768, 32767)),
    "uint16": (TensorProto.UINT16, 21, (0, 65535)),
    "int4": (TensorProto.INT4, 21, (-8, 7)),
    "uint4": (TensorProto.UINT4, 21, (0, 15)),
    "float8e4m3fn": (TensorProto.FLOAT8E4M3FN, 19, None),
    "float8e5m2": (TensorProto.FLOAT8E5M2, 19, None),
}


def weight(seed, dims, dtype=np.float32):
    """Codes far inside, ties between two of them, and elements out of the range."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(dims) * 3
    ties = rng.random(dims) < 0.3
    w[ties] = (rng.integers(-40, 40, dims)[ties] + 0.5) / 16
    w[rng.random(dims) < 0.05] *= 1e3
    return w.astype(dtype)


def parameters(seed, kind, n, dtype):
    rng = np.random.default_rng(seed)
    number, _, codes = TYPES[kind]
    scales = (2.0 ** rng.integers(-6, 0, n) * rng.choice([1, 1.3], n)).astype(dtype)
    zeros = np.zeros(n, int) if codes is None or seed % 3 == 0 else rng.integers(codes[0], codes[1] + 1, n)
    return scales, helper.make_tensor("z", number, np.shape(zeros), np.ravel(zeros).tolist())


def one_weight(kind, layout, seed, dtype=np.float32):
    dims = (6, 10, 7)
    w = weight(seed, dims, dtype)
    attrs, n = {}, ()
    if layout == "one":
        n = (1,)
    elif layout.startswith("axis"):
        axis = int(layout[4:])
        attrs, n = {"axis": axis}, (dims[axis],)
    elif layout == "blocks":
        attrs, n = {"axis": 1, "block_size": 4}, (6, 3, 7)
    scales, zeros = parameters(seed, kind, n, dtype)
    inits = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(scales.reshape(n), "s"), zeros]
    nodes = [helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"], **attrs), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attrs)]
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)
    opset = max(TYPES[kind][1], 21 if layout == "blocks" else 19 if dtype == np.float16 else 13)
    return helper.make_model(helper.make_graph(nodes, "g", [], [out], inits), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


LAYOUTS = ["scalar", "one", "axis0", "axis1", "axis-1", "blocks"]


@pytest.mark.parametrize("kind", TYPES)
def test_codes_are_those_of_onnxruntime(weir, tmp_path, kind):
    for seed, layout in enumerate(LAYOUTS):
        for dtype in (np.float32, np.float16):
            model = one_weight(kind, layout, seed, dtype)
            result, sites = fold(weir, tmp_path, model, "--force", name=f"{layout}-{dtype.__name__}.onnx")
            assert sites == [("QuantizeLinear", "converted", "folded")]
            assert [n.op_type for n in result.graph.node] == ["DequantizeLinear"]
            assert {t.name for t in result.graph.initializer} == {"w_quantized", "s", "z"}
            same_bits(run(model, {})[0], run(result, {})[0])


# ---- roundabout ways -----------------------------------------------------------------------------


def roundabout():
    """A weight and its parameters behind Identity, Cast and ConstantOfShape, used twice; a bias behind ConstantOfShape."""
    w = weight(1, (4, 6))
    inits = [
        numpy_helper.from_array(np.float32([0.1, 0.2, 0.3, 0.4]), "s"),
        numpy_helper.from_array(np.int32([3, -3, 0, 9]), "z32"),
        numpy_helper.from_array(np.int64([4]), "four"),
        numpy_helper.from_array(np.float32(0.05), "t"),
    ]
    node = helper.make_node
    nodes = [
        node("Constant", [], ["c"], value=numpy_helper.from_array(w)),
        node("Identity", ["c"], ["c1"]),
        node("Cast", ["c1"], ["c2"], to=FLOAT),
        node("Cast", ["z32"], ["z"], to=TensorProto.INT8),
        node("Identity", ["z"], ["z1"]),
        node("QuantizeLinear", ["c2", "s", "z"], ["q"], axis=0),
        node("DequantizeLinear", ["q", "s", "z1"], ["d"], axis=0),
        node("QuantizeLinear", ["c", "s", "z1"], ["q2"], axis=0),
        node("DequantizeLinear", ["q2", "s", "z"], ["d2"], axis=0),
        node("ConstantOfShape", ["four"], ["b"], value=helper.make_tensor("v", FLOAT, [1], [0.31])),
        node("QuantizeLinear", ["b", "t"], ["qb"]),
        node("Cast", ["qb"], ["qc"], to=TensorProto.UINT8),
        node("Clip", ["qc", "", "top"], ["qd"]),
        node("DequantizeLinear", ["qd", "t"], ["db"]),
        node("MatMul", ["x", "d"], ["p"]),
        node("MatMul", ["x", "d2"], ["p2"]),
        node("Add", ["p", "p2"], ["sum"]),
        node("Mul", ["x", "db"], ["xb"]),
    ]
    inits.append(numpy_helper.from_array(np.uint8(255), "top"))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", FLOAT, [3, 4])], [value("sum", FLOAT, [3, 6]), value("xb", FLOAT, [3, 4])], inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_roundabout_ways(weir, tmp_path):
    model = roundabout()
    result, sites = fold(weir, tmp_path, model)
    assert sites.count(("QuantizeLinear", "converted", "folded")) == 3
    assert [n.op_type for n in result.graph.node if n.op_type in ("QuantizeLinear", "Cast", "Clip", "ConstantOfShape")] == []
    codes = [t for t in result.graph.initializer if t.name.endswith("_quantized")]
    assert len(codes) == 2  # the weight's, once for both, and the bias's
    feeds = {"x": np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)}
    for a, b in zip(run(model, feeds), run(result, feeds)):
        same_bits(a, b)


def test_a_narrow_clip_stays(weir, tmp_path):
    model = roundabout()
    next(t for t in model.graph.initializer if t.name == "top").CopyFrom(numpy_helper.from_array(np.uint8(5), "top"))
    result, _ = fold(weir, tmp_path, model)
    assert [n.op_type for n in result.graph.node].count("Clip") == 1
    feeds = {"x": np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)}
    for a, b in zip(run(model, feeds), run(result, feeds)):
        same_bits(a, b)


# ---- what stays ----------------------------------------------------------------------------------


def stays(change, kind="int8"):
    model = one_weight(kind, "axis0", 4)
    change(model)
    return model


def computed_scale(model):
    model.graph.input.append(helper.make_tensor_value_info("s", FLOAT, [6]))
    del model.graph.initializer[1]


def overridable(model):
    model.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [6, 10, 7]))


def wraps(model):
    model.graph.node[0].attribute.append(helper.make_attribute("saturate", 0))


@pytest.mark.parametrize(
    "change, kind, said",
    [
        (computed_scale, "int8", [("QuantizeLinear", "skipped", "parameters")]),
        (overridable, "int8", []),
        (wraps, "float8e4m3fn", [("QuantizeLinear", "skipped", "attributes")]),
    ],
)
def test_what_stays(weir, tmp_path, change, kind, said):
    model = stays(change, kind)
    result, sites = fold(weir, tmp_path, model)
    assert sites == said
    assert [n.op_type for n in result.graph.node] == ["QuantizeLinear", "DequantizeLinear"]


def test_excluded(weir, tmp_path):
    model = one_weight("int8", "scalar", 4)
    model.graph.node[0].name = "first"
    result, _ = fold(weir, tmp_path, model, "--exclude", "first")
    assert [n.op_type for n in result.graph.node] == ["QuantizeLinear", "DequantizeLinear"]


def test_elements_that_are_not_finite_are_refused(weir, tmp_path):
    model = one_weight("int8", "scalar", 4)
    w = weight(4, (6, 10, 7))
    w[2, 3, 1] = np.nan
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w"))
    onnx.save(model, tmp_path / "in.onnx")
    done = weir("requantize", tmp_path / "in.onnx", tmp_path / "out.onnx", code=1)
    assert "[2,3,1] of the weight is not finite" in done.err
    assert not (tmp_path / "out.onnx").exists()


# ---- judged by the program itself ----------------------------------------------------------------


def test_verify_and_diff(weir, tmp_path):
    source, out, log = DATA / "qat" / "fake_quant.onnx", tmp_path / "out.onnx", tmp_path / "edits.jsonl"
    weir("requantize", source, out, "--edit-log", log)
    assert "verified" in weir("verify", source, "--edits", log).said
    for seed, layout in enumerate(LAYOUTS):
        model = one_weight("uint8", layout, seed)
        path, folded = tmp_path / f"{layout}.onnx", tmp_path / f"{layout}-folded.onnx"
        onnx.save(model, path)
        weir("requantize", path, folded)
        said = weir("diff", path, folded, "--weights", "values", code=1).out
        assert "QuantizeLinear" in said and "the same values" in said
