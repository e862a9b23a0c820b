"""The table of questions in docs/int8.md: what each operator that static, dynamic and requantize write or wrap must be asked.

A cell of the table that is not empty has a model here at least (`CELLS`): quantized, it has the operators that the cell says, says the
reason, loads with and without ONNX Runtime's optimizations, and computes the same with both and near to the float model.
"""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import optimized_graphs
import quantized_graphs
from int8_graphs import Graph, finished

pytestmark = pytest.mark.in_memory

DOCS = Path(__file__).resolve().parents[2] / "docs" / "int8.md"
QUESTIONS = ("not written", "types", "outside", "nothing", "fused")
HALF, FLOAT = np.float16, np.float32
ROWS, IMAGE = (2, 3, 8), (1, 4, 6, 6)
CELLS = {}  # (operator, question): its cases


def cell(operator, question, dims=ROWS, form="qoperator", opset=17, dtype=FLOAT, words=(), has=(), lacks=(), reason=None, fused=()):
    """Of a function (g, x) that makes the nodes behind x, which is held as codes. `fused`: what the runtime's model has."""
    assert question in QUESTIONS

    def add(build):
        case = (build, dims, form, opset, dtype, words, has, lacks, reason, fused)
        CELLS.setdefault((operator, question), []).append(case)
        return build

    return add


def one(op, *constants, **said):
    """The operator alone, between what makes its input and a Mul."""

    def build(g, x):
        others = ["" if c is None else g.initializer(np.asarray(c)) for c in constants]
        return g.node("Mul", [g.node(op, [x, *others], **said), g.initializer(g.dtype.type(1.5))])

    return build


def ints(*values):
    return np.array(values, np.int64)


def normal(*dims, scale=0.5):
    return np.random.default_rng([3, *dims]).normal(0, scale, dims).astype(np.float32)


# ---- the cells


for op in ("Add", "Mul"):
    cell(op, "types", words=["--activation-type", "int8"], has=[f"QLinear{op}"])(one(op, normal(8)))
    cell(op, "fused", form="qdq", fused=[f"QLinear{op}"])(one(op, normal(8)))
    cell(op, "fused", form="qdq", dtype=HALF, opset=21, fused=[op])(one(op, normal(8).astype(HALF)))


cell("Mul", "outside", form="qdq", dtype=HALF, opset=21, words=["--minimum-real-range", "0.001"])(
    one("Mul", (normal(8) * 1e-3).astype(HALF)))  # fmt: skip


@cell("ArgMax", "types", opset=10, has=["ArgMax"], lacks=["DequantizeLinear"])
@cell("ArgMax", "types", has=["ArgMax"], lacks=["DequantizeLinear"])
def arg_max(g, x):
    return g.node("ArgMax", [x], axis=2)


cell("AveragePool", "fused", IMAGE, "qdq", fused=["QLinearAveragePool"])(one("AveragePool", kernel_shape=[2, 2]))
for form in ("qdq", "qoperator"):
    cell("AveragePool", "fused", IMAGE, form, 21, has=["AveragePool"], lacks=["QLinearAveragePool"], fused=["AveragePool"])(
        one("AveragePool", kernel_shape=[2, 2], dilations=[2, 2]))  # fmt: skip
    cell("Clip", "not written", form=form, lacks=["Clip"])(one("Clip"))
    cell("Clip", "outside", form=form, has=["Clip"])(one("Clip", FLOAT(0.2), FLOAT(0.9)))
    cell("Clip", "outside", form=form, words=["--activation-type", "int8", "--activation-symmetric"], has=["Clip"])(
        one("Clip", FLOAT(0), None))  # fmt: skip

cell("Concat", "fused", form="qdq", fused=["QLinearConcat"])(one("Concat", normal(2, 3, 8), axis=1))
cell("Concat", "fused", form="qdq", dtype=HALF, opset=21, reason="fused_operator", fused=["Concat"])(
    one("Concat", normal(2, 3, 8).astype(HALF), axis=1))  # fmt: skip

cell("Concat", "fused", form="qdq", dtype=HALF, opset=21, words=["--compat", "onnxruntime"], fused=["Concat"])(
    one("Concat", normal(2, 3, 8).astype(HALF), axis=1))  # fmt: skip

CONV = [normal(5, 4, 3, 3, scale=0.2), normal(5)]
cell("Conv", "not written", IMAGE, has=["QLinearConv"])(one("Conv", *CONV))
for weight in ("int8", "uint8"):
    cell("Conv", "types", IMAGE, words=["--weight-type", weight, "--per-tensor"], has=["QLinearConv"])(one("Conv", *CONV))
    cell("MatMul", "types", words=["--weight-type", weight], has=["QLinearMatMul"])(one("MatMul", normal(8, 5)))
cell("Conv", "types", IMAGE, words=["--activation-type", "int8"], has=["QLinearConv"])(one("Conv", *CONV))
for form, op in (("qdq", "DequantizeLinear"), ("qoperator", "QLinearConv")):
    cell("Conv", "outside", IMAGE, form, has=[op])(one("Conv", CONV[0] * FLOAT(1e-7), CONV[1]))
    cell("Gemm", "outside", (3, 8), form)(one("Gemm", normal(8, 5) * FLOAT(1e-7), normal(5)))
for by in (1e-3, 1e-5):
    cell("Conv", "outside", IMAGE, "qdq", 21, HALF, has=["Conv"])(one("Conv", (CONV[0] * FLOAT(by)).astype(HALF), CONV[1].astype(HALF)))
cell("Conv", "fused", IMAGE, "qdq", fused=["QLinearConv"])(one("Conv", *CONV))


@cell("Conv", "fused", IMAGE, "qdq", reason="non_constant_bias")
@cell("Conv", "fused", IMAGE, reason="non_constant_bias", has=["Conv"], lacks=["QLinearConv"])
def computed_bias(g, x):
    bias = g.node("Abs", [g.given(normal(5), "b")])
    return g.node("Conv", [x, g.initializer(CONV[0]), bias])


cell("ConvTranspose", "fused", IMAGE, has=["ConvTranspose"], fused=["ConvTranspose"])(
    one("ConvTranspose", normal(4, 5, 3, 3, scale=0.2), normal(5)))  # fmt: skip
cell("Gather", "types", has=["Gather"], words=["--force-quantize-no-input-check"])(one("Gather", ints(1, 0), axis=1))


@cell("Gather", "types", (1, 8))
def table_with_channels(g, x):
    """The table is a Gemm's weight too: what is picked has a scale of its own."""
    table = g.initializer(normal(5, 8) * np.exp(normal(5, 1, scale=2)))
    rows = g.node("Gather", [table, g.initializer(ints(3))])
    return g.node("Gemm", [g.node("Add", [x, rows]), table], transB=1)


cell("Gemm", "not written", (3, 8), has=["QGemm"])(one("Gemm", normal(8, 5), normal(5)))
cell("Gemm", "not written", (3, 8), has=["QGemm"])(one("Gemm", normal(8, 5), normal(5), alpha=0.5, beta=2.0))
cell("Gemm", "types", (3, 8), has=["Gemm"], lacks=["QGemm"], reason="attributes")(one("Gemm", normal(8, 5), normal(5), alpha=-1.0))
cell("GlobalAveragePool", "not written", IMAGE, has=["QLinearGlobalAveragePool"])(one("GlobalAveragePool"))
cell("GlobalAveragePool", "fused", IMAGE, "qdq", fused=["QLinearGlobalAveragePool"])(one("GlobalAveragePool"))
for form in ("qdq", "qoperator"):

    @cell("GlobalAveragePool", "fused", IMAGE, form, reason="fused_operator", has=["GlobalAveragePool"], fused=["GlobalAveragePool"])
    def nothing_left(g, x):
        return g.node("GlobalAveragePool", [g.node("Concat", [x, g.node("Neg", [x])], axis=3)])


cell("LeakyRelu", "not written", has=["QLinearLeakyRelu"])(one("LeakyRelu"))
cell("MatMul", "types", has=["QLinearMatMul"])(one("MatMul", normal(2, 8, 5)))
cell("MatMul", "fused", form="qdq", fused=["QLinearMatMul"])(one("MatMul", normal(8, 5)))
cell("MaxPool", "types", IMAGE, opset=11, has=["MaxPool"], reason="opset_too_old")(one("MaxPool", kernel_shape=[2, 2]))
cell("MaxPool", "types", IMAGE, has=["MaxPool"])(one("MaxPool", kernel_shape=[2, 2]))


@cell("MaxPool", "types", IMAGE, reason="several_outputs")
def max_pool_indices(g, x):
    y, _ = g.node("MaxPool", [x], 2, kernel_shape=[2, 2])
    return g.node("Mul", [y, g.initializer(FLOAT(1.5))])


PADS = ints(0, 0, 1, 1, 0, 0, 1, 0)
cell("Pad", "not written", IMAGE, has=["Pad"])(one("Pad", PADS))
cell("Pad", "types", IMAGE, has=["Pad"])(one("Pad", PADS, FLOAT(0.25)))
for form in ("qdq", "qoperator"):
    cell("Pad", "types", IMAGE, form, has=["Pad"])(one("Pad", PADS, FLOAT(0.25), mode="edge"))
    cell("Pad", "outside", IMAGE, form, has=["Pad"])(one("Pad", PADS, FLOAT(-50)))
    cell("Relu", "outside", form=form, lacks=["Relu"])(one("Relu"))
    cell("Relu", "outside", form=form, words=["--activation-symmetric", "--activation-type", "int8"], has=["Relu"])(one("Relu"))


@cell("Relu", "outside", form="qdq")
@cell("Relu", "outside")
def relu_of_an_output(g, x):
    """What it clips is seen by others: an output of the model."""
    y = g.node("Add", [x, g.initializer(normal(8))])
    g.node("Identity", [y])
    return g.node("Mul", [g.node("Relu", [y]), g.initializer(FLOAT(1.5))])


NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
SCALES = np.array([1, 1, 2, 2], np.float32)
cell("Resize", "outside", IMAGE, has=["Resize"], reason="mode")(one("Resize", None, SCALES, mode="cubic"))
cell("Resize", "types", IMAGE, has=["Resize"])(one("Resize", None, SCALES, **NEAREST))
for form in ("qdq", "qoperator"):
    cell("Resize", "types", IMAGE, form, 20, words=["--activation-type", "int8"], has=["Resize"])(
        one("Resize", None, SCALES, mode="linear", antialias=1))  # fmt: skip
cell("Resize", "fused", IMAGE, "qdq", fused=["Resize"])(one("Resize", None, SCALES, mode="cubic"))
cell("Sigmoid", "fused", form="qdq", fused=["QLinearSigmoid"])(one("Sigmoid"))

for opset in (12, 17):
    for form in ("qdq", "qoperator"):
        cell("Softmax", "not written", (2, 3, 4), form, opset, has=["Softmax" if form == "qdq" else "QLinearSoftmax"])(one("Softmax"))
cell("Softmax", "types", opset=11, has=["QLinearSoftmax"])(one("Softmax", axis=2))
cell("Softmax", "fused", form="qdq", fused=["QLinearSoftmax"])(one("Softmax", axis=-1))
for form in ("qdq", "qoperator"):
    cell("Softmax", "fused", (4, 1), form, reason="fused_operator", fused=["Softmax"])(one("Softmax", axis=-1))


for form in ("qdq", "qoperator"):

    @cell("Softmax", "fused", (1, 4, 2, 3), form, 20, reason="fused_operator", fused=["Softmax"])
    def one_element_of_a_window(g, x):
        """A window of one element has no dilation: what is left along axis 2 is known."""
        y, _ = g.node("MaxPool", [x], 2, auto_pad="SAME_UPPER", kernel_shape=[1, 2], dilations=[2, 2], strides=[2, 1])
        return g.node("Softmax", [g.node("Neg", [y])], axis=2)


@cell("Softmax", "fused", form="qdq", words=["--op-types", "MatMul"], fused=["QLinearSoftmax"])
@cell("Softmax", "fused", form="qdq", fused=["QLinearSoftmax"])
def small_probabilities(g, x):
    """None of them near 1, whoever quantizes them, and moved on the way."""
    flat = g.node("MatMul", [x, g.initializer(normal(8, 4, scale=0.02))])
    p = g.node("Transpose", [g.node("Softmax", [flat], axis=-1)], perm=[0, 2, 1])
    return g.node("MatMul", [p, g.initializer(normal(3, 5))])


@cell("Softmax", "fused", form="qdq", has=["Clip"], fused=["QLinearSoftmax"])
def clipped_probabilities(g, x):
    return g.node("Clip", [g.node("Softmax", [x], axis=-1), g.initializer(FLOAT(0)), g.initializer(FLOAT(0.2))])


@cell("Concat", "fused", form="qdq", dtype=HALF, opset=21, reason="fused_operator", fused=["Concat"])
def moved_on(g, x):
    """The Q behind the Reshape would be moved to the Concat."""
    y = g.node("Concat", [x, g.initializer(normal(2, 3, 8).astype(HALF))], axis=1)
    return g.node("Mul", [g.node("Reshape", [y, g.initializer(ints(4, -1))]), g.initializer(HALF(1.5))])


for form in ("qdq", "qoperator"):
    for op, more, said in (("Reshape", [ints(5, -1)], {}), ("Slice", [ints(0), ints(2), ints(1)], {}), ("Squeeze", [ints(0)], {}),
                           ("Transpose", [], {}), ("Unsqueeze", [ints(0)], {}),
                           ("MaxPool", [], {"kernel_shape": [2]})):  # fmt: skip

        @cell(op, "fused", (1, 3, 8), form, 21, words=["--op-types", "MatMul", "--activation-type", "int8"], has=[op], fused=[op])
        @cell(op, "fused", (1, 3, 8), form, 21, words=["--op-types", "MatMul", "--activation-type", "int8", "--exclude", "last"], has=[op])
        def moved_past(g, x, op=op, more=more, said=said):
            y = g.node("MatMul", [x, g.initializer(normal(8, 5))])
            t = g.node(op, [y, *(g.initializer(a) for a in more)], **said)
            g.nodes[-1].name = "last"
            return t


@cell("MaxPool", "fused", form="qoperator", opset=21, words=["--activation-type", "int8"], reason="several_outputs")
def indices_of_int8(g, x):
    y, _ = g.node("MaxPool", [x], 2, kernel_shape=[2])
    return g.node("Exp", [y])


@cell("Softmax", "outside")
def peaks(g, x):
    """Probabilities of 1: 256 steps, cut off to 255."""
    return g.node("Softmax", [g.node("Mul", [x, g.initializer(FLOAT(60))])], axis=-1)


@cell("Split", "not written", (6, 4), has=["Split"])
def split_first(g, x):
    parts = g.node("Split", [x, g.initializer(ints(2, 4))], 2)
    return g.node("Concat", parts[::-1], axis=0)


cell("LSTM", "not written", form="dynamic", has=["DynamicQuantizeLSTM"])(
    lambda g, x: g.node("LSTM", [x, g.initializer(normal(1, 16, 8)), g.initializer(normal(1, 16, 4))], hidden_size=4))  # fmt: skip
ATTENTION = [normal(8, 24), normal(24)]
cell("Attention", "not written", form="dynamic", has=["QAttention"])(
    lambda g, x: g.node("Attention", [x, *(g.initializer(a) for a in ATTENTION)], domain="com.microsoft", num_heads=2))  # fmt: skip


@cell("EmbedLayerNormalization", "not written", form="qoperator", words=["--op-types", "EmbedLayerNormalization"], has=["QEmbedLayerNormalization"])
@cell("EmbedLayerNormalization", "not written", form="dynamic", words=["--op-types", "EmbedLayerNormalization"], has=["QEmbedLayerNormalization"])
def embed(g, x):
    ids = g.given(np.array([[1, 5, 0]], np.int32), "ids")
    tables = [g.initializer(a) for a in (normal(9, 8), normal(4, 8), 1 + np.abs(normal(8)), normal(8))]
    return g.node("EmbedLayerNormalization", [ids, "", *tables[:2], "", *tables[2:]], 2, domain="com.microsoft")[0]


for domain_form in ("fused", "integer"):
    cell("MatMul", "types", form="dynamic", dtype=HALF, opset=21, words=["--form", domain_form], has=["Cast"])(
        one("MatMul", normal(8, 5).astype(HALF)))  # fmt: skip
cell("Conv", "types", IMAGE, "dynamic", words=["--op-types", "Conv"], has=["ConvInteger"])(one("Conv", *CONV))


for number in (-1e3, -1e4, -1e9, float(np.finfo(np.float32).min)):
    mask = (np.arange(8) > 4).astype(np.float32) * np.float32(number)
    for form in ("qdq", "qoperator"):

        @cell("Add", "nothing", form=form, has=["Add", "Softmax"], reason="mask_values")
        def masked_sum(g, x, mask=mask):
            y = g.node("Softmax", [g.node("Add", [x, g.initializer(mask)])], axis=-1)
            return g.node("MatMul", [y, g.initializer(normal(8, 5))])

        @cell("Where", "nothing", form=form, has=["Where", "Softmax"], words=["--force-quantize-no-input-check"], reason="mask_values")
        def masked_scores(g, x, mask=mask, number=number):
            y = g.node("Where", [g.initializer(mask < 0), g.initializer(FLOAT(number)), x])
            return g.node("MatMul", [g.node("Softmax", [y], axis=-1), g.initializer(normal(8, 5))])

        @cell("Pad", "nothing", IMAGE, form, has=["Pad"], reason="mask_values")
        def frame(g, x, number=number):
            y = g.node("MaxPool", [g.node("Pad", [x, g.initializer(PADS), g.initializer(FLOAT(number))])], kernel_shape=[2, 2])
            return g.node("Mul", [y, g.initializer(FLOAT(1.5))])


# ---- the table


def table():
    """The cells of the table that are not empty: (operator, question)."""
    text = DOCS.read_text()
    rows = text[text.index("### What operators are asked") :]
    found = set()
    for line in re.findall(r"^\| `.*$", rows[: rows.index("\n## ")], re.M):
        first, *cells = [c.strip() for c in line.strip("|").split("|")]
        assert len(cells) == len(QUESTIONS), line
        found |= {(op, q) for op in re.findall(r"`(\w+)`", first) for q, text in zip(QUESTIONS, cells) if text}
    return found


def test_the_table_and_the_cells_are_the_same():
    assert table() == set(CELLS)


def made(build, dims, opset, dtype):
    g = Graph(5, opset, dtype)
    x = g.given((normal(*dims, scale=1) + 0.1).astype(dtype), "x")
    x = g.node("Add", [x, g.initializer(normal(*dims, scale=0.1).astype(dtype))])
    return finished(g, build(g, x)), g.inputs


def optimized(model, folder):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimized.onnx")


def operators(model):
    return {n.op_type for n in model.graph.node}


CASES = [(*name, i) for name, cases in CELLS.items() for i in range(len(cases))]


@pytest.mark.parametrize("operator, question, which", CASES)
def test_a_cell(weir, tmp_path, operator, question, which):
    build, dims, form, opset, dtype, words, has, lacks, reason, fused = CELLS[operator, question][which]
    model, feeds = made(build, dims, opset, dtype)
    values = {**optimized_graphs.with_all_values(model, [feeds])[0], **feeds}
    source, out, ranges = (tmp_path / n for n in ("in.onnx", "out.onnx", "ranges.json"))
    onnx.save(model, source)
    ranges.write_text(quantized_graphs.ranges_of(values))
    said = ["dynamic"] if form == "dynamic" else ["static", "--ranges", ranges, "--format", form]
    said += [] if form == "dynamic" or "--op-types" in words else ["--op-types", "all"]
    report = weir.report(said[0], source, out, *said[1:], *words)
    quantized = onnx.load(out)
    assert set(has) <= operators(quantized) and not set(lacks) & operators(quantized)
    if reason:
        assert reason in json.dumps(report), report
    judge = quantized_graphs.Judge(model, feeds, values)
    wrong, _ = quantized_graphs.Runner(None, str(tmp_path)).judged(judge, out, form)
    assert wrong == []
    if fused:
        assert set(fused) <= operators(optimized(quantized, tmp_path))
