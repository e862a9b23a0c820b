"""The pass quantize: every tensor and node as onnxruntime's quantizer writes them, and better where it fails.

Equality is tested against the installed onnxruntime wherever that writes something valid. What it does not do, or
does wrong (docs/quantize.md lists it), is tested against the operators' published semantics: the float model's
weights are replaced by what codes, scales and zero points stand for, and both must give the same numbers.
"""

import copy
import itertools
import json
import random

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import compare
import hqq
import wheel
import wire
from conftest import ALL, DATA, package_model

BITS, BLOCKS, SYMMETRIC = (2, 4, 8), (16, 32, 64, 128, 256), (False, True)
EVERY = list(itertools.product(BITS, BLOCKS, SYMMETRIC))
# For large models: ten of them, in which each number of bits, block size and symmetry occurs. Random shapes have all of them.
THIRD = EVERY if ALL else EVERY[1::3]


def words(bits=4, block=128, symmetric=False, **more):
    """The pass with its options as --pass takes them."""
    options = {"bits": bits, "block_size": block, "symmetric": str(symmetric).lower(), **more}
    return "quantize:" + ",".join(f"{key}={value}" for key, value in options.items())


def loaded(path):
    """A model with all payloads in it."""
    return compare.raw_model(path)


def quantize(weir, source, out, **options):
    """Runs the pass on a path or a model; gives the model that comes out."""
    if isinstance(source, onnx.ModelProto):
        onnx.save(source, out.parent / "source.onnx")
        source = out.parent / "source.onnx"
    weir("run", source, out, "--pass", words(**options), "--no-manifest", "--force")
    return loaded(out)


def sites(report):
    return {node["node_name"]: node["reason"] for each in report["passes"] for node in each["nodes"]}


def report_of(weir, source, out, **options):
    onnx.save(source, out.parent / "source.onnx")
    return weir.report("run", out.parent / "source.onnx", out, "--pass", words(**options), "--no-manifest", "--force")


# ---- models


def folded(model):
    """Transposes of initializers done, as weir looks through them and onnxruntime's quantizer does not."""
    model = copy.deepcopy(model)
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in list(model.graph.node):
        if node.op_type != "Transpose" or node.input[0] not in held:
            continue
        swapped = numpy_helper.to_array(held[node.input[0]]).T.copy()
        model.graph.initializer.append(numpy_helper.from_array(swapped, node.output[0]))
        model.graph.node.remove(node)
    used = compare.used_names(model)
    for tensor in list(model.graph.initializer):
        if tensor.name not in used:
            model.graph.initializer.remove(tensor)
    return model


SOURCES = {
    "parakeet-dynamo": lambda: DATA / "parakeet-dynamo" / "encoder-model.onnx",
    "parakeet-torchscript": lambda: DATA / "parakeet-torchscript" / "encoder-model.onnx",
    "rapidocr-rec": lambda: package_model("rapidocr", "rec"),
    "tied": lambda: DATA / "tied" / "model.onnx",
}


def feeds_of(path, seed=0):
    """Random inputs for any of the models."""
    numbers = np.random.default_rng(seed)
    if "parakeet" in str(path):
        return {"audio_signal": numbers.normal(size=(1, 48, 32)).astype(np.float32), "attention_mask": np.ones((1, 48), bool)}
    if "tied" in str(path):
        return {"tokens": numbers.integers(0, 160, size=(2, 7))}
    return {"x": numbers.normal(size=(1, 3, 48, 160)).astype(np.float32)}


def outputs(path, feeds, optimized=True):
    """What ONNX Runtime computes, in the order of the model's outputs, with activations left as they are.

    `optimized=False`: operator by operator. Optimized, DequantizeLinear and MatMul become MatMulNBits, for which ONNX
    Runtime 1.31.1 packs 2 bit codes wrongly where the number of columns is no multiple of 4.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # it would round them to int8
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def model_of(nodes, initializers, inputs, outputs, opset=21, ir=10, functions=(), imports=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), *imports]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    model.ir_version = ir
    return model


def value(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def tensor(name, dims, numbers, dtype=np.float32):
    return numpy_helper.from_array(numbers.normal(size=dims).astype(dtype), name)


def one_matmul(numbers, dims=(40, 6), rank=2, **how):
    """x · W, for W of any rank."""
    x = ["batch", "rows"][: rank - 1] + [dims[-2]]
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"], "fc")]
    return model_of(nodes, [tensor("W", dims, numbers)], [value("x", x)], [value("y", None)], **how)


def small_weights(numbers, dims):
    """Weights with what is special: zeros, constants, one sign, ties, large and tiny ones."""
    kind = numbers.integers(0, 8)
    w = numbers.normal(size=dims).astype(np.float32)
    if kind == 0:
        w[...] = 0
    elif kind == 1:
        w[...] = numbers.normal()
    elif kind == 2:
        w = np.abs(w) + np.float32(0.5)
    elif kind == 3:
        w = -np.abs(w)
    elif kind == 4:
        w = numbers.integers(-8, 8, size=dims).astype(np.float32) / np.float32(2)
    elif kind == 5:
        w *= np.float32(1e-30)
    return w


def many_matmuls(seed, count, opset=21, ranks=(2, 2, 2, 3, 4), even=False):
    """MatMuls of random shapes in one model. Activations share inputs by K."""
    numbers, choose = np.random.default_rng(seed), random.Random(seed)
    nodes, weights, inputs, outputs = [], [], {}, []
    for i in range(count):
        k, n = choose.randint(1, 70) if choose.random() < 0.7 else choose.randint(70, 600), choose.randint(1, 40)
        k += even and k * n % 2
        dtype, dims = choose.choice([np.float32, np.float32, np.float16]), [k, n]
        dims = [1] * (choose.choice(ranks) - 2) + dims
        rank = choose.choice([2, 3])
        x = f"x_{k}_{rank}_{np.dtype(dtype).name}"
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        inputs[x] = value(x, ["a", "b"][: rank - 1] + [k], kind)
        weights.append(numpy_helper.from_array(small_weights(numbers, dims).astype(dtype), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"y{i}"], f"fc{i}" if choose.random() < 0.8 else ""))
        outputs.append(value(f"y{i}", None, kind))
    return model_of(nodes, weights, list(inputs.values()), outputs, opset=opset)


# ---- equal to onnxruntime's quantizer


def source_for_wheel(name):
    source = SOURCES[name]()
    return source, folded(loaded(source))


@pytest.mark.parametrize("name", SOURCES)
def test_qoperator_is_what_onnxruntime_writes(weir, quick_folder, name):
    source, model = source_for_wheel(name)
    for bits, block, symmetric in THIRD:
        ours = quantize(weir, source, quick_folder / "out.onnx", bits=bits, block=block, symmetric=symmetric)
        theirs = wheel.quantized(model, bits, block, symmetric)
        wheel.assert_same_graph(ours.graph, theirs.graph)
        assert {(o.domain, o.version) for o in ours.opset_import} == {
            (o.domain, o.version) for o in theirs.opset_import
        }


@pytest.mark.parametrize("seed", range(30))
def test_qoperator_of_random_shapes(weir, quick_folder, seed):
    bits, block, symmetric = EVERY[seed]
    model = many_matmuls(seed, 20)
    ours = quantize(weir, model, quick_folder / "out.onnx", bits=bits, block=block, symmetric=symmetric)
    wheel.assert_same_graph(ours.graph, wheel.quantized(model, bits, block, symmetric).graph)


@pytest.mark.parametrize("name", SOURCES)
def test_qdq_tensors_are_what_onnxruntime_writes(weir, quick_folder, name):
    """The sources have opsets below 21, which the wheel overwrites: its initializers are right all the same."""
    source, model = source_for_wheel(name)
    for block, symmetric in itertools.product(BLOCKS, SYMMETRIC):
        done = weir("run", source, quick_folder / "out.onnx", "--pass", words(4, block, symmetric, format="qdq"),
                    "--no-manifest", "--force", code=None)  # fmt: skip
        if done.code == 1:
            assert "changed between opset" in done.err
            continue
        assert done.code == 0, done.said
        theirs = wheel.quantized(model, 4, block, symmetric, qdq=True)
        wheel.assert_same_initializers(loaded(quick_folder / "out.onnx").graph, theirs.graph)
        compare.session(quick_folder / "out.onnx")


@pytest.mark.parametrize("seed", range(12))
def test_qdq_of_random_shapes(weir, quick_folder, seed):
    block, symmetric = list(itertools.product((*BLOCKS, "channel"), SYMMETRIC))[seed]
    channel = block == "channel"
    # Per channel and symmetric, the wheel cannot turn a matrix of an odd number of elements round: it raises.
    model = many_matmuls(100 + seed, 20, even=channel and symmetric)
    ours = quantize(weir, model, quick_folder / "out.onnx", block=block, symmetric=symmetric, format="qdq")
    theirs = wheel.quantized(model, 4, 128 if channel else block, symmetric, qdq=True, channel=channel)
    wheel.assert_same_graph(ours.graph, theirs.graph)


def test_a_tall_weight_is_not_read_row_by_row(weir_fault, tmp_path):
    """Blocks down the columns of a weight of three: views of the file are as few as the megabytes, not one for each row of blocks."""
    w = np.random.default_rng(5).standard_normal((40_000, 3)).astype("f4")
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [numpy_helper.from_array(w, "w")], [value("x", ["n", 40_000])], [value("y", ["n", 3])])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data")
    counts = tmp_path / "counts"
    how = ["--format", "qdq", "--block-size", "16", "--memory", "24MiB"]
    weir_fault("quantize", tmp_path / "m.onnx", tmp_path / "o.onnx", *how, env={"WEIR_FAULT_COUNTS": str(counts)})
    asked = dict(line.split() for line in counts.read_text().splitlines())
    assert int(asked["map"]) < 50


def test_accuracy_level_is_written(weir, quick_folder):
    model = one_matmul(np.random.default_rng(0))
    ours = quantize(weir, model, quick_folder / "out.onnx", accuracy_level=4)
    wheel.assert_same_graph(ours.graph, wheel.quantized(model, accuracy_level=4).graph)


# ---- runs, and is as near to the float model


@pytest.mark.parametrize("name", SOURCES)
def test_the_error_is_that_of_onnxruntimes_own_model(weir, tmp_path, name):
    source, model = source_for_wheel(name)
    quantize(weir, source, tmp_path / "ours.onnx", block=32)
    onnx.save(wheel.quantized(model, block=32), tmp_path / "theirs.onnx")
    feeds = feeds_of(source)
    want = outputs(source, feeds)
    ours, theirs = outputs(tmp_path / "ours.onnx", feeds), outputs(tmp_path / "theirs.onnx", feeds)
    for a, b, c in zip(want, ours, theirs):
        assert np.abs(a.astype(np.float64) - b).sum() <= np.abs(a.astype(np.float64) - c).sum()
        assert np.isfinite(b).all()


def random_feeds(model, numbers):
    sizes = {"a": 2, "b": 3, "batch": 2, "rows": 3}
    return {
        each.name: numbers.normal(
            size=[dim.dim_value or sizes[dim.dim_param] for dim in each.type.tensor_type.shape.dim]
        ).astype(helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type))
        for each in model.graph.input
    }


def dequantized(codes, scales, zeros, block, axis):
    """What blocks along an axis stand for."""
    widen = lambda x: np.take(x, np.arange(codes.shape[axis]) // block, axis).astype(np.float64)  # noqa: E731
    return (codes.astype(np.float64) - (0 if zeros is None else widen(zeros))) * widen(scales)


def assert_near(model, changed, path, feeds, loose=2e-3):
    """The quantized model at `path` computes what the float model does with the weights of `changed`."""
    plain = copy.deepcopy(model)
    for held in plain.graph.initializer:
        if held.name in changed:
            new = changed[held.name].astype(numpy_helper.to_array(held).dtype)
            held.CopyFrom(numpy_helper.from_array(new, held.name))
    onnx.save(plain, path.parent / "plain.onnx")
    for want, got in zip(outputs(path.parent / "plain.onnx", feeds), outputs(path, feeds, optimized=False)):
        assert want.shape == got.shape
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=loose, atol=loose * max(1, np.abs(want).max()))


def qdq_weights(model, names):
    """The weights that a qdq model's codes, scales and zero points stand for."""
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    found = {}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            options = {each.name: each.i for each in node.attribute}
            zeros = held[node.input[2]] if len(node.input) > 2 else None
            found[node.input[0].rsplit("_DQ_", 1)[0]] = dequantized(
                held[node.input[0]], held[node.input[1]], zeros, options["block_size"], options["axis"]
            )
    assert sorted(found) == sorted(names)
    return found


@pytest.mark.parametrize("symmetric", SYMMETRIC)
@pytest.mark.parametrize("bits", BITS)
def test_qdq_stands_for_the_weights(weir, tmp_path, bits, symmetric):
    """MatMul, Gemm and Gather; 2 and 8 bits, which onnxruntime's quantizer does not write."""
    numbers = np.random.default_rng(bits)
    nodes = [
        helper.make_node("Gather", ["E", "i"], ["x"], "embed"),
        helper.make_node("MatMul", ["x", "A"], ["a"], "fc"),
        helper.make_node("Gemm", ["a", "B", "c"], ["y"], "gemm", transB=1, alpha=0.3, beta=0.7),
        helper.make_node("Gemm", ["a", "D"], ["z"], "plain"),
    ]
    weights = [tensor("E", (50, 40), numbers), tensor("A", (40, 36), numbers), tensor("B", (9, 36), numbers),
               tensor("c", (9,), numbers), tensor("D", (36, 5), numbers)]  # fmt: skip
    model = model_of(nodes, weights, [value("i", ["n"], TensorProto.INT64)],
                     [value("y", ["n", 9]), value("z", ["n", 5])],
                     opset=17, ir=8)  # fmt: skip
    ours = quantize(weir, model, tmp_path / "out.onnx", bits=bits, block=16, symmetric=symmetric, format="qdq",
                    op_types="MatMul+Gemm+Gather")  # fmt: skip
    assert {o.domain: o.version for o in ours.opset_import} == {"": 25 if bits == 2 else 21}
    assert ours.ir_version == (13 if bits == 2 else 10)
    onnx.checker.check_model(ours, full_check=True)
    changed = qdq_weights(ours, ["A", "B", "D", "E"])
    for held in weights:
        if held.name in changed:
            step = (2 if symmetric else 1.2) * np.ptp(wheel.array(held)) / (2**bits - 1)
            assert np.abs(wheel.array(held) - changed[held.name]).max() <= step
    assert_near(model, changed, tmp_path / "out.onnx", {"i": np.arange(7)})


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_shapes_of_outputs(weir, tmp_path, op, rank):
    """Weights with leading dims of 1 and activations of every rank, declared or not: shapes as MatMul has them."""
    numbers = np.random.default_rng(rank)
    if op == "Gemm" and rank != 2:
        pytest.skip("Gemm takes matrices")
    for dims in [(40, 6)] if op == "Gemm" else [(40, 6), (1, 40, 6), (1, 1, 40, 6)]:
        node = helper.make_node(op, ["x", "W"], ["y"], "fc")
        x = ["batch", "rows"][: rank - 1] + [40]
        model = model_of([node], [tensor("W", dims, numbers)], [value("x", x)], [value("y", None)])
        for form in ("qoperator", "qdq"):
            quantize(weir, model, tmp_path / "out.onnx", bits=8, block=16, format=form, op_types=op)
            feeds = random_feeds(model, numbers)
            [want], [got] = outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)
            assert want.shape == got.shape
            np.testing.assert_allclose(got, want, atol=0.3)


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("alpha, beta, bias", [(1, 1, (6,)), (0.5, 4, (1, 6)), (2, 0, (6,)), (1, 1, ()), (1, 1, None)])
def test_gemm(weir, tmp_path, trans_b, alpha, beta, bias):
    numbers = np.random.default_rng(0)
    weights = [tensor("W", (6, 40) if trans_b else (40, 6), numbers)]
    if bias is not None:
        weights.append(tensor("c", bias, numbers))
    names = ["x", "W", *(["c"] if bias is not None else [])]
    node = helper.make_node("Gemm", names, ["y"], "fc", transB=trans_b, alpha=float(alpha), beta=float(beta))
    model = model_of([node], weights, [value("x", ["rows", 40])], [value("y", None)])
    ours = quantize(weir, model, tmp_path / "out.onnx", bits=8, block=16, op_types="Gemm")
    assert "Gemm" not in {each.op_type for each in ours.graph.node}
    feeds = random_feeds(model, numbers)
    [want], [got] = outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)
    np.testing.assert_allclose(got, want, atol=0.2)


# ---- where weights are


def test_tied_embeddings_are_quantized_straight_from_the_table(weir, tmp_path):
    source = SOURCES["tied"]()
    ours = quantize(weir, source, tmp_path / "out.onnx", block=32)
    [head] = [node for node in ours.graph.node if node.output[0] == "logits"]
    assert head.op_type == "MatMulNBits"
    names = {each.name for each in ours.graph.initializer}
    assert "embed.weight" in names  # the Gather still uses it
    assert not {each.op_type for each in ours.graph.node if each.op_type == "Transpose" and each.input[0] in names}


def test_constants_identities_subgraphs_and_functions(weir, tmp_path):
    numbers = np.random.default_rng(1)
    held = tensor("W", (40, 40), numbers)
    constant = helper.make_node("Constant", [], ["C"], value=tensor("", (40, 40), numbers))
    then = helper.make_graph([helper.make_node("MatMul", ["x", "W"], ["t"], "then_fc")], "t", [], [value("t", None)])
    other = helper.make_graph(
        [helper.make_node("MatMul", ["x", "V"], ["e"], "else_fc")], "e", [], [value("e", None)],
        [tensor("V", (40, 40), numbers)],
    )  # fmt: skip
    body = [
        helper.make_node("Constant", [], ["F"], value=tensor("", (40, 40), numbers)),
        helper.make_node("MatMul", ["a", "F"], ["b"], "inside"),
    ]
    function = helper.make_function("local", "f", ["a"], ["b"], body, [helper.make_opsetid("", 21)])
    nodes = [
        constant,
        helper.make_node("Identity", ["C"], ["D"]),
        helper.make_node("MatMul", ["x", "D"], ["d"], "behind"),
        helper.make_node("If", ["c"], ["i"], "choose", then_branch=then, else_branch=other),
        helper.make_node("f", ["d"], ["g"], "call", domain="local"),
        helper.make_node("Add", ["i", "g"], ["y"]),
    ]
    model = model_of(nodes, [held], [value("x", [3, 40]), value("c", [], TensorProto.BOOL)], [value("y", None)],
                     functions=[function], imports=[helper.make_opsetid("local", 1)])  # fmt: skip
    for form in ("qoperator", "qdq"):
        ours = quantize(weir, model, tmp_path / "out.onnx", bits=8, block=16, format=form)
        plain = [node for graph in compare.graphs(ours) for node in graph.node if node.op_type == "MatMul"]
        assert len(plain) == (4 if form == "qdq" else 0)
        assert ours.functions[0].node[-1].op_type == ("MatMul" if form == "qdq" else "MatMulNBits")
        for chosen in (True, False):
            feeds = {"x": numbers.normal(size=(3, 40)).astype(np.float32), "c": np.array(chosen)}
            [want], [got] = outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)
            np.testing.assert_allclose(got, want, atol=0.03 * np.abs(want).max())


# ---- deliberate differences from onnxruntime's quantizer (docs/quantize.md)


def names_of(graph):
    return [each.name for each in graph.initializer]


def test_a_shared_weight_has_one_set_of_tensors(weir, tmp_path):
    """onnxruntime's quantizer makes them for every node: with qdq that is two values of one name."""
    numbers = np.random.default_rng(2)
    nodes = [helper.make_node("MatMul", ["x", "W"], [y], y) for y in ("a", "b")]
    model = model_of(nodes, [tensor("W", (40, 6), numbers)], [value("x", [3, 40])],
                     [value("a", [3, 6]), value("b", [3, 6])])  # fmt: skip
    with pytest.raises(onnx.checker.ValidationError, match="W_DQ_Q4_output"):
        onnx.checker.check_model(wheel.quantized(model, block=32, qdq=True))
    for form in ("qoperator", "qdq"):
        ours = quantize(weir, model, tmp_path / "out.onnx", block=32, format=form)
        assert len(set(names_of(ours.graph))) == len(names_of(ours.graph)) == 3
        onnx.checker.check_model(ours)
        compare.session(tmp_path / "out.onnx")


def test_a_function_without_imports_gets_the_domain_it_needs(weir, tmp_path):
    numbers = np.random.default_rng(13)
    body = [
        helper.make_node("Constant", [], ["F"], value=tensor("", (40, 40), numbers)),
        helper.make_node("MatMul", ["a", "F"], ["b"], "inside"),
    ]
    function = helper.make_function("local", "f", ["a"], ["b"], body, [])
    model = model_of([helper.make_node("f", ["x"], ["y"], domain="local")], [], [value("x", [3, 40])], [value("y", None)],
                     functions=[function], imports=[helper.make_opsetid("local", 1)])  # fmt: skip
    ours = quantize(weir, model, tmp_path / "out.onnx")
    assert ours.functions[0].node[-1].op_type == "MatMulNBits"
    assert [(o.domain, o.version) for o in ours.functions[0].opset_import] == [("com.microsoft", 1)]


def test_imports_of_a_function_in_two_places(weir, tmp_path):
    """One before its domain, one behind: both are read, and each is written once."""
    numbers = np.random.default_rng(14)
    body = [
        helper.make_node("Constant", [], ["F"], value=tensor("", (40, 40), numbers)),
        helper.make_node("MatMul", ["a", "F"], ["b"], "inside"),
    ]
    function = helper.make_function("local", "f", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    more = onnx.FunctionProto(opset_import=[helper.make_opsetid("other", 1)])
    model = model_of([helper.make_node("f", ["x"], ["y"], domain="local")], [], [value("x", [3, 40])], [value("y", None)],
                     opset=17, ir=8, imports=[helper.make_opsetid("local", 1)])  # fmt: skip
    functions = wire.blob(25, function.SerializeToString() + more.SerializeToString())
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString() + functions)
    ours = quantize(weir, tmp_path / "in.onnx", tmp_path / "out.onnx", format="qdq")
    assert [(o.domain, o.version) for o in ours.functions[0].opset_import] == [("", 21), ("other", 1)]


@pytest.mark.parametrize("opset", [11, 12])
def test_the_chain_needs_a_max_of_integers(weir, tmp_path, opset):
    """Max takes integers from opset 12 on. A product that has the dims of W anyway needs no chain."""
    numbers = np.random.default_rng(15)
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"], "chained"), helper.make_node("MatMul", ["u", "V"], ["v"], "plain")]
    model = model_of(nodes, [tensor("W", (1, 40, 6), numbers), tensor("V", (1, 40, 6), numbers)],
                     [value("x", ["rows", 40]), value("u", ["batch", "rows", 40])], [value("y", None), value("v", None)],
                     opset=opset, ir=6)  # fmt: skip
    reasons = sites(report_of(weir, model, tmp_path / "out.onnx", bits=8, block=16))
    assert reasons == {"chained": "quantized" if opset == 12 else "opset_too_old", "plain": "quantized"}
    feeds = random_feeds(model, numbers)
    for want, got in zip(outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)):
        assert want.shape == got.shape
        np.testing.assert_allclose(got, want, atol=0.3)


def calling(body, given, opset, ir):
    """A model that calls one function: of `given`, to what the last node of its body makes."""
    domain = helper.make_opsetid("local", 1)
    function = helper.make_function(
        "local", "f", [given.name], body[-1].output, body, [helper.make_opsetid("", opset)]
    )
    call = helper.make_node("f", [given.name], ["y"], "call", domain="local")
    return model_of([call], [], [given], [value("y", None)], opset=opset, ir=ir, functions=[function], imports=[domain])


@pytest.mark.parametrize("bits, opset", [(4, 20), (4, 21), (8, 20)])
def test_a_table_of_a_function(weir, tmp_path, bits, opset):
    """Tensors of a function are Constant nodes, which hold 4 bit types from opset 21 on."""
    numbers = np.random.default_rng(16)
    body = [
        helper.make_node("Constant", [], ["E"], value=tensor("", (50, 32), numbers)),
        helper.make_node("Gather", ["E", "i"], ["r"], "inside"),
    ]
    model = calling(body, value("i", ["n"], TensorProto.INT64), opset, ir=10)
    reasons = sites(report_of(weir, model, tmp_path / "out.onnx", bits=bits, block=16, op_types="Gather"))
    assert reasons == {"inside": "opset_too_old" if (bits, opset) == (4, 20) else "quantized"}
    feeds = {"i": np.array([0, 49, -1])}
    [want], [got] = outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)
    assert want.shape == got.shape and np.abs(want - got).max() < 0.3


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("opset", [8, 9])
def test_codes_of_a_function(weir, tmp_path, opset, bits):
    """A function keeps them in Constant nodes, which hold integers from opset 9 on."""
    numbers = np.random.default_rng(19)
    body = [
        helper.make_node("Constant", [], ["W"], value=tensor("", (64, 6), numbers)),
        helper.make_node("MatMul", ["x", "W"], ["p"], "inside"),
    ]
    model = calling(body, value("x", ["rows", 64]), opset, ir=8)
    reasons = sites(report_of(weir, model, tmp_path / "out.onnx", bits=bits, block=16))
    assert reasons == {"inside": "opset_too_old" if opset == 8 else "quantized"}
    feeds = random_feeds(model, numbers)
    [want], [got] = outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)
    assert want.shape == got.shape and (opset == 9 or (want == got).all())


@pytest.mark.parametrize("form", ["qoperator", "qdq"])
def test_names_of_nodes_differ(weir, tmp_path, form):
    """ONNX Runtime does not load a graph with two nodes of one name."""
    numbers = np.random.default_rng(17)
    taken = ["fc_Q4", "fc_Q4_1", "fc_DQ_Q4", "fc_matmul_Q4", "fc_alpha_Q4", "fc_Q4_y_shape_a", "fc_DQ_Q4_y_shape_a"]
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"], "fc"), helper.make_node("MatMul", ["x", "V"], ["z"], "fc_Q4_Q4")]
    nodes += [helper.make_node("Neg", ["x"], [f"n{i}"], name) for i, name in enumerate(taken)]
    model = model_of(nodes, [tensor("W", (1, 40, 6), numbers), tensor("V", (40, 6), numbers)], [value("x", ["rows", 40])],
                     [value("y", None), value("z", None)], opset=21, ir=10)  # fmt: skip
    ours = quantize(weir, model, tmp_path / "out.onnx", block=16, format=form)
    names = [node.name for node in ours.graph.node]
    assert len(set(names)) == len(names) and set(taken) < set(names)
    assert ("fc_Q4_2" if form == "qoperator" else "fc_matmul_Q4_1") in names
    feeds = random_feeds(model, numbers)
    for want, got in zip(outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)):
        assert want.shape == got.shape


def test_names_of_nodes_that_go_are_free(weir, tmp_path):
    """fc and fc_Q4, both quantized, in both branches of an If: as onnxruntime's quantizer names them."""
    numbers = np.random.default_rng(18)
    branch = lambda y: helper.make_graph(  # noqa: E731
        [helper.make_node("MatMul", ["x", "W"], [f"{y}1"], "fc"), helper.make_node("MatMul", [f"{y}1", "V"], [y], "fc_Q4")],
        y, [], [value(y, None)])  # fmt: skip
    model = model_of([helper.make_node("If", ["c"], ["y"], "fc", then_branch=branch("t"), else_branch=branch("e"))],
                     [tensor("W", (40, 40), numbers), tensor("V", (40, 6), numbers)],
                     [value("c", [], TensorProto.BOOL), value("x", ["rows", 40])], [value("y", None)])  # fmt: skip
    ours = quantize(weir, model, tmp_path / "out.onnx", block=16)
    for attribute in ours.graph.node[0].attribute:
        assert [node.name for node in attribute.g.node] == ["fc_Q4", "fc_Q4_Q4"]


def test_control_flow_keeps_its_domain(weir, tmp_path):
    """onnxruntime's quantizer makes a node with subgraphs anew and forgets its domain."""
    numbers = np.random.default_rng(3)
    body = helper.make_graph([helper.make_node("MatMul", ["x", "W"], ["t"])], "t", [], [value("t", None)])
    node = helper.make_node("Repeat", ["x"], ["y"], domain="custom", body=body)
    model = model_of([node], [tensor("W", (40, 6), numbers)], [value("x", [3, 40])], [value("y", None)],
                     imports=[helper.make_opsetid("custom", 1)])  # fmt: skip
    assert wheel.quantized(model).graph.node[0].domain == ""
    ours = quantize(weir, model, tmp_path / "out.onnx")
    assert ours.graph.node[0].domain == "custom"
    assert ours.graph.node[0].attribute[0].g.node[0].op_type == "MatMulNBits"


def test_the_opset_is_never_just_overwritten(weir, tmp_path):
    numbers = np.random.default_rng(4)
    model = one_matmul(numbers, opset=11, ir=6)
    model.graph.node.append(helper.make_node("ReduceMean", ["y"], ["m"], "mean", axes=[0]))
    del model.graph.output[:]
    model.graph.output.append(value("m", [1, 6]))
    wheel_model = wheel.quantized(model, qdq=True)
    assert wheel_model.opset_import[0].version == 21  # the reason: it does not load
    with pytest.raises(Exception, match="axes"):
        onnx.checker.check_model(wheel_model, full_check=True)
    onnx.save(model, tmp_path / "in.onnx")
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", words(format="qdq"), code=1)
    assert "node 'mean' (ReduceMean) changed between opset 11 and 21, in 18: its attribute 'axes'" in done.err
    assert not (tmp_path / "out.onnx").exists()


def test_a_raise_that_changes_nothing_is_done(weir, tmp_path):
    numbers = np.random.default_rng(5)
    model = one_matmul(numbers, opset=11, ir=6)
    model.graph.node.append(helper.make_node("Relu", ["y"], ["r"], "relu"))
    del model.graph.output[:]
    model.graph.output.append(value("r", ["batch", 6]))
    ours = quantize(weir, model, tmp_path / "out.onnx", format="qdq", block=16)
    assert (ours.opset_import[0].version, ours.ir_version) == (21, 10)
    onnx.checker.check_model(ours, full_check=True)
    compare.session(tmp_path / "out.onnx")


def test_no_raise_where_none_is_needed(weir, tmp_path):
    """QOperator nodes work with any opset."""
    ours = quantize(weir, one_matmul(np.random.default_rng(6), opset=13, ir=7), tmp_path / "out.onnx")
    assert {o.domain: o.version for o in ours.opset_import} == {"": 13, "com.microsoft": 1}
    assert ours.ir_version == 7


def test_a_weight_that_a_caller_may_replace_stays(weir, tmp_path):
    """onnxruntime's quantizer takes the input away."""
    model = one_matmul(np.random.default_rng(7))
    model.graph.input.append(value("W", [40, 6]))
    assert len(wheel.quantized(model).graph.input) == 1
    report = report_of(weir, model, tmp_path / "out.onnx")
    assert sites(report) == {"fc": "overridable_weight"}
    assert len(loaded(tmp_path / "out.onnx").graph.input) == 2


def test_reasons(weir, tmp_path):
    numbers = np.random.default_rng(8)
    weights = [tensor("left", (3, 40), numbers), tensor("batch", (2, 40, 6), numbers), tensor("vector", (40,), numbers),
               tensor("double", (40, 6), numbers, np.float64), tensor("W", (40, 6), numbers)]  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["left", "x"], ["a"], "left"),
        helper.make_node("MatMul", ["y", "batch"], ["b"], "batch"),
        helper.make_node("MatMul", ["y", "vector"], ["c"], "vector"),
        helper.make_node("MatMul", ["d", "double"], ["e"], "double"),
        helper.make_node("MatMul", ["y", "x"], ["f"], "dynamic"),
        helper.make_node("MatMul", ["y", "W"], ["h"], "fc"),
    ]
    inputs = [value("x", [40, 3]), value("y", [3, 40]), value("d", [3, 40], TensorProto.DOUBLE)]
    outputs = [value(name, None, TensorProto.DOUBLE if name == "e" else TensorProto.FLOAT) for name in "abcefh"]
    report = report_of(weir, model_of(nodes, weights, inputs, outputs), tmp_path / "out.onnx")
    assert sites(report) == {
        "left": "weight_on_the_left", "batch": "batched_weight", "vector": "weight_rank", "double": "weight_dtype",
        "dynamic": "non_constant_weight", "fc": "quantized",
    }  # fmt: skip


def test_quantizing_twice_changes_nothing(weir, tmp_path):
    model = one_matmul(np.random.default_rng(9))
    for form in ("qoperator", "qdq"):
        once = quantize(weir, model, tmp_path / "once.onnx", format=form)
        report = report_of(weir, once, tmp_path / "twice.onnx", format=form)
        assert set(sites(report).values()) == {"already_quantized"}
        assert compare.canonical(tmp_path / "twice.onnx") == compare.canonical(tmp_path / "source.onnx")


# ---- selection and refusals


def test_selection(weir, tmp_path):
    model = many_matmuls(0, 6, ranks=(2,))
    for at, node in enumerate(model.graph.node):
        node.name = f"fc{at}"
    ours = quantize(weir, model, tmp_path / "out.onnx", block=16, exclude="w0", include="fc[0-3]",
                    tensor=r"re:^w[0125]\$\=bits8\:g32".replace(r"\$", "$"))  # fmt: skip
    found = {each.input[1] for each in ours.graph.node if each.op_type == "MatMulNBits"}
    assert found == {"w1_Q8", "w2_Q8", "w3_Q4", "w5_Q8"}


def test_a_pattern_that_matches_nothing_is_told(weir, tmp_path):
    onnx.save(one_matmul(np.random.default_rng(10)), tmp_path / "in.onnx")
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", words(exclude="fcc"))
    assert "--exclude 'fcc' matches no weight" in done.err and "'fc'" in done.err


@pytest.mark.parametrize(
    "options, said",
    [
        ({"block": "channel"}, "channel"),
        ({"algorithm": "hqq", "symmetric": True}, "hqq"),
        ({"algorithm": "hqq", "bits": 8}, "2 and 4 bits only"),
        ({"algorithm": "hqq", "op_types": "Gather"}, "MatMul and Gemm only"),
        ({"algorithm": "rtn", "format": "qdq"}, "default algorithm"),
        ({"accuracy_level": 4, "format": "qdq"}, "accuracy"),
        ({"accuracy_level": 9}, "accuracy level must be 0 to 4"),
        ({"exclude": "re:a("}, "re:a("),
        ({"tensor": r"w\=bits3"}, "bits3"),
        ({"op_types": "Conv"}, "Conv"),
    ],
)
def test_refusals(weir, tmp_path, options, said):
    onnx.save(one_matmul(np.random.default_rng(11)), tmp_path / "in.onnx")
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", words(**options), code=2)
    assert said in done.err
    assert not (tmp_path / "out.onnx").exists()


# ---- Gather


def one_gather(numbers, dims=(50, 64), dtype=np.float32, axis=0, opset=21, ir=10):
    nodes = [helper.make_node("Gather", ["E", "i"], ["y"], "embed", axis=axis)]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model_of(nodes, [numpy_helper.from_array(small_weights(numbers, dims).astype(dtype), "E")],
                    [value("i", ["n"], TensorProto.INT64)], [value("y", None, kind)], opset=opset, ir=ir)  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_gather_is_what_onnxruntime_writes(weir, quick_folder, seed):
    numbers, choose = np.random.default_rng(seed), random.Random(seed)
    block, symmetric = list(itertools.product(BLOCKS, SYMMETRIC))[seed % 10]
    dims = [choose.randint(1, 30), choose.randint(1, 300)] + ([choose.randint(1, 5)] if seed % 3 == 0 else [])
    model = one_gather(numbers, dims, choose.choice([np.float32, np.float16]),
                       axis=choose.randint(-len(dims), len(dims) - 1))  # fmt: skip
    ours = quantize(weir, model, quick_folder / "out.onnx", block=block, symmetric=symmetric, op_types="MatMul+Gather")
    theirs = wheel.quantized(model, 4, block, symmetric, op_types=("MatMul", "Gather"))
    wheel.assert_same_graph(ours.graph, theirs.graph)


@pytest.mark.parametrize("symmetric", SYMMETRIC)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gather_runs(weir, tmp_path, bits, symmetric, dtype):
    """2 and 8 bits, which onnxruntime's quantizer does not write, and opsets that need no raise."""
    numbers = np.random.default_rng(bits)
    model = one_gather(numbers, opset=13, ir=7, dtype=dtype)
    w = numbers.normal(size=(50, 64)).astype(dtype)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "E"))
    ours = quantize(weir, model, tmp_path / "out.onnx", bits=bits, block=32, symmetric=symmetric, op_types="Gather")
    assert ours.opset_import[0].version == 13
    [got] = outputs(tmp_path / "out.onnx", {"i": np.array([3, 0, 49, 3])})
    step = 1.05 * (2 * np.abs(w).max() if symmetric else np.ptp(w)) / (2**bits - 1)
    assert np.abs(got - w[[3, 0, 49, 3]].astype(np.float64)).max() <= (step if symmetric else 0.6 * step)


# ---- the other algorithms


@pytest.mark.parametrize("symmetric", SYMMETRIC)
@pytest.mark.parametrize("algorithm", ["rtn", "k_quant"])
def test_other_algorithms_are_what_onnxruntime_writes(weir, quick_folder, algorithm, symmetric):
    numbers = np.random.default_rng(0)
    nodes, weights = [], []
    for at, (k, n) in enumerate([(64, 5), (100, 1), (33, 8), (300, 3), (20, 4)]):
        nodes.append(helper.make_node("MatMul", [f"x{at}", f"w{at}"], [f"y{at}"], f"fc{at}"))
        weights.append(tensor(f"w{at}", (k, n), numbers))
    inputs = [value(f"x{at}", [2, each.dims[0]]) for at, each in enumerate(weights)]
    model = model_of(nodes, weights, inputs, [value(f"y{at}", None) for at in range(len(nodes))])
    # Where the number of blocks is odd the wheel raises: each weight has one that it takes.
    block = 32
    kept = [at for at, each in enumerate(weights) if -(-each.dims[0] // block) % 2 == 0 or each.dims[1] == 1]
    ours = quantize(weir, model, quick_folder / "out.onnx", block=block, symmetric=symmetric, algorithm=algorithm)
    held = wheel.initializers(ours.graph)
    compare.session(quick_folder / "out.onnx")
    for at in kept:
        single = model_of([nodes[at]], [weights[at]], [inputs[at]], [value(f"y{at}", None)])
        theirs = wheel.by_algorithm(single, algorithm, block=block, symmetric=symmetric)
        for name, found in wheel.initializers(theirs.graph).items():
            assert found == held[name], name
        [node] = theirs.graph.node
        [mine] = [each for each in ours.graph.node if each.output[0] == f"y{at}"]
        assert wheel.described(node) == wheel.described(mine)


@pytest.mark.parametrize("bits", [2, 4])
def test_hqq_runs_and_is_no_worse_than_rtn(weir, tmp_path, bits):
    """What it looks for is a smaller mean error."""
    numbers = np.random.default_rng(0)
    model = one_matmul(numbers, dims=(200, 24))
    feeds = random_feeds(model, numbers)
    off = {}
    for algorithm in ("rtn", "hqq"):
        ours = quantize(weir, model, tmp_path / "out.onnx", bits=bits, block=64, algorithm=algorithm)
        [want], [got] = outputs(tmp_path / "source.onnx", feeds), outputs(tmp_path / "out.onnx", feeds)
        off[algorithm] = np.abs(want - got).mean()
    assert off["hqq"] <= 1.1 * off["rtn"]
    held = wheel.initializers(ours.graph)
    assert [held[name][:2] for name in ("W_scales", "W_zero_points")] == [(TensorProto.FLOAT, (96,))] * 2


@pytest.mark.parametrize("form", ["qoperator", "qdq"])
@pytest.mark.parametrize("bits", [4, 8])
def test_bfloat16_weights(weir, tmp_path, bits, form):
    """Codes of what the elements are as float32; scales are those of float32, rounded. No CPU runtime computes them."""
    halves = (np.random.default_rng(0).normal(size=(64, 24)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    wide = numpy_helper.from_array((halves.astype(np.uint32) << 16).view(np.float32), "W")
    narrow = helper.make_tensor("W", TensorProto.BFLOAT16, halves.shape, halves.tobytes(), raw=True)
    nodes = [helper.make_node("MatMul", ["x", "W"], ["y"], "fc")]
    made = []
    for kind, weight in ((TensorProto.FLOAT, wide), (TensorProto.BFLOAT16, narrow)):
        model = model_of(nodes, [weight], [value("x", [2, 64], kind)], [value("y", [2, 24], kind)])
        out = quantize(weir, model, tmp_path / f"{kind}.onnx", bits=bits, block=16, format=form)
        made.append(wheel.initializers(out.graph))
    [scales] = [name for name in made[0] if name.endswith("scales")]
    kind, dims, payload = made[0].pop(scales)
    as_float = np.frombuffer(payload, np.uint32).astype(np.uint64)
    rounded = ((as_float + 0x7FFF + (as_float >> 16 & 1)) >> 16).astype(np.uint16)
    assert (kind, made[1].pop(scales)) == (TensorProto.FLOAT, (TensorProto.BFLOAT16, dims, rounded.tobytes()))
    assert made[0] == made[1]


@pytest.mark.parametrize("form", ["qoperator", "qdq"])
def test_ir_3(weir, tmp_path, form):
    """Initializers were inputs of the graph too, and no less constant: the input goes, and the version rises."""
    numbers = np.random.default_rng(0)
    model = one_matmul(numbers, dims=(64, 24), ir=3, opset=8)
    model.graph.input.append(value("W", [64, 24]))
    ours = quantize(weir, model, tmp_path / "out.onnx", block=16, format=form)
    assert ours.ir_version >= 4 and [each.name for each in ours.graph.input] == ["x"]
    same = quantize(weir, one_matmul(np.random.default_rng(0), dims=(64, 24)), tmp_path / "new.onnx", block=16, format=form)
    assert wheel.initializers(ours.graph) == wheel.initializers(same.graph)
    feeds = random_feeds(ours, numbers)
    [got], [want] = outputs(tmp_path / "out.onnx", feeds), outputs(tmp_path / "new.onnx", feeds)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("case", hqq.CASES, ids=hqq.name_of)
def test_hqq_is_no_worse_than_onnxruntimes(weir, tmp_path, case):
    """onnxruntime's own needs torch, which tests do without: what it reaches is in tests/data/hqq.json."""
    theirs = json.loads((DATA / "hqq.json").read_text())[hqq.name_of(case)]
    assert hqq.digest(case) == theirs["weight"], "numpy makes other numbers now: tests/support/hqq.py writes the file anew"
    how = {"bits": case["bits"], "block": case["block"]}
    ours = quantize(weir, hqq.model(case), tmp_path / "out.onnx", algorithm="hqq", **how)
    assert hqq.error(case, ours.graph) <= theirs["error"]


def test_nothing_to_quantize_gets_a_hint(weir, tmp_path):
    """A model without a MatMul: whoever asked learns where to look."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    onnx.save(model_of(nodes, [], [value("x", [2])], [value("y", [2])]), tmp_path / "relu.onnx")
    said = weir("quantize", tmp_path / "relu.onnx", tmp_path / "out.onnx")
    assert said.out.startswith("nothing changed (the model has no MatMul): ") and "weir inspect" in said.err
    assert "weir inspect" not in weir("quantize", tmp_path / "relu.onnx", tmp_path / "quiet.onnx", "--quiet").err


def test_nothing_changed_says_why_and_writes_no_copy(weir, tmp_path):
    """Unless somebody asks for one: by --copy, by a layout, by what another tool writes, or where an older file would stay."""
    numbers = np.random.default_rng(3)
    tensors = [numpy_helper.from_array(numbers.normal(size=(128, 128)).astype(np.float32), name) for name in ("v", "w")]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"], "one"), helper.make_node("MatMul", ["h", "w"], ["y"], "two")]
    source, done, out = tmp_path / "in.onnx", tmp_path / "done.onnx", tmp_path / "out.onnx"
    onnx.save(model_of(nodes, tensors, [value("x", [1, 128])], [value("y", [1, 128])]), source)
    weir("quantize", source, done)
    for words in ([], ["--dry-run"], ["--json"]):
        said = weir("quantize", done, out, *words)
        assert not out.exists() and not list(tmp_path.glob("out.onnx*"))
        if words == ["--json"]:
            assert json.loads(said.out)["weir"]["output"] == []
        else:
            assert "nothing changed (2 MatMulNBits (already quantized), such as one_Q4): " in said.out and "--copy" in said.out
    before = done.read_bytes(), done.stat().st_mtime_ns
    assert "is left unchanged" in weir("quantize", done, "--inplace").out and (done.read_bytes(), done.stat().st_mtime_ns) == before
    for words in (["--copy"], ["--external"], ["--external-threshold", "16"]):
        weir("quantize", done, out, *words, "--force")
        assert out.exists()
        for each in tmp_path.glob("out.onnx*"):
            each.unlink()
    out.write_bytes(b"older")
    weir("quantize", done, out, "--force")
    assert out.read_bytes() != b"older"
    assert "already quantized" in weir("quantize", done, tmp_path / "x.onnx", "--dry-run").out
    assert ": the output would not be written; " in weir("quantize", done, "--dry-run").out
    relu = tmp_path / "relu.onnx"
    onnx.save(model_of([helper.make_node("Relu", ["x"], ["y"])], [], [value("x", [2])], [value("y", [2])]), relu)
    said = weir("dynamic", relu, tmp_path / "d.onnx").out
    assert said.startswith("nothing changed (the model has no MatMul") and not (tmp_path / "d.onnx").exists()
    weir("dynamic", relu, tmp_path / "d.onnx", "--compat", "onnxruntime")
    assert (tmp_path / "d.onnx").exists()
    assert ": nothing changed (" in weir("conv2matmul", relu, tmp_path / "c.onnx").out and (tmp_path / "c.onnx").exists()


def test_a_gate_that_decided_is_told(weir, tmp_path):
    """How many weights missed it, each once, and what they are now; and what is usual for how they are stored."""
    numbers = np.random.default_rng(3)
    tensors = [numpy_helper.from_array(numbers.normal(size=(128, 128)).astype(np.float32), name) for name in ("v", "w")]
    nodes = [helper.make_node("MatMul", [a, w], [b], b) for a, w, b in (("x", "v", "h"), ("h", "w", "i"), ("i", "w", "y"))]
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model_of(nodes, tensors, [value("x", [1, 128])], [value("y", [1, 128])]), source)
    raised = weir("quantize", source, out, "--gate", "sqnr=25dB").out
    assert ", 2 of 2 missed the gate sqnr=25dB and have 8 bits\n" in raised and "usual for 8 bits: about 45" in raised
    skipped = weir("quantize", source, tmp_path / "none.onnx", "--gate", "sqnr=25dB", "--gate-action", "skip").out
    assert skipped.startswith("2 of 2 weights missed the gate sqnr=25dB and are left unchanged: ") and not (tmp_path / "none.onnx").exists()
    assert "usual for int8 by channel: about 42" in weir("dynamic", source, out, "--force").out
    assert "usual for int8: about 35" in weir("dynamic", source, out, "--force", "--per-tensor").out
    assert "usual for float16: about 74" in weir("cast", source, out, "--force", "--to", "float16").out


# ---- k_quant_best


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_k_quant_best_is_never_worse(weir, tmp_path, bits, dtype):
    """Its error is at most that of rtn and of k_quant, and less than both on what mixes heavy tails and normal."""
    numbers = np.random.default_rng(4)
    heavy = numbers.standard_t(2, size=(256, 48)) * 0.05
    weights = {"heavy": heavy, "positive": np.abs(heavy) + 1, "normal": numbers.normal(size=(200, 48)) * 0.05}
    weights["mixed"] = np.concatenate([heavy, weights["normal"]])
    one = TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16
    nodes = [helper.make_node("MatMul", [f"x_{k}", k], [f"y_{k}"], k) for k in weights]
    inputs = [helper.make_tensor_value_info(f"x_{k}", one, [1, w.shape[0]]) for k, w in weights.items()]
    outputs = [helper.make_tensor_value_info(f"y_{k}", one, [1, 48]) for k in weights]
    tensors = [numpy_helper.from_array(w.astype(dtype), k) for k, w in weights.items()]
    onnx.save(model_of(nodes, tensors, inputs, outputs, opset=17, ir=8), tmp_path / "in.onnx")

    def errors(algorithm):
        words = ["--algorithm", algorithm, "--bits", bits, "--block-size", "32"]
        report = weir.report("quantize", tmp_path / "in.onnx", tmp_path / f"{algorithm}.onnx", *map(str, words))
        return {t["name"]: t["error"]["rmse"] for t in report["passes"][0]["tensors"]}

    rtn, searched, best = (errors(algorithm) for algorithm in ("rtn", "k_quant", "k_quant_best"))
    for name in weights:
        assert best[name] <= min(rtn[name], searched[name]) * (1 + 1e-9), name
    assert best["mixed"] < min(rtn["mixed"], searched["mixed"])
    feeds = {f"x_{k}": numbers.normal(size=(1, w.shape[0])).astype(dtype) for k, w in weights.items()}
    outputs = onnxruntime.InferenceSession(tmp_path / "k_quant_best.onnx").run(None, feeds)
    for (name, w), ours in zip(weights.items(), outputs):
        exact = feeds[f"x_{name}"].astype(np.float64) @ w
        assert np.abs(exact - ours).max() < (1 if bits == 2 else 0.3) * np.abs(exact).max()


# ---- blocks that are half empty


def test_weights_shorter_than_half_a_block_are_told(weir, tmp_path):
    """In the report: how many, and the block size that would do; with it they are smaller, and the error of each is
    the same."""
    numbers = np.random.default_rng(8)
    weights = {"a": (64, 40), "b": (50, 40), "c": (65, 40), "d": (256, 40)}
    nodes = [helper.make_node("MatMul", [f"x{k}", k], [f"y{k}"], k) for k in weights]
    inputs = [value(f"x{k}", [1, dims[0]]) for k, dims in weights.items()]
    outputs = [value(f"y{k}", [1, 40]) for k in weights]
    model = model_of(nodes, [tensor(k, dims, numbers) for k, dims in weights.items()], inputs, outputs, opset=17, ir=8)
    onnx.save(model, tmp_path / "in.onnx")
    def step(name, *words):
        return weir.report("quantize", tmp_path / "in.onnx", tmp_path / f"{name}.onnx", *words)["passes"][0]
    large, small = step("large"), step("small", "--tensor", "?=g64")
    assert (large["half_empty"], large["fitting_block"]) == (2, 64) and "half_empty" not in small
    before, after = ({t["name"]: t for t in made["tensors"]} for made in (large, small))
    for name in "ab":
        assert after[name]["bytes_after"] < before[name]["bytes_after"]
        assert after[name]["error"] == before[name]["error"]


def test_what_other_operators_would_be_taken(weir, tmp_path):
    """Where most of what could be quantized was not asked for, the words that ask for it are said; no more than that."""
    weights = {"w": np.ones((128, 128), np.float32), "g": np.ones((256, 512), np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Gemm", ["z", "g"], ["y"])]
    inits = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    source = tmp_path / "m.onnx"
    onnx.save(model_of(nodes, inits, [value("x", [1, 128]), value("z", [1, 256])], [value("h", [1, 128]), value("y", [1, 512])]), source)
    said = weir("quantize", source, "--dry-run")
    assert "hint: 1 weight of Gemm (524 kB) would be quantized with --op-types MatMul,Gemm\n" in said.err
    said = weir("run", source, "--dry-run", "--pass", "quantize")
    assert "would be quantized with op_types=MatMul+Gemm\n" in said.err
    assert "would be quantized" not in weir("quantize", source, "--dry-run", "--op-types", "Gemm").err
    assert "would be quantized" not in weir("quantize", source, "--dry-run", "--op-types", "MatMul,Gemm").err


def test_weights_shorter_than_the_usual_block(weir, tmp_path):
    """A warning that says which block is better, true by the bytes, and none to who chose a block or has long weights."""
    def model(name, rows):
        weight = numpy_helper.from_array(np.ones((rows, 4096), np.float32), "w")
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
        onnx.save(model_of([node], [weight], [value("x", [1, rows])], [value("y", [1, 4096])]), tmp_path / name)
        return tmp_path / name

    source = model("short.onnx", 64)
    done = weir("quantize", source, tmp_path / "a.onnx", "--report-json", tmp_path / "r.json")
    assert "1 weight fills at most half of a block of 128 elements\nhint: a block size of 64 makes" in done.err
    [warning] = json.loads((tmp_path / "r.json").read_text())["passes"][0]["warnings"]
    assert warning["sentence"].startswith("1 weight fills at most half")
    assert weir("quantize", source, tmp_path / "b.onnx", "--block-size", "64").err == ""
    assert (tmp_path / "b.onnx.data" if (tmp_path / "b.onnx.data").exists() else tmp_path / "b.onnx").stat().st_size < (
        tmp_path / "a.onnx.data" if (tmp_path / "a.onnx.data").exists() else tmp_path / "a.onnx"
    ).stat().st_size
    assert weir("quantize", source, tmp_path / "c.onnx", "--block-size", "128").err == ""
    assert weir("quantize", model("long.onnx", 256), tmp_path / "d.onnx").err == ""


@pytest.mark.parametrize(
    "rows, words, told, warned",
    [
        ([64, 100], [], (1, 64), True),  # one of 100 does not keep the other from being told
        ([64] * 300, [], (300, 64), True),  # 300 weights
        ([64], ["--block-size", "128"], (1, 64), False),
        ([64, 4096], [], (1, 64), False),  # with blocks of 64 the larger one takes more than the other gives
        ([64], ["--format", "qdq"], None, False),  # it stores the rows there are
        ([64], ["--budget", "1M"], None, False),
        ([65], [], None, False),
    ],
)
def test_half_empty_is_one_count(weir, tmp_path, rows, words, told, warned):
    """What the warning counts is what the report counts."""
    names = [f"w{i}" for i in range(len(rows))]
    weights = [numpy_helper.from_array(np.full((k, 64), i + 1, np.float32), n) for i, (k, n) in enumerate(zip(rows, names))]
    uses = names + names[:1] * 256  # a weight counts once
    nodes = [helper.make_node("MatMul", [f"x{u}", u], [f"y{i}"], f"m{i}") for i, u in enumerate(uses)]
    inputs = [value(f"x{n}", [1, k]) for n, k in zip(names, rows)]
    outputs = [value(f"y{i}", [1, 64]) for i in range(len(uses))]
    onnx.save(model_of(nodes, weights, inputs, outputs, opset=21, ir=10), tmp_path / "m.onnx")
    (step,) = weir.report("quantize", tmp_path / "m.onnx", tmp_path / "o.onnx", *words)["passes"]
    assert (told is None) == ("half_empty" not in step)
    assert told is None or (step["half_empty"], step["fitting_block"]) == told
    sentences = [w["sentence"] for w in step["warnings"]]
    assert [s.split(" ")[0] for s in sentences if "at most half of a block" in s] == ([str(told[0])] if warned else [])


# ---- the edit log


def test_replay_gives_the_same_bytes(weir, tmp_path):
    """Imports of functions, chains and DequantizeLinear included."""
    numbers = np.random.default_rng(12)
    body = [
        helper.make_node("Constant", [], ["F"], value=tensor("", (40, 40), numbers)),
        helper.make_node("MatMul", ["a", "F"], ["b"], "inside"),
    ]
    function = helper.make_function("local", "f", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("f", ["x"], ["y"], domain="local"), helper.make_node("MatMul", ["y", "W"], ["z"], "fc")]
    model = model_of(nodes, [tensor("W", (1, 40, 6), numbers)], [value("x", [3, 40])], [value("z", [1, 3, 6])], opset=17,
                     ir=8, functions=[function], imports=[helper.make_opsetid("local", 1)])  # fmt: skip
    onnx.save(model, tmp_path / "in.onnx")
    for form, opset, imports in (("qoperator", 17, {"": 17, "com.microsoft": 1}), ("qdq", 21, {"": 21})):
        out, log = tmp_path / f"{form}.onnx", tmp_path / f"{form}.jsonl"
        weir("run", tmp_path / "in.onnx", out, "--pass", words(format=form), "--edit-log", log)
        ours = loaded(out)
        assert {o.domain: o.version for o in ours.functions[0].opset_import} == imports
        assert [o.version for o in ours.opset_import if o.domain == ""] == [opset]
        onnx.checker.check_model(ours)
        folder = tmp_path / f"again-{form}"
        folder.mkdir()
        weir("replay", log, tmp_path / "in.onnx", folder / out.name)
        assert (folder / out.name).read_bytes() == out.read_bytes()
