"""lower-conv, lower-pooling, inline-batchnorm, inline-gemm and layouts: what is written in another way computes what it computed.

Windows of all kinds (kernel, strides, dilations, pads, groups, ceil_mode, one to three spatial dims) lie side by side in one model, so that
a run of weir and two of ONNX Runtime look at dozens.
"""

import json
import random
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import wire
from conftest import ALL
from test_memory import BUDGET, MIB, measure
from test_verify import CNN

pytestmark = pytest.mark.in_memory
LOWER = ["--pass", "lower-conv", "--pass", "lower-pooling"]
EXPORTS = [CNN.with_name(f"cnn-{name}.onnx") for name in ("folded-dynamo-20", "folded-torchscript-14", "kept-dynamo-18", "kept-torchscript-17")]
VIT = CNN.with_name("vit-eager-dynamo-20.onnx")


def value(name, dims=None, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def model_of(nodes, inputs, outputs, constants=None, opset=20):
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {k: v for k, v in feeds.items() if k in {i.name for i in session.get_inputs()}})


def sites(report):
    """Of every node that was looked at, what the last pass says of it."""
    found = [site for step in json.loads(report.read_text())["passes"] for site in step["nodes"]]
    return {site["node_name"]: (site["status"], site["reason"]) for site in found}


def lowered(weir, folder, model, *words):
    """What the passes make of it, and why nodes stayed, by their names."""
    source, out, report = folder / "in.onnx", folder / "out.onnx", folder / "report.json"
    onnx.save(model, source)
    weir("run", source, out, "-f", "--inline", *(words or LOWER), "--report-json", report)
    made = onnx.load(out)
    onnx.checker.check_model(made, full_check=True)
    return made, {name: reason for name, (status, reason) in sites(report).items() if status == "skipped"}


# ---- windows -----------------------------------------------------------------------------------


def padding(rng, op, dims, kernel, strides, dilations, attributes):
    """auto_pad or pads, of which runtimes agree what they mean."""
    auto = rng.choice([None, None, None, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        plain = all(d == 1 for d in dilations)
        fits = all((-(-i // s) - 1) * s + r >= i for i, s, r in zip(dims, strides, reach))
        auto = auto if plain and (fits or op == "Conv") else "VALID"
    if auto:
        attributes["auto_pad"] = auto
    elif rng.random() < 0.7:
        most = [2] * len(dims) if op == "Conv" else [min(2, k - 1) for k in kernel]
        attributes["pads"] = [rng.randint(0, m) for m in most * 2]
    return "SAME" in (auto or ""), attributes.get("pads", [0] * 2 * len(dims)), reach


def window(rng, name, opset):
    """A node over an input of its own, with constants; None for one that is larger than its input."""
    op, rank = rng.choice(["Conv", "MaxPool", "AveragePool"]), rng.choice([1, 2, 2, 3])
    dims, kernel = [rng.randint(2, 9) for _ in range(rank)], [rng.randint(1, 4) for _ in range(rank)]
    strides, dilations, attributes, constants = [1] * rank, [1] * rank, {}, {}
    if rng.random() < 0.6:
        strides = attributes["strides"] = [rng.randint(1, 3) for _ in range(rank)]
    if rng.random() < 0.4 and (op != "AveragePool" or opset >= 19):
        dilations = attributes["dilations"] = [rng.randint(1, 3) for _ in range(rank)]
    same, pads, reach = padding(rng, op, dims, kernel, strides, dilations, attributes)
    if not same and any(i + a + b < r for i, a, b, r in zip(dims, pads, pads[rank:], reach)):
        return None
    # A window of which a place sees nothing but pads stays.
    if op != "Conv" and any(d > 1 and a + b > 0 for d, a, b in zip(dilations, pads, pads[rank:])):
        return None
    channels = rng.choice([1, 2, 3])
    if op == "Conv":
        groups, out = rng.choice([1, 1, 2, 4]), rng.choice([1, 2])
        constants[f"{name}_w"] = np.random.default_rng(rng.randrange(99)).standard_normal([groups * out, channels, *kernel])
        channels *= groups
        if groups > 1:
            attributes["group"] = groups
        if rng.random() < 0.5:
            attributes["kernel_shape"] = kernel
        if rng.random() < 0.5:
            constants[f"{name}_b"] = np.arange(groups * out)
    else:
        attributes["kernel_shape"] = kernel
        if not same and rng.random() < 0.4:
            attributes["ceil_mode"] = 1
        if op == "AveragePool" and rng.random() < 0.5:
            attributes["count_include_pad"] = 1
    node = helper.make_node(op, [f"{name}_x", *constants], [f"{name}_y"], name=name, **attributes)
    return node, [rng.choice([1, 2]), channels, *dims], {k: v.astype(np.float32) for k, v in constants.items()}


def windows(seed, n=60):
    rng = random.Random(seed)
    opset, kind = rng.choice([13, 17, 18, 19, 20, 21, 22]), TensorProto.FLOAT
    nodes, constants, feeds, inputs = [], {}, {}, []
    while len(nodes) < n:
        made = window(rng, f"n{len(nodes)}", opset)
        if made is None:
            continue
        node, dims, own = made
        nodes.append(node)
        constants.update(own)
        feeds[node.input[0]] = np.random.default_rng(len(nodes)).standard_normal(dims).astype(np.float32)
        batch = rng.choice([dims[0], f"N{len(nodes)}"])
        inputs.append(value(node.input[0], [batch, *dims[1:]], kind))
    outputs = [value(node.output[0], [None] * feeds[node.input[0]].ndim, kind) for node in nodes]
    return model_of(nodes, inputs, outputs, constants, opset), feeds


def differing(model, made, feeds):
    names = [output.name for output in model.graph.output]
    pairs = zip(names, run(model, feeds), run(made, feeds))
    return [n for n, a, b in pairs if a.shape != b.shape or not np.allclose(a, b, rtol=1e-4, atol=1e-5)]


@pytest.mark.parametrize("seed", range(40 if ALL else 6))
def test_windows(weir, tmp_path, seed):
    model, feeds = windows(seed)
    made, kept = lowered(weir, tmp_path, model)
    left = {node.name for node in made.graph.node if node.op_type in ("Conv", "MaxPool", "AveragePool")}
    assert left == set(kept) and set(kept.values()) <= {"shape_unknown", "window_of_pads"} and len(kept) <= 3, kept
    assert differing(model, made, feeds) == []


def test_the_comparison_of_windows_can_fail(weir, tmp_path):
    """An index that is off by one place, and a count that is."""
    model, feeds = windows(1)
    made, _ = lowered(weir, tmp_path, model)
    by_name = {tensor.name: tensor for tensor in made.graph.initializer}
    wrong = set()
    for node in made.graph.node:
        slot = {"Im2Col": 1, "Div": 1}.get(node.op_type)
        tensor = by_name.get(node.input[slot]) if slot else None
        if tensor is None or tensor.dims[-1] < 2 and node.op_type == "Im2Col":
            continue
        elements = numpy_helper.to_array(tensor).copy()
        elements = elements[..., ::-1] if node.op_type == "Im2Col" and wrong else elements + (node.op_type == "Div")
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(elements), tensor.name))
        wrong.add(node.op_type)
    assert wrong == {"Im2Col", "Div"} and len(differing(model, made, feeds)) > 3


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16], ids=lambda t: t.__name__)
def test_the_largest_of_other_types(weir, tmp_path, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 2], ceil_mode=1)
    model = model_of([node], [value("x", ["N", 2, 6, 5], kind)], [value("y", [None] * 4, kind)])
    x = np.random.default_rng(4).integers(0, 255, (2, 2, 6, 5)).astype(dtype)
    made, kept = lowered(weir, tmp_path, model)
    assert kept == {}
    np.testing.assert_array_equal(run(model, {"x": x})[0], run(made, {"x": x})[0])


def test_what_cannot_be_said_stays(weir, tmp_path):
    """Attributes that contradict what they are about, that are out of all range, or that no runtime takes: each node stays, with a reason."""
    x, w = [value("x", [1, 4, 8, 8])], np.ones((2, 4, 3, 3), np.float32)
    odd = {
        "groups": ("Conv", {"group": 0}, "attribute"),
        "negative": ("Conv", {"group": -4}, "attribute"),
        "three": ("Conv", {"group": 3}, "attribute"),
        "kernel": ("Conv", {"kernel_shape": [3, 2]}, "attribute"),
        "strides": ("Conv", {"strides": [0, 1]}, "shape_unknown"),
        "dilation": ("Conv", {"dilations": [1, 2**62]}, "shape_unknown"),
        "few": ("Conv", {"pads": [1, 1]}, "shape_unknown"),
        "auto": ("Conv", {"auto_pad": "SOME"}, "shape_unknown"),
        "less": ("Conv", {"pads": [-1, 0, 0, 0]}, "attribute"),
        "much": ("Conv", {"pads": [2**40, 0, 0, 0]}, "shape_unknown"),
        "count": ("AveragePool", {"kernel_shape": [2, 2], "count_include_pad": 2}, "attribute"),
        "zero": ("MaxPool", {"kernel_shape": [0, 2]}, "shape_unknown"),
        "no-kernel": ("MaxPool", {}, "shape_unknown"),
        "far": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2**62, 1]}, "attribute"),
    }
    nodes = [
        helper.make_node(op, ["x", "w"] if op == "Conv" else ["x"], [f"y{name}"], name=name, **attributes)
        for name, (op, attributes, _) in odd.items()
    ]
    model = model_of(nodes, x, [value(node.output[0]) for node in nodes], {"w": w})
    onnx.save(model, tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--inline", *LOWER, "--report-json", tmp_path / "r.json")
    found = sites(tmp_path / "r.json")
    for name, (_, _, reason) in odd.items():
        assert found[name][0] == "skipped" and found[name][1] in (reason, "shape_unknown", "attribute"), (name, found[name])
    assert onnx.load(tmp_path / "out.onnx").graph.node == model.graph.node


def test_weights_that_callers_override_are_laid_by_nodes(weir, tmp_path):
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], group=2)]
    dims = {"x": [1, 4, 6], "w": [4, 2, 3]}
    model = model_of(nodes, [value(n, d) for n, d in dims.items()], [value("y", [None] * 3)], {"w": np.ones(dims["w"], np.float32)})
    made, kept = lowered(weir, tmp_path, model)
    feeds = {n: np.random.default_rng(3).standard_normal(d).astype(np.float32) for n, d in dims.items()}
    assert kept == {} and [i.name for i in made.graph.input] == ["x", "w"]
    assert differing(model, made, feeds) == []


# ---- real models -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*EXPORTS, VIT], ids=lambda path: path.stem)
def test_exports(weir, tmp_path, path):
    """Every convolution and pooling of what PyTorch exports, with BatchNormalization and Gemm, each site verified."""
    size = path is not VIT
    words = ["--pass", r"infer:set-dim=height\=32+width\=32"] if size else []
    for name in ("inline-batchnorm", "lower-conv", "lower-pooling", "inline-gemm"):
        words += ["--pass", name]
    log, out = tmp_path / "log.jsonl", tmp_path / "out.onnx"
    weir("run", path, out, *words, "--verify=all", "--verify-require", "100%", "--edit-log", log)
    made = onnx.load(out)
    gone = {"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization", "Gemm"}
    assert not gone & {node.op_type for node in made.graph.node}
    assert {f.name for f in made.functions if f.domain == "onnx_passes.ops"} == {"Im2Col"}
    weir("replay", log, path, tmp_path / "again.onnx")
    assert out.read_bytes() == (tmp_path / "again.onnx").read_bytes()


# ---- layouts -----------------------------------------------------------------------------------


def test_layouts_of_a_network(weir, tmp_path):
    """Its Transposes move to the ends and into the converters; names of inputs and outputs stay, numbers too."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=[0, 3, 1, 2]),
    ]
    model = model_of(nodes, [value("x", ["N", 3, 4, 5])], [value("y", ["N", 3, 4, 5])])
    layouts = ["--pass", "convert-layouts:inputs=NCHW/0231,outputs=NHWC/0312"]
    made, _ = lowered(weir, tmp_path, model, *layouts)
    assert [node.op_type for node in made.graph.node] == ["LayoutConverter", "Transpose", "Transpose", "Relu", "Transpose", "LayoutConverter", "Transpose"]
    after, _ = lowered(weir, tmp_path, model, *layouts, "--pass", "reorder", "--pass", "absorb-layouts", "--pass", "reorder", "--pass", "absorb-layouts")
    for each in (made, after):
        assert [i.name for i in each.graph.input] == ["x"] and [o.name for o in each.graph.output] == ["y"]
        assert differing(model, each, {"x": np.random.default_rng(5).standard_normal((2, 3, 4, 5)).astype(np.float32)}) == []
    assert sum(node.op_type == "LayoutConverter" for node in after.graph.node) == 2
    assert len(after.graph.node) < len(made.graph.node)


def test_layouts_of_a_configuration(weir, tmp_path):
    """onnx-passes says them in its own form, axes of several letters among them."""
    x = [value("u", [2]), value("x", [1, 3, 4, 5])]
    model = model_of([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["u"], ["v"])], x, [value("y", [1, 3, 4, 5]), value("v", [2])])
    onnx.save(model, tmp_path / "in.onnx")
    (tmp_path / "c.yaml").write_text(
        """
passes: [convert-layouts]
layouts:
  inp: [null, {assumes: [N, C, H, W], perm: [0, 2, 3, 1]}]
  out: [{perm: [0, 3, 1, 2], assumes: [batch, y, x, channels]}]
"""
    )
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--inline", "--config", tmp_path / "c.yaml")
    made = [node for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "LayoutConverter"]
    found = {node.input[0]: {a.name: helper.get_attribute_value(a) for a in node.attribute} for node in made}
    assert found["x"] == {"assumes": [b"N", b"C", b"H", b"W"], "perm": [0, 2, 3, 1]} and len(found) == 2
    assert {"assumes": [b"batch", b"y", b"x", b"channels"], "perm": [0, 3, 1, 2]} in found.values()


@pytest.mark.parametrize(
    "words, said",
    [
        ("inputs=NCHW", "'NCHW' is not of the form AXES/PERM"),
        ("inputs=NCHW/012", "'NCHW/012' is not of the form AXES/PERM"),
        ("inputs=NCHW/0122", "'NCHW/0122' is not of the form AXES/PERM"),
        ("inputs=NCHW/0124", "'NCHW/0124' is not of the form AXES/PERM"),
        ("inputs=N.C./0.1", "'N.C./0.1' is not of the form AXES/PERM"),
        ("outputs=/", "'/' is not of the form AXES/PERM"),
        ("inputs=NC/10", "the layout of input 'x' has 2 axes, but it has 4 dims"),
        ("inputs=NCHW/0231+NCHW/0231", "2 layouts of inputs are given, but the model has 1"),
        ("outputs=-+NCHW/0231", "the output 'x' cannot have a layout: it is an input or an initializer"),
    ],
)
def test_layouts_that_are_none(weir, tmp_path, words, said):
    x = value("x", [1, 3, 4, 5])
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [x], [value("y", [1, 3, 4, 5]), x])
    onnx.save(model, tmp_path / "in.onnx")
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", f"convert-layouts:{words}", code=2)
    assert said in done.said and not (tmp_path / "out.onnx").exists()


# ---- size --------------------------------------------------------------------------------------


def large_conv(folder, out, channels, size):
    """A 3 × 3 convolution whose weight is a hole."""
    nbytes = 4 * out * channels * 9
    weight = wire.tensor("w", wire.FLOAT, (out, channels, 3, 3), pairs=wire.external("w.bin", 0, nbytes))
    graph = wire.graph(
        [wire.node("Conv", ["x", "w"], ["y"])],
        [weight],
        [("x", wire.FLOAT, [1, channels, size, size])],
        [("y", wire.FLOAT, [1, out, size - 2, size - 2])],
    )
    (folder / "large.onnx").write_bytes(wire.model(graph, 18))
    with open(folder / "w.bin", "wb") as file:
        file.truncate(nbytes)
    return folder / "large.onnx", nbytes


@pytest.mark.parametrize("out, channels, size", [(2048, 2048, 4), (4, 64, 130)], ids=["weight", "index"])
def test_neither_weights_nor_indices_are_held(tmp_path, out, channels, size):
    """144 MiB of weights that are laid anew, and 72 MiB of an index."""
    source, nbytes = large_conv(tmp_path, out, channels, size)
    found = measure("run", source, "-o", tmp_path / "nowhere.onnx", "--io", "null", "--pass", "lower-conv")
    assert found.code == 0 and found.report["passes"][0]["converted"] == 1, found.said
    index = 8 * (size - 2) ** 2 * 9 * channels
    assert max(nbytes, index) > 70 * MIB and found.report["weir"]["bytes_written"] > nbytes + index
    assert found.peak <= BUDGET + found.index, found.peak
    assert found.report["weir"]["source_bytes_read"] <= 2.1 * nbytes + MIB
    shutil.rmtree(tmp_path)
