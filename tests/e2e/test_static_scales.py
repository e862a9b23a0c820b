"""weir static with scales that are there already: overrides without RANGES, and what `calibrate --scales` takes out of a model or a table."""

import json
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from compare import folder_bytes
from conftest import DATA

pytestmark = pytest.mark.in_memory

SCALES = {
    "x": [{"scale": 0.03, "zero_point": 128}],
    "c": [{"scale": 0.08, "zero_point": 0}],
    "f": [{"scale": 0.02, "zero_point": 0}],
    "y": [{"scale": 0.1, "zero_point": 128}],
}


def numbers(*dims):
    return np.random.default_rng(dims).normal(size=dims).astype(np.float32)


@pytest.fixture
def net(tmp_path):
    """A Conv with a Relu, and a Gemm."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["y"], "fc"),
    ]
    held = [numpy_helper.from_array(x, name) for name, x in {"w": numbers(4, 3, 3, 3), "b": numbers(4), "v": numbers(4, 5)}.items()]
    info = [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8]), helper.make_tensor_value_info("y", 1, [1, 5])]
    model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:], held), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def written(path, what):
    path.write_text(json.dumps(what))
    return path


def run(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": numbers(1, 3, 8, 8)})[0]


def decibels(expected, got):
    return 10 * np.log10((expected**2).sum() / ((expected - got) ** 2).sum())


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_overrides_alone(weir, tmp_path, net, form):
    """What they name is quantized, with these numbers; other values stay float, and a line says which nodes."""
    out = tmp_path / "out.onnx"
    weir("static", net, out, "--override", written(tmp_path / "all.json", SCALES), "--format", form)
    assert decibels(run(net), run(out)) > 25
    stored = {each.name: numpy_helper.to_array(each) for each in onnx.load(out).graph.initializer}
    assert stored["x_scale"] == np.float32(0.03) and stored["x_zero_point"] == 128
    some = {name: SCALES[name] for name in ("x", "c")}
    said = weir("static", net, out, "--force", "--override", written(tmp_path / "some.json", some), "--format", form).out
    assert "its input has no range" in said and "fc" in said and decibels(run(net), run(out)) > 25
    ranges = {"x": [{"rmin": -4, "rmax": 4}], "c": [{"rmin": 0, "rmax": 20}]}
    weir("static", net, out, "--force", "--override", written(tmp_path / "ranges.json", ranges), "--format", form)
    assert decibels(run(net), run(out)) > 25


def test_one_of_both_is_needed(weir, tmp_path, net):
    assert "--override" in weir("static", net, tmp_path / "out.onnx", code=2).err
    overrides = written(tmp_path / "o.json", SCALES)
    assert "--ranges" in weir("static", net, tmp_path / "out.onnx", "--override", overrides, "--compat", "onnxruntime", code=2).err
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("words", [[], ["--per-tensor"], ["--add-qdq-pair-to-weight"]], ids=" ".join)
def test_scales_of_a_model_make_it_again(weir, tmp_path, net, words):
    """Byte for byte, of weights and values; a float model with them becomes the quantized one that they are from."""
    one, two, scales = tmp_path / "one" / "q.onnx", tmp_path / "two" / "q.onnx", tmp_path / "scales.json"
    weir("static", net, one, "--override", written(tmp_path / "o.json", SCALES), *words)
    assert "scales of 4 values and 2 weights\n" in weir("calibrate", one, "-o", scales, "--scales", "model").out
    told = json.loads(weir("calibrate", one, "-o", scales, "--scales", "model", "--force", "--json").out)
    assert (told["command"], told["values"], told["weights"], told["left_out"]) == ("calibrate", 4, 2, 0)
    weir("static", net, two, "--override", scales, *words)
    assert one.read_bytes() == two.read_bytes()


def test_scales_of_training(weir, tmp_path):
    """Zero points behind Casts, and weights as floats: what torch exports of fake quantization."""
    scales = tmp_path / "scales.json"
    assert "scales of 4 values and 3 weights\n" in weir("calibrate", DATA / "qat" / "fake_quant.onnx", "-o", scales, "--scales", "model").out
    found = json.loads(scales.read_text())
    model = onnx.load(DATA / "qat" / "fake_quant.onnx")
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            wanted = np.ravel(held[node.input[1]])
            assert [np.float32(each["scale"]) for each in found[node.input[0]]] == wanted.tolist()
    assert "3 left out" in weir("calibrate", DATA / "qat" / "converted.onnx", "-o", scales, "--scales", "model", "--force").out


def test_scales_of_a_table(weir, tmp_path, net):
    scales = tmp_path / "scales.json"
    weir("calibrate", net, "-o", scales, "--scales", written(tmp_path / "t.json", {"x": [0.03, 128], "c": [0.08], "f": [0.02, 0], "y": [0.1, 128]}))
    assert json.loads(scales.read_text()) == SCALES
    for bad in ({"x": [0, 1]}, {"x": [1, 2, 3]}, [1], {"x": "a"}, {"x": [1, 0.5]}, {"x": []}):
        assert weir("calibrate", net, "-o", scales, "--force", "--scales", written(tmp_path / "t.json", bad), code=66).err
    assert json.loads(scales.read_text()) == SCALES  # nothing was written over it
    (tmp_path / "t.json").write_text("{")
    weir("calibrate", net, "-o", scales, "--force", "--scales", tmp_path / "t.json", code=65)
    assert "no scales" in weir("calibrate", net, "-o", tmp_path / "n.json", "--scales", "model", code=1).err
    assert "exists already" in weir("calibrate", net, "-o", scales, "--scales", "model", code=66).err
    assert "-o" in weir("calibrate", net, "--scales", "model", code=2).err
    weir("calibrate", net, "-o", scales, "--force", "--scales", "model", "--generate", "2", code=2)
    assert not (tmp_path / "n.json").exists()


def test_types_of_codes_without_zero_points(weir, tmp_path):
    """A DequantizeLinear without one has the type of its codes; lists of computed values, and second names, are left out."""
    codes = np.random.default_rng(1).integers(-127, 128, (4, 5)).astype(np.int8)
    held = [numpy_helper.from_array(x, name) for name, x in {"w_quantized": codes, "s": np.float32(0.02), "many": np.full(4, 0.1, np.float32)}.items()]
    nodes = [
        helper.make_node("DequantizeLinear", ["w_quantized", "s"], ["w"]),
        helper.make_node("QuantizeLinear", ["x", "s"], ["xq"], output_dtype=3),
        helper.make_node("DequantizeLinear", ["xq", "s"], ["xd"]),
        helper.make_node("MatMul", ["xd", "w"], ["y_QuantizeLinear_Input"]),
        helper.make_node("QuantizeLinear", ["y_QuantizeLinear_Input", "s"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "s"], ["y"]),
        helper.make_node("Relu", ["y"], ["r"]),
        helper.make_node("QuantizeLinear", ["y", "s"], ["again"]),
        helper.make_node("QuantizeLinear", ["r", "many"], ["listed"], axis=0),
    ]
    info = [helper.make_tensor_value_info("x", 1, [4, 4]), *(helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 1), ("again", 2), ("listed", 2)))]
    model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:], held), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    said = weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "s.json", "--scales", "model").out
    found = json.loads((tmp_path / "s.json").read_text())
    assert {name: [each["quant_type"] for each in row] for name, row in found.items()} == {"w": ["int8"], "x": ["int8"], "y": ["uint8"]}
    assert "2 left out" in said


@pytest.mark.parametrize("scales", ["model", "table.json"])
def test_overrides_replace_nothing_that_is_read(weir, tmp_path, scales):
    shutil.copy(DATA / "qat" / "fake_quant.onnx", tmp_path / "model")
    (tmp_path / "table.json").write_text('{"x": [0.5, 1]}')
    before = folder_bytes(tmp_path)
    model = tmp_path / "model"
    given, out = (scales, model) if scales == "model" else [tmp_path / scales] * 2
    assert "would overwrite" in weir("calibrate", model, "-o", out, "--scales", given, "--force", code=2).err
    assert folder_bytes(tmp_path) == before
