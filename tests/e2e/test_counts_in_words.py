"""Counts of one: what commands, their errors and pages say of a model that has one of everything."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.in_memory

# "1 runs", "1 of 2 nodes are"; but "1 class", "-1 dims", "1.1 times".
PLURAL = re.compile(r"(?<![\w.-])1 (?!is\b|was\b|has\b|does\b|as\b|less\b|axis\b|class\b|pass\b|bias\b)[a-z]*s\b"
                    r"|(?<![\w.-])1 of \d+ [\w ]*(?:are|have|were|follow)\b")


def filters(rng, *dims):
    return numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), f"w{dims[-1]}")


@pytest.fixture(scope="module")
def one_of_two(module_folder):
    """Two Conv, of which one is pointwise."""
    rng = np.random.default_rng(3)
    nodes = [helper.make_node("Conv", ["x", "w1"], ["h"], name="pointwise"),
             helper.make_node("Conv", ["h", "w3"], ["y"], name="other", pads=[1, 1, 1, 1])]
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64, 5, 5]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [filters(rng, 64, 64, 1, 1), filters(rng, 64, 64, 3, 3)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, module_folder / "m.onnx")
    return module_folder / "m.onnx"


def has_no_plural(text):
    found = PLURAL.search(text)
    assert not found, text[max(0, found.start() - 60):found.end() + 60]


def test_the_pattern_finds_what_it_should():
    for wrong in ("1 runs follow", "1 of 6 Conv nodes are pointwise", "of the plan, 1 of 2 units are missing", "with 1 samples"):
        assert PLURAL.search(wrong), wrong
    for right in ("1 run follows", "1 of 6 Conv nodes is pointwise", "1 of 2 units is missing", "1 of 2 units, 3 kB", "21 runs", "opset 1.1 runs", "at least 1 is"):
        assert not PLURAL.search(right), right


def test_a_model_is_looked_at(weir, one_of_two):
    said = weir("inspect", one_of_two).said
    assert "1 of 2 Conv nodes is pointwise" in said
    has_no_plural(said + weir("inspect", one_of_two, "--shapes").said + weir("check", one_of_two).said)


def test_one_sample_is_run_once_more(weir, one_of_two, tmp_path):
    done = weir("calibrate", one_of_two, "-o", tmp_path / "r", "--generate", "1", "--method", "entropy", "--group", "1GiB")
    assert "1 run follows, of 1 group of values in 1 sample" in done.err
    has_no_plural(done.said)
    samples = {"x": np.ones((3, 64, 5, 5), np.float32)}
    np.savez(tmp_path / "a.npz", x=samples["x"][:1])
    np.savez(tmp_path / "b.npz", x=samples["x"][1:2])
    done = weir("calibrate", one_of_two, "-o", tmp_path / "s", "--data", tmp_path / "a.npz", "--data", tmp_path / "b.npz", "--samples", "1")
    assert "1 more sample is left out" in done.err


def test_one_is_written_and_verified(weir, one_of_two, tmp_path):
    out, page = tmp_path / "o.onnx", tmp_path / "p.html"
    done = weir("conv2matmul", one_of_two, out, "--verify", "--report-html", page)
    has_no_plural(done.said)
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", page.read_text(), flags=re.S)
    assert re.search(r"1 of 1 (site|output) passed", text)
    has_no_plural(re.sub(r"<[^>]*>", "|", text))


def test_one_unit_is_missing(weir, one_of_two, tmp_path):
    said = weir("plan", one_of_two, tmp_path / "o.onnx", "--pass", "conv2matmul", "--shards", "2", "--external", "--json").json()["weir"]
    plan = tmp_path / said["staged"].rsplit("/", 1)[-1]
    done = weir("shard", plan, "--index", "0", "--count", "2")
    has_no_plural(done.said + weir("status", plan).said + weir("finalize", plan, code=75).said)
    assert "there is 1 shard, counted from 0" in weir("shard", plan, "--count", "1", env={"JOB_COMPLETION_INDEX": "3"}, code=2).err


def test_one_element_differs(weir, one_of_two, tmp_path):
    model = onnx.load(one_of_two)
    weight = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight[3, 2, 0, 0] += 1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w1"))
    onnx.save(model, tmp_path / "b.onnx")
    assert "1 of 4096 elements differs, the first at 194; " in weir("diff", one_of_two, tmp_path / "b.onnx", "--weights", "values", code=1).out


def test_a_scalar_without_its_element(weir, one_of_two, tmp_path):
    model = onnx.load(one_of_two)
    model.graph.initializer.append(TensorProto(name="s", data_type=TensorProto.FLOAT, float_data=[1.0, 2.0]))
    onnx.save(model, tmp_path / "b.onnx")
    assert "dims and type float need 1 entry, but float_data has 2" in weir("check", tmp_path / "b.onnx", code=65).said
