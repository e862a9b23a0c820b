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
from onnx.reference import ReferenceEvaluator

import runtimes

pytestmark = pytest.mark.in_memory

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


def test_a_mask_of_lowest_numbers_needs_no_clip(weir, tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[2,3] x) => (float[2,3] y)
        { s = Shape(x) m = ConstantOfShape<value = float[1] {-3.4028235e38}>(s) y = Max(x, m) }"""
    )
    path, out = tmp_path / "in.onnx", tmp_path / "half.onnx"
    onnx.save(model, path)
    convert(weir, path, out)
    x = np.array([[-np.inf, -1, 0], [1, 2, 3]], np.float16)
    assert session(out).run(None, {"x": x})[0].tolist() == [[-65504, -1, 0], [1, 2, 3]]


def value(name, *dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def masked(kind, number):
    """A model in which the number bounds or masks: the nodes, inputs other than x, constants."""
    node, far = helper.make_node, ("far", np.array(number, np.float32))
    scores = [node("Softmax", ["s"], ["y"])]
    keep, flags = [value("keep", 2, 4, dtype=TensorProto.BOOL)], [value("flags", 2, 4)]
    rows = np.where(np.tri(4)[1:3] > 0, 0, number).astype(np.float32)
    return {
        "clip": ([node("Clip", ["x", "low", "far"], ["y"])], [], [("low", -far[1]), far]),
        "max": ([node("Max", ["x", "far"], ["y"])], [], [far]),
        "pad": ([node("Pad", ["x", "pads", "far"], ["p"]), node("MaxPool", ["p"], ["y"], kernel_shape=[3])], [], [("pads", np.array([0, 0, 1, 0, 0, 1])), far]),
        "where": ([node("Where", ["keep", "x", "far"], ["s"]), *scores], keep, [far]),
        "add": ([node("Add", ["x", "rows"], ["s"]), *scores], [], [("rows", rows)]),
        "sum": ([node("Sum", ["x", "rows", "x"], ["s"]), *scores], [], [("rows", rows)]),
        "two": ([node("Add", ["x", "rows"], ["a"]), node("Add", ["a", "rows"], ["s"]), *scores], [], [("rows", rows)]),
        "mul": ([node("Sub", ["one", "flags"], ["away"]), node("Mul", ["away", "far"], ["m"]), node("Add", ["x", "m"], ["s"]), *scores], flags, [("one", np.float32(1)), far]),
        "where and add": ([node("Where", ["keep", "zero", "far"], ["w"]), node("Unsqueeze", ["w", "axis"], ["u"]), node("Squeeze", ["u", "axis"], ["m"]), node("Add", ["m", "rows"], ["both"]), node("Add", ["x", "both"], ["s"]), *scores], keep, [("zero", np.float32(0)), ("axis", np.array([0])), ("rows", rows), far]),
        "subtract": ([node("Sub", ["one", "flags"], ["away"]), node("Mul", ["away", "far"], ["m"]), node("Sub", ["x", "m"], ["s"]), *scores], flags, [("one", np.float32(1)), ("far", -far[1])]),
        "less one": ([node("Sub", ["flags", "one"], ["away"]), node("Mul", ["away", "far"], ["m"]), node("Add", ["x", "m"], ["s"]), *scores], flags, [("one", np.float32(1)), ("far", -far[1])]),
        "divide": ([node("Where", ["keep", "x", "far"], ["w"]), node("Div", ["w", "eight"], ["s"]), *scores], keep, [("eight", np.float32(8)), far]),
        "exponentials": ([node("Where", ["keep", "x", "far"], ["s"]), node("ReduceMax", ["s", "last"], ["most"]), node("Sub", ["s", "most"], ["d"]), node("Exp", ["d"], ["e"]), node("ReduceSum", ["e", "last"], ["sum"]), node("Div", ["e", "sum"], ["y"])], keep, [("last", np.array([-1])), far]),
        "layers": ([n for i in range(80) for n in (node("Add", [f"x{i}" if i else "x", "rows"], [f"s{i}"]), node("Softmax", [f"s{i}"], [f"x{i + 1}" if i < 79 else "y"]))], [], [("rows", rows)]),
        "fill": ([node("Shape", ["x"], ["dims"]), node("ConstantOfShape", ["dims"], ["f"], value=numpy_helper.from_array(np.array([number], np.float32))), node("Where", ["keep", "x", "f"], ["s"]), *scores], keep, []),
    }[kind]


def float16_alone(path, feeds):
    """What a device computes that has float16 alone: by onnx.reference, whose arrays are of the types that the model says."""
    return ReferenceEvaluator(str(path)).run(None, feeds)[0]


@pytest.mark.parametrize("number", [-65504, -1e5, -1e9, -1e20, -3.4028235e38])
@pytest.mark.parametrize("kind", ["clip", "max", "pad", "where", "add", "sum", "two", "mul", "where and add", "fill", "subtract", "less one", "divide", "exponentials", "layers"])
def test_bounds_and_masks_saturate(weir, tmp_path, kind, number):
    number = -number if kind == "clip" else number
    nodes, more, tensors = masked(kind, number)
    dims = (1, 2, 4) if kind == "pad" else (2, 4)
    constants = [numpy_helper.from_array(np.asarray(x), name) for name, x in tensors]
    graph = helper.make_graph(nodes, "g", [value("x", *dims), *more], [value("y", *([None] * len(dims)))], constants)
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    convert(weir, path, out, "--verify")
    rng = np.random.default_rng(4)
    x = rng.normal(size=dims).astype(np.float32)
    feeds = {"x": x, "keep": np.array([[1, 0, 1, 0], [0, 1, 1, 1]], bool), "flags": np.array([[1, 0, 1, 0], [0, 0, 0, 1]], np.float32)}
    feeds = {name: feeds[name] for name in ["x", *(m.name for m in more)]}
    wanted = session(path).run(None, feeds)[0]
    got = float16_alone(out, {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in feeds.items()})
    assert got.dtype == np.float16 and np.isfinite(got).all()
    np.testing.assert_allclose(got, wanted, atol=2e-3)


def numbers(where):
    """Nodes that read a constant as a number: it must not become another one."""
    node = helper.make_node
    rows = np.where(np.tri(4)[1:3] > 0, 0, -1e9).astype(np.float32)
    million, small = np.float32(1e6), ("small", np.float32(1e-5))
    return {
        "number": ([node("Mul", ["x", "c"], ["y"])], np.float32(-1e9), []),
        "alike": ([node("Min", ["x", "c"], ["y"])], np.array([1e5, 2e5, 0, 1], np.float32), []),
        "read twice": ([node("Min", ["x", "c"], ["m"]), node("Div", ["m", "c"], ["y"])], np.float32(1e9), []),
        "chosen": ([node("Where", ["keep", "c", "x"], ["w"]), node("Mul", ["w", "small"], ["y"])], million, [small]),
        "the larger": ([node("Max", ["c", "x"], ["w"]), node("Mul", ["w", "small"], ["y"])], million, [small]),
        "filled": ([node("Pad", ["x", "pads", "c"], ["w"]), node("Mul", ["w", "small"], ["p"]), node("MaxPool", ["p"], ["y"], kernel_shape=[3])], million, [small, ("pads", np.array([0, 0, 1, 0, 0, 1]))]),
        "whole": ([node("Cast", ["c"], ["i"], to=TensorProto.INT64), node("Min", ["ids", "i"], ["m"]), node("Cast", ["m"], ["y"], to=TensorProto.FLOAT)], million, []),
        "double": ([node("Cast", ["c"], ["d"], to=TensorProto.DOUBLE), node("Cast", ["ids"], ["e"], to=TensorProto.DOUBLE), node("Min", ["e", "d"], ["m"]), node("Mul", ["m", "least"], ["n"]), node("Cast", ["n"], ["y"], to=TensorProto.FLOAT)], million, [("least", np.float64(1e-5))]),
        "a mask that is multiplied": ([node("Add", ["x", "c"], ["s"]), node("Softmax", ["s"], ["p"]), node("Mul", ["x", "c"], ["m"]), node("Add", ["p", "m"], ["y"])], rows, []),
        "half of a mask": ([node("Add", ["x", "c"], ["s"]), node("Softmax", ["s"], ["p"]), node("Split", ["c"], ["g", "h"], num_outputs=2), node("Mul", ["h", "small"], ["m"]), node("Add", ["p", "m"], ["y"])], rows, [small]),
        "a mask that is shown": ([node("Add", ["x", "c"], ["y"]), node("Softmax", ["y"], ["p"])], rows, []),
        "a mask that is scaled away": ([node("Add", ["x", "c"], ["s"]), node("Mul", ["s", "small"], ["t"]), node("Softmax", ["t"], ["y"])], rows, [("small", np.float32(1 / 4096))]),
        "a temperature": ([node("Mul", ["x", "c"], ["s"]), node("Softmax", ["s"], ["y"])], million, []),
        "added from above": ([node("Mul", ["x", "c"], ["s"]), node("Add", ["s", "x"], ["t"]), node("Softmax", ["t"], ["y"])], million, []),
        "a factor of a layer": ([node("Softmax", ["x"], ["p"]), node("Mul", ["p", "c"], ["s"]), node("Add", ["s", "x"], ["t"]), node("Softmax", ["t"], ["y"])], -million, []),
    }[where]


NUMBERS = ["number", "alike", "read twice", "chosen", "the larger", "filled", "whole", "double", "a mask that is multiplied", "half of a mask", "a mask that is shown", "a mask that is scaled away", "a temperature", "added from above", "a factor of a layer"]


@pytest.mark.parametrize("where", NUMBERS)
def test_numbers_do_not_saturate(weir, tmp_path, where):
    nodes, constant, more = numbers(where)
    dims = (1, 2, 4) if where == "filled" else (2, 4)
    read = {name for n in nodes for name in n.input}
    inputs = [value("x", *dims), value("keep", *dims, dtype=TensorProto.BOOL), value("ids", *dims, dtype=TensorProto.INT64)]
    tensors = [numpy_helper.from_array(np.asarray(x), name) for name, x in [("c", constant), *more]]
    graph = helper.make_graph(nodes, "g", [i for i in inputs if i.name in read], [value("y", *([None] * len(dims)))], tensors)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    session(path)
    assert "--on-overflow clip" in convert(weir, path, tmp_path / "half.onnx", code=1).err


def test_an_output_that_a_kept_node_fills(weir, tmp_path):
    nodes = [helper.make_node("Where", ["keep", "x", "far"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", 4), value("keep", 4, dtype=TensorProto.BOOL)], [value("y", 4)], [numpy_helper.from_array(np.float32(-1e9), "far")])
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    convert(weir, path, out, "--keep-op", "Where", "--verify")
    feeds = {"x": np.arange(4, dtype=np.float16), "keep": np.array([1, 0, 0, 1], bool)}
    assert float16_alone(out, feeds).tolist() == [0, -65504, -65504, 3]


def test_a_mask_of_an_attention(weir, tmp_path):
    """The weights of a site are looked at each for itself too."""
    mask = np.where(np.tri(4) > 0, 0, -1e9).astype(np.float32)
    dims = (1, 2, 4, 8)
    graph = helper.make_graph([helper.make_node("Attention", ["q", "q", "v", "mask"], ["y"])], "g", [value("q", *dims), value("v", *dims)], [value("y", *dims)], [numpy_helper.from_array(mask, "mask")])
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), path)
    convert(weir, path, out, "--verify")
    assert set(numpy_helper.to_array(onnx.load(out).graph.initializer[0]).ravel().tolist()) == {-1e4, 0}


@pytest.mark.parametrize("element, number", [((0, 0), 0.5), ((0, 0), -1e4), ((0, 3), 0), ((0, 3), -50)])
def test_a_mask_does_not_hide_what_is_wrong(weir, tmp_path, element, number):
    """Elements that are masked in both models say nothing of the others, however large they are."""
    nodes, _, tensors = masked("add", -1e9)
    graph = helper.make_graph(nodes, "g", [value("x", 2, 4)], [value("y", 2, 4)], [numpy_helper.from_array(np.asarray(x), name) for name, x in tensors])
    path, out, log = tmp_path / "m.onnx", tmp_path / "half.onnx", tmp_path / "log.jsonl"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    convert(weir, path, out, "--edit-log", log)
    weir("verify", path, out, "--edits", log)
    wrong = onnx.load(out)
    rows = numpy_helper.to_array(wrong.graph.initializer[0]).copy()
    rows[element] = number
    wrong.graph.initializer[0].CopyFrom(numpy_helper.from_array(rows, "rows"))
    onnx.save(wrong, out)
    assert "verification failed" in weir("verify", path, out, "--edits", log, code=1).err


def parsed(text, **constants):
    made = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18, "own" : 1]>\n' + text)
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items())
    onnx.checker.check_model(made, full_check=True)
    return made


FUNCTION = '<domain: "own", opset_import: ["" : 18]> '


@pytest.mark.parametrize("where", ["given", "inside", "branches"])
def test_masks_of_functions_and_branches(weir, tmp_path, where):
    rows = np.where(np.tri(4)[1:3] > 0, 0, -1e9).astype(np.float32)
    text = {
        "given": "g (float[2,4] x) => (float[2,4] y) { y = own.f(x, rows) } " + FUNCTION + "f (a, m) => (b) { s = Add(a, m) b = Softmax(s) }",
        "inside": "g (float[2,4] x) => (float[2,4] y) { y = own.f(x, keep) } " + FUNCTION + "f (a, k) => (b) { far = Constant<value = float {-1e9}>() one = Constant<value = float {1}>() w = Sub(one, k) m = Mul(w, far) s = Add(a, m) b = Softmax(s) }",
        "branches": "g (float[2,4] x) => (float[2,4] y) { m = If(yes) <then_branch = t () => (float[2,4] p) { p = Identity(rows) }, else_branch = e () => (float[2,4] q) { q = Mul(rows, zero) }> s = Add(x, m) y = Softmax(s) }",
    }[where]
    used = {"given": ["rows"], "inside": ["keep"], "branches": ["rows", "yes", "zero"]}[where]
    constants = {"rows": rows, "keep": (rows == 0).astype(np.float32), "yes": np.array(True), "zero": np.float32(0.5)}
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(parsed(text, **{name: constants[name] for name in used}), path)
    convert(weir, path, out, "--verify")
    x = np.random.default_rng(4).normal(size=(2, 4)).astype(np.float32)
    np.testing.assert_allclose(float16_alone(out, {"x": x.astype(np.float16)}), session(path).run(None, {"x": x})[0], atol=2e-3)


@pytest.mark.parametrize("where", ["a function", "a branch"])
def test_what_others_give_may_be_a_number(weir, tmp_path, where):
    text = {
        "a function": "g (bool[4] c, float[4] x) => (float[4] y) { h = own.f(c, x) y = Mul(h, small) } " + FUNCTION + "f (c, a) => (b) { n = Constant<value = float {1e6}>() b = Where(c, n, a) }",
        "a branch": "g (bool[4] c, float[4] x) => (float[4] y) { h = If(yes) <then_branch = t () => (float[4] p) { n = Constant<value = float {1e6}>() p = Where(c, n, x) }, else_branch = e () => (float[4] q) { q = Identity(x) }> y = Mul(h, small) }",
    }[where]
    more = {"yes": np.array(True)} if where == "a branch" else {}
    onnx.save(parsed(text, small=np.float32(1e-5), **more), tmp_path / "m.onnx")
    assert "--on-overflow clip" in convert(weir, tmp_path / "m.onnx", tmp_path / "half.onnx", code=1).err


@pytest.mark.parametrize("bias", [[12000, 12008, 0, 11992], [-12000, -12008, -30000, -11992]])
def test_a_large_bias_is_no_mask(weir, tmp_path, bias):
    """Logits before the last Softmax: float16 holds all of them."""
    nodes = [helper.make_node("Add", ["x", "b"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", 2, 4)], [value("y", 2, 4)], [numpy_helper.from_array(np.array(bias, np.float32), "b")])
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    convert(weir, path, out)
    assert numpy_helper.to_array(onnx.load(out).graph.initializer[0]).tolist() == bias


def test_large_position_biases_stay(weir, tmp_path):
    """What is above 0 is no mask: here it grows with the position, and is not at hand."""
    bias = np.repeat(np.arange(600, dtype=np.float32)[None] * 32, 2, 0)
    nodes = [helper.make_node("Add", ["x", "b"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", 2, 600)], [value("y", 2, 600)], [numpy_helper.from_array(bias, "b")])
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    convert(weir, path, out, "--verify")
    assert (numpy_helper.to_array(onnx.load(out).graph.initializer[0]) == bias).all()


@pytest.mark.parametrize("opset", [10, 18])
@pytest.mark.parametrize("n", [4, 40])
def test_a_mask_beside_nodes_that_are_kept(weir, tmp_path, n, opset):
    """Rows that are masked as a whole are uniform, and not NaN: where the sum is computed in float32 and its Softmax is not, and where both types want the mask."""
    node = helper.make_node
    nodes = [node("Add", ["x", "mask"], ["a"], name="kept"), node("Softmax", ["a"], ["y"]), node("Add", ["x", "mask"], ["b"]), node("Softmax", ["b"], ["z"])]
    mask = np.full((n, n), -1e9, np.float32)
    graph = helper.make_graph(nodes, "g", [value("x", n, n)], [value("y", n, n), value("z", n, n)], [numpy_helper.from_array(mask, "mask")])
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=5 if opset == 10 else 9), path)
    convert(weir, path, out, "--exclude", "kept", "--verify")
    x = np.random.default_rng(4).normal(size=(n, n), scale=0.1).astype(np.float16)
    for y in ReferenceEvaluator(str(out)).run(None, {"x": x}):
        np.testing.assert_allclose(y, 1 / n, atol=2e-3)


def test_a_large_mask_is_held_to_a_sum_that_fits(weir, tmp_path):
    """A causal mask that is not at hand, added twice; what is infinite stays so."""
    n = 40
    mask = np.where(np.tri(n) > 0, 0, -1e9).astype(np.float32)
    mask[0, 1] = -np.inf
    nodes = [helper.make_node("Add", ["x", "mask"], ["a"]), helper.make_node("Add", ["a", "mask"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", n, n)], [value("y", n, n)], [numpy_helper.from_array(mask, "mask")])
    path, out = tmp_path / "m.onnx", tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    convert(weir, path, out, "--verify")
    stored = numpy_helper.to_array(onnx.load(out).graph.initializer[0])
    assert sorted(set(stored.ravel().tolist())) == [-np.inf, -1e4, 0]
    x = np.random.default_rng(4).normal(size=(n, n)).astype(np.float32)
    got = float16_alone(out, {"x": x.astype(np.float16)})
    np.testing.assert_allclose(got, session(path).run(None, {"x": x})[0], atol=2e-3)


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


# Values that are no tensors, bodies, functions: what keeps its type has Casts around it, and all else computes in float16.
BORDERS = {
    "a sequence": """g (float[4,3] x, float[2,3] w, int64 i) => (float[2,3] y, seq(float[2,3]) s)
        { k = Constant<value_ints=[2,2]>() s0 = SplitToSequence<axis=0>(x, k) a = SequenceAt(s0, i) b = Add(a, w)
          s = SequenceInsert(s0, b) y = Tanh(b) }""",
    "a sequence as an input": """g (seq(float[2,3]) q, float[2,3] w, int64 i) => (float[2,3] y, float[4,3] z)
        { a = SequenceAt(q, i) b = Add(a, w) y = Tanh(b) c = ConcatFromSequence<axis=0>(q) z = Tanh(c) }""",
    "a sequence of a Loop": """g (float[2,3] x, int64 n, bool c) => (seq(float[2,3]) s, float[2,3] y)
        { e = SequenceEmpty<dtype=1>() y0 = Tanh(x)
          s, y = Loop(n, c, e, y0) < body = l (int64 i, bool k, seq(float[2,3]) si, float[2,3] v)
                                              => (bool ko, seq(float[2,3]) so, float[2,3] vo)
            { ko = Identity(k) vo = Add(v, v) so = SequenceInsert(si, vo) } > }""",
    "a SequenceMap": """g (float[4,3] x, float[2,3] w) => (float[4,3] y)
        { k = Constant<value_ints=[2,2]>() s = SplitToSequence<axis=0>(x, k)
          m = SequenceMap<body = b (float[2,3] v) => (float[2,3] u) { t = Tanh(v) u = Add(t, w) }>(s)
          y = ConcatFromSequence<axis=0>(m) }""",
    "an optional": """g (float[2,3] x) => (float[2,3] y)
        { t = Tanh(x) o = Optional(t) h = OptionalHasElement(o)
          y = If(h) < then_branch = a () => (float[2,3] p) { r = OptionalGetElement(o) p = Mul(r, x) },
                      else_branch = b () => (float[2,3] q) { q = Neg(x) } > }""",
    "an optional as an input": """g (optional(float[2,3]) o, float[2,3] x) => (float[2,3] y)
        { h = OptionalHasElement(o)
          y = If(h) < then_branch = a () => (float[2,3] p) { r = OptionalGetElement(o) p = Mul(r, x) },
                      else_branch = b () => (float[2,3] q) { q = Neg(x) } > }""",
    "a Scan": """g (float[3] s0, float[4,3] x) => (float[3] s, float[4,3] y)
        { s, y = Scan<num_scan_inputs=1, body = b (float[3] si, float[3] xi) => (float[3] so, float[3] yo)
                                                  { so = Add(si, xi) yo = Tanh(so) }>(s0, x) }""",
    "functions": """g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z)
        { [first] a = local.f(x) [second] b = local.f(a) [third] z = local.h(b)
          [branch] y = If(c) < then_branch = t () => (float[2,3] p) { [inner] p = local.f(b) },
                               else_branch = e () => (float[2,3] q) { [mul] q = Mul(b, x) } > }
        <domain: "local", opset_import: ["" : 18]>
        f (p) => (r) { half = Constant<value_float = 0.5>() m = Mul(p, half) r = Tanh(m) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        h (p) => (r) { u = Exp(p) r = local.f(u) }""",
}
KEEPS = {  # what stays of the functions, and how many Casts that makes
    "": 0,
    "--keep-io": 3,
    "--exclude branch": 3,
    "--exclude first": 5,
    "--exclude third": 4,
    "--exclude inner --keep-io": 7,
    "--keep-op Tanh": 2,
}


def fed(value):
    """Something for an input, of the type that it has."""
    rng, kind = np.random.default_rng(len(value.name)), value.type.WhichOneof("value")
    if kind == "sequence_type":
        return [fed(helper.make_value_info(value.name, value.type.sequence_type.elem_type)) for _ in range(2)]
    if kind == "optional_type":
        return fed(helper.make_value_info(value.name, value.type.optional_type.elem_type))
    tensor = value.type.tensor_type
    if tensor.elem_type in (TensorProto.INT64, TensorProto.BOOL):
        return np.array(1, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    dims = [each.dim_value for each in tensor.shape.dim]
    return rng.standard_normal(dims).astype(np.float16).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def computed(path):
    """All that comes out, as one array."""
    flat, stack = [], session(path).run(None, {value.name: fed(value) for value in onnx.load(path).graph.input})[::-1]
    while stack:
        each = stack.pop()
        if isinstance(each, list):
            stack += each[::-1]
        else:
            flat.append(np.asarray(each, np.float64).ravel())
    return np.concatenate(flat)


def border_model(path, name):
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18, "local" : 1]> {BORDERS[name]}'), path)
    return path


@pytest.mark.parametrize("name", BORDERS)
@pytest.mark.parametrize("options", [[], ["--keep-io"]], ids=["", "keep-io"])
def test_what_has_no_float16_has_casts_around_it(weir, tmp_path, name, options):
    path, out = border_model(tmp_path / "in.onnx", name), tmp_path / "half.onnx"
    convert(weir, path, out, *options)
    assert "elem_type: 10" in str(onnx.load(out)) or "i: 10" in str(onnx.load(out))
    assert close(computed(out), computed(path))


@pytest.mark.parametrize("options", KEEPS)
def test_functions_stay_together(weir, tmp_path, options):
    """A function computes in one type, whoever calls it; a call that stays keeps it, and the others have Casts."""
    path, out = border_model(tmp_path / "in.onnx", "functions"), tmp_path / "half.onnx"
    convert(weir, path, out, *options.split())
    inside = sum(node.op_type == "Cast" for each in onnx.load(out).functions for node in each.node)
    assert casts(out) + inside == KEEPS[options]
    assert close(computed(out), computed(path))


# ---- bfloat16, which onnx's own evaluator runs and ONNX Runtime's CPU provider does not

BFLOAT16 = [name for name in MODELS if name.startswith(("bert-sdpa", "llama-rows", "llama-sdpa", "vit-sdpa", "gpt2-sdpa", "cnn-"))]


def in_reference(path, name):
    inputs, expected = given(name)
    got = ReferenceEvaluator(str(path)).run(None, inputs)[0].astype(np.float64)
    return np.abs(got - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("name", BFLOAT16)
def test_bfloat16_in_the_reference(weir, tmp_path, name):
    out = tmp_path / "brain.onnx"
    convert(weir, EXPORTS / name, out, "--keep-io", to="bfloat16")
    assert casts(out) <= casts(EXPORTS / name) + 18
    error = in_reference(out, name)
    assert 1e-4 < error < 0.05  # it did compute in bfloat16, which has 8 bits
    with pytest.raises(Exception, match="NOT_IMPLEMENTED|bfloat16"):  # some operators it writes out first, as no version has them
        session(out)


def test_later_opsets_have_more_of_bfloat16(weir, tmp_path):
    """Conv takes it from 22 on; what stays until then is reported."""
    name, raised = "cnn-folded-dynamo-20.onnx", tmp_path / "raised.onnx"
    weir("optimize", EXPORTS / name, raised, "--opset", "22")
    kept = []
    for number, source in enumerate((EXPORTS / name, raised)):
        out = tmp_path / f"{number}.onnx"
        report = weir.report("cast", source, out, "--to", "bfloat16", "--graph", "--keep-io")
        kept.append([node["op_type"] for node in report["passes"][0]["nodes"] if node["reason"] == "type_not_allowed"])
        assert in_reference(out, name) < 0.05
    assert kept[0].count("Conv") == 4 and "Conv" not in kept[1]


SINCE = {"If": 16, "Loop": 16, "Scan": 16, "ConstantOfShape": 20}


def flow(op, opset):
    """A node that carries floats of an operator that takes bfloat16 from a later opset on than Cast does."""
    value, make = helper.make_tensor_value_info, helper.make_node
    inputs = [value("x", TensorProto.FLOAT, [4]), value("t", TensorProto.BOOL, []), value("k", TensorProto.INT64, [1])]
    constants = [numpy_helper.from_array(np.array(2), "m"), numpy_helper.from_array(np.float32(0), "z")]
    if op == "If":
        bodies = [helper.make_graph([make(name, ["x"], [name])], name, [], [value(name, TensorProto.FLOAT, None)]) for name in ("Relu", "Neg")]
        nodes = [make("If", ["t"], ["y"], then_branch=bodies[0], else_branch=bodies[1])]
    elif op == "Loop":
        body = helper.make_graph([make("Identity", ["c"], ["d"]), make("Tanh", ["s"], ["r"])], "b", [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [4])],
                                 [value("d", TensorProto.BOOL, []), value("r", TensorProto.FLOAT, [4])])
        nodes = [make("Loop", ["m", "t", "x"], ["y"], body=body)]
    elif op == "Scan":
        body = helper.make_graph([make("Add", ["s", "e"], ["r"]), make("Neg", ["r"], ["o"])], "b", [value("s", TensorProto.FLOAT, []), value("e", TensorProto.FLOAT, [])],
                                 [value("r", TensorProto.FLOAT, []), value("o", TensorProto.FLOAT, [])])
        nodes = [make("Scan", ["z", "x"], ["f", "y"], body=body, num_scan_inputs=1)]
    else:
        fill = numpy_helper.from_array(np.array([1.5], np.float32))
        nodes = [make("ConstantOfShape", ["k"], ["q"], value=fill), make("Add", ["x", "q"], ["y"])]
    nodes.insert(0, make("Identity", ["x"], ["w"]))
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, [4])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("op", SINCE)
def test_bfloat16_in_control_flow(weir, tmp_path, op):
    """Bodies compute in it where the node does not take it yet, with Casts between."""
    feeds = {"x": np.array([0.3, -1, 2, 0.7], np.float32), "t": np.array(True), "k": np.array([4])}
    for opset in (13, SINCE[op] - 1, SINCE[op], 22):
        source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
        onnx.save(flow(op, opset), source)
        report = weir.report("cast", source, out, "--to", "bfloat16", "--graph", "--keep-io", "--force")
        onnx.checker.check_model(out, full_check=True)
        assert " 0 errors" in weir("check", out).out
        kept = {node["op_type"]: node["reason"] for node in report["passes"][0]["nodes"] if node["status"] != "converted"}
        assert kept == ({} if opset >= SINCE[op] else {op: "type_not_allowed"}), opset
        right, got = (ReferenceEvaluator(onnx.load(path)).run(None, feeds)[0] for path in (source, out))
        assert np.abs(right - got).max() < 0.03


def grid(path, opset, dtype):
    """A grid of a constant size, in a function of the model."""
    value = helper.make_tensor_value_info
    body = [helper.make_node("AffineGrid", ["t", "n"], ["g"])]
    function = helper.make_function("local", "Grid", ["t", "n"], ["g"], body, [helper.make_opsetid("", opset)])
    nodes = [helper.make_node("Grid", ["t", "n"], ["g"], domain="local"), helper.make_node("GridSample", ["x", "g"], ["y"])]
    inputs = [value("t", dtype, ["b", 2, 3]), value("x", dtype, ["b", 3, 6, 6])]
    size = numpy_helper.from_array(np.array([2, 3, 4, 5]), "n")
    graph = helper.make_graph(nodes, "g", inputs, [value("y", dtype, [2, 3, 4, 5])], [size])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=[function]), path)
    return path


@pytest.mark.parametrize("opset", [20, 21])
def test_a_grid_that_the_runtime_takes_apart(weir, tmp_path, opset):
    source = grid(tmp_path / "m.onnx", opset, TensorProto.FLOAT)
    convert(weir, source, tmp_path / "half.onnx")
    rng = np.random.default_rng(0)
    feeds = {"t": rng.normal(size=(2, 2, 3)).astype(np.float32), "x": rng.normal(size=(2, 3, 6, 6)).astype(np.float32)}
    [right] = session(source).run(None, feeds)
    [got] = session(tmp_path / "half.onnx").run(None, {name: x.astype(np.float16) for name, x in feeds.items()})
    assert got.dtype == np.float16 and np.abs(right - got).max() < 0.05
    if opset == 20:  # the control: all of it in float16
        with pytest.raises(Exception, match="Range"):
            session(grid(tmp_path / "all.onnx", opset, TensorProto.FLOAT16))


# ---- names that nothing has


def test_names_that_match_nothing_are_said(weir, tmp_path):
    path = one_node(tmp_path, "Softmax")
    err = convert(weir, path, tmp_path / "half.onnx", "--keep-op", "Sofmax,Softmax", "--exclude", "onyl").err
    assert "warning: --keep-op 'Sofmax' matches no node" in err and "'Softmax'" in err
    assert "--keep-op 'Softmax'" not in err and "'Cast'" not in err
    assert "warning: --exclude 'onyl' matches no weight and no node" in err and "'only'" in err
    for option in ("--only", "--skip"):
        err = weir("optimize", path, tmp_path / "none.onnx", option, "optimize/gelus", code=2).err
        assert f"{option} optimize/gelus: 'weir optimize' has no such step" in err and "did you mean 'optimize/gelu'?" in err
    for words, said in {
        "--only gelu": "did you mean 'optimize/gelu'?",
        "--only ort/gelu": "--only leaves no step for this goal\nhint: these steps are for --goal onnxruntime",
        "--only fuse/gemm --goal quantization": "these steps are for --goal onnx\n",
        "--only fuse --skip fuse/*": "--skip removes all steps that --only names",
        "--set-dim frames=3": "--set-shape sets whole shapes",
    }.items():
        assert said in weir("optimize", path, tmp_path / "none.onnx", *words.split(), code=2).err


def test_options_that_need_graph_say_so(weir, tmp_path):
    path = one_node(tmp_path, "Softmax")
    for option in (["--keep-io"], ["--keep-op", "Softmax"]):
        err = weir("cast", path, tmp_path / "none.onnx", "--to", "float16", *option, code=2).err
        assert f"{option[0]} has no effect without --graph" in err
    err = convert(weir, path, tmp_path / "none.onnx", "--min-elements", "1", code=2).err
    assert "--min-elements has no effect with --graph" in err


@pytest.mark.parametrize("command", (("cast", "--to", "float16", "--graph"), ("optimize",)), ids=("cast", "optimize"))
def test_rows_of_packed_tables(weir, tmp_path, command):
    """In the newest runtime: the table is not touched, and rows come out in the type that the rest wants."""
    path, out = tmp_path / "packed.onnx", tmp_path / "out.onnx"
    random = np.random.default_rng(3)
    scales = random.uniform(0.01, 0.1, (9, 2, 1)).astype(np.float16)
    table = np.concatenate([scales.view(np.uint8), random.integers(0, 256, (9, 2, 32), np.uint8)], 2).reshape(9, 68)
    rows = {"domain": "com.microsoft", "packed_type": 8, "K": 64, "output_dtype": TensorProto.FLOAT}
    nodes = [helper.make_node("GatherPacked", ["t", "i"], [y], y, **rows) for y in ("a", "b")]
    nodes += [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Mul", ["s", "w"], ["y"])]
    values = [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"]), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])]
    weights = [numpy_helper.from_array(table, "t"), numpy_helper.from_array(random.random(64).astype(np.float32), "w")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    weir(command[0], path, out, *command[1:])
    written = onnx.load(out)
    assert any(np.array_equal(numpy_helper.to_array(each), table) for each in written.graph.initializer)
    assert sum(node.op_type == "GatherPacked" for node in written.graph.node) == (1 if command[0] == "optimize" else 2)
    assert not any(node.op_type == "Cast" for node in written.graph.node)
    np.savez(tmp_path / "in.npz", i=np.array([0, 8, 3, -1]))
    jobs = {each.stem: (each, tmp_path / "in.npz", tmp_path / f"{each.stem}.npz") for each in (path, out)}
    try:
        failed = runtimes.run("onnxruntime", list(runtimes.ONNXRUNTIME.values())[-1], jobs, tmp_path)
    except runtimes.Missing as why:
        pytest.skip(str(why))
    assert set(failed.values()) == {None}, failed
    expected, got = (np.load(tmp_path / f"{name}.npz")["arr_0"] for name in ("packed", "out"))
    assert got.dtype == (np.float32 if command[0] == "optimize" else np.float16) and close(got, expected)
