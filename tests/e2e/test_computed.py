"""Tensors that are computed from others: an edit log written by hand, replayed, gives numpy's bytes, in little memory."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import with_lines
from test_memory import measure

MIB = 1 << 20
CHANNELS, EACH = 160, 64 << 10  # 40 MiB


@pytest.fixture
def source(weir, quick_folder):
    """W by channel in an external file, and a small list of integers; gives the model, W and the head of a log."""
    w = np.random.default_rng(7).standard_normal((CHANNELS, EACH // 64, 64), np.float32)
    n = np.array([[7, -9, 5], [3, 2, 1]], np.int32)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"]), helper.make_node("Identity", ["n"], ["z"])],
        "computed",
        [],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, w.shape),
            helper.make_tensor_value_info("z", TensorProto.INT32, n.shape),
        ],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(n, "n")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = quick_folder / "in.onnx"
    onnx.save(model, path, save_as_external_data=True, location="in.onnx.data", size_threshold=1024)
    log = quick_folder / "head.jsonl"
    weir("convert", path, quick_folder / "same.onnx", "--edit-log", log)
    return path, w, log.read_text()


def literal(array, dtype):
    return {"bytes": array.tobytes().hex(), "dtype": dtype, "dims": list(array.shape)}


def tensor(address, dims):
    return {"tensor": address, "dims": list(dims)}


def replacing(head, address, dtype, dims, recipe):
    """The log that puts a recipe in a tensor's place."""
    edit = {"edit": "tensor.replace", "tensor": address, "dtype": dtype, "dims": list(dims), "recipe": recipe}
    return with_lines(head, json.dumps(edit, separators=(",", ":")))


def loaded(path, name="w"):
    [found] = [t for t in onnx.load(path).graph.initializer if t.name == name]
    return numpy_helper.to_array(found)


def replayed(folder, source, log):
    """Replays a log in 8 MiB; gives the output."""
    (folder / "edits.jsonl").write_text(log)
    out = folder / "out.onnx"
    done = measure("replay", folder / "edits.jsonl", source, out, "--memory", "8M")
    assert done.code == 0, done.said
    assert done.beside_index <= (8 + 16) * MIB
    return out


def test_factors_by_channel(quick_folder, source):
    path, w, head = source
    g = np.linspace(-3, 5, CHANNELS, dtype=np.float32).reshape(CHANNELS, 1, 1)
    recipe = {"map": [tensor("g0/t0:w", w.shape), literal(g, "float")], "op": "mul"}
    out = replayed(quick_folder, path, replacing(head, "g0/t0:w", "float", w.shape, recipe))
    assert loaded(out).tobytes() == (w * g).tobytes()


def test_reduced_and_transposed(quick_folder, source):
    """The largest of each channel taken from it, and the result moved about: an operand that streams twice."""
    path, w, head = source
    most = {"reduce": tensor("g0/t0:w", w.shape), "op": "max", "axes": [1, 2]}
    by_channel = {"reshape": most, "dims": [CHANNELS, 1, 1]}
    recipe = {"transpose": {"map": [tensor("g0/t0:w", w.shape), by_channel], "op": "sub"}, "perm": [2, 1, 0]}
    out = replayed(quick_folder, path, replacing(head, "g0/t0:w", "float", w.shape[::-1], recipe))
    want = (w - w.max(axis=(1, 2), keepdims=True)).transpose(2, 1, 0)
    assert loaded(out).tobytes() == np.ascontiguousarray(want).tobytes()


def test_what_onnx_leaves_open_is_refused(weir, quick_folder, source):
    path, _, head = source
    by = np.array([1, 2, 0], np.int32)
    recipe = {"map": [tensor("g0/t1:n", [2, 3]), literal(by, "int32")], "op": "div"}
    (quick_folder / "edits.jsonl").write_text(replacing(head, "g0/t1:n", "int32", [2, 3], recipe))
    done = weir("replay", quick_folder / "edits.jsonl", path, quick_folder / "out.onnx", code=1)
    assert "'n'" in done.err and "element 2" in done.err and "'div'" in done.err
    assert not (quick_folder / "out.onnx").exists()
