"""weir preprocess: the contract of onnxruntime's quant_pre_process, and what comes after it.

Its quantizers take what comes out without their warning, and quantize at least as many nodes as after their own.
"""

import collections
import inspect
import json
import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process

import make_encoder
import peaks
import shape_oracle
from conftest import ALL, DATA, copy_model, package_models, program

pytestmark = pytest.mark.in_memory

EXPORTS = DATA / "exports"
BERT = EXPORTS / "bert-eager-torchscript-17.onnx"
CNN = EXPORTS / "cnn-kept-torchscript-17.onnx"
MIB = 1 << 20


def key_of(model):
    return {each.key: each.value for each in model.metadata_props}.get("onnx.quant.pre_process")


def operators(path):
    return collections.Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)


# ---- shapes stay true, results stay the same


MODELS = [*sorted(EXPORTS.glob("*.onnx")), *sorted(DATA.glob("parakeet-*/encoder-model.onnx"))]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shapes_are_true(path):
    report = shape_oracle.check(path, f"{program('WEIR')} preprocess IN OUT --quiet")
    assert (report.error, report.wrong, report.dtype_wrong) == ("", [], [])
    assert (report.fresh, report.unknown) == ([], [])
    assert report.right + len(report.gone) == report.values


@pytest.mark.parametrize("package", ["rapidocr", "silero_vad", "magika"])
def test_models_of_packages(weir, tmp_path, package):
    """No shape is wrong, and the runtime gives the same numbers as before, without its own optimizations."""
    for path in package_models(package):
        report = shape_oracle.check(path, f"{program('WEIR')} preprocess IN OUT --quiet")
        assert (report.error, report.wrong, report.dtype_wrong) == ("", [], []), path.name
        out = tmp_path / path.name
        weir("preprocess", path, out)
        assert key_of(onnx.load(out)) == "onnxruntime.quant"
        assert is_same(path, out), path.name


def is_same(before, after):
    model = onnx.load(before)
    [binding, *_] = shape_oracle.bindings_for(Path(before).resolve(), model)
    inputs = shape_oracle.inputs_at(model, binding)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    results = []
    for path in (before, after):
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        fed = {each.name: inputs[each.name] for each in session.get_inputs()}
        results.append(session.run(None, fed))
    for one, other in zip(*results, strict=True):
        if one.dtype.kind == "f":
            bound = 1e-4 * max(1e-6, np.abs(one).max(initial=0))
            if not np.allclose(one, other, rtol=0, atol=bound, equal_nan=True):
                return False
        elif not np.array_equal(one, other):
            return False
    return True


# ---- the options


@pytest.mark.parametrize("bits", range(8))
def test_what_can_be_skipped(weir, tmp_path, bits):
    """Any of the three; the key is always set, and there is always an output."""
    skips = [name for n, name in enumerate(("optimization", "onnx-shape", "symbolic-shape")) if bits >> n & 1]
    out = tmp_path / "out.onnx"
    weir("preprocess", BERT, out, *(f"--skip-{name}" for name in skips))
    before, after = onnx.load(BERT), onnx.load(out)
    assert key_of(before) is None and key_of(after) == "onnxruntime.quant"
    assert (len(after.graph.node) < len(before.graph.node)) == ("optimization" not in skips)
    inferred = not {"onnx-shape", "symbolic-shape"} <= {*skips}
    known = {value.name for value in after.graph.value_info}
    made = {name for node in after.graph.node[:-1] for name in node.output if name not in {each.name for each in after.graph.output}}
    assert (made <= known) == inferred


def test_other_options(weir, tmp_path):
    out = tmp_path / "out.onnx"
    assert "--auto-merge has no effect" in weir("preprocess", BERT, out, "--auto-merge").err
    plain = out.read_bytes()
    weir("preprocess", BERT, out, "--force", "--int-max", "2147483647", "--verbose", "3", "--strict")
    assert out.read_bytes() == plain
    weir("preprocess", BERT, out, "--force", "--opset", "21")
    assert onnx.load(out).opset_import[0].version == 21
    weir("preprocess", BERT, tmp_path / "n.onnx", "--verbose", "loud", code=2)
    weir("preprocess", BERT, tmp_path / "n.onnx", "--int-max", "0", code=2)
    assert "has no input 'z'" in weir("preprocess", BERT, tmp_path / "n.onnx", "--set-shape", "z=1", code=2).err
    assert not (tmp_path / "n.onnx").exists()


def save_unknown(path):
    """An If whose branches give different ranks, by a condition that only the run knows, and 30 nodes that follow."""
    rest = " ".join(f"r{i + 1} = Sin(r{i})" for i in range(30))
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (bool c, float[n,3] x) => (float y) {{
            i = Identity(x)  three = Constant<value_ints = [3]>()  e = Size(three)  k = Cast<to = 1>(e)
            r0 = If(c) <then_branch = t () => (float a) {{ a = Neg(i) }}, else_branch = o () => (float b) {{ b = ReduceMax<keepdims = 0>(i) }}>
            {rest} s = Add(r30, k)  y = Mul(s, s)
        }}""")
    for value in [*model.graph.output, *(each.g.output[0] for node in model.graph.node for each in node.attribute if each.name.endswith("branch"))]:
        value.type.tensor_type.ClearField("shape")
    onnx.save(model, path)


def test_what_stays_without_a_shape(weir, tmp_path):
    """No error, unless it is asked for; the nodes are named."""
    model = tmp_path / "in.onnx"
    save_unknown(model)
    quiet = weir("preprocess", model, tmp_path / "a.onnx").err
    few = weir("preprocess", model, tmp_path / "a.onnx", "--force", "--verbose", "1").err
    many = weir("preprocess", model, tmp_path / "a.onnx", "--force", "--verbose", "3").err
    assert [text.count("no known shape for") for text in (quiet, few, many)] == [0, 20, 33]
    done = weir("preprocess", model, tmp_path / "b.onnx", "--strict", code=1)
    assert "no known shape" in done.err and not (tmp_path / "b.onnx").exists()


def test_nothing_beside_the_output(weir, tmp_path):
    """No temporary file in the working folder, no data file of a random name, no output after an error."""
    source = tmp_path / "source" / "encoder-model.onnx"
    shutil.copytree(DATA / "parakeet-dynamo", source.parent)
    work = tmp_path / "work"
    work.mkdir()
    weir("preprocess", source, work / "out.onnx", "--data-file", "weights.bin", cwd=work)
    assert sorted(path.name for path in work.iterdir()) == ["out.onnx", "out.onnx.manifest.json", "weights.bin"]
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(source.read_bytes()[:-7])
    weir("preprocess", broken, work / "broken-out.onnx", code=65, cwd=work)
    weir("preprocess", tmp_path / "nothere.onnx", work / "broken-out.onnx", code=66, cwd=work)
    assert len(list(work.iterdir())) == 3


def test_the_mark_alone(weir, tmp_path):
    weir("run", BERT, tmp_path / "out.onnx", "--pass", "mark-preprocessed")
    before, after = onnx.load(BERT), onnx.load(tmp_path / "out.onnx")
    assert key_of(after) == "onnxruntime.quant"
    del after.metadata_props[:], before.metadata_props[:]
    assert before.SerializeToString(deterministic=True) == after.SerializeToString(deterministic=True)


# ---- the contract of quant_pre_process, line by line, with what it does itself as the control arm

# Its parameters, by name: the option that does the same. None: where the data lies is said by our layout options.
OPTIONS = {"skip_optimization": "--skip-optimization", "skip_onnx_shape": "--skip-onnx-shape", "skip_symbolic_shape": "--skip-symbolic-shape",
           "auto_merge": "--auto-merge", "int_max": "--int-max", "guess_output_rank": "--guess-output-rank", "verbose": "--verbose",
           "save_as_external_data": "--external", "all_tensors_to_one_file": "--external", "external_data_location": "--data-file",
           "external_data_size_threshold": None}  # fmt: skip


def test_every_parameter_has_its_option(weir):
    parameters = {name: each for name, each in inspect.signature(quant_pre_process).parameters.items() if each.kind != each.VAR_KEYWORD}
    assert [parameters.pop(name).name for name in ("input_model", "output_model_path")]
    assert {*parameters} == {*OPTIONS}
    text = " ".join(weir("preprocess", "--help").out.split())
    assert not [option for option in OPTIONS.values() if option and f" {option} " not in text]
    assert f"default: {parameters['int_max'].default})" in text and f"default: {parameters['verbose'].default})" in text
    # Theirs takes any text after a flag, "False" too, for true.
    assert "unexpected argument 'False'" in weir("preprocess", BERT, "out.onnx", "--skip-optimization", "False", code=2).err


def theirs(tmp_path, *words):
    """Their program, in a folder of its own: what it returns, and the files that are there then."""
    work = tmp_path / "theirs"
    work.mkdir()
    command = [sys.executable, "-m", "onnxruntime.quantization.preprocess", *map(str, words)]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    return done, {path.name for path in work.iterdir()}


def test_an_output_or_an_exit_code(weir, tmp_path):
    """With all three skips theirs prints an error, exits with 0 and writes nothing."""
    skips = ("optimization", "onnx-shape", "symbolic-shape")
    done, files = theirs(tmp_path, "--input", CNN, "--output", "out.onnx", *(word for name in skips for word in (f"--skip_{name.replace('-', '_')}", "1")))
    assert done.returncode == 0 and "out.onnx" not in files
    weir("preprocess", CNN, tmp_path / "out.onnx", *(f"--skip-{name}" for name in skips))
    assert key_of(onnx.load(tmp_path / "out.onnx"))


def test_inference_that_theirs_cannot_do(weir, tmp_path):
    """Min(128, seq) against seq: theirs raises, and leaves a model in the working folder."""
    done, files = theirs(tmp_path, "--input", BERT, "--output", "out.onnx")
    assert done.returncode != 0 and "out.onnx" not in files
    weir("preprocess", BERT, tmp_path / "out.onnx", "--strict", cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"theirs", "out.onnx", "out.onnx.manifest.json"}


def one_node(op, opset=18, dtype=onnx.TensorProto.FLOAT, domain="", initializers=(), **attributes):
    names = ["x", *(each.name for each in initializers)]
    node = onnx.helper.make_node(op, names, ["h"], domain=domain, **attributes)
    last = onnx.helper.make_node("Relu", ["h"], ["y"])
    x = onnx.helper.make_tensor_value_info("x", dtype, ["n", 2, 3, 4])
    graph = onnx.helper.make_graph([node, last], "g", [x], [onnx.helper.make_tensor_value_info("y", dtype, None)], list(initializers))
    opsets = [onnx.helper.make_opsetid("", opset), *([onnx.helper.make_opsetid(domain, 1)] if domain else [])]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def prepared_by_both(weir, tmp_path, model, *options):
    path, ours, other = tmp_path / "in.onnx", tmp_path / "ours.onnx", tmp_path / "theirs.onnx"
    onnx.save(model, path)
    weir("preprocess", path, ours, "--force", *options)
    quant_pre_process(str(path), str(other), guess_output_rank="--guess-output-rank" in options)
    return onnx.load(ours), onnx.load(other)


def test_the_opset_stays(weir, tmp_path):
    """Theirs raises opsets up to 10 to 11, and fails where there is an Upsample; ours does when asked to, by weir optimize."""
    ours, other = prepared_by_both(weir, tmp_path, one_node("Neg", 7))
    assert (ours.opset_import[0].version, other.opset_import[0].version) == (7, 11)
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    onnx.save(one_node("Upsample", 9, initializers=[scales]), tmp_path / "in.onnx")
    weir("preprocess", tmp_path / "in.onnx", tmp_path / "ours.onnx", "--force")
    ours = onnx.load(tmp_path / "ours.onnx")
    assert (ours.opset_import[0].version, ours.graph.node[0].op_type) == (9, "Upsample")
    with pytest.raises(RuntimeError, match="Resize"):
        quant_pre_process(str(tmp_path / "in.onnx"), str(tmp_path / "theirs.onnx"))
    weir("optimize", tmp_path / "in.onnx", tmp_path / "raised.onnx", "--opset", "11")
    raised = onnx.load(tmp_path / "raised.onnx")
    assert (raised.opset_import[0].version, raised.graph.node[0].op_type) == (11, "Resize")
    assert is_same(tmp_path / "in.onnx", tmp_path / "raised.onnx")


def test_operators_stay_what_they_are(weir, tmp_path):
    """Theirs inlines functions that the CPU has no kernel for, and puts Casts around float16."""
    ours, other = prepared_by_both(weir, tmp_path, one_node("HardSwish"))
    assert [node.op_type for node in ours.graph.node] == ["HardSwish", "Relu"] != [node.op_type for node in other.graph.node]
    ours, other = prepared_by_both(weir, tmp_path, one_node("Sin", dtype=onnx.TensorProto.FLOAT16))
    assert [node.op_type for node in ours.graph.node] == ["Sin", "Relu"]
    assert "Cast" in {node.op_type for node in other.graph.node}


def test_the_rank_of_an_unknown_operator(weir, tmp_path):
    onnx.save(one_node("Mystery", domain="own.domain"), tmp_path / "in.onnx")
    known = {}
    for options in ((), ("--guess-output-rank",)):
        weir("preprocess", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force", *options)
        [h] = [value for value in onnx.load(tmp_path / "out.onnx").graph.value_info if value.name == "h"] or [None]
        known[options] = h and (h.type.tensor_type.elem_type, len(h.type.tensor_type.shape.dim))
    assert known == {(): None, ("--guess-output-rank",): (onnx.TensorProto.FLOAT, 4)}


def test_external_data_without_being_asked(weir, tmp_path):
    """Theirs wants to be told that a model is external, and gives its data a random name."""
    source, work = tmp_path / "source" / "encoder-model.onnx", tmp_path / "work"
    shutil.copytree(DATA / "parakeet-dynamo", source.parent)
    work.mkdir()
    weir("preprocess", source, work / "out.onnx", cwd=work)
    assert sorted(path.name for path in work.iterdir()) == ["out.onnx", "out.onnx.data", "out.onnx.manifest.json"]
    with pytest.raises(Exception, match="."):
        quant_pre_process(str(source), str(work / "theirs.onnx"), skip_symbolic_shape=True)
    quant_pre_process(str(source), str(work / "theirs.onnx"), skip_symbolic_shape=True, save_as_external_data=True, all_tensors_to_one_file=True)
    [random] = {path.name for path in work.iterdir()} - {"out.onnx", "out.onnx.data", "out.onnx.manifest.json", "theirs.onnx"}
    assert len(random) > 30


# ---- what quantizes it next


@pytest.fixture(scope="module", params=[BERT, CNN, EXPORTS / "gpt2-sdpa-torchscript-14.onnx"], ids=lambda path: path.stem)
def prepared(request):
    """(a model, as weir prepares it, as quant_pre_process does)"""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours.onnx"), Path(folder, "theirs.onnx")
        done = peaks.run([program("WEIR"), "preprocess", request.param, ours])
        assert done.code == 0, done.err
        quant_pre_process(str(request.param), str(theirs), skip_symbolic_shape=True)
        yield request.param, ours, theirs


class OneInput(CalibrationDataReader):
    def __init__(self, path):
        model = onnx.load(path)
        bindings = shape_oracle.bindings_for(Path(path).resolve(), model)
        self.left = [shape_oracle.inputs_at(model, bindings[0])]

    def get_next(self):
        return self.left.pop() if self.left else None


WARNING = "run pre-processing before quantization"


def test_static(prepared, tmp_path, caplog):
    source, *ready = prepared
    counts = []
    for number, path in enumerate(ready):
        with caplog.at_level(logging.WARNING):
            quantize_static(str(path), str(tmp_path / f"{number}.onnx"), OneInput(source))
        assert WARNING not in caplog.text
        found = onnx.load(tmp_path / f"{number}.onnx")
        made = {name: node.op_type for node in found.graph.node for name in node.output}
        counts.append(sum(node.op_type in ("MatMul", "Gemm", "Conv") and all(made.get(name) == "DequantizeLinear" for name in node.input[:2]) for node in found.graph.node))
    assert counts[0] >= counts[1] > 0, counts


def test_the_warning_is_there_without_it(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        quantize_dynamic(str(copy_model(CNN, tmp_path / "in")), str(tmp_path / "out.onnx"))
    assert WARNING in caplog.text


def test_dynamic(prepared, tmp_path, caplog):
    _, *ready = prepared
    counts = []
    for number, path in enumerate(ready):
        with caplog.at_level(logging.WARNING):
            quantize_dynamic(str(path), str(tmp_path / f"{number}.onnx"))
        assert WARNING not in caplog.text
        found = operators(tmp_path / f"{number}.onnx")
        counts.append(found["MatMulInteger"] + found["ConvInteger"])
        ort.InferenceSession(str(tmp_path / f"{number}.onnx"), providers=["CPUExecutionProvider"])
    assert counts[0] >= counts[1] > 0, counts


def test_blocks(prepared, tmp_path):
    source, *ready = prepared
    counts = []
    for path in ready:
        quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=16)
        quantizer.process()
        counts.append(sum(node.op_type == "MatMulNBits" for node in quantizer.model.model.graph.node))
    assert counts[0] >= counts[1], counts
    assert counts[0] > 0 or source == CNN


def test_nodes_and_shapes_in_the_last_lines(weir, tmp_path):
    """How many nodes there were and are; what has no shape in the end, not what had none on the way."""
    model = tmp_path / "in.onnx"
    save_unknown(model)
    lines = weir("preprocess", model, tmp_path / "out.onnx").out.splitlines()

    def count(graph):
        graphs = [each.g for node in graph.node for each in node.attribute if each.type == onnx.AttributeProto.GRAPH]
        return len(graph.node) + sum(map(count, graphs))

    before, after = (count(onnx.load(path).graph) for path in (model, tmp_path / "out.onnx"))
    assert f" of memory: {before} -> {after} nodes (" in lines[0]
    [unknown] = [line for line in lines if line.startswith("  no shape  ")]
    [again] = [line for line in weir("infer", tmp_path / "out.onnx", tmp_path / "again.onnx").out.splitlines() if line.startswith("  no shape  ")]
    assert sorted(unknown.replace(",", "").split()) == sorted(again.replace(",", "").split()) and not [line for line in lines if line.startswith("  kept ")]
    skipped = ("--skip-optimization", "--skip-onnx-shape", "--skip-symbolic-shape")
    assert weir("preprocess", model, tmp_path / "mark.onnx", *skipped).out.splitlines()[0].endswith(": marked as preprocessed")


# ---- large models


@pytest.fixture(scope="module")
def sparse_encoder(large_folder):
    """2.4 GB, nearly all of it holes."""
    folder = large_folder / "sparse"
    folder.mkdir()
    make_encoder.make_encoder(folder / "encoder-model.onnx", make_encoder.Shape(), size=2_400_000_000, sparse=True)
    yield folder / "encoder-model.onnx"
    shutil.rmtree(folder)


def peak_of(command, source, io, tmp_path, limits=None):
    report = tmp_path / f"{io}.json"
    words = [program("WEIR"), *command, source, "-o", source.with_name("out.onnx"), "--io", io, "--report-json", report]
    report.unlink(missing_ok=True)
    done = peaks.run(words, timeout=300, limits=limits)
    return done, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.parametrize("command", [("preprocess",), pytest.param(("optimize",), marks=pytest.mark.long), ("optimize", "--opset", "23")], ids=" ".join)
def test_memory(sparse_encoder, tmp_path, command):
    """2.4 GB: within 64 MiB and the index."""
    done, said = peak_of(command, sparse_encoder, "null", tmp_path)
    assert done.code == 0, done.err
    assert done.peak_bytes <= 64 * MIB + said["weir"]["index_bytes"], (done.peak_bytes, said["weir"])


def test_memory_control(large_folder, tmp_path):
    """A run that reads everything first takes what the model has, of which a sixth is enough: the bound can fail."""
    path = large_folder / "sixth" / "encoder-model.onnx"
    path.parent.mkdir()
    make_encoder.make_encoder(path, make_encoder.Shape(), size=400_000_000, sparse=True)
    done, said = peak_of(("preprocess",), path, "load", tmp_path)
    shutil.rmtree(path.parent)
    assert done.peak_bytes > max(300 * MIB, 64 * MIB + said["weir"]["index_bytes"])


@pytest.mark.parametrize("command", ["preprocess", "optimize"] if ALL else ["preprocess"])
def test_memory_under_a_limit(sparse_encoder, tmp_path, command):
    """With 64 MiB of data and no more; who reads everything first ends there."""
    limits = {"data": 64 * MIB}
    done, _ = peak_of((command, "--force"), sparse_encoder, "null", tmp_path, limits)
    assert done.code == 0, done.err
    control, said = peak_of((command, "--force"), sparse_encoder, "load", tmp_path, limits)
    assert control.code != 0 and said == {}, "the control arm lives under the limit"
