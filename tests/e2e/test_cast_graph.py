"""`cast --graph`: the whole graph computes in float16, and Casts stand at borders only.

The runtime judges: real exports load, and what they compute is what they computed, up to the rounding of
float16. What the runtime has no kernels for is in a table; a control arm shows that it does fail.
"""

import json
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

EXPORTS = pathlib.Path(__file__).parents[1] / "data" / "exports"
MODELS = sorted(path.name for path in EXPORTS.glob("*.onnx") if "-eager-dynamo" not in path.name)
TOLERANCE = 3e-3  # of the largest value; float16 has 2^-11 an operation


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def graphs(graph):
    stack = [graph]
    while stack:
        at = stack.pop()
        yield at
        stack += [a.g for node in at.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def casts(path):
    return sum(node.op_type == "Cast" for graph in graphs(onnx.load(path).graph) for node in graph.node)


def convert(weir, source, out, *options, to="float16", code=0):
    done = weir("cast", source, out, "--to", to, "--graph", *options, code=code)
    if code == 0:
        onnx.checker.check_model(out, full_check=True)
    return done


def given(name, which="second"):
    arrays = np.load(EXPORTS / f"{name.split('-')[0]}.npz")
    inputs = {key.split(".", 1)[1]: arrays[key] for key in arrays.files if key.startswith(which + ".")}
    expected = inputs.pop("y")
    return inputs, expected


def close(got, expected):
    return np.abs(got.astype(np.float64) - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.parametrize("name", MODELS)
def test_exports_compute_in_float16(weir, tmp_path, name):
    out = tmp_path / "half.onnx"
    convert(weir, EXPORTS / name, out, "--on-overflow", "clip")
    model = onnx.load(out)
    assert not any(t.data_type == TensorProto.FLOAT and np.prod(t.dims) > 8 for t in model.graph.initializer)
    assert casts(out) <= casts(EXPORTS / name)
    inputs, expected = given(name)
    narrow = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in inputs.items()}
    got = session(out).run(None, narrow)[0]
    assert got.dtype == np.float16 and close(got, expected)


@pytest.mark.parametrize("name", ["cnn-kept-dynamo-18.onnx", "gpt2-sdpa-torchscript-14.onnx"])
def test_keep_io_and_back(weir, tmp_path, name):
    half, back = tmp_path / "half.onnx", tmp_path / "back.onnx"
    convert(weir, EXPORTS / name, half, "--on-overflow", "clip", "--keep-io")
    inputs, expected = given(name)
    got = session(half).run(None, inputs)[0]
    assert got.dtype == np.float32 and close(got, expected)
    assert not np.array_equal(got, expected)  # it did compute in float16
    convert(weir, half, back, to="float32")
    types = {t.data_type for t in onnx.load(back).graph.initializer}
    assert TensorProto.FLOAT16 not in types and casts(back) <= casts(EXPORTS / name)
    assert close(session(back).run(None, inputs)[0], expected)


def one_node(folder, op, attributes=(), opset=18, shapes=((2, 3),), made=None, **more):
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes)]
    weights = [numpy_helper.from_array(v, k) for k, v in more.items()]
    node = helper.make_node(op, names + list(more), ["y"], "only", **dict(attributes))
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, made or shapes[0])
    graph = helper.make_graph([node], "g", inputs, [output], weights)
    path = folder / "one.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return path


def test_operators_stay_where_the_runtime_has_no_kernel(weir, tmp_path):
    """A ScatterElements that adds; control arm: the runtime does not run it in float16."""
    path, out = tmp_path / "one.onnx", tmp_path / "half.onnx"
    at = numpy_helper.from_array(np.array([[1, 1, 0]], np.int64), "at")
    node = helper.make_node("ScatterElements", ["x", "at", "u"], ["y"], "only", reduction="add")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (2, 3)), ("u", (1, 3)), ("y", (2, 3)))]
    graph = helper.make_graph([node], "g", values[:2], values[2:], [at])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path)
    convert(weir, path, out)
    feeds = {"x": np.ones((2, 3), np.float16), "u": np.full((1, 3), 2, np.float16)}
    assert session(out).run(None, feeds)[0].tolist() == [[1, 1, 3], [3, 3, 1]]
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, path)
    with pytest.raises(Exception, match="MLFloat16"):
        session(path).run(None, feeds)


def test_scales_of_resize_stay(weir, tmp_path):
    path = one_node(tmp_path, "Resize", {"mode": "linear"}, shapes=((1, 1, 4, 4), (8,)),
                    made=(1, 1, 8, 8), s=np.array([1, 1, 2, 2], np.float32))
    out = tmp_path / "half.onnx"
    convert(weir, path, out, "--keep-io")
    scales = {t.name: t.data_type for t in onnx.load(out).graph.initializer}
    assert scales == {"s": TensorProto.FLOAT}
    x = np.random.default_rng(0).standard_normal((1, 1, 4, 4)).astype(np.float32)
    feeds = {"x0": x, "x1": np.zeros(8, np.float32)}
    assert close(session(out).run(None, feeds)[0], session(path).run(None, feeds)[0])


def test_bodies_and_functions(weir, tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        g (float[2,4] x, bool c, int64 n) => (float[2,4] y, float[2,4] z, float[5,2,4] all)
        <float[4,4] w>
        {
          h = MatMul(x, w)
          y = If(c) <
            then_branch = t () => (float[2,4] a) { a = local.act(h) },
            else_branch = e () => (float[2,4] b) { q = Constant<value_float = 0.5>() b = Mul(h, q) } >
          z, all = Loop(n, c, h) <
            body = l (int64 i, bool k, float[2,4] s) => (bool ko, float[2,4] so, float[2,4] scan) {
              ko = Identity(k) f = Cast<to = 1>(i) so = Add(s, f) scan = local.act(so) } >
        }
        <domain: "local", opset_import: ["" : 18]>
        act (p) => (r) { half = Constant<value_float = 0.5>() m = Mul(p, half) r = Tanh(m) }
        """
    )
    w = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    path, out = tmp_path / "in.onnx", tmp_path / "half.onnx"
    onnx.save(model, path)
    convert(weir, path, out, "--keep-io")
    assert casts(out) == casts(path) + 4  # one input, three outputs
    x = np.random.default_rng(4).standard_normal((2, 4)).astype(np.float32)
    for c in (False, True):
        feeds = {"x": x, "c": np.array(c), "n": np.array(5, np.int64)}
        for got, expected in zip(session(out).run(None, feeds), session(path).run(None, feeds)):
            assert got.shape == expected.shape and (got.size == 0 or close(got, expected))


def test_values_that_are_no_float_stay(weir, tmp_path):
    path = one_node(tmp_path, "ArgMax", {"axis": 1}, made=(2, 1))
    out = tmp_path / "half.onnx"
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(model, path)
    convert(weir, path, out)
    types = {v.name: v.type.tensor_type.elem_type for v in (*onnx.load(out).graph.input, *onnx.load(out).graph.output)}
    assert types == {"x0": TensorProto.FLOAT16, "y": TensorProto.INT64}


def test_overflow_is_refused_or_clipped(weir, tmp_path):
    path = one_node(tmp_path, "Add", w=np.array([1e6, -3.4028235e38, 1e-12], np.float32))
    out = tmp_path / "half.onnx"
    assert "1 " in convert(weir, path, out, code=1).err
    convert(weir, path, out, "--on-overflow", "clip")
    clipped = numpy_helper.to_array(onnx.load(out).graph.initializer[0])
    assert clipped.tolist()[:2] == [65504, -65504]


def test_bounds_and_epsilons_need_no_clip(weir, tmp_path):
    path = one_node(tmp_path, "Clip", low=np.float32(-3.4028235e38), high=np.float32(1e-12))
    out = tmp_path / "half.onnx"
    convert(weir, path, out)
    values = {t.name: float(numpy_helper.to_array(t)) for t in onnx.load(out).graph.initializer}
    assert values == {"low": -65504, "high": 2**-24}


def test_kept_nodes_are_reported(weir, tmp_path):
    path = one_node(tmp_path, "Softmax")
    out, report = tmp_path / "half.onnx", tmp_path / "report.json"
    convert(weir, path, out, "--keep-op", "Softmax", "--report-json", report)
    assert "kept_operator" in report.read_text()
    assert json.loads(report.read_text())
    assert casts(out) == 2


@pytest.mark.parametrize("name", ["parakeet-dynamo", "parakeet-torchscript"])
def test_parakeet(weir, tmp_path, name):
    path, out = EXPORTS.parent / name / "encoder-model.onnx", tmp_path / "half.onnx"
    convert(weir, path, out, "--keep-io", "--on-overflow", "clip")
    assert casts(out) <= casts(path) + 3
    rng, feeds = np.random.default_rng(5), {}
    for value in session(path).get_inputs():
        dims = [dim if isinstance(dim, int) else 1 if i == 0 else 80 for i, dim in enumerate(value.shape)]
        feeds[value.name] = np.ones(dims, bool) if "bool" in value.type else np.full(dims, 80, np.int64)
        if "float" in value.type:
            feeds[value.name] = rng.standard_normal(dims).astype(np.float32)
    for got, expected in zip(session(out).run(None, feeds), session(path).run(None, feeds)):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        assert np.abs(got.astype(np.float64) - expected).max() <= 2 * TOLERANCE * np.abs(expected).max()
