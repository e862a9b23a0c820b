"""Small float models with the operators that quantize_static takes, at random, and that tool itself on them.

    model = quantizable_graph(seed)                    a float model, opset 13 or 17
    feeds = feeds_of(model, seed)                      numbers for its inputs
    static(model, out, QuantFormat.QOperator, …)       what the installed onnxruntime makes of it
"""

import logging
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 6


class Builder:
    def __init__(self, seed, opset, nameless=0.1):
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nameless = nameless
        self.nodes, self.initializers, self.n = [], [], 0

    def fresh(self, stem):
        self.n += 1
        return f"{stem}{self.n}"

    def constant(self, array, stem="w"):
        name = self.fresh(stem)
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *dims, stem="w", scale=1.0):
        return self.constant((self.rng.standard_normal(dims) * scale).astype(np.float32), stem)

    def node(self, op, inputs, n_out=1, **attributes):
        outputs = [self.fresh("v") for _ in range(n_out)]
        name = "" if self.rng.random() < self.nameless else self.fresh(op.lower())
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs[0] if n_out == 1 else outputs

    def axes(self, op, x, axes):
        """Squeeze or Unsqueeze."""
        if self.opset < 13:
            return self.node(op, [x], axes=axes)
        return self.node(op, [x, self.constant(np.array(axes, np.int64), "axes")])


def image_step(b, x, size, steps):
    """One more operator on [N, CHANNELS, size, size]; gives the value and its size."""
    rng = b.rng
    kind = steps[rng.integers(len(steps))]
    if kind == "conv":
        bias = [b.weight(CHANNELS, stem="b")] if rng.random() < 0.7 else []
        w = b.weight(CHANNELS, CHANNELS, 3, 3, scale=0.2)
        return b.node("Conv", [x, w, *bias], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), size
    if kind == "depthwise":
        w = b.weight(CHANNELS, 1, 3, 3, scale=0.4)
        return b.node("Conv", [x, w, b.weight(CHANNELS, stem="b")], pads=[1, 1, 1, 1], group=CHANNELS), size
    if kind == "relu":
        return b.node("Relu", [x]), size
    if kind == "clip":
        lo, hi = b.constant(np.float32(0), "lo"), b.constant(np.float32(6), "hi")
        return b.node("Clip", [x, lo, hi]), size
    if kind == "leaky":
        return b.node("LeakyRelu", [x], alpha=0.1), size
    if kind == "sigmoid":
        return b.node("Sigmoid", [x]), size
    if kind in ("add", "mul"):
        other = b.node("Conv", [x, b.weight(CHANNELS, CHANNELS, 1, 1, scale=0.4)])
        return b.node(kind.capitalize(), [x, other]), size
    if kind == "add_constant":
        return b.node("Add", [x, b.weight(CHANNELS, 1, 1)]), size
    if kind == "concat":
        other = b.node("Sigmoid", [x])
        both = b.node("Concat", [x, other], axis=1)
        return b.node("Conv", [both, b.weight(CHANNELS, 2 * CHANNELS, 1, 1, scale=0.3)]), size
    if kind == "split":
        lengths = [CHANNELS // 2] * 2
        if b.opset < 13:
            parts = b.node("Split", [x], 2, axis=1, split=lengths)
        else:
            parts = b.node("Split", [x, b.constant(np.array(lengths, np.int64), "lengths")], 2, axis=1)
        return b.node("Concat", [parts[1], parts[0]], axis=1), size
    if kind == "maxpool":
        if size < 4:
            return x, size
        return b.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]), size // 2
    if kind == "averagepool":
        if size < 4:
            return x, size
        return b.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2]), size // 2
    if kind == "resize":
        if size > 8:
            return x, size
        scales = b.constant(np.array([1, 1, 2, 2], np.float32), "scales")
        mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return b.node("Resize", [x, "", scales], **mode), size * 2
    if kind == "pad":
        pads = b.constant(np.array([0, 0, 1, 1, 0, 0, 0, 0], np.int64), "pads")
        padded = b.node("Pad", [x, pads], mode=["constant", "reflect", "edge"][rng.integers(3)])
        return b.node("Conv", [padded, b.weight(CHANNELS, CHANNELS, 2, 2, scale=0.3)], kernel_shape=[2, 2]), size
    if kind == "transpose":
        return b.node("Transpose", [x], perm=[0, 1, 3, 2]), size
    if kind == "shared_conv":  # two Convs with one weight and one bias
        w, bias = b.weight(CHANNELS, CHANNELS, 1, 1, scale=0.4), b.weight(CHANNELS, stem="b")
        one = b.node("Conv", [x, w, bias])
        return b.node("Conv", [b.node("Sigmoid", [one]), w, bias]), size
    if kind == "relu_elsewhere":  # a Relu on a value that is used elsewhere too
        y = b.node("Conv", [x, b.weight(CHANNELS, CHANNELS, 1, 1, scale=0.4)])
        return b.node("Add", [b.node("Relu", [y]), y]), size
    if kind == "clip_inside":
        y = b.node("Conv", [x, b.weight(CHANNELS, CHANNELS, 1, 1, scale=0.4)])
        return b.node("Clip", [y, b.constant(np.float32(0.2), "lo"), b.constant(np.float32(1.5), "hi")]), size
    if kind == "where":
        mask = b.constant(rng.random((CHANNELS, 1, 1)) < 0.5, "mask")
        return b.node("Where", [mask, x, b.node("Sub", [x, b.weight(CHANNELS, 1, 1)])]), size
    if kind == "pad_value":
        pads = b.constant(np.array([0, 0, 1, 1, 0, 0, 0, 0], np.int64), "pads")
        padded = b.node("Pad", [x, pads, b.constant(np.float32(rng.uniform(-1, 1)), "value")])
        return b.node("Conv", [padded, b.weight(CHANNELS, CHANNELS, 2, 2, scale=0.3)], kernel_shape=[2, 2]), size
    if kind == "float_use":  # a constant that is wanted as codes and as floats
        c = b.weight(CHANNELS, 1, 1)
        both = [b.node("Add", [x, c]), b.node("Sub", [x, c])]
        return b.node("Mul", both if rng.random() < 0.5 else both[::-1]), size
    if kind == "slice":
        ends = [b.constant(np.array([v], np.int64), "slice") for v in (0, CHANNELS, 1)]
        return b.node("Slice", [x, *ends]), size
    assert kind == "reshape", kind
    shape = b.constant(np.array([0, CHANNELS, -1], np.int64), "shape")
    back = b.constant(np.array([0, CHANNELS, size, size], np.int64), "shape")
    return b.node("Reshape", [b.node("Reshape", [x, shape]), back]), size


IMAGE = "conv depthwise relu clip leaky sigmoid add mul add_constant concat split maxpool averagepool resize pad transpose reshape".split()


TANGLED = IMAGE + "shared_conv relu_elsewhere clip_inside where pad_value float_use slice".split()


def row_step(b, x, width, steps):
    """One more operator on [N, width]."""
    rng = b.rng
    kind = steps[rng.integers(len(steps))]
    out = int(rng.integers(3, 9))
    if kind == "gemm":
        across = int(rng.integers(2))
        w = b.weight(*((out, width) if across else (width, out)), scale=0.4)
        bias = [b.weight(out, stem="b")] if rng.random() < 0.8 else []
        return b.node("Gemm", [x, w, *bias], **({"transB": 1} if across else {})), out
    if kind == "gemm_factors":
        factors = {"alpha": float(rng.choice([1, 0.5])), "beta": float(rng.choice([0.5, 2]))}
        return b.node("Gemm", [x, b.weight(width, out, scale=0.4), b.weight(out, stem="b")], **factors), out
    if kind == "table":
        index = b.constant(rng.integers(0, 9, 2), "index")
        return b.node("Add", [x, b.node("Gather", [b.weight(9, width), index])]), width
    if kind == "table_and_gemm":  # one table in Gather and in Gemm
        table = b.weight(5, width, scale=0.5)
        rows = b.node("Gather", [table, b.constant(rng.integers(0, 5, 2), "index")])
        return b.node("Gemm", [b.node("Add", [x, rows]), table], transB=1), 5
    if kind == "matmul":
        return b.node("MatMul", [x, b.weight(width, out, scale=0.4)]), out
    if kind == "softmax":
        return b.node("Softmax", [x], axis=1), width
    if kind == "square":
        both = b.axes("Unsqueeze", x, [2]), b.axes("Unsqueeze", x, [1])
        product = b.node("MatMul", list(both))
        return b.node("MatMul", [b.node("Flatten", [product]), b.weight(width * width, out, scale=0.2)]), out
    return b.node({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}[kind], [x]), width


ROW = "gemm matmul softmax square relu sigmoid tanh".split()

TANGLED_ROW = ROW + "gemm_factors table table_and_gemm".split()


def quantizable_graph(seed, image=IMAGE, row=ROW, opset=None, nameless=0.1, heads=True):
    rng = np.random.default_rng(seed)
    opset = opset or int(rng.choice([13, 17]))
    b = Builder(seed + 1, opset, nameless)
    size, x = 8, "x"
    for _ in range(int(rng.integers(2, 8))):
        x, size = image_step(b, x, size, image)
    outputs = []
    if heads and rng.random() < 0.3:
        outputs.append((x, TensorProto.FLOAT))
    if rng.random() < 0.5:
        x = b.node("Flatten", [b.node("GlobalAveragePool", [x])])
        width = CHANNELS
    else:
        x, width = b.node("Flatten", [x]), CHANNELS * size * size
        x = b.node("MatMul", [x, b.weight(width, CHANNELS, scale=0.1)])
        width = CHANNELS
    for _ in range(int(rng.integers(1, 5))):
        x, width = row_step(b, x, width, row)
    outputs.append((x, TensorProto.FLOAT))
    if heads and rng.random() < 0.2:
        outputs.append((b.node("ArgMax", [x], axis=1), TensorProto.INT64))
    made = {o for n in b.nodes for o in n.output}
    outputs = [(v, t) for i, (v, t) in enumerate(outputs) if v in made and v not in [o for o, _ in outputs[:i]]]
    graph = helper.make_graph(
        b.nodes,
        "quantizable",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, CHANNELS, 8, 8])],
        [helper.make_tensor_value_info(v, t, None) for v, t in outputs],
        b.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def feeds_of(model, seed):
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.input:
        dims = [d.dim_value or 2 for d in value.type.tensor_type.shape.dim]
        feeds[value.name] = rng.standard_normal(dims).astype(np.float32)
    return feeds


class Reader:
    """A CalibrationDataReader of feeds."""

    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def static(model, out, form, samples=3, **options):
    """quantize_static of the installed onnxruntime; gives the model that it wrote to `out`."""
    from onnxruntime.quantization import quantize_static

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        source = Path(folder, "model.onnx")
        onnx.save(model, source)
        try:
            reader = Reader([feeds_of(model, 1000 + i) for i in range(samples)])
            quantize_static(source, out, reader, quant_format=form, **options)
        finally:
            logging.disable(logging.NOTSET)
    return onnx.load(out)
