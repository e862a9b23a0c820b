"""The pass `shrink` beside onnx_shrink_ray: the same tensors, byte for byte, wherever that package writes valid ones.

Where it does not (constants of one value, numbers that its arithmetic in float16 cannot hold, equal names in two
branches, Casts of integers), the outcome is demanded instead: ONNX Runtime runs the result, and the weights behind the
nodes are the old ones within one step.
"""

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_shrink_ray import shrink as reference

import compare
from conftest import DATA, copy_model, package_model, sampled

STEPS = 255
MADE = ("_quantized", "_scale", "_zero_point", "_dequantized", "_f32")
METHODS = {
    "integer_weights": ({}, {}),
    "levels256": ({"method": "float_weights"}, {"float_quantization": True}),
    "levels100": ({"method": "float_weights", "levels": 100}, {"float_quantization": True, "float_levels": 100}),
    "levels7": ({"method": "float_weights", "levels": 7}, {"float_quantization": True, "float_levels": 7}),
}
LEVELS = [name for name in METHODS if name != "integer_weights"]


def run_pass(weir, source, out, name="shrink", code=0, **options):
    words = ",".join(f"{key}={value}" for key, value in options.items())
    done = weir("run", source, out, "--pass", f"{name}:{words}" if words else name, code=code)
    if code == 0:
        onnx.checker.check_model(out, full_check=True)
    return done


def tensors(model):
    """Initializers of all graphs by name, as (type, dims, bytes)."""
    found, graphs = {}, [model.graph]
    while graphs:
        graph = graphs.pop()
        for tensor in graph.initializer:
            assert tensor.name not in found
            value = numpy_helper.to_array(tensor)
            found[tensor.name] = (tensor.data_type, tuple(tensor.dims), value.tobytes())
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return found


def made(model):
    return {name: value for name, value in tensors(model).items() if name.endswith(MADE)}


def node_rows(model):
    """The nodes that shrinking makes: name, operator, inputs, outputs, attributes."""
    ends = ("_cast_node", "_mul_node", "_add_node")
    rows = [
        (node.name, node.op_type, tuple(node.input), tuple(node.output), tuple((a.name, a.i) for a in node.attribute))
        for node in model.graph.node
        if node.name.endswith(ends)
    ]
    return sorted(rows)


def feeds(path, seed=0):
    """Inputs for a model: every unknown dim is 2."""
    random, given = np.random.default_rng(seed), {}
    for value in onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs():
        dims = [d if isinstance(d, int) and d > 0 else 2 for d in value.shape]
        kind = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}.get(value.type)
        given[value.name] = random.standard_normal(dims).astype(kind) if kind else np.ones(dims, bool)
    return given


def outputs(path, given):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)


def save(folder, nodes, inputs, results, initializers=(), opset=17, name="in.onnx", ir_version=9, **more):
    graph = helper.make_graph(nodes, "g", inputs, results, list(initializers), **more)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    path = Path(folder, name)
    onnx.save(model, path)
    return path


def weight(name, values):
    return numpy_helper.from_array(np.ascontiguousarray(values), name)


def declared(name, values, dims=None):
    kind = helper.np_dtype_to_tensor_dtype(np.asarray(values).dtype)
    return helper.make_tensor_value_info(name, kind, list(values.shape) if dims is None else dims)


def identity_model(folder, weights, **how):
    """Every weight w behind an Identity to the output y_w: what the nodes make of it is what a run gives."""
    nodes = [helper.make_node("Identity", [name], [f"y_{name}"], f"i_{name}") for name in weights]
    results = [declared(f"y_{name}", value) for name, value in weights.items()]
    return save(folder, nodes, [], results, [weight(*item) for item in weights.items()], **how)


def same_as_reference(weir, source, out, method):
    ours, theirs = METHODS[method]
    run_pass(weir, source, out, **ours)
    got, want = onnx.load(out), reference.quantize_weights(onnx.load(source), **theirs)
    assert made(got) == made(want)
    assert node_rows(got) == node_rows(want)
    return len(made(want))


# ---- the package's models and ours


REAL = {
    "rapidocr-det": lambda: package_model("rapidocr", "det_small"),
    "rapidocr-rec": lambda: package_model("rapidocr", "rec_small"),
    "magika": lambda: package_model("magika", "model.onnx"),
}
AT_LEAST = {"rapidocr-det": 20, "rapidocr-rec": 30, "magika": 3}


@pytest.mark.parametrize("name, method", sampled(REAL, METHODS, every=2))
def test_real_models(weir, tmp_path, name, method):
    found = REAL[name]()
    source = copy_model(found, tmp_path / "in")
    assert same_as_reference(weir, source, tmp_path / "out.onnx", method) >= AT_LEAST[name]


@pytest.mark.parametrize("method", METHODS)
def test_encoder(weir, tmp_path, small_encoder, method):
    assert same_as_reference(weir, small_encoder, tmp_path / "out.onnx", method) > 3


@pytest.mark.parametrize("folder", ("parakeet-dynamo", "parakeet-torchscript"))
def test_nothing_large_enough(weir, tmp_path, folder):
    """All weights of these exports are small: the model stays as it is, byte for byte."""
    source = DATA / folder / "encoder-model.onnx"
    shrunk, copy = tmp_path / "a" / "out.onnx", tmp_path / "b" / "out.onnx"
    shrunk.parent.mkdir()
    copy.parent.mkdir()
    run_pass(weir, source, shrunk)
    weir("convert", source, copy)
    assert shrunk.read_bytes() == copy.read_bytes()
    assert not made(reference.quantize_weights(onnx.load(source)))


@pytest.mark.parametrize("name", ("rapidocr-rec", "magika"))
def test_results_stay_close(weir, tmp_path, name):
    """No further from the source than the package's own result is, give or take its last bits."""
    source = copy_model(REAL[name](), tmp_path / "in")
    run_pass(weir, source, tmp_path / "out.onnx")
    onnx.save(reference.quantize_weights(onnx.load(source)), tmp_path / "theirs.onnx")
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    [value] = session.get_inputs()
    random = np.random.default_rng(1)
    if value.type == "tensor(int32)":
        given = random.integers(0, 256, [1, *value.shape[1:]]).astype(np.int32)
    else:
        given = random.standard_normal([1, 3, 48, 320]).astype(np.float32)
    [want], [ours], [theirs] = (
        outputs(path, {value.name: given}) for path in (source, tmp_path / "out.onnx", tmp_path / "theirs.onnx")
    )
    assert np.abs(ours - theirs).max() <= 1e-5 * max(1, np.abs(theirs).max())
    assert np.abs(ours - want).max() <= 1.01 * np.abs(theirs - want).max() + 1e-6
    assert np.abs(ours - want).max() > 0


# ---- every type, every kind of values


def kinds_of_values(dtype):
    random = np.random.default_rng(2)
    normal = random.standard_normal((128, 160)).astype(dtype)
    yield "normal", normal
    yield "positive", np.abs(normal) + dtype(1)
    yield "negative", -np.abs(normal) - dtype(0.5)
    yield "narrow", normal * dtype(0.001)
    yield "wide", normal * dtype(1000)
    yield "skewed", np.exp(normal)
    yield "outlier", np.concatenate([normal.ravel(), [dtype(60)]]).astype(dtype)
    yield "rank3", normal.reshape(16, 8, 160)
    yield "odd", random.standard_normal(16384 + 77).astype(dtype)
    yield "grid", (random.integers(-128, 128, (130, 130)) / 16).astype(dtype)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", (np.float16, np.float32, np.float64))
def test_types(weir, tmp_path, dtype, method):
    source = identity_model(tmp_path, dict(kinds_of_values(dtype)))
    count = same_as_reference(weir, source, tmp_path / "out.onnx", method)
    assert count == len(dict(kinds_of_values(dtype))) * (3 if method == "integer_weights" else 1)
    outputs(tmp_path / "out.onnx", {})


def within_steps(weights, results, steps, part=1.0):
    """Every result is its weight within so many steps of the weight's range, and what its type rounds away."""
    for (name, value), got in zip(weights.items(), results, strict=True):
        wide = value.astype(np.float64)
        step = (wide.max() - wide.min()) / steps
        slack = 4 * np.abs(wide).max() * np.finfo(value.dtype).eps + np.finfo(value.dtype).smallest_subnormal
        assert np.abs(got.astype(np.float64) - wide).max() <= part * step + slack, name


def test_what_half_arithmetic_cannot_hold(weir, tmp_path):
    """float16 weights whose inverse range or offset is no float16: the package gives NaN or infinity."""
    random = np.random.default_rng(3)
    unit = random.random((128, 128))
    weights = {
        "tiny": (unit * 1e-5).astype(np.float16),
        "far": (1000 + unit).astype(np.float16),
        "huge": ((unit - 0.5) * 130000).astype(np.float16),
    }
    source = identity_model(tmp_path, weights)
    with np.errstate(all="ignore"):
        theirs = tensors(reference.quantize_weights(onnx.load(source)))
    for name in weights:  # the control: else there would be nothing to mend
        numbers = [np.frombuffer(theirs[f"{name}_{part}"][2], np.float16) for part in ("scale", "zero_point")]
        assert not np.isfinite(numbers).all() or name == "far"
    run_pass(weir, source, tmp_path / "out.onnx")
    within_steps(weights, outputs(tmp_path / "out.onnx", {}), STEPS)
    run_pass(weir, source, tmp_path / "levels.onnx", method="float_weights")
    within_steps(weights, outputs(tmp_path / "levels.onnx", {}), STEPS)


@pytest.mark.parametrize("form", ("cast-mul-add", "dequantize"))
@pytest.mark.parametrize("per_channel", (False, True))
@pytest.mark.parametrize("dtype", (np.float16, np.float32))
def test_the_ends_of_a_type_stay_finite(weir, tmp_path, dtype, per_channel, form):
    """Masks of the least float16: rounded up, the scale takes the outermost codes past it. (The package's become infinite.)"""
    random = np.random.default_rng(4)
    most, upper = np.finfo(dtype).max, np.triu(np.ones((130, 130), bool), 1)
    weights = {
        "mask": np.where(upper, -most, 0).astype(dtype),
        "least": np.where(upper, most, 0).astype(dtype),
        "both": np.where(upper, -most, most).astype(dtype),
        "noisy": np.where(upper, -most, random.normal(size=upper.shape) * 100).astype(dtype),
    }
    source = identity_model(tmp_path, weights, opset=19)
    run_pass(weir, source, tmp_path / "out.onnx", per_channel=str(per_channel).lower(), form=form)
    results = outputs(tmp_path / "out.onnx", {})
    for (name, value), got in zip(weights.items(), results, strict=True):
        step = (float(value.max()) - float(value.min())) / STEPS
        assert np.abs(got.astype(np.float64) - value.astype(np.float64)).max() <= 1.6 * step, name


@pytest.mark.parametrize("opset", (8, 9))
def test_codes_of_a_function(weir, tmp_path, opset):
    """A function keeps them in a Constant, which holds integers from opset 9 on."""
    weight = numpy_helper.from_array(np.random.default_rng(5).normal(size=(128, 128)).astype(np.float32))
    body = [helper.make_node("Constant", [], ["w"], value=weight), helper.make_node("Identity", ["w"], ["y"])]
    function = helper.make_function("local", "f", [], ["y"], body, [helper.make_opsetid("", opset)])
    graph = helper.make_graph([helper.make_node("f", [], ["y"], "call", domain="local")], "g", [],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [128, 128])])  # fmt: skip
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=8), tmp_path / "in.onnx")
    report = weir.report("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "shrink")
    [site] = report["passes"][0]["nodes"]
    assert (site["status"], site["reason"]) == (("skipped", "opset_too_old") if opset == 8 else ("converted", "integer_weights"))
    within_steps({"y": numpy_helper.to_array(weight)}, outputs(tmp_path / "out.onnx", {}), STEPS)


@pytest.mark.parametrize("dtype", (np.float16, np.float32, np.float64))
def test_one_value(weir, tmp_path, dtype):
    """A listed difference: scale 0 and the value as offset, exactly; the package is off by up to 1/510."""
    values = {f"c{i}": np.full((128, 128), value, dtype) for i, value in enumerate((0.3, -7.77, 0, 1))}
    source = identity_model(tmp_path, values)
    run_pass(weir, source, tmp_path / "out.onnx")
    found = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "out.onnx").graph.initializer}
    for (name, value), got in zip(values.items(), outputs(tmp_path / "out.onnx", {}), strict=True):
        assert np.array_equal(got, value)
        assert found[f"{name}_scale"] == 0 and found[f"{name}_zero_point"] == value[0, 0]
    run_pass(weir, source, tmp_path / "levels.onnx", method="float_weights")
    for value, got in zip(values.values(), outputs(tmp_path / "levels.onnx", {}), strict=True):
        assert np.array_equal(got, value)


@pytest.mark.parametrize("bad", (np.nan, np.inf, -np.inf))
def test_not_finite(weir, tmp_path, bad):
    value = np.random.default_rng(4).standard_normal((128, 128)).astype(np.float32)
    value[5, 7] = bad
    source = identity_model(tmp_path, {"w": value})
    done = run_pass(weir, source, tmp_path / "out.onnx", code=1)
    assert "16384 elements has 1 that are NaN or infinite" in done.err and "--exclude" in done.err
    assert not (tmp_path / "out.onnx").exists()
    run_pass(weir, source, tmp_path / "out.onnx", exclude="w")


def test_empty_and_other_types(weir, tmp_path):
    weights = {
        "empty": np.zeros((0, 20000), np.float32),
        "ints": np.arange(20000, dtype=np.int64),
        "small": np.ones((128, 127), np.float32),
    }
    source = identity_model(tmp_path, weights)
    run_pass(weir, source, tmp_path / "out.onnx")
    assert tensors(onnx.load(tmp_path / "out.onnx")) == tensors(onnx.load(source))


# ---- DequantizeLinear


def dequantize_cases():
    values = dict(kinds_of_values(np.float32))
    values["zero"] = np.zeros((128, 128), np.float32)
    values["one_value"] = np.full((128, 128), -3.25, np.float32)
    return values


@pytest.mark.parametrize("dtype,opset", ((np.float32, 10), (np.float32, 17), (np.float16, 19)))
def test_dequantize(weir, tmp_path, dtype, opset):
    weights = {name: value.astype(dtype) for name, value in dequantize_cases().items()}
    source = identity_model(tmp_path, weights, opset=opset)
    run_pass(weir, source, tmp_path / "out.onnx", form="dequantize")
    model = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in model.graph.node].count("DequantizeLinear") == len(weights)
    for value, got in zip(weights.values(), outputs(tmp_path / "out.onnx", {}), strict=True):
        low, high = min(value.min(), 0), max(value.max(), 0)  # the range holds 0
        step = (np.float64(high) - np.float64(low)) / STEPS
        slack = 4 * np.abs(value.astype(np.float64)).max() * np.finfo(dtype).eps
        assert np.abs(got.astype(np.float64) - value).max() <= step + slack
    # The codes are those of QuantizeLinear with the same scale and zero point.
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for name, value in weights.items():
        scale, zero = found[f"{name}_scale"].astype(np.float32), found[f"{name}_zero_point"]
        codes = np.clip(np.rint(value.astype(np.float32) / scale) + zero.astype(np.float32), 0, 255).astype(np.uint8)
        assert np.array_equal(found[f"{name}_quantized"], codes)


def test_dequantize_refusals(weir, tmp_path):
    values = {"w": np.random.default_rng(5).standard_normal((128, 128)).astype(np.float32)}
    old = identity_model(tmp_path, values, opset=9)
    assert "1 weight (the opset is too old)" in run_pass(weir, old, tmp_path / "old.onnx", form="dequantize").out
    assert tensors(onnx.load(tmp_path / "old.onnx")) == tensors(onnx.load(old))
    half = identity_model(tmp_path, {"w": values["w"].astype(np.float16)}, opset=17, name="half.onnx")
    run_pass(weir, half, tmp_path / "out.onnx", form="dequantize")
    assert tensors(onnx.load(tmp_path / "out.onnx")) == tensors(onnx.load(half))


# ---- constants anywhere


def constant(node, output, value):
    return helper.make_node("Constant", [], [output], node, value=weight("", value))


def test_constant_nodes(weir, tmp_path):
    random = np.random.default_rng(6)
    a, b = (random.standard_normal((128, 128)).astype(np.float32) for _ in "ab")
    x = declared("x", np.zeros((2, 128), np.float32))
    nodes = [
        constant("first", "a", a),
        constant("second", "b", b),
        helper.make_node("MatMul", ["x", "a"], ["h"], "mm1"),
        helper.make_node("MatMul", ["h", "b"], ["y"], "mm2"),
    ]
    y = declared("y", np.zeros((2, 128), np.float32))
    source = save(tmp_path, nodes, [x], [y])
    assert same_as_reference(weir, source, tmp_path / "integer.onnx", "integer_weights") == 6
    # Levels are found twice there, the second time of "first_dequantized"; once, as for initializers, is right.
    plain = [helper.make_node("MatMul", ["x", "first"], ["h"]), helper.make_node("MatMul", ["h", "second"], ["y"])]
    twin = save(tmp_path, plain, [x], [y], [weight("first", a), weight("second", b)], name="twin.onnx")
    for method in LEVELS:
        run_pass(weir, source, tmp_path / f"{method}.onnx", **METHODS[method][0])
        want = reference.quantize_weights(onnx.load(twin), **METHODS[method][1])
        assert made(onnx.load(tmp_path / f"{method}.onnx")) == made(want)
        assert "first_dequantized_dequantized" in made(
            reference.quantize_weights(onnx.load(source), **METHODS[method][1])
        )


def test_unnamed_constant_nodes(weir, tmp_path):
    """The package calls the tensors of all of them "_quantized", so that the last one counts for all."""
    random = np.random.default_rng(7)
    values = [random.standard_normal((128, 128)).astype(np.float32) * scale for scale in (1, 50)]
    nodes = [constant("", name, value) for name, value in zip("ab", values, strict=True)]
    nodes += [helper.make_node("Identity", [name], [f"y_{name}"]) for name in "ab"]
    source = save(tmp_path, nodes, [], [declared(f"y_{name}", values[0]) for name in "ab"])
    run_pass(weir, source, tmp_path / "out.onnx")
    within_steps(dict(zip("ab", values, strict=True)), outputs(tmp_path / "out.onnx", {}), STEPS)


def test_value_floats(weir, tmp_path):
    """A Constant without `value` ends the package with a KeyError."""
    values = np.random.default_rng(8).standard_normal(16384).astype(np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], "k", value_floats=values.tolist()),
        helper.make_node("Identity", ["w"], ["y"]),
    ]
    source = save(tmp_path, nodes, [], [declared("y", values)])
    with pytest.raises(KeyError):
        reference.quantize_weights(onnx.load(source))
    run_pass(weir, source, tmp_path / "out.onnx")
    assert "k_quantized" in tensors(onnx.load(tmp_path / "out.onnx"))
    within_steps({"w": values}, outputs(tmp_path / "out.onnx", {}), STEPS)


def branches(folder):
    """If whose two branches hold different weights under one name, and one of the graph around them."""
    random = np.random.default_rng(9)
    own = [random.standard_normal((128, 128)).astype(np.float32) * scale for scale in (1, 30)]
    shared = random.standard_normal((128, 128)).astype(np.float32)
    result = declared("r", np.zeros((2, 128), np.float32))

    def branch(name, value):
        nodes = [
            helper.make_node("MatMul", ["x", "w"], [f"{name}_h"], f"{name}_mm"),
            helper.make_node("MatMul", [f"{name}_h", "shared"], [f"{name}_r"], f"{name}_mm2"),
        ]
        out = helper.make_tensor_value_info(f"{name}_r", TensorProto.FLOAT, [2, 128])
        return helper.make_graph(nodes, name, [], [out], [weight("w", value)])

    node = helper.make_node("If", ["c"], ["r"], "if", then_branch=branch("t", own[0]), else_branch=branch("e", own[1]))
    x, c = declared("x", np.zeros((2, 128), np.float32)), declared("c", np.zeros((), bool))
    return save(folder, [node], [x, c], [result], [weight("shared", shared)])


@pytest.mark.parametrize("method", ("integer_weights", "levels256"))
def test_branches(weir, tmp_path, method):
    source = branches(tmp_path)
    run_pass(weir, source, tmp_path / "out.onnx", **METHODS[method][0])
    x = np.random.default_rng(10).standard_normal((2, 128)).astype(np.float32)
    for c in (True, False):
        given = {"x": x, "c": np.array(c)}
        [want], [got] = outputs(source, given), outputs(tmp_path / "out.onnx", given)
        assert np.abs(got - want).max() < 0.05 * np.abs(want).max()
        assert np.abs(got - want).max() > 0
    assert len(made(onnx.load(tmp_path / "out.onnx"))) == (9 if method == "integer_weights" else 3)


def test_outputs_keep_their_names(weir, tmp_path):
    value = np.random.default_rng(11).standard_normal((128, 128)).astype(np.float32)
    source = save(tmp_path, [], [], [declared("w", value)], [weight("w", value)])
    for form in ("cast-mul-add", "dequantize"):
        run_pass(weir, source, tmp_path / f"{form}.onnx", form=form)
        assert [out.name for out in onnx.load(tmp_path / f"{form}.onnx").graph.output] == ["w"]
        within_steps({"w": value}, outputs(tmp_path / f"{form}.onnx", {}), STEPS)


def test_taken_names(weir, tmp_path):
    """The package overwrites what is called like its new tensors already."""
    value = np.random.default_rng(12).standard_normal((128, 128)).astype(np.float32)
    other = np.ones((128, 128), np.float32) * np.arange(128, dtype=np.float32)
    weights = {"w": value, "w_quantized": other, "w_scale": value * 3}
    source = identity_model(tmp_path, weights)
    run_pass(weir, source, tmp_path / "out.onnx")
    within_steps(weights, outputs(tmp_path / "out.onnx", {}), STEPS)


def test_defaults_of_inputs_stay(weir, tmp_path):
    """Callers may pass another value for an initializer that is an input; the package takes that away."""
    value = np.random.default_rng(13).standard_normal((128, 128)).astype(np.float32)
    nodes = [helper.make_node("Identity", ["w"], ["y"])]
    source = save(tmp_path, nodes, [declared("w", value)], [declared("y", value)], [weight("w", value)])
    run_pass(weir, source, tmp_path / "out.onnx")
    assert tensors(onnx.load(tmp_path / "out.onnx")) == tensors(onnx.load(source))
    [got] = outputs(tmp_path / "out.onnx", {"w": value * 2})
    assert np.array_equal(got, value * 2)


def test_old_models(weir, tmp_path):
    value = np.random.default_rng(14).standard_normal((128, 128)).astype(np.float32)
    x = np.ones((2, 128), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    source = save(
        tmp_path, nodes, [declared("x", x), declared("w", value)], [declared("y", x)], [weight("w", value)],
        opset=8, ir_version=3,
    )  # fmt: skip
    run_pass(weir, source, tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    assert [given.name for given in model.graph.input] == ["x"] and model.ir_version == 4
    [got] = outputs(tmp_path / "out.onnx", {"x": x})
    assert np.allclose(got, x @ value, atol=128 * np.ptp(value) / STEPS)


# ---- f16_to_f32


def half_model(folder):
    random = np.random.default_rng(15)
    w = random.standard_normal((32, 32)).astype(np.float16)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [4, 32])
    i = helper.make_tensor_value_info("i", TensorProto.INT64, [4, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, [4, 32])
    nodes = [
        constant("bias", "b", random.standard_normal(32).astype(np.float16)),
        helper.make_node("MatMul", ["x", "w"], ["h"], "mm"),
        helper.make_node("Cast", ["h"], ["h32"], "up", to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["h32"], ["s"], "sigmoid"),
        helper.make_node("Cast", ["s"], ["s16"], "down", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["i"], ["i16"], "ints", to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["s16", "i16"], ["m"], "mul"),
        helper.make_node("Add", ["m", "b"], ["y"], "add"),
    ]
    info = [helper.make_tensor_value_info("h", TensorProto.FLOAT16, [4, 32])]
    return save(folder, nodes, [x, i], [y], [weight("w", w)], value_info=info)


def test_halves_become_floats(weir, tmp_path):
    source = half_model(tmp_path)
    run_pass(weir, source, tmp_path / "out.onnx", method="f16_to_f32")
    model = onnx.load(tmp_path / "out.onnx")
    want = tensors(reference.convert_f16_to_f32(onnx.load(source)))
    assert tensors(model) == want and set(want) == {"w_f32", "bias_f32"}
    assert TensorProto.FLOAT16 not in {v.type.tensor_type.elem_type for v in
                                       [*model.graph.input, *model.graph.output, *model.graph.value_info]}  # fmt: skip
    assert [node.name for node in model.graph.node if node.op_type == "Cast"] == ["down", "ints"]
    x = np.random.default_rng(16).standard_normal((4, 32)).astype(np.float16)
    i = np.arange(4)[:, None]
    [old] = outputs(source, {"x": x, "i": i})
    [new] = outputs(tmp_path / "out.onnx", {"x": x.astype(np.float32), "i": i})
    assert new.dtype == np.float32 and np.allclose(new, old, atol=0.02)


def test_casts_of_integers_stay(weir, tmp_path):
    """The package drops them, and declares the integer input as float32 to make up for it."""
    source = half_model(tmp_path)
    run_pass(weir, source, tmp_path / "out.onnx", method="f16_to_f32")
    types = [
        {value.name: value.type.tensor_type.elem_type for value in model.graph.input}["i"]
        for model in (onnx.load(tmp_path / "out.onnx"), reference.convert_f16_to_f32(onnx.load(source)))
    ]
    assert types == [TensorProto.INT64, TensorProto.FLOAT]


# ---- the log


@pytest.mark.parametrize("method", ("integer_weights", "float_weights", "f16_to_f32"))
def test_replay(weir, tmp_path, method):
    source = half_model(tmp_path) if method == "f16_to_f32" else branches(tmp_path)
    first, again = tmp_path / "a" / "out.onnx", tmp_path / "b" / "out.onnx"
    first.parent.mkdir()
    again.parent.mkdir()
    weir("run", source, first, "--pass", f"shrink:method={method}", "--edit-log", tmp_path / "edits.jsonl")
    weir("replay", tmp_path / "edits.jsonl", source, again)
    assert first.read_bytes() == again.read_bytes()


def test_workers_do_not_show(weir, tmp_path, one_layer):
    """120 MB: several units, made by one worker or three, through either engine."""
    seen = set()
    for jobs, io in itertools.product((1, 3), ("sync", "auto")):
        out = tmp_path / f"{jobs}{io}" / "out.onnx"
        out.parent.mkdir()
        weir("run", one_layer, out, "--pass", "shrink", "--jobs", str(jobs), "--io", io, "--no-manifest")
        seen.add(b"".join(path.read_bytes() for path in sorted(out.parent.iterdir())))
    assert len(seen) == 1


SIZES = {
    "resize": ([helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")], {"scales": np.array([1, 1, 1.3, 3.3], np.float32)}),
    "range": ([helper.make_node("Range", ["zero", "n", "step"], ["r"]), helper.make_node("Unsqueeze", ["r", "at"], ["y"])],
              {"zero": np.float32(0), "n": np.float32(7), "step": np.float32(0.3), "at": np.array([0])}),
    "arithmetic": ([helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Cast", ["s"], ["f"], to=1), helper.make_node("Mul", ["f", "part"], ["g"]), helper.make_node("Floor", ["g"], ["h"]),
                    helper.make_node("Cast", ["h"], ["i"], to=7), helper.make_node("ConstantOfShape", ["i"], ["y"])], {"part": np.array([1, 1, 0.7, 0.31], np.float32)}),
    "scalar": ([helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Add", ["s", "k"], ["y"])], {"k": np.float32(0.7)}),
}


@pytest.mark.parametrize("kind", SIZES)
def test_sizes_and_scalars_keep_the_shapes(weir, tmp_path, kind):
    """Small constants are asked for: what says sizes stays as it is, and a constant without dims gets no dim."""
    nodes, constants = SIZES[kind]
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    save(tmp_path, nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 10, 10])], [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])
    given = {"x": np.random.default_rng(0).normal(size=(1, 1, 10, 10)).astype(np.float32)}
    before = onnxruntime.InferenceSession(source).run(None, given)[0]
    words = [["run", "--pass", f"shrink:min_elements=1,method=integer_weights{more}"] for more in ("", ",form=dequantize", ",per_channel=true")]
    words += [["run", "--pass", "shrink:min_elements=1,method=float_weights,levels=4"], ["cast", "--to", "float16", "--min-elements", "1"]]
    for command, *options in words:
        weir(command, source, out, *options, "--force")
        after = onnxruntime.InferenceSession(out).run(None, given)[0]
        assert after.shape == before.shape and np.abs(after - before).max() < 0.02 * max(1, np.abs(before).max()), options
