"""static --format qoperator: with --compat it writes what quantize_static of that version writes, byte for byte, over its
options; without it, it is right where that tool is wrong."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType

import quantizers
from conftest import ALL
from quantizable_graphs import TANGLED, TANGLED_ROW, feeds_of, quantizable_graph, static
from quantized_alike import alike

pytestmark = pytest.mark.in_memory

SEEDS = range(500 if ALL else 40)
INT8, UINT8 = QuantType.QInt8, QuantType.QUInt8


def session(model, optimized=False):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def is_valid(model):
    """Does it load?"""
    try:
        session(model)
    except Exception:
        return False
    return True


def quantized(weir, folder, model, *words, tool=quantizers.HERE, **options):
    """(what quantize_static writes, what weir writes), of the same ranges."""
    source, cache = folder / "model.onnx", folder / "cache.json"
    theirs, ours = folder / "theirs.onnx", folder / "ours.onnx"
    cache.unlink(missing_ok=True)
    onnx.save(model, source)
    tool(static, model, theirs, QuantFormat.QOperator, calibration_cache_path=cache, **options)
    weir("static", source, ours, "--ranges", cache, "--format", "qoperator", "--force", *words)
    return theirs, ours


# ---- the same bytes --------------------------------------------------------------------------------


def drawn_options(rng, model):
    """Options of quantize_static, and the same in words."""
    activation = [INT8, UINT8][rng.integers(2)]
    weight = UINT8 if activation == UINT8 and rng.random() < 0.3 else INT8
    words = ["--activation-type", activation.name, "--weight-type", weight.name]
    options, extra = {"activation_type": activation, "weight_type": weight}, {}

    def maybe(chance, name, words_of_it, value=True, to=extra):
        if rng.random() < chance:
            to[name] = value
            words.extend(words_of_it)

    maybe(0.5, "per_channel", ["--per-channel"], to=options)
    maybe(0.2, "reduce_range", ["--reduce-range"], to=options)
    maybe(0.2, "ActivationSymmetric", ["--activation-symmetric"])
    maybe(0.2, "WeightSymmetric", ["--weight-symmetric", "false"], False)
    maybe(0.2, "WeightSymmetric", ["--weight-symmetric", "true"]) if "WeightSymmetric" not in extra else None
    maybe(0.2, "ForceQuantizeNoInputCheck", ["--force-quantize-no-input-check"])
    maybe(0.2, "MinimumRealRange", ["--minimum-real-range", "0.5"], 0.5)
    maybe(0.2, "extra.Sigmoid.nnapi", ["--extra-sigmoid-nnapi"])
    if activation == UINT8:
        maybe(0.2, "ActivationRestrictedAsymmetric", ["--activation-restricted-asymmetric"])
    names = [n.name for n in model.graph.node if n.name]
    if rng.random() < 0.2:
        options["nodes_to_exclude"] = [str(n) for n in rng.choice(names, 2)]
        words += [w for n in options["nodes_to_exclude"] for w in ("--exclude", n)]
    if rng.random() < 0.2:
        types = sorted({n.op_type for n in model.graph.node})
        options["op_types_to_quantize"] = [t for t in types if rng.random() < 0.7] or types
        words += ["--op-types", ",".join(options["op_types_to_quantize"])]
    maybe(0.3, "MatMulConstBOnly", ["--matmul-const-b-only"])
    return {**options, "extra_options": extra}, words


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs(weir, tmp_path, seed):
    compare_random(weir, tmp_path, seed, quantizers.HERE)


@pytest.mark.parametrize("seed", SEEDS if ALL else SEEDS[::4])
def test_random_graphs_in_the_newest(weir, tmp_path, newest, seed):
    compare_random(weir, tmp_path, seed, newest)


def compare_random(weir, tmp_path, seed, tool):
    rng = np.random.default_rng(seed)
    model = quantizable_graph(seed, TANGLED, TANGLED_ROW, nameless=0.1 if seed % 2 else 0)
    options, words = drawn_options(rng, model)
    try:
        theirs, ours = quantized(weir, tmp_path, model, "--compat", tool.word, *words, tool=tool, **options)
    except (KeyError, ValueError, RuntimeError, AttributeError, AssertionError, TypeError) as e:
        if isinstance(e, AssertionError) and "exit code" in str(e):
            raise
        pytest.skip(f"quantize_static fails: {e!r}"[:100])
    if not is_valid(theirs):
        assert is_valid(ours)
        pytest.skip("what quantize_static writes does not load")
    assert alike(ours, theirs) == []


def test_a_scale_that_makes_room_for_its_bias(weir, tmp_path, tool):
    """A bias that would overflow int32 enlarges the scales of the weight, also of one that was written for another Conv."""
    b = Graph()
    w = b.constant("w", b.rng.standard_normal((4, 4, 1, 1)) * 1e-6)
    one = b.node("Conv", ["x", w, b.constant("small", np.full(4, 1e-3))])
    two = b.node("Conv", [b.node("Sigmoid", [one]), w, b.constant("large", [1e4, 3e4, 1.0, 0.0])])
    model = b.model([two], (1, 4, 5, 5))
    for words, options in (((), {}), (("--per-channel",), {"per_channel": True})):
        theirs, ours = quantized(weir, tmp_path, model, "--compat", tool.word, *words, tool=tool, **options)
        assert alike(ours, theirs) == []
        scale = next(numpy_helper.to_array(t) for t in onnx.load(ours).graph.initializer if t.name == "w_scale")
        assert scale.max() > 1e-5  # more than its elements need


def test_overrides(weir, tmp_path, tool):
    model = quantizable_graph(4, ["conv"], ["gemm"], nameless=0, heads=False)
    first = model.graph.node[0]
    overrides = {
        first.input[1]: [{"symmetric": False, "quant_type": QuantType.QUInt8}],
        first.output[0]: [{"rmin": np.float32(-1.5), "rmax": np.float32(2.5)}],
        model.graph.node[-1].output[0]: [{"symmetric": True}],
    }
    words = {
        name: [{k: getattr(v, "name", float(v) if isinstance(v, np.floating) else v) for k, v in o.items()} for o in of]
        for name, of in overrides.items()
    }
    (tmp_path / "overrides.json").write_text(json.dumps(words))
    theirs, ours = quantized(
        weir,
        tmp_path,
        model,
        *("--compat", tool.word, "--activation-type", "uint8", "--override", tmp_path / "overrides.json"),
        tool=tool,
        activation_type=UINT8,
        weight_type=INT8,
        extra_options={"TensorQuantOverrides": overrides},
    )
    assert alike(ours, theirs) == []


# ---- right where the tool is wrong -------------------------------------------------------------------


class Graph:
    """A float graph of one input x."""

    def __init__(self, opset=17):
        self.rng = np.random.default_rng(11)
        self.nodes, self.initializers, self.opset = [], [], opset

    def constant(self, name, array, dtype=np.float32):
        self.initializers.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, name, *dims, scale=0.5):
        return self.constant(name, self.rng.standard_normal(dims) * scale)

    def node(self, op, inputs, outputs=None, **attributes):
        outputs = outputs or [f"{op.lower()}{len(self.nodes)}_out"]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"{op.lower()}{len(self.nodes)}", **attributes))
        return outputs[0]

    def model(self, outputs, dims):
        graph = helper.make_graph(
            self.nodes,
            "float",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in outputs],
            self.initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def two_convs_with_one_bias(b):
    bias = b.constant("b", [3.0, -2.0, 1.0, 4.0])
    one = b.node("Conv", ["x", b.weight("w", 4, 4, 1, 1), bias])
    two = b.node("Conv", ["x", b.weight("v", 4, 4, 1, 1, scale=0.02), bias])
    return [one, two], (1, 4, 5, 5)


def a_relu_on_a_value_used_elsewhere(b):
    y = b.node("Conv", ["x", b.weight("w", 4, 4, 1, 1)])
    return [b.node("Add", [b.node("Relu", [y]), y])], (1, 4, 5, 5)


def a_clip_inside(b):
    y = b.node("Conv", ["x", b.weight("w", 4, 4, 1, 1)])
    return [b.node("Clip", [y, b.constant("lo", 1.0), b.constant("hi", 2.0)])], (1, 4, 5, 5)


def gemm_factors(b):
    return [b.node("Gemm", ["x", b.weight("w", 8, 6), b.weight("b", 6, scale=3)], alpha=2.0, beta=0.25)], (4, 8)


def names_that_are_taken(b):
    y = b.node("Conv", ["x", b.weight("w", 4, 4, 1, 1)], ["bn"])
    b.node("Mul", [y, b.constant("bn_scale", 3.0)], ["more"])
    return [b.node("Conv", ["more", b.weight("v", 4, 4, 1, 1)])], (1, 4, 5, 5)


def a_table_in_gather_and_gemm(b):
    table = b.weight("table", 6, 8)
    rows = b.node("Gather", [table, b.constant("index", [0, 3, 5, 1], np.int64)])
    return [b.node("Gemm", [b.node("Add", ["x", rows]), table], transB=1)], (4, 8)


def a_weight_of_rank_3(b):
    return [b.node("MatMul", ["x", b.weight("w", 3, 8, 6)])], (3, 4, 8)


def one_number_in_two_pads(b):
    pads, number = b.constant("pads", [0, 1, 0, 1], np.int64), b.constant("number", 1.5)
    y = b.node("MatMul", ["x", b.weight("w", 8, 6)])
    one = b.node("Pad", [y, pads, number])
    return [b.node("MatMul", [b.node("Pad", [one, pads, number]), b.weight("v", 10, 5)])], (4, 8)


def a_computed_bias(b):
    bias = b.node("Mul", [b.weight("b", 6), b.constant("two", 2.0)])
    return [b.node("Gemm", ["x", b.weight("w", 8, 6), bias])], (4, 8)


def a_table_that_floats_use_too(b):
    c = b.weight("c", 8)
    return [b.node("Add", ["x", c]), b.node("Sub", ["x", c])], (4, 8)


def where(b):
    y = b.node("MatMul", ["x", b.weight("w", 8, 6)])
    mask = b.constant("mask", [1, 0, 1, 1, 0, 1], bool)
    return [b.node("Where", [mask, y, b.node("Sigmoid", [y])])], (4, 8)


def weights_in_constant_nodes(b):
    w = numpy_helper.from_array((b.rng.standard_normal((8, 6)) * 0.5).astype(np.float32))
    b.nodes.append(helper.make_node("Constant", [], ["w"], name="constant", value=w))
    return [b.node("MatMul", ["x", "w"])], (4, 8)


def a_value_that_a_body_takes(b):
    y = b.node("MatMul", ["x", b.weight("w", 8, 6)], ["seen"])
    branches = {}
    for key, op in (("then_branch", "Neg"), ("else_branch", "Abs")):
        node = helper.make_node(op, ["seen"], [f"{op}_out"], name=f"in_{op}")
        branches[key] = helper.make_graph([node], key, [], [helper.make_tensor_value_info(f"{op}_out", 1, None)])
    return [b.node("If", [b.constant("yes", True, bool)], **branches), b.node("Sigmoid", [y])], (4, 8)


WRONG = [
    two_convs_with_one_bias,
    a_relu_on_a_value_used_elsewhere,
    a_clip_inside,
    gemm_factors,
    names_that_are_taken,
    a_table_in_gather_and_gemm,
    a_weight_of_rank_3,
    one_number_in_two_pads,
    a_computed_bias,
    a_table_that_floats_use_too,
    where,
    weights_in_constant_nodes,
    a_value_that_a_body_takes,
]  # fmt: skip


def ratio(a, b):
    return 10 * np.log10((a.astype(np.float64) ** 2).sum() / max(((a.astype(np.float64) - b) ** 2).sum(), 1e-30))


def ranges_of(model, folder, samples=3):
    """A calibration cache of all values, by running the model."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    have = {o.name for o in whole.graph.output}
    names = [o for n in whole.graph.node if n.op_type not in ("Constant", "If") for o in n.output]
    whole.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names if n not in have)
    runner = session(whole.SerializeToString())
    ranges = {}
    for i in range(samples):
        feeds = feeds_of(model, 1000 + i)
        values = dict(zip([o.name for o in runner.get_outputs()], runner.run(None, feeds))) | feeds
        for name, value in values.items():
            if value.dtype == np.float32:
                lo, hi = ranges.get(name, (np.inf, -np.inf))
                ranges[name] = min(lo, float(value.min())), max(hi, float(value.max()))
    array = {"dtype": "float32", "CLS": "numpy.array"}
    data = {
        n: {"lowest": {"data": [lo], **array}, "highest": {"data": [hi], **array}, "CLS": "TensorData"}
        for n, (lo, hi) in ranges.items()
    }
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    path = folder / "ranges.json"
    path.write_text(json.dumps({"CLS": "TensorsData", "data": data, "calibration_method": method, "smooth_quant": False}))
    return path


@pytest.mark.parametrize("activation", ["uint8", "int8"])
@pytest.mark.parametrize("build", WRONG, ids=lambda f: f.__name__)
def test_right_where_the_tool_is_wrong(weir, tmp_path, build, activation):
    b = Graph()
    model = b.model(*build(b))
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    cache = ranges_of(model, tmp_path)
    words = ("--format", "qoperator", "--op-types", "all", "--activation-type", activation)
    weir("static", source, out, "--ranges", cache, *words)
    weir("check", out)
    assert any(n.op_type.startswith(("QLinear", "QGemm")) for n in onnx.load(out).graph.node) or build is a_computed_bias
    feeds = feeds_of(model, 1000)
    for optimized in (False, True):
        for a, c in zip(session(str(source)).run(None, feeds), session(str(out), optimized).run(None, feeds)):
            assert ratio(a, c) > 26, (build.__name__, optimized)


@pytest.mark.parametrize("build", WRONG[:4], ids=lambda f: f.__name__)
def test_the_tool_is_wrong_there(weir, tmp_path, build):
    """With --compat it is, too: the bound above tells one from the other."""
    b = Graph()
    model = b.model(*build(b))
    words = ("--compat", "onnxruntime", "--activation-type", "uint8")
    theirs, ours = quantized(weir, tmp_path, model, *words, activation_type=UINT8, weight_type=INT8)
    assert alike(ours, theirs) == []
    feeds = feeds_of(model, 1000)
    pairs = zip(session(str(tmp_path / "model.onnx")).run(None, feeds), session(str(ours)).run(None, feeds))
    assert min(ratio(a, c) for a, c in pairs) < 20


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_without_compat(weir, tmp_path, seed):
    """By our defaults, and of all operators: what it computes is near the float model's, raw and optimized alike."""
    model = quantizable_graph(seed, TANGLED, TANGLED_ROW, nameless=0.2)
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    cache = ranges_of(model, tmp_path)
    for words in ((), ("--op-types", "all"), ("--op-types", "all", "--force-quantize-no-input-check", "--activation-type", "int8")):
        weir("static", source, out, "--ranges", cache, "--format", "qoperator", "--force", *words)
        weir("check", out)
        feeds = feeds_of(model, 1000)
        expected = session(str(source)).run(None, feeds)
        for a, c in zip(expected, session(str(out)).run(None, feeds)):
            if a.dtype == np.float32 and np.ptp(a) > 0.05:
                assert ratio(a - a.mean(), c - a.mean()) > 8, words


@pytest.mark.parametrize(
    "words, says",
    [
        (["--activation-type", "uint16"], "int8 and uint8, not uint16"),
        (["--weight-type", "int4"], "int8 and uint8, not int4"),
        (["--dedicated-qdq-pair"], "--dedicated-qdq-pair has no effect"),
        (["--block-size", "32"], "--block-size has no effect"),
    ],
)
def test_what_does_not_go_with_it(weir, tmp_path, words, says):
    model = quantizable_graph(1)
    source = tmp_path / "model.onnx"
    onnx.save(model, source)
    cache = ranges_of(model, tmp_path)
    done = weir("static", source, tmp_path / "out.onnx", "--ranges", cache, "--format", "qoperator", *words, code=2)
    assert says in done.err and "hint:" in done.err


def test_a_value_without_a_range_stays_float(weir, tmp_path):
    b = Graph()
    model = b.model([b.node("MatMul", [b.node("MatMul", ["x", b.weight("w", 8, 6)], ["h"]), b.weight("v", 6, 5)])], (4, 8))
    source = tmp_path / "model.onnx"
    onnx.save(model, source)
    cache = ranges_of(model, tmp_path)
    known = json.loads(cache.read_text())
    del known["data"]["h"]
    cache.write_text(json.dumps(known))
    report = weir.report("static", source, tmp_path / "out.onnx", "--ranges", cache, "--format", "qoperator")
    skipped = [s for s in sites_of(report) if s["status"] == "skipped"]
    assert [s["reason"] for s in skipped] == ["no_range"] * 2
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["MatMul", "MatMul"]


def sites_of(report):
    found = report.get("nodes")
    return found if found is not None else [s for p in report["passes"] for s in p["nodes"]]
