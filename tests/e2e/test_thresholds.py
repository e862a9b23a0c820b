"""Thresholds: what passes make of MultiThreshold, Round and comparisons computes what was there, step by step.

A function is its published body, run by ONNX Runtime; numpy is the judge beside it. Steps are whole numbers, so that equal
means equal: on thresholds, one place beside them, at infinity.
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from conftest import ALL
from test_memory import measure
from threshold_models import DOMAIN, KINDS, many_stairs, model_of, network, numbers, random_stairs, reference, stairs, value

pytestmark = pytest.mark.in_memory

SEEDS = 2000 if ALL else 60
TREES = 400 if ALL else 12
MIB = 1 << 20
DECOMPOSITIONS = ["ThresholdMonotonicityDecomposition", "ThresholdMultiplicityDecomposition", "ThresholdGranularityDecomposition"]


def run(model, **inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    made = session.run(None, inputs)
    return made[0] if len(made) == 1 else made


@pytest.fixture
def through(weir, tmp_path):
    """The model behind passes, and how often each changed something."""

    def go(model, *words):
        onnx.save(model, tmp_path / "in.onnx")
        report = weir.report("run", tmp_path / "in.onnx", tmp_path / "out.onnx", *words, "--force", "--no-manifest")
        made = onnx.load(tmp_path / "out.onnx")
        onnx.checker.check_model(made)
        return made, report

    return go


def nodes_of(model, *ops):
    return [node for node in model.graph.node if node.op_type in ops]


def constants_of(model):
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}


def changed(before, after):
    return [n.SerializeToString() for n in before.graph.node] != [n.SerializeToString() for n in after.graph.node]


FINITE = ("--exactness", "finite")  # where rounding moves past a comparison


# ---- passes over MultiThreshold


@pytest.mark.parametrize("name", ["SortThresholds", "UnbroadcastThresholds", "InlineThresholds", *DECOMPOSITIONS])
def test_steps_stay(through, name):
    """Thresholds of every granularity, weights of both signs: equal results, and a second run finds nothing."""
    rng, rows = np.random.default_rng(7), []
    for i in range(SEEDS):
        dims = [[3], [2, 3], [2, 2, 3]][rng.integers(3)]
        t, w = random_stairs(rng, dims)
        if name == "ThresholdGranularityDecomposition" and i % 2:  # made of what it finds
            t = np.sort(rng.integers(-3, 4, [dims[-1], 3]) / 2).astype(np.float32) - rng.integers(-2, 3, [*dims, 1])
            w = np.ones(3, np.float32)
        rows.append((dims, t, w))
    before = many_stairs(rows)
    after, report = through(before, "--pass", name, *FINITE)
    assert report["passes"][0]["converted"] >= SEEDS // 6
    near = 0 if "Granularity" in name else 0.3  # sums of input and bias are rounded
    for _ in range(3):
        x = {f"x{i}": numbers(rng, dims, near=near) for i, (dims, _, _) in enumerate(rows)}
        for i, (had, has) in enumerate(zip(run(before, **x), run(after, **x))):
            told = f"x {x[f'x{i}'].tolist()} t {rows[i][1].tolist()} w {rows[i][2].tolist()}"
            wanted = reference(x[f"x{i}"], *rows[i][1:])
            assert np.array_equal(had, wanted) and np.array_equal(has, wanted), told
    again, _ = through(after, "--pass", name, *FINITE)
    assert not changed(after, again)


@pytest.mark.parametrize("name", ["SortThresholds", "UnbroadcastThresholds", "ThresholdMonotonicityDecomposition"])
def test_infinity_and_nan(through, name):
    """What no finite input reaches is reached by infinity, before and after; NaN reaches nothing."""
    rng, x = np.random.default_rng(8), np.array([np.inf, -np.inf, np.nan], np.float32)
    rows = [([3], *random_stairs(rng, [3])) for _ in range(SEEDS)]
    after, _ = through(many_stairs(rows), "--pass", name)
    for (_, t, w), made in zip(rows, run(after, **{f"x{i}": x for i in range(SEEDS)})):
        assert np.array_equal(made, reference(x, t, w)), f"t {t.tolist()} w {w.tolist()}"


def test_sorted_and_going_up(through):
    t = [[3, 1, 2], [0, -1, 5]]
    after, report = through(stairs([4, 2], t, [1, 2, -1]), "--pass", "decompose-thresholds", "--pass", "sort-thresholds")
    constants = constants_of(after)
    assert len(nodes_of(after, "MultiThreshold")) == 2 and len(nodes_of(after, "Sub")) == 1
    for node in nodes_of(after, "MultiThreshold"):
        thresholds = constants[node.input[1]]
        assert np.array_equal(thresholds, np.sort(thresholds)) and np.all(constants[node.input[2]] == 1)


def test_fractions_are_rounded_and_told(through):
    """Sums of fractions in another order: within the cap rounding alone."""
    before = stairs([3], [2, 0, 1], [0.1, 0.2, 0.3])
    after, report = through(before, "--pass", "SortThresholds", "--exactness", "exact")
    assert not changed(before, after)
    after, _ = through(before, "--pass", "SortThresholds")
    x = np.array([3, 0, 1], np.float32)
    assert changed(before, after) and np.allclose(run(after, x0=x), run(before, x0=x), rtol=1e-6)


def test_a_bias_for_each_element(through):
    """Rows that are the same but for a whole number; none that come close."""
    u, b = np.array([[0.25, 1.5], [0.5, 7.0]], np.float32), np.arange(-3, 3, dtype=np.float32).reshape(3, 2)
    before = stairs([3, 2], u - b[..., None], [1, 1])
    after, _ = through(before, "--pass", "ThresholdGranularityDecomposition", *FINITE)
    (node,) = nodes_of(after, "MultiThreshold")
    assert constants_of(after)[node.input[1]].shape == (2, 2) and len(nodes_of(after, "Add")) == 1
    near, _ = through(stairs([3, 2], u - b[..., None] * 1.001, [1, 1]), "--pass", "ThresholdGranularityDecomposition", *FINITE)
    assert not nodes_of(near, "Add")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_that_lie_in_a_file(weir, tmp_path, dtype):
    """Thresholds of each channel that are read, sorted, and recorded: the log replays, and refuses others."""
    rng = np.random.default_rng(3)
    t = rng.permutation(np.arange(64 * 255)).reshape(64, 255).astype(dtype)
    model = stairs([2, 64], t, [1], dtype)
    onnx.save(model, tmp_path / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=1024)
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "SortThresholds", "--edit-log", tmp_path / "log.jsonl")
    after = onnx.load(tmp_path / "out.onnx")
    assert np.array_equal(constants_of(after)[nodes_of(after, "MultiThreshold")[0].input[1]], np.sort(t))
    (tmp_path / "again").mkdir()
    weir("replay", tmp_path / "log.jsonl", tmp_path / "in.onnx", tmp_path / "again" / "out.onnx")
    assert (tmp_path / "again" / "out.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()
    data = bytearray((tmp_path / "in.data").read_bytes())
    data[-1] ^= 1
    (tmp_path / "in.data").write_bytes(data)
    done = weir("replay", tmp_path / "log.jsonl", tmp_path / "in.onnx", tmp_path / "other.onnx", code=None)
    assert done.code != 0 and not (tmp_path / "other.onnx").exists()


def test_more_than_are_looked_at_stay(weir, tmp_path):
    """Thresholds for each element of a large picture: left alone, and said so."""
    t = np.zeros((513, 512), np.float32)
    t[0, 0] = 1
    onnx.save(stairs([513], t, [1]), tmp_path / "in.onnx")
    report = weir.report("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "SortThresholds")
    assert "too_large" in json.dumps(report)


# ---- rounding


ROUNDINGS = {"Round": np.rint, "Ceil": np.ceil, "Floor": np.floor}


def clipped(op, lo, hi, dtype, dims):
    nodes = [helper.make_node("Clip", ["x", "lo", "hi"], ["c"]), helper.make_node(op, ["c"], ["y"])]
    kind = KINDS[np.dtype(dtype)]
    return model_of(nodes, [value("x", dims, kind)], [value("y", dims, kind)], {"lo": dtype(lo), "hi": dtype(hi)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ROUNDINGS)
@pytest.mark.parametrize("lo,hi", [(-4, 3), (-3.5, 2.5), (0.25, 9.75), (-0.5, 0.75), (-128, 127)])
def test_rounding(through, op, lo, hi, dtype):
    """Every whole number and half in the range, and what lies beside each: what numpy rounds them to."""
    marks = np.arange(np.floor(lo) - 1, np.ceil(hi) + 1.5, 0.5).astype(dtype)
    x = np.concatenate([marks, np.nextafter(marks, dtype(np.inf)), np.nextafter(marks, dtype(-np.inf)), [dtype(5e-324), dtype(-0.0)]]).astype(dtype)
    before = clipped(op, lo, hi, dtype, [len(x)])
    after, _ = through(before, "--pass", "infer-thresholds")
    assert nodes_of(after, "MultiThreshold") and not nodes_of(after, op)
    wanted = ROUNDINGS[op](np.clip(x, dtype(lo), dtype(hi)))
    assert run(after, x=x).dtype == dtype
    assert np.array_equal(run(after, x=x), wanted)
    if dtype == np.float32:
        assert np.array_equal(run(before, x=x), wanted)


def test_more_steps_than_allowed(through):
    before = clipped("Round", -128, 127, np.float32, [2])
    after, _ = through(before, "--pass", "ConvertRoundToThresholds:max-thresholds=254")
    assert not nodes_of(after, "MultiThreshold")
    after, _ = through(before, "--pass", "ConvertRoundToThresholds")
    assert nodes_of(after, "MultiThreshold")


def test_a_range_that_a_user_says(through):
    """Nothing is known of an input, until the metadata says it."""
    model = model_of([helper.make_node("Round", ["x"], ["y"])], [value("x", [4])], [value("y", [4])], {})
    after, _ = through(model, "--pass", "infer-thresholds")
    assert not nodes_of(after, "MultiThreshold")
    helper.set_model_props(model, {"range:x": "[0, 3]"})
    after, _ = through(model, "--pass", "infer-thresholds")
    x = np.array([0, 0.5, 1.5, 3], np.float32)
    assert np.array_equal(run(after, x=x), np.rint(x))


# ---- ranges


def ranges_of(model):
    """What the metadata of values says."""
    infos = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    return {v.name: json.loads(p.value) for v in infos for p in v.metadata_props if p.key == "range"}


def test_ranges_of_weights_are_read_as_a_stream(weir, result_folder):
    """192 MB of weights: least and most of them, in a memory that does not hold them."""
    path, rows, columns = result_folder / "in.onnx", 48, MIB
    x, y = value("x", [1, columns]), value("y", [rows, columns])
    w = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[rows, columns], data_location=onnx.TensorProto.EXTERNAL)
    for key, said in (("location", "in.data"), ("offset", "0"), ("length", str(4 * rows * columns))):
        w.external_data.add(key=key, value=said)
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    with open(result_folder / "in.data", "wb") as file:
        file.truncate(4 * rows * columns)
        file.seek(4 * (7 * columns + 3))
        file.write(np.array([-2.5, 7.25], np.float32).tobytes())
    done = measure("run", path, result_folder / "out.onnx", "--pass", "range-annotation", "--memory", "8M")
    assert done.code == 0, done.said
    assert done.peak < 64 * MIB < 4 * rows * columns
    assert ranges_of(onnx.load(result_folder / "out.onnx", load_external_data=False)) == {"w": [-2.5, 7.25]}


def test_ranges_hold_on_what_a_runtime_computes(through):
    """Every value with a range lies in it, whatever finite numbers come in; the entries go again."""
    model = network()
    after, _ = through(model, "--pass", "range-annotation")
    onnx.checker.check_model(after, full_check=True)
    said = ranges_of(after)
    inner = [name for node in model.graph.node for name in node.output if name in said]
    assert len(inner) >= 7
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in inner)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    for scale in (0.1, 1, 100):
        for name, array in zip(inner, session.run(None, {"x": (rng.standard_normal((4, 8)) * scale).astype(np.float32)})):
            lo, hi = said[name]
            assert (lo is None or array.min() >= lo) and (hi is None or array.max() <= hi), name
    clean, _ = through(after, "--pass", "CleanupRangeAnnotation")
    assert not ranges_of(clean) and len(clean.graph.value_info) == len(model.graph.value_info)


SAID = [("[-3.0, 3.0]", True), ("[[-3.0, -2.0], [[1.5], [3.0]]]", True), ("[-3, null]", False), ("[3, -3]", False), ("[-3, 3", False)]
SAID += [("[[], 3]", False), ("[-3, 3, 4]", False), ("[NaN, 3]", False), ("[-3, 3] ", True), ("[-3, 3] x", False), ("[" * 9, False)]


@pytest.mark.parametrize("text, known", SAID)
def test_ranges_that_onnx_passes_wrote(through, text, known):
    """They lie in the metadata of values, among others, which stay."""
    model = model_of([helper.make_node("Round", ["x"], ["y"])], [value("x", [4])], [value("y", [4])], {})
    x = model.graph.input[0]
    x.doc_string = "about x"
    for key, word in (("first", "1"), ("range", text), ("range", "[0, 0]"), ("long", "l" * 70000), ("last", "2")):
        x.metadata_props.add(key=key, value=word)
    after, _ = through(model, "--pass", "infer-thresholds")
    assert bool(nodes_of(after, "MultiThreshold")) == known
    assert after.graph.input[0] == x
    if known:
        feed = np.array([-3, -0.5, 2.5, 3], np.float32)
        assert np.array_equal(run(after, x=feed), np.rint(feed))
    clean, _ = through(model, "--pass", "CleanupRangeAnnotation")
    del x.metadata_props[1]
    assert clean == model


# ---- comparisons


@pytest.mark.parametrize("op", ["GreaterOrEqual", "LessOrEqual", "Greater", "Less"])
@pytest.mark.parametrize("right", [True, False])
def test_silu_in_comparisons(through, op, right):
    """Compared with numpy in double, wherever the two sides do not lie so close that rounding decides."""
    c = np.array([-1, -0.2785, -0.278, -0.2, -1e-3, 0, 1e-3, 0.3, 1, 20], np.float32)
    x = np.linspace(-12, 25, 4001).astype(np.float32)[:, None]
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["m"]), helper.make_node(op, ["m", "c"] if right else ["c", "m"], ["y"])]
    before = model_of(nodes, [value("x", [len(x), 1])], [value("y", [len(x), len(c)], onnx.TensorProto.BOOL)], {"c": c})
    after, _ = through(before, "--pass", "AbsorbSiluIntoComparison", *FINITE)
    assert not nodes_of(after, "Sigmoid", "Mul")
    silu = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
    judge = {"GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "Greater": np.greater, "Less": np.less}[op]
    wanted = judge(silu, c) if right else judge(c, silu)
    clear = np.abs(silu - c) > 1e-6
    assert np.array_equal(run(after, x=x)[clear], wanted[clear]) and clear.mean() > 0.99


def test_trees_of_comparisons(through):
    """Xor and Not of comparisons of every kind become stairs with the same sums."""
    rng, fused = np.random.default_rng(5), 0
    for seed in range(TREES):
        leaves, nodes, constants = int(rng.integers(1, 5)), [], {"axes": np.array([-1], np.int64)}
        nodes.append(helper.make_node("Unsqueeze", ["x", "axes"], ["r"]))
        steps = int(rng.integers(1, 4))
        at = []
        for i in range(leaves):
            constants[f"t{i}"] = rng.choice([-2, -1, -0.5, 0, 0.5, 1, 2], [3, steps] if rng.random() < 0.5 else [steps]).astype(np.float32)
            sides = ["r", f"t{i}"]
            rng.shuffle(sides)
            nodes.append(helper.make_node(str(rng.choice(["GreaterOrEqual", "LessOrEqual", "Greater", "Less"])), sides, [f"b{i}"]))
            at.append(f"b{i}")
        while len(at) > 1 or rng.random() < 0.4:
            one = rng.random() < 0.3 or len(at) == 1
            out = f"u{len(nodes)}"
            nodes.append(helper.make_node("Not" if one else "Xor", [at.pop()] if one else [at.pop(), at.pop()], [out]))
            at.insert(0, out)
        constants["w"] = rng.choice([-2, -1, 0, 1, 2], [3, steps]).astype(np.float32)
        nodes += [helper.make_node("Cast", at, ["f"], to=1), helper.make_node("Mul", ["f", "w"], ["m"]), helper.make_node("ReduceSum", ["m", "axes"], ["y"], keepdims=0)]
        before = model_of(nodes, [value("x", [2, 3])], [value("y", [2, 3])], constants)
        after, _ = through(before, "--pass", "fuse-thresholds")
        fused += not nodes_of(after, "Cast")
        for _ in range(3):
            x = numbers(rng, [2, 3])
            assert np.array_equal(run(after, x=x), run(before, x=x)), seed
    assert fused > TREES // 2  # of the others nothing is left to be reached


# ---- the whole


@pytest.mark.parametrize("batch", [4, "N"])
@pytest.mark.parametrize("layers", [1, 3, 6])
def test_a_quantized_network(through, layers, batch):
    """Round, Clip and activations are thresholds in the end, of each channel, in order; equal results, for any batch."""
    before = network(layers, batch)
    after, report = through(before, "--pass", "streamline-thresholds", *FINITE)
    assert len(nodes_of(after, "MultiThreshold")) == layers
    assert not nodes_of(after, "Round", "Floor", "Ceil", "Clip", "Relu", "Sigmoid", "GreaterOrEqual", "Cast")
    assert {(f.domain, f.name) for f in after.functions} == {(DOMAIN, "MultiThreshold")}
    constants = constants_of(after)
    for node in nodes_of(after, "MultiThreshold"):
        thresholds = constants[node.input[1]]
        assert thresholds.ndim <= 2 and np.array_equal(thresholds, np.sort(thresholds))
    rng = np.random.default_rng(layers)
    for _ in range(20):  # sixteenths, so that sums are exact
        x = (rng.integers(-40, 41, (4, 8)) / 16).astype(np.float32)
        assert np.array_equal(run(after, **{after.graph.input[0].name: x}), run(before, x=x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["GreaterOrEqual", "LessOrEqual", "Greater", "Less", "Equal"])
def test_no_rounding_moves_past_a_comparison(through, op, dtype):
    """Unless asked for: sums, products and functions that come as near to a threshold as numbers can keep their truth values."""
    rng = np.random.default_rng(11)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    steps = np.arange(-30, 31)
    wide = np.dtype({4: np.int32, 8: np.int64}[np.dtype(dtype).itemsize])
    cases = [
        ([("Add", 3.0)], 7.0, 4.0),
        ([("Add", 0.1)], 0.3, 0.2),
        ([("Mul", 3.0)], 1.0, 1 / 3),
        ([("Mul", 0.1)], 0.7, 7.0),
        ([("Sub", 5.0)], 0.0, 5.0),
        ([("Exp", None)], 2.0, np.log(2)),
        ([("Sigmoid", None)], 0.75, np.log(3)),
        ([("Log", None)], 1.0, np.e),
        ([("Neg", None), ("Add", 1.0)], 0.9, 0.1),
    ]
    for chain, threshold, at in cases:
        nodes, constants, last = [], {"t": np.array(threshold, dtype)}, "x"
        for i, (what, by) in enumerate(chain):
            if by is not None:
                constants[f"c{i}"] = np.array(by, dtype)
            nodes.append(helper.make_node(what, [last] + ([f"c{i}"] if by is not None else []), [f"v{i}"]))
            last = f"v{i}"
        x = (np.array([at], dtype).view(wide) + steps.astype(wide)).astype(wide).view(dtype)
        for sides in ([last, "t"], ["t", last]):
            before = model_of([*nodes, helper.make_node(op, sides, ["y"])], [value("x", [len(x)], kind)], [value("y", [len(x)], onnx.TensorProto.BOOL)], constants)
            try:
                wanted = run(before, x=x)
            except Exception:  # noqa: BLE001 — the runtime has no such kernel
                continue
            after, _ = through(before, "--pass", "algebraic", "--pass", "streamline")
            assert np.array_equal(run(after, x=x), wanted), (chain, sides)
    two = model_of(
        [helper.make_node("Add", ["x", "z"], ["a"]), helper.make_node("Add", ["y", "z"], ["b"]), helper.make_node(op, ["a", "b"], ["o"])],
        [value(n, [64], kind) for n in "xyz"], [value("o", [64], onnx.TensorProto.BOOL)], {},
    )
    feeds = {n: rng.uniform(0, 1, 64).astype(dtype) * dtype(1 if n != "z" else 1000) for n in "xyz"}
    after, _ = through(two, "--pass", "algebraic")
    assert np.array_equal(run(after, **feeds), run(two, **feeds)) and len(nodes_of(after, "Add")) == 2
    after, _ = through(two, "--pass", "EliminateAddFromComparison", *FINITE)
    assert not nodes_of(after, "Add")


def test_a_second_time(through):
    """Inlined and fused again: no more nodes, equal results."""
    once, _ = through(network(), "--pass", "streamline-thresholds")
    twice, _ = through(once, "--pass", "streamline-thresholds")
    assert len(twice.graph.node) <= len(once.graph.node) and len(nodes_of(twice, "MultiThreshold")) == 3
    x = (np.random.default_rng(1).integers(-40, 41, (4, 8)) / 16).astype(np.float32)
    assert np.array_equal(run(twice, x=x), run(once, x=x))


def test_every_site_is_verified(weir, tmp_path):
    onnx.save(network(3), tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "streamline-thresholds", "--verify", "--verify-require", "100%")
