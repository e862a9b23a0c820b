"""What `weir inspect` says weir could do: every line is run, and its size is what comes out; Next is the smallest of them.

Sizes are those of plans, so that they are the files' but for what ONNX Runtime's ranges leave out (static).
"""

import re
import shlex
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import quantized_nets
from conftest import DATA, copy_model, package_model

WITHIN = 0.01  # of the size that is said
VALUE = helper.make_tensor_value_info


def saved(path, nodes, inputs, outputs, tensors, opset=17):
    rng = np.random.default_rng(3)
    made = [numpy_helper.from_array(t if isinstance(t, np.ndarray) else rng.standard_normal(t).astype(np.float32), n) for n, t in tensors.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return path


def lstm_decoder(folder):
    """An embedding, an LSTM and a projection onto the vocabulary."""
    tensors = {"table": (500, 256), "W": (1, 1024, 256), "R": (1, 1024, 256), "B": (1, 2048), "p": (256, 500), "axis": np.array([1])}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("LSTM", ["e", "W", "R", "B", "", "h", "c"], ["s", "h1", "c1"], hidden_size=256),
        helper.make_node("Squeeze", ["s", "axis"], ["t"]),
        helper.make_node("MatMul", ["t", "p"], ["y"]),
    ]
    state = [VALUE(n, TensorProto.FLOAT, [1, 1, 256]) for n in ("h", "c")]
    return saved(folder / "decoder.onnx", nodes, [VALUE("ids", TensorProto.INT64, [4, 1]), *state], [VALUE("y", TensorProto.FLOAT, None)], tensors)


def qat(folder):
    """Products as quantization-aware training leaves them: float weights, quantized by channel as the model runs."""
    nodes, tensors, x = [], {"s": np.float32([0.05]).reshape(()), "z": np.zeros((), np.int8)}, "x"
    for i in range(3):
        tensors |= {f"w{i}": (128, 128), f"s{i}": np.full(128, 0.02, np.float32), f"z{i}": np.zeros(128, np.int8)}
        nodes += [
            helper.make_node("QuantizeLinear", [x, "s", "z"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"]),
            helper.make_node("QuantizeLinear", [f"w{i}", f"s{i}", f"z{i}"], [f"wq{i}"], axis=1),
            helper.make_node("DequantizeLinear", [f"wq{i}", f"s{i}", f"z{i}"], [f"wd{i}"], axis=1),
            helper.make_node("MatMul", [f"d{i}", f"wd{i}"], [f"m{i}"]),
        ]
        x = f"m{i}"
    return saved(folder / "qat.onnx", nodes, [VALUE("x", TensorProto.FLOAT, [1, 128])], [VALUE(x, TensorProto.FLOAT, [1, 128])], tensors)


def cnn(folder):
    """Convolutions of 3 x 3, which no product can be made of, and a classifier."""
    tensors, nodes, x, channels = {}, [], "x", 3
    for i in range(3):
        tensors |= {f"w{i}": (64, channels, 3, 3), f"b{i}": (64,)}
        nodes += [helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], pads=[1] * 4), helper.make_node("Relu", [f"c{i}"], [f"r{i}"])]
        x, channels = f"r{i}", 64
    nodes += [helper.make_node("GlobalAveragePool", [x], ["a"]), helper.make_node("Flatten", ["a"], ["f"])]
    nodes.append(helper.make_node("Gemm", ["f", "g", "gb"], ["y"]))
    tensors |= {"g": (64, 100), "gb": (100,)}
    return saved(folder / "cnn.onnx", nodes, [VALUE("x", TensorProto.FLOAT, [1, 3, 16, 16])], [VALUE("y", TensorProto.FLOAT, [1, 100])], tensors)


def qonnx(folder):
    onnx.save(quantized_nets.cnn(width=64), folder / "qonnx.onnx")
    return folder / "qonnx.onnx"


def encoder(folder):
    return copy_model(DATA / "parakeet-dynamo" / "encoder-model.onnx", folder / "encoder")


def text_recognizer(folder):
    return copy_model(package_model("rapidocr", "rec"), folder)


# Commands that are listed, and the one that is next.
LISTED = {
    lstm_decoder: ({"dynamic", "quantize", "shrink", "cast"}, "run"),
    qat: ({"requantize"}, None),
    cnn: ({"static", "shrink", "cast"}, None),
    qonnx: ({"run"}, None),
    encoder: ({"quantize", "run", "dynamic", "static", "cast"}, "run"),
    text_recognizer: ({"quantize", "run", "dynamic", "static", "shrink", "cast"}, "run"),
}


def run(weir, source, words):
    """The size of all files that a command makes."""
    before = set(source.parent.iterdir())
    weir(*words[1:])
    made = set(source.parent.iterdir()) - before
    size = sum(path.stat().st_size for path in made if path.suffix not in (".json", ".jsonl"))
    for path in made:
        path.unlink()
    return size


@pytest.mark.parametrize("make", LISTED, ids=lambda make: make.__name__)
def test_every_line_is_what_comes_out(weir, tmp_path, make):
    source = make(tmp_path)
    said = weir("inspect", source, "--json").json()
    listed, next_one = LISTED[make]
    advice = {each["command"]: each for each in said["advice"]}
    assert listed <= set(advice), said["advice"]
    sizes = {}
    for each in said["advice"]:
        if each["bytes"] is None:
            assert each["run"] is None
            continue
        line = each["run"]
        if each["command"] == "static":  # the only one that needs more than the model
            assert line is None
            weir("calibrate", source, "-o", source.parent / "ranges.jsonl", "--generate", "2", "--quiet")
            line = shlex.join(["weir", "static", str(source), str(source.with_suffix(".static.onnx")), "--ranges", str(source.parent / "ranges.jsonl")])
        real = run(weir, source, shlex.split(line))
        assert real == pytest.approx(each["bytes"], rel=WITHIN), line
        if each["run"]:
            sizes[each["run"]] = real
    smallest = min(sizes, key=sizes.get)
    assert said["next"]["command"] == smallest and said["next"]["bytes"] == pytest.approx(sizes[smallest], rel=WITHIN)
    assert next_one is None or smallest.split()[1] == next_one


def test_text_and_document_agree(weir, tmp_path):
    source = lstm_decoder(tmp_path)
    said, text = weir("inspect", source, "--json").json(), weir("inspect", source).out
    for each in said["advice"]:
        assert f"  {each['command']:<12} {each['text']}\n" in text
        if each["command"] == "dynamic":  # an LSTM has two weights
            said_by_it = weir("dynamic", source, tmp_path / "dynamic.onnx").out
            assert each["text"].startswith(re.search(r"\d+ weights ", said_by_it)[0])
    check = f"and to measure its accuracy on samples in DIR\n  {said['next']['check']}\n"
    assert text.endswith(f"  {said['next']['command']}\n{check}")


@pytest.mark.parametrize("make, kind", [(encoder, "int4"), (text_recognizer, "int4"), (qat, None)], ids=["encoder", "recognizer", "qat"])
def test_next_names_how_to_check_what_loses(weir, tmp_path, make, kind):
    source = make(tmp_path)
    check = weir("inspect", source, "--json").json()["next"]["check"]
    out = source.with_suffix(f".{kind}.onnx")
    assert check == (kind and shlex.join(["weir", "verify", str(source), str(out), "--inputs", "DIR"]))
    assert (check is None) == ("to measure its accuracy" not in weir("inspect", source).out)


def test_nothing_is_run_and_nothing_written(weir, tmp_path):
    """No weight is read: a model without its data still has its list, and no command to copy."""
    source = encoder(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in source.parent.iterdir()}
    weir("inspect", source)
    assert {path: path.stat().st_mtime_ns for path in source.parent.iterdir()} == before
    (source.parent / "encoder-model.onnx.data").unlink()
    said = weir("inspect", source, "--json").json()
    assert said["next"] is None and all(each["run"] is None for each in said["advice"])
    assert {"quantize", "cast"} <= {each["command"] for each in said["advice"]}


def test_the_command_of_a_path_with_blanks(weir, tmp_path):
    folder = tmp_path / "it's here"
    folder.mkdir()
    source = qat(folder)
    command = weir("inspect", source, "--json").json()["next"]["command"]
    subprocess.run(["sh", "-c", command.replace("weir", shlex.quote(weir.path), 1)], check=True, capture_output=True)


@pytest.mark.parametrize("much", [False, True])
def test_what_takes_long_to_load_is_loaded_once(weir, tmp_path, much):
    """Each line of a plan loads the model again: not where there is much beside elements. The weights still say something."""
    path = saved(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [VALUE("x", TensorProto.FLOAT, [1, 4096])], [VALUE("y", TensorProto.FLOAT, None)], {"w": (4096, 4096)})
    model = onnx.load(path)
    for _ in range(65 if much else 1):
        model.graph.value_info.add(name="x", doc_string=" " * (1 << 20))
    onnx.save(model, path)
    commands = {line["command"] for line in weir("inspect", path, "--json").json()["advice"]}
    assert ("dynamic" in commands) == (not much) and {"quantize", "shrink"} <= commands
