"""Random models through static (both forms), dynamic and requantize: each loads, computes the same with and without ONNX Runtime's
optimizations and as float operators between Q and DQ, and is as near to the float model as 8 bits allow (quantized_graphs.py).

A hundred models a form in the ordinary run, 2000 with WEIR_TEST_ALL. The judge is shown models with something wrong, too.
"""

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import exact_products
import int8_graphs
import quantized_graphs
from conftest import ALL

pytestmark = pytest.mark.in_memory

MODELS = 2000 if ALL else 100
TABLE = Path(__file__).resolve().parents[2] / "src" / "passes" / "int8_static" / "inside" / "static_ops.def"
DYNAMIC = {"LSTM", "Attention", "EmbedLayerNormalization", "MatMul", "Gemm", "Gather", "Conv", "Transpose"}


@pytest.fixture(scope="module")
def found(weir):
    return quantized_graphs.run_forms(weir.path, MODELS, jobs=os.cpu_count())


def test_no_model_is_wrong(found):
    assert all(found.models[form] == MODELS for form in quantized_graphs.FORMS)
    assert not found.wrong, "\n".join(quantized_graphs.told(found))
    assert found.unjudged.total() < 0.05 * found.models.total(), found.unjudged


def test_weights_that_are_computed_in_many_steps(weir):
    """A Gemm with alpha and beta, room for its bias and a least range, one within another."""
    found = quantized_graphs.run_many(weir.path, "qoperator", [40216])
    assert found.models["qoperator"] == 1 and not found.wrong


def test_every_operator_is_drawn_and_written(found):
    """Of the float models: every row of static's table, and what dynamic takes; of the quantized ones the usual operators on codes."""
    rows = set(re.findall(r'^STATIC_OP\("(\w+)"', TABLE.read_text(), re.M)) - {"DequantizeLinear", "QuantizeLinear"}
    made = {op for _, operators, _ in int8_graphs.PIECES.values() for op in operators}
    assert rows | DYNAMIC <= made
    assert {op for op in rows | DYNAMIC if found.operators[op] == 0} == set()
    written = {op for (form, op), n in found.made.items() if form != "qdq"}
    assert {"QLinearConv", "QLinearMatMul", "QGemm", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearSoftmax", "DynamicQuantizeMatMul",
            "MatMulInteger", "ConvInteger", "DynamicQuantizeLSTM", "QAttention"} <= written  # fmt: skip


def test_models_are_of_their_seeds():
    """And of all kinds: opsets, floats, numbers of dims."""
    cases = [int8_graphs.random_model(seed) for seed in range(120)]
    again = [int8_graphs.random_model(seed) for seed in range(0, 120, 10)]
    assert [c.model.SerializeToString() for c in cases[::10]] == [c.model.SerializeToString() for c in again]
    assert all((x == y.feeds[name]).all() for c, y in zip(cases[::10], again) for name, x in c.feeds.items())
    assert {c.model.opset_import[0].version for c in cases} == set(int8_graphs.OPSETS)
    assert {x.ndim for c in cases for n, x in c.feeds.items() if n.startswith("x")} == {1, 2, 3, 4, 5}
    assert {x.dtype.name for c in cases for n, x in c.feeds.items() if n.startswith("x")} == {"float32", "float16"}


# ---- the judge


def constant_of(model, name):
    return next((t for t in model.graph.initializer if t.name == name), None)


def wider_scale(model):
    """The last DequantizeLinear reads another scale than the QuantizeLinear before it."""
    node = [n for n in model.graph.node if n.op_type == "DequantizeLinear" and constant_of(model, n.input[1])][-1]
    scale = numpy_helper.to_array(constant_of(model, node.input[1]))
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(scale * scale.dtype.type(1.6)), "control"))
    node.input[1] = "control"


def other_weight(model):
    """The codes of the largest constant are in another order."""
    tensor = max((t for t in model.graph.initializer if t.data_type in (2, 3)), key=lambda t: np.prod(t.dims))
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[::-1].copy(), tensor.name))


def no_bias(model):
    tensor = next(t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT32 and len(t.dims))
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) - 2**20, tensor.name))


def spoiled(weir, spoil):
    """weir, whose models then have something wrong; what cannot be spoiled so is not judged."""

    def call(words, source, out):
        if weir(words[0], source, out, *words[1:], "--quiet", code=None).code:
            return quantized_graphs.REFUSED[0]
        model = onnx.load(out)
        try:
            spoil(model)
        except (IndexError, ValueError, StopIteration):
            return ""
        onnx.save(model, out)
        return ""

    return call


CONTROLS = [("qdq", ["binary"], wider_scale), ("qoperator", ["activation", "binary"], wider_scale), ("dynamic", ["matmul"], other_weight),
            ("qdq", ["conv"], no_bias)]  # fmt: skip


@pytest.mark.parametrize("form, pieces, spoil", CONTROLS, ids=lambda x: x.__name__ if callable(x) else "")
def test_a_wrong_model_is_found_and_shrunk(weir, form, pieces, spoil):
    found = quantized_graphs.run_many(spoiled(weir, spoil), form, range(10), only=pieces)
    assert len(found.wrong) >= 3
    nodes = [len(re.findall(r"^ +(?:\[\w*\] )?[\w, ]+ = [\w.]+ ?[<(]", text, re.M)) for _, _, _, text in found.wrong]
    assert 1 <= min(nodes) <= 2


def products(as_pairs):
    """Of the largest codes: in 16 bits their sums are cut off."""
    codes, weights = np.full((2, 8), 255, np.uint8), np.tile(np.int8([127, -127]), (8, 1))
    scale, y_scale = numpy_helper.from_array(np.float32(0.5), "s"), numpy_helper.from_array(np.float32(1000), "ys")
    held = [scale, y_scale, numpy_helper.from_array(np.uint8(128), "z"), numpy_helper.from_array(np.int8(0), "wz"), numpy_helper.from_array(weights, "w")]
    if as_pairs:
        nodes = [helper.make_node("DequantizeLinear", [x, "s", z], [f"{x}_f"]) for x, z in (("x", "z"), ("w", "wz"))]
        nodes += [helper.make_node("MatMul", ["x_f", "w_f"], ["p"]), helper.make_node("QuantizeLinear", ["p", "ys", "z"], ["y"])]
    else:
        nodes = [helper.make_node("QLinearMatMul", ["x", "s", "z", "w", "s", "wz", "ys", "z"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, (2, 8))],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, (2, 2))], held)  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    right = np.rint((codes.astype(np.float64) - 128) @ weights * 0.25 / 1000) + 128
    return model, codes, right.astype(np.uint8)


@pytest.mark.parametrize("as_pairs", [False, True])
def test_products_are_exact_on_every_processor(as_pairs):
    model, codes, right = products(as_pairs)
    changed = onnx.load_model_from_string(exact_products.exact(model.SerializeToString()))
    onnx.checker.check_model(changed)
    assert {t.data_type for t in changed.graph.initializer} == {onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8}
    for one in (changed, model):
        for optimized in (False, True):
            assert (int8_graphs.session(one, optimized).run(None, {"x": codes})[0] == right).all()


def test_what_is_a_step_apart_and_what_is_more():
    """Two ways to compute one model may differ by a step, or have 30 dB."""
    x = np.linspace(-1, 1, 256, dtype=np.float32)
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [256])],
        [helper.make_tensor_value_info("y", 1, [256])]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    judge = quantized_graphs.Judge(model, {"x": x}, {"x": x, "y": np.maximum(x, 0)})
    y = np.maximum(x, 0)
    step = np.float32(1 / 255)
    assert judge.same(model, [y], [y + step]) == [] and judge.near(model, [y + step]) == []
    assert judge.same(model, [y], [y + 9 * step]) and judge.near(model, [y * 2])
    assert judge.same(model, [y], [y[:9]]) and judge.near(model, [y.astype(np.float64)])


@pytest.mark.parametrize("pads, otherwise", [([0, 2, 0, 2], True), ([0, 1, 0, 1], False)])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_only_pools_of_other_dims_may_not_load(op, pads, otherwise):
    """ONNX Runtime infers a window that would begin in the pads, and computes none."""
    pool = helper.make_node(op, ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 2], pads=pads, ceil_mode=1)
    graph = helper.make_graph([pool], "g", [helper.make_tensor_value_info("x", 1, [1, 1, 4, 4])], [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = np.ones((1, 1, 4, 4), np.float32)
    y = quantized_graphs.session(model).run(None, {"x": x})[0]
    assert quantized_graphs.infers_other_dims(model, {"x": x, "y": y}) == otherwise


def test_the_simulation_has_the_range_that_is_asked_for():
    """Numbers far below it have few codes, in the simulation too."""
    x = np.linspace(-1e-5, 1e-5, 64, dtype=np.float32)
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [64])],
        [helper.make_tensor_value_info("y", 1, [64])]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    plain, least = (quantized_graphs.Judge(model, {"x": x}, {"x": x, "y": -x}, words) for words in ((), ["--minimum-real-range", "0.001"]))
    assert plain.simulated_db(0) > 30 > 20 > least.simulated_db(0)
