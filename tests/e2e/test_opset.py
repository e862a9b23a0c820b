"""The pass opset: every change of an operator between two opsets, and the numbers before and after in ONNX Runtime.

Of changes from before opset 7, for which ONNX Runtime has no kernels any more, onnx's own version converter is the judge.
"""

import warnings

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference
import onnx.version_converter
import onnxruntime
import pytest
from conftest import DATA, package_model
from installed import PACKAGE_MODELS
from onnx import TensorProto, helper, numpy_helper

FLOAT, HALF, DOUBLE, INT64, BOOL = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.BOOL,
)
NUMBERS = {FLOAT: np.float32, HALF: np.float16, DOUBLE: np.float64, INT64: np.int64, BOOL: np.bool_}
TARGETS = [13, 18, 21, 23]


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path, opset, nodes, inputs, outputs, initializers=(), ir_version=8, functions=()):
    """A model; initializers are arrays by name. Outputs without a shape are those whose rank is the node's to say."""
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in dict(initializers).items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), tensors)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("local", 1)] if functions else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, functions=list(functions))
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    data = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def feeds_of(model, seed=0):
    rng = np.random.default_rng(seed)
    feeds = {}
    inner = {i.name for i in model.graph.initializer}
    for i in model.graph.input:
        if i.name in inner:
            continue
        t = i.type.tensor_type
        dims = [d.dim_value or 3 for d in t.shape.dim]
        x = rng.standard_normal(dims) * 2
        feeds[i.name] = (x > 0) if t.elem_type == BOOL else (x * 3).astype(NUMBERS[t.elem_type])
    return feeds


def assert_same_bits(before, after):
    assert len(before) == len(after)
    for old, new in zip(before, after):
        assert old.dtype == new.dtype and old.shape == new.shape
        assert np.array_equal(old, new, equal_nan=old.dtype.kind == "f")


def check_equal(path, result, seeds=(0, 1)):
    before, after = onnx.load(path), onnx.load(result)
    onnx.checker.check_model(after, full_check=True)
    assert [o.name for o in before.graph.output] == [o.name for o in after.graph.output]
    assert [i.name for i in before.graph.input] == [i.name for i in after.graph.input]
    old, new = session(path), session(result)
    for seed in seeds:
        feeds = feeds_of(before, seed)
        assert_same_bits(old.run(None, feeds), new.run(None, feeds))


# ---- one change each --------------------------------------------------------------------------------


def node(op, *inputs, **attributes):
    """name → (opset, inputs by name, initializers, how many rewritten nodes, nodes)."""
    return helper.make_node(op, list(inputs), ["y"], name="n", **attributes)


X = {"x": [2, 3, 4, 5]}
F = np.float32
CASES = {
    "add-axis": (6, {"x": [2, 3, 4], "b": [3]}, {}, node("Add", "x", "b", broadcast=1, axis=1)),
    "prelu-channel": (6, X, {"s": F([0.1, 0.2, 0.3])}, node("PRelu", "x", "s")),
    "clip": (7, X, {}, node("Clip", "x", min=-0.5, max=1.25)),
    "clip-max": (10, X, {}, node("Clip", "x", max=0.75)),
    "dropout": (7, X, {}, node("Dropout", "x", ratio=0.25)),
    "dropout-10": (10, X, {}, node("Dropout", "x")),
    "dropout-10-ratio": (10, X, {}, node("Dropout", "x", ratio=0.75)),
    "pad": (7, X, {}, node("Pad", "x", pads=[0, 0, 1, 2, 0, 0, 0, 1])),
    "pad-value": (10, X, {}, node("Pad", "x", pads=[0, 1, 1, 2, 0, 0, 0, 1], value=-1.5)),
    "pad-reflect": (10, X, {}, node("Pad", "x", pads=[0, 0, 1, 2, 0, 0, 0, 1], mode="reflect")),
    "pad-cut": (10, X, {}, node("Pad", "x", pads=[0, 0, -1, 0, 0, 0, 0, -2])),
    "slice": (7, X, {}, node("Slice", "x", starts=[1, -3], ends=[100, -1], axes=[1, 3])),
    "slice-no-axes": (9, X, {}, node("Slice", "x", starts=[0, 1], ends=[1, 3])),
    "split": (7, X, {}, helper.make_node("Split", ["x"], ["y", "z"], name="n", axis=3, split=[2, 3])),
    "split-equal": (11, X, {}, helper.make_node("Split", ["x"], ["y", "z"], name="n", axis=2)),
    "split-13": (13, X, {}, helper.make_node("Split", ["x"], ["y", "z"], name="n", axis=2)),
    "squeeze": (11, {"x": [1, 3, 1, 2]}, {}, node("Squeeze", "x", axes=[0, 2])),
    "squeeze-all": (11, {"x": [1, 3, 1, 2]}, {}, node("Squeeze", "x")),
    "squeeze-negative": (11, {"x": [1, 3, 1, 2]}, {}, node("Squeeze", "x", axes=[-2])),
    "unsqueeze": (9, {"x": [2, 3]}, {}, node("Unsqueeze", "x", axes=[0, 3])),
    "softmax-last": (11, X, {}, node("Softmax", "x", axis=3)),
    "softmax-minus-one": (11, X, {}, node("Softmax", "x", axis=-1)),
    "softmax-1": (9, X, {}, node("Softmax", "x")),
    "softmax-0": (11, X, {}, node("Softmax", "x", axis=0)),
    "softmax-minus-two": (11, X, {}, node("Softmax", "x", axis=-2)),
    "log-softmax": (11, X, {}, node("LogSoftmax", "x", axis=2)),
    "hardmax": (11, X, {}, node("Hardmax", "x", axis=1)),
    "softmax-matrix": (9, {"x": [4, 5]}, {}, node("Softmax", "x")),
    "softmax-vector": (11, {"x": [7]}, {}, node("Softmax", "x", axis=0)),
    "softmax-unranked-names": (11, {"x": ["n", "c", "t"]}, {}, node("Softmax", "x")),
    "top-k": (9, {"x": [4, 9]}, {}, helper.make_node("TopK", ["x"], ["y", "z"], name="n", k=3)),
    "top-k-axis": (9, {"x": [9, 4]}, {}, helper.make_node("TopK", ["x"], ["y", "z"], name="n", k=4, axis=0)),
    "upsample-7": (7, X, {}, node("Upsample", "x", scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")),
    "upsample-7-linear": (7, X, {}, node("Upsample", "x", scales=[1.0, 1.0, 2.0, 3.0], mode="linear")),
    "upsample-9": (9, X, {"s": F([1, 1, 1.5, 2.5])}, node("Upsample", "x", "s")),
    "upsample-9-linear": (9, X, {"s": F([1, 1, 1.5, 2.5])}, node("Upsample", "x", "s", mode="linear")),
    "resize-10": (10, X, {"s": F([1, 1, 1.3, 2.6])}, node("Resize", "x", "s")),
    "resize-10-smaller": (10, {"x": [1, 2, 9, 11]}, {"s": F([1, 1, 0.6, 0.35])}, node("Resize", "x", "s")),
    "resize-10-linear": (10, X, {"s": F([1, 1, 0.6, 2.6])}, node("Resize", "x", "s", mode="linear")),
    "resize-11-sizes": (
        11,
        X,
        {"r": F([]), "s": F([]), "to": np.int64([2, 3, 9, 7])},
        node("Resize", "x", "r", "s", "to", mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    ),
    "resize-11-scales": (
        11,
        X,
        {"r": F([]), "s": F([1, 1, 2, 2])},
        node("Resize", "x", "r", "s", mode="cubic", coordinate_transformation_mode="align_corners"),
    ),
    "scatter": (9, {"x": [3, 4]}, {"i": np.int64([[1, 0, 2, 1]]), "u": F([[1, 2, 3, 4]])}, node("Scatter", "x", "i", "u")),
    "batch-norm-7": (
        7,
        X,
        {k: F([0.5, 1.5, 2]) for k in "sbmv"},
        node("BatchNormalization", "x", "s", "b", "m", "v", epsilon=1e-3, momentum=0.8),
    ),
    "batch-norm-spatial": (
        7,
        X,
        {k: F([0.5, 1.5, 2]) for k in "sbmv"},
        node("BatchNormalization", "x", "s", "b", "m", "v", spatial=1),
    ),
    "roi-align": (
        10,
        {"x": [1, 2, 8, 8]},
        {"r": F([[1, 1, 5, 6], [0, 2, 7, 7]]), "i": np.int64([0, 0])},
        node("RoiAlign", "x", "r", "i", output_height=3, output_width=2, sampling_ratio=2, spatial_scale=0.9),
    ),
    "grid-sample": (
        16,
        {"x": [1, 2, 4, 4], "g": [1, 3, 3, 2]},
        {},
        node("GridSample", "x", "g", mode="bilinear", align_corners=1),
    ),
    "grid-sample-cubic": (16, {"x": [1, 2, 4, 4], "g": [1, 3, 3, 2]}, {}, node("GridSample", "x", "g", mode="bicubic")),
    "dft": (17, {"x": [2, 8, 4, 1]}, {}, node("DFT", "x")),
    "dft-axis": (17, {"x": [2, 8, 4, 1]}, {}, node("DFT", "x", axis=2, onesided=1)),
    "group-norm": (
        18,
        {"x": [2, 6, 4]},
        {"s": F([0.5, 2]), "b": F([1, -1])},
        node("GroupNormalization", "x", "s", "b", num_groups=2),
    ),
}
for op in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split():
    CASES[f"reduce-{op}"] = (11, X, {}, node(f"Reduce{op}", "x", axes=[1, -1], keepdims=0))
    CASES[f"reduce-{op}-all"] = (13 if op != "Sum" else 11, X, {}, node(f"Reduce{op}", "x"))


def make_case(name, path):
    opset, inputs, initializers, made = CASES[name]
    outputs = [helper.make_empty_tensor_value_info(o) for o in made.output]
    dtypes = {"z": INT64} if made.op_type == "TopK" else {}
    for o in outputs:
        o.type.tensor_type.elem_type = dtypes.get(o.name, FLOAT)
    return save(path, opset, [made], [value(n, s) for n, s in inputs.items()], outputs, initializers)
