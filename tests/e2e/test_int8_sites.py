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

from int8_sites import Site, decibels, node, operators, run

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
