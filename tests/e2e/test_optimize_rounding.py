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
from onnx import version_converter

from conftest import program

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "support"))
import random_graphs  # noqa: E402

EXPORTS = TESTS / "data" / "exports"
# What is left of a spelling must be nothing: {model: (operator, how many, what is gone)}.
FUSED = {
    "bert": [("LayerNormalization", 5, "ReduceMean"), ("Gelu", 2, "Erf")],
    "gpt2": [("LayerNormalization", 5, "ReduceMean"), ("Gelu", 2, "Tanh")],
    "llama": [("RMSNormalization", 5, "ReduceMean")],
    "vit": [("LayerNormalization", 5, "ReduceMean"), ("Gelu", 2, "Erf")],
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
