"""Weights whose scales are found are read once, as `source_bytes_read` says: what is looked at for ranges is at hand for the codes.

By column in panels, whose codes wait for their place in the file; by row and by tensor from what is kept. Where the memory is too
little for that (the controls) a part is read again, and what is written stays the same.
"""

import hashlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from test_given_files import meta_sha256, ranges

K, N = 2048, 1000  # 8 MB; no whole number of strips a row
WEIGHTS = 2
SIZE = WEIGHTS * K * N * 4


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """a = x · w0, b = x · w1, the weights in a file beside the model."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(5)
    (rng.standard_normal(SIZE // 4, np.float32) * 0.05).tofile(folder / "w.data")
    held = []
    for i in range(WEIGHTS):
        t = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[K, N], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": "w.data", "offset": i * K * N * 4, "length": K * N * 4}.items():
            t.external_data.add(key=key, value=str(value))
        held.append(t)
    values = {"x": [4, K], "a": [4, N], "b": [4, N]}
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in values.items()}
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"), helper.make_node("MatMul", ["x", "w1"], ["b"], name="second")]
    graph = helper.make_graph(nodes, "g", [infos["x"]], [infos["a"], infos["b"]], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.fixture(scope="module")
def found(weir, source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranges")
    return ranges(folder / "r.jsonl", {n: (-3.0, 2.5) for n in "xab"}, meta_sha256(weir, folder, source), source.name)


def reads(weir, source, out, *words):
    """How many reads of the weights a command with one worker took, and what it wrote."""
    done = weir.report(words[0], source, out, *words[1:], "--jobs", "1", "--force")["weir"]
    return done["source_bytes_read"] / SIZE, hashlib.sha256((out.parent / f"{out.name}.data").read_bytes()).hexdigest()


# A worker keeps 22 MB, 3 MB (panels of 256 columns), and less than such a panel.
ALL, PANELS, LITTLE = "48M", "8M", "4M"
COMMANDS = {
    "by column": ("dynamic",),
    "uint8 by column": ("dynamic", "--weight-type", "uint8"),
    "by tensor": ("dynamic", "--per-tensor"),
    "static": ("static", "--ranges"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_weights_are_read_once(weir, source, found, tmp_path, command):
    words = [*COMMANDS[command], *([found] if command == "static" else [])]
    whole, expected = reads(weir, source, tmp_path / "a.onnx", *words, "--memory", ALL)
    assert 1 <= whole < 1.001
    small, got = reads(weir, source, tmp_path / "b.onnx", *words, "--memory", PANELS)
    assert (1.3 < small < 2) if command == "by tensor" else (1 <= small < 1.001)
    assert got == expected
    little, got = reads(weir, source, tmp_path / "c.onnx", *words, "--memory", LITTLE)
    assert 1.5 < little < 2.001
    assert got == expected


def test_scales_that_make_room_for_a_bias_take_no_other_read(weir, tmp_path):
    """Gemm, whose int32 bias would overflow by the scales that are found."""
    rng = np.random.default_rng(6)
    bias = np.where(np.arange(N) % 2, 0.5, 3e4).astype(np.float32)
    (rng.standard_normal(K * N, np.float32) * 0.05).tofile(tmp_path / "w.data")
    w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[K, N], data_location=TensorProto.EXTERNAL)
    w.external_data.add(key="location", value="w.data")
    values = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in {"x": [4, K], "a": [4, N]}.items()}
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["a"])], "g", [values["x"]], [values["a"]],
                              [w, onnx.numpy_helper.from_array(bias, "b")])
    source = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    given = ranges(tmp_path / "r.jsonl", {"x": (-(2.0**-10), 2.0**-10), "a": (-3e4, 3e4)}, meta_sha256(weir, tmp_path, source), source.name)
    told = {}
    for memory in (ALL, PANELS, LITTLE):
        out = tmp_path / memory / "o.onnx"
        out.parent.mkdir()
        done = weir.report("static", source, out, "--ranges", given, "--memory", memory, "--jobs", "1")["weir"]
        told[memory] = done["source_bytes_read"] / (K * N * 4), (out.parent / "o.onnx.data").read_bytes()
    assert told[ALL][1] == told[PANELS][1] == told[LITTLE][1]
    assert 1 <= told[ALL][0] < 1.01 and 1 <= told[PANELS][0] < 1.01
    assert 1.5 < told[LITTLE][0] < 2.005
    out = tmp_path / "as-found.onnx"
    weir.report("static", source, out, "--ranges", given, "--qdq-disable-weight-adjust-for-int32-bias")
    assert (tmp_path / "as-found.onnx.data").read_bytes() != told[ALL][1]


def test_figures_do_not_depend_on_panels(weir, source, tmp_path):
    """Nor on who makes them."""
    told = []
    for words in (["--memory", ALL, "--jobs", "1"], ["--memory", PANELS, "--jobs", "1"], ["--memory", "24M", "--jobs", "3"]):
        report = weir.report("dynamic", source, tmp_path / "o.onnx", *words, "--force")
        report.pop("weir")
        told.append(report)
    assert told[0] == told[1] == told[2]
    assert "sqnr_db" in str(told[0])
