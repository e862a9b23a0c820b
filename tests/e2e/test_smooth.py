"""weir smooth: SmoothQuant by channel statistics, beside NumPy's formula and ONNX Runtime."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import ranges_file
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from test_memory import measure

pytestmark = pytest.mark.in_memory

# Golden: the published formula, run by the tool that has it.
A = np.array([0x403FFFD6, 0x3F000000, 0x4147FF3E, 0x3F3FFF58], np.uint32).view(np.float32)
W = np.array([[-1, -0.125, 0.75], [-0.5, 0.375, -0.875], [0, 0.875, -0.375], [0, 0, 0]], np.float32)
SCALES = {
    "0.0": [0x3F800000, 0x3F924925, 0x3F924925, 0x47C35000],
    "0.3": [0x3FB1F83A, 0x3F644F6A, 0x4015EA44, 0x47B3298E],
    "0.5": [0x3FDDB3BF, 0x3F41848F, 0x4071E53D, 0x47A924FB],
    "0.7": [0x400A172B, 0x3F240708, 0x40C327B9, 0x479FAFCF],
    "1.0": [0x403FFFD6, 0x3F000000, 0x4147FF3E, 0x3F3FFF58],
}


def value(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def model_of(nodes, inputs, outputs, constants, opset=17):
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model, feeds, outputs=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(outputs, feeds)


def constants_of(model):
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def watched(model, samples, axes):
    """Arrays of values, over samples."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    inputs = {i.name for i in model.graph.input}
    inner = [name for name in axes if name not in inputs]
    del whole.graph.output[:]
    whole.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in inner)
    found = {name: [] for name in axes}
    for feeds in samples:
        for name, x in {**feeds, **dict(zip(inner, run(whole, feeds)))}.items():
            if name in found:
                found[name].append(x)
    return found


@pytest.fixture
def smooth(weir, tmp_path):
    """smooth(model, statistics, axes, words…): the model that comes out, and its report."""

    def go(model, samples, axes, *words, check=True):
        onnx.save(model, tmp_path / "in.onnx")
        ranges = ranges_file.write(tmp_path / "r.jsonl", samples, axes)
        done = weir("smooth", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force", "--ranges", ranges, *words)
        made = onnx.load(tmp_path / "out.onnx")
        if check:
            onnx.checker.check_model(made)
        return made, done

    return go


def one_matmul():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "mm")]
    return model_of(nodes, [value("x", [2, 4])], [value("y", [2, 3])], {"w": W})


@pytest.mark.parametrize("alpha", SCALES)
def test_scales_are_those_of_the_formula(smooth, alpha):
    """--compat has the bits of the tool's scales, which end in a power: within a last place."""
    made, _ = smooth(one_matmul(), {"x": [np.stack([A, -A / 2])]}, {"x": -1}, "--alpha", alpha, "--compat", "onnxruntime")
    scales = np.array(SCALES[alpha], np.uint32).view(np.float32)
    found = constants_of(made)
    assert [n.name for n in made.graph.node] == ["mm_smooth_mul", "mm"]
    np.testing.assert_array_max_ulp(found["mm_smooth_scale"], 1 / scales, 2)
    np.testing.assert_array_max_ulp(found["w"], W * scales[:, None], 2)


def test_dead_channels_stay(smooth):
    """Nothing was seen in channel 1, and channel 3 has no weights: the others are as the formula has them."""
    a = A.copy()
    a[1] = 0
    made, _ = smooth(one_matmul(), {"x": [np.stack([a, -a])]}, {"x": -1})
    scales = np.array(SCALES["0.5"], np.uint32).view(np.float32).copy()
    scales[[1, 3]] = 1
    np.testing.assert_array_max_ulp(constants_of(made)["x_smooth_scale"], 1 / scales, 2)


def transformer(seed=0, d=64, gains=(12, 20, 30)):
    """Two layers whose LayerNormalizations have three channels that are much larger than the others."""
    rng = np.random.default_rng(seed)
    constants, nodes = {}, []

    def constant(name, array):
        constants[name] = np.asarray(array, np.float32)
        return name

    def node(op, inputs, out, **attributes):
        nodes.append(helper.make_node(op, inputs, [out], out, **attributes))
        return out

    def linear(x, name, n_in, n_out):
        y = node("MatMul", [x, constant(f"{name}.w", rng.standard_normal((n_in, n_out)) / np.sqrt(n_in))], f"{name}.m")
        return node("Add", [y, constant(f"{name}.b", rng.standard_normal(n_out) / 10)], f"{name}.y")

    def norm(x, name):
        gain = 1 + rng.standard_normal(d) / 10
        gain[rng.choice(d, len(gains), replace=False)] = gains
        return node("LayerNormalization", [x, constant(f"{name}.g", gain), constant(f"{name}.beta", rng.standard_normal(d) / 10)], f"{name}.y")

    x = "x"
    for i in range(2):
        h = norm(x, f"{i}.ln1")
        q, k, v = (linear(h, f"{i}.{name}", d, d) for name in "qkv")
        t = node("Transpose", [k], f"{i}.t", perm=[0, 2, 1])
        scores = node("Mul", [node("MatMul", [q, t], f"{i}.s"), constant(f"{i}.scale", 1 / np.sqrt(d))], f"{i}.scaled")
        o = node("MatMul", [node("Softmax", [scores], f"{i}.p", axis=-1), v], f"{i}.o")
        x = node("Add", [x, linear(o, f"{i}.out", d, d)], f"{i}.x1")
        h = node("Relu", [linear(norm(x, f"{i}.ln2"), f"{i}.up", d, 4 * d)], f"{i}.relu")
        x = node("Add", [x, linear(h, f"{i}.down", 4 * d, d)], f"{i}.x2")
    logits = linear(norm(x, "last"), "head", d, 32)
    return model_of(nodes, [value("x", ["n", "t", d])], [value(logits, ["n", "t", 32])], constants)


AXES = {f"{i}.{name}": -1 for i in range(2) for name in ("ln1.y", "ln2.y", "o", "relu")} | {"last.y": -1}


def feeds_of(seed, n):
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((1, 16, 64)).astype(np.float32)} for _ in range(n)]


@pytest.mark.parametrize("words", [(), ("--alpha", "auto"), ("--no-folding",)], ids=" ".join)
def test_an_unsorted_graph_becomes_the_same(smooth, words):
    """Its nodes and its tensors, in whatever order the file lists the nodes."""
    model, seen = transformer(), []
    samples = watched(model, feeds_of(2, 2), AXES)
    for order in (list(model.graph.node), list(model.graph.node)[::-1]):
        turned = onnx.ModelProto()
        turned.CopyFrom(model)
        del turned.graph.node[:]
        turned.graph.node.extend(order)
        made, _ = smooth(turned, samples, AXES, *words, check=False)
        seen.append((sorted((n.op_type, *n.input, *n.output) for n in made.graph.node), sorted((t.name, t.raw_data) for t in made.graph.initializer)))
    assert seen[0] == seen[1]


def sqnr(reference, found):
    error = sum(((a - b) ** 2).sum() for a, b in zip(reference, found))
    return 10 * np.log10(sum((a**2).sum() for a in reference) / error)


def quantized(model, folder, feeds):
    onnx.save(model, folder / "float.onnx")
    quantize_dynamic(folder / "float.onnx", folder / "int8.onnx", op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
    return [run(onnx.load(folder / "int8.onnx"), f)[0] for f in feeds]


@pytest.mark.parametrize("words", [(), ("--alpha", "auto"), ("--no-folding",), ("--compat", "onnxruntime"), ("--alpha", "0.7")], ids=" ".join)
def test_a_transformer_is_smoothed(smooth, tmp_path, words):
    """The same model up to rounding; in int8 it is much nearer to itself."""
    model, feeds = transformer(), feeds_of(1, 4)
    made, done = smooth(model, watched(model, feeds_of(2, 8), AXES), AXES, *words)
    reference = [run(model, f)[0] for f in feeds]
    assert sqnr(reference, [run(made, f)[0] for f in feeds]) > 110
    muls = [n for n in made.graph.node if n.name.endswith("_smooth_mul")]
    before, after = (sqnr(reference, quantized(m, tmp_path, feeds)) for m in (model, made))
    assert after > before + 3.5, (before, after)
    if "--compat" in words:
        assert len(muls) == 10  # of what ends at one node alone, and is made by a LayerNormalization, there is none but `up` and `head`
    elif words == ("--no-folding",):
        assert len(muls) == len(AXES)
    else:
        assert {n.input[0] for n in muls} == {"0.o", "1.o"}
        names = {out for n in made.graph.node for out in n.output}
        assert "0.ln1.y" not in names and "0.ln1.y_smoothed" in names


@pytest.mark.parametrize("words", [(), ("--no-folding",), ("--compat", "onnxruntime")], ids=" ".join)
def test_its_sites_are_verified(weir, tmp_path, words):
    """Each site has the node that makes the value and those that read it; logs replay."""
    model = transformer()
    onnx.save(model, tmp_path / "in.onnx")
    ranges = ranges_file.write(tmp_path / "r.jsonl", watched(model, feeds_of(2, 4), AXES), AXES)
    done = weir("smooth", tmp_path / "in.onnx", tmp_path / "out.onnx", "--ranges", ranges, *words, "--verify", "--verify-require", "100%", "--edit-log", tmp_path / "log")
    assert "(100.0 %)" in done.out
    weir("replay", tmp_path / "log", tmp_path / "in.onnx", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


def test_static_does_not_take_the_old_ranges(weir, tmp_path):
    """All values of the model are known, but not those that are divided."""
    model = transformer()
    onnx.save(model, tmp_path / "in.onnx")
    axes = {name: AXES.get(name) for name in ["x", *(out for n in model.graph.node for out in n.output)]}
    ranges = ranges_file.write(tmp_path / "r.jsonl", watched(model, feeds_of(2, 4), axes), axes)
    static = ["--pass", f"static:ranges={ranges}"]
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", *static)
    done = weir("run", tmp_path / "in.onnx", tmp_path / "no.onnx", "--pass", f"smooth:ranges={ranges}", *static, code=66)
    assert "has no range for the value '0.o_smooth_output'" in done.err


def test_static_behind_it(weir, tmp_path):
    """Calibrated twice: the model, and the model as smooth leaves it, which no file is."""
    model, feeds = transformer(), feeds_of(1, 4)
    onnx.save(model, tmp_path / "in.onnx")
    (tmp_path / "samples").mkdir()
    for i, feed in enumerate(feeds_of(2, 8)):
        np.savez(tmp_path / "samples" / f"{i}.npz", **feed)
    calibrate = ["calibrate", "in.onnx", "--data", "samples"]
    weir(*calibrate, "-o", "r.jsonl", "--statistics", "channel", cwd=tmp_path)
    smooth = ["--pass", "smooth:ranges=r.jsonl,alpha=auto"]
    weir(*calibrate, "-o", "again.jsonl", *smooth, cwd=tmp_path)
    weir("run", "in.onnx", "a.onnx", "--pass", "static:ranges=r.jsonl", cwd=tmp_path)
    weir("run", "in.onnx", "b.onnx", *smooth, "--pass", "static:ranges=again.jsonl", cwd=tmp_path)
    reference = [run(model, f)[0] for f in feeds]
    before, after = (sqnr(reference, [run(onnx.load(tmp_path / name), f)[0] for f in feeds]) for name in ("a.onnx", "b.onnx"))
    assert after > before + 4, (before, after)
    other = transformer(seed=5)
    other.graph.node[0].output[0] = other.graph.node[1].input[0] = "renamed"
    for node in other.graph.node:
        node.input[:] = ["renamed" if name == "0.ln1.y" else name for name in node.input]
    onnx.save(other, tmp_path / "other.onnx")
    done = weir("calibrate", "other.onnx", "--data", "samples", "-o", "no.jsonl", *smooth, cwd=tmp_path, code=66)
    assert "another model" in done.err


def test_what_is_known_of_other_axes_or_nothing_is_refused_by_name(smooth):
    model, feeds = transformer(), feeds_of(2, 2)
    axes = {"0.ln1.y": 1, "0.ln2.y": None, "0.o": -1}
    _, done = smooth(model, watched(model, feeds, axes), {k: v for k, v in axes.items() if v}, "--json")
    nodes = {n["node_name"]: n["reason"] for n in json.loads(done.out)["passes"][0]["nodes"]}
    assert nodes["0.q.m"] == "other_channels" and nodes["0.up.m"] == "no_channels" and nodes["1.up.m"] == "no_range"
    assert nodes["0.out.m"] == "smoothed" and nodes["0.s"] == "non_constant_weight"


def convolutions(rng):
    f32 = np.float32
    constants = {
        "k": rng.standard_normal((8, 3, 3, 3)).astype(f32),
        "b": rng.standard_normal(8).astype(f32),
        "scale": rng.uniform(0.5, 20, 8).astype(f32),
        "shift": rng.standard_normal(8).astype(f32),
        "mean": rng.standard_normal(8).astype(f32),
        "var": rng.uniform(0.5, 2, 8).astype(f32),
        "k2": rng.standard_normal((6, 8, 1, 1)).astype(f32),
        "k3": rng.standard_normal((6, 1, 3, 3)).astype(f32),
        "k4": rng.standard_normal((4, 6, 3, 3)).astype(f32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["c"], "c1"),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"], "bn"),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "k2"], ["p"], "c2"),
        helper.make_node("Conv", ["p", "k3"], ["q"], "c3", group=6),
        helper.make_node("Conv", ["q", "k4"], ["y"], "c4"),
    ]
    return model_of(nodes, [value("x", ["n", 3, "h", "w"])], [value("y", ["n", 4, None, None])], constants)


@pytest.mark.parametrize("before", [(), ("conv2matmul:extended_conv1x1=true",)], ids=["conv", "matmul"])
def test_convolutions(weir, tmp_path, before):
    """Folded into BatchNormalization and a depthwise Conv; and where a pass made a MatMul of a Conv, by the axis that it moved."""
    rng = np.random.default_rng(3)
    model = convolutions(rng)
    axes = {"x": 1, "r": 1, "p": 1, "q": 1}
    feeds = [{"x": rng.standard_normal((1, 3, 9, 9)).astype(np.float32)} for _ in range(3)]
    onnx.save(model, tmp_path / "in.onnx")
    ranges_file.write(tmp_path / "r.jsonl", watched(model, feeds, axes), axes)
    steps = [*before, f"smooth:ranges={tmp_path / 'r.jsonl'}"]
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", *(w for s in steps for w in ("--pass", s)), "--json")
    made = onnx.load(tmp_path / "out.onnx")
    reasons = {n["node_name"]: n["reason"] for n in json.loads(done.out)["passes"][-1]["nodes"]}
    assert reasons["c1"] == "smoothed" and reasons["c3"] == "group_not_1" and reasons["c4"] == "smoothed_folded"
    assert sorted(reasons.values()).count("smoothed_folded") == (1 if before else 2)
    assert not before or "smoothed" in [r for name, r in reasons.items() if name not in ("c1", "c3", "c4")]
    reference = [run(model, f)[0] for f in feeds]
    assert sqnr(reference, [run(made, f)[0] for f in feeds]) > 110


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_other_forms(smooth, dtype):
    """Gemm with and without transB, Mul, a bias of one number, weights that nodes share, float16."""
    rng = np.random.default_rng(4)
    onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shapes = {"w1": (8, 6), "w2": (5, 6), "b1": (1, 6), "w3": (5, 8), "g": (8,), "w4": (8, 5)}
    constants = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    constants["one"] = np.array(0.5, dtype)
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "g1"),
        helper.make_node("Add", ["one", "h"], ["i"], "plus"),
        helper.make_node("Relu", ["i"], ["j"], "relu"),
        helper.make_node("Gemm", ["j", "w2"], ["y"], "g2", transB=1),
        helper.make_node("Mul", ["g", "x"], ["m"], "mul"),
        helper.make_node("Gemm", ["m", "w3"], ["z"], "g3", transB=1, alpha=0.5),
        helper.make_node("MatMul", ["m", "w4"], ["u"], "g4"),
        helper.make_node("MatMul", ["x", "w4"], ["v"], "g5"),
    ]
    outputs = [value(name, [7, 5], onnx_type) for name in "yzuv"]
    model = model_of(nodes, [value("x", [7, 8], onnx_type)], outputs, constants)
    feeds = {"x": (rng.standard_normal((7, 8)) * rng.uniform(0.2, 9, 8)).astype(dtype)}
    axes = {"x": -1, "j": -1, "m": -1}
    made, done = smooth(model, watched(model, [feeds], axes), axes, "--json")
    reasons = {n["node_name"]: n["reason"] for n in json.loads(done.out)["passes"][0]["nodes"]}
    # Casts of halves and factors of two sites are too much for one weight.
    relu = "smoothed_folded" if dtype == np.float32 else "smoothed"
    assert reasons == {"g1": "smoothed", "g2": relu, "g3": "smoothed_folded", "g4": "smoothed_folded", "g5": "smoothed"}
    floor = 110 if dtype == np.float32 else 45
    for a, b in zip(run(model, feeds), run(made, feeds)):
        assert sqnr([a.astype(np.float64)], [b.astype(np.float64)]) > floor


@pytest.mark.parametrize("words, said", [(("--alpha", "2"), "is not a number from 0 to 1"), (("--alpha", "half"), "is not a number"), ((), "smooth needs --ranges")])
def test_what_is_refused(weir, tmp_path, words, said):
    onnx.save(one_matmul(), tmp_path / "in.onnx")
    ranges = ["--ranges", ranges_file.write(tmp_path / "r.jsonl", {"x": [np.ones((2, 4), np.float32)]}, {"x": -1})]
    done = weir("smooth", tmp_path / "in.onnx", tmp_path / "out.onnx", *(ranges if words else []), *words, code=2)
    assert said in done.err


@pytest.mark.parametrize("alpha", ["0.5", "auto"])
def test_dynamic_behind_it(weir, tmp_path, alpha):
    """In one run with weir dynamic: weights are scaled and quantized at once, and nearer than without."""
    model, feeds = transformer(), feeds_of(1, 4)
    onnx.save(model, tmp_path / "in.onnx")
    ranges = ranges_file.write(tmp_path / "r.jsonl", watched(model, feeds_of(2, 8), AXES), AXES)
    reference = [run(model, f)[0] for f in feeds]
    found = []
    for passes in (["dynamic"], [f"smooth:ranges={ranges},alpha={alpha}", "dynamic"]):
        weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force", *(w for p in passes for w in ("--pass", p)))
        made = onnx.load(tmp_path / "out.onnx")
        found.append(sqnr(reference, [run(made, f)[0] for f in feeds]))
    assert found[1] > found[0] + 3.5, found


def test_weights_are_streamed(weir, result_folder):
    """96 MB of weights that are scaled, looked at for alpha, or quantized: in a memory that does not hold them."""
    k, n = 3072, 8192
    rng = np.random.default_rng(0)
    w = rng.standard_normal((k, n), np.float32)
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "mm")], [value("x", [1, k])], [value("y", [1, n])], {})
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[k, n], data_location=TensorProto.EXTERNAL)
    for key, said in (("location", "in.data"), ("offset", "0"), ("length", str(w.nbytes))):
        tensor.external_data.add(key=key, value=said)
    model.graph.initializer.append(tensor)
    onnx.save(model, result_folder / "in.onnx")
    (result_folder / "in.data").write_bytes(w.tobytes())
    a = rng.uniform(0.1, 20, k).astype(np.float32)
    ranges = ranges_file.write(result_folder / "r.jsonl", {"x": [np.stack([a, -a])], "y": [np.float32([-9, 9])]}, {"x": -1})
    given = ["--ranges", ranges]
    for command, *words in (["smooth", *given], ["smooth", *given, "--alpha", "auto"], ["dynamic"],
                            ["static", *given, "--format", "qoperator"]):  # fmt: skip
        done = measure(command, result_folder / "in.onnx", result_folder / "out.onnx", "-f", *words, "--memory", "8M")
        assert done.code == 0, done.said
        assert done.peak < 48 << 20 < w.nbytes
    weir("smooth", result_folder / "in.onnx", result_folder / "out.onnx", "--force", "--ranges", ranges)
    scales = np.sqrt(a) / np.sqrt(np.abs(w).max(1))
    made = onnx.load(result_folder / "out.onnx")
    got = constants_of(made)
    np.testing.assert_array_max_ulp(got["x_smooth_scale"], (1 / scales).astype(np.float32), 3)
    np.testing.assert_allclose(got["w"], w * scales[:, None], rtol=1e-6)
