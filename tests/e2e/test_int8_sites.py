"""Single operators in int8: what static, dynamic and requantize write means what was there, loads, and stays near the float model.

Each test is about a question that is asked of every operator that these commands write or put in a frame of Q and DQ: what an attribute
that is not written means there, what ONNX Runtime makes of it when it loads, which numbers lie outside of ranges.
"""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import exact_products
from conftest import ALL, sampled
from int8_sites import Site, decibels, node, operators, run

pytestmark = pytest.mark.in_memory

IMAGE = (1, 4, 6, 6)
QOPERATOR = ("--format", "qoperator")
FORMS = {"qdq": (), "qoperator": QOPERATOR}


def normal(*dims, by=1.0):
    return (np.random.default_rng([7, *dims]).normal(0, 1, dims) * by).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def conv(x, w, y, *more, **attributes):
    return node("Conv", [x, w, *more], [y], kernel_shape=[1, 1], **attributes)


def pointwise():
    return normal(4, 4, 1, 1, by=0.5)


def attributes_of(path, op):
    found = [n for n in onnx.load(path).graph.node if n.op_type == op]
    return [{a.name: helper.get_attribute_value(a) for a in n.attribute} for n in found]


# ---- attributes --------------------------------------------------------------------------------------


def softmax(opset, **attributes):
    return Site([conv("x", "w", "h"), node("Softmax", ["h"], ["y"], **attributes)], {"x": IMAGE}, {"w": pointwise()}, opset)


@pytest.mark.parametrize("opset, axis", [(11, 1), (12, 1), (13, -1), (17, -1)])
def test_a_softmax_that_names_no_axis(weir, tmp_path, opset, axis):
    """Its axis is 1 before opset 13, and that of QLinearSoftmax is -1 always."""
    site = softmax(opset)
    path = site.quantized(weir, tmp_path, "static", *QOPERATOR, "--op-types", "all")
    assert attributes_of(path, "QLinearSoftmax")[0].get("axis", -1) == axis
    assert min(site.levels(path).values()) > 12


def test_a_softmax_in_qdq_form_names_no_axis(weir, tmp_path):
    site = softmax(12)
    qdq = site.quantized(weir, tmp_path, "static", "--op-types", "all", "--per-tensor")
    weir("requantize", qdq, tmp_path / "codes.onnx", "--to", "qoperator")
    assert attributes_of(tmp_path / "codes.onnx", "QLinearSoftmax") == [{"axis": 1, "opset": 12}]
    assert min(site.levels(tmp_path / "codes.onnx").values()) > 12


def test_a_softmax_on_codes_that_names_no_axis(weir, tmp_path):
    """QLinearSoftmax without one is over the last, Softmax before opset 13 over the second and what follows."""
    site = softmax(12, axis=3)
    model = onnx.load(site.quantized(weir, tmp_path, "static", *QOPERATOR, "--op-types", "all", "--per-tensor"))
    for n in model.graph.node:
        if n.op_type == "QLinearSoftmax":
            del n.attribute[[a.name for a in n.attribute].index("axis")]
    onnx.save(model, tmp_path / "implied.onnx")
    assert min(site.levels(tmp_path / "implied.onnx").values()) > 12
    weir("requantize", tmp_path / "implied.onnx", tmp_path / "qdq.onnx", "--to", "qdq")
    assert "Softmax" in operators(tmp_path / "qdq.onnx")
    assert min(site.levels(tmp_path / "qdq.onnx").values()) > 12


PASSING = {
    "Identity": lambda a, b: node("Identity", [a], [b]),
    "Dropout": lambda a, b: node("Dropout", [a], [b]),
    "Cast": lambda a, b: node("Cast", [a], [b], to=1),
    "Add": lambda a, b: node("Add", [a, "nought"], [b]),
    "Add, left": lambda a, b: node("Add", ["nought", a], [b]),
    "Sub": lambda a, b: node("Sub", [a, "nought"], [b]),
    "Mul": lambda a, b: node("Mul", [a, "one"], [b]),
    "Mul, left": lambda a, b: node("Mul", ["one", a], [b]),
    "Div": lambda a, b: node("Div", [a, "one"], [b]),
}  # fmt: skip
NUMBERS = {"one": np.float32(1), "nought": np.float32(0), "less": np.float32(0.3)}
CLIPPING = {
    "Relu": lambda a, b: node("Relu", [a], [b]),
    "Clip": lambda a, b: node("Clip", [a, "nought"], [b]),
    "Clip to 1": lambda a, b: node("Clip", [a, "nought", "one"], [b]),
    "Clip to less": lambda a, b: node("Clip", [a, "nought", "less"], [b]),
}  # fmt: skip


@pytest.mark.parametrize("kind", [*PASSING, *CLIPPING])
def test_what_passes_on_a_softmax(weir, tmp_path, kind):
    """ONNX Runtime takes such a node away, and makes QLinearSoftmax with the scale after it."""
    between = {**PASSING, **CLIPPING}[kind]("p", "q")
    nodes = [node("MatMul", ["x", "w"], ["l"]), node("Softmax", ["l"], ["p"], axis=-1), between, node("MatMul", ["q", "v"], ["y"])]
    site = Site(nodes, {"x": (2, 3, 8)}, {"w": normal(8, 4, by=0.02), "v": normal(4, 5), **NUMBERS})
    for words in ((), ("--op-types", "MatMul"), ("--op-types", "all"), ("--op-types", "all", *QOPERATOR)):
        path = site.quantized(weir, tmp_path, "static", *words)
        assert min(site.levels(path).values()) > 30, words


def test_an_attribute_that_says_nothing_goes(weir, tmp_path):
    """QLinearAveragePool has no dilations; those of 1 need none."""
    pool = node("AveragePool", ["h"], ["y"], kernel_shape=[2, 2], dilations=[1, 1])
    site = Site([conv("x", "w", "h"), pool], {"x": IMAGE}, {"w": pointwise()}, 19)
    path = site.quantized(weir, tmp_path, "static", *QOPERATOR, "--op-types", "all")
    assert "dilations" not in attributes_of(path, "QLinearAveragePool")[0]
    assert min(site.levels(path).values()) > 25


def unnamed(n):
    n.attribute.append(helper.make_attribute("", 1))


def twice(n):
    n.attribute.append(n.attribute[0])


def body(*nodes):
    return helper.make_function("own", "F", ["a", "b"], ["c"], list(nodes), [helper.make_opsetid("", 17)])


def odd_models(change):
    """Models of one node each whose attributes cannot be copied as they are; ONNX Runtime takes none of them."""
    cases = {
        "Conv": (conv("x", "w", "y"), IMAGE, pointwise(), None),
        "MatMul": (node("MatMul", ["x", "w"], ["y"], unknown=1), (2, 4), normal(4, 3), None),
        "Gemm": (node("Gemm", ["x", "w"], ["y"], transB=0), (2, 4), normal(4, 3), None),
        "Concat": (node("Concat", ["x", "w"], ["y"], axis=0), (2, 4), normal(1, 4), None),
        "Transpose": (node("Transpose", ["x"], ["y"], perm=[1, 0]), (2, 4), normal(1), None),
        "call": (node("F", ["x", "w"], ["y"], domain="own"), (2, 4), normal(1, 4), node("Concat", ["a", "b"], ["c"], axis=0)),
    }
    for name, (n, dims, w, inner) in cases.items():
        inputs = [helper.make_tensor_value_info("x", 1, dims)]
        change(inner or n)
        graph = helper.make_graph([n], "g", inputs, [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(w, "w")])
        graph.output[0].type.tensor_type.elem_type = 1
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        yield name, helper.make_model(graph, opset_imports=imports, functions=[body(inner)] if inner else [], ir_version=8)


@pytest.mark.parametrize("change", [unnamed, twice], ids=["without a name", "twice"])
def test_attributes_that_no_copy_can_have(weir, tmp_path, change):
    (tmp_path / "r.json").write_text('{"x": [-3, 3], "y": [-9, 9]}')
    ranges = ["--ranges", tmp_path / "r.json"]
    ways = [["static", *ranges, "--op-types", "all"], ["static", *ranges, *QOPERATOR, "--op-types", "all"],
            ["static", *ranges, *QOPERATOR, "--compat", "onnxruntime"], ["dynamic", "--op-types", "MatMul,Gemm,Conv"],
            ["requantize", "--to", "qoperator"], ["optimize"], ["run", "--pass", "inline-functions"], ["run", "--pass", "streamline"]]  # fmt: skip
    for name, model in odd_models(change):
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        for command, *words in ways:
            done = weir(command, tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", *words, code=None)
            assert done.code in (0, 1, 65), (name, command, words, done)


# ---- biases ------------------------------------------------------------------------------------------

BIAS = np.array([6, -6, 3, 0.1], np.float32)
ONE = np.float32(1)


def biased(kind, by):
    """A bias whose codes beside a weight of that size would pass the ends of int32."""
    w, image = normal(4, 4, 1, 1, by=0.3 * by), {"x": IMAGE}
    computed = {"x": IMAGE, "v": (4, 4, 1, 1)}
    last = conv("x", "w", "y", "b")
    return {
        "cast": lambda: Site([node("Cast", ["h"], ["w"], to=1), last], image, {"h": w.astype(np.float16), "b": BIAS}),
        "input": lambda: Site([last], {"x": IMAGE, "w": w.shape}, {"b": BIAS}, feeds={"w": w}),
        "computed": lambda: Site([node("Tanh", ["v"], ["w"]), last], computed, {"b": BIAS}, feeds={"v": w}),
        "moved": lambda: Site([node("Mul", ["v", "one"], ["u"]), node("Transpose", ["u"], ["w"], perm=[1, 0, 2, 3]), last], computed,
                              {"b": BIAS, "one": ONE}, feeds={"v": w}),
        "reshaped": lambda: Site([node("Reshape", ["u", "dims"], ["w"]), last], image,
                                 {"u": w.reshape(4, 4), "dims": ints(4, 4, 1, 1), "b": BIAS}),
        "clipped": lambda: Site([node("Mul", ["v", "one"], ["u"]), node("Clip", ["u", "low", "high"], ["w"]), last], computed,
                                {"b": BIAS, "one": ONE, "low": np.float32(-0.1 * by), "high": np.float32(0.1 * by)}, feeds={"v": w}),
        "gemm": lambda: Site([node("Mul", ["v", "one"], ["w"]), node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5, beta=2.0)],
                             {"x": (3, 4), "v": (4, 4)}, {"b": BIAS, "one": ONE}, feeds={"v": w.reshape(4, 4)}),
        "negative": lambda: Site([node("Gemm", ["x", "w", "b"], ["y"], alpha=-0.5)], {"x": (3, 4)}, {"w": w.reshape(4, 4), "b": BIAS}),
        "negative, computed": lambda: Site([node("Mul", ["v", "one"], ["w"]), node("Gemm", ["x", "w", "b"], ["y"], alpha=-2.0)],
                                           {"x": (3, 4), "v": (4, 4)}, {"b": BIAS, "one": ONE}, feeds={"v": w.reshape(4, 4)}),
        "beta": lambda: Site([node("Gemm", ["x", "w", "b"], ["y"], alpha=3.0, beta=0.2)], {"x": (3, 4)}, {"w": w.reshape(4, 4), "b": BIAS}),
        "a bias with rows": lambda: Site([node("Gemm", ["x", "w", "b"], ["y"], alpha=2.0)], {"x": (3, 4)},
                                         {"w": w.reshape(4, 4), "b": np.outer([1, -0.5, 2], BIAS).astype(np.float32)}),
        "negative beta": lambda: Site([node("Gemm", ["x", "w", "b"], ["y"], beta=-1.0)], {"x": (3, 4)}, {"w": w.reshape(4, 4), "b": BIAS}),
        "negative beta, computed": lambda: Site([node("Mul", ["v", "one"], ["w"]), node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5, beta=-2.0)],
                                                {"x": (3, 4), "v": (4, 4)}, {"b": BIAS, "one": ONE}, feeds={"v": w.reshape(4, 4)}),
        "negative alpha and beta": lambda: Site([node("Gemm", ["x", "w", "b"], ["y"], alpha=-0.5, beta=-1.0)], {"x": (3, 4)},
                                                {"w": w.reshape(4, 4), "b": BIAS}),
        "two of signs": lambda: Site([node("Gemm", ["x", "w", "small"], ["g"]), node("Gemm", ["z", "w", "b"], ["y"], beta=-1.0)],
                                     {"x": (3, 4), "z": (3, 4)}, {"w": w.reshape(4, 4), "b": BIAS, "small": BIAS * np.float32(0.01)},
                                     outputs=("g", "y")),
        "transposed conv": lambda: Site([node("Mul", ["v", "one"], ["w"]), node("ConvTranspose", ["x", "w", "b"], ["y"])], computed,
                                        {"b": BIAS, "one": ONE}, feeds={"v": w}),
        "two of them": lambda: Site([node("Cast", ["h"], ["w"], to=1), conv("x", "w", "g", "small"), conv("z", "w", "y", "b")],
                                    {"x": IMAGE, "z": IMAGE}, {"h": w.astype(np.float16), "b": BIAS, "small": BIAS * np.float32(0.01)},
                                    outputs=("g", "y")),
        "two of a constant": lambda: Site([conv("x", "w", "g", "small"), conv("z", "w", "y", "b")], {"x": IMAGE, "z": IMAGE},
                                          {"w": w, "b": BIAS, "small": BIAS * np.float32(0.01)}, outputs=("g", "y")),
    }[kind]()  # fmt: skip


@pytest.mark.parametrize("kind", ["cast", "input", "computed", "moved", "reshaped", "clipped", "gemm", "negative", "negative, computed", "beta", "a bias with rows",
                                  "negative beta", "negative beta, computed", "negative alpha and beta", "two of signs", "transposed conv", "two of them", "two of a constant"])  # fmt: skip
def test_codes_of_a_bias_fit(weir, tmp_path, kind):
    """The scale of the weight's values grows, whatever makes them; all else that was made by it too."""
    ways = [(), ("--activation-type", "uint16"), ("--activation-type", "uint16", "--quantize-bias", "false"), QOPERATOR]
    ways += [("--op-types", "all"), (*QOPERATOR, "--op-types", "all")] if kind in ("moved", "reshaped", "clipped") or ALL else []
    for by in (1.0, 1e-5):
        site = biased(kind, by)
        for words in ways:
            assert min(site.levels(site.quantized(weir, tmp_path, "static", *words)).values()) > 25, (by, words)


@pytest.mark.parametrize("form, op", sampled(FORMS, ["Gemm", "Conv"], every=2))
def test_a_bias_leaves_room_for_sums(weir, tmp_path, op, form):
    """Its codes and the sum of products that they are added to share int32, whose sums wrap around."""
    x, w = np.abs(normal(3, 256)), np.abs(normal(256, 4))
    codes = 2.0**31 * x.max() / 255 * w.max(axis=0) / 127
    for part in (0.6, 0.999, 1.05, 3):
        by = 6 / (part * codes.max())
        constants = {"w": (w * by).astype(np.float32), "b": (part * codes * by).astype(np.float32)}
        if op == "Conv":
            constants["w"] = np.ascontiguousarray(constants["w"].T).reshape(4, 256, 1, 1)
        dims = (3, 256) if op == "Gemm" else (3, 256, 1, 1)
        site = Site([node(op, ["x", "w", "b"], ["y"])], {"x": dims}, constants, feeds={"x": x.reshape(dims)})
        for words in ((), ("--per-tensor",)):
            assert min(site.levels(site.quantized(weir, tmp_path, "static", *FORMS[form], *words)).values()) > 25, (part, words)


ADDED = [("--format", "int32-bias"), ("--format", "int32-bias", "--execution", "qlinear"), ("--format", "fp32-bias-qdq"), ("the sum alone",)]


@pytest.mark.parametrize("words", ADDED, ids=" ".join)
def test_a_bias_that_is_added_has_room(weir, tmp_path, words):
    """Recipes make codes of it, and ONNX Runtime where it fuses MatMul and Add."""
    x, w = np.abs(normal(3, 256)), np.abs(normal(256, 4))
    codes = 2.0**31 * x.max() / 255 * w.max(axis=0) / 127
    for part in (0.01, 0.999, 1.05, 100):
        by = 6 / (part * codes.max())
        constants = {"w": (w * by).astype(np.float32), "b": (part * codes * by).astype(np.float32)}
        site = Site([node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"])], {"x": (3, 256)}, constants, feeds={"x": x})
        source, ranges = site.write(tmp_path)
        alone = words == ADDED[-1]
        if alone:
            ranges.write_text(json.dumps({n: r for n, r in json.loads(ranges.read_text()).items() if n != "h"}))
        more = ("--op-types", "all") if alone else words
        weir("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, *more)
        assert min(site.levels(tmp_path / "out.onnx").values()) > 25, part


UNSORTED = {
    "moved": lambda: Site([node("MatMul", ["x", "w"], ["a"]), node("Identity", ["a"], ["i"]), node("Transpose", ["i"], ["t"], "moves", perm=[1, 0]),
                           node("MatMul", ["a", "w"], ["y"])], {"x": (4, 4)}, {"w": normal(4, 4)}, 21, outputs=("t", "y")),
    "moved twice": lambda: Site([node("MatMul", ["x", "w"], ["a"]), node("Identity", ["a"], ["h"]), node("Identity", ["h"], ["i"]),
                                 node("Transpose", ["i"], ["t"], "moves", perm=[1, 0]), node("MatMul", ["a", "w"], ["y"])],
                                {"x": (4, 4)}, {"w": normal(4, 4)}, 21, outputs=("t", "y")),
    "a bias": lambda: Site([node("Neg", ["b"], ["c"]), node("Abs", ["c"], ["d"]), node("Neg", ["d"], ["e"]), node("Gemm", ["x", "w", "e"], ["y"])],
                           {"x": (3, 4)}, {"w": normal(4, 4, by=1e-6), "b": BIAS}),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNSORTED)
def test_nodes_that_are_not_sorted(weir, tmp_path, kind):
    """ONNX Runtime takes them in any order: what comes of which value does not depend on it."""
    site = UNSORTED[kind]()
    source, ranges = site.write(tmp_path)
    nodes = list(site.model.graph.node)
    for seed in range(48 if ALL else 4):
        order = nodes[::-1] if seed == 0 else [nodes[i] for i in np.random.default_rng(seed).permutation(len(nodes))]
        model = onnx.load(source)
        del model.graph.node[:]
        model.graph.node.extend(order)
        onnx.save(model, tmp_path / "m.onnx")
        for words in ([], ["--exclude", "moves"], QOPERATOR, [*QOPERATOR, "--exclude", "moves"]):
            weir("static", tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", "--ranges", ranges, "--activation-type", "int8", *words)
            assert min(site.levels(tmp_path / "o.onnx").values()) > 25, ([n.name for n in order], words)


MOVED_RANGES = {
    "a Softmax that is moved": lambda: Site(
        [node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["s"], axis=-1), node("Transpose", ["s"], ["t"], perm=[1, 0]),
         node("Relu", ["t"], ["r"]), node("MatMul", ["r", "w2"], ["y"])], {"x": (4, 64)}, {"w": normal(64, 64), "w2": normal(4, 4)}),
    "what passes codes on": lambda: framed(node("Relu", ["h"], ["r"]), node("MaxPool", ["r"], ["m"], kernel_shape=[1, 1]),
                                           node("Reshape", ["m", "to"], ["s"]), node("Transpose", ["s"], ["p"], perm=[0, 1, 3, 2]),
                                           to=ints(1, 4, 6, 6)),
    "a chain of Clips": lambda: Site(
        [conv("x", "w", "h"), node("Relu", ["h"], ["a"]), node("Clip", ["a", "low", "high"], ["b"]), node("Relu", ["b"], ["p"]), conv("p", "w", "y")],
        {"x": IMAGE}, {"w": pointwise(), "low": np.float32(0), "high": np.float32(0.5)}),
}  # fmt: skip


@pytest.mark.parametrize("form, kind", sampled(FORMS, MOVED_RANGES, every=2))
def test_an_unsorted_graph_becomes_the_same(weir, tmp_path, form, kind):
    """Its nodes, and all of its tensors, in whatever order the file lists the nodes."""
    site, made = MOVED_RANGES[kind](), []
    source, ranges = site.write(tmp_path)
    for turn in (False, True):
        model = onnx.load(source)
        nodes = list(model.graph.node)[:: -1 if turn else 1]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        onnx.save(model, tmp_path / "m.onnx")
        weir("static", tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", "--ranges", ranges, "--op-types", "all", *FORMS[form])
        got = onnx.load(tmp_path / "o.onnx").graph
        made.append((sorted((n.op_type, *n.input, *n.output) for n in got.node), sorted((t.name, t.raw_data) for t in got.initializer)))
        assert min(site.levels(tmp_path / "o.onnx").values()) > 25
    assert made[0] == made[1]


@pytest.mark.parametrize("to, form, kind", sampled(["qdq", "qoperator"], FORMS, MOVED_RANGES, every=2))
def test_an_unsorted_quantized_graph_becomes_the_same(weir, tmp_path, to, form, kind):
    site, made = MOVED_RANGES[kind](), []
    source, ranges = site.write(tmp_path)
    weir("static", source, tmp_path / "q.onnx", "--ranges", ranges, "--op-types", "all", *FORMS[form])
    model = onnx.load(tmp_path / "q.onnx")
    listed = list(model.graph.node)
    for nodes in (listed, listed[::-1], listed[1::2] + listed[::2]):
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        onnx.save(model, tmp_path / "m.onnx")
        weir("requantize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", "--to", to)
        got = onnx.load(tmp_path / "o.onnx").graph
        made.append((sorted((n.op_type, *n.input, *n.output) for n in got.node), sorted((t.name, t.raw_data) for t in got.initializer)))
        assert min(site.levels(tmp_path / "o.onnx").values()) > 25
    assert made[0] == made[1] == made[2]


CLIPPED = {
    "Clip": [node("Clip", ["u", "low", "high"], ["w"])],
    "Clip, Transpose": [node("Clip", ["u", "low", "high"], ["c"]), node("Transpose", ["c"], ["w"], perm=[1, 0])],
    "Clip, Reshape": [node("Clip", ["u", "low", "high"], ["c"]), node("Reshape", ["c", "dims"], ["w"])],
    "Clip, Relu": [node("Clip", ["u", "low", "high"], ["c"]), node("Relu", ["c"], ["w"])],
    "Clip beside it": [node("Split", ["u"], ["w", "s"], axis=0, num_outputs=2), node("Clip", ["s", "low", "high"], ["c"])],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", CLIPPED)
@pytest.mark.parametrize("alone", [True, False])
def test_codes_do_not_clip_where_their_scale_grows(weir, tmp_path, form, kind, alone):
    """Room for a bias makes the scale of all larger that only the weight comes of: a Clip stays before these."""
    by, beside = 1e-5, "beside" in kind
    w, last = normal(8 if beside else 4, 4, by=0.3 * by), node("MatMul", ["e", "c" if beside else "w"], ["z"])
    low, high = np.float32(0 if "Relu" in kind else -0.1 * by), np.float32(0.1 * by)
    constants = {"low": low, "high": high, "one": ONE, "b": BIAS, "dims": ints(4, 4)}
    alone = alone and not beside
    inputs = {"x": (3, 4), "v": w.shape, **({} if alone else {"e": (4, 4)})}
    site = Site([node("Mul", ["v", "one"], ["u"]), *CLIPPED[kind], node("Gemm", ["x", "w", "b"], ["y"]), *([] if alone else [last])],
                inputs, constants, 18, outputs=("y",) if alone else ("y", "z"),
                feeds={"v": w, **({} if alone else {"e": np.eye(4, dtype=np.float32)})})  # fmt: skip
    path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *FORMS[form])
    assert "Clip" in operators(path) or not alone
    assert min(site.levels(path).values()) > 25


def seen(value):
    """Its numbers as an output, behind a product that is quantized too."""
    return node("MatMul", ["e", value], ["z"])


TAKEN = {
    "an output": ([node("Softmax", ["v"], ["w"], axis=-1)], "w"),
    "another product": ([node("Softmax", ["v"], ["w"], axis=-1), seen("w")], "z"),
    "moved": ([node("Softmax", ["v"], ["u"], axis=-1), node("Transpose", ["u"], ["w"], perm=[1, 0]), seen("u")], "z"),
    "moved twice": ([node("Mul", ["v", "one"], ["u"]), node("Transpose", ["u"], ["t"], perm=[1, 0]), node("Transpose", ["t"], ["w"], perm=[1, 0]),
                     seen("t")], "z"),
    "split": ([node("Concat", ["v", "v"], ["u"], axis=0), node("Split", ["u"], ["w", "s"], axis=0, num_outputs=2), seen("s")], "z"),
    "a table": ([node("Gather", ["table", "rows"], ["w"]), seen("w")], "z"),
    "a table of two": ([node("Gather", ["table", "rows"], ["w"]), node("Gather", ["table", "rows"], ["u"]), seen("u")], "z"),
    "a table's own": ([node("Gather", ["table", "rows"], ["w"])], "y"),
    "another bias": ([node("Softmax", ["v"], ["w"], axis=-1), node("Gemm", ["e", "w", "small"], ["z"])], "z"),
    "an input": ([node("Gemm", ["e", "w", "small"], ["z"])], "z"),
    "not quantized": ([node("Softmax", ["v"], ["w"], axis=-1), node("Exp", ["w"], ["z"])], "z"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("form", FORMS)
def test_a_weight_with_a_bias_that_others_take_too(weir, tmp_path, kind, form):
    """They have codes of their own scale: room for the bias would leave them none."""
    nodes, out = TAKEN[kind]
    nodes = [*nodes, node("Gemm", ["x", "w", "b"], ["y"])]
    used = {n for each in nodes for n in each.input}
    constants = {"one": ONE, "table": normal(4, 4, by=0.3), "rows": ints(3, 1, 0, 2), "b": BIAS, "small": BIAS * np.float32(0.02)}
    feeds = {"v": normal(4, 4), "w": normal(4, 4, by=0.3), "e": np.eye(4, dtype=np.float32)}
    for by in (1.0, 1e-7) if ALL else (1e-7,):
        given = {n: a for n, a in feeds.items() if n in used and not any(n in each.output for each in nodes)} | {"x": normal(3, 4, by=by)}
        site = Site(nodes, {n: a.shape for n, a in given.items()}, {n: a for n, a in constants.items() if n in used}, 18,
                    outputs=tuple(dict.fromkeys(("y", out))), feeds=given)  # fmt: skip
        for ops in ("Gemm,MatMul", "all"):
            assert min(site.levels(site.quantized(weir, tmp_path, "static", "--op-types", ops, *FORMS[form])).values()) > 25, (by, ops)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_beside_a_bias(weir, tmp_path, form):
    """What is picked from it has its scale, which is no number here: the weight has room for the bias all the same."""
    nodes = [node("Gather", ["table", "rows"], ["g"]), node("Gemm", ["g", "w", "b"], ["y"])]
    site = Site(nodes, {"rows": (3,)}, {"table": normal(4, 4, by=1e-5), "w": normal(4, 4, by=1e-3), "b": BIAS}, 18, feeds={"rows": ints(2, 0, 3)})
    assert min(site.levels(site.quantized(weir, tmp_path, "static", "--op-types", "all", *FORMS[form])).values()) > 25


HALF_BIASES = {
    "Gemm": lambda w: (node("Gemm", ["x", "w", "b"], ["y"]), (3, 4), {"w": w}),
    "Conv": lambda w: (node("Conv", ["x", "w", "b"], ["y"]), IMAGE, {"w": w.reshape(4, 4, 1, 1)}),
    "ConvTranspose": lambda w: (node("ConvTranspose", ["x", "w", "b"], ["y"]), IMAGE, {"w": w.reshape(4, 4, 1, 1)}),
    "BatchNormalization": lambda w: (node("BatchNormalization", ["x", "w", "b", "m", "v"], ["y"]), IMAGE,
                                     {"w": w[0], "m": np.zeros(4), "v": np.ones(4)}),
}  # fmt: skip


@pytest.mark.parametrize("op", HALF_BIASES)
def test_a_bias_of_float16_beside_small_scales(weir, tmp_path, op):
    """The product of the scales may be below what float16 can say, or of so few bits that the codes do not fit."""
    for size in (0, 0.001, 1, 100, 190, 3000) if ALL else (0, 190):
        for by, of_w in ((1, 1e-3), (1, 3e-5), (1e-2, 1e-2), (1e-3, 1e-3), (10, 1e-4)) if ALL else ((1, 3e-5), (1e-2, 1e-2)):
            last, dims, constants = HALF_BIASES[op](normal(4, 4, by=of_w))
            constants = {"b": np.array([1, -0.9, 0.3, 0.01]) * size, **constants}
            site = Site([last], {"x": dims}, {n: np.asarray(a, np.float16) for n, a in constants.items()}, 21, dtype=np.float16,
                        feeds={"x": normal(*dims, by=by).astype(np.float16)})  # fmt: skip
            for words in ((), ("--per-tensor",), ("--activation-type", "uint16")):
                path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *words)
                assert min(site.levels(path).values()) > 20, (size, by, of_w, words)


FOLDED = {
    "Neg": (node("Neg", ["c"], ["b"]), BIAS),
    "Cast": (node("Cast", ["c"], ["b"], to=1), BIAS.astype(np.float16)),
    "Reshape": (node("Reshape", ["c", "four"], ["b"]), BIAS.reshape(2, 2)),
    "Slice": (node("Slice", ["c", "nought", "four"], ["b"]), np.concatenate([BIAS, BIAS])),
    "ConstantOfShape": (node("ConstantOfShape", ["four"], ["b"], value=helper.make_tensor("v", 1, [1], [6.0])), None),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOLDED)
@pytest.mark.parametrize("form", FORMS)
def test_a_bias_that_the_runtime_folds(weir, tmp_path, kind, form):
    """Computed from constants, it is a constant for ONNX Runtime, which quantizes it itself by the product of the scales."""
    last, c = FOLDED[kind]
    constants = {"w": normal(4, 4, by=1e-7), "four": ints(4), "nought": ints(0), **({} if c is None else {"c": c})}
    site = Site([last, node("Gemm", ["x", "w", "b"], ["y"])], {"x": (3, 4)}, constants)
    for words in ((), ("--per-tensor",), ("--quantize-bias", "false"), ("--op-types", "all")):
        if form == "qdq" or "--quantize-bias" not in words:
            assert min(site.levels(site.quantized(weir, tmp_path, "static", *words, *FORMS[form])).values()) > 25, words


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by", [1.0, 1e-5])
def test_the_number_that_pads_a_computed_weight(weir, tmp_path, form, by):
    """Its code is made by the scale that has room for the bias, which is known in the end."""
    nodes = [node("Mul", ["v", "one"], ["u"]), node("Pad", ["u", "pads", "n"], ["w"]), node("Gemm", ["x", "w", "b"], ["y"]),
             node("MatMul", ["e", "w"], ["z"])]  # fmt: skip
    constants = {"one": ONE, "pads": ints(1, 0, 0, 0), "n": np.float32(0.1 * by), "b": BIAS}
    feeds = {"v": normal(4, 4, by=0.3 * by), "e": np.eye(5, dtype=np.float32)}
    site = Site(nodes, {"x": (3, 5), "v": (4, 4), "e": (5, 5)}, constants, outputs=("y", "z"), feeds=feeds)
    assert min(site.levels(site.quantized(weir, tmp_path, "static", "--op-types", "all", *FORMS[form])).values()) > 22


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
@pytest.mark.parametrize("count", [3, 40])
def test_many_share_weight_and_bias(weir, tmp_path, op, count):
    """What makes room for biases does not nest with their number, with compat neither."""
    dims, w = ((1, 4, 5, 5), pointwise()) if op == "Conv" else ((3, 4), normal(4, 4))
    nodes = [node(op, [f"x{i}", "w", "b"], [f"y{i}"]) for i in range(count)]
    feeds = {f"x{i}": normal(*dims, by=i + 1.0) for i in range(count)}
    site = Site(nodes, {n: dims for n in feeds}, {"w": w, "b": BIAS}, outputs=[f"y{i}" for i in range(count)], feeds=feeds)
    for words in ((), QOPERATOR):
        path = site.quantized(weir, tmp_path, "static", *words)
        assert operators(path).count({"Conv": "QLinearConv", "Gemm": "QGemm"}[op] if words else op) == count
        assert min(site.levels(path).values()) > 30
        site.quantized(weir, tmp_path, "static", *words, "--compat", "onnxruntime")


SHARED = {
    "Gemm": lambda b: (node("Gemm", ["x", "w", *b], ["y"]), node("Gemm", ["v", "w", "c"], ["z"]), node("MatMul", ["v", "w"], ["u"])),
    "Gemm, its table": lambda b: (node("Gemm", ["x", "w", *b], ["y"]), node("Gather", ["w", "rows"], ["g"]), node("MatMul", ["v", "g"], ["u"])),
    "Conv": lambda b: (conv("x", "w", "y", *b), conv("v", "w", "z", "c"), conv("v", "w", "u")),
    "ConvTranspose": lambda b: (node("ConvTranspose", ["x", "w", *b], ["y"]), node("ConvTranspose", ["v", "w", "c"], ["z"])),
    "two of one need": lambda b: (conv("x", "w", "y", *b), conv("x", "w", "z", *b), conv("v", "w", "u")),
    "two needs": lambda b: (conv("x", "w", "y", *b), conv("x", "w", "z", "c"), conv("v", "w", "u")),
}  # fmt: skip
COPIES = {"two needs": 3}


def shared_site(kind, by, biased=("b",)):
    nodes = SHARED[kind](biased)
    dims, w = ((4, 4), normal(4, 4, by=0.3)) if "Gemm" in kind else (IMAGE, normal(4, 4, 1, 1, by=0.3))
    constants = {"w": w, "b": BIAS, "c": BIAS * np.float32(0.01), "rows": ints(2, 0, 3, 1)}
    used = {n for each in nodes for n in each.input}
    outputs = tuple(n.output[0] for n in nodes if n.op_type != "Gather")
    feeds = {"x": normal(*dims, by=by), "v": normal(*dims)}
    return Site(list(nodes), {n: dims for n in feeds if n in used}, {n: a for n, a in constants.items() if n in used}, outputs=outputs,
                feeds={n: a for n, a in feeds.items() if n in used})  # fmt: skip


def weights_of_8_bits(path):
    return sum(t.data_type == onnx.TensorProto.INT8 and len(t.dims) in (2, 4) for t in onnx.load(path).graph.initializer)


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("form", FORMS)
def test_a_stored_weight_whose_bias_would_take_the_codes_of_others(weir, tmp_path, form, kind):
    """A node whose bias wants a scale that would leave the others no codes has a copy of the weight; so have others that want the same."""
    for words in ((), ("--per-tensor",)):
        path = shared_site(kind, 1e-8).quantized(weir, tmp_path, "static", "--op-types", "all", *words, *FORMS[form])
        site = shared_site(kind, 1e-8)
        site.write(tmp_path)
        assert min(site.levels(path).values()) > 25, words
        if "table" not in kind and (form, kind) != ("qoperator", "ConvTranspose"):
            assert weights_of_8_bits(path) == COPIES.get(kind, 2), words


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("form", FORMS)
def test_a_stored_weight_that_is_shared_is_one_where_that_costs_little(weir, tmp_path, form, kind):
    site = shared_site(kind, 1e-2)
    path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *FORMS[form])
    assert weights_of_8_bits(path) == ((form, kind) != ("qoperator", "ConvTranspose"))
    assert min(site.levels(path).values()) > 25


AFTER = {  # an Add: are sum and product one Gemm on codes at run time, by whatever is between the sum and its QuantizeLinear?
    "nothing": (None, False),
    "Tanh": (("Tanh",), False),
    "MatMul": ((), True),
    "Relu": (("Relu",), True),
    "Clip": (("Clip",), True),
    "Transpose": (("Transpose",), True),
    "Identity, Relu": (("Identity", "Relu"), True),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("words", [(), ("--quantize-bias", "false"), ("--op-types", "MatMul")], ids=" ".join)
def test_a_bias_that_is_added_has_room_where_it_becomes_codes(weir, tmp_path, after, words):
    """Of the product there is no range; without a QuantizeLinear after the sum nothing makes codes of the bias, and the weight stays one."""
    between, fused = AFTER[after]
    x, v = normal(4, 4, by=1e-8), normal(4, 4)
    nodes, last = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["s"]), node("MatMul", ["v", "w"], ["z"])], "s"
    for i, op in enumerate(between or ()):
        nodes.append(node(op, [last], [f"t{i}"]))
        last = f"t{i}"
    nodes.append(node("MatMul", [last, "u"], ["y"]) if between is not None else node("Neg", [last], ["y"]))
    constants = {"w": normal(4, 4, by=0.3), "b": BIAS} | ({"u": normal(4, 4)} if between is not None else {})
    site = Site(nodes, {"x": (4, 4), "v": (4, 4)}, constants, outputs=("y", "z"), feeds={"x": x, "v": v})
    source, ranges = site.write(tmp_path)
    ranges.write_text(json.dumps({n: r for n, r in json.loads(ranges.read_text()).items() if n != "h"}))
    weir("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, *words)
    assert min(site.levels(tmp_path / "out.onnx").values()) > 25
    assert weights_of_8_bits(tmp_path / "out.onnx") == 1 + ("u" in constants) + fused


WANTS = {  # the bias of node i, and how many stored weights there are
    "nearly the same": (lambda i: BIAS * np.float32(1 + i / 200), 2),
    "two, in turn": (lambda i: BIAS[::-1] if i % 2 else BIAS, 3),
    "no two the same": (lambda i: BIAS * np.float32(1.2**i), 9),
}


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("wants", WANTS)
@pytest.mark.parametrize("form", FORMS)
def test_nodes_share_copies_of_a_stored_weight(weir, tmp_path, form, wants, others):
    """Those that want nearly the same scales share one, and there are few, however many nodes want others."""
    bias, stored = WANTS[wants]
    count = 20
    nodes = [node("Gemm", [f"x{i}", "w", f"b{i}"], [f"y{i}"]) for i in range(count)]
    x, v = normal(4, 4, by=1e-8), normal(4, 4)
    feeds = {f"x{i}": x for i in range(count)} | ({"v": v} if others else {})
    constants = {"w": normal(4, 4, by=0.3)} | {f"b{i}": np.ascontiguousarray(bias(i)) for i in range(count)}
    outputs = [f"y{i}" for i in range(count)] + ["u"] * others
    site = Site([*nodes, *[node("MatMul", ["v", "w"], ["u"])] * others], {n: (4, 4) for n in feeds}, constants, outputs=outputs, feeds=feeds)
    path = site.quantized(weir, tmp_path, "static", *FORMS[form])
    assert weights_of_8_bits(path) == stored - (not others)
    assert min(site.levels(path).values()) > 25


@pytest.mark.parametrize("op", ["Conv", "Gemm", "Gemm, transB", "computed"])
@pytest.mark.parametrize("form", FORMS)
def test_the_sum_of_products_fits_beside_the_bias(weir, tmp_path, form, op):
    """Codes of the bias leave room for what is added to them in int32: thousands of products, all of one sign."""
    many = 1024
    w = np.abs(normal(many, 4, by=0.3)) + np.float32(0.3)
    for by in (1e-6, 3e-7):
        x = (np.abs(normal(3, many)) + np.float32(1)) * np.float32(by)
        feeds = {"x": x.reshape(3, many, 1, 1) if op == "Conv" else x}
        weight = w.T.reshape(4, many, 1, 1) if op == "Conv" else np.ascontiguousarray(w.T) if "transB" in op else w
        last = conv("x", "w", "y", "b") if op == "Conv" else node("Gemm", ["x", "w", "b"], ["y"], transB=int("transB" in op))
        constants = {"b": BIAS, "one": ONE, ("v" if op == "computed" else "w"): weight}
        if op == "computed":
            feeds["v"] = constants.pop("v")
        else:
            del constants["one"]
        before = [node("Mul", ["v", "one"], ["w"])] if op == "computed" else []
        site = Site([*before, last], {n: a.shape for n, a in feeds.items()}, constants, feeds=feeds)
        for words in ((), ("--per-tensor",)):
            path = site.quantized(weir, tmp_path, "static", *words, *FORMS[form])
            assert min(site.levels(path).values()) > 40, (by, words)


def test_a_sum_of_int32_has_room_for_the_bias(weir, tmp_path):
    """The recipe's Add is one of codes, and so is the sum of products before it; another node that takes the weight keeps its own codes."""
    for many, by in ((64, 1e-8), (1024, 1e-6)):
        w = np.abs(normal(many, 4, by=0.3)) + np.float32(0.3)
        feeds = {"x": (np.abs(normal(3, many)) + np.float32(1)) * np.float32(by), "v": normal(3, many)}
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"]), node("MatMul", ["v", "w"], ["z"])]
        site = Site(nodes, {n: a.shape for n, a in feeds.items()}, {"w": w, "b": BIAS}, outputs=("y", "z"), feeds=feeds)
        for words in ((), ("--execution", "qlinear"), ("--per-tensor",)):
            path = site.quantized(weir, tmp_path, "static", "--format", "int32-bias", *words)
            assert "MatMulInteger" in operators(path) and min(site.levels(path).values()) > 30, (many, words)


# ---- numbers outside of the range --------------------------------------------------------------------


def framed(*nodes, dims=(1, 4, 6, 6), **constants):
    """A Conv, the nodes from h to p, and a Conv."""
    return Site([conv("x", "w", "h"), *nodes, conv("p", "w", "y")], {"x": dims}, {"w": pointwise(), **constants})


FRAMES = {
    "far away": lambda: framed(node("Pad", ["h", "pads", "n"], ["p"]), pads=ints(0, 0, 1, 1, 0, 0, 1, 1), n=np.float32(20)),
    "below Relu": lambda: framed(node("Relu", ["h"], ["r"]), node("Pad", ["r", "pads", "n"], ["p"]), pads=ints(0, 0, 1, 1, 0, 0, 1, 1),
                                 n=np.float32(-50)),
    "computed": lambda: framed(node("Add", ["n", "n"], ["m"]), node("Pad", ["h", "pads", "m"], ["p"]), pads=ints(0, 0, 1, 1, 0, 0, 1, 1),
                               n=np.float32(10)),
    "cropped": lambda: framed(node("Resize", ["h", "roi", "scales"], ["p"], mode="linear", extrapolation_value=30.0,
                                   coordinate_transformation_mode="tf_crop_and_resize"),
                              roi=np.array([0, 0, -0.2, -0.2, 1, 1, 1.2, 1.2], np.float32), scales=np.array([1, 1, 2, 2], np.float32)),
    "beyond": lambda: framed(node("Resize", ["h", "", "scales"], ["p"], mode="cubic"), scales=np.array([1, 1, 2, 2], np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("form", FORMS)
def test_a_number_outside_of_the_range(weir, tmp_path, kind, form):
    """What Pad and Resize put around is not cut off to the range of what they are given."""
    site = FRAMES[kind]()
    assert min(site.levels(site.quantized(weir, tmp_path, "static", "--op-types", "all", *FORMS[form])).values()) > 25


def test_a_number_inside_of_the_range_stays_on_codes(weir, tmp_path):
    site = framed(node("Pad", ["h", "pads", "n"], ["p"]), pads=ints(0, 0, 1, 1, 0, 0, 1, 1), n=np.float32(0.5))
    path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *QOPERATOR)
    assert operators(path) == ["QuantizeLinear", "QLinearConv", "Pad", "QLinearConv", "DequantizeLinear"]
    assert min(site.levels(path).values()) > 25


# ---- numbers that mean nothing -----------------------------------------------------------------------

NOTHING = {"lowest": np.finfo(np.float32).min, "-1e9": np.float32(-1e9), "-1e4": np.float32(-1e4), "-1000": np.float32(-1000), "-300": np.float32(-300)}
TOKENS = 6
CAUSAL = np.triu(np.ones((1, TOKENS, TOKENS), bool), 1)
PADDED = np.array([[[0, 0, 0, 0, 0, 1]]], np.float32)


def attention(nodes, low, inputs=None, feeds=None, **constants):
    """Scores s, the nodes that mask them (giving m), Softmax and the values."""
    before = [node("MatMul", ["x", "w"], ["q"]), node("Transpose", ["q"], ["k"], perm=[0, 2, 1]), node("MatMul", ["q", "k"], ["s"])]
    behind = [node("Softmax", ["m"], ["p"], axis=-1), node("MatMul", ["p", "q"], ["y"])]
    known = {"w": normal(16, 16, by=0.3), "low": low, **constants}
    return Site(before + nodes + behind, {"x": (1, TOKENS, 16), **(inputs or {})}, known, feeds=feeds)


MASKS = {
    "where": lambda n: attention([node("Where", ["c", "low", "s"], ["m"])], n, c=CAUSAL),
    "where, not seen": lambda n: attention([node("Where", ["c", "low", "s"], ["m"])], n, {"c": (1, 1, TOKENS)}, {"c": PADDED < 0}),
    "stored": lambda n: attention([node("Add", ["s", "stored"], ["m"])], n, stored=np.where(CAUSAL, n, np.float32(0))),
    "given": lambda n: attention([node("Add", ["s", "given"], ["m"])], n, {"given": (1, 1, TOKENS)}, {"given": PADDED * n}),
    "times": lambda n: attention([node("Mul", ["c", "low"], ["b"]), node("Add", ["s", "b"], ["m"])], n, {"c": (1, 1, TOKENS)},
                                 {"c": PADDED}),
    "reshaped": lambda n: attention([node("Where", ["c", "low", "s"], ["a"]), node("Reshape", ["a", "dims"], ["m"])], n, c=CAUSAL,
                                    dims=ints(1, TOKENS, TOKENS)),
    "frame": lambda n: framed(node("Pad", ["h", "pads", "n"], ["o"]), node("MaxPool", ["o"], ["p"], kernel_shape=[3, 3], strides=[2, 2]),
                              pads=ints(0, 0, 1, 1, 0, 0, 1, 1), n=n),
    "row": lambda n: framed(node("Concat", ["h", "row"], ["o"], axis=2), node("MaxPool", ["o"], ["p"], kernel_shape=[3, 3]),
                            row=np.full((1, 4, 1, 6), n)),
}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("form", FORMS)
def test_numbers_that_mean_nothing(weir, tmp_path, mask, form):
    """Masks and frames stay float, with a reason, and what comes behind them has ranges without them."""
    for low in NOTHING.values() if ALL else [NOTHING[name] for name in ("lowest", "-1e4", "-300")]:
        site = MASKS[mask](low)
        path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *FORMS[form])
        assert min(site.levels(path).values()) > 18
        report = weir.report("static", tmp_path / "site.onnx", tmp_path / "out.onnx", "--force", "--ranges", tmp_path / "ranges.json",
                             "--op-types", "all", *FORMS[form])  # fmt: skip
        assert "mask_values" in str(report)


BETWEEN = {
    "Mul": [node("Add", ["s", "mask"], ["a"]), node("Mul", ["a", "eighth"], ["m"])],
    "Div": [node("Add", ["s", "mask"], ["a"]), node("Div", ["a", "four"], ["m"])],
    "Max": [node("Add", ["s", "mask"], ["a"]), node("Max", ["a", "lowest"], ["m"])],
    "Clip": [node("Add", ["s", "mask"], ["a"]), node("Clip", ["a", "lowest"], ["m"])],
    "Dropout": [node("Add", ["s", "mask"], ["a"]), node("Dropout", ["a"], ["m"])],
    "Concat": [node("Add", ["s", "mask"], ["a"]), node("Concat", ["a", "a"], ["c"], axis=0), node("Slice", ["c", "from", "to", "from"], ["m"])],
    "Sub": [node("Neg", ["mask"], ["n"]), node("Sub", ["s", "n"], ["m"])],
    "Where": [node("Add", ["s", "mask"], ["a"]), node("Where", ["is", "a", "s"], ["m"])],
}  # fmt: skip
NUMBER = {"times": lambda n, less: [node("Mul", ["given", n], ["mask"])],
          "twice": lambda n, less: [node("Mul", ["given", n], ["more"]), node("Mul", ["more", less], ["mask"])],
          "chosen": lambda n, less: [node("Cast", ["given"], ["is given"], to=9), node("Where", ["is given", n, "nought"], ["mask"])]}  # fmt: skip


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("low", [-5000, -1e5])
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_mask_on_its_way_to_a_softmax(weir, tmp_path, between, number, low, is_seen):
    """Whatever multiplies it by a number, chooses it or subtracts it, and whether samples had something to mask or not."""
    nodes = NUMBER[number]("low", "half") + BETWEEN[between]
    more = {"half": np.float32(0.5), "eighth": np.float32(0.125), "four": np.float32(4), "lowest": np.finfo(np.float32).min, "nought": np.float32(0),
            "from": ints(0), "to": ints(1), "is": np.array(True)}  # fmt: skip
    if between == "Concat":
        more["from"], more["to"], nodes[-1].input[3] = ints(0), ints(1), "nought axis"
        more["nought axis"] = ints(0)
    site = attention(nodes, np.float32(low), {"given": (1, 1, TOKENS)}, {"given": PADDED * is_seen}, **more)
    for words in FORMS.values():
        path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *words)
        site.feeds["given"] = PADDED
        right = run(tmp_path / "site.onnx", site.feeds)[0]
        assert min(decibels(right, run(path, site.feeds, optimized)[0]) for optimized in (False, True)) > 16, words
        site.feeds["given"] = PADDED * is_seen


def test_a_number_of_a_mask_that_is_subtracted(weir, tmp_path):
    """It is above 0 then, and what is not subtracted is none."""
    for op, is_mask in (("Sub", True), ("Add", False)):
        site = attention([node("Mul", ["given", "low"], ["b"]), node(op, ["s", "b"], ["m"])], np.float32(1000), {"given": (1, 1, TOKENS)},
                         {"given": PADDED * 0})  # fmt: skip
        source, ranges = site.write(tmp_path)
        report = weir.report("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, "--op-types", "all")
        assert ("mask_values" in str(report)) == is_mask


SCORES = {
    "a product": ([], [-300, 4]),
    "a sum": ([node("Add", ["s", "b"], ["m"])], [-60, 4]),
    "a wide sum": ([node("Add", ["s", "b"], ["m"])], [-300, 200]),
    "a product, scaled": ([node("Mul", ["s", "by"], ["m"]), node("Add", ["m", "b"], ["a"])], [-300, 4]),
    "a sum that becomes small": ([node("Add", ["s", "b"], ["m"]), node("Mul", ["m", "by"], ["a"])], [-1000, 4]),
    "no Softmax": ([node("Add", ["s", "b"], ["m"]), node("Sigmoid", ["m"], ["p"])], [-300, 4]),
}  # fmt: skip


@pytest.mark.parametrize("kind", SCORES)
def test_scores_are_no_masks(weir, tmp_path, kind):
    """A product of large numbers, a sum of usual ones, one with large numbers on both sides, or one that no Softmax takes."""
    nodes, span = SCORES[kind]
    last = nodes[-1].output[0] if nodes else "s"
    site = Site([node("MatMul", ["x", "w"], ["s"]), *nodes, node("Softmax" if last != "p" else "Relu", [last], ["y"])], {"x": (3, 4)},
                {"w": normal(4, 4), "b": normal(4), "by": np.float32(0.125)})  # fmt: skip
    source, ranges = site.write(tmp_path)
    ranges.write_text(json.dumps(json.loads(ranges.read_text()) | {"s": span, "m": span}))
    for words in FORMS.values():
        report = weir.report("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, "--op-types", "all", *words)
        assert "mask_values" not in str(report)


LOW = np.float32(-1e9)
MASKED = {
    "graph input": lambda: ([], {"m": (4, 4)}, {"m": np.where(np.eye(4) > 0, LOW, 0.5).astype(np.float32)}),
    "graph input, moved": lambda: ([node("Transpose", ["i"], ["m"], perm=[1, 0])], {"i": (4, 4)}, {"i": np.full((4, 4), LOW)}),
    "Where": lambda: ([node("Where", ["c", "s", "low"], ["m"])], {"c": (4, 4), "s": (4, 4)}, {"c": np.eye(4) < 1}),
    "Add": lambda: ([node("Add", ["s", "i"], ["m"])], {"s": (4, 4), "i": (4, 1)}, {"i": np.array([[0], [0], [LOW], [0]], np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ops", ["MatMul,Gemm,Conv", "all"])
def test_who_takes_a_mask_says_so(weir, tmp_path, kind, form, ops):
    """Whoever makes it, and if nobody does. An override that says its range is believed, but where a number is put."""
    nodes, inputs, feeds = MASKED[kind]()
    site = Site([*nodes, node("MatMul", ["m", "w"], ["y"])], inputs, {"w": normal(4, 4), "low": LOW}, feeds=feeds)
    source, ranges = site.write(tmp_path)
    (tmp_path / "known.json").write_text(json.dumps({"m": [{"rmin": -3, "rmax": 3}]}))
    words = [source, tmp_path / "out.onnx", "--force", "--ranges", ranges, "--op-types", ops, *FORMS[form]]
    said = weir.report("static", *words)["passes"][0]["nodes"]
    assert ("skipped", "mask_values") in {(n["status"], n["reason"]) for n in said if n.get("node_name") == "n_y"}
    known = weir.report("static", *words, "--override", tmp_path / "known.json")["passes"][0]["nodes"]
    assert ("mask_values" in {n["reason"] for n in known if n.get("node_name") == "n_y"}) == (kind == "Where")


def test_a_mask_that_samples_did_not_use(weir, tmp_path):
    """It masks all the same: the sum behind it has no range of scores alone."""
    nodes = [node("Mul", ["c", "low"], ["b"]), node("Add", ["s", "b"], ["m"])]
    site = attention(nodes, NOTHING["-1e9"], {"c": (1, 1, TOKENS)}, {"c": PADDED * 0})
    for form in FORMS.values():
        path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *form)
        feeds = site.feeds | {"c": PADDED}
        assert decibels(run(tmp_path / "site.onnx", feeds)[0], run(path, feeds)[0]) > 15


# ---- what ONNX Runtime fuses -------------------------------------------------------------------------


POOLS = {
    "dilations": (19, {"kernel_shape": [2, 2], "dilations": [2, 2]}),
    "dilations of 1": (19, {"kernel_shape": [2, 2], "dilations": [1, 1]}),
    "a part of a window": (17, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}),
    "the same, later": (19, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}),
}  # fmt: skip
PASSED = [*PASSING, *CLIPPING] if ALL else ["Dropout", "Cast", "Add, left", "Sub", "Mul", "Div"]
BEHIND = {"": [], "Relu": [node("Relu", ["p0"], ["p"])], "Transpose": [node("Transpose", ["p0"], ["p"], perm=[0, 1, 3, 2])]}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("pool", POOLS)
def test_a_pool_that_none_on_codes_is(weir, tmp_path, pool, behind):
    """ONNX Runtime makes QLinearAveragePool of what stands between DequantizeLinear and QuantizeLinear, asked for or not."""
    opset, attributes = POOLS[pool]
    nodes = [conv("x", "w", "h"), node("AveragePool", ["h"], ["p0" if behind else "p"], name="pool", **attributes), *BEHIND[behind],
             conv("p", "w", "y")]  # fmt: skip
    site = Site(nodes, {"x": (1, 4, 8, 8)}, {"w": pointwise()}, opset)
    ways = [(), QOPERATOR, ("--op-types", "all"), ("--op-types", "all", *QOPERATOR), ("--compat", "onnxruntime")]
    ways += [("--compat", "onnxruntime", *QOPERATOR), ("--activation-type", "int8", "--op-types", "all")]
    for words in ways if ALL or not behind else ways[:4]:
        assert min(site.levels(site.quantized(weir, tmp_path, "static", *words)).values()) > 20, words


@pytest.mark.parametrize("op, opset", [("ReduceMax", 11), ("ReduceMin", 9), ("DepthToSpace", 10), ("ReduceMax", 12), ("DepthToSpace", 11)])
def test_what_takes_no_codes_yet(weir, tmp_path, op, opset):
    """ONNX Runtime takes the two beside it away where they have one scale, whatever types the operator has then."""
    more = {"blocksize": 2} if op == "DepthToSpace" else {"axes": [0, 1]}
    sign = [node("Neg", ["r"], ["n"])] if op == "ReduceMin" else []  # the least of them is the end of the range, then
    nodes = [conv("x", "w", "h"), node("Relu", ["h"], ["r"]), *sign, node(op, ["n" if sign else "r"], ["p"], **more), conv("p", "v", "y")]
    site = Site(nodes, {"x": (1, 4, 8, 8)}, {"w": pointwise(), "v": normal(3, 1, 1, 1)}, opset)
    per_tensor = ("--per-tensor", "--op-types", "all")
    for words in (per_tensor, (*per_tensor, "--activation-type", "int8", "--activation-symmetric"), QOPERATOR, (*QOPERATOR, "--op-types", "all"),
                  ("--compat", "onnxruntime")):  # fmt: skip
        assert min(site.levels(site.quantized(weir, tmp_path, "static", *words)).values()) > 20, words


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_a_product_that_sums_up_nothing(weir, tmp_path, op):
    """Operators on codes leave the result unwritten."""
    site = Site([node(op, ["x", "w", *(["b"] if op == "Gemm" else [])], ["p"]), node("Add", ["p", "c"], ["y"])], {"x": (3, 0)},
                {"w": np.zeros((0, 5), np.float32), "b": normal(5), "c": normal(3, 5)} if op == "Gemm" else
                {"w": np.zeros((0, 5), np.float32), "c": normal(3, 5)})  # fmt: skip
    source, ranges = site.write(tmp_path)
    ranges.write_text(json.dumps(json.loads(ranges.read_text()) | {"x": [-1, 1]}))  # an empty value has none
    for words in ((), QOPERATOR, ("--op-types", "all"), ("--op-types", "all", *QOPERATOR), ("--compat", "onnxruntime")):
        weir("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, *words)
        assert min(site.levels(tmp_path / "out.onnx").values()) > 20, words


FACTORS = {"alpha": {"alpha": 0.0}, "below 0": {"alpha": -0.0}, "both": {"alpha": 0.0, "beta": 0.0}, "beta": {"beta": 0.0},
           "next to nothing": {"alpha": 1e-30}, "less": {"alpha": 1e-40, "beta": 0.5}}  # fmt: skip
WAYS = [(), QOPERATOR, ("--compat", "onnxruntime"), ("--format", "fp32-bias"), ("--quantize-bias", "false"), ("--op-types", "all", "--per-tensor")]


@pytest.mark.parametrize("kind", FACTORS)
def test_factors_beside_which_a_bias_has_no_codes(weir, tmp_path, kind):
    """A Gemm that multiplies by 0 stays float, and codes of a bias that the runtime makes have a scale of their own."""
    site = Site([node("Gemm", ["x", "w", "b"], ["y"], **FACTORS[kind])], {"x": (3, 4)}, {"w": normal(4, 4), "b": normal(4)})
    for words in WAYS:
        path = site.quantized(weir, tmp_path, "static", *words)
        assert min(site.levels(path).values()) > 25, words
        if "alpha" in FACTORS[kind] and FACTORS[kind]["alpha"] == 0:
            assert "QGemm" not in operators(path)
    if "beta" in kind or kind == "both":  # quantize_static divides by 0
        assert min(site.levels(site.quantized(weir, tmp_path, "static", "--compat", "onnxruntime", *QOPERATOR)).values()) > 25


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("factor", ["alpha", "beta"])
def test_factors_that_are_no_numbers(weir, tmp_path, factor, number):
    """Nothing but the node is affected: it stays."""
    nodes = [node("Gemm", ["x", "w", "b"], ["g"], **{factor: float(number)}), node("MatMul", ["x", "w"], ["y"])]
    site = Site(nodes, {"x": (3, 4)}, {"w": normal(4, 4), "b": normal(4)}, outputs=("y", "g"))
    source, ranges = site.write(tmp_path)
    ranges.write_text(json.dumps({n: r for n, r in json.loads(ranges.read_text()).items() if n != "g"}))
    for words in ((), QOPERATOR, ("--compat", "onnxruntime")):
        said = weir.report("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, *words)["passes"][0]["nodes"]
        assert {n["reason"] for n in said if n.get("node_name") == "n_g"} & {"attributes", "no_range"}, words
        assert decibels(site.right[0], run(tmp_path / "out.onnx", site.feeds)[0]) > 25


@pytest.mark.parametrize("alpha, beta", [(np.inf, 1), (np.nan, 1), (1, np.inf), (1, np.nan), (1, 1e-45), (1e-45, 1), (1e20, 1e-25), (1e-10, 1e30)])
def test_factors_that_leave_a_bias_no_scale(weir, tmp_path, alpha, beta):
    """As codes, too, where the file of ranges knows the node: it stays float, and all else is done."""
    gemm = node("Gemm", ["x", "w", "b"], ["g"], alpha=float(alpha), beta=float(beta))
    site = Site([gemm, node("MatMul", ["x", "w"], ["y"])], {"x": (3, 4)}, {"w": normal(4, 4), "b": normal(4)}, outputs=("y", "g"))
    source, ranges = site.write(tmp_path)
    ranges.write_text(json.dumps(json.loads(ranges.read_text()) | {"g": [-1, 1]}))
    for words in (QOPERATOR, (*QOPERATOR, "--compat", "onnxruntime")):
        if words != QOPERATOR and 1e-30 < beta < 1e31:  # it leaves alpha out
            continue
        said = weir.report("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, *words)["passes"][0]["nodes"]
        assert {n["reason"] for n in said if n.get("node_name") == "n_g"} == {"attributes"}, words
        assert decibels(site.right[0], run(tmp_path / "out.onnx", site.feeds)[0]) > 25


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
@pytest.mark.parametrize("by", [1e-25, 1e-42])
@pytest.mark.parametrize("channels", [[1], [0, 1, 2, 3]])
def test_scales_whose_product_is_no_number(weir, tmp_path, op, by, channels):
    """Of channels whose weights are next to nothing, and whose bias is 0: their codes are 0."""
    w, b, x = normal(4, 4), normal(4), normal(*(IMAGE if op == "Conv" else (3, 4)))
    w[channels], b[channels] = w[channels] * np.float32(by), 0
    last = conv("x", "w", "y", "b") if op == "Conv" else node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    small = np.float32(1e-18)
    site = Site([last], {"x": x.shape}, {"w": w.reshape(4, 4, 1, 1) if op == "Conv" else w, "b": b * small}, feeds={"x": x * small})
    for words in ((), QOPERATOR, ("--format", "fp32-bias"), ("--compat", "onnxruntime", "--per-channel", *exact_products.NARROW)):
        assert min(site.levels(site.quantized(weir, tmp_path, "static", *words)).values()) > 25 or len(channels) == 4, words


@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Conv", "ConvTranspose"])
@pytest.mark.parametrize("by", [2.0**-23, 2.0**-20])
def test_weights_of_float16_that_are_next_to_nothing(weir, tmp_path, op, by):
    """Their scale would be less than float16 has: it is the least that there is, of which all of them are multiples."""
    w = (np.random.default_rng(1).integers(-2, 3, (4, 4)) * by).astype(np.float16)
    more = {"Conv": {"kernel_shape": [1, 1]}, "ConvTranspose": {"kernel_shape": [1, 1]}}.get(op, {})
    site = Site([node(op, ["x", "w"], ["y"], **more)], {"x": (3, 4) if not more else IMAGE}, {"w": w.reshape(4, 4, 1, 1) if more else w}, 21,
                dtype=np.float16, feeds={"x": (normal(*((3, 4) if not more else IMAGE)) * 1000).astype(np.float16)})  # fmt: skip
    for words in ((), ("--per-tensor",), ("--weight-type", "uint8"), QOPERATOR):
        path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *words)
        assert min(site.levels(path).values()) > 25, words


NOTHING_SEEN = {
    "Conv": lambda: (conv("x", "w", "h", "b"), IMAGE, pointwise() * 300),
    "ConvTranspose": lambda: (node("ConvTranspose", ["x", "w", "b"], ["h"], kernel_shape=[1, 1]), IMAGE, pointwise() * 300),
    "Gemm": lambda: (node("Gemm", ["x", "w", "b"], ["h"]), (3, 4), normal(4, 4, by=300)),
    "InstanceNormalization": lambda: (node("InstanceNormalization", ["x", "w", "b"], ["h"]), IMAGE, normal(4, by=9)),
}  # fmt: skip


@pytest.mark.parametrize("op", NOTHING_SEEN)
@pytest.mark.parametrize("form", FORMS)
def test_a_bias_beside_an_input_of_which_nothing_was_seen(weir, tmp_path, op, form):
    """It is all that there is of the output, and its codes would be by a scale that nothing decided."""
    made, dims, w = NOTHING_SEEN[op]()
    site = Site([made, node("Sigmoid", ["h"], ["y"])], {"x": dims}, {"w": w, "b": normal(4)}, feeds={"x": np.zeros(dims, np.float32)})
    for words in ((), ("--quantize-bias", "false")) if form == "qdq" else ((),):
        assert min(site.levels(site.quantized(weir, tmp_path, "static", "--op-types", "all", *words, *FORMS[form])).values()) > 35, words


@pytest.mark.parametrize("words", [("--activation-restricted-asymmetric",), (), ("--activation-symmetric", "--activation-type", "int8")], ids=lambda w: "".join(w)[2:])
def test_scales_are_never_0(weir, tmp_path, words):
    """In float16 a range of some 1e-7 has no 255th part; requantize leaves what has a scale of 0 already."""
    x = (np.random.default_rng(1).integers(-1, 4, (2, 1, 3)) * 2.0**-24).astype(np.float16)
    site = Site([node("Softmax", ["x"], ["y"])], {"x": x.shape}, opset=13, dtype=np.float16, feeds={"x": x})
    for form in FORMS.values():
        path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *words, *form)
        scales = [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if "scale" in t.name]
        assert len(scales) > 1 and all((a > 0).all() for a in scales)
        assert min(site.levels(path).values()) > 35
    model = onnx.load(site.quantized(weir, tmp_path, "static", "--op-types", "all", *words))
    for t in model.graph.initializer:
        if t.name == "x_scale":
            t.CopyFrom(numpy_helper.from_array(np.zeros((), np.float16), "x_scale"))
    onnx.save(model, tmp_path / "nought.onnx")
    said = weir.report("requantize", tmp_path / "nought.onnx", tmp_path / "codes.onnx", "--to", "qoperator")["passes"]
    assert "parameters" in {n["reason"] for p in said for n in p["nodes"] if n.get("node_name") == "n_y"}


@pytest.mark.parametrize("words", [(), ("--compat", "onnxruntime")], ids=["", "compat"])
@pytest.mark.parametrize(("mean", "spread"), [(0.0, 0), (3.0, 0), (-1e-9, 0), (100.0, 1)])
def test_float8_of_values_far_from_0(weir, tmp_path, mean, spread, words):
    """Where the scale that follows from the deviation clips the mean, the largest element is the largest code, but for the tool."""
    x = (mean + spread * np.linspace(-1, 1, 12).reshape(3, 4)).astype(np.float32)
    site = Site([node("MatMul", ["x", "w"], ["y"])], {"x": (3, 4)}, {"w": normal(4, 4)}, 19, feeds={"x": x})
    source, _ = site.write(tmp_path)
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", x=x)
    weir("calibrate", source, "-o", tmp_path / "r.jsonl", "--data", tmp_path / "data", "--method", "distribution")
    weir("static", source, tmp_path / "out.onnx", "--ranges", tmp_path / "r.jsonl", "--activation-type", "float8e4m3fn", "--weight-type", "float8e4m3fn", *words)
    scale = next(numpy_helper.to_array(t) for t in onnx.load(tmp_path / "out.onnx").graph.initializer if t.name == "x_scale")
    is_seen = not words or mean in (0.0, 3.0)
    assert scale > 0 and (scale >= np.float32(np.abs(x).max()) / np.float32(448)) == is_seen
    assert (decibels(site.right[0], run(tmp_path / "out.onnx", site.feeds)[0]) > 20) == is_seen


WRONG_THERE = {
    "a mask": ([node("Add", ["x", "m"], ["s"]), node("Softmax", ["s"], ["y"])], {"m": np.array([0, 0, 0, -1e9], np.float32)}, FORMS, "n_s"),
    "alpha": ([node("Gemm", ["x", "w", "b"], ["y"], alpha=2.0)], {"w": normal(4, 4), "b": normal(4)}, ["qoperator"], "n_y"),
    "beta": ([node("Gemm", ["x", "w", "b"], ["y"], beta=3.0)], {"w": normal(4, 4), "b": normal(4)}, ["qoperator"], "n_y"),
    "two of a bias": ([node("Gemm", ["x", "w", "b"], ["h"]), node("Gemm", ["h", "v", "b"], ["y"])],
                      {"w": normal(4, 4), "v": normal(4, 4, by=9), "b": normal(4)}, ["qoperator"], "n_y"),
    "Clip": ([node("Gemm", ["x", "w"], ["h"]), node("Clip", ["h", "low", "high"], ["c"]), node("Gemm", ["c", "w"], ["y"])],
             {"w": normal(4, 4), "low": np.float32(0.5), "high": np.float32(0.7)}, ["qoperator"], "n_c"),
    "Pad": ([node("Gemm", ["x", "w"], ["h"]), node("Pad", ["h", "pads", "number"], ["y"])],
            {"w": normal(4, 4), "pads": ints(0, 0, 0, 1), "number": np.float32(50)}, ["qoperator"], "n_y"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_THERE)
def test_what_compat_leaves_wrong_is_told(weir, tmp_path, kind):
    """It writes what quantize_static writes, and names the node. Nothing is said where it is right, or without compat."""
    nodes, constants, told, name = WRONG_THERE[kind]
    site = Site(nodes, {"x": (3, 4)}, constants)
    for form, words in FORMS.items():
        site.quantized(weir, tmp_path, "static", *words, "--compat", "onnxruntime", "--op-types", "all")
        assert (f"node '{name}' (" in site.said.err and "quantize_static does the same" in site.said.err) == (form in told), form
        site.quantized(weir, tmp_path, "static", *words, "--op-types", "all")
        assert "quantize_static" not in site.said.err


def cancelled(op):
    """What is left of large numbers is 1e-9 of them."""
    x = normal(*IMAGE)
    x[..., ::2] = -x[..., 1::2]
    image, left = {"x": IMAGE}, {"x": x + np.float32(1e-7)}
    return {
        "GlobalAveragePool": lambda: Site([node("Concat", ["x", "x"], ["h"], axis=1), node("GlobalAveragePool", ["h"], ["y"])], image, feeds=left),
        "after Reshape": lambda: Site([node("Concat", ["x", "x"], ["g"], axis=1), node("Reshape", ["g", "dims"], ["h"]),
                                       node("GlobalAveragePool", ["h"], ["y"])], image, {"dims": ints(1, 4, 2, 36)}, feeds=left),
        "AveragePool": lambda: Site([node("Concat", ["x", "x"], ["h"], axis=1), node("AveragePool", ["h"], ["y"], kernel_shape=[1, 2], strides=[1, 2])],
                                    image, feeds={"x": x + np.float32(1e-9)}),
        "Add": lambda: Site([node("Add", ["x", "n"], ["y"])], image | {"n": IMAGE}, feeds={"x": x, "n": -x * np.float32(1 - 2**-23)}),
        "Mul": lambda: Site([node("Mul", ["x", "n"], ["y"])], image | {"n": IMAGE}, feeds={"x": np.maximum(x, 0), "n": np.maximum(-x, 1e-8)}),
        "Sigmoid": lambda: Site([node("Concat", ["x", "x"], ["h"], axis=1), node("Sigmoid", ["h"], ["y"])], image, feeds={"x": np.minimum(x, 1) - np.float32(17)}),
    }[op]()  # fmt: skip


@pytest.mark.parametrize("op", ["GlobalAveragePool", "after Reshape", "AveragePool", "Add", "Mul", "Sigmoid"])
def test_scales_that_are_too_far_apart(weir, tmp_path, op):
    """An operator on codes would refuse their quotient, or wrap around past int32."""
    site = cancelled(op)
    source, ranges = site.write(tmp_path)
    ways = [(), QOPERATOR] + ([("--compat", "onnxruntime"), ("--compat", "onnxruntime", *QOPERATOR)] if "Pool" in op[:10] or op == "after Reshape" else [])
    for words in ways:
        said = weir.report("static", source, tmp_path / "out.onnx", "--force", "--ranges", ranges, "--op-types", "all", *words)["passes"][0]["nodes"]
        assert ("skipped", "fused_operator") in {(n["status"], n["reason"]) for n in said if n.get("node_name") == "n_y"}, words
        plain, fast = (run(tmp_path / "out.onnx", site.feeds, optimized)[0] for optimized in (False, True))
        assert decibels(plain, fast) > 40, words
        assert np.abs(plain - site.right[0]).max() < 0.02, words


SMALL_PRODUCTS = {
    "a number": lambda: ({}, {"n": np.float32(1e-6)}, IMAGE),
    "numbers": lambda: ({}, {"n": normal(4, 1, 1, by=1e-6)}, IMAGE),
    "both": lambda: ({"n": IMAGE}, {}, IMAGE),
}  # fmt: skip


@pytest.mark.parametrize("kind", SMALL_PRODUCTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_small_product_is_on_codes(weir, tmp_path, kind, form):
    """The product of both scales counts, also where one of them is that of a constant."""
    inputs, constants, dims = SMALL_PRODUCTS[kind]()
    by = np.float32(1e-6 if inputs else 1)
    site = Site([node("Mul", ["x", "n"], ["y"])], {"x": dims} | inputs, constants, feeds={name: normal(*dims) * by for name in {"x": dims} | inputs})
    path = site.quantized(weir, tmp_path, "static", "--op-types", "all", *FORMS[form])
    assert "QuantizeLinear" in operators(path)
    assert min(site.levels(path).values()) > 25


@pytest.mark.parametrize("op, by", [("GlobalAveragePool", 2.0**-15), ("AveragePool", 2.0**-24), ("Add", 2.0**-23), ("Mul", 2.0**-17), ("Sigmoid", 2.0**-25)])
def test_scales_that_are_too_far_apart_stay_in_qdq_form(weir, tmp_path, op, by):
    """requantize, to operators on codes; a scale that they can have is taken."""
    twice = op in ("Add", "Mul")
    said = {"kernel_shape": [1, 2]} if op == "AveragePool" else {}
    for scale in (by, 16 * by):
        nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["f"]),
                 node(op, ["f", "f"] if twice else ["f"], ["g"], **said), node("QuantizeLinear", ["g", "t", "z"], ["h"]),
                 node("DequantizeLinear", ["h", "t", "z"], ["y"])]  # fmt: skip
        site = Site(nodes, {"x": IMAGE}, {"s": ONE, "z": np.uint8(128), "t": np.float32(scale)})
        source, _ = site.write(tmp_path)
        passes = weir.report("requantize", source, tmp_path / "out.onnx", "--force", "--to", "qoperator")["passes"]
        reasons = {n["reason"] for p in passes for n in p["nodes"] if n.get("node_name") == "n_g"}
        assert ("scales" in reasons) == (scale == by), reasons
        assert decibels(*(run(path, site.feeds)[0] for path in (source, tmp_path / "out.onnx"))) > 30


@pytest.mark.parametrize("norm", ["LayerNormalization", "InstanceNormalization"])
def test_a_softmax_before_a_norm(weir, tmp_path, norm):
    """A step between elements that are nearly alike is all that there is for the norm: the range is what was seen."""
    nodes = [node("Softmax", ["x"], ["p"], axis=1), node(norm, ["p", "s", "b"], ["y"], epsilon=1e-5)]
    n = 8 if norm == "LayerNormalization" else 6
    site = Site(nodes, {"x": (4, 6, 8)}, {"s": 1 + np.abs(normal(n)), "b": normal(n)}, feeds={"x": normal(4, 6, 8, by=0.05)})
    for words in (("--op-types", "all"), ("--op-types", "all", "--activation-type", "int8"), ("--op-types", "all", *QOPERATOR)):
        assert min(site.levels(site.quantized(weir, tmp_path, "static", *words)).values()) > 24, words


BEFORE_NORM = {
    "Identity": lambda: node("Identity", ["p"], ["q"]),
    "Transpose": lambda: node("Transpose", ["p"], ["q"], perm=[1, 0, 2]),
    "Reshape": lambda: node("Reshape", ["p", "dims"], ["q"]),
    "Relu": lambda: node("Relu", ["p"], ["q"]),
}  # fmt: skip


@pytest.mark.parametrize("between", BEFORE_NORM)
@pytest.mark.parametrize("norm", ["LayerNormalization", "GroupNormalization"])
def test_a_softmax_before_what_goes_to_a_norm(weir, tmp_path, between, norm):
    """The same where its elements are moved on the way, and of a norm that nothing quantizes."""
    dims, more = (4, 6, 8), {"num_groups": 2} if norm == "GroupNormalization" else {}
    n = 8 if norm == "LayerNormalization" else 4 if between == "Transpose" else 6
    nodes = [node("Softmax", ["x"], ["p"], axis=1), BEFORE_NORM[between](), node(norm, ["q", "s", "b"], ["y"], epsilon=1e-5, **more)]
    site = Site(nodes, {"x": dims}, {"s": 1 + np.abs(normal(n)), "b": normal(n), "dims": ints(*dims)}, 21, feeds={"x": normal(*dims, by=0.05)})
    for words in FORMS.values():
        assert min(site.levels(site.quantized(weir, tmp_path, "static", "--op-types", "all", *words)).values()) > 23, words


def test_a_softmax_of_one_element_before_a_body_that_cannot_run(weir, tmp_path):
    """ONNX Runtime gives 0 for it on codes. Dims of what leads to such a body are not hidden from those who ask whether that happens."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
        g (float[N,3] x, bool c) => (float[p,q] y) <int64[1] minus = {-1}, int64[1] one = {1}> {
            s = Shape(x) n = Gather(s, one) most = Max(n, one) to = Concat<axis = 0>(minus, most)
            alone = Div(most, most) column = Concat<axis = 0>(minus, alone)
            g0 = MatMul(x, w) g1 = Reshape(g0, column) ones = Softmax(g1) m = Mul(x, ones) h = Reshape(m, to)
            y = If(c) <then_branch = a () => (float[m,n2] d) { k = Constant<value_ints = [5, 4]>() v = ConstantOfShape(k) d = MatMul(h, v) },
                       else_branch = b () => (float[o,r] f) { f = Relu(h) }> }""")
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 6, "c": np.array(False)}
    site = Site(list(model.graph.node), {"x": (2, 3), "c": ()}, {"minus": ints(-1), "one": ints(1), "w": normal(3, 1)}, 18, feeds=feeds)
    site.model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"  # else the runtime knows all that leads to the body
    for words in ((), QOPERATOR):
        assert min(site.levels(site.quantized(weir, tmp_path, "static", "--op-types", "all", *words)).values()) > 20, words


@pytest.mark.parametrize("kind", PASSED)
@pytest.mark.parametrize("first", ["AveragePool", "Concat"])
def test_what_passes_on_what_is_not_fused(weir, tmp_path, kind, first):
    """ONNX Runtime takes such a node away: what comes after it is not quantized either."""
    dtype = np.float16 if first == "Concat" else np.float32
    between = {**PASSING, **CLIPPING}[kind]("p", "q")
    if kind == "Cast" and first == "Concat":
        between = node("Cast", ["p"], ["q"], to=10)
    made = {"AveragePool": node("AveragePool", ["h"], ["p"], kernel_shape=[2, 2], dilations=[2, 2]),
            "Concat": node("Concat", ["h", "h"], ["p"], axis=2)}[first]  # fmt: skip
    constants = {n: np.asarray(a, dtype) for n, a in {"w": pointwise(), **NUMBERS}.items()}
    site = Site([conv("x", "w", "h"), made, between, conv("q", "w", "y")], {"x": (1, 4, 8, 8)}, constants, 21, dtype=dtype)
    for words in ((), ("--op-types", "all"), ("--op-types", "all", *QOPERATOR)):
        assert min(site.levels(site.quantized(weir, tmp_path, "static", *words)).values()) > 20, words


@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize("form", FORMS)
def test_what_passes_on_to_what_is_moved(weir, tmp_path, kind, form):
    """ONNX Runtime takes such a node away: a Transpose after it then stands after DequantizeLinear, and has codes of int8 itself."""
    nodes = [node("MatMul", ["x", "w"], ["h"]), PASSING[kind]("h", "p"), node("Dropout", ["p"], ["q"]),
             node("Transpose", ["q"], ["t"], perm=[1, 0]), node("Exp", ["t"], ["y"])]  # fmt: skip
    site = Site(nodes, {"x": (4, 4)}, {"w": normal(4, 4, by=0.3), **NUMBERS}, 21)
    for ops in ("MatMul", "all"):
        path = site.quantized(weir, tmp_path, "static", "--activation-type", "int8", "--op-types", ops, *FORMS[form])
        assert min(site.levels(path).values()) > 20, ops


def moved(a, b, name, op="Transpose", **attributes):
    return node(op, [a], [b], name=name, **(attributes or {"perm": [1, 0]}))


def product(a, w, y):
    return node("MatMul", [a, w], [y])


STAYS = {
    "itself": ([product("x", "w", "h"), moved("h", "t", "left"), node("Exp", ["t"], ["y"])], ("y",)),
    "an output": ([product("x", "w", "h"), moved("h", "t", "left")], ("t",)),
    "of an output": ([product("x", "w", "h"), moved("h", "t", "left"), node("Exp", ["t"], ["y"])], ("h", "y")),
    "of an input": ([moved("x", "t", "left"), node("Exp", ["t"], ["y"]), product("x", "w", "z")], ("y", "z")),
    "of what others take": ([product("x", "w", "h"), moved("h", "t", "left"), node("Exp", ["t"], ["y"]), product("h", "w", "z")], ("y", "z")),
    "after what goes": ([product("x", "w", "h"), node("Identity", ["h"], ["i"], name="other"), moved("i", "t", "left"),
                         node("Exp", ["t"], ["y"])], ("y",)),
    "what goes is left": ([product("x", "w", "h"), node("Identity", ["h"], ["i"], name="left"), moved("i", "t", "other"),
                           node("Exp", ["t"], ["y"])], ("y",)),
    "before a product": ([product("x", "w", "h"), moved("h", "t", "left"), product("t", "w", "y")], ("y",)),
    "before a product and more": ([product("x", "w", "h"), moved("h", "t", "left"), product("t", "w", "y"), node("Exp", ["t"], ["z"])], ("y", "z")),
}  # fmt: skip


@pytest.mark.parametrize("kind", STAYS)
@pytest.mark.parametrize("form", FORMS)
def test_what_moves_int8_and_stays_float(weir, tmp_path, kind, form):
    """No DequantizeLinear of int8 is before it: ONNX Runtime would put a Q behind it that does not load."""
    nodes, outputs = STAYS[kind]
    site = Site(nodes, {"x": (4, 4)}, {"w": normal(4, 4, by=0.3)}, 21, outputs=outputs)
    left, int8 = ("--exclude", "left"), ("--activation-type", "int8")
    ways = [(*int8, *left), (*int8, "--op-types", "all", *left), ("--compat", "onnxruntime", *left)]
    if form == "qdq":
        names = {o for n in nodes for o in n.output} | {"x"}
        (tmp_path / "int8.json").write_text(json.dumps({n: [{"quant_type": "int8"}] for n in names}))
        ways += [("--override", tmp_path / "int8.json"), (*int8, *left, "--dedicated-qdq-pair"),
                 (*int8, "--op-types-to-exclude-output-quantization", "Transpose"),
                 (*int8, "--op-types-to-exclude-output-quantization", "Transpose", "--dedicated-qdq-pair")]  # fmt: skip
        (tmp_path / "convert.json").write_text(json.dumps({"h": [{"quant_type": "uint8", "convert": {"quant_type": "int8"}}]}))
        ways += [("--override", tmp_path / "convert.json", *left)] if "of an input" != kind else []
    for words in ways:
        path = site.quantized(weir, tmp_path, "static", *FORMS[form], *words)
        assert min(site.levels(path).values()) > 25, words
        model = onnx.load(path)
        if form == "qdq":
            assert {o.domain for o in model.opset_import} == {""}
            taken = {i for n in model.graph.node for i in n.input} | {o.name for o in model.graph.output}
            assert {o for n in model.graph.node for o in n.output} | {t.name for t in model.graph.initializer} <= taken, words


DEDICATED = {
    "one stays float": [product("h", "w", "y"), moved("h", "t", "left")],
    "both stay float": [moved("h", "y", "left"), moved("h", "t", "right")],
    "taken twice": [node("Add", ["h", "h"], ["y"]), product("h", "w", "t")],
}  # fmt: skip


@pytest.mark.parametrize("kind", DEDICATED)
def test_a_pair_for_each_node_is_read(weir, tmp_path, kind):
    site = Site([product("x", "w", "h"), *DEDICATED[kind]], {"x": (4, 4)}, {"w": normal(4, 4, by=0.3)}, 21, outputs=("t", "y"))
    path = site.quantized(weir, tmp_path, "static", "--op-types", "all", "--activation-type", "int8", "--dedicated-qdq-pair",
                          "--op-types-to-exclude-output-quantization", "Transpose")  # fmt: skip
    assert min(site.levels(path).values()) > 25
    graph = onnx.load(path).graph
    taken = {i for n in graph.node for i in n.input} | {"t", "y"}
    assert {o for n in graph.node for o in n.output} | {t.name for t in graph.initializer} <= taken
    assert sum(n.input[0] == "h" and n.op_type == "QuantizeLinear" for n in graph.node) == {"one stays float": 1, "taken twice": 2}.get(kind, 0)


@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Conv", "Add", "Concat", "Sigmoid", "Softmax", "AveragePool", "GlobalAveragePool"])
def test_types_that_no_operator_takes_together(weir, tmp_path, op):
    """Overrides may give the operands of one on codes any types: where there is no such operator, it stays float."""
    w, more = {"Conv": ("w4", {}), "AveragePool": (None, {"kernel_shape": [2, 2]})}.get(op, ("w" if op in ("MatMul", "Gemm") else None, {}))
    inputs = ["h", "w" if op in ("Add", "Concat") else w] if op in ("Add", "Concat") or w else ["h"]
    more |= {"axis": 1} if op == "Concat" else {}
    dims = (4, 4) if op == "Gemm" else (1, 4, 4, 4)
    constants = {"one": ONE, "w": normal(4, 4) if op != "Concat" else normal(1, 4, 4, 4), "w4": normal(4, 4, 1, 1)}
    site = Site([node("Mul", ["x", "one"], ["h"]), node(op, inputs, ["p"], **more), node("Mul", ["p", "one"], ["y"])], {"x": dims},
                {n: constants[n] for n in {"one", *inputs} & set(constants)})  # fmt: skip
    for name in ("x", "h", "p", "y", *inputs[1:]) if ALL else ("h", "p", *inputs[1:]):
        for kind in ("int8", "uint8", "int16") if ALL else ("int8", "uint8"):
            (tmp_path / "types.json").write_text(json.dumps({name: [{"quant_type": kind}]}))
            for activation in {"uint8", "int8"} - (set() if ALL else {kind}):
                words = ("--activation-type", activation, "--op-types", "all", "--per-tensor", "--override", tmp_path / "types.json")
                site.write(tmp_path)
                done = weir("static", tmp_path / "site.onnx", tmp_path / "out.onnx", "--force", "--ranges", tmp_path / "ranges.json",
                            *QOPERATOR, *words, code=None)  # fmt: skip
                assert done.code in (0, 64) and (kind == "int16" or done.code == 0), (name, kind, activation, done.err)
                if done.code == 0:
                    assert min(site.levels(tmp_path / "out.onnx").values()) > 15, (name, kind, activation)


@pytest.mark.parametrize("pool", ["a part of a window", "the same, later"])
def test_a_pool_that_counts_otherwise_keeps_its_form(weir, tmp_path, pool):
    """requantize neither makes the operator on codes of it nor the float one of that."""
    opset, attributes = POOLS[pool]
    site = Site([conv("x", "w", "h"), node("AveragePool", ["h"], ["y"], name="pool", **attributes)], {"x": (1, 4, 8, 8)},
                {"w": pointwise()}, opset)  # fmt: skip
    path = site.quantized(weir, tmp_path, "static")
    model = onnx.load(path)
    scale, zero = numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.uint8(128), "z")
    pool_node = next(n for n in model.graph.node if n.op_type == "AveragePool")
    model.graph.initializer.extend([scale, zero])
    behind = [node("QuantizeLinear", ["y_", "s", "z"], ["yq"]), node("DequantizeLinear", ["yq", "s", "z"], ["y"])]
    pool_node.output[0] = "y_"
    model.graph.node.extend(behind)
    onnx.save(model, tmp_path / "qdq.onnx")
    weir("requantize", tmp_path / "qdq.onnx", tmp_path / "codes.onnx", "--to", "qoperator")
    assert "QLinearAveragePool" not in operators(tmp_path / "codes.onnx")


def test_indices_of_a_pool_are_no_codes(weir, tmp_path):
    nodes = [conv("x", "w", "h"), node("MaxPool", ["h"], ["p", "i"], kernel_shape=[2, 2]), conv("p", "w", "y")]
    site = Site(nodes, {"x": IMAGE}, {"w": pointwise()}, outputs=("y",))
    site.model.graph.output.append(helper.make_tensor_value_info("i", 7, None))
    site.outputs = ("y",)
    for words in ((), QOPERATOR):
        path = site.quantized(weir, tmp_path, "static", "--compat", "onnxruntime", *words)
        for optimized in (False, True):
            run(path, site.feeds, optimized)


HALVES = {
    "products": ([node("MatMul", ["x", "w"], ["h"]), node("Gemm", ["h", "v", "b"], ["y"])], (4, 8), {"w": normal(8, 8), "v": normal(8, 5), "b": normal(5)}),
    "conv": ([conv("x", "w", "h", "b"), node("Relu", ["h"], ["r"]), node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]), conv("p", "w", "y")],
             IMAGE, {"w": pointwise(), "b": normal(4)}),
    "concat": ([conv("x", "w", "h"), node("Concat", ["h", "h"], ["c"], axis=1), conv("c", "v", "y")], IMAGE,
               {"w": pointwise(), "v": normal(4, 8, 1, 1, by=0.3)}),
    "softmax": ([node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["s"]), node("MatMul", ["s", "v"], ["y"])], (4, 8),
                {"w": normal(8, 8, by=0.5), "v": normal(8, 5)}),
    "pad": ([conv("x", "w", "h"), node("Pad", ["h", "pads", "n"], ["p"]), conv("p", "w", "y")], IMAGE,
            {"w": pointwise(), "pads": ints(0, 0, 1, 1, 0, 0, 1, 1), "n": np.float32(0.5)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("opset", [13, 21])
def test_float16(weir, tmp_path, kind, opset):
    """Operators on codes take scales of float32: floats go through Casts."""
    nodes, dims, constants = HALVES[kind]
    half = {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in constants.items()}
    site = Site(nodes, {"x": dims}, half, opset, dtype=np.float16)
    for words in ((), ("--op-types", "all"), QOPERATOR, ("--op-types", "all", *QOPERATOR)):
        path = site.quantized(weir, tmp_path, "static", *words)
        assert min(site.levels(path).values()) > 20, words
        onnx.checker.check_model(path, full_check=True)
        assert weir("check", path).code == 0
    assert any(o.startswith(("QLinear", "QGemm")) for o in operators(path))


# ---- shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [[], [node("Softmax", ["h0"], ["h"])]], ids=["Gemm", "Softmax"])
def test_a_scan_behind_what_has_no_known_dims(weir, tmp_path, between):
    """Gemm gives a matrix whatever it is given; behind the operators that take its place ONNX Runtime knows no rank, and a Scan wants one."""
    element = [helper.make_empty_tensor_value_info(n) for n in "er"]
    for value in element:
        value.type.tensor_type.elem_type = 1
    body_graph = helper.make_graph([node("Relu", ["e"], ["r"])], "b", element[:1], element[1:])
    nodes = [node("Reshape", ["x", "dims"], ["l"]), node("Gemm", ["l", "w", "b"], ["h0" if between else "h"]), *between,
             node("Scan", ["h"], ["y"], body=body_graph, num_scan_inputs=1)]  # fmt: skip
    constants = {"w": normal(8, 6), "b": normal(6)}
    site = Site(nodes, {"x": (4, 8), "dims": (2,)}, constants, feeds={"dims": ints(4, 8)})
    site.model.graph.input[1].type.tensor_type.shape.dim[0].ClearField("dim_value")
    for way in (("static", *QOPERATOR, "--op-types", "all"), ("dynamic",), ("dynamic", "--form", "integer")):
        assert min(site.levels(site.quantized(weir, tmp_path, *way)).values()) > 18, way
    qdq = site.quantized(weir, tmp_path, "static", "--op-types", "all")
    weir("requantize", qdq, tmp_path / "codes.onnx", "--to", "qoperator")
    assert min(site.levels(tmp_path / "codes.onnx").values()) > 18


def test_norms_that_share_all_of_their_vectors(weir, tmp_path):
    """What makes room for their biases does not grow with their number: the edit log of twice the nodes has twice the bytes."""
    bytes_of = {}
    for n in (40, 80):
        nodes, ranges = [], {"r0": [-3, 3]}
        for i in range(n):
            nodes += [conv(f"r{i}", "w", f"c{i}"), node("BatchNormalization", [f"c{i}", "s", "t", "t", "s"], [f"b{i}"]),
                      node("Relu", [f"b{i}"], [f"r{i + 1}"])]  # fmt: skip
            ranges |= {f"c{i}": [-3, 3 + i], f"b{i}": [-3, 4 + i], f"r{i + 1}": [0, 4 + i]}
        site = Site(nodes, {"r0": IMAGE}, {"w": pointwise(), "s": np.ones(4, np.float32), "t": np.ones(4, np.float32)}, outputs=(f"r{n}",))
        onnx.save(site.model, tmp_path / "site.onnx")
        (tmp_path / "ranges.json").write_text(json.dumps(ranges))
        weir("static", tmp_path / "site.onnx", tmp_path / "o.onnx", "--force", "--ranges", tmp_path / "ranges.json", "--op-types", "all",
             "--edit-log", tmp_path / "log")  # fmt: skip
        bytes_of[n] = (tmp_path / "log").stat().st_size
    assert bytes_of[80] < 2.3 * bytes_of[40]


@pytest.mark.parametrize("missing", range(1, 5))
def test_a_norm_that_lacks_an_input(weir, tmp_path, missing):
    """No value is asked for what was given to it: it took all memory that there was."""
    inputs = ["h", "s", "t", "t", "s"]
    inputs[missing] = ""
    graph = helper.make_graph(
        [conv("x", "w", "h"), node("BatchNormalization", inputs, ["y"])], "g", [helper.make_tensor_value_info("x", 1, IMAGE)],
        [helper.make_tensor_value_info("y", 1, IMAGE)],
        [numpy_helper.from_array(a, n) for n, a in (("w", pointwise()), ("s", normal(4) ** 2 + 1), ("t", normal(4)))])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    (tmp_path / "r.json").write_text('{"x": [-3, 3], "h": [-3, 3], "y": [-3, 3]}')
    limit = f"ulimit -d {1 << 20}; exec"  # kilobytes
    for words in ("", "--compat onnxruntime"):
        line = f"{limit} {weir.path} static m.onnx o.onnx --force --ranges r.json --op-types all {words}"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode in (0, 65), done.stderr


# ---- values that bodies take -------------------------------------------------------------------------

LOAD_ALL = "import sys, onnxruntime\nfor path in sys.argv[1:]:\n    onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])\n"
MOVERS = {
    "MaxPool": {"kernel_shape": [1]},
    "Reshape": ints(1, 4, 8),
    "Slice": (ints(0), ints(3), ints(1)),
    "Squeeze": ints(0),
    "Transpose": {"perm": [0, 2, 1]},
    "Unsqueeze": ints(0),
}


def taken_by_bodies(op, passes=()):
    """h ─ op ─ … ─ If { Relu, Neg }, whose condition the runtime does not know."""
    more = MOVERS[op]
    attributes = more if isinstance(more, dict) else {}
    constants = {} if attributes else {f"k{i}": a for i, a in enumerate(more if isinstance(more, tuple) else (more,))}
    nodes = [node("MatMul", ["x", "w"], ["h"]), node(op, ["h", *constants], ["m0"], **attributes)]
    for i, other in enumerate(passes):
        nodes.append(node(other, [f"m{i}"], [f"m{i + 1}"]))
    outer = f"m{len(passes)}"
    bodies = {}
    for branch, does in (("then_branch", "Relu"), ("else_branch", "Neg")):
        out = helper.make_tensor_value_info(branch, onnx.TensorProto.FLOAT, None)
        bodies[branch] = helper.make_graph([node(does, [outer], [branch])], branch, [], [out])
    nodes += [node("ReduceMax", ["x"], ["most"], keepdims=0), node("Greater", ["most", "zero"], ["is"]), node("If", ["is"], ["y"], **bodies)]
    constants.update({"w": normal(4, 4), "zero": np.float32(0)})
    return Site(nodes, {"x": (1, 8, 4)}, constants, 17)


def test_values_that_a_body_takes_moved(weir, tmp_path):
    """ONNX Runtime 1.31.1 aborts where it would put a Q and a DQ between what moves a value and an If, Loop or Scan that takes it inside."""
    paths, sites = [], {op: taken_by_bodies(op) for op in MOVERS}
    sites["chain"] = taken_by_bodies("Reshape", ("Identity", "Transpose"))
    for name, site in sites.items():
        for form, words in FORMS.items():
            for which, ops in (("some", ()), ("all", ("--op-types", "all"))):
                folder = tmp_path / name / form / which
                folder.mkdir(parents=True)
                paths.append(site.quantized(weir, folder, "static", *words, *ops))
    done = subprocess.run([sys.executable, "-c", LOAD_ALL, *paths], capture_output=True, text=True)  # in a process that may abort
    assert done.returncode == 0, done.stderr[-500:]
    assert all(min(sites[path.relative_to(tmp_path).parts[0]].levels(path).values()) > 20 for path in paths)
    assert {n.op_type for n in onnx.load(tmp_path / "Transpose/qoperator/all" / paths[0].name).graph.node} >= {"QLinearMatMul"}
