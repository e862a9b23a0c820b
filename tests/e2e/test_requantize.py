"""requantize --to qoperator and --to qdq: quantized models in another form compute what they computed, in ONNX Runtime, from what its own
quantizer writes and from graphs of one operator; what stays says why."""

import json
import os

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import ALL
from quantizable_graphs import feeds_of, quantizable_graph, static

pytestmark = pytest.mark.in_memory

SEEDS = range(300 if ALL else 24)
INT8, UINT8 = TensorProto.INT8, TensorProto.UINT8
NUMPY = {INT8: np.int8, UINT8: np.uint8}


def run(model, feeds, optimized=False):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    data = model if isinstance(model, (str, os.PathLike)) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def requantize(weir, folder, model, to, name="out.onnx", *words):
    """The result, and what its report says: [(op_type, status, reason)]."""
    source, out = folder / f"source-{name}", folder / name
    onnx.save(model, source)
    report = weir.report("requantize", source, out, "--to", to, "--force", *words)
    weir("check", out)
    return onnx.load(out), [(s["op_type"], s["status"], s["reason"]) for s in sites_of(report)]


def sites_of(report):
    found = report.get("nodes")
    return found if found is not None else [s for p in report["passes"] for s in p["nodes"]]


def operators(model):
    found = {}
    for node in model.graph.node:
        found[node.op_type] = found.get(node.op_type, 0) + 1
    return found


# ---- what the installed quantizer writes ---------------------------------------------------------


def step_of(model, name):
    """The scale of the DequantizeLinear that gives an output; None: another operator does."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.output[0] == name:
            return float(constants[node.input[1]])
    return None


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("seed", SEEDS)
def test_there_and_back(weir, tmp_path, seed, form):
    from onnxruntime.quantization import QuantFormat, QuantType

    model = quantizable_graph(seed)
    types = {"activation_type": [QuantType.QUInt8, QuantType.QInt8][seed % 2], "weight_type": QuantType.QInt8}
    source = static(model, tmp_path / "tool.onnx", QuantFormat[form], per_channel=seed % 3 > 0, **types)
    there, back = ("qoperator", "qdq") if form == "QDQ" else ("qdq", "qoperator")
    other, sites = requantize(weir, tmp_path, source, there)
    again, _ = requantize(weir, tmp_path, other, back, "again.onnx")
    assert any(status == "converted" for _, status, _ in sites)
    feeds = feeds_of(model, seed)
    expected = run(source, feeds)
    # Float operators over the same numbers, or the same operators on codes: bit for bit.
    for a, b in zip(expected, run(again, feeds)):
        np.testing.assert_array_equal(a, b)
    # QDQ optimized is what ONNX Runtime makes of it: with a Softmax of codes, which wraps around (softmax_range).
    fused = there == "qdq" or any(reason == "softmax_range" for *_, reason in sites)
    for result in (run(other, feeds), run(other, feeds, not fused)):
        for value, a, b in zip(source.graph.output, expected, result):
            if a.dtype != np.float32:
                continue
            step = step_of(source, value.name) or np.ptp(a) / 255
            # A code may fall to its neighbour at each operator, and what is behind amplifies that.
            assert np.abs(a - b).mean() <= 4 * step, (value.name, step)
            assert np.abs(a - b).max() <= max(12 * step, 0.1 * np.ptp(a)), (value.name, step)


# ---- one operator --------------------------------------------------------------------------------


class Codes:
    """A graph of codes in, codes out: Q/DQ around one float operator."""

    def __init__(self, type_, opset=17):
        self.type, self.opset = type_, opset
        self.low = -128 if type_ == INT8 else 0
        self.rng = np.random.default_rng(5)
        self.nodes, self.initializers, self.inputs, self.feeds = [], [], [], {}

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def dequantize(self, x, scale, zero, axis=None, name=None):
        name = name or f"{x}_float"
        parts = [self.constant(f"{name}_scale", np.asarray(scale, np.float32))]
        if zero is not None:
            parts.append(self.constant(f"{name}_zero", zero))
        extra = {} if axis is None else {"axis": axis}
        self.nodes.append(helper.make_node("DequantizeLinear", [x, *parts], [name], **extra))
        return name

    def input(self, name, dims, scale=0.02, zero=7):
        dtype = NUMPY[self.type]
        limits = np.iinfo(dtype)
        zero += self.low + 128
        self.inputs.append(helper.make_tensor_value_info(name, self.type, dims))
        self.feeds[name] = self.rng.integers(limits.min, limits.max + 1, dims).astype(dtype)
        return self.dequantize(name, scale, np.array(zero, dtype))

    def weight(self, name, dims, scale=0.01, zero=0, axis=None, dtype=np.int8):
        codes = self.rng.integers(-127 if dtype == np.int8 else 0, 128, dims).astype(dtype)
        n = () if axis is None else (dims[axis],)
        scales = scale * self.rng.uniform(0.5, 1.5, n) if n else scale
        return self.dequantize(self.constant(name, codes), scales, np.full(n, zero, dtype), axis)

    def op(self, op, inputs, outputs=("r",), **attributes):
        self.nodes.append(helper.make_node(op, inputs, list(outputs), name="middle", **attributes))
        return outputs[0] if len(outputs) == 1 else list(outputs)

    def quantize(self, x, y, scale=0.05, zero=None):
        zero = self.low + 131 if zero is None else zero
        parts = [
            self.constant(f"{y}_scale", np.float32(scale)),
            self.constant(f"{y}_zero", np.array(zero, NUMPY[self.type])),
        ]
        self.nodes.append(helper.make_node("QuantizeLinear", [x, *parts], [y]))

    def model(self, outputs=("y",), type_=None):
        graph = helper.make_graph(
            self.nodes,
            "codes",
            self.inputs,
            [helper.make_tensor_value_info(y, type_ or self.type, None) for y in outputs],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def conv(c, axis=0, bias=None, **attributes):
    x, w = c.input("x", [1, 4, 7, 7]), c.weight("w", [6, 4, 3, 3], axis=axis)
    inputs = [x, w]
    if bias == "float":
        inputs.append(c.constant("b", c.rng.standard_normal(6).astype(np.float32)))
    elif bias:
        scales = next(numpy_helper.to_array(t) for t in c.initializers if t.name == "w_float_scale")
        scales = np.float32(0.02) * scales * np.float32(1 if bias == "same" else bias)
        codes = c.constant("b", c.rng.integers(-4000, 4000, 6).astype(np.int32))
        inputs.append(c.dequantize(codes, scales, None, 0 if np.ndim(scales) else None))
    c.quantize(c.op("Conv", inputs, **attributes), "y", 0.06)


def gemm(c, transposed=False, bias=True, **attributes):
    x = c.input("x", [5, 8])
    w = c.weight("w", [6, 8] if transposed else [8, 6], axis=0 if transposed else 1)
    inputs = [x, w] + ([c.constant("b", c.rng.standard_normal(6).astype(np.float32))] if bias else [])
    extra = {"transB": 1} if transposed else {}
    c.quantize(c.op("Gemm", inputs, **extra, **attributes), "y", 0.02 * attributes.get("alpha", 1))


def unary(op, dims=(2, 4, 6, 6), scale=0.02, zero=None, **attributes):
    def build(c):
        c.quantize(c.op(op, [c.input("x", list(dims))], **attributes), "y", scale, c.low if zero == "low" else zero)

    return build


def binary(op, *inputs):
    def build(c):
        names = [c.input(f"x{i}", list(dims), 0.02 + 0.01 * i, 5 + i) for i, dims in enumerate(inputs)]
        c.quantize(c.op(op, names, **({"axis": 1} if op == "Concat" else {})), "y", 0.05)

    return build


def matmul(c, axis=1, batch=()):
    c.quantize(c.op("MatMul", [c.input("x", [*batch, 5, 8]), c.weight("w", [8, 6], axis=axis)]), "y", 0.02)


def moved(op, dims=(2, 4, 6, 6), constants=(), outputs=1, **attributes):
    """An operator whose result has the scale of its input."""

    def build(c):
        rest = [c.constant(f"c{i}", value) if value is not None else "" for i, value in enumerate(constants)]
        results = [f"r{i}" for i in range(outputs)]
        c.op(op, [c.input("x", list(dims)), *rest], results, **attributes)
        for i, r in enumerate(results):
            c.quantize(r, "y" if outputs == 1 else f"y{i}", 0.02, c.low + 135)

    return build


def ints(*values):
    return np.array(values, np.int64)


def clipped(op, zero=0, constants=()):
    def build(c):
        zero_of = c.low if zero == "low" else zero
        scale = 6 / 255
        conv_out = c.op("Conv", [c.input("x", [1, 4, 7, 7]), c.weight("w", [6, 4, 3, 3], scale=0.003)])
        rest = [c.constant(f"c{i}", np.float32(v)) for i, v in enumerate(constants)]
        c.nodes.append(helper.make_node(op, [conv_out, *rest], ["clipped"]))
        c.quantize("clipped", "y", scale, zero_of)

    return build


# What is built, what it becomes, and by how many codes results may differ.
CASES = {
    "conv": (lambda c: conv(c), "QLinearConv"),
    "conv-per-tensor": (lambda c: conv(c, None), "QLinearConv"),
    "conv-bias": (lambda c: conv(c, bias="same", pads=[1, 1, 1, 1]), "QLinearConv"),
    "conv-bias-per-tensor": (lambda c: conv(c, None, bias="same"), "QLinearConv"),
    "conv-bias-of-another-scale": (lambda c: conv(c, bias=3.7), "QLinearConv"),
    "conv-float-bias": (lambda c: conv(c, bias="float", strides=[2, 2]), "QLinearConv"),
    "gemm": (lambda c: gemm(c), "QGemm"),
    "gemm-transposed": (lambda c: gemm(c, True), "QGemm"),
    "gemm-without-bias": (lambda c: gemm(c, bias=False), "QGemm"),
    "gemm-factors": (lambda c: gemm(c, alpha=2.0, beta=0.5), "QGemm"),
    "matmul": (lambda c: matmul(c), "QLinearMatMul"),
    "matmul-per-tensor": (lambda c: matmul(c, None), "QLinearMatMul"),
    "matmul-batch": (lambda c: matmul(c, 1, (3,)), "QLinearMatMul"),
    "matmul-of-activations": (binary("MatMul", (5, 8), (8, 6)), "QLinearMatMul"),
    "add": (binary("Add", (2, 3, 4), (3, 1)), "QLinearAdd"),
    "mul": (binary("Mul", (2, 3, 4), (2, 3, 4)), "QLinearMul"),
    "concat": (binary("Concat", (2, 3, 4), (2, 5, 4), (2, 1, 4)), "QLinearConcat"),
    "leakyrelu": (unary("LeakyRelu", alpha=0.2), "QLinearLeakyRelu"),
    "sigmoid": (unary("Sigmoid", scale=1 / 256), "QLinearSigmoid"),
    "softmax": (unary("Softmax", (4, 9), 1 / 255, "low", axis=-1), "QLinearSoftmax"),
    "averagepool": (unary("AveragePool", kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 0, 0]), "QLinearAveragePool"),
    "globalaveragepool": (unary("GlobalAveragePool", scale=0.005), "QLinearGlobalAveragePool"),
    "relu": (clipped("Relu", "low"), "QLinearConv"),
    "clip": (clipped("Clip", "low", (0, 6)), "QLinearConv"),
    "reshape": (moved("Reshape", constants=[ints(2, -1)]), "Reshape"),
    "transpose": (moved("Transpose", perm=[0, 2, 3, 1]), "Transpose"),
    "squeeze": (moved("Squeeze", (2, 1, 6), [ints(1)]), "Squeeze"),
    "unsqueeze": (moved("Unsqueeze", (2, 6), [ints(1)]), "Unsqueeze"),
    "flatten": (moved("Flatten"), "Flatten"),
    "slice": (moved("Slice", (2, 9), [ints(1), ints(8), ints(1), ints(2)]), "Slice"),
    "gather": (moved("Gather", (9, 4), [ints(3, 0, 8)]), "Gather"),
    "maxpool": (moved("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "MaxPool"),
    "pad": (moved("Pad", (2, 6), [ints(0, 1, 0, 2)]), "Pad"),
    "pad-with-a-number": (moved("Pad", (2, 6), [ints(0, 1, 0, 2), np.float32(0.31)]), "Pad"),
    "pad-reflect": (moved("Pad", (2, 6), [ints(0, 1, 0, 2)], mode="reflect"), "Pad"),
    "split": (moved("Split", (2, 6), [ints(2, 4)], 2, axis=1), "Split"),
    "resize": (moved("Resize", (1, 2, 4, 4), [None, np.array([1, 1, 2, 2], np.float32)], mode="nearest"), "Resize"),
    "resize-linear": (moved("Resize", (1, 2, 4, 4), [None, np.array([1, 1, 2, 2], np.float32)], mode="linear"), "Resize"),
}


def built(case, type_, opset=17):
    c = Codes(type_, opset)
    case(c)
    made = [n.output[0] for n in c.nodes if n.op_type == "QuantizeLinear"]
    return c, c.model(made)


@pytest.mark.parametrize("type_", [INT8, UINT8], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_one_operator(weir, tmp_path, name, type_):
    case, becomes = CASES[name]
    c, model = built(case, type_)
    other, sites = requantize(weir, tmp_path, model, "qoperator")
    assert operators(other) == {becomes: 1}, (operators(other), sites)
    expected = run(model, c.feeds)
    moves = becomes in operators(model)
    for result in (run(other, c.feeds), run(other, c.feeds, True)):
        for a, b in zip(expected, result):
            assert np.abs(a.astype(int) - b.astype(int)).max() <= (0 if moves and name != "resize-linear" else 1)
            assert np.ptp(a.astype(int)) > 50 or name.startswith("conv-bias"), "codes that say something"
    again, _ = requantize(weir, tmp_path, other, "qdq", "again.onnx")
    if moves:  # nothing says what the codes of an input mean
        return
    if name in ("relu", "clip"):
        assert "Relu" not in operators(again) and "Clip" not in operators(again)
    if "bias" in name or "factors" in name or name.startswith("gemm"):
        return  # that of the result is rounded to its own scale
    for a, b in zip(expected, run(again, c.feeds)):
        np.testing.assert_array_equal(a, b)


def test_matmul_without_quantize(weir, tmp_path):
    c = Codes(UINT8)
    r = c.op("MatMul", [c.input("x", [5, 8]), c.weight("w", [8, 6], axis=1)])
    c.nodes.append(helper.make_node("Add", [r, c.constant("b", np.arange(6, dtype=np.float32))], ["y"]))
    model = c.model(type_=TensorProto.FLOAT)
    other, _ = requantize(weir, tmp_path, model, "qoperator")
    assert operators(other) == {"MatMulIntegerToFloat": 1} and len(other.graph.node[0].input) == 7
    again, _ = requantize(weir, tmp_path, other, "qdq", "again.onnx")
    assert operators(again) == operators(model)
    for result in (run(other, c.feeds), run(again, c.feeds)):
        np.testing.assert_allclose(run(model, c.feeds)[0], result[0], rtol=1e-5, atol=1e-5)


def test_gemm_without_quantize(weir, tmp_path):
    c = Codes(INT8)
    c.op("Gemm", [c.input("x", [5, 8]), c.weight("w", [8, 6], axis=1)], ["y"], alpha=1.5)
    model = c.model(type_=TensorProto.FLOAT)
    other, _ = requantize(weir, tmp_path, model, "qoperator")
    assert operators(other) == {"QGemm": 1}
    again, _ = requantize(weir, tmp_path, other, "qdq", "again.onnx")
    for result in (run(other, c.feeds), run(again, c.feeds)):
        np.testing.assert_allclose(run(model, c.feeds)[0], result[0], rtol=1e-5, atol=1e-5)


# ---- what stays ----------------------------------------------------------------------------------


def relu_in_the_middle(c):
    clipped("Relu", 40)(c)


def used_twice(c):
    matmul(c)
    c.nodes.append(helper.make_node("Identity", ["r"], ["also"]))


def other_zero_points(c):
    x = c.input("x", [1, 4, 7, 7])
    codes = c.constant("w", c.rng.integers(0, 255, (6, 4, 3, 3)).astype(np.uint8))
    w = c.dequantize(codes, np.full(6, 0.01), np.arange(6).astype(np.uint8), 0)
    c.quantize(c.op("Conv", [x, w]), "y")


def computed_scale(c):
    unary("Sigmoid")(c)
    c.inputs.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, []))
    c.nodes[-1].input[1] = "scale"


def resize_cubic(c):
    moved("Resize", (1, 2, 4, 4), [None, np.array([1, 1, 2, 2], np.float32)], mode="cubic")(c)


def small_scales(c):
    """Its codes would pass int32."""
    codes = c.constant("w", c.rng.integers(-127, 127, (6, 4, 3, 3)).astype(np.int8))
    w = c.dequantize(codes, np.full(6, 1e-9), np.zeros(6, np.int8), 0)
    c.quantize(c.op("Conv", [c.input("x", [1, 4, 7, 7]), w, c.constant("b", np.full(6, 7, np.float32))]), "y")


STAYS = {
    "clip_range": relu_in_the_middle,
    "zero_points": other_zero_points,
    "parameters": computed_scale,
    "mode": resize_cubic,
    "parameters_differ": lambda c: c.quantize(c.op("Flatten", [c.input("x", [2, 3, 4])]), "y", 0.5),
    "softmax_range": unary("Softmax", (4, 9), 0.0005, 0),
    "axis": lambda c: c.quantize(c.op("MatMul", [c.input("x", [5, 8]), c.weight("w", [8, 6], axis=0)]), "y"),
    "non_constant_bias": lambda c: c.quantize(
        c.op("Conv", [c.input("x", [1, 4, 7, 7]), c.weight("w", [6, 4, 3, 3]), bias_input(c)]), "y"
    ),
    "bias_range": small_scales,
    "empty_weight": lambda c: c.quantize(c.op("MatMul", [c.input("x", [5, 0]), c.weight("w", [0, 6])]), "y"),
    "input_not_quantized": lambda c: c.quantize(c.op("Add", [c.input("x", [6]), bias_input(c)]), "y"),
}


def bias_input(c):
    c.inputs.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [6]))
    return "b"


@pytest.mark.parametrize("reason", STAYS)
def test_what_stays_says_why(weir, tmp_path, reason):
    c = Codes(UINT8)
    STAYS[reason](c)
    model = c.model()
    other, sites = requantize(weir, tmp_path, model, "qoperator")
    assert ("skipped", reason) in [(status, why) for _, status, why in sites]
    assert operators(other) == operators(model)


@pytest.mark.parametrize("quantized", [False, True], ids=["float", "codes"])
@pytest.mark.parametrize("channels", [False, True], ids=["one", "channels"])
def test_a_bias_that_would_pass_int32_keeps_its_node(weir, tmp_path, quantized, channels):
    """By its numbers, however large the result can be; one with codes of its own by what they are worth. Scales of products: 1e-4, codes up to 1e5."""
    floats = [([3e5] * 4, True), ([-1e6, 0, 0, 0], True), ([5e4, 0, 1, 2], False)]
    codes = [((1e-3, [2**31 - 1, -(2**31), 5, 7]), True), ((1e3, [1000] * 4), True), ((1e-3, [1000] * 4), False), ((2e-5, [2**31 - 1] * 4), False)]
    for i, (bias, stays) in enumerate([*floats, *codes]):
        c = Codes(UINT8)
        w_scale, w_zero = (np.full(4, 0.01), np.zeros(4, np.int8)) if channels else (0.01, np.int8(0))
        w = c.dequantize(c.constant("w", c.rng.integers(-100, 100, (8, 4)).astype(np.int8)), w_scale, w_zero, axis=1 if channels else None)
        if isinstance(bias, tuple):
            b = c.dequantize(c.constant("b", np.array(bias[1], np.int32)), bias[0], None)
        else:
            b = c.constant("b", np.array(bias, np.float32))
        y = c.op("Gemm", [c.input("x", [3, 8], 0.01, 0), w, b], ["r" if quantized else "y"])
        if quantized:
            c.quantize(y, "y", 1000.0, 128)
        model = c.model(type_=UINT8 if quantized else TensorProto.FLOAT)
        other, sites = requantize(weir, tmp_path, model, "qoperator", f"{i}.onnx")
        assert (("Gemm", "skipped", "bias_range") in sites) == stays, (bias, sites)
        expected, result = run(model, c.feeds)[0].astype(float), run(other, c.feeds)[0].astype(float)
        assert np.abs(expected - result).max() <= (1 if quantized else 0.01), bias


@pytest.mark.parametrize("op", ["Gemm", "Conv"])
@pytest.mark.parametrize("n", [4, 20000])
@pytest.mark.parametrize("channels", [False, True], ids=["one", "channels"])
def test_codes_of_a_bias_that_a_sum_passes_int32_with(weir, tmp_path, op, n, channels):
    """Codes that are by the right scale stay what they are, but not where the sum of products would wrap around on top of them."""
    x_scale = np.float32(0.01)
    for least, stays in ((2**31 - 1000, True), (2**31 - 8 * 255 * 128 - 9, False)):
        c = Codes(UINT8)
        w = c.rng.integers(-100, 100, (8, n)).astype(np.int8)
        w = c.constant("w", w if op == "Gemm" else np.ascontiguousarray(w.T).reshape(n, 8, 1, 1))
        w_scale, axis = (np.full(n, 0.01), 0 if op == "Conv" else 1) if channels else (0.01, None)
        codes = np.full(n, 7, np.int32)
        codes[[0, -1]] = least, -least
        bias = c.constant("b", codes)
        scale = np.full(n, x_scale * np.float32(0.01), np.float32) if channels else x_scale * np.float32(0.01)
        inputs = [c.input("x", [3, 8] if op == "Gemm" else [1, 8, 2, 2], 0.01, 0),
                  c.dequantize(w, w_scale, np.zeros(n, np.int8) if channels else np.int8(0), axis), c.dequantize(bias, scale, None, 0 if channels else None)]
        c.quantize(c.op(op, inputs), "y", 1000.0, 128)
        model = c.model()
        other, sites = requantize(weir, tmp_path, model, "qoperator", f"{stays}.onnx")
        assert ((op, "skipped", "bias_range") in sites) == stays, sites
        assert np.abs(run(model, c.feeds)[0].astype(int) - run(other, c.feeds)[0]).max() <= 1


@pytest.mark.parametrize("large", [3e5, 1.0])
def test_a_long_bias_is_read(weir, tmp_path, large):
    """Of as many floats as a vocabulary has words, beside one scale."""
    c = Codes(UINT8)
    b = c.rng.normal(0, 1, 20000).astype(np.float32)
    b[-1] = large
    w = c.dequantize(c.constant("w", c.rng.integers(-100, 100, (8, 20000)).astype(np.int8)), 0.01, np.int8(0))
    c.quantize(c.op("Gemm", [c.input("x", [3, 8], 0.01, 0), w, c.constant("b", b)]), "y", 0.1, 128)
    model = c.model()
    other, sites = requantize(weir, tmp_path, model, "qoperator")
    assert (("Gemm", "skipped", "bias_range") in sites) == (large > 1e5), sites
    assert np.abs(run(model, c.feeds)[0].astype(int) - run(other, c.feeds)[0]).max() <= 1


def test_a_result_that_is_used_in_float_too_stays_there(weir, tmp_path):
    """A MatMul gives float to both; anything else stays as it is."""
    c = Codes(UINT8)
    used_twice(c)
    model = c.model()
    model.graph.output.append(helper.make_tensor_value_info("also", TensorProto.FLOAT, None))
    other, _ = requantize(weir, tmp_path, model, "qoperator")
    assert operators(other) == {"MatMulIntegerToFloat": 1, "QuantizeLinear": 1, "Identity": 1}
    c = Codes(UINT8)
    c.quantize(c.op("Sigmoid", [c.input("x", [9])]), "y", 1 / 256, 0)
    c.nodes.append(helper.make_node("Identity", ["r"], ["also"]))
    model = c.model()
    model.graph.output.append(helper.make_tensor_value_info("also", TensorProto.FLOAT, None))
    other, sites = requantize(weir, tmp_path, model, "qoperator")
    assert operators(other) == operators(model) and sites == [("Sigmoid", "skipped", "output_used_elsewhere")]


def test_channels_raise_the_opset(weir, tmp_path):
    """DequantizeLinear has scales by channel from opset 13 on; QLinearConv has them always."""
    c = Codes(UINT8)
    conv(c)
    other, _ = requantize(weir, tmp_path, c.model(), "qoperator")
    other.opset_import[0].version = 11
    again, sites = requantize(weir, tmp_path, other, "qdq", "again.onnx")
    assert "QLinearConv" not in operators(again) and again.opset_import[0].version == 13
    np.testing.assert_array_equal(run(c.model(), c.feeds)[0], run(again, c.feeds)[0])
    kept, _ = requantize(weir, tmp_path, other, "qdq", "kept.onnx", "--exclude", "middle*")
    assert operators(kept) == operators(other) and kept.opset_import[0].version == 11


def test_a_pad_of_a_number_that_is_dequantized(weir, tmp_path):
    c = Codes(UINT8)
    x = c.input("x", [2, 6])
    number = c.dequantize(c.constant("number", np.uint8(9)), 0.02, np.uint8(135))
    c.quantize(c.op("Pad", [x, c.constant("pads", ints(0, 1, 0, 2)), number]), "y", 0.02, 135)
    model = c.model()
    other, _ = requantize(weir, tmp_path, model, "qoperator")
    assert operators(other) == {"Pad": 1}
    np.testing.assert_array_equal(run(model, c.feeds)[0], run(other, c.feeds)[0])


def test_named_nodes_stay(weir, tmp_path):
    c = Codes(UINT8)
    conv(c)
    other, sites = requantize(weir, tmp_path, c.model(), "qoperator", "out.onnx", "--exclude", "mid*")
    assert sites == [("Conv", "skipped", "excluded")] and "Conv" in operators(other)


def test_weights_are_not_stored_anew(weir, tmp_path):
    """Codes stay the bytes that they are, whatever their size: no edit replaces one."""
    c = Codes(UINT8)
    matmul(c)
    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(c.model(), source)
    weir("requantize", source, out, "--to", "qoperator", "--edit-log", tmp_path / "edits")
    kinds = [json.loads(line)["edit"] for line in (tmp_path / "edits").read_text().splitlines()[1:]]
    assert "tensor.replace" not in kinds and "tensor.add" not in kinds


def test_results_are_verified(weir, tmp_path):
    """Site by site: codes within one step, floats as passes that round."""
    c = Codes(UINT8)
    x = c.input("x", [2, 3, 40, 40])
    c.quantize(c.op("AveragePool", [x], kernel_shape=[3, 3]), "y", 0.013)
    c.nodes.append(helper.make_node("DequantizeLinear", ["y", "y_scale", "y_zero"], ["z"]))
    model = c.model(("z",), TensorProto.FLOAT)
    source, there = tmp_path / "m.onnx", tmp_path / "there.onnx"
    onnx.save(model, source)
    weir("requantize", source, there, "--to", "qoperator", "--verify")
    weir("requantize", there, tmp_path / "back.onnx", "--to", "qdq", "--verify")
