"""What scripts rely on: what is refused and what is replaced, dry runs, reports, streams, exit codes."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

import compare
import make_encoder
import wire
from conftest import DATA, program, read_only_folder

COMMANDS = ("inspect", "check", "conv2matmul", "convert", "replay", "clean", "audit")


@pytest.fixture
def encoder(tmp_path, small_encoder):
    """A small encoder with a sidecar, alone in a folder."""
    shutil.copytree(small_encoder.parent, tmp_path / "in")
    return tmp_path / "in" / small_encoder.name


def files(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def sidecar(path):
    return path.with_name(path.name + ".data")


# ---- dry runs


@pytest.mark.parametrize("command", ["conv2matmul", "convert"])
def test_dry_run_writes_nothing_and_reads_no_payload(weir, tmp_path, medium_encoder, command):
    """400 MB of weights: by the kernel's count, the program reads less than 4 MB, and no byte is written to disk."""
    (tmp_path / "out").mkdir()
    trace = tmp_path / "trace"
    words = [program("WEIR"), command, medium_encoder, tmp_path / "out" / "out.onnx", "--dry-run"]
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    calls = "trace=read,pread64,preadv,preadv2,io_uring_enter,pwrite64"
    done = subprocess.run(["strace", "-f", "-o", trace, "-e", calls, *words], capture_output=True, text=True)
    if "ptrace" in done.stderr and done.returncode != 0:
        pytest.skip("ptrace is not permitted")
    assert done.returncode == 0, done.stderr
    got = [int(number) for number in re.findall(r"= (\d+)$", trace.read_text(), re.MULTILINE)]
    assert 0 < sum(got) < 4_000_000 and "io_uring_enter" not in trace.read_text()
    assert files(tmp_path / "out") == []
    assert "would write" in done.stdout and "disk needed" in done.stdout and "peak memory" in done.stdout


def test_dry_run_tells_the_real_sizes(weir, tmp_path, encoder):
    (tmp_path / "out").mkdir()
    words = ["conv2matmul", encoder, tmp_path / "out" / "out.onnx"]
    planned = weir(*words, "--dry-run", "--json").json()
    done = weir(*words, "--json").json()
    assert planned["weir"]["dry_run"] and not done["weir"]["dry_run"]
    assert planned["weir"]["plan_id"] == done["weir"]["plan_id"] and planned["nodes"] == done["nodes"]
    assert planned["weir"]["output"] == done["weir"]["output"]
    for each in done["weir"]["output"]:
        assert (tmp_path / "out" / each["name"]).stat().st_size == each["size"]


def test_dry_run_without_an_output(weir, encoder):
    before = compare.folder_bytes(encoder.parent)
    assert weir("conv2matmul", encoder, "--dry-run", "--json").json()["converted"] == 12
    assert compare.folder_bytes(encoder.parent) == before


def test_dry_run_does_not_depend_on_weights(weir, tmp_path, encoder):
    """The plan is made from metadata and small values; large weights may be anything."""
    small_weights = compare.structure(encoder)
    assert any(compare.is_external(tensor) for _, tensor in compare.tensors(small_weights))
    first = weir("convert", encoder, tmp_path / "out.onnx", "--dry-run", "--json").json()
    data = bytearray(sidecar(encoder).read_bytes())
    large = max((t for _, t in compare.tensors(small_weights) if compare.is_external(t)), key=compare.tensor_bytes)
    at = int(compare.external_pairs(large).get("offset", 0))
    data[at : at + 100] = bytes(100)
    sidecar(encoder).write_bytes(data)
    second = weir("convert", encoder, tmp_path / "out.onnx", "--dry-run", "--json").json()
    assert first["weir"]["plan_id"] == second["weir"]["plan_id"]


def same_refusal(weir, words, code):
    """A dry run and the run: the same code and words; the dry run gives its report all the same."""
    dry = weir(*words, "--dry-run", code=code)
    as_json = weir(*words, "--dry-run", "--json", code=code)
    refusal = as_json.json()["weir"]["refusal"]
    real = weir(*words, code=code)
    assert refusal["exit_code"] == code and "would write" in dry.out and f"exit code {code}" in dry.out
    assert f"weir: error: {refusal['message']}\nhint: {refusal['hint']}\n" == dry.err == as_json.err == real.err
    return as_json.json()["weir"]


def test_dry_run_over_an_existing_output(weir, tmp_path, encoder):
    (tmp_path / "out").mkdir()
    words = ["convert", encoder, tmp_path / "out" / "out.onnx"]
    dry = weir(*words, "--dry-run")
    assert "does not exist yet" in dry.out and "is writable" in dry.out and "free" in dry.out
    weir(*words)
    before = compare.folder_bytes(tmp_path / "out")
    assert same_refusal(weir, words, 2)["output_exists"]
    assert "would be replaced" in weir(*words, "--dry-run", "--force").out
    forced = weir(*words, "--dry-run", "--force", "--json").json()["weir"]
    assert forced["refusal"] is None and forced["output_exists"]
    assert "in addition to the files to be replaced" in weir("convert", encoder, "--inplace", "--dry-run").out
    assert compare.folder_bytes(tmp_path / "out") == before
    same_refusal(weir, ["convert", encoder, encoder], 2)
    (tmp_path / "folder" / encoder.name).mkdir(parents=True)
    same_refusal(weir, ["convert", encoder, tmp_path / "folder"], 2)


def test_dry_run_knows_the_memory_of_the_workers(weir, tmp_path, encoder):
    said = same_refusal(weir, ["convert", encoder, tmp_path / "x.onnx", "--jobs", "9", "--memory", "8MiB"], 2)
    assert said["output_exists"] is False
    said = weir("convert", encoder, tmp_path / "x.onnx", "--jobs", "1000", code=2)
    assert said.err == "weir: error: invalid value '1000' for --jobs: use a whole number from 1 to 256\n"


@pytest.mark.parametrize("options", ([], ["--tensor-digests"], ["--tensor-digests", "--hash-inputs"]))
def test_disk_needed_counts_the_files_beside_the_outputs(weir, tmp_path, encoder, options):
    words = ["convert", encoder, tmp_path / "x.onnx"]
    without = weir(*words, "--dry-run", "--no-manifest", "--json").json()["weir"]["disk_needed_bytes"]
    needed = weir(*words, "--dry-run", "--json", *options).json()["weir"]["disk_needed_bytes"]
    weir(*words, *options)
    beside = list(tmp_path.glob("x.onnx.*json*"))
    assert len(beside) == 1 + bool(options)
    assert needed - without == sum(file.stat().st_size for file in beside)


def test_dry_run_for_programs(weir, tmp_path, encoder):
    words = ["convert", encoder, tmp_path / "x.onnx", "--memory", "20MiB", "--jobs", "1", "--io", "sync"]
    said = weir(*words, "--dry-run", "--json").json()["weir"]
    assert said["memory_bytes"] == 20 << 20 and said["jobs"] == 1 and said["io"] == "sync"
    assert said["disk_needed_bytes"] >= sum(each["size"] for each in said["output"]) and said["index_bytes"] > 0
    assert 0 < said["disk_free_bytes"] and said["refusal"] is None and said["output_folder_writable"] is True
    assert said["peak_memory_limit_bytes"] == said["index_bytes"] + (20 << 20) + (16 << 20)
    done = weir(*words, "--json").json()["weir"]
    assert done["peak_memory_bytes"] <= done["peak_memory_limit_bytes"] and "refusal" not in done
    assert done["resumed"] is None and done["warnings"] == [] and done["recorded_as"] == "convert"


def test_dry_run_where_nobody_may_write(tmp_path, small_encoder):
    out, words = read_only_folder(tmp_path, small_encoder)
    words = [*words, "convert", os.fspath(small_encoder), os.fspath(out / "x.onnx")]
    dry = subprocess.run([*words, "--dry-run"], capture_output=True, text=True)
    real = subprocess.run(words, capture_output=True, text=True)
    assert dry.returncode == real.returncode == 77 and dry.stderr == real.stderr
    assert "NOT writable" in dry.stdout and os.listdir(out) == []


def test_align_without_a_data_file_is_said(weir, tmp_path, encoder):
    weir("convert", encoder, tmp_path / "one.onnx", "--inline")
    done = weir("convert", tmp_path / "one.onnx", tmp_path / "two.onnx", "--align", "4096", "--json")
    [warning] = done.json()["weir"]["warnings"]
    assert "4096" in warning and "'two.onnx'" in warning and warning in done.err and done.err.count("\n") == 1
    done = weir("convert", tmp_path / "one.onnx", tmp_path / "three.onnx", "--align", "4096", "--external", "--json")
    assert done.json()["weir"]["warnings"] == [] and done.err == ""


# ---- what may be replaced


def test_output_equal_to_input_is_refused(weir, tmp_path, encoder):
    """By the same path, by another, and through links; nothing changes."""
    before = compare.folder_bytes(encoder.parent)
    os.link(encoder, encoder.parent / "hard.onnx")
    (encoder.parent / "soft.onnx").symlink_to(encoder.name)
    others = [
        encoder,
        encoder.parent / ".." / "in" / encoder.name,
        encoder.parent / "hard.onnx",
        encoder.parent / "soft.onnx",
    ]
    for other in others:
        for options in ([], ["--force"]):
            done = weir("conv2matmul", encoder, other, "--allow-links", *options, code=2)
            assert "--inplace" in done.err, done.err
    (encoder.parent / "hard.onnx").unlink()
    (encoder.parent / "soft.onnx").unlink()
    assert compare.folder_bytes(encoder.parent) == before


def test_output_equal_to_the_data_file_is_refused(weir, encoder):
    before = compare.folder_bytes(encoder.parent)
    for options in ([], ["--force"]):
        weir("convert", encoder, sidecar(encoder), *options, code=2)
    assert compare.folder_bytes(encoder.parent) == before


def test_data_file_equal_to_the_input_s_is_refused(weir, encoder):
    before = compare.folder_bytes(encoder.parent)
    for options in ([], ["--force"]):
        done = weir(
            "convert", encoder, encoder.parent / "out.onnx", "--data-file", sidecar(encoder).name, *options, code=2
        )
        assert sidecar(encoder).name in done.err
    weir("convert", encoder, encoder.parent / "out.onnx", "--data-file", encoder.name, code=2)
    assert compare.folder_bytes(encoder.parent) == before


def test_existing_output_needs_force(weir, tmp_path, encoder):
    out = tmp_path / "out.onnx"
    out.write_bytes(b"something else")
    assert "--force" in weir("convert", encoder, out, code=2).err
    assert out.read_bytes() == b"something else"
    weir("convert", encoder, out, "--force")
    compare.same_meaning(encoder, out)


def test_force_over_a_pair_of_ours(weir, tmp_path, encoder):
    """The old sidecar gives its name to the new one; other files stay."""
    out = tmp_path / "out" / "out.onnx"
    out.parent.mkdir()
    weir("conv2matmul", encoder, out)
    (out.parent / "notes.txt").write_text("mine")
    weir("convert", encoder, out, "--force")
    compare.same_meaning(encoder, out)
    assert files(out.parent) == ["notes.txt", "out.onnx", "out.onnx.data", "out.onnx.manifest.json"]
    weir("audit", out)


def test_force_over_a_pair_of_others(weir, tmp_path, encoder):
    """A sidecar of another name that weir did not write is not ours to remove: it stays, and is named."""
    out = tmp_path / "out" / "out.onnx"
    out.parent.mkdir()
    make_encoder.make_encoder(out, make_encoder.Shape(1, 16, 64, 2, 9, 8, 16))
    old = sidecar(out).rename(out.with_name("out.onnx_data"))
    out.write_bytes(out.read_bytes().replace(b"out.onnx.data", b"out.onnx_data"))
    kept = old.read_bytes()
    done = weir("convert", encoder, out, "--force")
    assert f"the old data file '{old.name}' (" in done.err and old.read_bytes() == kept
    assert " was kept: the old model has no manifest that lists it; delete it if nothing else uses it\n" in done.err
    compare.same_meaning(encoder, out)


UNSURE = "' ({}) was kept: the old model cannot be read, so weir does not know whether it was its data; delete it if nothing else uses it\n"


@pytest.mark.parametrize("words, name", [(["--data-file", "old.bin"], "old.bin"), (["--no-manifest"], "out.onnx.data")])
@pytest.mark.parametrize("bytes_left", [0, 10, 400])
def test_force_over_a_damaged_model_names_what_may_be_its_data(weir, tmp_path, encoder, words, name, bytes_left):
    """A file that its manifest lists, or whose name is that of its data: it stays, and a line says so. Other files are not mentioned."""
    out = tmp_path / "out" / "out.onnx"
    out.parent.mkdir()
    weir("convert", encoder, out, "--external", *words)
    (out.parent / "notes.txt").write_text("mine")
    kept = (out.parent / name).read_bytes()
    out.write_bytes(out.read_bytes()[:bytes_left])
    done = weir("convert", encoder, out, "--force", "--inline")
    assert done.err.count("was kept") == 1 and f"the file '{name}' (" in done.err and UNSURE.split("{}")[1] in done.err
    assert (out.parent / name).read_bytes() == kept and (out.parent / "notes.txt").exists()
    compare.same_meaning(encoder, out)


def test_force_names_data_of_any_name(weir, tmp_path, encoder):
    """Without a manifest too: the old model itself says which files are its data."""
    out = tmp_path / "out" / "out.onnx"
    out.parent.mkdir()
    weir("convert", encoder, out, "--data-file", "old.bin", "--no-manifest")
    done = weir("convert", encoder, out, "--force", "--inline")
    assert "the old data file 'old.bin' (" in done.err and "has no manifest that lists it" in done.err and (out.parent / "old.bin").exists()


def test_force_without_manifest_again_and_again(weir, tmp_path, encoder):
    """The old model names its sidecar, and no other one does: that is enough to replace it."""
    out = tmp_path / "out" / "out.onnx"
    out.parent.mkdir()
    for count in range(4):
        weir("convert", encoder, out, "--force", "--no-manifest", *(["--align", "8KiB"] if count % 2 else []))
        assert files(out.parent) == ["out.onnx", "out.onnx.data"]
    compare.same_meaning(encoder, out)


@pytest.mark.parametrize("other", ["other.onnx", "OTHER.ONNX"])
def test_force_keeps_a_sidecar_that_another_model_names(weir, tmp_path, encoder, other):
    out = tmp_path / "out" / "out.onnx"
    out.parent.mkdir()
    weir("convert", encoder, out)
    shutil.copy(out, out.parent / other)
    weir("conv2matmul", encoder, out, "--force")
    compare.same_meaning(encoder, out.parent / other)


@pytest.mark.parametrize("option", [["--inplace"], ["--inplace", "--form", "flat"]])
def test_inplace(weir, tmp_path, encoder, option):
    """The same as with an output elsewhere; the inode changes, and the old sidecar goes if it was ours."""
    weir("conv2matmul", encoder, tmp_path / "expected.onnx", *option[1:])
    inode = encoder.stat().st_ino
    weir("conv2matmul", encoder, *option)
    assert encoder.stat().st_ino != inode
    a, b = compare.raw_model(tmp_path / "expected.onnx"), compare.raw_model(encoder)
    assert a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)
    weir("audit", encoder)
    before = set(files(encoder.parent))
    weir("convert", encoder, "--inplace")
    weir("audit", encoder)
    assert len(files(encoder.parent)) == len(before), "a sidecar of ours was left behind"


def test_inplace_of_an_inline_model(weir, tmp_path):
    path = tmp_path / "model.onnx"
    make_encoder.make_encoder(path, make_encoder.Shape(1, 16, 64, 2, 9, 8, 16), sidecar="inline")
    weir("conv2matmul", path, "--inplace")
    assert files(tmp_path) == ["model.onnx", "model.onnx.manifest.json"]


def test_inplace_and_an_output_exclude_each_other(weir, tmp_path, encoder):
    assert "--inplace" in weir("conv2matmul", encoder, tmp_path / "out.onnx", "--inplace", code=2).err
    assert "--inplace" in weir("conv2matmul", encoder, code=2).err


def test_inplace_through_a_link_is_refused(weir, encoder):
    (encoder.parent / "link.onnx").symlink_to(encoder.name)
    weir("conv2matmul", encoder.parent / "link.onnx", "--inplace", "--allow-links", code=2)
    assert (encoder.parent / "link.onnx").is_symlink()


def test_output_that_is_a_folder(weir, tmp_path, encoder):
    """It stands for a file in it; what is in the place of that is not written over."""
    (tmp_path / "out.onnx").mkdir()
    weir("convert", encoder, tmp_path / "out.onnx", "--force")
    assert (tmp_path / "out.onnx" / encoder.name).is_file()
    (tmp_path / "other" / encoder.name).mkdir(parents=True)
    weir("convert", encoder, tmp_path / "other", "--force", code=2)


@pytest.mark.parametrize(
    "name", ["space in name.onnx", "ünïcode-模型.onnx", "new\nline.onnx", "-dash.onnx", "noext", ".hidden.onnx"]
)
def test_names_of_outputs(weir, tmp_path, encoder, name):
    (tmp_path / "out").mkdir()
    weir("convert", encoder, "-o", tmp_path / "out" / name)
    assert files(tmp_path / "out") == sorted([name, name + ".data", name + ".manifest.json"])
    compare.same_meaning(encoder, tmp_path / "out" / name)


def test_relative_paths_and_the_current_folder(weir, encoder):
    weir("convert", encoder.name, "out.onnx", cwd=encoder.parent)
    weir("convert", f"./{encoder.name}", "-o", "./again.onnx", cwd=encoder.parent)
    assert (encoder.parent / "out.onnx.data").read_bytes() == (encoder.parent / "again.onnx.data").read_bytes()


def test_colon_in_a_name_cannot_stand_in_a_manifest(weir, tmp_path, encoder):
    assert "--no-manifest" in weir("convert", encoder, tmp_path / "ab:c.onnx", code=2).err
    weir("convert", encoder, tmp_path / "ab:c.onnx", "--no-manifest")
    compare.same_meaning(encoder, tmp_path / "ab:c.onnx")
    done = weir("convert", encoder, tmp_path / "a:b.onnx", "--no-manifest", code=2)
    assert "drive letter" in done.err  # what readers, weir among them, refuse as a place of data


def test_a_name_that_is_not_a_model_s(weir, tmp_path, encoder):
    """What is written is an ONNX model, whatever it is called."""
    done = weir("convert", encoder, tmp_path / "out.safetensors", "--json")
    [warning] = done.json()["weir"]["warnings"]
    assert "out.safetensors' does not end in '.onnx'" in warning and warning in done.err
    refused = weir("quantize", encoder, tmp_path / "small", "--budget", "9999", code=1)
    assert "does not end in" not in refused.err and len(refused.err.splitlines()) <= 2
    assert weir("convert", encoder, tmp_path / "out.onnx", "--json").json()["weir"]["warnings"] == []
    renamed = encoder.rename(encoder.with_name("blob"))
    assert weir("convert", renamed, tmp_path / "blob", "--json").json()["weir"]["warnings"] == []


def test_two_dots_in_the_name_of_a_data_file_are_warned_of(weir, tmp_path, encoder):
    done = weir("convert", encoder, tmp_path / "a..b.onnx")
    assert "contains '..'" in done.err
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(str(tmp_path / "a..b.onnx"))
    assert "'..'" not in weir("convert", encoder, tmp_path / "a.b.onnx").err
    assert "'..'" not in weir("convert", encoder, tmp_path / "c..d.onnx", "--inline").err


def test_models_that_no_file_can_be(weir, tmp_path):
    assert "name of the model is empty" in weir("inspect", "", code=66).err
    assert "does not exist" in weir("inspect", f"{tmp_path}/missing/", code=66).err
    assert "is a folder" in weir("measure", f"{tmp_path}/", code=66).err


# ---- links


def hugging_face_tree(folder, encoder):
    """blobs/ with the bytes, snapshots/<revision>/ with links to them; gives the model's path."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "0a1b"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate((encoder, sidecar(encoder))):
        shutil.copy(path, blobs / f"{number:064x}")
        (snapshot / path.name).symlink_to(f"../../blobs/{number:064x}")
    return snapshot / encoder.name


@pytest.mark.parametrize("command", ["inspect", "check", "conv2matmul", "convert"])
def test_hugging_face_cache(weir, tmp_path, encoder, command):
    """All commands work in it, and it stays as it was."""
    model = hugging_face_tree(tmp_path / "hub", encoder)
    before = compare.folder_bytes(tmp_path / "hub")
    output = [tmp_path / "out.onnx"] if command.startswith("conv") else []
    weir(command, model, *output)
    if command == "convert":
        compare.same_meaning(encoder, tmp_path / "out.onnx")
    assert compare.folder_bytes(tmp_path / "hub") == before


@pytest.mark.parametrize("command", ["check", "convert"])
def test_links_elsewhere_need_a_word(weir, tmp_path, encoder, command):
    """What a model's folder links to may be anything of the user's: 77, and the hint names the flag."""
    (tmp_path / "here").mkdir()
    model = tmp_path / "here" / encoder.name
    model.symlink_to(encoder)
    sidecar(model).symlink_to(sidecar(encoder))
    output = [tmp_path / "out.onnx"] if command == "convert" else []
    done = weir(command, model, *output, code=77)
    assert "--allow-links" in done.said and f"'{sidecar(model)}'" in done.said
    weir(command, model, *output, "--allow-links")
    sidecar(model).unlink()
    done = weir(command, model, *output, code=66)
    assert "is missing" in done.said and "next to the link" in done.said


def test_replay_on_a_hugging_face_cache(weir, tmp_path, encoder):
    model = hugging_face_tree(tmp_path / "hub", encoder)
    weir("conv2matmul", encoder, tmp_path / "out.onnx", "--edit-log", tmp_path / "edits.jsonl")
    (tmp_path / "again").mkdir()
    weir("replay", tmp_path / "edits.jsonl", model, tmp_path / "again" / "out.onnx")
    assert (tmp_path / "again" / "out.onnx.data").read_bytes() == (tmp_path / "out.onnx.data").read_bytes()


# ---- reports


def sorted_keys(value):
    """Is every object below this value in key order?"""
    if isinstance(value, list):
        return all(sorted_keys(each) for each in value)
    if not isinstance(value, dict):
        return True
    return list(value) == sorted(value) and all(sorted_keys(each) for each in value.values())


def test_report_of_conv2matmul(weir, tmp_path, encoder):
    """The members of the existing tool's report, graph beside each node, and what is common below `weir`."""
    weir("conv2matmul", encoder, tmp_path / "out.onnx", "--report-json", tmp_path / "report.json")
    text = (tmp_path / "report.json").read_text()
    report = json.loads(text)
    assert sorted_keys(report["weir"]) and text.startswith("{\n  ") and text.endswith("}\n")
    assert set(report) == {"schema", "command", "model", "converted", "skipped", "nodes", "weir"}
    assert report["converted"] + report["skipped"] == len(report["nodes"]) == 20
    for node in report["nodes"]:
        assert set(node) == {"graph", "node_index", "node_name", "op_type", "reason", "status", "used_extended_mode"}
        assert (node["status"] == "converted") == node["reason"].startswith("converted_")
    common = report["weir"]
    assert {
        "bytes_cloned", "bytes_written", "dry_run", "edits", "index_bytes", "input", "io", "jobs", "memory_bytes",
        "output", "peak_memory_bytes", "plan_id", "source_bytes_read", "units", "units_resumed", "version",
    } <= set(common)  # fmt: skip
    assert [each["name"] for each in common["input"]] == [encoder.name, sidecar(encoder).name]
    assert [each["size"] for each in common["input"]] == [encoder.stat().st_size, sidecar(encoder).stat().st_size]
    assert common["io"] in ("uring", "sync") and common["bytes_written"] == sum(
        each["size"] for each in common["output"]
    )


def test_report_on_standard_output(weir, tmp_path, encoder):
    """--json prints the report and nothing else, and so does --report-json-stdout; with --strict-compat the existing tool's line comes after it."""
    report = weir("conv2matmul", encoder, tmp_path / "a.onnx", "--json").json()
    assert report["converted"] == 12
    assert weir("conv2matmul", encoder, tmp_path / "b.onnx", "--report-json-stdout").json()["converted"] == 12
    done = weir("conv2matmul", encoder, tmp_path / "d.onnx", "--report-json-stdout", "--strict-compat")
    body, _, closing = done.out.rpartition("}\n")
    assert json.loads(body + "}")["converted"] == 12
    assert closing.startswith("converted=12 skipped=8 output=")
    quiet = weir("conv2matmul", encoder, tmp_path / "c.onnx", "--report-json-stdout", "--quiet")
    assert quiet.json()["converted"] == 12


def test_closing_line(weir, tmp_path, encoder):
    """Scripts made for the existing tool ask for --strict-compat, and get its line alone."""
    done = weir("conv2matmul", encoder, tmp_path / "out.onnx", "--strict-compat")
    assert done.out == f"converted=12 skipped=8 output={tmp_path / 'out.onnx'}\n"
    assert done.err == ""


def test_end_of_a_run(weir, tmp_path, encoder):
    """Four lines or fewer: what was done and what that took, what was kept, and every file that was written."""
    done = weir("conv2matmul", encoder, tmp_path / "out.onnx", "--tensor-digests")
    did, kept, wrote = done.out.splitlines()
    assert re.fullmatch(r"[\d.]+ MB -> [\d.]+ MB \(.* %, [\d.]+ kB of it for alignment\) in .* s, .* MB of memory: 12 Conv rewritten as MatMul", did)
    assert kept.startswith("  kept   8 Conv (") and done.out.count("MB of memory") == 1
    files = re.findall(r"(\S+) \([0-9.]+ [kM]?B(?:ytes)?\)", wrote.removeprefix("wrote "))
    assert set(files) == {str(path) for path in tmp_path.glob("out.onnx*")} and files[0] == str(tmp_path / "out.onnx")


def test_quiet(weir, tmp_path, encoder):
    done = weir("convert", encoder, tmp_path / "out.onnx", "--quiet")
    assert done.said == ""


def test_progress_without_a_terminal(weir, tmp_path, medium_encoder):
    """Plain lines on standard error, the last of them complete; without the flag a short run prints none."""
    done = weir("convert", medium_encoder, tmp_path / "out.onnx", "--progress")
    last = [line for line in done.err.splitlines() if "%" in line][-1]
    assert "100 %" in last and "\r" not in done.err and "\x1b" not in done.err
    assert weir("convert", medium_encoder, tmp_path / "out.onnx", "--force").err.count("%") == 0
    shutil.rmtree(tmp_path)


def test_report_that_cannot_be_written(weir, tmp_path, encoder):
    done = weir("conv2matmul", encoder, tmp_path / "out.onnx", "--report-json", tmp_path / "none" / "r.json", code=None)
    assert done.code in (2, 66, 74) and "r.json" in done.err


def test_edit_log_that_cannot_be_written(weir, tmp_path, encoder):
    (tmp_path / "out").mkdir()
    done = weir(
        "conv2matmul", encoder, tmp_path / "out" / "out.onnx", "--edit-log", tmp_path / "none" / "e.jsonl", code=None
    )
    assert done.code in (2, 66, 74) and "e.jsonl" in done.err
    assert files(tmp_path / "out") == []


def test_plan_out(weir, tmp_path, encoder):
    """The plan as a file: its digest is the id that reports and manifests name."""
    import hashlib

    report = weir.report("conv2matmul", encoder, tmp_path / "out.onnx", "--plan-out", tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_bytes()
    assert hashlib.sha256(text).hexdigest() == report["weir"]["plan_id"]
    assert (tmp_path / "plan.json.bin").exists() and json.loads(text)


# ---- the command line itself


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_two_examples(weir, command):
    out = weir(command, "--help").out
    examples = re.findall(r"^\s+\$ weir (.*)", out, re.MULTILINE)
    assert len(examples) == 2 and any(example.startswith(command) for example in examples)
    assert all(len(line) <= 80 for line in out.splitlines())


def test_hidden_engines_are_in_help_all_only(weir):
    assert "null" not in weir("convert", "--help").out
    assert "null" in weir("convert", "--help-all").out


def test_version(weir):
    out = weir("--version").out
    for word in ("weir", "libcrypto", "instruction set", "engine"):
        assert word in out


def test_commands_that_cannot_be(weir, encoder, tmp_path):
    """Exit code 2 and a hint, for what is wrong with the line itself."""
    wrong = [
        [], ["conjure"], ["convert"], ["convert", encoder], ["convert", encoder, "a", "b"],
        ["convert", encoder, "o", "--bogus"],
        ["convert", encoder, "o", "--inline", "--external"], ["convert", encoder, "o", "--memory", "lots"],
        ["convert", encoder, "o", "--jobs", "0"], ["convert", encoder, "o", "--io", "pigeon"],
        ["conv2matmul", encoder, "o", "--max-dilation", "0"], ["conv2matmul", encoder, "o", "--form", "round"],
        ["inspect", encoder, "--force"], ["clean"], ["audit"], ["replay", encoder],
    ]  # fmt: skip
    for words in wrong:
        done = weir(*words, code=2, cwd=tmp_path)
        assert done.out == "" and done.err, words
    assert files(tmp_path) == ["in"]


def test_missing_inputs(weir, tmp_path):
    for words in (["inspect"], ["check"], ["convert"], ["conv2matmul"], ["audit"]):
        output = [tmp_path / "out.onnx"] if words[0].startswith("conv") else []
        done = weir(*words, tmp_path / "none.onnx", *output, code=66)
        assert "none.onnx" in done.err


# ---- looking


def test_inspect_json(weir, encoder):
    """Numbers that can be recomputed from the model."""
    found = weir("inspect", encoder, "--json").json()
    model = compare.structure(encoder)
    assert found["ir_version"] == model.ir_version
    assert found["opsets"] == [{"domain": "", "version": model.opset_import[0].version}]
    [data] = found["data_files"]
    external = [tensor for _, tensor in compare.tensors(model) if compare.is_external(tensor)]
    assert data["name"] == sidecar(encoder).name and data["bytes"] == sidecar(encoder).stat().st_size
    assert data["used_bytes"] == sum(map(compare.tensor_bytes, external)) and data["tensors"] == len(external)


def test_inspect_tensors(weir, encoder):
    """One line a tensor, in columns for sort and cut."""
    rows = [line.split("\t") for line in weir("inspect", encoder, "--tensors").out.splitlines() if "\t" in line]
    model = compare.structure(encoder)
    names = {row[0] for row in rows}
    assert {tensor.name for tensor in model.graph.initializer} <= names
    by_name = {row[0]: row for row in rows}
    for tensor in model.graph.initializer:
        assert str(compare.tensor_bytes(tensor)) in by_name[tensor.name]


def test_inspect_tree_shows_bodies(weir):
    import conftest

    out = weir("inspect", conftest.package_model("silero_vad", "silero_vad.onnx"), "--tree").out
    assert "then_branch" in out and "Conv" in out


def test_check_json_of_a_faulty_model(weir, tmp_path):
    """All faults, not the first: two tensors past the end of their file, and a value that nobody makes."""
    weights = [
        wire.tensor(name, wire.FLOAT, (4,), pairs=wire.external("w.bin", at, 16)) for name, at in (("a", 56), ("b", 60))
    ]
    nodes = [wire.node("Add", ["a", "b"], ["s"]), wire.node("Add", ["s", "nobody"], ["y"])]
    (tmp_path / "m.onnx").write_bytes(wire.model(wire.graph(nodes, weights, [], [("y", wire.FLOAT, [4])])))
    (tmp_path / "w.bin").write_bytes(bytes(64))
    found = weir("check", tmp_path / "m.onnx", "--json", code=65).json()
    told = " ".join(json.dumps(fault) for fault in found["faults"])
    assert found["errors"] == 3 and "'a'" in told and "'b'" in told and "nobody" in told


def test_check_of_good_models(weir):
    for name in ("parakeet-dynamo", "parakeet-torchscript"):
        found = weir("check", DATA / name / "encoder-model.onnx", "--json").json()
        assert found["errors"] == 0


def test_check_notes_overlaps(weir, tmp_path):
    weights = [
        wire.tensor(name, wire.FLOAT, (4,), pairs=wire.external("w.bin", at, 16)) for name, at in (("a", 0), ("b", 8))
    ]
    graph = wire.graph([wire.node("Add", ["a", "b"], ["y"])], weights, [], [("y", wire.FLOAT, [4])])
    (tmp_path / "m.onnx").write_bytes(wire.model(graph))
    (tmp_path / "w.bin").write_bytes(bytes(64))
    done = weir("check", tmp_path / "m.onnx")
    assert "overlap" in done.out
