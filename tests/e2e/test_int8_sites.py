"""Single operators in int8: what static, dynamic and requantize write means what was there, loads, and stays near the float model.

Each test is about a question that is asked of every operator that these commands write or put in a frame of Q and DQ: what an attribute
that is not written means there, what ONNX Runtime makes of it when it loads, which numbers lie outside of ranges.
"""

import os
import re

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from int8_sites import Site, node, operators

pytestmark = pytest.mark.in_memory

ALL = os.environ.get("WEIR_TEST_ALL", "0") == "1"
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
        "transposed conv": lambda: Site([node("Mul", ["v", "one"], ["w"]), node("ConvTranspose", ["x", "w", "b"], ["y"])], computed,
                                        {"b": BIAS, "one": ONE}, feeds={"v": w}),
        "two of them": lambda: Site([node("Cast", ["h"], ["w"], to=1), conv("x", "w", "g", "small"), conv("z", "w", "y", "b")],
                                    {"x": IMAGE, "z": IMAGE}, {"h": w.astype(np.float16), "b": BIAS, "small": BIAS * np.float32(0.01)},
                                    outputs=("g", "y")),
        "two of a constant": lambda: Site([conv("x", "w", "g", "small"), conv("z", "w", "y", "b")], {"x": IMAGE, "z": IMAGE},
                                          {"w": w, "b": BIAS, "small": BIAS * np.float32(0.01)}, outputs=("g", "y")),
    }[kind]()  # fmt: skip


@pytest.mark.parametrize("kind", ["cast", "input", "computed", "moved", "reshaped", "clipped", "gemm", "transposed conv", "two of them",
                                  "two of a constant"])  # fmt: skip
def test_codes_of_a_bias_fit(weir, tmp_path, kind):
    """The scale of the weight's values grows, whatever makes them; all else that was made by it too."""
    ways = [(), ("--activation-type", "uint16"), ("--activation-type", "uint16", "--quantize-bias", "false"), QOPERATOR]
    ways += [("--op-types", "all"), (*QOPERATOR, "--op-types", "all")] if kind in ("moved", "reshaped", "clipped") or ALL else []
    for by in (1.0, 1e-5):
        site = biased(kind, by)
        for words in ways:
            assert min(site.levels(site.quantized(weir, tmp_path, "static", *words)).values()) > 25, (by, words)


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
