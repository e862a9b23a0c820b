"""Weights that nodes make of constants: a Cast from what is stored in fewer bits, Transpose, Reshape and their kind.

Every command that looks for weights does with them what it does with the same model whose weight is an initializer: the results give the
same numbers, and the nodes go with their last use.
"""

import json
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import sampled

pytestmark = pytest.mark.in_memory

ROWS, COLUMNS = 64, 32
node = helper.make_node


def normal(*dims):
    return (np.random.default_rng([3, *dims]).normal(0, 1, dims)).astype(np.float32)


def cast(to=TensorProto.FLOAT):
    return lambda x, y: [node("Cast", [x], [y], name=y + "_cast", to=to)]


def transpose(*perm):
    return lambda x, y: [node("Transpose", [x], [y], perm=perm)]


def with_ints(op, *numbers):
    return lambda x, y: [node("Constant", [], [y + "_n"], value_ints=list(numbers)), node(op, [x, y + "_n"], [y])]


def alone(op, **attributes):
    return lambda x, y: [node(op, [x], [y], **attributes)]


def narrowed(w, dtype):
    if dtype == TensorProto.BFLOAT16:
        return (w.view(np.uint32) & 0xFFFF0000).view(np.float32)
    return w.astype(helper.tensor_dtype_to_np_dtype(dtype)).astype(np.float32)


FLOAT, HALF, BRAIN, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE
# What is stored of a weight of two dims, as what, and the steps from there to the weight.
WAYS = {
    "float16": (HALF, lambda w: w, [cast()]),
    "bfloat16": (BRAIN, lambda w: w, [cast()]),
    "double": (DOUBLE, lambda w: w, [cast()]),
    "transposed": (FLOAT, lambda w: w.T, [transpose(1, 0)]),
    "reshaped": (FLOAT, lambda w: w.reshape(-1), [with_ints("Reshape", -1, COLUMNS)]),
    "squeezed": (FLOAT, lambda w: w[None], [with_ints("Squeeze", 0)]),
    "flattened": (FLOAT, lambda w: w.reshape(ROWS, 4, -1), [alone("Flatten", axis=1)]),
    "a long way": (HALF, lambda w: w.T.reshape(1, COLUMNS, 8, -1), [with_ints("Squeeze", 0), alone("Identity"), cast(DOUBLE), with_ints("Reshape", 0, -1), cast(), transpose(1, 0)]),
}


def stored(name, array, dtype):
    if dtype == BRAIN:
        return helper.make_tensor(name, BRAIN, array.shape, (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16).tobytes(), raw=True)
    return numpy_helper.from_array(np.ascontiguousarray(array).astype(helper.tensor_dtype_to_np_dtype(dtype)), name)


def values(name, *dims):
    return helper.make_tensor_value_info(name, FLOAT, dims)


def chain(steps, first, last):
    names = [first, *(f"{last}_{i}" for i in range(1, len(steps))), last]
    return [n for step, x, y in zip(steps, names, names[1:]) for n in step(x, y)]


def matmul(way):
    """The model with the weight made on the way, and with an initializer of the same numbers."""
    dtype, arrange, steps = WAYS[way]
    w = narrowed(normal(ROWS, COLUMNS), dtype)
    product = node("MatMul", ["x", "w"], ["y"], name="mm")
    ends = [values("x", "n", ROWS)], [values("y", "n", COLUMNS)]
    made = helper.make_graph([*chain(steps, "stored", "w"), product], "g", *ends, [stored("stored", arrange(w), dtype)])
    plain = helper.make_graph([product], "g", *ends, [numpy_helper.from_array(w, "w")])
    return made, plain


def conv(way):
    dtype, arrange, steps = WAYS[way]
    w = narrowed(normal(ROWS, COLUMNS), dtype)
    product = node("Conv", ["x", "w"], ["y"], name="cc")
    ends = [values("x", "n", COLUMNS, "t")], [values("y", "n", ROWS, "t")]
    steps = [*steps, with_ints("Unsqueeze", 2)]
    made = helper.make_graph([*chain(steps, "stored", "w"), product], "g", *ends, [stored("stored", arrange(w), dtype)])
    plain = helper.make_graph([product], "g", *ends, [numpy_helper.from_array(w[:, :, None], "w")])
    return made, plain


def save(graph, path, opset=17, ir=8):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def run(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def operators(path):
    return Counter(n.op_type for n in onnx.load(path).graph.node)


def ranges(weir, model, x, tmp_path, *words):
    np.savez(tmp_path / "sample.npz", x=x)
    weir("calibrate", model, "-o", tmp_path / f"{model.stem}.jsonl", "--data", tmp_path / "sample.npz", *words)
    return tmp_path / f"{model.stem}.jsonl"


COMMANDS = {
    "quantize": (matmul, ("quantize", "--block-size", "32"), None),
    "quantize qdq": (matmul, ("quantize", "--block-size", "32", "--format", "qdq"), None),
    "dynamic": (matmul, ("dynamic",), None),
    "dynamic of Conv": (conv, ("dynamic", "--op-types", "Conv"), None),
    "static": (matmul, ("static", "--reduce-range"), ()),
    "static on codes": (matmul, ("static", "--reduce-range", "--format", "qoperator"), ()),
    "static of Conv": (conv, ("static", "--reduce-range"), ()),
    "smooth": (matmul, ("smooth",), ("--statistics", "channel")),
    "conv2matmul": (conv, ("conv2matmul",), None),
}


def commanded(weir, tmp_path, model, words, calibrated, x):
    more = () if calibrated is None else ("--ranges", ranges(weir, model, x, tmp_path, *calibrated))
    out = tmp_path / f"{model.stem}.out.onnx"
    weir(words[0], model, out, *words[1:], *more)
    return out


@pytest.mark.parametrize("command, way", sampled(COMMANDS, WAYS, every=2))
def test_a_weight_that_nodes_make(weir, tmp_path, command, way):
    graphs, words, calibrated = COMMANDS[command]
    x = normal(5, ROWS) if graphs is matmul else normal(2, COLUMNS, 5)
    made, plain = (save(g, tmp_path / f"{name}.onnx") for g, name in zip(graphs(way), ("made", "plain")))
    got, wanted = (commanded(weir, tmp_path, m, words, calibrated, x) for m in (made, plain))
    onnx.checker.check_model(str(got), full_check=True)
    left = operators(got)
    if command == "conv2matmul":  # what is stored in fewer bits stays so
        left["Cast"] -= WAYS[way][0] in (HALF, BRAIN)
    assert +left == operators(wanted)
    for a, b in zip(run(got, x), run(wanted, x)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("way", ["float16", "bfloat16", "double"])
@pytest.mark.parametrize("form", ["cast-mul-add", "dequantize"])
def test_shrink_takes_the_cast_with_the_weight(weir, tmp_path, form, way):
    x = normal(5, ROWS)
    made, plain = (save(g, tmp_path / f"{name}.onnx") for g, name in zip(matmul(way), ("made", "plain")))
    outs = []
    for model in (made, plain):
        outs.append(tmp_path / f"{model.stem}.out.onnx")
        weir("shrink", model, "-o", outs[-1], "--min-elements", "16", "--form", form)
    if way != "double":  # which is a type of its own
        assert operators(outs[0]) == operators(outs[1])
        np.testing.assert_array_equal(run(outs[0], x)[0], run(outs[1], x)[0])
    np.testing.assert_allclose(run(outs[0], x)[0], run(made, x)[0], atol=0.5)


def test_what_is_computed_stays(weir, tmp_path):
    """The weight is a sum: nodes compute it, and no command takes it."""
    w = normal(ROWS, COLUMNS)
    nodes = [node("Add", ["a", "a"], ["w"]), node("MatMul", ["x", "w"], ["y"], name="mm")]
    model = save(helper.make_graph(nodes, "g", [values("x", "n", ROWS)], [values("y", "n", COLUMNS)], [numpy_helper.from_array(w, "a")]), tmp_path / "m.onnx")
    out = tmp_path / "o.onnx"
    for command in ("quantize", "dynamic"):
        weir(command, model, out, "-f", "--report-json", tmp_path / "r.json")
        report = json.loads((tmp_path / "r.json").read_text())
        assert [n["reason"] for n in report["passes"][0]["nodes"]] == ["non_constant_weight"]


def test_nothing_changes_where_the_weight_is_left_alone(weir, tmp_path):
    made, _ = matmul("float16")
    model = save(made, tmp_path / "m.onnx")
    out, log = tmp_path / "o.onnx", tmp_path / "log.jsonl"
    done = weir("quantize", model, out, "--exclude", "mm", "--edit-log", log, "--copy")
    assert "nothing changed" in done.said
    assert onnx.load(out) == onnx.load(model)
    assert json.loads(log.read_text().splitlines()[-1])["edits"] == 0


def test_the_log_says_what_was_seen_and_replays(weir, tmp_path):
    made, _ = matmul("a long way")
    model = save(made, tmp_path / "m.onnx")
    out, log, again = tmp_path / "o.onnx", tmp_path / "log.jsonl", tmp_path / "again.onnx"
    weir("quantize", model, out, "--edit-log", log)
    seen = [line for line in map(json.loads, log.read_text().splitlines()) if line.get("edit") == "see"]
    assert [(line["value"].split(":")[1], line["dtype"], line["dims"]) for line in seen] == [("w_5", "float", [COLUMNS, ROWS])]
    weir("replay", log, model, again)
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize("command", ["quantize", "dynamic"])
def test_codes_are_compared_with_what_nodes_made(weir, tmp_path, command):
    """The stored tensor has the dims of the weight's transpose, and is not that: verify must know what the Reshape makes."""
    w = normal(COLUMNS, ROWS)
    nodes = [*with_ints("Reshape", ROWS, COLUMNS)("stored", "w"), node("MatMul", ["x", "w"], ["y"], name="mm")]
    model = save(helper.make_graph(nodes, "g", [values("x", "n", ROWS)], [values("y", "n", COLUMNS)], [stored("stored", w, FLOAT)]), tmp_path / "m.onnx")
    out, log = tmp_path / "o.onnx", tmp_path / "log.jsonl"
    weir(command, model, out, "--edit-log", log)
    weir("verify", model, out, "--edits", log)


def test_tied_weights_are_quantized_once(weir, tmp_path):
    """W2 = Identity(W), where both are used: what TorchScript writes for tied weights."""
    nodes = [node("Identity", ["w"], ["tied"]), node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["h", "tied"], ["y"], name="mm")]
    w = normal(ROWS, ROWS) / 8
    model = save(helper.make_graph(nodes, "g", [values("x", "n", ROWS)], [values("y", "n", ROWS)], [numpy_helper.from_array(w, "w")]), tmp_path / "m.onnx")
    x = normal(5, ROWS)
    r = ranges(weir, model, x, tmp_path)
    out = tmp_path / "o.onnx"
    for form in ("qdq", "qoperator"):
        weir("static", model, out, "--ranges", r, "--format", form, "--reduce-range", "-f")
        sizes = [t for t in onnx.load(out).graph.initializer if list(t.dims) == [ROWS, ROWS]]
        assert [t.data_type for t in sizes] == [TensorProto.INT8]
        a, b = run(model, x)[0], run(out, x)[0]
        assert 10 * np.log10((a**2).sum() / ((a - b) ** 2).sum()) > 25


@pytest.mark.parametrize("step", ["Flatten", "Squeeze"])
def test_static_raises_an_old_opset_for_channels(weir, tmp_path, step):
    """A scale a channel needs opset 13; nodes that would be in the way of that, as a Squeeze with an attribute is, go before."""
    w = normal(ROWS, COLUMNS)
    steps = {"Flatten": (w.reshape(ROWS, 4, -1), alone("Flatten", axis=1)), "Squeeze": (w[None], alone("Squeeze", axes=[0]))}
    array, made = steps[step]
    nodes = [*made("stored", "w"), node("MatMul", ["x", "w"], ["y"], name="mm")]
    ends = [values("x", "n", ROWS)], [values("y", "n", COLUMNS)]
    model = save(helper.make_graph(nodes, "g", *ends, [stored("stored", array, FLOAT)]), tmp_path / "made.onnx", opset=11)
    plain = save(helper.make_graph(nodes[-1:], "g", *ends, [numpy_helper.from_array(w, "w")]), tmp_path / "plain.onnx", opset=11)
    x = normal(5, ROWS)
    got, wanted = (commanded(weir, tmp_path, m, ("static", "--reduce-range"), (), x) for m in (model, plain))
    onnx.checker.check_model(str(got), full_check=True)
    assert operators(got) == operators(wanted)
    np.testing.assert_array_equal(run(got, x)[0], run(wanted, x)[0])


def test_static_knows_a_weight_by_its_name_that_others_read_too(weir, tmp_path):
    made, _ = matmul("float16")
    made.output.append(values("w", ROWS, COLUMNS))
    model = save(made, tmp_path / "m.onnx")
    out = commanded(weir, tmp_path, model, ("static", "--reduce-range", "--include", "w"), (), normal(5, ROWS))
    assert operators(out)["QuantizeLinear"] == 2


@pytest.mark.parametrize("also", [[], ["w"]], ids=["alone", "read by others"])
def test_static_leaves_what_stays_float_in_fewer_bits(weir, tmp_path, also):
    """Without a range nothing is quantized: the model holds no more than before."""
    made, _ = matmul("float16")
    made.output.extend(values(name, ROWS, COLUMNS) for name in also)
    model = save(made, tmp_path / "m.onnx")
    x = normal(5, ROWS)
    r = ranges(weir, model, x, tmp_path, "--exclude", "x")
    out, log, again = tmp_path / "o.onnx", tmp_path / "log.jsonl", tmp_path / "again.onnx"
    weir("static", model, out, "--ranges", r, "--format", "qoperator", "--edit-log", log)
    onnx.checker.check_model(str(out), full_check=True)
    assert operators(out) == {"Cast": 1, "MatMul": 1}
    assert [(t.data_type, list(t.dims)) for t in onnx.load(out).graph.initializer] == [(HALF, [ROWS, COLUMNS])]
    np.testing.assert_array_equal(run(out, x)[0], run(model, x)[0])
    weir("replay", log, model, again)
    assert again.read_bytes() == out.read_bytes()


def test_smooth_in_an_old_model(weir, tmp_path):
    """Below IR version 4 an initializer is an input too: those that come would be none."""
    nodes = [node("Transpose", ["stored"], ["w"]), node("MatMul", ["x", "w"], ["y"], name="mm")]
    w, x = normal(ROWS, COLUMNS), normal(5, ROWS)
    graph = helper.make_graph(nodes, "g", [values("x", "n", ROWS), values("stored", COLUMNS, ROWS)], [values("y", "n", COLUMNS)], [stored("stored", w.T, FLOAT)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=3)
    onnx.save(model, tmp_path / "m.onnx")
    out = commanded(weir, tmp_path, tmp_path / "m.onnx", ("smooth",), ("--statistics", "channel"), x)
    onnx.checker.check_model(str(out), full_check=True)
    np.testing.assert_allclose(run(out, x)[0], x @ w, atol=1e-4)


def test_convs_share_what_is_stored_in_fewer_bits(weir, tmp_path):
    """One Cast for all that use the weight, as there was."""
    made, _ = conv("float16")
    made.node.append(node("Conv", ["x", "w"], ["z"], name="dd"))
    made.output.append(values("z", "n", ROWS, "t"))
    model = save(made, tmp_path / "m.onnx")
    weir("conv2matmul", model, tmp_path / "o.onnx")
    assert operators(tmp_path / "o.onnx")["MatMul"] == 2
    assert operators(tmp_path / "o.onnx")["Cast"] == 1


@pytest.mark.parametrize("step", ["Transpose", "Reshape"])
def test_codes_are_moved_with_what_their_operator_says(weir, tmp_path, step):
    """The DequantizeLinear gives another type than its scales have, and its codes have no operator: it stays, before the MatMul."""
    codes = helper.make_tensor("codes", TensorProto.INT4, (COLUMNS, ROWS), np.random.default_rng(3).integers(-8, 8, COLUMNS * ROWS))
    move = {"Transpose": alone("Transpose"), "Reshape": with_ints("Reshape", ROWS, COLUMNS)}[step]
    nodes = [node("DequantizeLinear", ["codes", "scale"], ["d"], output_dtype=FLOAT), *move("d", "w"), node("MatMul", ["x", "w"], ["y"], name="mm")]
    held = [codes, numpy_helper.from_array(np.float16(0.1), "scale")]
    model = save(helper.make_graph(nodes, "g", [values("x", "n", ROWS)], [values("y", "n", COLUMNS)], held), tmp_path / "m.onnx", opset=23, ir=11)
    out = tmp_path / "o.onnx"
    weir("requantize", model, out, "--to", "qoperator")
    onnx.checker.check_model(str(out), full_check=True)
    assert operators(out) == {"DequantizeLinear": 1, "MatMul": 1}
    assert len(onnx.load(out).graph.initializer) == 2
    x = normal(5, ROWS)
    np.testing.assert_array_equal(run(out, x)[0], run(model, x)[0])


def test_the_shape_goes_with_the_nodes(weir, tmp_path):
    nodes = [node("Identity", ["shape"], ["sizes"]), node("Reshape", ["stored", "sizes"], ["w"]), node("MatMul", ["x", "w"], ["y"], name="mm")]
    held = [stored("stored", normal(ROWS * COLUMNS), FLOAT), numpy_helper.from_array(np.array([ROWS, COLUMNS]), "shape")]
    model = save(helper.make_graph(nodes, "g", [values("x", "n", ROWS)], [values("y", "n", COLUMNS)], held), tmp_path / "m.onnx")
    out = tmp_path / "o.onnx"
    weir("quantize", model, out)
    assert operators(out) == {"MatMulNBits": 1}
    assert not {t.name for t in onnx.load(out).graph.initializer} & {"stored", "shape"}


def test_many_dims(weir, tmp_path):
    """More axes than an int has bits."""
    w = normal(ROWS, COLUMNS)
    steps = [with_ints("Unsqueeze", *range(40)), alone("Transpose"), alone("Squeeze"), transpose(1, 0)]
    graph = helper.make_graph([*chain(steps, "stored", "w"), node("MatMul", ["x", "w"], ["y"], name="mm")], "g", [values("x", "n", ROWS)], [values("y", "n", COLUMNS)], [stored("stored", w, FLOAT)])
    model = save(graph, tmp_path / "m.onnx")
    weir("dynamic", model, tmp_path / "o.onnx")
    assert operators(tmp_path / "o.onnx") == {"DynamicQuantizeMatMul": 1}


@pytest.mark.parametrize("command", ["quantize", "dynamic"])
def test_in_a_body(weir, tmp_path, command):
    """The weight is made outside of the If whose branches use it."""
    w = normal(ROWS, COLUMNS)
    branch = helper.make_graph([node("MatMul", ["x", "w"], ["b"], name="mm")], "then", [], [values("b", "n", COLUMNS)])
    other = helper.make_graph([node("MatMul", ["x", "w"], ["c"], name="nn")], "else", [], [values("c", "n", COLUMNS)])
    nodes = [node("Cast", ["stored"], ["w"], to=FLOAT), node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["cond"]), node("If", ["cond"], ["y"], then_branch=branch, else_branch=other)]
    graph = helper.make_graph(nodes, "g", [values("x", "n", ROWS)], [values("y", "n", COLUMNS)], [stored("stored", w, HALF), numpy_helper.from_array(np.float32(0), "zero")])
    model = save(graph, tmp_path / "m.onnx")
    out, log = tmp_path / "o.onnx", tmp_path / "log.jsonl"
    weir(command, model, out, "--exclude", "nn", "--edit-log", log)
    weir("verify", model, out, "--edits", log)  # the Cast stays, of a graph around the part
    weir(command, model, out, "-f")
    assert "Cast" not in operators(out)
    for x in (normal(5, ROWS), -normal(5, ROWS)):
        a, b = run(model, x)[0], run(out, x)[0]
        assert 10 * np.log10((a**2).sum() / ((a - b) ** 2).sum()) > 15
