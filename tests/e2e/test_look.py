"""Looks in the edit log: replay reads the tensor again and refuses other elements."""

import hashlib
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import with_lines

RNG = np.random.default_rng(1)
VECTORS = {
    "raw": (np.float32, TensorProto.FLOAT, True),
    "typed": (np.float32, TensorProto.FLOAT, False),
    "half": (np.float16, TensorProto.FLOAT16, False),  # one varint an element
    "double": (np.float64, TensorProto.DOUBLE, True),
}


def model(path, gamma, dtype, raw, external=False):
    n = len(gamma)
    if raw:
        tensor = numpy_helper.from_array(gamma, "gamma")
    else:
        words = gamma.view(np.uint16) if dtype == TensorProto.FLOAT16 else gamma
        tensor = helper.make_tensor("gamma", dtype, [n], words.tolist() if dtype == TensorProto.FLOAT else gamma.tolist())
    x = helper.make_tensor_value_info("x", dtype, [1, n])
    y = helper.make_tensor_value_info("y", dtype, [1, n])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "gamma"], ["y"])], "g", [x], [y], [tensor])
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(built, path, save_as_external_data=external, location="m.data", size_threshold=0)


def look(gamma):
    digest = hashlib.sha256(gamma.tobytes()).hexdigest()
    return json.dumps({"edit": "look", "tensor": "g0/t0:gamma", "sha256": digest}, separators=(",", ":"))


def with_look(weir, folder, source, gamma):
    """A log of no edits but this look."""
    weir("convert", source, folder / "first.onnx", "--edit-log", folder / "edits.jsonl")
    log = folder / "edits.jsonl"
    log.write_text(with_lines(log.read_text(), look(gamma)))
    return log


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("name", VECTORS)
def test_replay_reads_what_was_looked_at(weir, tmp_path, name, external):
    numpy_type, dtype, raw = VECTORS[name]
    gamma = RNG.standard_normal(700).astype(numpy_type)
    model(tmp_path / "in.onnx", gamma, dtype, raw, external)
    log = with_look(weir, tmp_path, tmp_path / "in.onnx", gamma)
    weir("replay", log, tmp_path / "in.onnx", tmp_path / "out.onnx", "--edit-log", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text().splitlines()[1:-1] == [look(gamma)]


def test_replay_refuses_another_tensor(weir, tmp_path):
    """The vector is not part of what the log's head names: only the look sees that it is another."""
    gamma = RNG.standard_normal(700).astype(np.float32)
    model(tmp_path / "in.onnx", gamma, TensorProto.FLOAT, True)
    log = with_look(weir, tmp_path, tmp_path / "in.onnx", gamma)
    gamma[699] += 1
    model(tmp_path / "in.onnx", gamma, TensorProto.FLOAT, True)
    said = weir("replay", log, tmp_path / "in.onnx", tmp_path / "out.onnx", code=66).said
    assert "tensor 'gamma' has other values than when the edits were made" in said
    assert not (tmp_path / "out.onnx").exists()


def test_replay_refuses_a_look_at_a_large_tensor(weir, tmp_path):
    gamma = RNG.standard_normal((2 << 20) // 4 + 1).astype(np.float32)
    model(tmp_path / "in.onnx", gamma, TensorProto.FLOAT, True)
    log = with_look(weir, tmp_path, tmp_path / "in.onnx", gamma)
    assert "gamma" in weir("replay", log, tmp_path / "in.onnx", tmp_path / "out.onnx", code=65).said
