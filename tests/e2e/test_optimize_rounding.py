"""What `weir optimize` does at its level of rounding: spellings of exporters become operators, and nothing rounds
that was not asked to.

Of exports below the version that has an operator, ONNX's converter raises the version first.
"""

import collections
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator

from conftest import ALL, program

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "support"))
import random_graphs  # noqa: E402

pytestmark = pytest.mark.in_memory

EXPORTS = TESTS / "data" / "exports"
# What is left of a spelling must be nothing: {model: (operator, how many, what is gone)}.
FUSED = {
    "bert": [("LayerNormalization", 5, "ReduceMean"), ("Gelu", 2, "Erf"), ("Attention", 2, "Softmax")],
    "gpt2": [("LayerNormalization", 5, "ReduceMean"), ("Gelu", 2, "Tanh"), ("Attention", 2, "Softmax")],
    "llama": [("RMSNormalization", 5, "ReduceMean"), ("Attention", 2, "Softmax"), ("RotaryEmbedding", 4, "Neg")],
    "vit": [("LayerNormalization", 5, "ReduceMean"), ("Gelu", 2, "Erf"), ("Attention", 2, "Softmax")],
}
NAMES = sorted(path.stem for path in EXPORTS.glob("*.onnx"))
OWN = {"bert": ("BiasGelu", 2), "gpt2": ("FastGelu", 2), "vit": ("BiasGelu", 2), "llama": ("QuickGelu", 2), "cnn": ("QuickGelu", 1)}


def feeds(name, model):
    numbers = np.load(EXPORTS / f"{name.split('-')[0]}.npz")
    return [{each.name: numbers[f"{way}.{each.name}"] for each in model.graph.input} for way in ("first", "second")]


def counts(path):
    return collections.Counter(node.op_type for node in onnx.load(path).graph.node)


PIECES = ("conv_affine", "pad_window", "matmul_norm", "gelu", "layer_norm", "rms_norm", "transposes", "clips")


@pytest.mark.parametrize("level,exactness", [("zero", "Z"), ("exact", "E")])
def test_nothing_rounds_that_must_not(level, exactness):
    command = f"{program('WEIR')} optimize IN OUT --exactness {level} --force --no-manifest"
    for piece in PIECES:
        assert random_graphs.check(command, range(8), exactness, [piece]) == {}


@pytest.mark.parametrize("name", NAMES)
def test_spellings_of_exporters(name, weir, tmp_path):
    model = version_converter.convert_version(onnx.load(EXPORTS / f"{name}.onnx"), 23)
    onnx.save(model, tmp_path / "in.onnx")
    done = weir("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert done.code == 0, done.err
    assert random_graphs.compare(model, str(tmp_path / "out.onnx"), "M", feeds(name, model)) == []
    found = counts(tmp_path / "out.onnx")
    for op, count, gone in FUSED.get(name.split("-")[0], []):
        assert (found[op], found[gone]) == (count, 0)


# Nodes at most, of any export of it at opset 23; MatMuls: two layers with those of Q, K and V merged.
ATTENTIVE = {"bert": (58, 8), "gpt2": (57, 9), "llama": (63, 11), "vit": (40, 8)}


@pytest.mark.parametrize("name", [each for each in NAMES if each.split("-")[0] in ATTENTIVE])
def test_attention_of_exports(name, weir, tmp_path):
    """With weir's own raise of the opset; a batch whose mask hides all of a row, and rows that hide the first tokens."""
    model, path = onnx.load(EXPORTS / f"{name}.onnx"), tmp_path / "out.onnx"
    done = weir("optimize", EXPORTS / f"{name}.onnx", path, *([] if name.endswith("-23") else ["--opset", "23"]))
    assert done.code == 0, done.err
    given = feeds(name, model)
    if "attention_mask" in given[1]:
        mask = given[1]["attention_mask"].copy()
        mask[0, :3], mask[1] = 0, 0
        given.append({**given[1], "attention_mask": mask})
    assert random_graphs.compare(model, str(path), "M", given) == []
    found, (nodes, matmuls) = counts(path), ATTENTIVE[name.split("-")[0]]
    assert found["Attention"] == 2 and found["RotaryEmbedding"] == (4 if name.startswith("llama") else 0)
    assert found.total() <= nodes and found["MatMul"] == matmuls
    for node in onnx.load(path).graph.node:  # heads lie in the last dim: no Transposes around
        if node.op_type == "Attention":
            assert {"q_num_heads", "kv_num_heads"} <= {each.name for each in node.attribute}


FORMS = ["attention_forms", "rotary_forms"]


def test_random_attention_stays_right():
    """ONNX Runtime says what is right; of what comes out ONNX's own evaluator says it too."""
    seeds = range(5000, 6000 if ALL else 5060)
    command = f"{program('WEIR')} optimize IN OUT --force --no-manifest"
    assert random_graphs.check(command, seeds, "T", FORMS, opset=23) == {}


def test_random_attention_in_the_reference(weir, tmp_path):
    made = collections.Counter()
    for seed in range(7000, 7040):
        case = random_graphs.random_graph(seed, FORMS, 23)
        onnx.save(case.model, tmp_path / "in.onnx")
        done = weir("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force")
        assert done.code == 0, done.err
        found = counts(tmp_path / "out.onnx")
        made += {op: found[op] for op in ("Attention", "RotaryEmbedding")}
        if not found["Attention"] and not found["RotaryEmbedding"]:
            continue
        feed = case.feeds[0]
        expected = random_graphs.session(case.model).run(None, feed)
        got = ReferenceEvaluator(onnx.load(tmp_path / "out.onnx")).run(None, feed)
        for one, other in zip(expected, got):
            assert one.shape == other.shape and not random_graphs._different(one, other, "T"), seed
    assert made["Attention"] >= 5 and made["RotaryEmbedding"] >= 5


def test_merged_weights(weir, tmp_path):
    """Joined while they are written, element for element; the results keep their names."""
    numbers = np.random.default_rng(5)
    sizes = {"q": 192, "k": 64, "v": 65}
    weights = {f"w{name}": numbers.standard_normal((300, size), np.float32) for name, size in sizes.items()}
    biases = {f"b{name}": numbers.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [f"m{name}"]) for name in sizes]
    nodes += [helper.make_node("Add", [f"m{name}", f"b{name}"], [name]) for name in sizes]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights | biases).items()]
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["b", "s", 300])]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in sizes]
    graph = helper.make_graph(nodes, "projections", given, results, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=0)
    done = weir("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert done.code == 0, done.err
    after = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in after.graph.node] == ["MatMul", "Add", "Split"]
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in after.graph.initializer}
    matmul, add, split = after.graph.node
    assert np.array_equal(stored[matmul.input[1]], np.concatenate([*weights.values()], 1))
    assert np.array_equal(stored[add.input[1]], np.concatenate([*biases.values()]))
    assert stored[split.input[1]].tolist() == [*sizes.values()] and list(split.output) == [*sizes]
    feed = [{"x": numbers.standard_normal((2, 5, 300), np.float32)}]
    assert random_graphs.compare(onnx.load(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "T", feed) == []


@pytest.mark.parametrize("name", [each for each in NAMES if "dynamo" in each])
def test_operators_of_one_runtime(name, weir, tmp_path):
    """Only where they are asked for."""
    path = EXPORTS / f"{name}.onnx"
    model = onnx.load(path)
    for goal, wanted in (("onnxruntime", True), ("onnx", False), ("quantization", False)):
        done = weir("optimize", path, tmp_path / "out.onnx", "--goal", goal, "--force")
        assert done.code == 0, done.err
        foreign = any(node.domain for node in onnx.load(tmp_path / "out.onnx").graph.node)
        assert foreign is wanted
        if wanted:
            op, count = OWN[name.split("-")[0]]
            assert counts(tmp_path / "out.onnx")[op] == count
            assert random_graphs.compare(model, str(tmp_path / "out.onnx"), "M", feeds(name, model)) == []


@pytest.mark.parametrize("name", ["bert-sdpa-dynamo-23", "llama-rows-dynamo-23", "cnn-kept-dynamo-18"])
def test_quantizers_find_what_they_look_for(name, weir, tmp_path):
    """No MatMul becomes a Gemm, no activation an operator of its own."""
    before, path = counts(EXPORTS / f"{name}.onnx"), tmp_path / "out.onnx"
    assert weir("optimize", EXPORTS / f"{name}.onnx", path, "--goal", "quantization").code == 0
    after = counts(path)
    for op in ("MatMul", "Gemm", "Sigmoid", "Swish"):
        assert after[op] == before[op]
