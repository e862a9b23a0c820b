"""Where weights go: the layout of every writing command, several data files, OUT as a folder, the environment."""

import json
import re
import resource
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import compare
from conftest import DATA, before_record, ended
from test_convert import external_tensors, sized_model

pytestmark = pytest.mark.in_memory
KIB = 1 << 10
SOURCE = DATA / "parakeet-dynamo" / "encoder-model.onnx"

# What every writing command is called with, before its output.
COMMANDS = {
    "convert": ["convert"],
    "quantize": ["quantize", "--block-size", "32"],
    "cast": ["cast", "--to", "float16"],
    "conv2matmul": ["conv2matmul"],
    "run": ["run", "--pass", "conv2matmul", "--pass", "cast:to=float16"],
    "shrink": ["shrink"],
}


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".manifest.json"))


def chunks(out, count):
    return [f"{out.name}_data" + (f"_{number}" if number else "") for number in range(count)]


def call(weir, what, source, out, *words, code=0):
    command, *rest = COMMANDS[what]
    return weir(command, source, "-o", out, *rest, *words, code=code)


def run(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(7)
    feeds = {}
    for value in session.get_inputs():
        dims = [size if isinstance(size, int) else 3 for size in value.shape]
        feeds[value.name] = np.full(dims, 16, "int64") if "int64" in value.type else rng.random(dims, dtype="float32")
    return session.run(None, feeds)


def same_results(first, second):
    for one, other in zip(run(first), run(second), strict=True):
        assert np.array_equal(one, other, equal_nan=True)


# ---- every writing command


@pytest.mark.parametrize("what", COMMANDS)
def test_layouts_of_every_command(weir, tmp_path, what):
    """One model by the same command in all layouts: the files that are asked for, and the same meaning."""
    plain = tmp_path / "plain" / "m.onnx"
    call(weir, what, SOURCE, plain)
    assert names(plain.parent) == ["m.onnx", "m.onnx.data"]
    inline = tmp_path / "inline" / "m.onnx"
    call(weir, what, SOURCE, inline, "--inline")
    assert names(inline.parent) == ["m.onnx"]
    split = tmp_path / "split" / "m.onnx"
    call(weir, what, SOURCE, split, "--split", "150K")
    count = len(names(split.parent)) - 1
    assert count >= 2 and names(split.parent) == ["m.onnx", *chunks(split, count)]
    aligned = tmp_path / "aligned" / "m.onnx"
    call(weir, what, inline, aligned, "--external", "--align", "8K", *(["--method", "float_weights"] * (what == "shrink")))
    places = [int(compare.external_pairs(tensor)["offset"]) for tensor in external_tensors(aligned)]
    assert len(places) > 1 and all(place % (8 * KIB) == 0 for place in places)
    for out in (inline, split):
        compare.same_meaning(plain, out)
        weir("audit", out)
        weir("check", out)


@pytest.mark.parametrize("what", sorted(set(COMMANDS) - {"shrink"}))
def test_data_file_of_every_command(weir, tmp_path, what):
    call(weir, what, SOURCE, tmp_path / "m.onnx", "--data-file", "w.bin")
    assert names(tmp_path) == ["m.onnx", "w.bin"]


def test_shrink_names_no_data_file(weir, tmp_path):
    weir("shrink", SOURCE, "-o", tmp_path / "m.onnx", "--data-file", "w.bin", code=2)


def test_shrink_splits_each_model(weir, tmp_path):
    for name in ("a", "b"):
        sized_model(tmp_path / name, [2048, 4096], f"{name}.onnx")
        shutil.copy(tmp_path / name / f"{name}.onnx", tmp_path)
    weir("shrink", tmp_path / "a.onnx", tmp_path / "b.onnx", "--output-dir", tmp_path / "out", "--split", "4K")
    ends = ["", "_data", "_data_1"]
    assert names(tmp_path / "out") == [f"{name}_quantized_weights.onnx{end}" for name in "ab" for end in ends]


# ---- replay


def test_replay_repeats_the_layout(weir, tmp_path):
    """And an option of its own takes the place of what was recorded."""
    log, out = tmp_path / "log.jsonl", tmp_path / "first" / "m.onnx"
    call(weir, "cast", SOURCE, out, "--split", "100K", "--align", "128", "--edit-log", log)
    head = json.loads(log.read_text().splitlines()[0])
    assert head["layout"] == {"form": "default", "data_file": None, "align": 128, "inline_below": 1024, "split": 102400}
    weir("replay", log, SOURCE, tmp_path / "again" / "m.onnx")
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(tmp_path / "again")
    for number, words in enumerate(
        [["--inline"], ["--external"], ["--split", "64K", "--align", "128"], ["--data-file", "w", "--split", "100K", "--align", "128"]]
    ):
        asked, replayed = (tmp_path / f"{kind}{number}" / "m.onnx" for kind in ("asked", "replayed"))
        words_of_convert = [*words, "--align", "128"] if words == ["--external"] else words
        call(weir, "cast", SOURCE, asked, *words_of_convert)
        weir("replay", log, SOURCE, replayed, *words)
        assert compare.folder_bytes(asked.parent) == compare.folder_bytes(replayed.parent), words


def test_replay_of_an_inline_run(weir, tmp_path):
    log = tmp_path / "log.jsonl"
    call(weir, "cast", SOURCE, tmp_path / "m.onnx", "--inline", "--edit-log", log)
    weir("replay", log, SOURCE, tmp_path / "split" / "m.onnx", "--split", "100K")
    assert len(names(tmp_path / "split")) > 3


def test_logs_say_nothing_new_without_split(weir, tmp_path):
    log = tmp_path / "log.jsonl"
    call(weir, "cast", SOURCE, tmp_path / "m.onnx", "--edit-log", log)
    assert '"layout":{"form":"default","data_file":null,"align":0,"inline_below":1024}' in log.read_text()


@pytest.mark.parametrize("split", ["-1", '"1G"', "null"])
def test_a_log_with_an_impossible_split(weir, tmp_path, split):
    log = tmp_path / "log.jsonl"
    call(weir, "cast", SOURCE, tmp_path / "m.onnx", "--edit-log", log)
    body = log.read_text().replace('"inline_below":1024}', f'"inline_below":1024,"split":{split}}}')
    log.write_text(ended("".join(line + "\n" for line in body.splitlines()[:-1])))
    assert "has no layout" in weir("replay", log, SOURCE, tmp_path / "n.onnx", code=65).err


# ---- several data files


def test_runtimes_load_several_data_files(weir, tmp_path, small_encoder):
    for what, size in (("quantize", 150 * KIB), ("conv2matmul", 300 * KIB)):
        one, many = tmp_path / what / "one" / "m.onnx", tmp_path / what / "many" / "m.onnx"
        for out in (one, many):
            out.parent.mkdir(parents=True)
        call(weir, what, small_encoder, one)
        report = weir.report(what, small_encoder, many, "--split", str(size), *COMMANDS[what][1:])["weir"]
        count = report["data_files"]
        assert count >= 3 and names(many.parent) == ["m.onnx", *chunks(many, count)]
        assert [each["name"] for each in report["output"]] == [*chunks(many, count), "m.onnx"]
        assert all(each["size"] <= size for each in report["output"][:-1])
        same_results(one, many)
        onnx.load(many)
        onnx.checker.check_model(many)
        compare.same_meaning(one, many)


def test_what_is_read_may_be_split(weir, tmp_path):
    """A model with several data files as input: back to one."""
    first, again = tmp_path / "first" / "m.onnx", tmp_path / "again" / "m.onnx"
    weir("convert", SOURCE, first, "--split", "100K")
    weir("convert", first, again)
    compare.same_meaning(SOURCE, again)
    assert names(again.parent) == ["m.onnx", "m.onnx.data"]


@pytest.mark.parametrize("inline", [True, False])
def test_sizes_to_the_byte(weir, tmp_path, inline):
    """Tensors that fit exactly, one byte less, and a tensor as large as a file may be."""
    source = sized_model(tmp_path / "in", [4096, 4096, 4096, 5000], inline=inline)
    for size, files in [(4096 * 3 + 5000, [17288]), (4096 * 3 + 4999, [12288, 5000]), (5000, [4096] * 3 + [5000])]:
        out = tmp_path / str(size) / "m.onnx"
        weir("convert", source, out, "--split", str(size))
        assert [(out.parent / name).stat().st_size for name in chunks(out, len(files))] == files
        assert len(names(out.parent)) == len(files) + 1
        compare.same_meaning(source, out)
        same_results(source, out)
    done = weir("convert", source, tmp_path / "none" / "m.onnx", "--split", "4999", code=1)
    assert "tensor 'w3' has 5000 bytes, more than the 4999 that a data file may have" in done.err
    assert "5000 bytes for each data file are enough" in done.err and not (tmp_path / "none").exists()
    weir("convert", source, tmp_path / "none" / "m.onnx", "--split", "4999", "--dry-run", code=1)


def test_a_hundred_data_files(weir, tmp_path):
    """The limit of transformers.js; the hint's size is one that does."""
    source = sized_model(tmp_path / "in", [1024] * 101)
    done = weir("convert", source, tmp_path / "m.onnx", "--split", "1K", code=1)
    assert "101 data files; the limit is 100" in done.err
    [size] = re.findall(r"(\d+) bytes for each data file are enough", done.err)
    weir("convert", source, tmp_path / "m.onnx", "--split", size)
    same_results(source, tmp_path / "m.onnx")
    weir("convert", sized_model(tmp_path / "in", [1024] * 100), tmp_path / "n.onnx", "--split", "1K")
    assert len(list(tmp_path.glob("n.onnx_data*"))) == 100


def tensors_in_files(path):
    """{data file: names of the tensors in it}"""
    found = {}
    for tensor in external_tensors(path):
        found.setdefault(compare.external_pairs(tensor)["location"], []).append(tensor.name)
    return found


def test_a_file_for_each_tensor(weir, tmp_path):
    """Named after it, as onnx does; what is no name of a file, twice there or the model's own becomes one. Replay and rebuild repeat it."""
    numbers = np.arange(400, dtype=np.float32)
    tensors = {name: numbers + k for k, name in enumerate(["w", "layer.0/w", "layer.0:w", "..", "é", "o.onnx", "W" * 300, ".hidden"])}
    held = [onnx.numpy_helper.from_array(x, name) for name, x in tensors.items()]
    nodes = [onnx.helper.make_node("Sum", ["x", *tensors], ["y"])]
    info = [onnx.helper.make_tensor_value_info(name, 1, [400]) for name in "xy"]
    source, out = tmp_path / "in.onnx", tmp_path / "out" / "o.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", info[:1], info[1:], held), opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), source)
    said = weir("convert", source, out, "--one-file-per-tensor", "--edit-log", tmp_path / "log").out
    assert "8 data files" in said
    found = tensors_in_files(out)
    assert len(found) == 8 and found["w"] == ["w"] and found["o.onnx.5"] == ["o.onnx"]
    assert {"layer.0_w.1", "layer.0_w.2", "_.", "__", "W" * 160, "_hidden"} < set(found)
    same_results(source, out)
    assert onnx.load(out).graph.initializer[0].raw_data == numbers.tobytes()
    assert "SAME" in weir("rebuild", f"{out}.manifest.json", "--source", source).out
    weir("replay", tmp_path / "log", source, tmp_path / "again" / "o.onnx")
    assert names(tmp_path / "again") == names(out.parent)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "w").write_bytes(b"another's")
    weir("convert", source, tmp_path / "taken" / "o.onnx", "--one-file-per-tensor")
    assert (tmp_path / "taken" / "w").read_bytes() == b"another's" and len(tensors_in_files(tmp_path / "taken" / "o.onnx")) == 8
    for words in (["--split", "1MiB"], ["--data-file", "d"], ["--inline"]):
        weir("convert", source, tmp_path / "no.onnx", "--one-file-per-tensor", *words, code=2)


def test_more_files_than_a_process_may_open(weir, tmp_path):
    """The limit is raised as far as it may be; where that is too little nothing is written, and the error says the number."""
    source = tmp_path / "in.onnx"
    held = [onnx.numpy_helper.from_array(np.full(12, k, np.float32), f"w{k}") for k in range(150)]
    nodes = [onnx.helper.make_node("Sum", ["x", *(each.name for each in held)], ["y"])]
    info = [onnx.helper.make_tensor_value_info(name, 1, [12]) for name in "xy"]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", info[:1], info[1:], held), opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), source)
    words = [weir.path, "convert", source, tmp_path / "out" / "o.onnx", "--one-file-per-tensor", "--external-threshold", "1"]

    def limited(soft, hard):
        return subprocess.run(words, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))

    refused = limited(100, 100)
    assert refused.returncode == 1 and "151 files are too many: this process can have at most 100 files open" in refused.stderr and not (tmp_path / "out").exists()
    assert limited(100, 400).returncode == 0 and len(names(tmp_path / "out")) == 151


def test_what_is_small_stays(weir, tmp_path):
    """--external-threshold; ./NAME, and ./ as other tools write it."""
    source = DATA / "exports" / "bert-eager-dynamo-20.onnx"
    for size in (1, 1024, 4096):
        out = tmp_path / f"{size}.onnx"
        weir("convert", source, out, "--external-threshold", str(size))
        outside = {name for held in tensors_in_files(out).values() for name in held}
        held = [each for each in onnx.load(source).graph.initializer if len(each.raw_data) >= size]
        assert outside == {each.name for each in held if len(each.raw_data) >= 1024 or each.data_type == 1 and (len(each.dims) > 1 or np.prod(each.dims) > 8)}
        onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    weir("convert", source, tmp_path / "n.onnx", "--data-file", "./n.bin")
    weir("convert", source, tmp_path / "d.onnx", "--data-file", "./")
    assert (tmp_path / "n.bin").exists() and (tmp_path / "d.onnx.data").exists()
    weir("convert", source, tmp_path / "e.onnx", "--data-file", "./..", code=2)


def test_the_last_line_names_a_few(weir, tmp_path):
    source = sized_model(tmp_path / "in", [4096] * 5)
    done = weir("convert", source, tmp_path / "m.onnx", "--split", "8K")
    assert f"{tmp_path}/m.onnx_data (8.19 kB), {tmp_path}/m.onnx_data_1 (8.19 kB), {tmp_path}/m.onnx_data_2 (4.10 kB)" in done.out
    done = weir("convert", source, tmp_path / "n.onnx", "--split", "4K")
    assert f", {tmp_path}/n.onnx_data to n.onnx_data_4 (5 data files, 20.5 kB), {tmp_path}/n.onnx.manifest.json" in done.out
    assert "rewritten with 5 data files" in done.out


def test_names_that_are_taken(weir, tmp_path):
    """A file with the name of one of them: all get other names, by which transformers.js does not find them."""
    (tmp_path / "m.onnx_data_1").write_bytes(b"a stranger")
    done = weir("convert", SOURCE, tmp_path / "m.onnx", "--split", "200K")
    found = sorted(path.name for path in tmp_path.glob("m.onnx.*.data*"))
    assert len(found) == 3 and re.fullmatch(r"m\.onnx\.[0-9a-f]{8}\.data", found[0])
    assert [name[len(found[0]) :] for name in found] == ["", "_1", "_2"]
    instead = f"so the data files are '{found[0]}' to '{found[2]}': transformers.js looks for 'm.onnx_data' to 'm.onnx_data_2'"
    assert f"'m.onnx_data_1' exists already (no model in the folder uses it), {instead}\n" in done.err
    again = weir("convert", SOURCE, tmp_path / "m.onnx", "--split", "200K", "--dry-run", code=2)
    assert "exists already (no model" not in again.err and "transformers.js" not in again.err
    again = weir("convert", SOURCE, tmp_path / "m.onnx", "--split", "200K", "--dry-run", "--force")
    assert instead in again.err
    assert (tmp_path / "m.onnx_data_1").read_bytes() == b"a stranger"
    same = weir("convert", SOURCE, tmp_path / "w.onnx", "--split", "200K", "--data-file", "m.onnx_data", code=2)
    assert "the data file 'm.onnx_data_1' exists already" in same.err
    for name in found:  # as if no model had come of it
        shutil.move(tmp_path / name, tmp_path / name.replace("m.onnx", "lost.onnx"))
    assert weir("clean", tmp_path, "--yes").out.count("removed") == 4 and not list(tmp_path.glob("lost.onnx*"))


def test_names_of_another_model(weir, tmp_path):
    """It is named; the one that is replaced is not another one, and one data file is not several."""
    out = tmp_path / "m.onnx"
    weir("convert", SOURCE, out, "--split", "200K")
    assert "exists already" not in weir("conv2matmul", SOURCE, out, "--split", "200K", "--force").err
    out.rename(tmp_path / "other.onnx")
    done = weir("convert", SOURCE, out, "--split", "100MiB")
    [name] = [path.name for path in tmp_path.glob("m.onnx.*.data")]
    said = f"'m.onnx_data' exists already ('other.onnx' uses it), so the data file is '{name}': transformers.js looks for 'm.onnx_data'"
    assert f"{said}\n" in done.err
    assert said in weir("convert", SOURCE, out, "--split", "100MiB", "--force", "--json").json()["weir"]["warnings"]


def test_a_data_file_is_no_other_file(weir, tmp_path):
    """The model itself, its manifest, a record."""
    done = weir("convert", SOURCE, tmp_path / "w_1", "--data-file", "w", "--split", "200K", code=2)
    assert "the data file of 'w_1' cannot be named 'w_1'" in done.err
    done = weir("convert", SOURCE, tmp_path / "m.onnx", "--split", "200K", "--report-json", tmp_path / "m.onnx_data_2", code=2)
    assert "--report-json would overwrite" in done.err
    assert names(tmp_path) == []


# ---- replacing


def test_the_same_command_gives_the_same_names_and_bytes(weir, tmp_path, small_encoder):
    out = tmp_path / "m.onnx"
    seen = []
    for block in ("32", "32", "64", "32"):
        weir("quantize", small_encoder, out, "--block-size", block, "--split", "200K", "--force")
        weir("audit", out)
        seen.append(compare.folder_bytes(tmp_path))
    assert seen[0] == seen[1] == seen[3] != seen[2]
    assert sorted(seen[0])[1] == "m.onnx.manifest.json" and len(seen[0]) > 4


def test_inplace_keeps_the_names(weir, tmp_path):
    out = tmp_path / "m.onnx"
    weir("convert", SOURCE, out, "--split", "150K")
    before, modes = names(tmp_path), {}
    for path in tmp_path.iterdir():
        path.chmod(0o640)
    weir("conv2matmul", out, "--inplace", "--split", "150K")
    assert names(tmp_path) == before
    for path in tmp_path.glob("m.onnx*"):
        modes[path.name] = stat.S_IMODE(path.stat().st_mode)
    assert set(modes.values()) == {0o640}
    weir("audit", out)
    weir("conv2matmul", SOURCE, tmp_path / "other" / "m.onnx", "--inline")
    compare.same_meaning(tmp_path / "other" / "m.onnx", out)


THEN = {"fewer": (["--split", "400K"], 2), "one": ([], 0), "none": (["--inline"], 0)}


@pytest.mark.parametrize("then", THEN)
def test_fewer_data_files(weir, tmp_path, then):
    """What the old manifest lists goes with the old model."""
    out, fresh = tmp_path / "out" / "m.onnx", tmp_path / "fresh" / "m.onnx"
    weir("convert", SOURCE, fresh, *THEN[then][0])
    weir("convert", SOURCE, out, "--split", "100K")
    assert names(out.parent) == ["m.onnx", *chunks(out, 6)]
    weir("convert", SOURCE, out, "--force", *THEN[then][0])
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(fresh.parent)
    weir("audit", out)


@pytest.mark.parametrize("then", THEN)
def test_fewer_data_files_than_no_manifest_lists(weir, tmp_path, then):
    """They are kept, and a line says how many and names some."""
    out = tmp_path / "m.onnx"
    weir("convert", SOURCE, out, "--split", "100K", "--no-manifest")
    words, shared = THEN[then]
    shutil.copytree(tmp_path, used := tmp_path.with_name(tmp_path.name + "-used"))
    done = weir("convert", SOURCE, out, "--force", *words)
    assert f"{6 - shared} old data files were kept, such as 'm.onnx_data" in done.err
    assert ": the old model has no manifest that lists them; delete them if nothing else uses them\n" in done.err
    shutil.copy(used / "m.onnx", used / "copy.onnx")
    done = weir("convert", SOURCE, used / "m.onnx", "--force", *words)
    assert "6 old data files were kept, such as 'm.onnx_data" in done.err
    assert ": other models, such as 'copy.onnx', use them too\n" in done.err
    shutil.rmtree(used)
    assert [name for name in names(tmp_path) if "_data" in name] == chunks(out, 6)


def test_data_that_a_neighbour_uses(weir, tmp_path):
    """A copy of the old .onnx names the old data: all of it stays, under its names."""
    out = tmp_path / "m.onnx"
    weir("convert", SOURCE, out, "--split", "200K")
    shutil.copy(out, tmp_path / "kept.onnx")
    old = {name: (tmp_path / name).read_bytes() for name in chunks(out, 3)}
    weir("conv2matmul", SOURCE, out, "--split", "200K", "--force")
    assert {name: (tmp_path / name).read_bytes() for name in chunks(out, 3)} == old
    compare.same_meaning(SOURCE, tmp_path / "kept.onnx")
    weir("audit", out)


# ---- interrupted, damaged


@pytest.mark.parametrize("unit", [1, 2, 3, 4])
def test_resume_amid_several_files(weir, weir_fault, tmp_path, unit):
    words = ["conv2matmul", SOURCE, "--split", "200K"]
    weir(*words, tmp_path / "whole" / "m.onnx")
    out = tmp_path / "out" / "m.onnx"
    weir_fault(*words, out, "--jobs", "1", env={"WEIR_FAULT": f"kill:{before_record(unit)}"}, code=-signal.SIGKILL)
    assert names(out.parent) and not out.exists()
    done = weir(*words, out)
    assert ("were already written by an interrupted run" in done.err) == (unit > 1)
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(tmp_path / "whole")


@pytest.mark.parametrize("digests", [[], ["--tensor-digests"]])
def test_damage_in_the_third_file(weir, tmp_path, digests):
    source = sized_model(tmp_path / "in", [4096, 4096, 4096, 2048, 2048])
    out = tmp_path / "m.onnx"
    weir("convert", source, out, "--split", "4K", *digests)
    weir("audit", out)
    third = tmp_path / "m.onnx_data_3"
    content = bytearray(third.read_bytes())
    content[3000] ^= 1
    third.write_bytes(content)
    [found] = weir("audit", out, "--json", code=1).json()["damage"]
    assert found["file"] == third.name and found["tensors"] == (["w4"] if digests else ["w3", "w4"])
    third.unlink()
    assert "m.onnx_data_3" in weir("audit", out, code=1).out
    assert "m.onnx_data_3" in weir("check", out, code=66).said


# ---- OUT as a folder


@pytest.mark.parametrize("what", COMMANDS)
def test_a_folder_as_output(weir, tmp_path, what):
    call(weir, what, SOURCE, f"{tmp_path}/new/")
    call(weir, what, SOURCE, tmp_path / "new", "--force")
    assert names(tmp_path / "new") == ["encoder-model.onnx", "encoder-model.onnx.data"]
    call(weir, what, SOURCE, tmp_path / "file")
    assert (tmp_path / "file").is_file()


def test_a_folder_behind_a_link(weir, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    log = tmp_path / "log.jsonl"
    done = weir("cast", SOURCE, tmp_path / "link", "--to", "float16", "--edit-log", log)
    assert f"wrote {tmp_path}/link/encoder-model.onnx (" in done.out
    first = compare.folder_bytes(tmp_path / "real")
    weir("replay", log, SOURCE, f"{tmp_path}/again/")
    assert compare.folder_bytes(tmp_path / "again") == first


def test_the_folder_of_the_input(weir, tmp_path):
    source = sized_model(tmp_path, [2000])
    for out in (".", "./", tmp_path):
        assert "is one of the input's own files" in weir("convert", source.name, out, cwd=tmp_path, code=2).err
        assert "is one of the input's own files" in weir("convert", source.name, out, "-f", cwd=tmp_path, code=2).err
    assert names(tmp_path) == [source.name]


def test_a_folder_by_the_name_of_the_input(weir, tmp_path):
    source = sized_model(tmp_path / "in", [2000])
    (tmp_path / "out" / source.name).mkdir(parents=True)
    assert "exists and is not a file" in weir("convert", source, tmp_path / "out", code=2).err


def test_a_dry_run_into_a_folder(weir, tmp_path):
    source = sized_model(tmp_path / "in", [2000])
    done = weir("convert", source, f"{tmp_path}/new/", "--dry-run")
    assert f"output: '{tmp_path}/new/model.onnx' does not exist yet" in done.out and not (tmp_path / "new").exists()


def test_resume_into_a_folder(weir, weir_fault, tmp_path):
    words = ["convert", SOURCE, f"{tmp_path}/out/"]
    weir_fault(*words, env={"WEIR_FAULT": "kill:renameat2:5"}, code=-signal.SIGKILL)
    weir(*words)
    weir("audit", tmp_path / "out" / SOURCE.name)
    assert not list((tmp_path / "out").glob(".*"))


# ---- the environment


def test_the_environment_changes_resources_alone(weir, tmp_path):
    def resources(env, *words):
        out = tmp_path / str(len(list(tmp_path.iterdir()))) / "m.onnx"
        report = weir("conv2matmul", SOURCE, out, "--json", *words, env=env).json()["weir"]
        return compare.folder_bytes(out.parent), (report["memory_bytes"], report["jobs"], report["io"])

    plain, _ = resources({})
    wanted = {"WEIR_MEMORY": "12MiB", "WEIR_JOBS": "1", "WEIR_IO": "sync"}
    assert resources(wanted) == (plain, (12 << 20, 1, "sync"))
    assert resources({**wanted, "WEIR_MEMORY": "junk"}, "--memory", "20MiB") == (plain, (20 << 20, 1, "sync"))
    assert resources({name: "" for name in wanted}) == resources({})


@pytest.mark.parametrize("name, value", [("WEIR_MEMORY", "lots"), ("WEIR_JOBS", "-1"), ("WEIR_IO", "dma"), ("WEIR_MEMORY", "1K")])
def test_a_bad_variable_is_named(weir, tmp_path, name, value):
    done = weir("convert", SOURCE, tmp_path / "m.onnx", env={name: value}, code=2)
    assert name in done.err and "--" + name[5:].lower() not in done.err
    assert names(tmp_path) == []
    weir("convert", "--help", env={name: value})
    weir("inspect", SOURCE, env={name: value})


def test_the_manual_names_the_variables(weir, tmp_path):
    weir("--generate", "man", tmp_path)
    page, convert = (Path(tmp_path, name).read_text() for name in ("weir.1", "weir-convert.1"))
    for name in ("WEIR_MEMORY", "WEIR_JOBS", "WEIR_IO"):
        assert name in page and name in convert
