"""Quantized networks through streamline: as small as onnx-passes leaves them, the same numbers, no end in circles.

The networks are those of tests/support/quantized_nets.py; the numbers of nodes are what onnx-passes 0.4.1 leaves of them
(bench/streamline.py runs it).
"""

import json
import os
import shutil

import onnx
import pytest

import make_encoder
import passes_cases
import quantized_nets

ALL = os.environ.get("WEIR_TEST_ALL", "0") == "1"

PREPARE = ["import-qonnx", "infer", "inline-qonnx", "inline-batchnorm", "inline-gemm", "infer"]
LEFT = {"cnn": 34, "transformer": 59}  # nodes that onnx-passes leaves
INPUTS = {"cnn": {"image": "f32[1,3,16,16]"}, "transformer": {"tokens": "f32[1,8,32]{-2:2}"}}


@pytest.fixture(scope="module", params=quantized_nets.NETS)
def net(request, weir, tmp_path_factory):
    """(name, folder): a network as it is (net.onnx), with its quantizers written out (plain.onnx), streamlined (out.onnx)."""
    folder = tmp_path_factory.mktemp(request.param)
    onnx.save(quantized_nets.NETS[request.param](), folder / "net.onnx")
    weir("run", folder / "net.onnx", folder / "plain.onnx", *(w for p in PREPARE for w in ("--pass", p)))
    words = ["--pass", "streamline", "--exactness", "finite"]
    done = weir("run", folder / "plain.onnx", folder / "out.onnx", *words, "--json")
    (folder / "report.json").write_text(done.out)
    return request.param, folder


def test_verification_begins_after_the_import(weir, net):
    """No runtime has the operators of QONNX: the error says to import them first, and the commands that it names work."""
    name, folder = net
    words = [w for p in PREPARE for w in ("--pass", p)]
    said = weir("run", folder / "net.onnx", folder / "none.onnx", *words, "--verify", code=1).err
    assert "is not a registered function/op" in said and "--pass import-qonnx; what follows is verified from imported.onnx on" in said
    weir("run", folder / "net.onnx", folder / "imported.onnx", *words[:2])
    done = weir("run", folder / "imported.onnx", folder / "verified.onnx", *words[2:], "--verify")
    assert "verified: " in done.out and not (folder / "none.onnx").exists()


def test_other_operators_are_not_taken_for_those_of_qonnx(weir, tmp_path):
    nodes = [onnx.helper.make_node("Foo", ["x"], ["a"], domain="my.domain"), onnx.helper.make_node("Identity", ["a"], ["b"]),
             onnx.helper.make_node("Relu", ["b"], ["y"])]  # fmt: skip
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in "xy")
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("my.domain", 1)]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    said = weir("run", tmp_path / "m.onnx", tmp_path / "o.onnx", "--pass", "tidy", "--verify=model", code=1).err
    assert "my.domain:Foo" in said and "is not a registered function/op" in said and "import-qonnx" not in said


def test_it_is_as_small_as_the_original_makes_it(net):
    name, folder = net
    graph = onnx.load(folder / "out.onnx").graph
    assert len(graph.node) <= LEFT[name] < len(onnx.load(folder / "plain.onnx").graph.node)
    assert not {node.op_type for node in graph.node} & {"Quant", "BatchNormalization", "Gemm", "Sub", "Div", "Where"}


def test_it_computes_the_same(net):
    name, folder = net
    before, after = onnx.load(folder / "plain.onnx"), onnx.load(folder / "out.onnx")
    given = after.graph.input[0].name
    for seed in range(3):
        feeds = passes_cases.draw(INPUTS[name], seed)
        expected = passes_cases.run(before, feeds)
        found = passes_cases.run(after, {given: feeds[before.graph.input[0].name]})
        assert passes_cases.judge(expected, found) in ("equal", "close")


def test_it_ends_by_itself(net):
    """Neither the limit of rounds nor a circle ended it."""
    report = json.loads((net[1] / "report.json").read_text())
    assert report["weir"]["warnings"] == []
    assert all(each["warnings"] == [] for each in report["passes"])


@pytest.mark.slow
@pytest.mark.skipif(not ALL, reason="with tools/test --all")
def test_a_large_encoder_takes_the_memory_of_its_index(weir, large_folder):
    """2.4 GB, nearly all of them holes: every site of its streamline is right, and neither takes more than the index and 64 MiB."""
    folder = large_folder / "streamlined"
    folder.mkdir()
    model, log = folder / "encoder-model.onnx", folder / "edits.jsonl"
    make_encoder.make_encoder(model, make_encoder.Shape(), size=2_400_000_000, sparse=True)
    words = ["--pass", "streamline", "--io", "null", "--edit-log", log]
    ran = weir.report("run", model, folder / "none.onnx", *words)["weir"]
    assert ran["edits"] > 1000 and ran["warnings"] == []
    assert ran["peak_memory_bytes"] < ran["index_bytes"] + (64 << 20)
    words = ["--edits", log, "--sites", "40", "--jobs", "1", "--json"]
    found = json.loads(weir("verify", model, *words).out)["verification"]
    assert found["passed"] == len(found["rows"]) == 40
    assert found["peak_memory_bytes"] < ran["index_bytes"] + (64 << 20)
    shutil.rmtree(folder)


@pytest.mark.skipif(not ALL, reason="with tools/test --all")
def test_two_layers_of_an_encoder_have_no_more_nodes(weir, tmp_path):
    """Than onnx-passes 0.4.1 leaves of them: `shape-inference fold-constants shape-inference streamline`."""
    make_encoder.make_encoder(tmp_path / "encoder.onnx", make_encoder.Shape(layers=2), size=8_000_000, sparse=True)
    weir("run", tmp_path / "encoder.onnx", tmp_path / "out.onnx", "--pass", "streamline", "--exactness", "finite")
    assert len(onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.node) <= 125
