"""Pipelines: passes named in words, in a file or as a command make the same bytes, and their log replays."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compare
from conftest import DATA

BERT = DATA / "exports" / "bert-sdpa-torchscript-14.onnx"
SOURCE = DATA / "parakeet-dynamo" / "encoder-model.onnx"
FLAT_CONFIG = "passes:\n  - conv2matmul:\n      extended_conv1x1: true\n      form: flat\n"


def folder(path):
    path.mkdir()
    return path / "out.onnx"


def test_config_words_and_command_make_the_same_files(weir, tmp_path):
    """Model, data, manifest (plan id, options) and edit log, byte for byte."""
    config = tmp_path / "p.yaml"
    config.write_text(FLAT_CONFIG)
    command, words, file = (folder(tmp_path / name) for name in ("command", "words", "file"))
    log = lambda out: ["--edit-log", out.parent / "edits.jsonl"]
    weir("conv2matmul", SOURCE, command, "--extended-conv1x1", "--form", "flat", *log(command))
    weir("run", SOURCE, words, "--pass", "conv2matmul:form=flat,extended_conv1x1", *log(words))
    weir("run", SOURCE, file, "--config", config, *log(file))
    assert compare.folder_bytes(command.parent) == compare.folder_bytes(words.parent)
    assert compare.folder_bytes(command.parent) == compare.folder_bytes(file.parent)
    batched = folder(tmp_path / "batched")  # the control: another option, another model
    weir("run", SOURCE, batched, "--pass", "conv2matmul:form=batched", *log(batched))
    assert compare.folder_bytes(command.parent) != compare.folder_bytes(batched.parent)


def test_replay_of_two_passes(weir, tmp_path):
    """The first leaves strided and padded convolutions, the second takes them; one log holds both."""
    out, again = folder(tmp_path / "first"), folder(tmp_path / "second")
    log, log_again = tmp_path / "edits.jsonl", tmp_path / "again.jsonl"
    passes = ["--pass", "conv2matmul:form=flat", "--pass", "conv2matmul:extended_conv1x1=true"]
    report = weir("run", SOURCE, out, *passes, "--edit-log", log, "--json").json()
    weir("replay", log, SOURCE, again, "--edit-log", log_again)
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(again.parent)
    assert log.read_bytes() == log_again.read_bytes()
    head = json.loads(log.read_text().splitlines()[0])
    assert head["command"] == "run"
    assert [step["name"] for step in head["options"]["passes"]] == ["conv2matmul", "conv2matmul"]
    recorded = json.loads((out.parent / "out.onnx.manifest.json").read_text())["predicate"]["x_weir"]["passes"]
    assert recorded == head["options"]["passes"]
    assert [step["options"] for step in report["passes"]] == [step["options"] for step in recorded]


def test_report_says_what_each_step_did(weir, tmp_path):
    out = folder(tmp_path / "out")
    said = weir("run", SOURCE, out, "--pass", "conv2matmul", "--pass", "conv2matmul", "--report-json", tmp_path / "r")
    first, second = json.loads((tmp_path / "r").read_text())["passes"]
    assert first["converted"] == 6 and second["converted"] == 0
    assert first["skipped"] == second["skipped"] == len(second["nodes"])
    converted = [node for node in first["nodes"] if node["status"] == "converted"]
    assert len(converted) == 6 and all(node["tensor"] for node in converted)
    assert said.out.splitlines()[0].endswith(" of memory: 6 Conv rewritten as MatMul")


def test_the_closing_line_begins_with_sizes_and_has_the_words_of_the_user(weir, tmp_path):
    """What was asked for by one word is one item, by the pass if it was one alone; many passes are counted, and have lines."""
    size = r"[\d.]+ kB -> [\d.]+ kB \([\d.]+ %\) in [\d.]+ s, [\d.]+ MB of memory: "
    said = weir("run", BERT, tmp_path / "a.onnx", "--pass", "tidy", "--pass", "quantize").out
    assert re.match(size + r"\d\d+ changes by tidy, \d+ weights quantized to 4 bits in blocks of 128\n", said), said
    said = weir("run", SOURCE, tmp_path / "b.onnx", "--pass", "tidy", "--pass", "conv2matmul", "--pass", "fuse", "--pass", "cast:to=float16").out
    assert re.match(size + r"6 Conv rewritten as MatMul, \d+ weights cast to float16\n", said), said
    said = weir("run", BERT, tmp_path / "c.onnx", "--pass", "streamline").out
    head, *lines = said.split("\n")  # of many passes
    changes, passes, steps = map(int, re.match(size + r"(\d+) changes by (\d+) passes \(of (\d+) steps\)$", head).groups())
    lines = [line for line in lines if re.match(r" +\d+  \S", line)]
    assert len(lines) == passes < steps and sum(int(line.split()[0]) for line in lines) == changes
    # What is too long for a line has one each: first what a pass of its own was asked for, then the sets.
    words = ["--pass", "tidy", "--pass", "quantize:symmetric=true,block_size=32,op_types=MatMul+Gather", "--pass", "unique-names"]
    said = weir("run", BERT, tmp_path / "e.onnx", *words, "--report-html", tmp_path / "r.html", "--report-json", tmp_path / "r.json").out
    head, *lines = said.splitlines()
    assert re.match(size + r"\d+ changes by unique-names$", head) and len(head) < 120, said
    assert re.match(r"  \d+ weights quantized \(.*symmetric.*\)$", lines[0]) and re.match(r"  \d+ changes by tidy$", lines[1]), said
    assert re.search(r"<p class=\"did\">\d+ changes by unique-names<br>\d+ weights quantized .*<br>\d+ changes by tidy</p>", (tmp_path / "r.html").read_text())
    assert [line.strip() for line in json.loads((tmp_path / "r.json").read_text())["weir"]["summary"][1:3]] == [line.strip() for line in lines[:2]]
    said = weir("run", tmp_path / "c.onnx", tmp_path / "d.onnx", "--pass", "cleanup").out
    assert " changes by unique-names" in said or "nothing changed" in said, said


def test_dry_run_writes_nothing(weir, tmp_path):
    config = tmp_path / "p.yaml"
    config.write_text(FLAT_CONFIG)
    before = compare.folder_bytes(tmp_path)
    said = weir("run", SOURCE, "--config", config, "--dry-run", "--json").json()
    assert said["passes"][0]["converted"] > 0 and said["weir"]["dry_run"] is True
    assert compare.folder_bytes(tmp_path) == before


@pytest.mark.parametrize(
    "text, place",
    [
        ("passes:\n  - conv2matmul\n  - nothing\n", "p.yaml:3:5: pass 'nothing' does not exist"),
        ("passes:\n  - conv2matmul:\n      form: [flat]\n", "p.yaml:3:13:"),
        ("passes:\n  - *x\n", "p.yaml:2:5:"),
    ],
)
def test_bad_config_is_refused_before_the_model_is_opened(weir, tmp_path, text, place):
    (tmp_path / "p.yaml").write_text(text)
    done = weir("run", tmp_path / "missing.onnx", tmp_path / "out.onnx", "--config", tmp_path / "p.yaml", code=2)
    assert place in done.err


def test_two_kinds_of_passes_in_one_go(weir, tmp_path):
    """Convolutions become MatMul and then 4 bit codes, from one log again; alone fewer weights are quantized."""
    out, again, alone = (folder(tmp_path / name) for name in ("both", "again", "alone"))
    log = tmp_path / "edits.jsonl"
    words = ["--pass", "conv2matmul", "--pass", "quantize:bits=4,block_size=32,symmetric=false"]
    report = weir("run", SOURCE, out, *words, "--edit-log", log, "--json").json()
    weir("replay", log, SOURCE, again)
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(again.parent)
    weir("quantize", SOURCE, alone, "--block-size", "32")
    converted, quantized = report["passes"]
    assert converted["converted"] == 6 and quantized["name"] == "quantize"
    count = lambda path: sum(node.op_type == "MatMulNBits" for node in onnx.load(path, load_external_data=False).graph.node)
    assert count(out) == quantized["converted"] == count(alone) + 6
    groups = [json.loads(line)["pass"] for line in log.read_text().splitlines() if '"edit":"group"' in line]
    assert groups == sorted(groups) and set(groups) == {"conv2matmul", "quantize"}


def test_lists_are_recorded_alike(weir, tmp_path):
    """Candidates joined by commas, given one by one, as words of --pass, and as a list of a file: one log, one plan."""
    (tmp_path / "p.yaml").write_text("passes:\n- quantize:\n    candidates: ['4:64', '8:128']\n    budget: 600K\n")
    ways = {
        "joined": ["quantize", "--budget", "600K", "--candidates", "4:64,8:128"],
        "apart": ["quantize", "--candidates", "4:64", "--candidates", "8:128", "--budget", "600K"],
        "words": ["run", "--pass", "quantize:budget=600K,candidates=4:64+8:128"],
        "file": ["run", "--config", tmp_path / "p.yaml"],
    }
    made = {}
    for name, words in ways.items():
        out = folder(tmp_path / name)
        records = ["--edit-log", out.with_suffix(".jsonl"), "--plan-out", out.with_suffix(".plan")]
        weir(words[0], SOURCE, out, *words[1:], *records)
        made[name] = compare.folder_bytes(out.parent)
    assert all(files == made["joined"] for files in made.values())
    assert b'"candidates":["4:64","8:128"]' in (tmp_path / "joined" / "out.jsonl").read_bytes()


@pytest.mark.parametrize("words", [
    ["run", "--pass", "matmulnbits:block_size=32"],
    ["run", "--config", "yaml"],
    ["run", "--config", "json"],
], ids=["words", "yaml", "json"])  # fmt: skip
def test_the_older_name_of_quantize_means_the_same(weir, tmp_path, words):
    """The same files, log and plan as of the command, whichever name was given."""
    (tmp_path / "yaml").write_text("passes:\n- matmulnbits:\n    block_size: 32\n")
    (tmp_path / "json").write_text('{"passes": [{"matmulnbits": {"block_size": "32"}}]}')
    words = [tmp_path / word if word in ("yaml", "json") else word for word in words]
    made = []
    for name, line in (("old", words), ("new", ["quantize", "--block-size", "32"])):
        out = folder(tmp_path / name)
        records = ["--edit-log", out.with_suffix(".jsonl"), "--plan-out", out.with_suffix(".plan")]
        done = weir(line[0], SOURCE, out, *line[1:], *records)
        assert ": 19 weights quantized to 4 bits in blocks of 32\n" in done.out
        made.append(compare.folder_bytes(out.parent))
    assert made[0] == made[1] and b'"command":"quantize"' in (tmp_path / "new" / "out.jsonl").read_bytes()


GATED = "quantize:gate=sqnr=60dB,gate_action=skip", "quantize:gate=sqnr=15dB,gate_action=skip"


@pytest.mark.parametrize("passes", [GATED, ["shrink:per_channel=true,form=dequantize"] * 2], ids=["gate", "shrink"])
def test_two_passes_that_look_at_the_same_weights(weir, tmp_path, passes):
    """The second has the answer of the first: the run does not take itself for another one. Dry runs say the same."""
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 256]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "mm")], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.save(model, tmp_path / "in.onnx")
    out, again = (folder(tmp_path / name) for name in ("out", "again"))
    words = ["run", tmp_path / "in.onnx", out, *(word for text in passes for word in ("--pass", text))]
    dry = weir.report(*words, "--dry-run")
    report = weir.report(*words, "--edit-log", tmp_path / "log")
    assert [step["converted"] for step in report["passes"]] == [step["converted"] for step in dry["passes"]]
    assert [step["converted"] for step in report["passes"]] == ([0, 1] if passes is GATED else [0, 0])
    weir("replay", tmp_path / "log", tmp_path / "in.onnx", again)
    assert out.read_bytes() == again.read_bytes()


def test_tensors_are_listed_with_their_sizes(weir, tmp_path):
    out = folder(tmp_path / "out")
    report = weir("quantize", SOURCE, out, "--block-size", "32", "--json").json()
    [step] = report["passes"]
    assert len({tensor["name"] for tensor in step["tensors"]}) == len(step["tensors"]) > 0
    sizes = {t.name: len(t.raw_data) for t in onnx.load(out).graph.initializer}
    for tensor in step["tensors"]:
        rows, columns = tensor["dims"]
        assert tensor["bytes_before"] == 4 * rows * columns
        parts = sum(size for name, size in sizes.items() if name.startswith(tensor["name"] + "_"))
        assert tensor["bytes_after"] == parts, tensor["name"]
        assert tensor["scheme"] == {"bits": 4, "block": 32, "format": "nbits", "symmetric": False}
    dry = weir("quantize", SOURCE, tmp_path / "no.onnx", "--block-size", "32", "--dry-run", "--json").json()
    strip = lambda step: [{**tensor, "error": None} for tensor in step["tensors"]]
    assert strip(dry["passes"][0]) == strip(step)


def decoded(initializers, name, rows, columns):
    """The weights [K, N] that 4 bit codes, scales and zero points of MatMulNBits stand for."""
    parts = {key.removeprefix(f"{name}_"): numpy_helper.to_array(t) for key, t in initializers.items() if key.startswith(name + "_")}
    codes = next(part for key, part in parts.items() if part.ndim == 3)
    scales = next(part for key, part in parts.items() if "scale" in key).reshape(columns, -1, 1)
    zeros = next(part for key, part in parts.items() if part.dtype == np.uint8 and part.ndim < 3).reshape(columns, -1)
    unpack = lambda packed: np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1).astype(np.float32)
    blocks = (unpack(codes) - unpack(zeros)[:, : scales.shape[1], None]) * scales.astype(np.float32)
    return blocks.reshape(columns, -1)[:, :rows].T


def test_scales_that_are_cast_are_tensors_of_their_own(weir, tmp_path):
    weight = numpy_helper.from_array(np.random.default_rng(8).normal(size=(64, 300)).astype(np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 64), ("y", 300)))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "fc")], "g", [x], [y], [weight])
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), source)
    report = weir.report("run", source, out, "--pass", "quantize:format=qdq,block_size=32", "--pass", "cast:to=float16")
    [scales] = report["passes"][1]["tensors"]
    assert (scales["name"], scales["dtype"], scales["stored_as"]) == ("w_DQ_scales", "float", "float16")
    assert scales["dims"] == [2, 300] and scales["bytes_before"] == 2400 and scales["bytes_after"] == 1200


def test_error_figures_are_those_of_numpy(weir, tmp_path):
    """Against the weights that the written codes stand for; and the closing line names the worst."""
    out = folder(tmp_path / "out")
    done = weir("quantize", SOURCE, out, "--block-size", "32", "--report-json", tmp_path / "r")
    tensors = json.loads((tmp_path / "r").read_text())["passes"][0]["tensors"]
    before = {t.name: t for t in onnx.load(SOURCE).graph.initializer}
    after = {t.name: t for t in onnx.load(out).graph.initializer}
    for tensor in tensors:
        weight = numpy_helper.to_array(before[tensor["name"]]).astype(np.float64)
        error = weight - decoded(after, tensor["name"], *weight.shape)
        changed = weight - error
        figures = tensor["error"]
        assert figures["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
        assert figures["max_abs"] == pytest.approx(np.abs(error).max(), rel=1e-5)
        assert figures["sqnr_db"] == pytest.approx(10 * np.log10((weight**2).sum() / (error**2).sum()), abs=1e-4)
        cosine = (weight * changed).sum() / np.sqrt((weight**2).sum() * (changed**2).sum())
        assert figures["cosine"] == pytest.approx(cosine, abs=1e-7)
    worst = min(tensors, key=lambda tensor: tensor["error"]["sqnr_db"])
    [node] = [n.name for n in onnx.load(SOURCE).graph.node if worst["name"] in n.input]
    assert worst["layer"] == node
    assert f"\n  worst  {node}  {worst['error']['sqnr_db']:.1f} dB" in done.out


def test_a_model_that_grew_says_so(weir, tmp_path):
    """Where weights were quantized or cast to be smaller: by how much, and whether it is these weights. Other passes may add what they like."""
    for side in (8, 64):
        weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((side, side)).astype(np.float32), "w")
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", side]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="m")], "g", value[:1], value[1:], [weight])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / f"{side}.onnx")
    small, large, out, page = tmp_path / "8.onnx", tmp_path / "64.onnx", tmp_path / "out.onnx", tmp_path / "r.html"

    def said(*words):
        done = weir(*words, "--force").out
        lines = [line for line in done.splitlines() if line.startswith("  larger than the source by ")]
        assert bool(lines) == (out.stat().st_size > words[1].stat().st_size)
        grown = out.stat().st_size - words[1].stat().st_size
        assert not lines or lines[0].startswith(f"  larger than the source by {grown} bytes: ")
        return "".join(lines).partition(": ")[2]

    assert said("quantize", small, out, "--report-html", page) == "the converted weights grew from 256 bytes to 552 bytes"
    assert "<dt>Larger</dt><dd>than the source by " in page.read_text()
    assert said("shrink", small, "-o", out, "--min-elements", "1") == "the converted weights save 184 bytes, but the rest of the model grew by more"
    assert said("quantize", large, out) == said("shrink", large, "-o", out) == said("cast", small, out, "--to", "float16", "--min-elements", "1") == ""
    weir("quantize", small, tmp_path / "q.onnx", "--block-size", "16")
    assert "larger than" not in weir("optimize", tmp_path / "q.onnx", out, "--opset", "22", "--force").out
