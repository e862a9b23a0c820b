"""weir static: weights and activations in int8 and its kin, with ranges that were found before.

With --compat what comes out is what quantize_static of that version writes, node order aside, wherever that is valid: random
models (int8_models.py; 500 with tools/test --all) under all of its options, from its own calibration cache. Where it is wrong, ours
must be right: each case of that has a test. Without --compat the judge is the float model: at least as many dB as the tool's.
"""

import hashlib
import json
import os
import random
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat

import exact_products
import int8_models
from conftest import ALL, built_tool
from quantized_alike import alike
from static_pair import Setup, flags, theirs

pytestmark = pytest.mark.in_memory

RANDOM = {"1.31": 500 if ALL else 40, "1.32": 500 if ALL else 24}
FLOAT = TensorProto.FLOAT
TYPES = [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("int16", "int8"), ("uint16", "int16"),
         ("uint8", "int4"), ("uint8", "uint4")]  # fmt: skip
EXTRAS = [("ActivationSymmetric", True, 0.15), ("ActivationRestrictedAsymmetric", True, 0.15), ("WeightSymmetric", True, 0.1),
          ("WeightSymmetric", False, 0.1), ("MinimumRealRange", 0.5, 0.15), ("ForceQuantizeNoInputCheck", True, 0.2),
          ("AddQDQPairToWeight", True, 0.1), ("QuantizeBias", False, 0.1), ("DedicatedQDQPair", True, 0.15),
          ("OpTypesToExcludeOutputQuantization", ["MatMul", "Conv"], 0.15), ("QDQKeepRemovableActivations", True, 0.15),
          ("QDQDisableWeightAdjustForInt32Bias", True, 0.1), ("UseQDQContribOps", True, 0.15),
          ("QDQOpTypePerChannelSupportToAxis", {"MatMul": 0}, 0.1), ("MatMulConstBOnly", True, 0.15)]  # fmt: skip


# ---- running ---------------------------------------------------------------------------------------------------------------------


def run(path, feeds, raw=True):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if raw:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def decibels(expected, got):
    signal = sum(float((np.asarray(a, np.float64) ** 2).sum()) for a in expected)
    noise = sum(float(((np.asarray(a, np.float64) - b) ** 2).sum()) for a, b in zip(expected, got))
    return 10 * np.log10(signal / noise) if noise and signal else 200


def runs(path, feeds):
    try:
        run(path, feeds)
    except Exception:  # the runtime raises what it likes
        return False
    return True


class Model:
    """A small graph, with one feed to calibrate with and be judged by."""

    def __init__(self, folder, nodes, tensors, feeds, outputs=("y",), opset=17, dtype=FLOAT):
        self.folder = folder
        self.feeds = feeds
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()]
        made = [helper.make_tensor_value_info(n, dtype, None) for n in outputs]
        held = [numpy_helper.from_array(np.asarray(x), n) for n, x in tensors.items()]
        graph = helper.make_graph(nodes, "g", inputs, made, held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        self.path = folder / "m.onnx"
        onnx.save(model, self.path)
        for out, x in zip(model.graph.output, run(self.path, feeds)):
            out.CopyFrom(helper.make_tensor_value_info(out.name, dtype, x.shape))
        onnx.checker.check_model(model)
        onnx.save(model, self.path)
        self.cache = folder / "cache.json"
        self.calibrate()

    def calibrate(self):
        """Every float value's range, as a cache of the tool has them."""
        model = onnx.load(self.path)
        known = onnx.shape_inference.infer_shapes(model)
        names = [i.name for i in known.graph.value_info if i.type.tensor_type.elem_type in (1, 10)]
        listed = {o.name for o in model.graph.output}
        model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names if n not in listed)
        onnx.save(model, self.folder / "all.onnx")
        found = dict(zip([o.name for o in model.graph.output], run(self.folder / "all.onnx", self.feeds)))
        found.update({n: x for n, x in self.feeds.items() if x.dtype.kind == "f"})
        array = lambda x: {"data": [float(x)], "dtype": str(x.dtype), "CLS": "numpy.array"}  # noqa: E731
        data = {n: {"lowest": array(x.min()), "highest": array(x.max()), "CLS": "TensorData"} for n, x in found.items()}
        self.cache.write_text(json.dumps({
            "CLS": "TensorsData", "data": data, "smooth_quant": False,
            "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}}))  # fmt: skip

    def ours(self, weir, *words, ranges=None, code=0):
        """The model that weir makes, loaded, and how many dB it has; for another exit code the error."""
        out = self.folder / "ours.onnx"
        done = weir("static", self.path, out, "--force", "--ranges", ranges or self.cache, *words, code=code)
        if code:
            return done.err
        onnx.checker.check_model(out)
        expected = run(self.path, self.feeds)
        raw, optimized = (decibels(expected, run(out, self.feeds, raw)) for raw in (True, False))
        return onnx.load(out), min(raw, optimized)

    def theirs(self, **setup):
        """How many dB the tool's model has; None: it fails or does not run."""
        out = self.folder / "theirs.onnx"
        if theirs(self.path, out, self.cache, Setup(**{"activation": "uint8", **setup})) or not runs(out, self.feeds):
            return None
        return decibels(run(self.path, self.feeds), run(out, self.feeds))


def numbers(*dims, seed=0, scale=1.0):
    return (np.random.default_rng([seed, *dims]).normal(0, scale, dims)).astype(np.float32)


def ops(model):
    return sorted(n.op_type for n in model.graph.node)


# ---- beside the tool -------------------------------------------------------------------------------------------------------------


def any_setup(seed):
    r = random.Random(seed)
    s = Setup(per_channel=r.random() < 0.5, reduce_range=r.random() < 0.2)
    s.activation, s.weight = r.choice(TYPES)
    s.ops = r.choice(((), (), (), ("Conv", "MatMul", "Gemm")))
    for key, x, chance in EXTRAS:
        if r.random() < chance:
            s.extra[key] = x
    return s


def overridden(seed, model):
    """Overrides of every kind for some of the model's tensors."""
    r = random.Random(seed)
    s = Setup(activation=r.choice(("uint8", "int8")), per_channel=r.random() < 0.3)
    dims = {t.name: t.dims for t in model.graph.initializer if t.data_type == FLOAT and len(t.dims) > 0}
    made = [o for n in model.graph.node for o in n.output if n.op_type != "If"]
    users = {}
    for node in model.graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node.name)
    for name in r.sample(sorted(dims), min(2, len(dims))):
        axis = r.randrange(len(dims[name]))
        s.overrides[name] = r.choice((
            [{"quant_type": r.choice(("uint8", "int16", "int8")), "symmetric": r.random() < 0.5}],
            [{"scale": 0.03, "zero_point": 3}], [{"rmin": -0.4, "rmax": 0.7, "reduce_range": True}],
            [{"axis": axis - len(dims[name]), "quant_type": "int8"}],
            [{"axis": axis, "scale": 0.01 * (i + 1), "zero_point": 0} for i in range(dims[name][axis])]))  # fmt: skip
    for name in r.sample(made, min(3, len(made))):
        named = [n for n in users.get(name, []) if n]
        some = {"recv_nodes": named[:1]} if named and r.random() < 0.6 else {}
        s.overrides[name] = r.choice((
            [{"quant_type": "uint16"}], [{"scale": 0.05, "zero_point": 7}], [{"symmetric": True}], [{"rmin": -1.5, "rmax": 1.25}],
            [{"convert": {"quant_type": "uint16", **some}}], [{"convert": {"quant_type": "uint16", "scale": 0.002, "zero_point": 9, **some}}],
        ))  # fmt: skip
    return s


# Where the tool does not fail: blocks of matrices only; float8 without a Softmax, whose deviation it forgets, and without Relu.
PIECES = {
    "blocks": ("matmul", "matmul_add", "matmul_shared", "transpose", "reshape", "residual", "split"),
    "float8": ("matmul", "matmul_add", "transpose", "reshape", "residual", "conv", "conv_bias", "depthwise", "average_pool"),
}


def case_of(seed):
    """Model and setup: any options, overrides, blocks, float8."""
    kind = ("any", "any", "any", "overrides", "any", "blocks", "any", "float8")[seed % 8]
    case = int8_models.random_model(seed, pieces=PIECES.get(kind), opset={"blocks": 21, "float8": 20}.get(kind))
    if kind == "any":
        return kind, case, any_setup(seed)
    if kind == "overrides":
        return kind, case, overridden(seed, case.model)
    if kind == "float8":
        return kind, case, Setup("float8e4m3fn", "float8e4m3fn", per_channel=seed % 16 == 7)
    r = random.Random(seed)
    weight = r.choice(("int8", "uint8", "int4", "uint4", "int16"))
    return kind, case, Setup("uint8", weight, per_channel=r.random() < 0.5, extra={"BlockSize": r.choice((4, 8, 16)), "QuantizeBias": False})


def dims_of(model, name):
    return next((len(t.dims) > 0 and t.dims[0] > 1 for t in model.graph.initializer if t.name == name), False)


def of_nodes(differences, nodes):
    """Does each difference name a value of these nodes, or what is called after it? (That of operators only counts them.)"""
    names = "|".join(re.escape(v) for n in nodes for v in (*n.input, *n.output) if v)
    rest = [d for d in differences if not d.startswith("operators")]
    return bool(nodes) and all(re.search(rf"'(?:{names})(?:_\w+)?'", d) for d in rest)


def scaled_gemms(source):
    """The bias of a Gemm with beta, or with alpha."""
    return [n for n in source.graph.node
            if n.op_type == "Gemm" and len(n.input) == 3 and any(a.name in ("alpha", "beta") and a.f != 1 for a in n.attribute)]  # fmt: skip


def batches(source, theirs):
    """MatMuls with a constant batch of matrices that has a scale a channel there."""
    held = {t.name for t in source.graph.initializer if len(t.dims) > 2}
    return [n for n in source.graph.node if n.op_type == "MatMul" and any(i in held and dims_of(theirs, f"{i}_scale") for i in n.input)]


def dropped_there(source, ours, theirs):
    """Relu and Clip that are gone there alone."""
    there = {n.output[0] for n in theirs.graph.node if n.op_type in ("Relu", "Clip")}
    alone = {n.output[0].removesuffix("_QuantizeLinear_Input") for n in ours.graph.node
             if n.op_type in ("Relu", "Clip") and n.output[0] not in there}  # fmt: skip
    return [n for n in source.graph.node if n.op_type in ("Relu", "Clip") and n.output[0] in alone]


def why_not_alike(differences, source, ours, theirs):
    """The name of what the tool has wrong, of which all the differences are; None: it is none of these."""
    nodes = [n for n in theirs.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    scales = {t.name: numpy_helper.to_array(t) for t in theirs.graph.initializer if t.name.endswith("_scale") and t.data_type == FLOAT}
    if any(not x.all() for x in scales.values()):
        zero = tuple(f"tensor {name!r}" for name, x in scales.items() if not x.all())
        return "a scale of 0" if all(d.startswith(zero) for d in differences) else None
    if any(not any(a.name == "axis" for a in n.attribute) and dims_of(theirs, n.input[1]) for n in nodes):
        gathers = [n for n in source.graph.node if n.op_type == "Gather"]
        return "a scale a channel without an axis" if gathers else None
    if of_nodes(differences, scaled_gemms(source)):
        return "a Gemm with alpha or beta"
    if of_nodes(differences, batches(source, theirs)):
        return "a batch with a scale a channel"
    if of_nodes(differences, dropped_there(source, ours, theirs)):
        return "a Relu that is dropped though codes go below it"
    return None


def raised(source, folder, setup, feeds, tool):
    """What the tool writes of the model as onnx's converter raises it to opset 13, from the same ranges."""
    onnx.save(onnx.version_converter.convert_version(source, 13), folder / "raised.onnx")
    assert tool(theirs, folder / "raised.onnx", folder / "theirs.onnx", folder / "cache.json", setup, feeds) is None


def compare(weir, folder, case, setup, tool):
    """None: both are alike. Otherwise the name of what is wrong there; that it is no other is asserted."""
    feeds = [case.feeds(i) for i in range(2)]
    onnx.save(case.model, folder / "m.onnx")
    failure = tool(theirs, folder / "m.onnx", folder / "theirs.onnx", folder / "cache.json", setup, feeds)
    assert failure is None, failure
    weir("static", folder / "m.onnx", folder / "ours.onnx", "--quiet", *flags(setup, folder / "cache.json", folder, tool))
    ours, made = onnx.load(folder / "ours.onnx"), onnx.load(folder / "theirs.onnx")
    old = made.opset_import[0].version < 13
    with_axis = any(n.op_type == "DequantizeLinear" and not n.domain and any(a.name == "axis" for a in n.attribute) for n in made.graph.node)
    if old and with_axis:
        raised(case.model, folder, setup, feeds, tool)
        made = onnx.load(folder / "theirs.onnx")
    differences = alike(ours, made, raised=True)
    reason = why_not_alike(differences, case.model, ours, made) if differences else "an axis before opset 13" if old and with_axis else None
    assert not differences or reason, differences
    # The runtime stops on some models with If, those of the tool too.
    assert not reason or "if" in case.pieces or runs(folder / "ours.onnx", case.feeds())
    return reason


def test_random_models_as_the_tool_writes_them(weir, tmp_path, capfd, tool):
    compared, wrong, by_kind, n = 0, {}, {}, RANDOM[tool.version]
    for seed in range(n):
        kind, case, setup = case_of(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            reason = compare(weir, folder, case, setup, tool)
        except AssertionError as e:
            raise AssertionError(f"seed {seed}: {case.pieces}, {setup}") from e
        if reason:
            wrong[reason] = wrong.get(reason, 0) + 1
            continue
        compared += 1
        by_kind[kind] = by_kind.get(kind, 0) + 1
    capfd.readouterr()
    with capfd.disabled():
        print(f"\n  {compared} of {n} equal ({by_kind}); wrong there: {wrong}")
    assert compared >= n * 0.8 and set(by_kind) == {"any", "overrides", "blocks", "float8"}


@pytest.mark.parametrize("some", [None, ["t"], ["s"], ["s", "t"], ["s", "s"], ["s", "r"], ["r"]], ids=str)
@pytest.mark.parametrize("is_output", [False, True])
def test_a_second_type_for_nodes_that_are_not_quantized(weir, tmp_path, some, is_output):
    """Who of them gets which type, and whether the first is dequantized twice, goes by names."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "m"), helper.make_node("Tanh", ["h"], ["y"], "t"),
             helper.make_node("Sigmoid", ["h"], ["z"], "s"), helper.make_node("Neg", ["h"], ["q"], "r")]  # fmt: skip
    m = Model(tmp_path, nodes, {"w": numbers(8, 4)}, {"x": numbers(16, 8)}, ("y", "z", "q") + ("h",) * is_output)
    setup = Setup("uint8", overrides={"h": [{"convert": {"quant_type": "int8", **({"recv_nodes": some} if some else {})}}]})
    assert theirs(m.path, tmp_path / "t.onnx", m.cache, setup) is None
    weir("static", m.path, tmp_path / "o.onnx", *flags(setup, m.cache, tmp_path))
    assert runs(tmp_path / "o.onnx", m.feeds) and alike(tmp_path / "o.onnx", tmp_path / "t.onnx") == []


@pytest.mark.parametrize("setup, before, after", [
    (Setup(), 9, 11), (Setup(), 12, 12), (Setup("uint16"), 13, 21), (Setup("uint8", "int16"), 20, 21), (Setup("uint8", "int4"), 13, 13),
    (Setup("uint8", "int4", extra={"BlockSize": 4, "QuantizeBias": False}), 17, 21), (Setup("uint8", extra={"BlockSize": 8, "QuantizeBias": False}), 20, 21),
    (Setup("uint16", extra={"UseQDQContribOps": True}), 13, 21), (Setup("float8e4m3fn", "float8e4m3fn"), 15, 19),
], ids=lambda x: f"{x.activation},{x.weight},{','.join(x.extra)}" if isinstance(x, Setup) else str(x))  # fmt: skip
def test_types_raise_the_opset_as_there(weir, tmp_path, setup, before, after):
    """4 bits take the operators of com.microsoft below opset 21; so does what is asked to."""
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": numbers(8, 4)}, {"x": numbers(2, 8)}, opset=before)
    m.cache.unlink()
    assert theirs(m.path, tmp_path / "t.onnx", m.cache, setup, [m.feeds]) is None
    weir("static", m.path, tmp_path / "o.onnx", *flags(setup, m.cache, tmp_path))
    assert alike(tmp_path / "o.onnx", tmp_path / "t.onnx", raised=True) == []
    assert {o.domain: o.version for o in onnx.load(tmp_path / "o.onnx").opset_import}[""] == after


def test_values_whose_type_onnx_does_not_infer(weir, tmp_path):
    """The tool quantizes them as codes, and leaves them in QDQ form, whatever DefaultTensorType says; ours, without compat, knows the type."""
    domain = "com.microsoft"
    nodes = [helper.make_node("Gelu", ["x"], ["h"], "s", domain=domain), helper.make_node("MatMul", ["h", "w"], ["y"], "m")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [2, 8])], [helper.make_tensor_value_info("y", FLOAT, [2, 4])],
                              [numpy_helper.from_array(numbers(8, 4), "w")])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    array = lambda x: {"data": [x], "dtype": "float32", "CLS": "numpy.array"}  # noqa: E731
    data = {n: {"lowest": array(-1.0), "highest": array(2.0), "CLS": "TensorData"} for n in ("x", "h", "y")}
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    (tmp_path / "c.json").write_text(json.dumps({"CLS": "TensorsData", "data": data, "smooth_quant": False, "calibration_method": method}))
    is_quantized = lambda name: "h_QuantizeLinear" in {n.name for n in onnx.load(tmp_path / name).graph.node}  # noqa: E731
    found = {}
    for form in (QuantFormat.QDQ, QuantFormat.QOperator):
        for extra in ({}, {"DefaultTensorType": FLOAT}):
            setup = Setup("uint8", form=form)
            words = flags(setup, tmp_path / "c.json", tmp_path) + (["--default-tensor-type", "float"] if extra else [])
            failure = theirs(tmp_path / "m.onnx", tmp_path / "t.onnx", tmp_path / "c.json", Setup("uint8", form=form, extra=extra))
            weir("static", tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", *words)
            assert failure is None and alike(tmp_path / "o.onnx", tmp_path / "t.onnx") == []
            found[form, bool(extra)] = is_quantized("o.onnx")
    assert list(found.values()) == [False, False, True, True]
    weir("static", tmp_path / "m.onnx", tmp_path / "own.onnx", "--ranges", tmp_path / "c.json")
    assert is_quantized("own.onnx")


def test_no_room_for_a_bias_that_is_computed(weir, tmp_path):
    """The tool lets the scale of a weight grow for biases that it quantizes, and for no others; ours, without compat, for those too."""
    nodes = [helper.make_node("Neg", ["b"], ["c"], "g"), helper.make_node("Conv", ["x", "w", "c"], ["y"], "n")]
    m = Model(tmp_path, nodes, {"w": numbers(4, 3, 1, 1, scale=1e-6), "b": numbers(4, scale=5000)}, {"x": numbers(1, 3, 5, 5)})
    largest = lambda model: max(numpy_helper.to_array(t).max() for t in model.graph.initializer if t.name == "w_scale")  # noqa: E731
    for setup in (Setup(), Setup(per_channel=True)):
        assert theirs(m.path, tmp_path / "t.onnx", m.cache, setup) is None
        weir("static", m.path, tmp_path / "o.onnx", "--force", *flags(setup, m.cache, tmp_path))
        assert alike(tmp_path / "o.onnx", tmp_path / "t.onnx") == []
    assert largest(onnx.load(tmp_path / "o.onnx")) < largest(m.ours(weir)[0]) / 100


def test_the_judge_sees_another_scale(weir, tmp_path):
    """The control: the same model with another option is not alike."""
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "n")], {"w": numbers(8, 4)}, {"x": numbers(2, 8)})
    weir("static", m.path, tmp_path / "a.onnx", "--ranges", m.cache, "--compat", "onnxruntime")
    weir("static", m.path, tmp_path / "b.onnx", "--ranges", m.cache, "--compat", "onnxruntime", "--minimum-real-range", "50")
    assert alike(tmp_path / "a.onnx", tmp_path / "b.onnx") != []


# ---- without compat --------------------------------------------------------------------------------------------------------------

FORMATS = [(), ("--op-types", "all"), ("--format", "int32-bias"), ("--format", "fp32-bias"), ("--format", "fp32-bias-qdq"),
           ("--format", "int32-bias", "--execution", "qlinear"), ("--format", "fp32-bias", "--execution", "qlinear"),
           ("--format", "fp32-bias-qdq", "--execution", "qlinear"), ("--per-tensor",), ("--block-size", "8"),
           ("--activation-type", "uint16")]  # fmt: skip


def test_random_models_run_and_are_near(weir, tmp_path):
    """Every format runs, and is no worse than the tool's for the same operators, types and ranges."""
    worst, tool_failed = [], 0
    for seed in range(100, 100 + RANDOM["1.31"] // 3):
        case = int8_models.random_model(seed)
        if "if" in case.pieces:
            continue  # this runtime stops on some of these, the tool's too
        source, out, cache = tmp_path / "m.onnx", tmp_path / "o.onnx", tmp_path / f"{seed}.json"
        onnx.save(case.model, source)
        feeds = [case.feeds(i) for i in range(2)]
        if theirs(source, tmp_path / "t.onnx", cache, Setup("uint8", per_channel=True), feeds) is not None:
            tool_failed += 1  # quantize_static itself: nothing to compare with
            continue
        expected = run(source, feeds[0])
        tool = decibels(expected, run(tmp_path / "t.onnx", feeds[0])) if runs(tmp_path / "t.onnx", feeds[0]) else None
        for i, words in enumerate(FORMATS):
            if i > 1 and not ALL and (seed + i) % 3:
                continue
            done = weir("static", source, out, "--force", "--quiet", "--ranges", cache, *words, code=None)
            if "--block-size" in words and "needs weights of two dims" in done.err:
                continue
            assert done.code == 0, done.said
            onnx.checker.check_model(out)
            found = decibels(expected, run(out, feeds[0]))
            if i == 1 and tool is not None:
                worst.append(found - tool)
            assert found > 8, (seed, case.pieces, words, found)
    assert len(worst) >= 2 and np.mean(worst) > -0.3 and tool_failed <= RANDOM["1.31"] // 100, (worst, tool_failed)


# ---- what the tool has wrong -----------------------------------------------------------------------------------------------------


def linear(alpha=1.0, beta=1.0):
    return helper.make_node("Gemm", ["x", "w", "b"], ["y"], "n", alpha=alpha, beta=beta)


@pytest.mark.parametrize("compat", [(), ("--compat", "onnxruntime", "--activation-type", "uint8")])
@pytest.mark.parametrize("alpha, beta", [(1.0, 0.5), (2.0, 1.0), (0.5, 3.0)])
def test_gemm_with_alpha_and_beta(weir, tmp_path, alpha, beta, compat):
    m = Model(tmp_path, [linear(alpha, beta)], {"w": numbers(8, 4), "b": numbers(4, scale=8)}, {"x": numbers(16, 8)})
    model, found = m.ours(weir, *compat)
    assert found > 30
    assert all(a.f == 1 for n in model.graph.node if n.op_type == "Gemm" for a in n.attribute if a.name == "beta")
    assert m.theirs(per_channel=True) < 15 or beta == 1  # alpha alone hurts it once it is fused


def test_two_nodes_without_names_share_a_bias(weir, tmp_path):
    nodes = [helper.make_node("Conv", ["x", "v", "b"], ["h"]), helper.make_node("Conv", ["h", "w", "b"], ["y"])]
    tensors = {"v": numbers(4, 3, 1, 1), "w": numbers(4, 4, 1, 1, scale=0.01), "b": numbers(4)}
    m = Model(tmp_path, nodes, tensors, {"x": numbers(1, 3, 5, 5, scale=3)})
    model, found = m.ours(weir)
    biases = [t for t in model.graph.initializer if t.data_type == TensorProto.INT32 and t.name.endswith("_quantized")]
    assert len(biases) == 2 and found > 30
    assert "b" not in {t.name for t in model.graph.initializer}  # nobody reads the float one


def test_relu_of_a_value_that_another_node_reads(weir, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "m"), helper.make_node("Relu", ["h"], ["r"], "r"),
             helper.make_node("Add", ["h", "r"], ["y"], "a")]  # fmt: skip
    m = Model(tmp_path, nodes, {"w": numbers(8, 4)}, {"x": numbers(16, 8)})
    model, found = m.ours(weir, "--op-types", "all")
    assert "Relu" in ops(model) and found > 30


@pytest.mark.parametrize("low, high, goes", [(0.0, 100.0, True), (1.0, 6.0, False), (None, None, True)])
def test_clip_goes_only_where_codes_clip(weir, tmp_path, low, high, goes):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "m")]
    nodes += [helper.make_node("Clip", ["h", "low", "high"], ["y"], "c") if low is not None else helper.make_node("Relu", ["h"], ["y"], "c")]
    bounds = {"low": np.float32(low), "high": np.float32(high)} if low is not None else {}
    m = Model(tmp_path, nodes, {"w": numbers(8, 4), **bounds}, {"x": numbers(16, 8, scale=2)})
    for compat in ((), ("--compat", "onnxruntime", "--activation-type", "uint8")):
        model, found = m.ours(weir, "--op-types", "all", *compat)
        assert ("Clip" in ops(model) or "Relu" in ops(model)) != goes and found > 25
    kept, _ = m.ours(weir, "--op-types", "all", "--qdq-keep-removable-activations")
    assert "Clip" in ops(kept) or "Relu" in ops(kept)


def test_names_that_are_taken(weir, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["bn"], "m"), helper.make_node("Mul", ["bn", "bn_scale"], ["y"], "k")]
    m = Model(tmp_path, nodes, {"w": numbers(8, 4), "bn_scale": np.float32(0.7)}, {"x": numbers(16, 8)})
    model, found = m.ours(weir, "--per-tensor")
    assert found > 30 and "bn_scale_1" in {t.name for t in model.graph.initializer}
    worse = m.theirs(ops=("MatMul",))
    assert worse is None or worse < found - 5


@pytest.mark.parametrize("behind", ["Constant", "Identity"])
def test_weights_that_are_no_initializers(weir, tmp_path, behind):
    w = numbers(8, 4)
    nodes = [helper.make_node("MatMul", ["x", "c"], ["y"], "m")]
    if behind == "Constant":
        nodes.insert(0, helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(w)))
    else:
        nodes.insert(0, helper.make_node("Identity", ["w"], ["c"]))
    m = Model(tmp_path, nodes, {} if behind == "Constant" else {"w": w}, {"x": numbers(16, 8)})
    model, found = m.ours(weir)
    assert [t.dims for t in model.graph.initializer if t.data_type == TensorProto.INT8 and len(t.dims) == 2] == [[8, 4]]
    assert found > 30 and behind not in ops(model)


def test_channels_raise_the_opset(weir, tmp_path):
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": numbers(8, 4)}, {"x": numbers(16, 8)}, opset=11)
    model, found = m.ours(weir)
    assert model.opset_import[0].version == 13 and found > 30
    kept, _ = m.ours(weir, "--per-tensor")
    assert kept.opset_import[0].version == 11
    contrib, found = m.ours(weir, "--use-qdq-contrib-ops")
    assert [o.version for o in contrib.opset_import if not o.domain] == [11] and found > 30
    assert m.theirs(per_channel=True) is None


def test_float16_raises_the_opset(weir, tmp_path):
    w = numbers(8, 4).astype(np.float16)
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": w}, {"x": numbers(16, 8).astype(np.float16)}, dtype=TensorProto.FLOAT16)
    model, found = m.ours(weir)
    assert model.opset_import[0].version == 19 and found > 30
    assert m.theirs() is None


def test_small_float16_weights_stay_what_they_are(weir, tmp_path):
    w = (numbers(8, 4) * 0.002).astype(np.float16)
    feeds = {"x": numbers(16, 8).astype(np.float16)}
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": w}, feeds, opset=19, dtype=TensorProto.FLOAT16)
    _, found = m.ours(weir)
    assert found > 20
    assert m.theirs() < 1  # all codes 0


def test_ranges_made_symmetric(weir, tmp_path):
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": numbers(8, 4)}, {"x": np.abs(numbers(16, 8))})
    model, found = m.ours(weir, "--calib-tensor-range-symmetric")
    tensors = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    assert tensors["x_scale"] == np.float32(2 * float(m.feeds["x"].max()) / 255) and tensors["x_zero_point"] in (127, 128) and found > 25


def test_batches_of_weights_have_one_scale(weir, tmp_path):
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": numbers(2, 8, 4)}, {"x": numbers(2, 5, 8)})
    for words in ((), ("--compat", "onnxruntime", "--per-channel", *exact_products.NARROW)):
        model, found = m.ours(weir, *words)
        assert next(t for t in model.graph.initializer if t.name == "w_scale").dims == [] and found > 30


def test_a_bias_that_would_overflow(weir, tmp_path):
    tensors = {"w": numbers(4, 3, 1, 1, scale=1e-7), "b": numbers(4, scale=40)}
    m = Model(tmp_path, [helper.make_node("Conv", ["x", "w", "b"], ["y"], "n")], tensors, {"x": numbers(1, 3, 5, 5, scale=0.01)})
    for words, channels in (((), True), (("--per-tensor",), False)):
        model, found = m.ours(weir, *words)
        codes = next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "b_quantized")
        assert found > 30 and np.abs(codes.astype(np.int64)).max() < 2**31 - 1
        assert theirs(m.path, tmp_path / "t.onnx", m.cache, Setup(per_channel=channels)) is None
        compat = ["--compat", "onnxruntime"] + ["--per-channel"] * channels
        weir("static", m.path, tmp_path / "c.onnx", "--force", "--ranges", m.cache, *compat)
        assert alike(tmp_path / "c.onnx", tmp_path / "t.onnx") == []


VERIFIED = [("--reduce-range",), ("--weight-type", "uint8", "--reduce-range"), ("--minimum-real-range", "50"), ("--per-tensor",), ("--override",)]


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("words", VERIFIED, ids=" ".join)
@pytest.mark.parametrize("scale", [1, 1e-7], ids=["usual", "overflow"])
def test_verified_where_codes_are_not_those_of_the_range(weir, tmp_path, form, words, scale):
    """A bit left free, wider ranges, scales that a bias enlarges, or that were given: each is what rounding explains."""
    bias = numbers(32, scale=40 if scale < 1 else 1)
    bias[3:5] = 1e-9, 2e-5
    tensors = {"w": np.abs(numbers(32, 8, 3, 3, scale=scale)), "b": bias}
    m = Model(tmp_path, [helper.make_node("Conv", ["x", "w", "b"], ["y"], "n")], tensors, {"x": numbers(1, 8, 6, 6, scale=0.01 if scale < 1 else 1)})
    if words == ("--override",):  # the largest are clipped
        (tmp_path / "o.json").write_text(json.dumps({"w": [{"rmin": -1 * scale, "rmax": 1.5 * scale}]}))
        words = (*words, tmp_path / "o.json")
    m.ours(weir, "--format", form, "--verify", "--edit-log", tmp_path / "log", *words)
    # the control: a code that is wrong is found
    model = onnx.load(tmp_path / "ours.onnx")
    codes = next(t for t in model.graph.initializer if len(t.dims) == 4)
    array = numpy_helper.to_array(codes).copy()
    array.flat[100] ^= 0x40
    codes.CopyFrom(numpy_helper.from_array(array, codes.name))
    onnx.save(model, tmp_path / "ours.onnx")
    said = weir("verify", m.path, tmp_path / "ours.onnx", "--edits", tmp_path / "log", "--partial", code=None)
    assert said.code == 1 or array.flat[100] ^ 0x40 < 4 or words[0] == "--minimum-real-range", said.said


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_many_biases_behind_one_weight(weir, tmp_path, n):
    """Each asks for room in the weight's scale; what is written does not grow with their number."""
    nodes, tensors = [], {"w": numbers(8, 8, scale=1e-7)}
    for i in range(n):
        nodes.append(helper.make_node("Gemm", [f"h{i}" if i else "x", "w", f"b{i}"], [f"h{i + 1}" if i < n - 1 else "y"], f"n{i}"))
        tensors[f"b{i}"] = numbers(8, seed=i, scale=20 + i)
    m = Model(tmp_path, nodes, tensors, {"x": numbers(4, 8, scale=0.01)})
    model, found = m.ours(weir)
    codes = [numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == TensorProto.INT32 and len(t.dims) and t.name.endswith("_quantized")]
    assert len(codes) == n and found > 25 and max(np.abs(c.astype(np.int64)).max() for c in codes) < 2**31 - 1


# ---- recipes for biases ----------------------------------------------------------------------------------------------------------

RECIPES = {
    ("int32-bias", "qdq"): ["Add", "Cast", "MatMulInteger", "Mul", "QuantizeLinear"],
    ("int32-bias", "qlinear"): ["Add", "Cast", "MatMulInteger", "Mul", "QuantizeLinear"],
    ("fp32-bias", "qdq"): ["Add", "DequantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear"],
    ("fp32-bias", "qlinear"): ["Add", "MatMulIntegerToFloat", "QuantizeLinear"],
    ("fp32-bias-qdq", "qdq"): ["Add", "DequantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear", "QuantizeLinear"],
    ("fp32-bias-qdq", "qlinear"): ["Add", "DequantizeLinear", "MatMulIntegerToFloat", "QuantizeLinear", "QuantizeLinear"],
}  # fmt: skip


@pytest.mark.parametrize("form, execution", RECIPES)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("words", [(), ("--op-types", "all"), ("--compat", "onnxruntime")])
def test_recipes(weir, tmp_path, form, execution, swapped, words):
    """A recipe takes the Add with its MatMul, also where Adds are to be quantized."""
    w = np.array([((7 * i) % 31 - 11) / 8 for i in range(24)], np.float32).reshape(8, 3)
    pair = ["b", "h"] if swapped else ["h", "b"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "m"), helper.make_node("Add", pair, ["y"], "a")]
    m = Model(tmp_path, nodes, {"w": w, "b": numbers(3)}, {"x": numbers(16, 8)})
    model, found = m.ours(weir, "--format", form, "--execution", execution, *words)
    assert ops(model) == RECIPES[form, execution] and found > (25 if "--compat" in words else 35)
    names = {n.name for n in model.graph.node}
    quant = "_quant" if execution == "qlinear" else ""
    if form == "int32-bias":
        assert f"m{quant}_matmulinteger" in names and "m_bias_scale" in {t.name for t in model.graph.initializer}
        scales = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        exact = numpy_helper.to_array(onnx.load(m.path).graph.initializer[1]).astype(np.float64) / scales["m_bias_scale"]
        assert np.array_equal(scales["b_quantized"], np.rint(exact))
    elif execution == "qlinear":
        assert "m_quant_matmulintegertofloat" in names and {o.domain for o in model.opset_import} == {"", "com.microsoft"}
        assert ("m_quant_quantizelinear" in names) == (form == "fp32-bias-qdq")


def test_recipe_leaves_other_adds(weir, tmp_path):
    """Only the Add of a bias is the recipe's; the sum of two values is quantized by itself."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "m"), helper.make_node("Add", ["h", "b"], ["i"], "a"),
             helper.make_node("Add", ["i", "z"], ["y"], "c")]  # fmt: skip
    m = Model(tmp_path, nodes, {"w": numbers(8, 3), "b": numbers(3)}, {"x": numbers(16, 8), "z": numbers(16, 3)})
    model, found = m.ours(weir, "--format", "int32-bias", "--op-types", "all")
    last = next(n for n in model.graph.node if n.name == "c")
    makers = {o: n.op_type for n in model.graph.node for o in n.output}
    assert [makers[i] for i in last.input] == ["DequantizeLinear"] * 2 and "MatMulInteger" in ops(model) and found > 30


# ---- blocks ----------------------------------------------------------------------------------------------------------------------


def test_blocks_where_no_weight_is_a_matrix(weir, tmp_path):
    m = Model(tmp_path, [helper.make_node("Conv", ["x", "w"], ["y"], "n")], {"w": numbers(8, 4, 3, 3)}, {"x": numbers(1, 4, 6, 6)}, opset=21)
    said = m.ours(weir, "--block-size", "4", code=1)
    assert "--block-size needs weights of two dims, and there are no such weights: 'w' has 4" in said and "--per-channel" in said


def test_blocks_of_the_matrices_alone(weir, tmp_path):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "n"), helper.make_node("Reshape", ["c", "s"], ["t"], "r"), helper.make_node("MatMul", ["t", "v"], ["y"], "m")]
    tensors = {"w": numbers(8, 4, 3, 3), "v": numbers(16, 8), "s": np.array([8, 16])}
    m = Model(tmp_path, nodes, tensors, {"x": numbers(1, 4, 6, 6)}, opset=21)
    model, found = m.ours(weir, "--block-size", "4", "--activation-type", "uint16")
    dims = {t.name: list(t.dims) for t in model.graph.initializer}
    assert dims["v_scale"] == [4, 8] and dims["w_scale"] == [8] and found > 30
    said = weir("static", m.path, "--dry-run", "--ranges", m.cache, "--block-size", "4").err
    assert "1 of more dims get no blocks: 'w'" in said


@pytest.mark.parametrize("words, warned", [((), True), (("--activation-type", "uint16"), False), (("--weight-type", "int4"), False)])
def test_blocks_that_the_runtime_fuses(weir, tmp_path, words, warned):
    """What ONNX Runtime makes of a MatMul of codes of 8 bits takes no blocks: a warning, exactly where it does not run."""
    m = Model(tmp_path, [helper.make_node("MatMul", ["x", "v"], ["y"], "m")], {"v": numbers(16, 8)}, {"x": numbers(8, 16)})
    done = weir("static", m.path, tmp_path / "o.onnx", "--ranges", m.cache, "--block-size", "4", *words)
    assert ("only with its optimizations disabled" in done.err and "'m'" in done.err) == warned
    assert runs(tmp_path / "o.onnx", m.feeds)
    try:
        run(tmp_path / "o.onnx", m.feeds, raw=False)
        assert not warned
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        assert warned


# ---- refusals --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "m"), helper.make_node("Relu", ["h"], ["y"], "r")]
    return Model(tmp_path, nodes, {"w": numbers(8, 4)}, {"x": numbers(16, 8)})


def test_a_value_without_a_range(weir, small):
    cache = json.loads(small.cache.read_text())
    del cache["data"]["h"]
    small.cache.write_text(json.dumps(cache))
    said = small.ours(weir, code=66)
    assert "no range for the value 'h'" in said and "--exclude" in said
    model, _ = small.ours(weir, "--op-types", "Gemm")
    assert ops(model) == ["MatMul", "Relu"]


def test_a_range_that_the_value_cannot_have(weir, small):
    def line(value, kind, most):
        return {"value": value, "type": kind, "min": "-" + most, "max": most, "elements": 1}

    head = {"weir_ranges": 1, "weir": "0.2.0", "source": {"name": "m.onnx"}, "passes": [], "runtime": "1", "method": "minmax",
            "samples": {"n": 1, "sha256": "00" * 32}}  # fmt: skip
    lines = [head, line("x", "double", "0x1p+1000"), line("h", "float", "0x1p+0"), line("y", "float", "0x1p+0")]
    text = "".join(json.dumps(x, separators=(",", ":")) + "\n" for x in lines)
    digest = hashlib.sha256(text.encode()).hexdigest()
    ranges = small.folder / "ranges"
    ranges.write_text(text + json.dumps({"end": 3, "sha256": digest}) + "\n")
    assert "the range of 'x'" in (said := small.ours(weir, ranges=ranges, code=66)) and "too wide for float" in said


@pytest.mark.parametrize("words, said", [
    (("--weight-type", "float8e4m3fn"), "if one is float8, both must be"),
    (("--activation-type", "int8", "--weight-type", "uint8"), "no runtime supports this combination"),
    (("--per-tensor", "--per-channel"), "exclude each other"),
    (("--execution", "qlinear"), "--execution needs --format"),
    (("--minimum-real-range", "wide"), "is not a number of at least 0"),
    (("--qdq-op-type-per-channel-support-to-axis", "MatMul"), "is not OP=AXIS"),
    (("--format", "int32-bias", "--activation-type", "uint16"), "support only the types int8 and uint8"),
])  # fmt: skip
def test_options_that_do_not_go_together(weir, small, words, said):
    assert said in small.ours(weir, *words, code=2)


@pytest.mark.parametrize("words", [(), ("--compat", "onnxruntime", "--per-channel", "--activation-type", "uint8")])
def test_a_weight_of_nodes_that_want_other_axes(weir, tmp_path, words):
    """Operators on codes take scales for one a column: what is right as it stands must be right when it is fused."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "m"),
             helper.make_node("Gemm", ["h", "w"], ["y"], "g", transB=1)]  # fmt: skip
    weight = numbers(8, 8) * np.exp(np.arange(8) / 2 - 2).astype(np.float32)
    model = Model(tmp_path, nodes, {"w": weight}, {"x": numbers(16, 8)}, ["h", "y"])
    made, quality = model.ours(weir, *words)
    assert quality > 25
    assert sorted(i.dims[0] for i in made.graph.initializer if i.data_type == TensorProto.INT8 and len(i.dims) == 2) == [8, 8]


def test_given_zero_points_are_of_the_type_that_the_constant_gets(weir, tmp_path):
    """A constant beside activations has their type, whatever the type of weights is."""
    model = Model(tmp_path, [helper.make_node("Add", ["x", "c"], ["y"], "a")], {"c": numbers(8)}, {"x": numbers(16, 8)})
    file = tmp_path / "o.json"
    file.write_text(json.dumps({"c": [{"scale": 0.1, "zero_point": 200}]}))
    model.ours(weir, "--op-types", "Add", "--override", file)
    file.write_text(json.dumps({"c": [{"scale": 0.1, "zero_point": -5}]}))
    said = model.ours(weir, "--op-types", "Add", "--override", file, code=2)
    assert "zero_point -5 is outside 0 to 255, the range of uint8" in said and "quant_type" in said


@pytest.mark.parametrize("form", ["", ",form=flat"])
@pytest.mark.parametrize("words, least", [("", 30), (",op-types=all", 25), (",format=qoperator", 30), (",format=int32-bias", 30)])
def test_ranges_of_the_source_do_for_what_conv2matmul_made_of_it(weir, tmp_path, form, words, least):
    """Values before a Transpose, Reshape … have the range of what is behind, others that of what is before. Of a product with a bias
    only the sum was seen: it stays float."""
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["h"], "c1"), helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("Conv", ["r", "v"], ["s"], "c2", strides=[2, 2]),
             helper.make_node("Conv", ["s", "u"], ["y"], "c3", pads=[1, 1, 1, 1])]  # fmt: skip
    tensors = {"w": numbers(16, 8, 1, 1), "b": numbers(16), "v": numbers(8, 16, 1, 1), "u": numbers(8, 8, 1, 1)}
    model = Model(tmp_path, nodes, tensors, {"x": numbers(1, 8, 6, 10)}, ["s", "y"])
    out = tmp_path / "chain.onnx"
    weir("run", model.path, out, "--pass", f"conv2matmul:extended-conv1x1{form}", "--pass", f"static:ranges={model.cache}{words}")
    made = onnx.load(out)
    assert sum(i.data_type == TensorProto.INT8 and len(i.dims) == 2 for i in made.graph.initializer) >= 3 - ("qoperator" in words)
    assert decibels(run(model.path, model.feeds), run(out, model.feeds, True)) > least


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("words", ["dynamic", "dynamic --compat onnxruntime", "static", "static --format qoperator",
                                   "static --minimum-real-range 0.1", "static --block-size 16", "quantize", "quantize --algorithm rtn"])
def test_a_weight_that_is_not_finite_is_refused_alike(weir, tmp_path, words, bad):
    """Exit code 1, the weight by name, and a hint that works: leave out the weight, or the node that reads it."""
    weight = numbers(64, 32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "first"), helper.make_node("MatMul", ["h", "v"], ["y"], "second")]
    model = Model(tmp_path, nodes, {"w": weight, "v": numbers(32, 8)}, {"x": numbers(4, 64)}, ["h", "y"])
    made = onnx.load(model.path)
    weight[3, 4] = bad
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    onnx.save(made, model.path)
    command, *words = words.split()
    given = [model.path, tmp_path / "o.onnx", "--force", *words, *(["--ranges", model.cache] if command == "static" else [])]
    done = weir(command, *given, code=1)
    assert "tensor 'w': " in done.err and ("--on-nonfinite skip" if command == "quantize" else "(--exclude)") in done.err
    for name in "w", "first":
        assert "matches no" not in weir(command, *given, "--exclude", name).err
    if command == "quantize":
        weir(command, *given, "--on-nonfinite", "skip")
    assert "'wv' matches no weight and no node" in weir(command, *given, "--exclude", "w", "--exclude", "wv").err


def chain_of_gemms(folder, n):
    """n weights, one bias for all, and ranges of what is between: the model and its ranges."""
    inits = [numpy_helper.from_array(numbers(4, 4), f"w{i}") for i in range(n)] + [numpy_helper.from_array(numbers(4), "b")]
    nodes = [helper.make_node("Gemm", [f"t{i}", f"w{i}", "b"], [f"t{i + 1}"], f"n{i}" if i % 2 else "") for i in range(n)]
    ends = [helper.make_tensor_value_info(name, FLOAT, [2, 4]) for name in ("t0", f"t{n}")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / f"{n}.onnx")
    array = lambda x: {"data": [float(x)], "dtype": "float32", "CLS": "numpy.array"}  # noqa: E731
    data = {f"t{i}": {"lowest": array(-1), "highest": array(1), "CLS": "TensorData"} for i in range(n + 1)}
    (folder / f"{n}.json").write_text(json.dumps({
        "CLS": "TensorsData", "data": data, "smooth_quant": False,
        "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}}))  # fmt: skip
    return folder / f"{n}.onnx", folder / f"{n}.json"


@pytest.mark.parametrize("words", ["static", "static --dedicated-qdq-pair", "static --format qoperator", "static --compat onnxruntime",
                                   "static --compat onnxruntime --format qoperator", "dynamic --form integer", "dynamic --form fused"])
def test_twice_the_weights_take_twice_the_steps(tmp_path, words):
    """Of nodes that share a bias: a look at all others for each of them would be four times as many. Steps are basic blocks of the
    passes of int8, counted; where nothing is quantized they are fewer."""
    steps = {}
    for n in (500, 1000):
        model, ranges = chain_of_gemms(tmp_path, n)
        for more in ("", "--exclude *"):
            command, *others = f"{words} {more}".split()
            given = ["--ranges", ranges] if command == "static" else []
            told = tmp_path / "steps"
            subprocess.run([built_tool("weir-steps"), command, model, tmp_path / "o.onnx", "--dry-run", "--quiet", *given, *others],
                           env={**os.environ, "WEIR_STEPS": str(told)}, check=True, capture_output=True)  # fmt: skip
            steps[n, more] = int(told.read_text())
    assert 0 < steps[500, "--exclude *"] < steps[500, ""], steps
    assert steps[1000, ""] < 2.3 * steps[500, ""], steps


def test_given_zero_points_are_refused_in_either_form(weir, tmp_path):
    model = Model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": numbers(8, 4)}, {"x": numbers(16, 8)})
    file = tmp_path / "o.json"
    file.write_text(json.dumps({"w": [{"scale": 0.1, "zero_point": 200}]}))
    for form in "qdq", "qoperator":
        said = model.ours(weir, "--format", form, "--override", file, code=2)
        assert "override of tensor 'w': zero_point 200 is outside -128 to 127, the range of int8" in said


def test_given_numbers_for_more_channels_than_are_kept(weir, tmp_path):
    """2^32 + 2 channels without an element each, in memory too, are no two."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "m")]
    model = Model(tmp_path, nodes, {"w": numbers(8, 4)}, {"x": numbers(16, 8)})
    made = onnx.load(model.path)
    made.graph.initializer[0].CopyFrom(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[0, 2**32 + 2], raw_data=b""))
    onnx.save(made, model.path)
    file = tmp_path / "o.json"
    file.write_text(json.dumps({"w": [{"axis": 1, "rmin": -1, "rmax": 1}]}))
    said = model.ours(weir, "--override", file, code=2)
    assert "override of tensor 'w': the tensor has 4294967298 channels, but values can be given for at most 1048576" in said


def test_float8_wants_a_deviation(weir, small):
    said = small.ours(weir, "--activation-type", "float8e4m3fn", "--weight-type", "float8e4m3fn", code=66)
    assert "no standard deviation" in said and "--method distribution" in said


@pytest.mark.parametrize("override, line, said", [
    ({"nowhere": [{"quant_type": "uint16"}]}, 2, "no such tensor"),
    ({"w": [{"quant_type": "int7"}]}, 3, "unknown quant_type 'int7'"),
    ({"w": [{"scale": 0.1}]}, 3, "scale and zero_point must both be given"),
    ({"w": [{"scale": 0.1, "zero_point": 0, "symmetric": True}]}, 3, "cannot be combined"),
    ({"w": [{"scale": 0.1, "zero_point": 300}]}, 3, "zero_point 300 is outside -128 to 127"),
    ({"w": [{"rmin": 1, "rmax": -1}]}, 3, "rmin is above rmax"),
    ({"h": [{"scale": 1e-300, "zero_point": 0}]}, 3, "scale 1e-300 is too small for float"),
    ({"h": [{"scale": 1e300, "zero_point": 0}]}, 3, "scale 1e+300 is too large for float"),
    ({"h": [{"rmin": -1e300, "rmax": 1}]}, 3, "rmin -1e+300 is too large for float"),
    ({"h": [{"convert": {"quant_type": "uint16", "recv_nodes": ["r"] * n}} for n in (4000, 1)]}, 2,
     "overrides by channel need an axis"),
    ({"w": [{"axis": 2}]}, 2, "axis 2 of a tensor of 2 dims"),
    ({"w": [{"axis": 1, "rmin": -1, "rmax": 1}, {"rmin": -1, "rmax": 1}]}, 2, "2 overrides for 4 channels"),
    ({"w": [{"axis": 1}] + [{"symmetric": True}] * 3}, 6, "must be the same as for the first channel"),
    ({"w": [{"convert": {"quant_type": "uint16"}}]}, 3, "convert is for computed values"),
    ({"h": [{"reduce_range": True}]}, 3, "reduce_range is for constants"),
    ({"h": [{"axis": 0}]}, 3, "axis is for constants"),
    ({"h": [{"convert": {"quant_type": "uint8"}}]}, 3, "which is already its type"),
    ({"h": [{"convert": {"quant_type": "uint16", "recv_nodes": ["none"]}}]}, 3, "no node 'none' uses it"),
    ({"h": [{}], "w": [{"scle": 1}]}, 6, "unknown key 'scle'"),
    ({"h": {}}, 2, "are not a list"),
])  # fmt: skip
def test_overrides_are_checked(weir, small, override, line, said):
    file = small.folder / "o.json"
    file.write_text(json.dumps(override, indent=1))
    error = small.ours(weir, "--override", file, code=2)
    assert said in error and f"o.json:{line}: " in error


def test_verification_names_what_to_leave_out(weir, tmp_path):
    """One in 256 of a Softmax over 30,000 classes is nothing, which quantize_static makes of it: refused, with the node that is to stay as
    it is. Without --compat its codes end where its elements do."""
    nodes = [helper.make_node("Relu", ["x"], ["r"], "act"), helper.make_node("Softmax", ["r"], ["y"], "classes", axis=-1)]
    x = np.random.default_rng(0).standard_normal((2, 30000)).astype(np.float32)
    m = Model(tmp_path, nodes, {}, {"x": x})
    words = ["--op-types", "all", "--force-quantize-no-input-check", "--verify"]
    assert m.ours(weir, *words)[1] > 25
    (tmp_path / "ours.onnx").unlink()
    words += ["--compat", "onnxruntime"]
    said = m.ours(weir, *words, code=1)
    assert "'classes'" in said and "--exclude 'classes' leaves it unchanged" in said
    assert not (tmp_path / "ours.onnx").exists()
    m.ours(weir, *words, "--exclude", "classes")


def with_activation(folder, *activation, outputs=("y",)):
    """Conv, the activation with its bounds, Conv: most of what the first makes is below 0."""
    w, v = numbers(8, 8, 3, seed=1), numbers(8, 8, 3, seed=2)
    kind, *bounds = activation
    held = {f"bound{i}": np.float32(x) for i, x in enumerate(bounds)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["h"], "first"), helper.make_node(kind, ["h", *held], ["r"], "act"),
             helper.make_node("Conv", ["r", "v"], ["y"], "second")]  # fmt: skip
    return Model(folder, nodes, {"w": w, "v": v, "b": np.full(8, -8, np.float32), **held}, {"x": numbers(1, 8, 64)}, outputs=outputs)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("activation", [("Relu",), ("Clip", 0, 6), ("Clip", 0)], ids=str)
def test_an_activation_goes_with_the_operator_whose_result_it_cuts_off(weir, tmp_path, form, activation):
    """Nobody asks for it, but codes for what it cuts off would be lost; with --op-types all it is as good and no better."""
    m = with_activation(tmp_path, *activation)
    words = ["--format", form, "--reduce-range", "--verify"]
    model, found = m.ours(weir, *words)
    assert activation[0] not in ops(model) and found > 28
    alone = m.ours(weir, *words[:-1], "--exclude", "act")
    assert activation[0] in ops(alone[0]) and alone[1] < found
    assert found > m.ours(weir, *words, "--op-types", "all")[1] - 0.2
    assert activation[0] in ops(m.ours(weir, *words, "--exclude", "first")[0])


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_an_activation_stays_where_codes_do_not_cut_off_the_same(weir, tmp_path, form):
    m = with_activation(tmp_path, "Clip", 0.5, 6)
    model, found = m.ours(weir, "--format", form, "--reduce-range")
    assert "Clip" in ops(model) and found > 25
    m = with_activation(tmp_path, "Relu", outputs=("h", "y"))
    assert "Relu" in ops(m.ours(weir, "--format", form, "--reduce-range")[0])


def test_what_codes_cut_off_has_the_name_of_what_the_activation_gave(weir, tmp_path):
    """A tool that looks at r sees nothing below 0, as before."""
    m = with_activation(tmp_path, "Relu")
    model, _ = m.ours(weir, "--reduce-range")
    [maker] = [n for n in model.graph.node if "r" in n.output]
    assert maker.op_type == "DequantizeLinear"
    model.graph.output.append(helper.make_empty_tensor_value_info("r"))
    onnx.save(model, tmp_path / "seen.onnx")
    assert run(tmp_path / "seen.onnx", m.feeds)[1].min() >= 0


def taken_elsewhere(folder, *more, activation=("Relu", {}), opset=21):
    """As with_activation; `more` nodes take r too, and make z."""
    kind, attributes = activation
    held = {"w": numbers(8, 8, 3, seed=1), "v": numbers(8, 8, 3, seed=2), "b": np.full(8, -8, np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["h"], "first"), helper.make_node(kind, ["h"], ["r"], "act", **attributes),
             helper.make_node("Conv", ["r", "v"], ["y"], "second"), *more]  # fmt: skip
    return Model(folder, nodes, held, {"x": numbers(1, 8, 64)}, outputs=("y", "z"), opset=opset)


def of_a_branch():
    """Nodes that move r and give it to the bodies of an If, before which ONNX Runtime aborts where a DQ comes before them."""
    bodies = [helper.make_graph([helper.make_node("Abs", ["t"], [n])], n, [], [helper.make_tensor_value_info(n, FLOAT, None)]) for n in ("z1", "z2")]
    return [helper.make_node("Transpose", ["r"], ["t"], "turn", perm=[0, 2, 1]), helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
            helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL), helper.make_node("If", ["c"], ["z"], then_branch=bodies[0], else_branch=bodies[1])]  # fmt: skip


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("words", [[], ["--op-types", "all"], ["--op-types", "all", "--exclude", "turn"]], ids=" ".join)
def test_who_takes_the_value_before_its_codes_sees_the_activation(weir, tmp_path, form, words):
    """An activation that went is put back for nodes that take no DequantizeLinear, of int8 or before a body."""
    words = ["--format", form, "--reduce-range", *words]
    assert taken_elsewhere(tmp_path, *of_a_branch()).ours(weir, *words)[1] > 28
    old = taken_elsewhere(tmp_path, *of_a_branch(), activation=("Clip", {"min": 0.0, "max": 6.0}), opset=10)
    assert old.ours(weir, *words)[1] > 25
    turned = [helper.make_node("Transpose", ["r"], ["t"], "turn", perm=[0, 2, 1]), helper.make_node("Softplus", ["t"], ["z"])]
    assert taken_elsewhere(tmp_path, *turned).ours(weir, *words, "--activation-type", "int8", "--exclude", "turn")[1] > 28


def test_an_activation_stays_where_what_it_gives_gets_no_codes(weir, tmp_path):
    """With --compat it goes, as quantize_static has it."""
    words = ["--op-types-to-exclude-output-quantization", "Relu", "--reduce-range"]
    m = with_activation(tmp_path, "Relu", outputs=("r", "y"))
    for types in ([], ["--op-types", "Conv,Relu"]):
        model, found = m.ours(weir, *words, *types)
        assert "Relu" in ops(model) and found > 28
    assert "Relu" not in ops(m.ours(weir, *words, "--compat", "onnxruntime")[0])


def test_who_alone_takes_the_value_before_its_codes_leaves_no_codes(weir, tmp_path):
    """The activation is back where it was: no QuantizeLinear is there for nobody."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["h"], "first"), helper.make_node("Relu", ["h"], ["r"], "act"), *of_a_branch()]
    m = Model(tmp_path, nodes, {"w": numbers(8, 8, 3, seed=1)}, {"x": numbers(1, 8, 64)}, outputs=("z",), opset=21)
    model, found = m.ours(weir, "--reduce-range")
    assert ops(model).count("QuantizeLinear") == 1 and "Relu" in ops(model) and found > 28


def test_pairs_of_their_own_leave_the_activation_to_others(weir, tmp_path):
    third = helper.make_node("Conv", ["r", "v"], ["y2"], "third")
    m = taken_elsewhere(tmp_path, third, helper.make_node("Softplus", ["r"], ["s"]), helper.make_node("Concat", ["s", "y2"], ["z"], axis=2))
    model, found = m.ours(weir, "--dedicated-qdq-pair", "--reduce-range")
    assert "Relu" in ops(model) and found > 28
    m = taken_elsewhere(tmp_path, helper.make_node("Conv", ["r", "v"], ["z"], "third"))
    model, found = m.ours(weir, "--dedicated-qdq-pair", "--reduce-range")
    assert "Relu" not in ops(model) and found > 28


def test_numbers_smaller_than_a_step_are_no_proof(weir, tmp_path):
    """What a site is given fills the range of its codes: here a step is 20, and what is drawn for a Relu alone lies around 1."""
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal((8, 8, 3)).astype(np.float32) for _ in range(2))
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["h"], "first"), helper.make_node("Relu", ["h"], ["r"], "act"),
             helper.make_node("Conv", ["r", "v"], ["y"], "second")]  # fmt: skip
    x = rng.standard_normal((1, 8, 32)).astype(np.float32)
    m = Model(tmp_path, nodes, {"w": 300 * w, "v": v, "b": np.full(8, -3000, np.float32)}, {"x": x})
    m.ours(weir, "--verify")
