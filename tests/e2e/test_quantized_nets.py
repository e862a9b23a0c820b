"""Quantized networks through streamline: as small as onnx-passes leaves them, the same numbers, no end in circles.

The networks are those of tests/support/quantized_nets.py; the numbers of nodes are what onnx-passes 0.4.1 leaves of them
(bench/streamline.py runs it).
"""

import json
import os
import shutil

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import make_encoder
import passes_cases
import quantized_nets
from conftest import ALL


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


AGAINST = "; against the model after import-qonnx (no runtime has Quant of {})"
DOMAIN = {"cnn": "qonnx.custom_op.general", "transformer": "onnx.brevitas"}
QUANT = """
<ir_version: 9, opset_import: ["": 19, "{domain}": 1]>
main (float[2, 3] x, bool k) => (float[2, 3] y)
<float s = {{0.5}}, float z = {{0.0}}, float n = {{4.0}}> {{
  a = Identity (x)
  b = If (k) <then_branch = t () => (float[2, 3] p) {{
    q = Identity (a)
    p = {domain}.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (q, s, z, n)
  }}, else_branch = e () => (float[2, 3] r) {{ r = Neg (a) }}>
  c = Identity (b)
  y = Relu (c)
}}"""


def words_of(*passes):
    return [w for p in passes for w in ("--pass", p)]


def verification(weir, *words, code=0):
    return json.loads(weir(*words, "--json", code=code).out)["verification"]


@pytest.mark.parametrize("scope", ["sites", "model", "all"])
def test_what_follows_the_import_is_compared_with_its_result(weir, net, scope):
    """As from the imported model on: the same sites, and the line says so."""
    name, folder = net
    words = [*words_of(*PREPARE[1:], "streamline"), "--exactness", "finite", "--force", f"--verify={scope}"]
    weir("run", folder / "net.onnx", folder / "imported.onnx", "--pass", "import-qonnx", "--force")
    apart = verification(weir, "run", folder / "imported.onnx", folder / "two.onnx", *words)
    at_once = verification(weir, "run", folder / "net.onnx", folder / "one.onnx", "--pass", "import-qonnx", *words)
    assert "against" not in apart and at_once["against"] == "import-qonnx"
    key = lambda found: sorted((row["name"], row["status"], row["bounds"]) for row in found["rows"])  # noqa: E731
    assert at_once["passed"] == apart["passed"] > 0 and at_once["failed"] == at_once["not_verified"] == 0 and key(at_once) == key(apart)
    said = weir("run", folder / "net.onnx", folder / "one.onnx", "--pass", "import-qonnx", *words).out
    assert AGAINST.format(DOMAIN[name]) in said


def turn_narrow(model):
    model.graph.node[0].attribute[1].i = 1
    assert model.graph.node[0].attribute[1].name == "narrow"


def add_to_constant(model):
    a = next(n.attribute[0] for f in model.functions for n in f.node if n.op_type == "Constant")
    a.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(a.t) + np.float32(1), a.t.name))


@pytest.mark.parametrize("change", [None, turn_narrow, add_to_constant])
def test_what_the_import_made_is_held_to_the_log(weir, tmp_path, change):
    """It is in no site: an attribute of a node, a number of a function that came with it."""
    source, out, log = (tmp_path / n for n in ("in.onnx", "out.onnx", "log.jsonl"))
    text = """<ir_version: 8, opset_import: ["" : 17, "qonnx.custom_op.general" : 1]>
g (float[2, 8] x) => (float[2, 8] y) <float s = {0.05}, float z = {0}, float b = {8}> {
  q = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
  i = Identity(q)
  y = Relu(i)
}"""
    onnx.save(onnx.parser.parse_model(text), source)
    weir("run", source, out, *words_of("import-qonnx", "tidy/identity"), "--edit-log", log)
    model = onnx.load(out)
    if change:
        change(model)
        onnx.save(model, out)
    done = weir("verify", source, out, "--edits", log, code=1 if change else 0)
    assert ("but no edit changes it" in done.err) == bool(change) and "verified: 1 of 1 site" in done.out


def test_two_models_and_a_log(weir, net):
    name, folder = net
    source, out, log = folder / "net.onnx", folder / "logged.onnx", folder / "edits.jsonl"
    weir("run", source, out, *words_of("import-qonnx", "infer", "inline-qonnx"), "--edit-log", log)
    said = weir("verify", source, out).out
    assert "verified: 1 of 1 output (100.0 %)" + AGAINST.format(DOMAIN[name]) in said
    said = weir("verify", source, out, "--edits", log).out
    assert AGAINST.format(DOMAIN[name]) in said and "everything that no edit changes is the same as in SRC (net.onnx)" in said
    # Another model does not pass.
    weir("run", source, folder / "other.onnx", *words_of("import-qonnx"))
    model = onnx.load(folder / "other.onnx")
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) >= 2:
            tensor.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, folder / "other.onnx")
    weir("verify", source, folder / "other.onnx", code=1)


@pytest.fixture
def quant(tmp_path):
    """Writes a model with a quantizer of that domain in the body of an If."""

    def write(domain):
        onnx.save(onnx.parser.parse_model(QUANT.format(domain=domain)), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    return write


def test_a_model_with_functions_has_no_sites_but_those_that_changed(weir, quant, tmp_path):
    """Calls of what an import writes have no function yet where it ends: that is no change of theirs."""
    source = quant("qonnx.custom_op.general")
    model = onnx.load(source)
    model.opset_import.append(onnx.helper.make_opsetid("own", 1))
    model.functions.append(onnx.parser.parse_function('<opset_import: ["": 19], domain: "own"> f (u) => (w) { v = Identity (u) w = Relu (v) }'))
    model.graph.node[-1].CopyFrom(onnx.helper.make_node("f", ["c"], ["y"], domain="own"))
    onnx.save(model, source)
    weir("run", source, tmp_path / "imported.onnx", "--pass", "import-qonnx")
    apart = verification(weir, "run", tmp_path / "imported.onnx", tmp_path / "two.onnx", "--pass", "tidy", "--verify")
    at_once = verification(weir, "run", source, tmp_path / "one.onnx", *words_of("import-qonnx", "tidy"), "--verify")
    assert at_once["passed"] == apart["passed"] == len(at_once["rows"]) > 0
    assert [row["name"] for row in at_once["rows"]] == [row["name"] for row in apart["rows"]]


def test_a_wrong_pass_after_the_import_is_found_and_named(weir, quant, tmp_path):
    source = quant("qonnx.custom_op.general")
    (tmp_path / "wrong.rules").write_text("wrong/Relu exact : Relu(x) -> Neg(x) ;\n")
    words = ["--pass", "import-qonnx", "--rules", tmp_path / "wrong.rules", *words_of("wrong", "tidy")]
    for scope in ("sites", "model"):
        said = weir("run", source, tmp_path / "o.onnx", *words, f"--verify={scope}", code=1).err
        assert "verification failed" in said and ("wrong/Relu)" in said) == (scope == "sites")
    assert not (tmp_path / "o.onnx").exists()


def test_the_import_alone_is_not_called_verified(weir, quant, tmp_path):
    source = quant("qonnx.custom_op.general")
    for words in (["import-qonnx"], ["import-qonnx", "infer"], ["infer", "import-qonnx"]):
        said = weir("run", source, tmp_path / "o.onnx", *words_of(*words), "--verify", code=1).err
        assert "nothing could be verified: no runtime has Quant of qonnx.custom_op.general, and only import-qonnx changes" in said
    assert not (tmp_path / "o.onnx").exists()
    # Where it does not come first there is nothing to compare with, and the error says how to go on.
    said = weir("run", source, tmp_path / "o.onnx", *words_of("tidy", "import-qonnx"), "--verify=model", code=1).err
    assert "is not a registered function/op" in said and "make import-qonnx the first pass" in said


def test_bodies_and_the_domain_of_functions(weir, quant, tmp_path):
    """Nothing is left in the folder for temporary files."""
    for domain, before in (("qonnx.custom_op.general", "import-qonnx"), ("onnx_passes.ops", "inject-ops")):
        source, out, temporary = quant(domain), tmp_path / f"{before}.onnx", tmp_path / before
        temporary.mkdir()
        words = [*words_of(before, "tidy"), "--verify=all"]
        said = weir("run", source, out, *words, env={"TMPDIR": os.fspath(temporary)}).out
        assert f"against the model after {before} (no runtime has Quant of {domain})" in said and "(100.0 %)" in said
        assert f"against the model after {before} " in weir("verify", source, out, env={"TMPDIR": os.fspath(temporary)}).out
        assert list(temporary.iterdir()) == []


def test_a_source_with_functions_of_its_own_runs(weir, quant, tmp_path):
    source = quant("qonnx.custom_op.general")
    model = onnx.load(source)
    quantizer = onnx.parser.parse_function("""
      <opset_import: ["": 19], domain: "qonnx.custom_op.general">
      Quant <signed, narrow, rounding_mode> (v, s, z, n) => (w) { d = Div (v, s) r = Round (d) w = Mul (r, s) }""")
    model.functions.append(quantizer)
    onnx.save(model, source)
    said = weir("run", source, tmp_path / "o.onnx", *words_of("tidy"), "--verify").out
    assert "(100.0 %)" in said and "against" not in said


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
