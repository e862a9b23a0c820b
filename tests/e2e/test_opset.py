"""The pass opset: every change of an operator between two opsets, and the numbers before and after in ONNX Runtime.

Of changes from before opset 7, for which ONNX Runtime has no kernels any more, onnx's own version converter is the judge.
"""

from pathlib import Path

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnx.shape_inference
import onnx.version_converter
import onnxruntime
import pytest
from conftest import DATA, copy_model, package_models
from installed import PACKAGE_MODELS
from onnx import TensorProto, helper, numpy_helper
from random_graphs import compare, random_graph, session
from shape_oracle import bindings_for, inputs_at

pytestmark = pytest.mark.in_memory

FLOAT, HALF, INT64, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL
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


def feeds_of(model, seed):
    rng = np.random.default_rng(seed)
    feeds = {}
    for i in model.graph.input:
        t = i.type.tensor_type
        x = np.asarray(rng.standard_normal([d.dim_value or 3 for d in t.shape.dim]) * 2)
        feeds[i.name] = x.astype(helper.tensor_dtype_to_np_dtype(t.elem_type))
    return feeds


def checked(path):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return model


def opset_of(model):
    [version] = [o.version for o in model.opset_import if o.domain == ""]
    return version


def assert_same(path, result, feeds, exactness="E"):
    """Equal bits in ONNX Runtime, under the same names."""
    before, after = onnx.load(path), checked(result)
    assert [o.name for o in before.graph.output] == [o.name for o in after.graph.output]
    assert [i.name for i in before.graph.input] == [i.name for i in after.graph.input]
    assert compare(path, result, exactness, feeds) == []


def raised(weir, source, result, version):
    """Names of rewritten nodes."""
    report = weir.report("run", source, result, "--force", "--pass", f"opset:version={version}")
    assert opset_of(onnx.load(result)) == version
    return [site["node_name"] for site in report["passes"][0]["nodes"] if site["status"] == "converted"]


# ---- one change each --------------------------------------------------------------------------------


def node(op, *inputs, **attributes):
    return helper.make_node(op, list(inputs), ["y"], name="n", **attributes)


X = {"x": [2, 3, 4, 5]}
F = np.float32
# (opset, inputs, initializers, the node)
CASES = {
    "clip": (7, X, {}, node("Clip", "x", min=-0.5, max=1.25)),
    "clip-max": (10, X, {}, node("Clip", "x", max=0.75)),
    "dropout": (7, X, {}, node("Dropout", "x", ratio=0.25)),
    "dropout-10": (10, X, {}, node("Dropout", "x")),
    "dropout-10-ratio": (10, X, {}, node("Dropout", "x", ratio=0.75)),
    "dropout-ratio-1": (7, X, {}, node("Dropout", "x", ratio=1.0)),
    "dropout-mask": (10, X, {}, helper.make_node("Dropout", ["x"], ["y", "z"], name="n", ratio=0.25)),
    "dropout-mask-alone": (10, X, {}, helper.make_node("Dropout", ["x"], ["y", "z"], name="n")),
    "compress-scalar": (9, {"x": []}, {"c": np.array([True])}, node("Compress", "x", "c")),
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
    "resize-10-mixed": (10, {"x": [1, 3, 9, 5]}, {"s": F([1, 2, 0.35, 1.7])}, node("Resize", "x", "s")),
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
    "mvn": (9, X, {}, node("MeanVarianceNormalization", "x")),
    "mvn-axes": (9, X, {}, node("MeanVarianceNormalization", "x", axes=[0, 2, 3])),
    "group-norm": (
        18,
        {"x": [2, 6, 4]},
        {"s": F([0.5, 2]), "b": F([1, -1])},
        node("GroupNormalization", "x", "s", "b", num_groups=2),
    ),
}
for op in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split():
    CASES[f"reduce-{op}"] = (11, X, {}, node(f"Reduce{op}", "x", axes=[1, -1], keepdims=0))
    CASES[f"reduce-{op}-scalar"] = (10, {"x": []}, {}, node(f"Reduce{op}", "x", axes=[1, -1], keepdims=1))
    CASES[f"reduce-{op}-all"] = (13 if op != "Sum" else 11, X, {}, node(f"Reduce{op}", "x"))
for op in ("ArgMax", "ArgMin"):
    CASES[f"{op}-scalar"] = (10, {"x": []}, {}, node(op, "x", axis=1))
    CASES[f"Reduce{op[3:]}-scalar-11"] = (11, {"x": []}, {}, node(f"Reduce{op[3:]}", "x", axes=[0]))
    CASES[f"{op}-scalar-8"] = (8, {"x": []}, {}, node(op, "x", keepdims=0))


# What ONNX Runtime, or onnx's checker, has no newer version for.
NEWEST = {"roi-align": 21}
# Nodes that no version from theirs to the newest changes.
SAME = {"dropout-10", "mvn-axes", "squeeze-all", "resize-11-scales", "batch-norm-7", *(name for name in CASES if name.endswith("-all"))}
SAME |= {"softmax-last", "softmax-minus-one", "softmax-matrix", "softmax-vector"}


def make_case(name, path):
    opset, inputs, initializers, made = CASES[name]
    outputs = [value(o, None) for o in made.output]
    if made.op_type == "Compress":
        outputs = [value("y", [None])]
    if made.op_type.startswith("Arg"):
        outputs = [value("y", None, INT64)]
    if made.op_type == "Dropout" and len(outputs) == 2:
        outputs[1] = value("z", None, TensorProto.BOOL)
    if made.op_type == "TopK":
        outputs[1] = value("z", None, INT64)
    if made.op_type == "GroupNormalization":
        outputs = [value("y", inputs["x"])]
    return save(path, opset, [made], [value(n, s) for n, s in inputs.items()], outputs, initializers)


@pytest.mark.parametrize("name", CASES)
def test_a_changed_node_keeps_its_numbers(weir, tmp_path, name):
    source, result = make_case(name, tmp_path / "in.onnx"), tmp_path / "out.onnx"
    model, changes = onnx.load(source), set()
    feeds = [feeds_of(model, seed) for seed in (0, 1)]
    for version in TARGETS:
        if CASES[name][0] < version <= NEWEST.get(name, 23):
            changes.update(raised(weir, source, result, version))
            assert_same(source, result, feeds)
    assert changes == (set() if name in SAME else {"n"})


def test_the_converter_of_onnx_agrees(weir, tmp_path):
    """Where it works: what it makes of the same model gives the same numbers."""
    agreed, result = 0, tmp_path / "out.onnx"
    for name in CASES:
        source = make_case(name, tmp_path / "in.onnx")
        model = onnx.load(source)
        try:
            theirs = onnx.version_converter.convert_version(model, 21)
            session(theirs).run(None, feeds_of(model, 2))
        except Exception:  # whatever it says of what it does not know
            continue
        raised(weir, source, result, 21)
        feeds = [feeds_of(model, 2)]
        wrong = compare(theirs, onnx.load(result), "T", feeds)
        if wrong and compare(source, theirs, "T", feeds):  # it is theirs that is wrong
            continue
        assert wrong == [], name
        agreed += 1
    assert agreed > 40


# ---- before opset 7: ONNX Runtime has no kernels, the numbers are told


def numbers_6():
    x, b = np.arange(24, dtype=F).reshape(2, 3, 4) - 11, F([0.5, 2, -3])
    column = b.reshape(3, 1)
    slope = np.where(x < 0, x * column, x)
    bn = {k: F([0.5, 1.5, 2]) for k in "sbmv"}
    normal = (x - bn["m"].reshape(3, 1)) / np.sqrt(bn["v"].reshape(3, 1) + F(1e-5)) * bn["s"].reshape(3, 1) + bn["b"].reshape(3, 1)
    test = dict(is_test=1)
    return {
        "add-axis": (6, x, {"b": b}, node("Add", "x", "b", broadcast=1, axis=1), x + column),
        "add-axis-negative": (6, x, {"b": b}, node("Add", "x", "b", broadcast=1, axis=-2), x + column),
        "mul-end": (6, x, {"b": F([1, 2, 3, 4])}, node("Mul", "x", "b", broadcast=1), x * F([1, 2, 3, 4])),
        "sub-first": (1, x, {"b": F([1, 5])}, node("Sub", "x", "b", broadcast=1, axis=0, consumed_inputs=[0, 0]), x - F([1, 5]).reshape(2, 1, 1)),
        "less": (6, x, {"b": b}, node("Less", "x", "b", broadcast=1, axis=1), x < column),
        "prelu": (6, x, {"b": b}, node("PRelu", "x", "b"), slope),
        "prelu-one": (6, x, {"b": F([0.25])}, node("PRelu", "x", "b"), np.where(x < 0, x / 4, x)),
        "relu": (1, x, {}, node("Relu", "x", consumed_inputs=[0]), np.maximum(x, 0)),
        "clip": (1, x, {}, node("Clip", "x", min=-2.0, max=3.0, consumed_inputs=[0]), np.clip(x, -2, 3)),
        "selu": (1, x, {}, node("Selu", "x"), F(1.0507) * np.where(x > 0, x, F(1.6732) * (np.exp(x) - 1))),
        "cast": (5, x, {}, node("Cast", "x", to="INT64"), x.astype(np.int64)),
        "concat": (3, x, {}, node("Concat", "x", "x"), np.concatenate([x, x], 1)),
        "reshape": (4, x, {}, node("Reshape", "x", shape=[0, -1]), x.reshape(2, 12)),
        "tile": (5, x, {"t": np.int64(3), "a": np.int64(1)}, node("Tile", "x", "t", "a"), np.tile(x, (1, 3, 1))),
        "pad": (1, x, {}, node("Pad", "x", paddings=[0, 0, 1, 0, 0, 2], value=7.0), np.pad(x, [(0, 0), (0, 0), (1, 2)], constant_values=7)),
        "dropout": (6, x, {}, node("Dropout", "x", **test), x),
        "bn": (6, x, bn, node("BatchNormalization", "x", *"sbmv", **test), normal),
        "gemm": (6, x[0], {"w": x[1].T.copy(), "b": b}, node("Gemm", "x", "w", "b", broadcast=1), x[0] @ x[1].T + b),
        "upsample": (
            1,
            x.reshape(1, 2, 3, 4),
            {},
            node("Upsample", "x", height_scale=2.0, width_scale=3.0),
            x.reshape(1, 2, 3, 4).repeat(2, 2).repeat(3, 3),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", numbers_6())
def test_a_node_of_an_older_opset(weir, tmp_path, name):
    opset, x, initializers, made, expected = numbers_6()[name]
    dtype = helper.np_dtype_to_tensor_dtype(expected.dtype)
    path, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    save(path, opset, [made], [value("x", x.shape)], [value("y", expected.shape, dtype)], initializers)
    for version in (8, 13, 21):
        assert raised(weir, path, result, version) == ["n"]
        checked(result)
        [y] = session(str(result)).run(None, {"x": x})
        assert y.dtype == expected.dtype and y.shape == expected.shape
        assert np.allclose(y, expected, rtol=1e-6, atol=1e-6), version


def test_models_that_onnx_tests_with(weir, tmp_path):
    """Exports of PyTorch at opset 6 that onnx brings, with the numbers that PyTorch computed."""
    data = Path(onnx.__file__).parent / "backend/test/data"
    ran = 0
    for folder in sorted([*data.glob("pytorch-operator/*"), *data.glob("pytorch-converted/*")]):
        result = tmp_path / "out.onnx"
        raised(weir, folder / "model.onnx", result, 21)
        model = checked(result)
        inner = {i.name for i in model.graph.initializer}

        def numbers(kind, values, folder=folder):
            paths = [folder / "test_data_set_0" / f"{kind}_{i}.pb" for i in range(len(values))]
            return {v.name: numpy_helper.to_array(onnx.load_tensor(p)) for v, p in zip(values, paths)}

        expected = numbers("output", model.graph.output)
        got = session(model).run(list(expected), numbers("input", [i for i in model.graph.input if i.name not in inner]))
        for want, y in zip(expected.values(), got):
            assert want.shape == y.shape and np.allclose(want, y, rtol=1e-3, atol=1e-5, equal_nan=True), folder.name
        ran += 1
    assert ran > 80


# ---- bodies, functions, names


def test_bodies_and_functions(weir, tmp_path):
    body = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[1], keepdims=1, name="mean"),
        helper.make_node("ReduceMin", ["m"], ["then"], axes=[1], name="least"),
    ]
    other = [helper.make_node("Unsqueeze", ["flat"], ["else"], axes=[1], name="un")]
    branches = {
        "then_branch": helper.make_graph(body, "t", [], [value("then", [2, 1, 4])]),
        "else_branch": helper.make_graph(other, "e", [], [value("else", [2, 1, 4])]),
    }
    inner = [
        helper.make_node("Squeeze", ["a"], ["s"], axes=[1], name="sq"),
        helper.make_node("Softmax", ["s"], ["r"], axis=0, name="soft"),
    ]
    function = helper.make_function("local", "f", ["a"], ["r"], inner, [helper.make_opsetid("", 11)])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["flat"], axes=[1], keepdims=0, name="sum"),
        helper.make_node("If", ["c"], ["b"], name="if", **branches),
        helper.make_node("f", ["b"], ["y"], domain="local", name="call"),
    ]
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    inputs = [value("x", [2, 3, 4]), value("c", [], BOOL)]
    save(source, 11, nodes, inputs, [value("y", [2, 4])], functions=[function])
    names = raised(weir, source, result, 21)
    assert sorted(names) == ["least", "mean", "soft", "sq", "sum", "un"]
    after = onnx.load(result)
    assert [o.version for o in after.functions[0].opset_import] == [21]
    assert list(after.functions[0].output) == ["r"]
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(F)
    assert_same(source, result, [{"x": x, "c": np.array(c)} for c in (True, False)])


def test_names_that_are_taken(weir, tmp_path):
    """New constants and values make way for what is there."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["n_axes"], axes=[0], name="n"),
        helper.make_node("Softmax", ["n_axes"], ["y"], axis=0, name="s"),
        helper.make_node("Neg", ["y"], ["s_flat"]),
        helper.make_node("Neg", ["s_flat"], ["z"]),
    ]
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    save(source, 11, nodes, [value("x", [2, 3])], [value(o, [1, 3]) for o in ("y", "s_flat", "z")])
    assert sorted(raised(weir, source, result, 18)) == ["n", "s"]
    assert_same(source, result, [feeds_of(onnx.load(source), 0)])


def test_half_floats(weir, tmp_path):
    nodes = [
        helper.make_node("Clip", ["x"], ["a"], min=-0.3, max=0.7),
        helper.make_node("Pad", ["a"], ["y"], pads=[0, 1, 0, 1], value=0.1),
    ]
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    save(source, 10, nodes, [value("x", [2, 3], HALF)], [value("y", [2, 5], HALF)])
    assert len(raised(weir, source, result, 21)) == 2
    kinds = {i.name: i.data_type for i in onnx.load(result).graph.initializer}
    assert sorted(kinds.values()) == sorted([HALF, HALF, HALF, INT64])
    [y] = session(str(result)).run(None, {"x": np.full((2, 3), 2, np.float16)})
    assert (y == np.float16([[0.1, 0.7, 0.7, 0.7, 0.1]] * 2)).all()


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs(weir, tmp_path, seed):
    case = random_graph(seed, opset=11 + seed % 12)
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(case.model, source)
    # ONNX Runtime has no kernels for what came with opset 22 of these.
    noisy = any(node.op_type.startswith("Random") for node in case.model.graph.node)
    raised(weir, source, result, 21 if noisy else 23)
    # Kernels of a newer version may round otherwise.
    assert compare(case.model, str(result), "T", case.feeds) == []


# ---- what is refused


REFUSED = {
    "mixed": (10, node("Resize", "x", "s"), {"s": F([1, 1, 1.1, 0.5])}, "in 11: it rounds up"),  # 4 stay 4, which would be copied
    "training": (6, node("Dropout", "x"), {}, "in 7: its attribute 'is_test' is 0"),
    "spatial": (8, node("BatchNormalization", "x", *"abcd", spatial=0), {k: np.ones((3, 4, 5), F) for k in "abcd"}, "in 9: "),
    "counted": (11, node("AveragePool", "x", kernel_shape=[2, 2], ceil_mode=1, count_include_pad=1), {}, "in 19: "),
    "transpose": (9, node("ConvTranspose", "x", "w", auto_pad="SAME_UPPER"), {"w": np.ones((3, 1, 3, 3), F)}, "in 11: auto_pad"),
    "erf": (9, node("Erf", "i"), {"i": np.int64([1, 2])}, "in 13: "),
    "unknown": (11, node("Foo", "x"), {}, "does not know the history"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_rewritten_is_refused(weir, tmp_path, name):
    opset, made, initializers, words = REFUSED[name]
    tensors = [numpy_helper.from_array(np.asarray(a), k) for k, a in initializers.items()]
    infos = [value("i", [2], INT64)] if name == "erf" else []
    graph = helper.make_graph([made], "g", [value("x", [2, 3, 4, 5])], [value("y", None)], tensors, value_info=infos)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), tmp_path / "in.onnx")
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "opset:version=21", code=1)
    assert "node 'n' (" in done.err and words in done.err and "hint: export the model with opset 21" in done.err
    assert not (tmp_path / "out.onnx").exists()


def test_attributes_that_callers_set_are_refused(weir, tmp_path):
    squeeze = helper.make_node("Squeeze", ["a"], ["r"], name="sq")
    squeeze.attribute.add(name="axes", type=onnx.AttributeProto.INTS, ref_attr_name="axes")
    function = helper.make_function("local", "f", ["a"], ["r"], [squeeze], [helper.make_opsetid("", 11)], ["axes"])
    nodes = [helper.make_node("f", ["x"], ["y"], domain="local", axes=[0])]
    save(tmp_path / "in.onnx", 11, nodes, [value("x", [1, 3])], [value("y", [3])], functions=[function])
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "opset:version=21", code=1)
    assert "its attribute 'axes' is set by the callers of a function" in done.err


def test_versions(weir, tmp_path):
    source = make_case("clip", tmp_path / "in.onnx")
    unknown = weir("run", source, tmp_path / "out.onnx", "--pass", "opset:version=999", code=2)
    assert "opset 999 is unknown" in unknown.err
    assert "needs the version" in weir("run", source, tmp_path / "out.onnx", "--pass", "opset", code=2).err
    lower = weir("run", source, tmp_path / "out.onnx", "--pass", "opset:version=5")
    assert "cannot lower it to 5" in lower.err
    assert opset_of(onnx.load(tmp_path / "out.onnx")) == 7


def test_a_raise_that_changes_no_node_says_so(weir, tmp_path):
    source = make_case("reduce-Max-all", tmp_path / "in.onnx")
    done = weir("run", source, tmp_path / "out.onnx", "--pass", "opset:version=21")
    assert "only types, opsets or other metadata changed" in done.out and "hint" not in done.err
    again = weir("run", tmp_path / "out.onnx", tmp_path / "again.onnx", "--pass", "opset:version=21")
    assert "nothing changed" in again.out


# ---- real models


OLD = [path for package in PACKAGE_MODELS for path in package_models(package)]
OLD += sorted((DATA / "exports").glob("*torchscript*.onnx")) + sorted(DATA.glob("parakeet-torchscript/*.onnx"))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_real_models(weir, tmp_path, path):
    source = copy_model(path, tmp_path / "in")
    model = onnx.load(source)
    raised(weir, source, tmp_path / "out.onnx", 21)
    feeds = [inputs_at(model, binding, seed) for seed, binding in enumerate(bindings_for(path, model))]
    # From opset 19 on ONNX Runtime averages in another order.
    averages = any(n.op_type == "AveragePool" for n in model.graph.node)
    assert compare(str(source), str(tmp_path / "out.onnx"), "M" if averages else "E", feeds) == []


# ---- the flags


def matmul(path, opset):
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[1], keepdims=1, name="mean"),
        helper.make_node("Sub", ["x", "m"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["y"], name="mm"),
    ]
    w = rng.standard_normal((64, 32)).astype(F)
    return save(path, opset, nodes, [value("x", [4, 64])], [value("y", [4, 32])], {"w": w})


def test_quantize_raises_when_asked(weir, tmp_path):
    source, result = matmul(tmp_path / "in.onnx", 11), tmp_path / "out.onnx"
    refused = weir("quantize", source, result, "--format", "qdq", code=1)
    assert "node 'mean' (ReduceMean) changed" in refused.err and "--opset auto" in refused.err
    for words, version in ((["--opset", "auto"], 21), (["--opset", "23"], 23), (["--opset", "auto", "--bits", "2"], 25)):
        report = weir.report("quantize", source, result, "--force", "--format", "qdq", *words)
        assert opset_of(onnx.load(result)) == version
        assert [p["name"] for p in report["passes"]] == ["opset", "quantize"]
        assert [s["node_name"] for s in report["passes"][0]["nodes"] if s["status"] == "converted"] == ["mean"]
        assert "DequantizeLinear" in {n.op_type for n in onnx.load(result).graph.node}
    weir("quantize", source, result, "--force", "--opset", "auto")  # MatMulNBits works with any
    assert opset_of(onnx.load(result)) == 11
    wrong = weir("quantize", source, result, "--force", "--opset", "new", code=2)
    assert "not 'new'" in wrong.err


def test_a_replay_is_the_same(weir, tmp_path):
    source, result = matmul(tmp_path / "in.onnx", 11), tmp_path / "out.onnx"
    weir("quantize", source, result, "--format", "qdq", "--opset", "auto", "--edit-log", tmp_path / "log")
    weir("replay", tmp_path / "log", source, tmp_path / "again.onnx")
    assert result.read_bytes() == (tmp_path / "again.onnx").read_bytes()


def test_optimize_raises_when_asked(weir, tmp_path):
    source, result = make_case("softmax-1", tmp_path / "in.onnx"), tmp_path / "out.onnx"
    weir("optimize", source, result)
    assert opset_of(onnx.load(result)) == 9
    weir("optimize", source, result, "--force", "--opset", "21")
    assert opset_of(onnx.load(result)) == 21
    assert_same(source, result, [feeds_of(onnx.load(source), 0)])


# ---- kernels of the runtime


def one_node(op, opset, dtype=FLOAT):
    """A node whose operator has a version 22, of which the runtime lacks some."""
    ins, attributes, tensors = ["x"], {}, {}
    if op in ("RandomNormal", "RandomUniform"):
        ins, attributes = [], {"shape": [2], "dtype": dtype}
    if op == "Multinomial":
        attributes = {"sample_size": 3}
    if op == "RoiAlign":
        ins, tensors = ["x", "rois", "at"], {"rois": np.array([[0, 0, 3, 3]], helper.tensor_dtype_to_np_dtype(dtype)), "at": np.array([0])}
    if op == "MaxRoiPool":
        ins, attributes, tensors = ["x", "rois"], {"pooled_shape": [2, 2]}, {"rois": np.array([[0, 0, 0, 3, 3]], helper.tensor_dtype_to_np_dtype(dtype))}
    if op == "LpPool":
        attributes = {"kernel_shape": [2, 2]}
    dims = [2, 4] if op == "Multinomial" else [1, 2, 8, 8]
    out = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node(op, ins, ["y"], "n", **attributes)], "g", [value("x", dims, dtype)], [out], [numpy_helper.from_array(a, n) for n, a in tensors.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


KERNELS = ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "GlobalLpPool", "RoiAlign", "MaxRoiPool", "LpPool", "Elu", "GlobalAveragePool", "Softplus", "ThresholdedRelu"]
FUNCTIONS = ["HardSwish", "Mish", "Celu"]  # of types in their bodies nothing is said


def minor(version):
    return int(version.split(".")[1])


def loads(path):
    try:
        session(path)
        return True
    except Exception:
        return False


@pytest.mark.parametrize("dtype", [FLOAT, HALF, TensorProto.DOUBLE], ids=["float", "float16", "double"])
def test_what_weir_says_of_kernels_is_what_the_runtime_does(weir, tmp_path, dtype):
    seen = set()
    for op in KERNELS + (FUNCTIONS if dtype == FLOAT else []):
        for opset in (17, 18, 20, 21, 22, 23, 24, 26, 27):
            if not onnx.defs.has(op, opset):
                continue
            path = tmp_path / "m.onnx"
            onnx.save(one_node(op, opset, dtype), path)
            runs = loads(path)
            seen.add(runs)
            said, needs = weir("inspect", path).out, weir("inspect", path, "--json").json()["needs"]
            newer = needs["onnxruntime"] and minor(needs["onnxruntime"]) > minor(onnxruntime.__version__)
            assert runs == (not newer and "does not run it on a CPU" not in said), (op, opset, said)
            assert runs or op in needs["why"][-1] or opset == 27 and needs["why"][-1] == "opset 27", (op, opset)
    assert seen == {True, False}


def test_a_raise_past_the_kernels_of_the_runtime_is_said(weir, tmp_path):
    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["a", "w"], ["b"], "mm"), helper.make_node("RandomNormalLike", ["b"], ["r"], "noise"), helper.make_node("Add", ["b", "r"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("a", [2, 64])], [value("y", [2, 32])], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    for words in (["optimize", "--opset", "22"], ["run", "--pass", "opset:version=23"], ["quantize", "--format", "qdq", "--bits", "2", "--opset", "auto"]):
        done = weir(words[0], source, out, *words[1:], "--force")
        assert not loads(out), words
        assert "warning: no ONNX Runtime" in done.err and "node 'noise' (RandomNormalLike)" in done.err, words
        assert "needs ONNX Runtime" not in done.out + done.err and "ONNX Runtime does not run it on a CPU (RandomNormalLike of opset" in done.out, words
    for words in (["optimize", "--opset", "21"], ["run", "--pass", "opset:version=21"], ["quantize", "--format", "qdq", "--opset", "auto"]):
        done = weir(words[0], source, out, *words[1:], "--force")
        assert loads(out) and "warning" not in done.err, words
    refused = weir("quantize", source, out, "--format", "qdq", "--opset", "22", "--target", "ort-1.31", "--force", code=2)
    assert "target ort-1.31 does not run RandomNormalLike of opset 22" in refused.err
    assert "opset 27" in weir("optimize", source, out, "--opset", "27", "--force").err


@pytest.mark.parametrize("dtype", [FLOAT, HALF, TensorProto.DOUBLE, TensorProto.INT32], ids=["float", "float16", "double", "int32"])
@pytest.mark.parametrize("op,opset", [("PRelu", 16), ("GlobalLpPool", 2), ("RoiAlign", 16)])
def test_a_raise_warns_if_and_only_if_the_result_does_not_load(weir, tmp_path, op, opset, dtype):
    """PRelu of a type without a kernel is taken apart up to opset 18, so that the raise to 19 is where it ends."""
    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    slope = numpy_helper.from_array(np.ones((2, 1, 1), helper.tensor_dtype_to_np_dtype(dtype)), "s")
    model = one_node(op, max(opset, 8), dtype)
    if op == "PRelu":
        model.graph.node[0].input.append("s")
        model.graph.initializer.append(slope)
    onnx.save(model, source)
    ran = loads(source)
    for version in (18, 19, 21, 22, 23):
        done = weir("run", source, out, "--pass", f"opset:version={version}", "--force")
        assert ("has a CPU kernel at opset" in done.err) == (ran and not loads(out)), (version, done.err)


def test_the_table_of_kernels_is_the_runtimes(tmp_path):
    """Of the newest: tests/support/ort_kernels.py makes the rows of all."""
    import re

    import ort_kernels
    import runtimes

    newest = list(runtimes.ONNXRUNTIME)[-1]
    version, rows = minor(newest), {}
    for line in (Path(__file__).parents[2] / "src/targets/target_kernels.def").read_text().splitlines():
        if match := re.match(r'(?:KERNEL|FUNCTION)\("(\w+)", (\d+), (\d+), ', line):
            rows.setdefault((match[1], int(match[2])), int(match[3]))
    [packages] = runtimes.python_of("onnxruntime", runtimes.ONNXRUNTIME[newest]).parent.parent.glob("lib/python3*/site-packages")
    kernels = ort_kernels.asked(packages, ort_kernels.KERNELS)
    of = {}
    for kernel in kernels:
        of.setdefault(kernel[0], []).append(kernel)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain or schema.deprecated:
            continue
        has = any(ort_kernels.takes(kernel, schema.since_version) for kernel in of.get(schema.name, ()))
        assert not has or rows[schema.name, schema.since_version] <= version, (schema.name, schema.since_version)
        assert has or schema.has_function or schema.has_context_dependent_function or (schema.name, schema.since_version) not in rows


def test_a_mask_that_nobody_reads_changes_nothing(weir, tmp_path):
    made = helper.make_node("Dropout", ["x"], ["y", "unread"], name="n")
    source = save(tmp_path / "in.onnx", 10, [made], [value("x", [2, 3])], [value("y", [2, 3])])
    assert raised(weir, source, tmp_path / "out.onnx", 21) == []


def undeclare(path):
    model = onnx.load(path)
    del model.graph.value_info[:]
    onnx.save(model, path)


def test_a_scalar_that_inference_finds(weir, tmp_path):
    """Nothing declares it, and nothing else in the model changes."""
    nodes = [helper.make_node("ReduceMax", ["x"], ["r"], keepdims=0), helper.make_node("ArgMax", ["r"], ["y"], name="n")]
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    save(source, 10, nodes, [value("x", [2, 3])], [value("y", None, INT64)])
    undeclare(source)
    assert raised(weir, source, result, 13) == ["n"]
    assert_same(source, result, [feeds_of(onnx.load(source), 0)])


def test_a_scalar_before_what_only_raises(weir, tmp_path):
    """A command that rewrites no nodes sees it too, and refuses, in place of a model that does not load; --opset auto rewrites it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("ReduceMean", ["h"], ["r"], keepdims=0),
             helper.make_node("ArgMax", ["r"], ["y"], name="n")]  # fmt: skip
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    w = np.random.default_rng(0).normal(0, 1, (64, 64)).astype(np.float32)
    save(source, 10, nodes, [value("x", [2, 64])], [value("y", None, INT64)], {"w": w})
    undeclare(source)
    refused = weir("quantize", source, result, "--format", "qdq", code=1)
    assert "its input is a scalar, which has no axis" in refused.err
    weir("quantize", source, result, "--format", "qdq", "--opset", "auto")
    session(result)


def test_ranks_before_a_body_that_cannot_run(weir, tmp_path):
    """They decide what a node becomes; no runtime knows more by it."""
    model = onnx.parser.parse_model("""<ir_version: 7, opset_import: ["": 12]>
        g (float[N,3] x, bool c) => (float[p,q] y) <int64[1] minus = {-1}, int64[1] one = {1}> {
            s = Shape(x) n = Gather(s, one) m = Max(n, one) to = Concat<axis = 0>(minus, m) r = Reshape(x, to) h = Softmax<axis = 1>(r)
            y = If(c) <then_branch = a () => (float[m,n2] d) { k = Constant<value = int64[2] {5, 4}>() w = ConstantOfShape(k) d = MatMul(h, w) },
                       else_branch = b () => (float[o,r2] f) { f = Relu(h) }> }""")
    onnx.save(model, tmp_path / "m.onnx")
    weir("run", tmp_path / "m.onnx", tmp_path / "o.onnx", "--pass", "opset:version=17")
    raised = onnx.load(tmp_path / "o.onnx")
    assert [n.op_type for n in raised.graph.node] == [n.op_type for n in model.graph.node]
    session(tmp_path / "o.onnx")
