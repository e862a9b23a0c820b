"""Quantized networks through streamline: as small as onnx-passes leaves them, the same numbers, no end in circles.

The networks are those of tests/support/quantized_nets.py; the numbers of nodes are what onnx-passes 0.4.1 leaves of them
(bench/streamline.py runs it).
"""

import json

import onnx
import pytest

import passes_cases
import quantized_nets

pytestmark = pytest.mark.in_memory

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
