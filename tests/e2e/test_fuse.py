"""fuse/bn: a normalization folded into weights computes what it computed, and large weights are multiplied as a stream."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_memory import measure

MIB = 1 << 20
TYPES = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.float64: TensorProto.DOUBLE}


def model_of(node, x, weights, channels, dtype, rng, opset=17, epsilon=1e-3):
    """One node with weights, and a BatchNormalization behind it."""
    vectors = {
        "scale": rng.uniform(0.5, 2, channels),
        "shift": rng.uniform(-1, 1, channels),
        "mean": rng.uniform(-1, 1, channels),
        "var": rng.uniform(0.1, 3, channels),
    }
    initializers = [numpy_helper.from_array(np.asarray(a, dtype), n) for n, a in {**weights, **vectors}.items()]
    norm = helper.make_node("BatchNormalization", ["h", *vectors], ["y"], name="norm", epsilon=epsilon)
    graph = helper.make_graph(
        [node, norm],
        "fused",
        [helper.make_tensor_value_info("x", TYPES[dtype], x)],
        [helper.make_tensor_value_info("y", TYPES[dtype], [None] * len(x))],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def outputs(model, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def conv(op, x, w, groups=1, bias=None, **attributes):
    inputs = ["x", "w"] + (["b"] if bias else [])
    node = helper.make_node(op, inputs, ["h"], name="before", group=groups, **attributes)
    channels = w[0] if op == "Conv" else w[1] * groups
    return node, x, {"w": w, **({"b": [channels]} if bias else {})}, channels


def gemm(k, n, bias=None, **attributes):
    node = helper.make_node("Gemm", ["x", "w"] + (["b"] if bias else []), ["h"], name="before", **attributes)
    w = [n, k] if attributes.get("transB") else [k, n]
    return node, [3, k], {"w": w, **({"b": bias} if bias else {})}, n


CASES = {
    "conv": conv("Conv", [2, 4, 9, 9], [6, 4, 3, 3], bias=True),
    "conv-without-bias": conv("Conv", [2, 4, 9], [6, 4, 3]),
    "conv-of-three-dims": conv("Conv", [1, 2, 5, 5, 5], [3, 2, 2, 2, 2], bias=True),
    "conv-in-groups": conv("Conv", [2, 4, 9], [6, 2, 3], groups=2, bias=True),
    "depthwise": conv("Conv", [2, 6, 9], [6, 1, 3], groups=6),
    "transposed": conv("ConvTranspose", [2, 4, 9], [4, 6, 3], bias=True, strides=[2]),
    "transposed-in-groups": conv("ConvTranspose", [2, 4, 5, 5], [4, 3, 2, 2], groups=2),
    "gemm": gemm(7, 5),
    "gemm-with-a-row": gemm(7, 5, bias=[1, 5], beta=0.5, alpha=2.0),
    "gemm-transposed": gemm(7, 5, bias=[5], transB=1),
}


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", CASES)
def test_numbers_hold(weir, quick_folder, name, dtype):
    node, x_dims, dims, channels = CASES[name]
    rng = np.random.default_rng(3)
    weights = {n: rng.standard_normal(d) for n, d in dims.items()}
    model = model_of(node, x_dims, weights, channels, dtype, rng)
    x = rng.standard_normal(x_dims).astype(dtype)
    try:
        before = outputs(model, x)
    except Exception as e:  # not every type has a kernel for every operator
        pytest.skip(str(e)[:80])
    onnx.save(model, quick_folder / "in.onnx")
    weir("run", quick_folder / "in.onnx", quick_folder / "out.onnx", "--pass", "fuse/bn")
    fused = onnx.load(quick_folder / "out.onnx")
    onnx.checker.check_model(fused, full_check=True)
    assert [n.op_type for n in fused.graph.node] == [node.op_type]
    assert len(fused.graph.initializer) == 2
    bounds = {np.float16: 2e-2, np.float32: 1e-5, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(outputs(fused, x), before, rtol=bounds, atol=bounds)


def test_below_ir_version_4_the_new_ones_need_no_inputs(weir, quick_folder):
    rng = np.random.default_rng(7)
    node, x, dims, channels = CASES["conv"]
    model = model_of(node, x, {n: rng.uniform(-1, 1, d) for n, d in dims.items()}, channels, np.float32, rng, opset=9)
    model.ir_version = 3
    for t in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(t.name, TensorProto.FLOAT, t.dims))
    onnx.checker.check_model(model)
    onnx.save(model, quick_folder / "in.onnx")
    weir("run", quick_folder / "in.onnx", quick_folder / "out.onnx", "--pass", "fuse/bn")
    after = onnx.load(quick_folder / "out.onnx")
    onnx.checker.check_model(after)
    assert [n.op_type for n in after.graph.node] == ["Conv"] and [v.name for v in after.graph.input] == ["x"]
    values = rng.uniform(-1, 1, x).astype(np.float32)
    model.ir_version = 4  # a session of it takes x alone
    assert np.allclose(outputs(model, values), outputs(after, values), rtol=1e-4, atol=1e-5)


def test_a_model_with_training_information_stays(weir, quick_folder):
    """Its bindings name the weights."""
    rng = np.random.default_rng(7)
    node, x, dims, channels = CASES["conv"]
    model = model_of(node, x, {n: rng.uniform(-1, 1, d) for n, d in dims.items()}, channels, np.float32, rng)
    training = model.training_info.add()
    training.algorithm.name = "step"
    training.update_binding.add(key="w", value="w")
    onnx.save(model, quick_folder / "in.onnx")
    log = quick_folder / "log.jsonl"
    done = weir("run", quick_folder / "in.onnx", quick_folder / "out.onnx", "--pass", "fuse/bn", "--edit-log", log)
    assert "1 BatchNormalization (the model has training information)" in done.out
    assert len(log.read_text().splitlines()) == 2  # its head and its end: no group of edits that were not made
    assert onnx.load(quick_folder / "out.onnx").graph == model.graph


def test_a_cap_of_exact_bits_holds_it_back(weir, quick_folder):
    node, x_dims, dims, channels = CASES["conv"]
    rng = np.random.default_rng(3)
    weights = {n: rng.standard_normal(d) for n, d in dims.items()}
    onnx.save(model_of(node, x_dims, weights, channels, np.float32, rng), quick_folder / "in.onnx")
    weir("run", quick_folder / "in.onnx", quick_folder / "out.onnx", "--pass", "fuse/bn", "--exactness", "exact")
    kept = onnx.load(quick_folder / "out.onnx")
    assert [n.op_type for n in kept.graph.node] == ["Conv", "BatchNormalization"]


@pytest.mark.parametrize("command", ["optimize", "run"])
def test_products_out_of_the_range_of_float16_are_not_made(weir, quick_folder, command):
    """100 · 10 / sqrt(1e-5) is infinite there; its neighbours are folded, and what runs gives the same."""
    values, nodes, x = {}, [], "x"
    for number, (weight, gain, var) in enumerate([(0.1, 1, 1), (100, 10, 1e-5), (0.2, 2, 1)]):
        w, vectors = f"w{number}", [f"{name}{number}" for name in ("gain", "shift", "mean", "var")]
        values[w] = np.full((2, 2, 1, 1), weight, np.float16)
        values.update(zip(vectors, (np.full(2, each, np.float16) for each in (gain, 0, 0, var))))
        nodes.append(helper.make_node("Conv", [x, w], [f"h{number}"], name=f"conv{number}"))
        nodes.append(helper.make_node("BatchNormalization", [f"h{number}", *vectors], [f"y{number}"], name=f"norm{number}"))
        x = f"y{number}"
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [1, 2, 3, 3]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [numpy_helper.from_array(a, n) for n, a in values.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, quick_folder / "in.onnx")
    words = ["--pass", "fuse/bn"] if command == "run" else []
    done = weir(command, quick_folder / "in.onnx", quick_folder / "out.onnx", *words, "--report-json", quick_folder / "r.json")
    assert done.code == 0 and '"range"' in (quick_folder / "r.json").read_text()
    made = onnx.load(quick_folder / "out.onnx")
    assert [node.op_type for node in made.graph.node] == ["Conv", "Conv", "BatchNormalization", "Conv"]
    signal = np.random.default_rng(3).uniform(-1e-3, 1e-3, (1, 2, 3, 3)).astype(np.float16)
    np.testing.assert_allclose(outputs(made, signal), outputs(model, signal), rtol=5e-3, atol=1e-4)


def test_a_large_weight_streams(quick_folder):
    """48 MiB of weights in 8 MiB, and the bytes are numpy's: each step rounded as it is there."""
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((768, 16384, 1), np.float32)}
    node, x_dims, _, channels = conv("Conv", [1, 16384, 4], [768, 16384, 1])
    model = model_of(node, x_dims, weights, channels, np.float32, rng)
    source, out = quick_folder / "in.onnx", quick_folder / "out.onnx"
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    onnx.save(model, source, save_as_external_data=True, location="in.onnx.data", size_threshold=1024)
    done = measure("run", source, out, "--pass", "fuse/bn", "--memory", "8M")
    assert done.code == 0, done.said
    assert done.beside_index <= (8 + 16) * MIB
    assert (quick_folder / "in.onnx.data").stat().st_size > 2 * (8 + 16) * MIB - 4 * MIB  # what did not fit
    factor = held["scale"] / np.sqrt(held["var"] + np.float32(1e-3))
    [w] = [t for t in onnx.load(out).graph.initializer if len(t.dims) == 3]
    assert numpy_helper.to_array(w).tobytes() == (held["w"] * factor.reshape(-1, 1, 1)).tobytes()
