"""weir dynamic: weights in int8, activations quantized while the model runs.

With --compat what comes out is what quantize_dynamic of that version writes, node order aside, wherever that loads and runs: random
models (int8_models.py; 500 with tools/test --all) under all of its options (test_int8_compat.py has real ones). Where it is
wrong, ours must be right: each case of that has a test. Without --compat the judge is the float model: at least as many dB as what
quantize_dynamic makes, in the newest and the oldest ONNX Runtime.
"""

import json
import logging
import random
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import exact_products
import int8_models
import quantizers
import runtimes
from conftest import ALL, DATA, copy_model
from quantized_alike import alike

pytestmark = pytest.mark.in_memory

RANDOM = {"1.31": 500 if ALL else 40, "1.32": 500 if ALL else 12}
FLOAT = TensorProto.FLOAT


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL)


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def run(model, feeds):
    return session(model).run(None, feeds)


def decibels(expected, got):
    signal = sum(float((np.asarray(a, np.float64) ** 2).sum()) for a in expected)
    noise = sum(float(((np.asarray(a, np.float64) - b) ** 2).sum()) for a, b in zip(expected, got))
    return 10 * np.log10(signal / noise) if noise else 200


RUN = """
import sys
import numpy as np, onnxruntime
onnxruntime.set_default_logger_severity(4)
feeds = dict(np.load(sys.argv[2]))
onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"]).run(None, feeds)
"""


def is_valid(path, feeds, folder, tool=quantizers.HERE):
    """Does the checker take the model, and does it run? In a process of its own: what is wrong may end that."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception:  # noqa: BLE001 (whatever it is)
        return False
    np.savez(folder / "feeds.npz", **feeds)
    return subprocess.run([tool.python(), "-c", RUN, path, folder / "feeds.npz"], capture_output=True).returncode == 0


def saved(model, path):
    onnx.save(model, path)
    return path


# ---- as quantize_dynamic

TYPES = ("MatMul", "LSTM", "Gather", "Conv", "Attention", "EmbedLayerNormalization", "Transpose")


def drawn(seed, model):
    """Options of quantize_dynamic, and the same words for weir."""
    rng = random.Random(seed)
    theirs, extra, ours = {}, {}, []
    for name, key in (("per-channel", "per_channel"), ("reduce-range", "reduce_range")):
        if rng.random() < 0.45:
            theirs[key] = True
            ours.append(f"--{name}")
    if rng.random() < 0.4:
        theirs["weight_type"] = QuantType.QUInt8
        ours += ["--weight-type", "uint8"]
    if rng.random() < 0.3:
        types = [t for t in TYPES if rng.random() < 0.6] or ["MatMul"]
        theirs["op_types_to_quantize"] = types
        ours += ["--op-types", ",".join(types)]
    names = [n.name for n in model.graph.node if n.name]
    names += [f"{n.name}_MatMul" for n in model.graph.node if n.op_type == "Gemm" and n.name]
    if names and rng.random() < 0.2:
        theirs["nodes_to_exclude"] = rng.sample(names, min(2, len(names)))
        for name in theirs["nodes_to_exclude"]:
            ours += ["--nodes-to-exclude", name]
    elif names and rng.random() < 0.2:
        theirs["nodes_to_quantize"] = rng.sample(names, len(names) // 2 + 1)
        for name in theirs["nodes_to_quantize"]:
            ours += ["--nodes-to-quantize", name]
    for word, key, value, said in (
        ("enable-subgraph", "EnableSubgraph", True, ()),
        ("default-tensor-type", "DefaultTensorType", FLOAT, ("float",)),
        ("matmul-const-b-only", "MatMulConstBOnly", False, ("false",)),
        ("force-quantize-no-input-check", "ForceQuantizeNoInputCheck", True, ()),
        ("activation-symmetric", "ActivationSymmetric", True, ()),
        ("weight-symmetric", "WeightSymmetric", True, ("true",)),
        ("weight-symmetric", "WeightSymmetric", False, ("false",)),
    ):
        if rng.random() < 0.15 and key not in extra:
            extra[key] = value
            ours += [f"--{word}", *said]
    return {**theirs, "extra_options": extra}, ours


def as_theirs(weir, source, folder, theirs, ours, tool=quantizers.HERE):
    """What both make of it, as paths; None for one that fails."""
    made, out = folder / "theirs.onnx", folder / "ours.onnx"
    weir("dynamic", source, out, "--compat", tool.word, *ours, "--force", "--quiet")
    try:
        tool(quantize_dynamic, source, made, **theirs)
    except Exception:  # noqa: BLE001 (ValueError, AssertionError, RuntimeError, what onnx raises)
        return out, None
    return out, made


def test_random_models_are_those_of_quantize_dynamic(weir, tmp_path, tool):
    equal, n = 0, RANDOM[tool.version]
    for seed in range(n):
        case = int8_models.random_model(seed)
        source = saved(case.model, tmp_path / "in.onnx")
        theirs, ours = drawn(seed, case.model)
        out, made = as_theirs(weir, source, tmp_path, theirs, ours, tool)
        found = alike(out, made) if made else ["quantize_dynamic fails"]
        if not found:
            equal += 1
            continue
        assert not made or not is_valid(made, case.feeds(), tmp_path, tool), (seed, case.pieces, ours, found)
        assert is_valid(out, case.feeds(), tmp_path), (seed, case.pieces, ours)
    assert equal > n * 0.75


@pytest.mark.parametrize("excluded, stays", [(("n",), False), (("n_MatMul",), True)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_a_gemm_is_split_before_names_are_looked_at(weir, tmp_path, tool, excluded, stays, transposed):
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "n", transB=transposed)]
    tensors = {"w": floats(5, 8) if transposed else floats(8, 5), "b": floats(5)}
    source = saved(model_of(nodes, [("x", FLOAT, [3, 8])], [("y", FLOAT, [3, 5])], tensors), tmp_path / "in.onnx")
    words = [w for name in excluded for w in ("--nodes-to-exclude", name)]
    out, made = as_theirs(weir, source, tmp_path, {"nodes_to_exclude": list(excluded)}, words, tool)
    assert alike(out, made) == [] and ("MatMul" in operators(onnx.load(out))) == stays
    assert onnx.load(out).graph.node[-1].name == "n_Add"


@pytest.mark.parametrize("force", [False, True])
def test_a_transpose_of_codes_and_of_a_constant(weir, tmp_path, force):
    """Where constants are to be quantized for a Transpose, it takes nothing else."""
    nodes = [helper.make_node("Gather", ["E", "ids"], ["h"], "g"), helper.make_node("Transpose", ["h"], ["y"], "t", perm=[1, 0]),
             helper.make_node("Transpose", ["c"], ["z"], "u", perm=[1, 0])]  # fmt: skip
    outputs = [("y", FLOAT, [8, 4]), ("z", FLOAT, [3, 5])]
    source = saved(model_of(nodes, [("ids", TensorProto.INT64, [4])], outputs, {"E": floats(11, 8), "c": floats(5, 3)}), tmp_path / "in.onnx")
    words = ("--force-quantize-no-input-check",) if force else ()
    out, made = as_theirs(weir, source, tmp_path, {"extra_options": {"ForceQuantizeNoInputCheck": force}}, words)
    assert is_valid(made, {"ids": np.arange(4)}, tmp_path) and alike(out, made) == []


def test_the_comparison_sees_another_byte(weir, tmp_path):
    source = saved(int8_models.random_model(1, pieces=["matmul_add"]).model, tmp_path / "in.onnx")
    out, made = as_theirs(weir, source, tmp_path, {}, ())
    model = onnx.load(made)
    codes = next(t for t in model.graph.initializer if t.data_type == TensorProto.INT8 and t.dims)
    codes.raw_data = bytes([codes.raw_data[0] ^ 1]) + codes.raw_data[1:]
    onnx.save(model, made)
    assert alike(out, made) != [] and alike(out, made, names=False) != []


# ---- what is wrong there

NUMBERS = np.random.default_rng(5)


def floats(*dims, scale=0.4):
    return NUMBERS.normal(0, scale, dims).astype(np.float32)


def model_of(nodes, inputs, outputs, tensors, opset=17, ir=8, **more):
    kind = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [kind(n, t, d) for n, t, d in inputs], [kind(n, t, d) for n, t, d in outputs],
        [numpy_helper.from_array(a, n) for n, a in tensors.items()])
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in more.pop("domains", ())]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, **more)


def right(weir, model, folder, feeds, *options, least=25.0):
    """Quantized, it loads, runs and is near the float model; gives the model that came out."""
    source = saved(model, folder / "in.onnx")
    weir("dynamic", source, folder / "out.onnx", *options, "--force", "--quiet")
    out = onnx.load(folder / "out.onnx")
    onnx.checker.check_model(out, full_check=True)
    assert decibels(run(model, feeds), run(out, feeds)) >= least
    return out


def operators(model):
    return [n.op_type for n in model.graph.node]


ARMS = ((), ("--form", "integer"), ("--compat", "onnxruntime"), ("--compat", "onnxruntime", "--per-channel"))


@pytest.mark.parametrize("options", ARMS, ids=" ".join)
def test_a_table_that_is_gathered_and_multiplied(weir, tmp_path, newest, options):
    nodes = [
        helper.make_node("Gather", ["E", "ids"], ["h"], name="g"),
        helper.make_node("Gemm", ["h", "E", "b"], ["y"], name="n", transB=1),
    ]
    model = model_of(nodes, [("ids", TensorProto.INT64, [4])], [("y", FLOAT, [4, 11])], {"E": floats(11, 16), "b": floats(11)})
    feeds = {"ids": np.array([1, 0, 7, 10])}
    out = right(weir, model, tmp_path, feeds, *options)
    assert "Gemm" not in operators(out) and not any(t.data_type == FLOAT and len(t.dims) == 2 for t in out.graph.initializer)
    _, made = as_theirs(weir, tmp_path / "in.onnx", tmp_path, {}, ())
    assert made is None or not is_valid(made, feeds, tmp_path)  # from 1.32 on it writes two tables
    ours, made = as_theirs(weir, tmp_path / "in.onnx", tmp_path, {}, (), newest)
    assert alike(ours, made) == []


@pytest.mark.parametrize("options", ARMS, ids=" ".join)
def test_two_lstms_with_one_weight(weir, tmp_path, options):
    nodes = [helper.make_node("LSTM", [x, "W", "R"], [y], hidden_size=6, name=n) for x, y, n in (("x", "y", "a"), ("z", "q", "b"))]
    dims = [3, 1, 6]
    model = model_of(nodes, [("x", FLOAT, dims), ("z", FLOAT, dims)], [("y", FLOAT, [3, 1, 1, 6]), ("q", FLOAT, [3, 1, 1, 6])],
                     {"W": floats(1, 24, 6), "R": floats(1, 24, 6)})  # fmt: skip
    out = right(weir, model, tmp_path, {"x": floats(*dims, scale=1), "z": floats(*dims, scale=1)}, *options)
    assert operators(out) == ["DynamicQuantizeLSTM"] * 2
    assert sum(t.data_type == TensorProto.INT8 and len(t.dims) == 3 for t in out.graph.initializer) == 2


@pytest.mark.parametrize("words", [(), ("--per-channel",)])
def test_lstms_take_no_zero_points_beside_scales_by_channel(weir, tmp_path, words):
    """What the tool writes is refused when it runs; one zero point a direction is not."""
    nodes = [helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=6, name="n")]
    tensors = {"W": np.abs(floats(1, 24, 6)), "R": floats(1, 24, 6)}
    model = model_of(nodes, [("x", FLOAT, [3, 1, 6])], [("y", FLOAT, [3, 1, 1, 6])], tensors)
    feeds = {"x": floats(3, 1, 6, scale=1)}
    asked = ("--compat", "onnxruntime", "--weight-symmetric", "false")
    out = right(weir, model, tmp_path, feeds, *asked, *words)
    zeros = next(numpy_helper.to_array(t) for t in out.graph.initializer if t.name == "W_zero_point")
    assert zeros.any() != bool(words)
    theirs = {"per_channel": bool(words), "extra_options": {"WeightSymmetric": False}}
    _, made = as_theirs(weir, tmp_path / "in.onnx", tmp_path, theirs, asked[2:])
    assert is_valid(made, feeds, tmp_path) != bool(words)


def test_weights_in_constants(weir, tmp_path):
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(floats(8, 8))),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(floats(3, 2, 1, 1))),
        helper.make_node("Reshape", ["h", "s"], ["i"]),
        helper.make_node("Conv", ["i", "k", "b"], ["y"]),
    ]
    model = model_of(nodes, [("x", FLOAT, [4, 8])], [("y", FLOAT, [1, 3, 4, 4])], {"s": np.array([1, 2, 4, 4]), "b": floats(3)})
    out = right(weir, model, tmp_path, {"x": floats(4, 8, scale=1)}, "--op-types", "MatMul,Conv")
    assert {"DynamicQuantizeMatMul", "ConvInteger"} <= set(operators(out)) and "Constant" not in operators(out)


@pytest.mark.parametrize("dims", [(1, 8, 6), (2, 8, 6), (8,)], ids=str)
@pytest.mark.parametrize("options", ARMS, ids=" ".join)
def test_weights_that_are_no_matrix_have_one_scale(weir, tmp_path, dims, options):
    shape = [2, 3, dims[-1]] if len(dims) == 3 else [2, 3]
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, [2, 3, 8])], [("y", FLOAT, shape)], {"w": floats(*dims)})
    out = right(weir, model, tmp_path, {"x": floats(2, 3, 8, scale=1)}, *options)
    assert "MatMul" not in operators(out)
    assert next(t for t in out.graph.initializer if t.name == "w_scale").dims == []


@pytest.mark.parametrize("options", ARMS, ids=" ".join)
def test_float16_is_computed_between_casts(weir, tmp_path, options):
    half = TensorProto.FLOAT16
    nodes = [
        helper.make_node("Gather", ["E", "ids"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["m"], name="n"),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    model = model_of(nodes, [("ids", TensorProto.INT64, [5])], [("y", half, [5, 8])],
                     # so small that onnxruntime's guard for float16 would make zeros of it
                     {"E": floats(9, 16).astype(np.float16), "w": floats(16, 8, scale=0.002).astype(np.float16),
                      "b": floats(8, scale=0.001).astype(np.float16)})  # fmt: skip
    out = right(weir, model, tmp_path, {"ids": np.array([0, 8, 3, 3, 1])}, *options)
    assert "MatMul" not in operators(out) and "Cast" in operators(out)


def test_an_opset_that_is_too_old_is_raised_or_refused(weir, tmp_path):
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, [3, 8])], [("y", FLOAT, [3, 6])], {"w": floats(8, 6)}, 9)
    feeds = {"x": floats(3, 8, scale=1)}
    assert right(weir, model, tmp_path, feeds).opset_import[0].version == 9
    assert right(weir, model, tmp_path, feeds, "--form", "integer").opset_import[0].version == 11


def test_the_opset_is_raised_for_a_gemm_that_becomes_a_product(weir, tmp_path):
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="n")]
    model = model_of(nodes, [("x", FLOAT, [3, 8])], [("y", FLOAT, [3, 6])], {"w": floats(8, 6), "b": floats(6)}, 9)
    out = right(weir, model, tmp_path, {"x": floats(3, 8, scale=1)}, "--compat", "onnxruntime")
    assert out.opset_import[0].version == 11 and "MatMulInteger" in operators(out)


def test_bodies_and_functions(weir, tmp_path):
    body = model_of([helper.make_node("MatMul", ["x", "v"], ["t"], name="in")], [], [("t", FLOAT, [3, 8])], {"v": floats(8, 8)}).graph
    other = model_of([helper.make_node("Identity", ["x"], ["u"])], [], [("u", FLOAT, [3, 8])], {}).graph
    made = numpy_helper.from_array(floats(8, 8))
    function = helper.make_function(
        "local", "f", ["a"], ["r"],
        [helper.make_node("Constant", [], ["c"], value=made), helper.make_node("MatMul", ["a", "c"], ["r"])],
        [helper.make_opsetid("", 17)])  # fmt: skip
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=body, else_branch=other),
        helper.make_node("f", ["i"], ["y"], domain="local"),
    ]
    model = model_of(nodes, [("c", TensorProto.BOOL, []), ("x", FLOAT, [3, 8])], [("y", FLOAT, [3, 8])], {}, domains=["local"],
                     functions=[function])  # fmt: skip
    for value in (True, False):
        feeds = {"c": np.array(value), "x": floats(3, 8, scale=1)}
        out = right(weir, model, tmp_path, feeds)
        assert [n.op_type for n in out.functions[0].node] == ["Constant", "Constant", "DynamicQuantizeMatMul"]
        assert {o.domain for o in out.functions[0].opset_import} == {"", "com.microsoft"}
        inner = next(a.g for a in out.graph.node[0].attribute if a.name == "then_branch")
        assert [n.op_type for n in inner.node] == ["DynamicQuantizeMatMul"]
        # codes of an outer value are made in the outer graph, before the If that reads them
        out = right(weir, model, tmp_path, feeds, "--form", "integer")
        assert operators(out)[:2] == ["DynamicQuantizeLinear", "If"]


def test_names_that_are_taken(weir, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="n"), helper.make_node("Mul", ["y", "w_scale"], ["z"], name="n_quant")]
    model = model_of(nodes, [("x", FLOAT, [3, 8])], [("z", FLOAT, [3, 6])], {"w": floats(8, 6), "w_scale": floats(6)})
    for options in ARMS:
        right(weir, model, tmp_path, {"x": floats(3, 8, scale=1)}, *options)


# ---- ours


def test_a_fused_product_takes_the_sum_behind_it(weir, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="n"), helper.make_node("Add", ["b", "m"], ["y"], name="a")]
    model = model_of(nodes, [("x", FLOAT, [3, 8])], [("y", FLOAT, [3, 6])], {"w": floats(8, 6), "b": floats(6)})
    out = right(weir, model, tmp_path, {"x": floats(3, 8, scale=1)})
    (node,) = out.graph.node
    assert (node.op_type, list(node.input), list(node.output)) == (
        "DynamicQuantizeMatMul", ["x", "w_quantized", "w_scale", "", "b"], ["y"])  # fmt: skip
    assert {t.name: list(t.dims) for t in out.graph.initializer} == {"w_quantized": [8, 6], "w_scale": [6], "b": [6]}
    # another reader of the product, or a sum of another shape: both stay
    model.graph.output.append(helper.make_tensor_value_info("m", FLOAT, [3, 6]))
    assert operators(right(weir, model, tmp_path, {"x": floats(3, 8, scale=1)})) == ["DynamicQuantizeMatMul", "Add"]


def test_what_stays_is_said(weir, tmp_path):
    depthwise = helper.make_node("Conv", ["i", "k"], ["c"], group=4, name="depthwise")
    factors = helper.make_node("Gemm", ["x", "w"], ["g"], alpha=2.0, name="factors")
    left = helper.make_node("MatMul", ["w2", "x"], ["l"], name="left")
    batches = helper.make_node("LSTM", ["i3", "W", "R"], ["q"], hidden_size=4, layout=1, name="batches")
    inputs = [("x", FLOAT, [8, 8]), ("i", FLOAT, [1, 4, 5, 5]), ("i3", FLOAT, [1, 3, 4])]
    outputs = [("c", FLOAT, [1, 4, 5, 5]), ("g", FLOAT, [8, 6]), ("l", FLOAT, [3, 8]), ("q", FLOAT, [1, 3, 1, 4])]
    tensors = {"k": floats(4, 1, 1, 1), "w": floats(8, 6), "w2": floats(3, 8), "W": floats(1, 16, 4), "R": floats(1, 16, 4)}
    source = saved(model_of([depthwise, factors, left, batches], inputs, outputs, tensors), tmp_path / "in.onnx")
    report = weir.report("dynamic", source, tmp_path / "out.onnx", "--op-types", "Conv,Gemm,MatMul,LSTM", "--copy")
    (step,) = report["passes"]
    assert {site["node_name"]: site["reason"] for site in step["nodes"]} == {
        "depthwise": "depthwise", "factors": "factors", "left": "weight_on_the_left", "batches": "data_layout"}  # fmt: skip
    assert onnx.load(tmp_path / "out.onnx").graph.node == onnx.load(source).graph.node


def computed(*more):
    """An LSTM and a MatMul whose weights nodes compute from constants, and MatMul of values."""
    nodes = [helper.make_node("Concat", ["w0", "w1"], ["w"], axis=1), helper.make_node("Mul", ["r0", "two"], ["r"]),
             helper.make_node("LSTM", ["x", "w", "r"], ["h"], hidden_size=4, name="lstm"),
             helper.make_node("Add", ["m0", "m0"], ["m"]), helper.make_node("MatMul", ["z", "m"], ["p"], name="product"),
             *[helper.make_node("MatMul", ["z", "z"], [f"q{i}"], name=f"of_values_{i}") for i in range(5)], *more]
    tensors = {"w0": floats(1, 8, 6), "w1": floats(1, 8, 6), "r0": floats(1, 16, 4), "two": np.float32(2), "m0": floats(4, 4), "m1": floats(4, 4)}
    outputs = [("h", FLOAT, [3, 1, 1, 4]), *((name, FLOAT, [4, 4]) for name in ["p", *(f"q{i}" for i in range(5)), *(n.output[0] for n in more)])]
    return model_of(nodes, [("x", FLOAT, [3, 1, 6]), ("z", FLOAT, [4, 4])], outputs, tensors)


def test_weights_that_nodes_compute_are_told_of(weir, tmp_path):
    source = saved(computed(), tmp_path / "m.onnx")
    done = weir("dynamic", source, tmp_path / "a.onnx")
    assert "nothing changed (the weights of 1 LSTM and 1 MatMul are computed from constants)" in done.out
    assert "hint: run 'weir optimize' or 'weir preprocess' first: it stores such weights where it can evaluate their nodes\n" in done.err
    # ... and it is so.
    weir("optimize", source, tmp_path / "o.onnx")
    done = weir("dynamic", tmp_path / "o.onnx", tmp_path / "b.onnx")
    assert "3 weights quantized" in done.out and "computed from constants" not in done.said
    # Where others are quantized, the hint says all of it.
    source = saved(computed(helper.make_node("MatMul", ["z", "m1"], ["s"], name="stored")), tmp_path / "m2.onnx")
    for words in (["dynamic", source, tmp_path / "c.onnx"], ["run", source, tmp_path / "d.onnx", "--pass", "dynamic"]):
        assert "hint: the weights of 1 LSTM and 1 MatMul are computed from constants; run 'weir optimize' or " in weir(*words).err


def test_what_no_fold_makes_a_weight_is_not_told_of(weir, tmp_path):
    nodes = [helper.make_node("RandomNormal", [], ["r"], shape=[4, 4]), helper.make_node("Add", ["r", "c"], ["w"]), helper.make_node("MatMul", ["z", "w"], ["y"]),
             helper.make_node("DequantizeLinear", ["codes", "scale"], ["v"]), helper.make_node("MatMul", ["z", "v"], ["u"]),
             *[helper.make_node("Gather", ["z", "i"], [f"g{i}"]) for i in range(3)]]
    tensors = {"c": floats(4, 4), "codes": np.ones((4, 4), np.int8), "scale": np.float32(0.1), "i": np.array([1, 2])}
    outputs = [(name, FLOAT, [4, 4]) for name in ("y", "u")] + [(f"g{i}", FLOAT, [2, 4]) for i in range(3)]
    done = weir("dynamic", saved(model_of(nodes, [("z", FLOAT, [4, 4])], outputs, tensors), tmp_path / "m.onnx"), tmp_path / "a.onnx")
    assert "nothing changed (no MatMul or Gather has a stored weight)" in done.out and "optimize" not in done.err


def test_convs_that_nobody_asked_for_are_told_of(weir, tmp_path):
    model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], "c")], [("x", FLOAT, [1, 4, 8])], [("y", FLOAT, [1, 8, 6])], {"w": floats(8, 4, 3)})
    path = saved(model, tmp_path / "m.onnx")
    words = "1 Conv would be quantized with "
    assert words + "--op-types MatMul,Conv" in weir("dynamic", path, tmp_path / "a.onnx").err
    assert words + "op_types=MatMul+Conv" in weir("run", path, tmp_path / "b.onnx", "--pass", "dynamic").err
    assert words not in weir("dynamic", path, tmp_path / "c.onnx", "--op-types", "MatMul,Conv").err


def test_tensors_with_settings_of_their_own(weir, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="a"), helper.make_node("MatMul", ["h", "v"], ["y"], name="b")]
    model = model_of(nodes, [("x", FLOAT, [3, 8])], [("y", FLOAT, [3, 6])], {"w": floats(8, 8), "v": floats(8, 6)})
    out = right(weir, model, tmp_path, {"x": floats(3, 8, scale=1)}, "--tensor", "v=uint8:tensor", "--tensor", "a=reduced")
    tensors = {t.name: numpy_helper.to_array(t) for t in out.graph.initializer}
    assert tensors["v_quantized"].dtype == np.uint8 and tensors["v_scale"].shape == () and "v_zero_point" in tensors
    assert np.abs(tensors["w_quantized"].astype(int)).max() == 64 and tensors["w_scale"].shape == (8,)
    done = weir("dynamic", tmp_path / "in.onnx", tmp_path / "x.onnx", "--tensor", "v=int4", code=2)
    assert "'int4' is not one of int8, uint8, tensor, channel, reduced, full" in done.err


def one_sided(*dims):
    return (np.abs(floats(*dims)) - 0.01).astype(np.float32)


def error_of(model, name, floats_of):
    parts = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name.startswith(name)}
    zero = parts.get(f"{name}_quantized_zero_point", parts.get(f"{name}_zero_point", np.int32(0)))
    return ((floats_of - (parts[f"{name}_quantized"].astype(np.int32) - zero.astype(np.int32)) * parts[f"{name}_scale"]) ** 2).sum()


def test_the_type_that_makes_the_smaller_error(weir, tmp_path):
    """Symmetric columns are int8, those on one side of 0 uint8; also of a transposed matrix, and of one that is stored in float16."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="a"), helper.make_node("MatMul", ["h", "v"], ["i"], name="b"),
             helper.make_node("Gemm", ["i", "u"], ["j"], name="c", transB=1), helper.make_node("Cast", ["half"], ["t"], to=FLOAT),
             helper.make_node("MatMul", ["j", "t"], ["y"], name="d")]  # fmt: skip
    stored = {"w": floats(64, 32), "v": one_sided(32, 48), "u": one_sided(40, 48), "half": one_sided(40, 6).astype(np.float16)}
    model = model_of(nodes, [("x", FLOAT, [3, 64])], [("y", FLOAT, [3, 6])], stored)
    made = {}
    for words in ("int8", "uint8", "auto"):
        made[words] = right(weir, model, tmp_path, {"x": floats(3, 64, scale=1)}, "--weight-type", words)
    types = {t.name: t.data_type for t in made["auto"].graph.initializer if t.name.endswith("_quantized")}
    assert types == {"w_quantized": TensorProto.INT8, "v_quantized": TensorProto.UINT8, "u_quantized": TensorProto.UINT8,
                     "t_quantized": TensorProto.UINT8}  # fmt: skip
    for name, taken, gain in (("w", "int8", (0, 1.1)), ("v", "uint8", (4, 7))):
        errors = {words: error_of(m, name, stored[name]) for words, m in made.items()}
        assert errors["auto"] == errors[taken] and gain[0] < 10 * np.log10(errors["int8"] / errors["uint8"]) < gain[1]
    out = right(weir, model, tmp_path, {"x": floats(3, 64, scale=1)}, "--weight-type", "auto", "--tensor", "v=int8", "--tensor", "u=tensor")
    types = {t.name: t.data_type for t in out.graph.initializer if t.name.endswith("_quantized")}
    assert types["v_quantized"] == types["u_quantized"] == TensorProto.INT8


def cut_off(done):
    """How many sites of the last line had sums of products that this processor cuts off."""
    return int(done.out.split(" of them with whole sums")[0].rsplit(" ", 1)[1]) if "with whole sums" in done.out else 0


def test_products_that_this_processor_cuts_off(weir, tmp_path):
    """Weights of full range on an x86 processor without VNNI: the site is right, and the last line says what happens here."""
    rng = np.random.default_rng(0)
    w = rng.choice(np.float32([-1, 1]), (512, 32)) * rng.uniform(0.8, 1, (512, 32)).astype(np.float32)
    source = saved(model_of([helper.make_node("MatMul", ["x", "w"], ["y"], name="b")], [("x", FLOAT, [3, 512])], [("y", FLOAT, [3, 32])], {"w": w}),
                   tmp_path / "in.onnx")  # fmt: skip
    here = 0 if exact_products.has_vnni() else 1
    for words, wanted in (([], here), (["--reduce-range"], 0), (["--weight-type", "uint8"], 0), (["--form", "integer"], here)):
        for jobs in ("1", "2"):
            out, report = tmp_path / "out.onnx", tmp_path / "r.json"
            done = weir("dynamic", source, out, "--verify", "--force", "--jobs", jobs, "--report-json", report, *words)
            assert cut_off(done) == wanted and json.loads(report.read_text())["verification"].get("cut_off", 0) == wanted
    page = tmp_path / "r.html"
    weir("dynamic", source, tmp_path / "out.onnx", "--verify", "--force", "--report-html", page)
    assert ("it has no VNNI" in page.read_text()) == bool(here)


def test_products_are_cut_off_too_where_nothing_is_lost(weir, tmp_path):
    """requantize, of a model whose codes are large. A wrong one fails with whole sums as well, so that the processor is not what is wrong."""
    held = {"w": np.full((512, 4), 127, np.int8), "ws": np.float32(0.01), "wz": np.int8(0), "xs": np.float32(0.02), "xz": np.uint8(128)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["c"]), helper.make_node("DequantizeLinear", ["c", "xs", "xz"], ["d"]),
             helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"]), helper.make_node("MatMul", ["d", "v"], ["y"], "m")]  # fmt: skip
    source = saved(model_of(nodes, [("x", FLOAT, [3, 512])], [("y", FLOAT, [3, 4])], held), tmp_path / "in.onnx")
    out, log = tmp_path / "out.onnx", tmp_path / "log.jsonl"
    done = weir("requantize", source, out, "--to", "qoperator", "--verify", "--edit-log", log)
    assert cut_off(done) == (0 if exact_products.has_vnni() else 1)
    model = onnx.load(out)
    [codes] = [t for t in model.graph.initializer if t.data_type == TensorProto.INT8 and len(t.dims) == 2]
    codes.CopyFrom(numpy_helper.from_array(np.full((512, 4), 101, np.int8), codes.name))
    onnx.save(model, out)
    done = weir("verify", source, out, "--edits", log, code=1)
    assert "no VNNI" not in done.err and "group" in done.err


def test_types_that_were_chosen_are_in_the_log(weir, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "v"], ["y"], name="b")]
    source = saved(model_of(nodes, [("x", FLOAT, [3, 8])], [("y", FLOAT, [3, 6])], {"v": one_sided(8, 6)}), tmp_path / "in.onnx")
    weir("dynamic", source, tmp_path / "out.onnx", "--weight-type", "auto", "--edit-log", tmp_path / "log.jsonl", "--quiet")
    weir("replay", tmp_path / "log.jsonl", source, tmp_path / "again.onnx", "--quiet")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()
    assert "uint8" in weir("dynamic", source, tmp_path / "x.onnx", "--weight-type", "auto", "--dry-run").out


def test_ours_is_nearer_than_theirs_in_the_oldest_runtime_too(weir, tmp_path):
    jobs, expected, ours, theirs = {}, {}, {}, {}
    for seed in range(12):
        case = int8_models.random_model(seed, pieces=["matmul_add", "gemm_trans", "lstm", "layer_norm", "residual", "table", "conv_bias"])
        source, feeds = saved(case.model, tmp_path / f"{seed}.onnx"), case.feeds()
        np.savez(tmp_path / f"{seed}.npz", **feeds)
        expected[seed] = run(case.model, feeds)
        quantize_dynamic(source, tmp_path / "theirs.onnx", op_types_to_quantize=["MatMul", "LSTM", "Gather"])
        theirs[seed] = decibels(expected[seed], run(tmp_path / "theirs.onnx", feeds))
        for form in ("fused", "integer"):
            out = tmp_path / f"{seed}-{form}.onnx"
            weir("dynamic", source, out, "--form", form, "--quiet", "--copy")
            ours[seed, form] = decibels(expected[seed], run(out, feeds))
            jobs[f"{seed}-{form}"] = [str(out), str(tmp_path / f"{seed}.npz"), str(tmp_path / f"{seed}-{form}.npz")]
    for form in ("fused", "integer"):
        assert np.mean([ours[seed, form] for seed in theirs]) >= np.mean(list(theirs.values()))
    try:
        failed = runtimes.run("onnxruntime", runtimes.ONNXRUNTIME["1.20"], jobs, tmp_path)
    except runtimes.Missing as why:
        pytest.skip(str(why))
    assert not any(failed.values()), failed
    for (seed, form), reached in ours.items():
        got = np.load(tmp_path / f"{seed}-{form}.npz")
        assert decibels(expected[seed], [got[n] for n in got.files]) >= reached - 3


def test_attention_and_embeddings_of_onnx_runtime(weir, tmp_path, tool):
    embed = helper.make_node("EmbedLayerNormalization", ["ids", "seg", "we", "pe", "se", "g", "be", "mask"], ["e", "mi"], name="embed",
                             domain="com.microsoft", epsilon=1e-5)  # fmt: skip
    attention = helper.make_node("Attention", ["e", "w", "b", "mi"], ["y"], name="att", domain="com.microsoft", num_heads=2)
    i32 = TensorProto.INT32
    inputs = [("ids", i32, [1, 4]), ("seg", i32, [1, 4]), ("mask", i32, [1, 4])]
    tensors = {"we": floats(20, 8), "pe": floats(4, 8), "se": floats(2, 8), "g": 1 + floats(8, scale=0.1), "be": floats(8),
               "w": floats(8, 24), "b": floats(24)}  # fmt: skip
    model = model_of([embed, attention], inputs, [("y", FLOAT, [1, 4, 8])], tensors, domains=["com.microsoft"])
    feeds = {"ids": np.array([[1, 19, 0, 3]], np.int32), "seg": np.array([[0, 0, 1, 1]], np.int32), "mask": np.ones((1, 4), np.int32)}
    out = right(weir, model, tmp_path, feeds, "--op-types", "Attention,EmbedLayerNormalization", least=20)
    assert operators(out) == ["QEmbedLayerNormalization", "DynamicQuantizeLinear", "QAttention"]
    for theirs, ours in (({}, ()), ({"per_channel": True, "weight_type": QuantType.QUInt8}, ("--per-channel", "--weight-type", "uint8"))):
        made, same = as_theirs(weir, tmp_path / "in.onnx", tmp_path, theirs, ours, tool)
        assert alike(made, same) == []


@pytest.mark.parametrize("words", [
    ("--per-channel",), ("--enable-subgraph",), ("--nodes-to-exclude", "n"), ("--op-types", "Transpose"),
    ("--compat", "onnxruntime", "--form", "fused"), ("--compat", "onnxruntime", "--per-channel", "--per-tensor"),
    ("--weight-type", "auto", "--compat", "onnxruntime"), ("--weight-type", "auto", "--per-tensor"),
])  # fmt: skip
def test_options_that_do_not_go_together(weir, tmp_path, words):
    source = saved(int8_models.random_model(1).model, tmp_path / "in.onnx")
    assert "onnxruntime" in weir("dynamic", source, tmp_path / "out.onnx", *words, code=2).err or "--per-tensor" in words
    assert not (tmp_path / "out.onnx").exists()


def test_a_log_makes_the_same_files_again(weir, tmp_path):
    source = saved(int8_models.random_model(9).model, tmp_path / "in.onnx")
    weir("dynamic", source, tmp_path / "out.onnx", "--edit-log", tmp_path / "log.jsonl", "--quiet")
    weir("replay", tmp_path / "log.jsonl", source, tmp_path / "again.onnx", "--quiet")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


# ---- ONNX Shrink Ray's integer_activations


def shrink_ray(tool, source, out, **options):
    """What its command does."""
    from onnx_shrink_ray import shrink as reference

    tool(quantize_dynamic, source, out, extra_options={"EnableSubgraph": True, "DefaultTensorType": FLOAT}, **options)
    reference.fix_untyped_casts(str(out))


def test_integer_activations_are_those_of_shrink_ray(weir, tmp_path, tool):
    cnn = copy_model(DATA / "exports" / "cnn-folded-torchscript-14.onnx", tmp_path / "exports")
    paths = [cnn, cnn.with_name("bert-sdpa-torchscript-14.onnx")]
    for seed in (2, 9, 21, 33):
        case = int8_models.random_model(seed, pieces=["matmul_add", "lstm", "residual", "conv_bias", "table", "reshape"])
        paths.append(saved(case.model, tmp_path / f"{seed}.onnx"))
    for path in paths:
        for ours, theirs in (((), {"weight_type": QuantType.QUInt8}),
                             (("--weight-type", "int8", "--per-channel"), {"weight_type": QuantType.QInt8, "per_channel": True})):  # fmt: skip
            shrink_ray(tool, path, tmp_path / "theirs.onnx", **theirs)
            weir("shrink", path, "--method", "integer_activations", "--compat", tool.word, *ours, "--output-dir", tmp_path / "o",
                 "--force", "--quiet")  # fmt: skip
            out = tmp_path / "o" / f"{path.stem}_quantized_activations.onnx"
            assert alike(out, tmp_path / "theirs.onnx") == []
            assert not onnx.load(out).graph.value_info


def test_integer_activations_without_compat(weir, tmp_path):
    case = int8_models.random_model(3, pieces=["matmul_add"])
    source = saved(case.model, tmp_path / "m.onnx")
    weir("shrink", source, "--method", "integer_activations", "--quiet")
    weir("dynamic", source, tmp_path / "same.onnx", "--quiet")
    assert alike(tmp_path / "m_quantized_activations.onnx", tmp_path / "same.onnx") == []
    for words in (("--compat", "onnxruntime"), ("--weight-type", "int8"), ("--method", "integer_activations", "--per-channel"),
                  ("--method", "integer_activations", "--min-elements", "5")):  # fmt: skip
        weir("shrink", source, *words, code=2)


# ---- targets


@pytest.mark.parametrize("pieces, kind", [(("matmul_add", "if"), QuantType.QInt8), (("conv_bias", "residual"), QuantType.QUInt8)])
def test_transformers_js_gets_q8(weir, tmp_path, pieces, kind):
    """Its script: uint8 where there is a Conv, else int8; bodies too; one scale a weight."""
    source = saved(int8_models.random_model(4, pieces=pieces).model, tmp_path / "in.onnx")
    weir("dynamic", source, tmp_path / "out.onnx", "--target", "transformers.js", "--quiet")
    quantize_dynamic(source, tmp_path / "theirs.onnx", weight_type=kind, extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True})
    assert alike(tmp_path / "out.onnx", tmp_path / "theirs.onnx") == []
    # what is asked for wins
    weir("dynamic", source, tmp_path / "own.onnx", "--target", "transformers.js", "--weight-type", "int8", "--enable-subgraph", "--quiet")
    types = {t.data_type for t in onnx.load(tmp_path / "own.onnx").graph.initializer}
    assert "conv_bias" not in pieces or TensorProto.UINT8 not in types


def test_sherpa_gets_matmul_alone(weir, tmp_path):
    source = saved(int8_models.random_model(4, pieces=["matmul_add", "lstm"], n=6).model, tmp_path / "in.onnx")
    weir("dynamic", source, tmp_path / "out.onnx", "--target", "sherpa", "--quiet")
    weir("dynamic", source, tmp_path / "same.onnx", "--op-types", "MatMul", "--form", "integer", "--quiet")
    assert alike(tmp_path / "out.onnx", tmp_path / "same.onnx") == []
    assert "LSTM" in operators(onnx.load(tmp_path / "out.onnx"))


@pytest.mark.parametrize("missing", ["we", "pe", "se", "g", "be"])
def test_a_table_that_is_left_out_has_no_name(weir, tmp_path, missing):
    """Neither in the report nor for --exclude, whatever value is the first of the model."""
    inputs = ["ids", "seg", *("" if n == missing else n for n in ("we", "pe", "se", "g", "be"))]
    embed = helper.make_node("EmbedLayerNormalization", inputs, ["e", "mi"], name="embed", domain="com.microsoft")
    i32 = TensorProto.INT32
    tensors = {"we": floats(20, 8), "pe": floats(4, 8), "se": floats(2, 8), "g": 1 + floats(8, scale=0.1), "be": floats(8)}
    del tensors[missing]
    model = model_of([embed], [("ids", i32, [1, 4]), ("seg", i32, [1, 4])], [("e", FLOAT, [1, 4, 8])], tensors, domains=["com.microsoft"])
    onnx.save(model, tmp_path / "in.onnx")
    values = {*inputs, "e", "mi"} - {""}
    for words, names in ((("--op-types", "EmbedLayerNormalization"), [set(tensors)]),
                         (("--op-types", "EmbedLayerNormalization", "--exclude", "embed"), [{n} for n in tensors])):  # fmt: skip
        nodes = weir.report("dynamic", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force", *words)["passes"][0]["nodes"]
        assert {n["tensor"] for n in nodes} in names
    for name in values - set(tensors):
        said = weir("dynamic", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force", "--op-types", "EmbedLayerNormalization", "--exclude", name)
        assert f"--exclude '{name}' matches no weight" in said.err, name


@pytest.mark.parametrize("form", ["integer", "fused"])
def test_an_unsorted_graph_becomes_the_same(weir, tmp_path, form):
    """A node whose weight comes of the node after it in the list, which goes: the walk goes on, and finds the others."""
    rng = np.random.default_rng(3)
    weights = {f"w{i}": rng.normal(size=(8, 8)).astype(np.float32) for i in range(3)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("MatMul", ["a", "w1"], ["b"], name="second"),
        helper.make_node("Transpose", ["w2"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("MatMul", ["b", "t"], ["y"], name="third"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy")
    made = []
    for order in (nodes, nodes[::-1]):
        graph = helper.make_graph(order, "g", [x], [y], [numpy_helper.from_array(array, name) for name, array in weights.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
        weir("dynamic", tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", "--form", form)
        got = onnx.load(tmp_path / "o.onnx").graph
        made.append((sorted((n.op_type, *n.input) for n in got.node), sorted((t.name, t.raw_data) for t in got.initializer)))
    assert made[0] == made[1] and "MatMul" not in [n[0] for n in made[0][0]]
