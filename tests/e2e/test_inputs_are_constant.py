"""--inputs-are-constant: initializers that the model lists as inputs, as old exporters do, are taken for constants."""

import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

COMMANDS = {
    "conv2matmul": ["conv2matmul"],
    "quantize": ["quantize", "--block-size", "32"],
    "cast": ["cast", "--to", "float16", "--min-elements", "1"],
    "shrink": ["run", "--pass", "shrink"],
    "bn": ["run", "--pass", "fuse/bn"],
}


def model_of(listed, ir=8):
    numbers = np.random.default_rng(2)
    dims = {"C": (160, 128, 1), "s": (160,), "o": (160,), "m": (160,), "v": (160,), "M": (20, 32)}
    values = {name: (numbers.random(shape) + 0.5).astype(np.float32) for name, shape in dims.items()}
    weights = [numpy_helper.from_array(value, name) for name, value in values.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 128, 20])]
    if listed:
        inputs[:0] = [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights]
    nodes = [
        helper.make_node("Conv", ["x", "C"], ["h"], "conv"),
        helper.make_node("BatchNormalization", ["h", "s", "o", "m", "v"], ["i"], "bn"),
        helper.make_node("MatMul", ["i", "M"], ["y"], "mm"),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 160, 32])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir)


def saved(model, folder):
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_as_of_a_model_without_the_list(weir, tmp_path, name):
    words = COMMANDS[name]
    listed, bare = saved(model_of(True), tmp_path / "listed"), saved(model_of(False), tmp_path / "bare")
    out, plain, left, again = (tmp_path / f / "out.onnx" for f in ("out", "plain", "left", "again"))
    for path in (out, plain, left, again):
        path.parent.mkdir()
    log = tmp_path / "log"
    weir(words[0], listed, out, *words[1:], "--inputs-are-constant", "--edit-log", log)
    weir(words[0], bare, plain, *words[1:])
    assert out.read_bytes() == plain.read_bytes()
    weir("replay", log, listed, again)
    assert again.read_bytes() == out.read_bytes()
    x = np.random.default_rng(3).random((1, 128, 20)).astype(np.float32)
    theirs, ours = (ort.InferenceSession(path).run(None, {"x": x})[0] for path in (listed, out))
    assert np.abs(theirs - ours).max() <= 0.05 * np.abs(theirs).max()
    # Without it nothing is done, and what would help is said.
    done = weir(words[0], listed, left, *words[1:], *(["--copy"] if words[0] == "quantize" else []))
    assert "--inputs-are-constant" in done.err
    assert onnx.load(left).graph.node == onnx.load(listed).graph.node


def test_the_report_says_what_was_taken_off_the_list(weir, tmp_path):
    listed = saved(model_of(True), tmp_path / "listed")
    steps = weir.report("quantize", listed, tmp_path / "q.onnx", "--inputs-are-constant")["passes"]
    assert [step["name"] for step in steps] == ["inputs-are-constant", "quantize"]
    assert sorted(node["tensor"] for node in steps[0]["nodes"]) == ["C", "M", "m", "o", "s", "v"]
    report = weir.report("conv2matmul", listed, tmp_path / "c.onnx", "--inputs-are-constant")
    assert (report["converted"], report["inputs_made_constant"], len(report["nodes"])) == (1, 6, 1)
    [node] = weir.report("conv2matmul", listed, tmp_path / "d.onnx")["nodes"]
    assert node["reason"] == "overridable_weight"
    weir("conv2matmul", listed, tmp_path / "e.onnx", "--inputs-are-constant", "--strict-compat", code=2)


def test_measure_takes_the_same_weights(weir, tmp_path):
    listed, bare = saved(model_of(True), tmp_path / "listed"), saved(model_of(False), tmp_path / "bare")
    plain = weir("measure", bare, "--json").json()
    assert weir("measure", listed, "--json", "--inputs-are-constant").json() == {**plain, "model": str(listed)}
    assert json.dumps(weir("measure", listed, "--json").json()) != json.dumps(plain)


def test_models_before_ir_version_4_are_as_they_were(weir, tmp_path):
    """Every initializer is listed there, and constant."""
    old = saved(model_of(True, ir=3), tmp_path / "old")
    with_it, without = tmp_path / "a.onnx", tmp_path / "b.onnx"
    weir("quantize", old, with_it, "--inputs-are-constant")
    weir("quantize", old, without)
    assert with_it.read_bytes() == without.read_bytes()
