"""`cast --graph --ranges`: what float16 does not hold stays in float32, and no more than that.

Three models overflow in float16: a norm of large values, an attention with large scores, the power spectrum of an audio front end. The
judge is onnx.reference, whose arrays are of the types that the model says, not ONNX Runtime's CPU, which computes most of a float16 graph
in float32.
"""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

pytestmark = pytest.mark.in_memory

node = helper.make_node
HEADROOM = 2


def rng():
    return np.random.default_rng(8)


def value(name, *dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes, inputs, outputs, constants, opset=18):
    tensors = [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()]
    named = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    for at, n in enumerate(named):
        n.name = f"{n.op_type}_{at}"
    graph = helper.make_graph(named, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def floats(*dims, by=1.0):
    return (rng().normal(size=dims) * by).astype(np.float32)


def norm():
    """T5's norm, in parts: squares of values near 1000."""
    nodes = [
        node("MatMul", ["x", "w"], ["h"]), node("Pow", ["h", "two"], ["squares"]), node("ReduceMean", ["squares", "last"], ["mean"]),
        node("Add", ["mean", "epsilon"], ["a"]), node("Sqrt", ["a"], ["root"]), node("Div", ["h", "root"], ["n"]), node("Mul", ["n", "scale"], ["s"]),
        node("MatMul", ["s", "v"], ["y"]),
    ]
    constants = {"w": floats(16, 32, by=60), "two": np.float32(2), "last": np.array([-1]), "epsilon": np.float32(1e-6), "scale": floats(32), "v": floats(32, 8, by=0.2)}
    return model(nodes, [value("x", "n", 16)], [value("y", "n", 8)], constants), {"x": floats(6, 16, by=2)}


def attention():
    """Scores above 65504 before they are scaled, and a mask of -1e9."""
    nodes = [
        node("MatMul", ["x", "wq"], ["q"]), node("MatMul", ["x", "wk"], ["k"]), node("MatMul", ["x", "wv"], ["v"]), node("Transpose", ["k"], ["kt"], perm=[1, 0]),
        node("MatMul", ["q", "kt"], ["scores"]), node("Mul", ["scores", "factor"], ["scaled"]), node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["p"]), node("MatMul", ["p", "v"], ["y"]),
    ]
    mask = np.where(np.tri(6) > 0, 0, -1e9).astype(np.float32)
    constants = {"wq": floats(16, 32, by=20), "wk": floats(32, 16, by=20).T.copy(), "wv": floats(16, 8), "factor": np.float32(1 / 4096), "mask": mask}
    return model(nodes, [value("x", 6, 16)], [value("y", 6, 8)], constants), {"x": floats(6, 16, by=2)}


def audio():
    """A spectrum by MatMul with cosines and sines, its power, mel bands, and their logarithm."""
    n, bins = 64, 33
    at = np.arange(n)[:, None] * np.arange(bins)[None] * 2 * np.pi / n
    nodes = [
        node("Mul", ["x", "loud"], ["l"]), node("MatMul", ["l", "cosines"], ["c"]), node("MatMul", ["l", "sines"], ["s"]), node("Mul", ["c", "c"], ["cc"]), node("Mul", ["s", "s"], ["ss"]),
        node("Add", ["cc", "ss"], ["power"]), node("MatMul", ["power", "mel"], ["bands"]), node("Add", ["bands", "floor"], ["f"]), node("Log", ["f"], ["log"]),
        node("MatMul", ["log", "w"], ["y"]),
    ]
    constants = {"loud": np.float32(32), "cosines": np.cos(at).astype(np.float32), "sines": np.sin(at).astype(np.float32), "mel": np.abs(floats(bins, 8)), "floor": np.float32(1e-3), "w": floats(8, 4)}
    return model(nodes, [value("x", "t", n)], [value("y", "t", 4)], constants), {"x": floats(5, n, by=0.5)}


MODELS = {"norm": norm, "attention": attention, "audio": audio}


def decibels(right, seen):
    right, seen = np.asarray(right, np.float64), np.asarray(seen, np.float64)
    return 10 * np.log10((right**2).sum() / max(((right - seen) ** 2).sum(), 1e-30))


def all_values(path, feeds):
    """Every value of the model, as onnx.reference computes it."""
    graph = onnx.load(path)
    kept = [o.name for o in graph.graph.output]
    names = [o for n in graph.graph.node for o in n.output if o]
    graph.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names if n not in kept)
    types = {i.name: helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in graph.graph.input}
    with np.errstate(all="ignore"):
        outs = ReferenceEvaluator(graph).run(None, {n: a.astype(types[n]) if a.dtype.kind == "f" else a for n, a in feeds.items()})
    return dict(zip([o.name for o in graph.graph.output], outs))


def is_right(values):
    """Are all values of float16 finite, with the headroom?"""
    halves = [a.astype(np.float64) for a in values.values() if a.dtype == np.float16]
    return all(np.isfinite(a).all() and np.abs(a).max(initial=0) * HEADROOM <= 65504 for a in halves)


def prepared(weir, tmp_path, name):
    graph, feeds = MODELS[name]()
    path = tmp_path / f"{name}.onnx"
    onnx.checker.check_model(graph, full_check=True)
    onnx.save(graph, path)
    np.savez(tmp_path / "sample.npz", **feeds)
    weir("calibrate", path, "-o", tmp_path / "r.jsonl", "--data", tmp_path / "sample.npz", "-f")
    return path, feeds


def cast(weir, path, out, *more):
    report = out.with_suffix(".json")
    weir("cast", path, out, "--to", "float16", "--graph", "--report-json", report, "-f", *more)
    onnx.checker.check_model(str(out), full_check=True)
    nodes = json.loads(report.read_text())["passes"][0]["nodes"]
    return {n["node_name"]: (n["reason"], n["tensor"]) for n in nodes if n["reason"].startswith("float16_")}


@pytest.mark.parametrize("name", MODELS)
def test_what_overflows_is_kept(weir, tmp_path, name):
    path, feeds = prepared(weir, tmp_path, name)
    wanted = all_values(path, feeds)["y"]
    plain, kept = tmp_path / "plain.onnx", tmp_path / "kept.onnx"
    assert not cast(weir, path, plain)
    assert not is_right(all_values(plain, feeds))  # the control
    names = cast(weir, path, kept, "--ranges", tmp_path / "r.jsonl", "--headroom", str(HEADROOM))
    values = all_values(kept, feeds)
    assert len(names) == {"norm": 4, "attention": 2, "audio": 6}[name] and is_right(values)
    assert decibels(wanted, values["y"]) >= 40


@pytest.mark.parametrize("name", MODELS)
def test_no_more_than_that_is_kept(weir, tmp_path, name):
    """Each of the kept nodes in float16 alone makes a number that is not finite, or beyond the headroom."""
    path, feeds = prepared(weir, tmp_path, name)
    out = tmp_path / "half.onnx"
    names = cast(weir, path, out, "--ranges", tmp_path / "r.jsonl", "--headroom", str(HEADROOM))
    patterns = [w for n in names for w in ("--exclude", n)]
    cast(weir, path, out, *patterns)
    assert is_right(all_values(out, feeds))
    for one in names:
        cast(weir, path, out, *(w for n in names if n != one for w in ("--exclude", n)))
        assert not is_right(all_values(out, feeds)), one


def test_bounds_of_the_headroom(weir, tmp_path):
    graph, feeds = model([node("Mul", ["x", "f"], ["m"]), node("Mul", ["m", "g"], ["y"])], [value("x", 4)], [value("y", 4)], {"f": np.float32(1000), "g": np.float32(0.001)}), None
    path = tmp_path / "m.onnx"
    onnx.save(graph, path)
    np.savez(tmp_path / "sample.npz", x=np.array([1, 2, 3, 32], np.float32))  # m: 32000
    weir("calibrate", path, "-o", tmp_path / "r.jsonl", "--data", tmp_path / "sample.npz")
    for headroom, kept in (("1", 0), ("2", 0), ("2.1", 2), ("100", 2)):
        names = cast(weir, path, tmp_path / "o.onnx", "--ranges", tmp_path / "r.jsonl", "--headroom", headroom)
        assert len(names) == kept and set(names.values()) <= {("float16_range", "m")}


def test_inputs_and_outputs_that_do_not_fit_keep_their_type(weir, tmp_path):
    graph = model([node("Mul", ["x", "f"], ["small"]), node("Relu", ["small"], ["y"]), node("Mul", ["y", "g"], ["z"])], [value("x", 4)], [value("y", 4), value("z", 4)], {"f": np.float32(1e-4), "g": np.float32(1e5)})
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(graph, path)
    np.savez(tmp_path / "sample.npz", x=np.array([1, 2, 3, 1e5], np.float32))
    weir("calibrate", path, "-o", tmp_path / "r.jsonl", "--data", tmp_path / "sample.npz")
    assert set(cast(weir, path, out, "--ranges", tmp_path / "r.jsonl")) == {"Mul_0", "Mul_2"}
    types = {v.name: v.type.tensor_type.elem_type for v in [*onnx.load(out).graph.input, *onnx.load(out).graph.output]}
    assert types == {"x": TensorProto.FLOAT, "y": TensorProto.FLOAT16, "z": TensorProto.FLOAT}


@pytest.mark.parametrize("words", [("--to", "bfloat16", "--graph"), ("--to", "float16")])
def test_ranges_are_for_float16_graphs(weir, tmp_path, words):
    path, _ = prepared(weir, tmp_path, "norm")
    said = weir("cast", path, tmp_path / "o.onnx", *words, "--ranges", tmp_path / "r.jsonl", code=2).err
    assert "--ranges has no effect" in said


@pytest.mark.parametrize("headroom", ["0.5", "x", "1e9", ""])
def test_a_headroom_that_is_none(weir, tmp_path, headroom):
    path, _ = prepared(weir, tmp_path, "norm")
    said = weir("cast", path, tmp_path / "o.onnx", "--to", "float16", "--graph", "--ranges", tmp_path / "r.jsonl", "--headroom", headroom, code=2).err
    assert "--headroom" in said


def test_a_headroom_of_nothing(weir, tmp_path):
    path, _ = prepared(weir, tmp_path, "norm")
    said = weir("cast", path, tmp_path / "o.onnx", "--to", "float16", "--graph", "--headroom", "3", code=2).err
    assert "--headroom has no effect without --ranges" in said


def test_ranges_of_another_model(weir, tmp_path):
    prepared(weir, tmp_path, "norm")
    graph, _ = audio()
    onnx.save(graph, tmp_path / "other.onnx")
    weir("cast", tmp_path / "other.onnx", tmp_path / "o.onnx", "--to", "float16", "--graph", "--ranges", tmp_path / "r.jsonl", code=66)
    assert not (tmp_path / "o.onnx").exists()


def whole(weir, tmp_path, graph, feeds, *calibration):
    """Casts by ranges of these feeds: what is kept, and whether onnx.reference computes the same with arrays of float16."""
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.checker.check_model(graph, full_check=True)
    onnx.save(graph, path)
    np.savez(tmp_path / "sample.npz", **feeds)
    weir("calibrate", path, "-o", tmp_path / "r.jsonl", "--data", tmp_path / "sample.npz", "-f", *calibration)
    names = cast(weir, path, out, "--ranges", tmp_path / "r.jsonl", "--verify")
    types = {i.name: helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in onnx.load(out).graph.input}
    seen = ReferenceEvaluator(str(out)).run(None, {n: a.astype(types[n]) for n, a in feeds.items()})
    for a, b in zip(ReferenceEvaluator(str(path)).run(None, feeds), seen):
        assert np.isfinite(b).all() and np.abs(a - b.astype(a.dtype)).max() <= 0.01 * np.abs(a).max()
    return names


def scaled(inner, opset=18, more=(), **constants):
    """y of inner(x), times a small number."""
    constants = {"back": np.float32(1e-5), **constants}
    return model([*inner, node("Mul", ["y", "back"], ["z"])], [value("x", 3, 4), *more], [value("z", 3, 4)], constants, opset)


@pytest.mark.parametrize("n", [6, 40])
@pytest.mark.parametrize("layers", [1, 80])
def test_what_masks_make_is_no_number(weir, tmp_path, layers, n):
    """However many read the mask, and whether its elements are at hand."""
    nodes = [x for i in range(layers) for x in (node("Add", [f"x{i}", "mask"], [f"s{i}"]), node("Softmax", [f"s{i}"], [f"p{i}"]), node("Sub", [f"p{i}", f"x{i}"], [f"x{i + 1}"]))]
    mask = np.where(np.tri(n) > 0, 0, -1e9).astype(np.float32)
    graph = model(nodes, [value("x0", n, n)], [value(f"x{layers}", n, n)], {"mask": mask})
    assert not whole(weir, tmp_path, graph, {"x0": floats(n, n)})


@pytest.mark.parametrize("number", [-33000, -65504, -1e9])
def test_masks_that_float16_holds_but_not_the_headroom(weir, tmp_path, number):
    nodes = [node("Sub", ["one", "keep"], ["away"]), node("Mul", ["away", "far"], ["m"]), node("Add", ["x", "m"], ["s"]), node("Softmax", ["s"], ["y"])]
    constants = {"one": np.float32(1), "far": np.float32(number)}
    graph = model(nodes, [value("x", 3, 4), value("keep", 3, 4)], [value("y", 3, 4)], constants)
    keep = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]], np.float32)
    assert not whole(weir, tmp_path, graph, {"x": floats(3, 4), "keep": keep})


def test_numbers_within_bounds_are_numbers(weir, tmp_path):
    """A Clip that clips nothing: what it gives a Softmax does not fit."""
    nodes = [node("Mul", ["x", "c"], ["m"]), node("Clip", ["m", "low", "high"], ["n"]), node("Softmax", ["n"], ["y"])]
    constants = {"c": np.float32(1e4), "low": np.float32(-1e20), "high": np.float32(1e20)}
    graph = model(nodes, [value("x", 3, 4)], [value("y", 3, 4)], constants)
    assert set(whole(weir, tmp_path, graph, {"x": np.arange(12, dtype=np.float32).reshape(3, 4)})) == {"Mul_0", "Clip_1", "Softmax_2"}


def body(nodes, inputs, outputs):
    named = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    for n in named:
        n.name = f"inner_{n.op_type}"
    return helper.make_graph(named, "body", inputs, outputs)


@pytest.mark.parametrize("kind", ["If", "Loop", "Scan"])
def test_what_bodies_give_and_take(weir, tmp_path, kind):
    """No value of a body was seen, but what its node makes was: 60000 times x does not fit."""
    inner, flag = [node("Mul", ["u", "c"], ["v"])], value("d", dtype=TensorProto.BOOL)
    count = value("i", dtype=TensorProto.INT64)
    nodes = {
        "If": [node("If", ["yes"], ["y"], then_branch=body([node("Mul", ["x", "c"], ["v"])], [], [value("v", 3, 4)]), else_branch=body([node("Neg", ["x"], ["w"])], [], [value("w", 3, 4)]))],
        "Loop": [node("Loop", ["once", "", "x"], ["y"], body=body([node("Identity", ["go"], ["d"]), *inner], [count, value("go", dtype=TensorProto.BOOL), value("u", 3, 4)], [flag, value("v", 3, 4)]))],
        "Scan": [node("Scan", ["x"], ["y"], num_scan_inputs=1, body=body([node("Neg", ["u"], ["n"]), node("Mul", ["n", "c"], ["v"])], [value("u", 4)], [value("v", 4)]))],
    }[kind]
    graph = scaled(nodes, c=np.float32(60000), yes=np.array(True), once=np.array(1))
    names = whole(weir, tmp_path, graph, {"x": floats(3, 4, by=3)})
    more = {"inner_Neg"} if kind == "If" else set()  # both branches have the range of what comes of them
    assert set(names) == {f"{kind}_0", "inner_Mul", "Mul_1"} | more


def test_names_of_functions_are_their_own(weir, tmp_path):
    graph = scaled([node("Mul", ["x", "c"], ["h"]), node("Mul", ["h", "back"], ["s"]), node("f", ["s"], ["y"], domain="own")], c=np.float32(1e5))
    inside = [node("Relu", ["a"], ["h"]), node("Neg", ["h"], ["b"])]
    graph.opset_import.append(helper.make_opsetid("own", 1))
    graph.functions.append(helper.make_function("own", "f", ["a"], ["b"], inside, [helper.make_opsetid("", 18)]))
    assert set(whole(weir, tmp_path, graph, {"x": floats(3, 4, by=3)})) == {"Mul_0", "Mul_1"}


def test_functions_are_given_numbers_that_fit(weir, tmp_path):
    """The call keeps float32, and so does all of the function."""
    graph = scaled([node("Mul", ["x", "c"], ["h"]), node("f", ["h"], ["y"], domain="own")], c=np.float32(1e5))
    graph.opset_import.append(helper.make_opsetid("own", 1))
    graph.functions.append(helper.make_function("own", "f", ["a"], ["b"], [node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 18)]))
    assert set(whole(weir, tmp_path, graph, {"x": floats(3, 4, by=3)})) == {"Mul_0", "f_1", "Mul_2"}


def test_whole_numbers_between_two_casts(weir, tmp_path):
    nodes = [node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), node("Cast", ["f"], ["y"], to=TensorProto.INT64)]
    graph = model(nodes, [value("x", 4, dtype=TensorProto.INT64)], [value("y", 4, dtype=TensorProto.INT64)], {})
    assert not whole(weir, tmp_path, graph, {"x": np.array([1, 70000, 1 << 20, 7])})


SUMS = {
    "Softmax": (lambda: model([node("Softmax", ["x"], ["y"])], [value("x", 1, 80000)], [value("y", 1, 80000)], {}), {"x": floats(1, 80000, by=0.01)}),
    "LpPool": (lambda: model([node("LpPool", ["x"], ["y"], kernel_shape=[2, 2])], [value("x", 1, 1, 6, 6)], [value("y", 1, 1, 5, 5)], {}), {"x": floats(1, 1, 6, 6, by=300)}),
    "LRN": (lambda: model([node("LRN", ["x"], ["y"], size=5)], [value("x", 1, 8, 2, 2)], [value("y", 1, 8, 2, 2)], {}), {"x": floats(1, 8, 2, 2, by=300)}),
}


@pytest.mark.parametrize("op", SUMS)
def test_sums_on_the_way(weir, tmp_path, op):
    graph, feeds = SUMS[op]
    assert set(whole(weir, tmp_path, graph(), feeds).values()) == {("float16_sum", "y")}


def test_a_norm_of_magnitudes_squares_nothing(weir, tmp_path):
    graph = model([node("LpNormalization", ["x"], ["y"], p=1)], [value("x", 3, 4)], [value("y", 3, 4)], {})
    assert not whole(weir, tmp_path, graph, {"x": floats(3, 4, by=300)})


def test_scores_are_those_of_a_head(weir, tmp_path):
    """At most 16 * 60 * 60 / 4, and not 16 times as much."""
    nodes = [node("Attention", ["q", "k", "k"], ["y"], q_num_heads=16, kv_num_heads=16)]
    graph = model(nodes, [value("q", 1, 4, 256), value("k", 1, 4, 256)], [value("y", 1, 4, 256)], {}, 23)
    graph.ir_version = 11
    onnx.save(graph, tmp_path / "m.onnx")
    feeds = {n: np.clip(floats(1, 4, 256, by=20), -60, 60) for n in "qk"}
    np.savez(tmp_path / "sample.npz", **feeds)
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r.jsonl", "--data", tmp_path / "sample.npz")
    assert not cast(weir, tmp_path / "m.onnx", tmp_path / "o.onnx", "--ranges", tmp_path / "r.jsonl")


def test_what_a_method_cuts_off_counts(weir, tmp_path):
    """One element of 20000 is 1000 times as large: percentile leaves it out, and its bins have it."""
    graph = model([node("Mul", ["x", "c"], ["m"]), node("Mul", ["m", "back"], ["y"])], [value("x", 20000)], [value("y", 20000)], {"c": np.float32(1000), "back": np.float32(1e-3)})
    feeds = {"x": np.append(np.ones(19999), 1000).astype(np.float32)}
    assert set(whole(weir, tmp_path, graph, feeds, "--method", "percentile=99")) == {"Mul_0", "Mul_1"}
    table = tmp_path / "table"
    table.write_text("TRT-8501-EntropyCalibration2\nx: 3c010a14\nm: 41010a14\ny: 3c010a14\n")
    said = weir("cast", tmp_path / "m.onnx", tmp_path / "o.onnx", "--to", "float16", "--graph", "--ranges", table, "-f").err
    assert "may not include the largest values" in said
