"""What inspect says of weights, against onnx; and the command that it ends with, which is run."""

import json
import shlex
import subprocess

import numpy as np
import onnx
import pytest
from conftest import DATA, copy_model
from onnx import TensorProto, helper, numpy_helper

ENCODERS = [DATA / "parakeet-dynamo" / "encoder-model.onnx", DATA / "parakeet-torchscript" / "encoder-model.onnx"]
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def floats(path):
    """Elements of float weights that are used, Constant nodes included."""
    graph = onnx.load(path).graph
    used = {name for node in graph.node for name in node.input}
    count = sum(int(np.prod(t.dims)) for t in graph.initializer if t.data_type in FLOATS and t.name in used)
    for node in graph.node:
        for a in node.attribute:
            if node.op_type == "Constant" and a.name == "value" and a.t.data_type in FLOATS and node.output[0] in used:
                count += int(np.prod(a.t.dims))
    return count


def test_parameters_are_those_of_onnx(weir, small_encoder):
    for source in [*ENCODERS, small_encoder]:
        said = weir("inspect", source, "--json").json()
        assert said["parameters"] == floats(source) and said["quantized"] == []


@pytest.mark.parametrize(
    "words, op_type, bits, block",
    [
        (["quantize", "--block-size", "32"], "MatMulNBits", 4, 32),
        (["quantize", "--block-size", "16", "--bits", "8"], "MatMulNBits", 8, 16),
        (["quantize", "--block-size", "16", "--format", "qdq"], "DequantizeLinear", 4, 16),
        (["quantize", "--block-size", "channel", "--format", "qdq", "--bits", "8"], "DequantizeLinear", 8, None),
    ],
)
def test_what_is_quantized_already(weir, tmp_path, small_encoder, words, op_type, bits, block):
    """As many parameters as before, each weight once, in the form that was asked for."""
    report = weir(words[0], small_encoder, tmp_path / "out.onnx", *words[1:], "--json").json()
    weights = report["passes"][0]["tensors"]
    said = weir("inspect", tmp_path / "out.onnx", "--json").json()
    [row] = said["quantized"]
    assert (row["op_type"], row["bits"], row["block"], row["weights"]) == (op_type, bits, block, len(weights))
    assert row["parameters"] == sum(int(np.prod(w["dims"])) for w in weights)
    assert said["parameters"] == floats(small_encoder)
    assert f"quantized: {len(weights)} weights" in weir("inspect", tmp_path / "out.onnx").out


def lstm_model(path, rng):
    """A table, an LSTM with a bias, a product with one, and a Conv: 5 weights, of an LSTM two."""
    made = {"table": (50, 16), "W": (1, 32, 16), "R": (1, 32, 8), "B": (1, 64), "w": (8, 24), "b": (24,), "k": (6, 5, 1, 1), "c": (6,)}
    tensors = [numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), name) for name, dims in made.items()]
    tensors.append(numpy_helper.from_array(np.array([1, 5, 24, 1]), "four"))
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["x"]),
        helper.make_node("LSTM", ["x", "W", "R", "B"], ["", "h"], hidden_size=8),
        helper.make_node("MatMul", ["h", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Reshape", ["s", "four"], ["f"]),
        helper.make_node("Conv", ["f", "k", "c"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("i", 7, [3, 5])], [value("y", 1, [1, 6, 24, 1])], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return {name: int(np.prod(dims)) for name, dims in made.items()}


DYNAMIC = ["dynamic", "--op-types", "MatMul,Gemm,LSTM,Gather,Conv"]


@pytest.mark.parametrize(
    "words, weights",
    [
        (DYNAMIC, ["table", "W", "R", "w", "k"]),
        ([*DYNAMIC, "--form", "integer"], ["table", "W", "R", "w", "k"]),
        (["dynamic", "--compat", "onnxruntime"], ["table", "W", "R", "w", "k"]),
        (["static", "--format", "qoperator", "--op-types", "all"], ["table", "w", "b", "k"]),
        (["static", "--format", "qdq", "--op-types", "all"], ["table", "w", "b", "k"]),
        (["static", "--format", "qdq", "--weight-type", "int16", "--activation-type", "uint16"], ["w", "k"]),
        (["static", "--format", "qdq", "--weight-type", "float8e4m3fn", "--activation-type", "float8e4m3fn"], ["w", "k"]),
    ],
)
def test_parameters_stay_as_many(weir, tmp_path, words, weights):
    """Whatever operators hold the codes, and though biases are added by them or become int32."""
    elements = lstm_model(tmp_path / "m.onnx", np.random.default_rng(5))
    command, *options = words
    if command == "static":
        method = "distribution" if "float8e4m3fn" in words else "minmax"
        weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r.jsonl", "--generate", "2", "--method", method)
        options += ["--ranges", tmp_path / "r.jsonl"]
    weir(command, tmp_path / "m.onnx", tmp_path / "out.onnx", "--report-json", tmp_path / "report.json", *options)
    said = weir("inspect", tmp_path / "out.onnx", "--json").json()
    assert said["parameters"] == sum(elements.values())
    assert sum(row["weights"] for row in said["quantized"]) == len(weights)
    if command == "dynamic":
        report = json.loads((tmp_path / "report.json").read_text())
        told = {tensor["name"]: int(np.prod(tensor["dims"])) for tensor in report["passes"][0]["tensors"]}
        assert told == {name: elements[name] for name in weights}
    assert sum(row["parameters"] for row in said["quantized"]) == sum(elements[name] for name in weights)


def test_gather_and_gemm(weir, tmp_path):
    table = numpy_helper.from_array(np.ones((300, 256), np.float32), "table")
    weight = numpy_helper.from_array(np.ones((256, 512), np.float32), "w")
    nodes = [helper.make_node("Gather", ["table", "i"], ["x"]), helper.make_node("Gemm", ["x", "w"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("i", 7, [1])], [value("y", 1, [1, 512])], [table, weight])
    source = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), source)
    said = weir("inspect", source).out
    assert "1 weight of Gemm (524 kB) and 1 weight of Gather (307 kB)" in said
    assert "--op-types Gemm,Gather\nand to measure its accuracy" in said
    done = run_next(weir, source)
    after = weir("inspect", done, "--json").json()
    assert sorted(row["op_type"] for row in after["quantized"]) == ["GatherBlockQuantized", "MatMulNBits"]
    assert after["parameters"] == 300 * 256 + 256 * 512


def run_next(weir, source):
    """Runs the command as a user would copy it, checks the size that was promised, and gives the output's path."""
    next_one = weir("inspect", source, "--json").json()["next"]
    _, command, *check = weir("inspect", source).out.partition("\nNext, for ")[2].splitlines()
    assert command == "  " + next_one["command"]
    assert check == (["and to measure its accuracy on samples in DIR", "  " + next_one["check"]] if next_one["check"] else [])
    words = shlex.split(command)
    before = set(source.parent.iterdir())
    subprocess.run([weir.path, *words[1:]], check=True, capture_output=True)
    made = set(source.parent.iterdir()) - before
    size = sum(path.stat().st_size for path in made if path.suffix != ".json")
    assert size == pytest.approx(next_one["bytes"], rel=0.08)
    [out] = [path for path in made if path.suffix == ".onnx"]
    # What names the way to check it does check it.
    assert shlex.split(next_one["check"]) == ["weir", "verify", str(source), str(out), "--inputs", "DIR"]
    return out


@pytest.mark.parametrize("table", [512, 64])
def test_next_where_operators_share_weights(weir, tmp_path, table):
    """The originals stay where a node of another type uses them, and a table has codes of its own."""
    rng = np.random.default_rng(2)
    weights = {"e": (table, 256), "w": (256, 256), "b": (256,)}
    tensors = [numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), name) for name, dims in weights.items()]
    nodes = [
        helper.make_node("Gather", ["e", "i"], ["x"]),
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Gemm", ["p", "w", "b"], ["z"]),
        helper.make_node("Transpose", ["e"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["z", "t"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("i", 7, [3])], [value("y", 1, [3, table])], tensors)
    source = tmp_path / "shared.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), source)
    out = run_next(weir, source)
    assert out.stat().st_size < source.stat().st_size / 3


@pytest.mark.parametrize("which", [0, 1])
def test_next_command(weir, tmp_path, which):
    """Pointwise convolutions and products in one go; what is done then is not advised again."""
    source = copy_model(ENCODERS[which], tmp_path / "it's here")
    out = run_next(weir, source)
    assert out.name == "encoder-model.int4.onnx"
    said = weir("inspect", out, "--json").json()
    assert said["next"] is None or "conv2matmul" not in said["next"]["command"]
    assert "--pass quantize:block_size=64\n" not in weir("inspect", out).out


def test_next_is_the_smallest(weir, tmp_path):
    """Where no product has large weights, int8 is what there is; and where weights are gone, nothing."""
    weight = numpy_helper.from_array(np.random.default_rng(1).standard_normal((64, 64, 5, 5)).astype(np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", 1, [1, 64, 9, 9])], [value("y", 1, [1, 64, 5, 5])], [weight])
    source = tmp_path / "conv.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    out = run_next(weir, source)
    assert out.name == "conv.int8.onnx"
    said = weir("inspect", out, "--json").json()
    assert said["next"] is None and "Next" not in weir("inspect", out).out
    assert json.dumps(said["quantized"]) and said["quantized"][0]["bits"] == 8


def test_metadata(weir, tmp_path):
    """Keys and the beginnings of values, cut between characters; nothing that steers a terminal."""
    model = onnx.load(ENCODERS[0], load_external_data=False)
    del model.graph.node[:], model.graph.initializer[:], model.graph.input[:], model.graph.output[:]
    values = {"license": "MIT", "long": "\u00e4" * 50, "steers": "a\x1b[31mb"}
    helper.set_model_props(model, values)
    onnx.save(model, tmp_path / "m.onnx")
    said = weir("inspect", tmp_path / "m.onnx").out
    assert "\nMetadata\n  license                      MIT\n" in said
    assert "  long                         " + "\u00e4" * 30 + "...\n" in said and "\x1b" not in said
    assert weir("inspect", tmp_path / "m.onnx", "--json").json()["metadata"][0] == {"key": "license", "value": "MIT"}


def test_quantizers_of_qonnx_are_told_how_to_come_in(weir, tmp_path):
    quant = helper.make_node("Quant", ["x", "s", "z", "n"], ["y"], domain="qonnx.custom_op.general", signed=1, narrow=0, rounding_mode="ROUND")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    constants = [numpy_helper.from_array(np.float32(x), name) for name, x in (("s", 0.5), ("z", 0), ("n", 4))]
    graph = helper.make_graph([quant], "g", value[:1], value[1:], constants)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("qonnx.custom_op.general", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "q.onnx")
    found = json.loads(weir("inspect", "--json", tmp_path / "q.onnx").out)
    assert [(one["command"], one["sites"]) for one in found["advice"]] == [("run", 1)]
    assert found["advice"][0]["text"].startswith("a QONNX model: no runtime has its 1 node Quant; --pass import-qonnx converts it")
    # Who takes another command gets there too.
    refused = weir("calibrate", tmp_path / "q.onnx", "-o", tmp_path / "r", "--generate", "1", code=1).err
    assert "no runtime has the operator Quant of qonnx.custom_op.general, so the model cannot be run" in refused and "--pass import-qonnx" in refused
    # In a function that nothing calls they are never run.
    idle = helper.make_function("mine", "idle", [*"xszn"], ["y"], [quant], opsets)
    plain = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    onnx.save(helper.make_model(plain, opset_imports=[*opsets, helper.make_opsetid("mine", 1)], ir_version=8, functions=[idle]), tmp_path / "idle.onnx")
    weir("calibrate", tmp_path / "idle.onnx", "-o", tmp_path / "r", "--generate", "1")
    (tmp_path / "cfg.yaml").write_text("passes: [streamline]\n")
    for words, way in ((["quantize"], "'weir run IN OUT --pass import-qonnx' first"), (["run", "--config", tmp_path / "cfg.yaml"], "--pass import-qonnx before all others")):
        assert f"other passes leave it unchanged; {way} converts it to ONNX" in weir(*words, tmp_path / "q.onnx", tmp_path / "other.onnx", "--force").err
    done = weir("run", tmp_path / "q.onnx", tmp_path / "other.onnx", "--pass", "import-qonnx", "--pass", "streamline", "--force")
    assert "no runtime has" not in done.err
    weir("run", tmp_path / "q.onnx", tmp_path / "out.onnx", "--pass", "import-qonnx")
    assert json.loads(weir("inspect", "--json", tmp_path / "out.onnx").out)["advice"] == []
