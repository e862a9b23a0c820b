"""requantize --format: Neural Compressor's recipes for biases, from models that have QuantizeLinear and DequantizeLinear already.

The judge is `static --format`: from the float model with the same ranges it writes the same nodes with the same tensors.
"""

import itertools
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from int8_sites import Site, node, run
from quantized_alike import alike

pytestmark = pytest.mark.in_memory

FORMATS = ["int32-bias", "fp32-bias", "fp32-bias-qdq"]
EXECUTIONS = ["qdq", "qlinear"]
RECIPES = list(itertools.product(FORMATS, EXECUTIONS))


def normal(*dims, seed=3, by=1.0):
    return (np.random.default_rng([seed, *dims]).normal(0, 1, dims) * by).astype(np.float32)


def chain(rank=2, swapped=False, row=False, shared=False, opset=17):
    """MatMul and Add three times; what one gives is quantized for the next."""
    dims = {2: (16, 8), 3: (2, 8, 8)}[rank]
    nodes, tensors, value = [], {}, "x"
    for i in range(3):
        bias = "b" if shared else f"b{i}"
        nodes.append(node("MatMul", [value, f"w{i}"], [f"h{i}"], f"m{i}"))
        pair = [bias, f"h{i}"] if swapped else [f"h{i}", bias]
        nodes.append(node("Add", pair, [f"s{i}"], f"a{i}"))
        tensors[f"w{i}"] = normal(8, 8, seed=i, by=0.4)
        tensors[bias] = normal(*((1, 8) if row else (8,)), seed=i)
        value = f"s{i}"
    nodes.append(node("MatMul", [value, "last"], ["y"], "m"))
    return Site(nodes, {"x": dims}, {**tensors, "last": normal(8, 4)}, opset)


def requantize(weir, source, *words, name="recipe.onnx"):
    """The result's path and the report's sites: {name of the node: (status, reason)}."""
    out = source.parent / name
    report = weir.report("requantize", source, out, "--force", *words)
    weir("check", out)
    onnx.checker.check_model(out)
    sites = report.get("nodes") or [s for p in report["passes"] for s in p["nodes"]]
    return out, {s["node_name"]: (s["status"], s["reason"]) for s in sites if s["op_type"] in ("MatMul", "Gemm")}


def equal_outputs(a, b, feeds):
    for optimized in (False, True):
        for x, y in zip(run(a, feeds, optimized), run(b, feeds, optimized), strict=True):
            np.testing.assert_array_equal(x, y)


def without_last(path):
    """The model without the pair of Q and DQ after its last MatMul, which has no bias: the recipes of static leave it out, requantize keeps it."""
    model = onnx.load(path)
    last = next(n for n in model.graph.node if n.name == "m")
    gone = [n for n in model.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear") and n.name.startswith("y_")]
    for n in gone:
        model.graph.node.remove(n)
    last.output[0] = "y"
    kept = {i for n in model.graph.node for i in n.input}
    tensors = [t for t in model.graph.initializer if t.name in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    onnx.save(model, path)
    return path


WAYS = {
    "plain": ({}, ()),
    "three dims": ({"rank": 3}, ()),
    "bias on the left": ({"swapped": True}, ()),
    "a row": ({"row": True}, ()),
    "one bias for all": ({"shared": True}, ()),
    "one scale": ({}, ("--per-tensor",)),
    "uint8 weights": ({}, ("--weight-type", "uint8", "--per-tensor")),
    "int8": ({}, ("--activation-type", "int8")),
    "opset 13": ({"opset": 13}, ()),
    "opset 11": ({"opset": 11}, ("--per-tensor",)),
    "of com.microsoft": ({}, ("--use-qdq-contrib-ops",)),
    "a pair for each reader": ({}, ("--dedicated-qdq-pair",)),
}


@pytest.mark.parametrize("form, execution", RECIPES)
@pytest.mark.parametrize("way", WAYS)
def test_as_static_writes_them(weir, tmp_path, way, form, execution):
    """What MatMul gives is quantized in the source, and what static writes of the float model comes out."""
    made, words = WAYS[way]
    site = chain(**made)
    recipe = ("--format", form, "--execution", execution)
    wanted = site.quantized(weir, tmp_path, "static", *words, *recipe).rename(tmp_path / "wanted.onnx")
    source = site.quantized(weir, tmp_path, "static", *words)
    assert sum(n.op_type == "QuantizeLinear" for n in onnx.load(source).graph.node) == 8
    out, sites = requantize(weir, source, *recipe)
    reason = {"int32-bias": "int32_bias"}.get(form, "float_bias" if execution == "qlinear" else "not_rounded")
    assert sites == {**{f"m{i}": ("converted", reason) for i in range(3)}, "m": ("skipped", "no_bias")}
    assert alike(without_last(out), wanted, names=False) == []
    equal_outputs(out, wanted, site.feeds)


@pytest.mark.parametrize("form, execution", RECIPES)
@pytest.mark.parametrize("how", EXECUTIONS)
@pytest.mark.parametrize("first", FORMATS[1:])
def test_from_another_recipe(weir, tmp_path, first, how, form, execution):
    """fp32-bias and fp32-bias-qdq are sources too, as QDQ and on codes."""
    site = chain()
    recipe = ("--format", form, "--execution", execution)
    source = site.quantized(weir, tmp_path, "static", "--format", first, "--execution", how).rename(tmp_path / "source.onnx")
    wanted = site.quantized(weir, tmp_path, "static", *recipe).rename(tmp_path / "wanted.onnx")
    out, sites = requantize(weir, source, *recipe)
    differences = [d for d in alike(out, wanted, names=False) if not d.startswith("opsets")]  # com.microsoft stays imported
    if execution == how == "qdq" and form != "int32-bias":
        assert sites["m0"] == ("skipped", "same_form")
    assert differences == []
    equal_outputs(out, wanted, site.feeds)


def test_a_column_for_each_word_of_a_vocabulary(weir, tmp_path):
    """More scales than a log has as numbers."""
    nodes = [node("MatMul", ["x", "w"], ["h"], "m"), node("Add", ["h", "b"], ["y"], "a")]
    site = Site(nodes, {"x": (2, 16)}, {"w": normal(16, 20000), "b": normal(20000)})
    wanted = site.quantized(weir, tmp_path, "static", "--format", "int32-bias").rename(tmp_path / "wanted.onnx")
    source = site.quantized(weir, tmp_path, "static")
    out, sites = requantize(weir, source, "--format", "int32-bias", "--edit-log", tmp_path / "log")
    assert sites["m"] == ("converted", "int32_bias") and alike(out, wanted, names=False) == []
    assert (tmp_path / "log").stat().st_size < 20000
    gemm = Site([node("Gemm", ["x", "w", "b"], ["y"], "g")], {"x": (2, 16)}, {"w": normal(16, 20000), "b": normal(20000)})
    source = gemm.quantized(weir, tmp_path, "static", "--quantize-bias", "false")
    out, sites = requantize(weir, source, "--to", "qoperator")
    assert sites["g"] == ("converted", "to_qoperator") and min(gemm.levels(out).values()) > 25


# ---- other sources ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["all", "onnxruntime"])
@pytest.mark.parametrize("form, execution", RECIPES)
def test_a_model_whose_adds_are_quantized(weir, tmp_path, form, execution, tool):
    """As quantize_static leaves them by default: the bias is codes of 8 bits, and gets those of int32 for the numbers that these stand for."""
    site = chain()
    words = ("--op-types", "all") if tool == "all" else ("--compat", "onnxruntime")
    source = site.quantized(weir, tmp_path, "static", *words)
    out, sites = requantize(weir, source, "--format", form, "--execution", execution)
    assert [sites[f"m{i}"][0] for i in range(3)] == ["converted"] * 3
    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(source).graph.initializer}
    made = onnx.load(out)
    operators = [n.op_type for n in made.graph.node]
    assert operators.count("QuantizeLinear") == 5  # the input, three sums, the last product
    if form == "int32-bias":
        held = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
        assert operators.count("MatMulInteger") == operators.count("Cast") == operators.count("Mul") == 3
        for add in (n for n in made.graph.node if n.op_type == "Add"):
            i = int(next(n for n in made.graph.node if n.output[0] == add.input[0]).name[1])
            b = (tensors[f"b{i}_quantized"].astype(np.float32) - tensors[f"b{i}_zero_point"]) * tensors[f"b{i}_scale"]
            codes = held[add.input[1]]
            exact = b.astype(np.float64) / held[f"m{i}_bias_scale"]
            assert codes.dtype == np.int32 and np.array_equal(codes, np.rint(exact))
    # Of the float model: what it keeps is no less than what the source kept, since it rounds less.
    wanted = site.right[0]
    errors = [np.abs(run(path, site.feeds)[0] - wanted).mean() for path in (source, out)]
    assert errors[1] <= errors[0] * 1.1


def trained(form, axis, transposed, opset=13, clip=False):
    """A linear layer of three dims after training, as PyTorch's TorchScript exporter writes it; the same in float, and its scales as overrides."""
    rng = np.random.default_rng(5)
    w, b = normal(6, 8, by=0.3), normal(6, seed=9)
    n = 6 if axis is not None else None
    ws = (rng.uniform(0.8, 1.2, n or 1).astype(np.float32) * np.abs(w).max() / np.float32(127)).astype(np.float32)
    xs, xz, ys, yz = np.float32(0.031), np.uint8(120), np.float32(0.04), np.uint8(131)
    zeros = np.zeros(n or 1, np.int32)
    constants = {"w": w if transposed else w.T.copy(), "b": b, "xs": xs, "xz": xz, "ys": ys, "yz": yz,
                 "ws": ws if n else ws[0], "wz32": zeros if n else zeros[0], "low": np.uint8(0), "high": np.uint8(127)}  # fmt: skip
    side = {"axis": 0 if transposed else 1} if n else {}
    last = [node("MatMul", ["xf", "wt"], ["h"], "m"), node("Add", ["b", "h"], ["s"], "a")]
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        *([node("Clip", ["q", "low", "high"], ["c"])] if clip else []),
        node("DequantizeLinear", ["c" if clip else "q", "xs", "xz"], ["xf"]),
        node("Cast", ["wz32"], ["wz"], to=TensorProto.INT8),
        node("QuantizeLinear", ["w", "ws", "wz"], ["wq"], **side),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["wf" if transposed else "wt"], **side),
        *([node("Transpose", ["wf"], ["wt"], perm=[1, 0])] if transposed else []),
        *last,
        node("QuantizeLinear", ["s", "ys", "yz"], ["yq"]),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    site = Site(nodes, {"x": (2, 5, 8)}, constants, opset)
    plain = Site([node("MatMul", ["x", "w"], ["h"], "m"), node("Add", ["b", "h"], ["s"], "a"), node("Relu", ["s"], ["y"])],
                 {"x": (2, 5, 8)}, {"w": w.T.copy(), "b": b}, opset)  # fmt: skip
    overrides = {
        "x": [{"quant_type": "uint8", "scale": float(xs), "zero_point": int(xz)}],
        "w": [{"axis": 1, "scale": float(x), "zero_point": 0} for x in ws] if n else [{"scale": float(ws[0]), "zero_point": 0}],
        "s": [{"quant_type": "uint8", "scale": float(ys), "zero_point": int(yz)}],
    }
    return site, plain, overrides


def products(path):
    """What makes the sum: the nodes after the quantized input, with the tensors that they read, in an order that names do not change."""
    model = onnx.load(path)
    tensors = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    made = []
    for n in model.graph.node:
        if n.op_type in ("Relu", "QuantizeLinear", "DequantizeLinear", "Clip"):
            continue
        held = [(tensors[i].dtype.name, tensors[i].shape, tensors[i].tobytes()) for i in n.input if i in tensors]
        made.append((n.op_type, held))
    return made


@pytest.mark.parametrize("axis", [None, 0], ids=["one scale", "by channel"])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("form, execution", RECIPES)
def test_trained_layers(weir, tmp_path, form, execution, transposed, axis):
    """What static writes of the float model with the scales of the training."""
    site, plain, overrides = trained(form, axis, transposed)
    recipe = ("--format", form, "--execution", execution)
    (tmp_path / "o.json").write_text(json.dumps(overrides))
    words = [] if axis is not None else ["--per-tensor"]
    wanted = plain.quantized(weir, tmp_path, "static", *recipe, *words, "--override", tmp_path / "o.json").rename(tmp_path / "wanted.onnx")
    onnx.save(site.model, tmp_path / "trained.onnx")
    if (form, execution) == ("fp32-bias", "qdq") or (form, execution) == ("fp32-bias-qdq", "qdq"):
        out, sites = requantize(weir, tmp_path / "trained.onnx", *recipe)
        assert sites["m"] == ("skipped", "same_form")
    else:
        out, sites = requantize(weir, tmp_path / "trained.onnx", *recipe)
        assert sites["m"][0] == "converted"
        assert products(out) == products(wanted)
    rounded, step = run(tmp_path / "trained.onnx", site.feeds)[0], 0.04
    assert np.abs(run(out, site.feeds)[0] - rounded).max() <= step * 1.01


def test_codes_that_a_clip_makes(weir, tmp_path):
    """PyTorch's default for x86 keeps codes within 0 .. 127: the Clip stays, and the product takes what it gives."""
    site, _, _ = trained("int32-bias", 0, True, clip=True)
    onnx.save(site.model, tmp_path / "trained.onnx")
    out, sites = requantize(weir, tmp_path / "trained.onnx", "--format", "int32-bias")
    model = onnx.load(out)
    makers = {o: n.op_type for n in model.graph.node for o in n.output}
    integer = next(n for n in model.graph.node if n.op_type == "MatMulInteger")
    assert makers[integer.input[0]] == "Clip" and sites["m"] == ("converted", "int32_bias")


# ---- biases that are codes -------------------------------------------------------------------------------------------------------


BIAS_CODES = np.array([100, 7, 30, 5])


def dequantized_bias(scale_by, dtype=np.int32, zero=0):
    w, codes = normal(8, 4, by=0.3), BIAS_CODES.astype(dtype)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(128), "wq": np.rint(w * 100).clip(-127, 127).astype(np.int8), "ws": np.float32(0.01),
                 "wz": np.int8(0), "bq": codes, "bs": np.float32(np.float32(0.02) * np.float32(0.01) * scale_by), "bz": np.array(zero, dtype)}  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("DequantizeLinear", ["q", "xs", "xz"], ["xf"]),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["wf"]),
        node("DequantizeLinear", ["bq", "bs", "bz"], ["b"]),
        node("MatMul", ["xf", "wf"], ["h"], "m"),
        node("Add", ["h", "b"], ["y"], "a"),
    ]
    return Site(nodes, {"x": (3, 8)}, constants)


@pytest.mark.parametrize("dtype, by, zero", [(np.int32, 1, 0), (np.int32, 3.7, 0), (np.uint8, 50, 7), (np.int8, 50, -3)])
def test_biases_that_are_codes(weir, tmp_path, dtype, by, zero):
    site = dequantized_bias(np.float32(by), dtype, zero)
    onnx.save(site.model, tmp_path / "m.onnx")
    out, sites = requantize(weir, tmp_path / "m.onnx", "--format", "int32-bias")
    held = {t.name: numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer}
    numbers = (BIAS_CODES - zero).astype(np.float32) * np.float32(np.float32(0.02) * np.float32(0.01) * np.float32(by))
    wanted = BIAS_CODES if by == 1 else np.rint(numbers.astype(np.float64) / held["m_bias_scale"]).astype(np.int32)
    kept = next(t for name, t in held.items() if t.dtype == np.int32)
    assert sites["m"] == ("converted", "int32_bias") and np.array_equal(kept, wanted)
    assert ("bq" in held) == (by == 1), "codes that can stay are the same tensor"
    np.testing.assert_allclose(run(out, site.feeds)[0], run(tmp_path / "m.onnx", site.feeds)[0], atol=2e-4)


# ---- what stays ------------------------------------------------------------------------------------------------------------------


def parts(model):
    """The model's nodes by name, to be changed."""
    return {n.name: n for n in model.graph.node}


def constant(model, name, array):
    kept = [t for t in model.graph.initializer if t.name != name]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, numpy_helper.from_array(np.asarray(array), name)])


def an_activation(model):
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [4]))
    parts(model)["a"].input[1] = "z"


def another_shape(model):
    constant(model, "b", normal(3, 4))


def a_number(model):
    constant(model, "b", np.float32(1))


def no_add(model):
    parts(model)["a"].op_type = "Sub"


def used_twice(model):
    model.graph.output.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [3, 4]))


def used_by_another(model):
    model.graph.node.append(node("Relu", ["h"], ["r"], "r"))
    model.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, [3, 4]))


def other_scale_after(model):
    constant(model, "hs2", np.float32(0.5))
    n = parts(model)
    model.graph.node.insert(list(model.graph.node).index(n["a"]), node("QuantizeLinear", ["h", "xs", "xz"], ["hq"], "hq"))
    model.graph.node.insert(list(model.graph.node).index(n["a"]), node("DequantizeLinear", ["hq", "hs2", "xz"], ["hd"], "hd"))
    n["a"].input[0] = "hd"


def computed_weight(model):
    model.graph.input.append(helper.make_tensor_value_info("wq", TensorProto.INT8, [8, 4]))
    kept = [t for t in model.graph.initializer if t.name != "wq"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def large_bias(model):
    constant(model, "b", np.array([1e9, 1, 1, 1], np.float32))


def float_input(model):
    parts(model)["m"].input[0] = "x"


def signed_beside_unsigned(model):
    constant(model, "wq", np.abs(numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == "wq"))).astype(np.uint8))
    constant(model, "wz", np.uint8(3))
    constant(model, "xz", np.int8(3))


def sixteen_bits(model):
    constant(model, "xz", np.uint16(3))
    model.opset_import[0].version = 21


LEFT = {
    "non_constant_bias": (an_activation,),
    "bias_shape": (another_shape, a_number),
    "no_bias": (no_add,),
    "output_used_elsewhere": (used_twice, used_by_another),
    "parameters_differ": (other_scale_after,),
    "non_constant_weight": (computed_weight,),
    "bias_range": (large_bias,),
    "input_not_quantized": (float_input,),
    "code_types": (signed_beside_unsigned, sixteen_bits),
}


def plain_layer():
    w = normal(8, 4, by=0.3)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(128), "wq": np.rint(w * 100).clip(-127, 127).astype(np.int8),
                 "ws": np.float32(0.01), "wz": np.int8(0), "b": normal(4)}  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"], "q"),
        node("DequantizeLinear", ["q", "xs", "xz"], ["xf"], "xf"),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["wf"], "wf"),
        node("MatMul", ["xf", "wf"], ["h"], "m"),
        node("Add", ["h", "b"], ["y"], "a"),
    ]
    return Site(nodes, {"x": (3, 8)}, constants)


def ways_to_stay():
    return [(reason, change) for reason, changes in LEFT.items() for change in changes]


@pytest.mark.parametrize("reason, change", ways_to_stay(), ids=[c.__name__ for _, c in ways_to_stay()])
def test_what_stays(weir, tmp_path, reason, change):
    site = plain_layer()
    onnx.save(site.model, tmp_path / "m.onnx")
    out, sites = requantize(weir, tmp_path / "m.onnx", "--format", "int32-bias")
    assert sites["m"] == ("converted", "int32_bias")  # the control arm
    change(site.model)
    onnx.save(site.model, tmp_path / "m.onnx")
    out, sites = requantize(weir, tmp_path / "m.onnx", "--format", "int32-bias")
    assert sites["m"] == ("skipped", reason)
    assert [n.op_type for n in onnx.load(out).graph.node] == [n.op_type for n in site.model.graph.node]


def test_what_the_last_line_says(weir, tmp_path):
    site = plain_layer()
    onnx.save(site.model, tmp_path / "m.onnx")
    said = weir("requantize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--format", "fp32-bias-qdq", "--force").out
    assert "nothing changed (1 MatMul (its result is not quantized)" in said
    an_activation(site.model)
    onnx.save(site.model, tmp_path / "m.onnx")
    said = weir("requantize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--format", "int32-bias", "--force").out
    assert "nothing changed (1 MatMul (the bias is computed)" in said
    plain = chain()
    onnx.save(plain.model, tmp_path / "m.onnx")
    said = weir("requantize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--format", "int32-bias", "--force").out
    assert "nothing changed (3 MatMul (an input is not quantized)" in said


def test_a_gemm_stays(weir, tmp_path):
    site = Site([node("Gemm", ["x", "w", "b"], ["y"], "g")], {"x": (4, 8)}, {"w": normal(8, 4), "b": normal(4)})
    source = site.quantized(weir, tmp_path, "static")
    out, sites = requantize(weir, source, "--format", "int32-bias")
    assert sites["g"] == ("skipped", "bias_of_gemm") and alike(out, source) == []


# ---- where it stands -------------------------------------------------------------------------------------------------------------


def in_a_body(model, weights_inside):
    """The layer in a branch of an If."""
    graph, nodes = model.graph, list(model.graph.node)
    outer = [] if weights_inside else nodes[:3]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])
    body = helper.make_graph(nodes[len(outer):], "then", [], [result], list(graph.initializer) if weights_inside else [])
    other = helper.make_graph([node("Identity", ["nought"], ["e"])], "else", [], [helper.make_tensor_value_info("e", TensorProto.FLOAT, [3, 4])],
                              [numpy_helper.from_array(np.zeros((3, 4), np.float32), "nought")])  # fmt: skip
    branch = helper.make_node("If", ["c"], ["out"], "if", then_branch=body, else_branch=other)
    made = helper.make_graph([*outer, branch], "g", [*graph.input, helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
                             [helper.make_tensor_value_info("out", TensorProto.FLOAT, [3, 4])], [] if weights_inside else list(graph.initializer))  # fmt: skip
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=8)


def in_a_function(model):
    """The layer as a function, whose constants are nodes."""
    constants = [helper.make_node("Constant", [], [t.name], value=t) for t in model.graph.initializer]
    function = helper.make_function("own", "Layer", ["x"], ["y"], [*constants, *model.graph.node], list(model.opset_import))
    inputs = [*model.graph.input, helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    made = helper.make_graph([node("Layer", ["x"], ["out"], domain="own")], "g", inputs, [helper.make_tensor_value_info("out", TensorProto.FLOAT, [3, 4])])
    return helper.make_model(made, opset_imports=[*model.opset_import, helper.make_opsetid("own", 1)], ir_version=8, functions=[function])


PLACES = {"body": lambda m: in_a_body(m, True), "body, codes outside": lambda m: in_a_body(m, False), "function": in_a_function}


@pytest.mark.parametrize("form, execution", [("int32-bias", "qdq"), ("fp32-bias", "qlinear")])
@pytest.mark.parametrize("place", PLACES)
def test_in_bodies_and_functions(weir, tmp_path, place, form, execution):
    site = plain_layer()
    onnx.save(PLACES[place](site.model), tmp_path / "m.onnx")
    out, sites = requantize(weir, tmp_path / "m.onnx", "--format", form, "--execution", execution)
    assert sites["m"][0] == "converted"
    feeds = {**site.feeds, "c": np.array(True)}
    np.testing.assert_allclose(run(out, feeds)[0], run(tmp_path / "m.onnx", feeds)[0], atol=2e-4)


# ---- the same by other ways ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form, execution", RECIPES)
def test_log_and_verification(weir, tmp_path, form, execution):
    source = chain().quantized(weir, tmp_path, "static")
    recipe = ("--format", form, "--execution", execution)
    out, log = tmp_path / "o.onnx", tmp_path / "log"
    said = weir("requantize", source, out, *recipe, "--edit-log", log, "--verify", "--verify-require", "100%")
    assert "verified" in said.out + said.err
    weir("verify", source, out, "--edits", log)
    weir("replay", log, source, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == out.read_bytes()
    words = f"requantize:format={form},execution={execution}"
    weir("run", source, tmp_path / "pass.onnx", "--pass", words)
    assert (tmp_path / "pass.onnx").read_bytes() == out.read_bytes()
    # The control: another code is found.
    model = onnx.load(out)
    codes = next(t for t in model.graph.initializer if t.data_type == TensorProto.INT8 and len(t.dims) == 2)
    array = numpy_helper.to_array(codes).copy()
    array[0, 0] ^= 0x40
    codes.CopyFrom(numpy_helper.from_array(array, codes.name))
    onnx.save(model, out)
    assert weir("verify", source, out, "--edits", log, code=None).code == 1


@pytest.mark.parametrize("words, said", [
    (("--format", "int16-bias"), "use int32-bias|fp32-bias|fp32-bias-qdq"),
    (("--format", "qdq"), "did you mean 'weir requantize --to qdq'?"),
    (("--to", "int32-bias"), "did you mean 'weir requantize --format int32-bias'?"),
    (("--execution", "qlinear"), "--execution needs --format int32-bias, fp32-bias or fp32-bias-qdq"),
    (("--to", "qoperator", "--format", "fp32-bias"), "--format fp32-bias writes models in QDQ form"),
])  # fmt: skip
def test_words_that_do_not_go(weir, tmp_path, words, said):
    onnx.save(plain_layer().model, tmp_path / "m.onnx")
    done = weir("requantize", tmp_path / "m.onnx", tmp_path / "o.onnx", *words, code=2)
    assert said in done.err and not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize("form, execution", [("int32-bias", "qdq"), ("fp32-bias", "qlinear")])
@pytest.mark.parametrize("scales, zeros", [((1,), ()), ((), (1,)), ((1,), (1,)), ((1,), None)])
def test_parameters_of_one_element(weir, tmp_path, form, execution, scales, zeros):
    """PyTorch writes a scale as [1] and its zero point as []."""
    site = plain_layer()
    for name in ("xs", "ws"):
        held = next(t for t in site.model.graph.initializer if t.name == name)
        constant(site.model, name, numpy_helper.to_array(held).reshape(scales))
    for name in ("xz", "wz"):
        held = next(t for t in site.model.graph.initializer if t.name == name)
        constant(site.model, name, numpy_helper.to_array(held).reshape(zeros or ()))
    if zeros is None:
        del parts(site.model)["wf"].input[2:]
    onnx.save(site.model, tmp_path / "m.onnx")
    out, sites = requantize(weir, tmp_path / "m.onnx", "--format", form, "--execution", execution)
    assert sites["m"][0] == "converted"
    np.testing.assert_allclose(run(out, site.feeds)[0], run(tmp_path / "m.onnx", site.feeds)[0], atol=2e-4)


def test_nodes_that_are_excluded(weir, tmp_path):
    source = chain().quantized(weir, tmp_path, "static")
    _, sites = requantize(weir, source, "--format", "int32-bias", "--exclude", "m1")
    assert sites["m1"] == ("skipped", "excluded") and sites["m0"] == sites["m2"] == ("converted", "int32_bias")


@pytest.mark.parametrize("form, execution", [("int32-bias", "qdq"), ("fp32-bias", "qlinear")])
def test_zero_points_of_columns(weir, tmp_path, form, execution):
    site = plain_layer()
    held = next(numpy_helper.to_array(t) for t in site.model.graph.initializer if t.name == "wq")
    constant(site.model, "wq", (held.astype(np.int32) // 2 + 70).astype(np.uint8))
    constant(site.model, "ws", np.array([0.01, 0.02, 0.013, 0.009], np.float32))
    constant(site.model, "wz", np.array([70, 75, 66, 128], np.uint8))
    parts(site.model)["wf"].attribute.append(helper.make_attribute("axis", 1))
    onnx.save(site.model, tmp_path / "m.onnx")
    out, sites = requantize(weir, tmp_path / "m.onnx", "--format", form, "--execution", execution)
    assert sites["m"][0] == "converted"
    np.testing.assert_allclose(run(out, site.feeds)[0], run(tmp_path / "m.onnx", site.feeds)[0], atol=4e-4)
