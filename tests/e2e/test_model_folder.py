"""`weir inspect DIR` and `weir check DIR`: folders of models as they are shipped, and what the commands that take one model say of them."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import as_user
from test_documents import is_valid

WEIGHT = np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024)


def product(path, weight="w", location=None, offset=0, input_name="x"):
    """x · w, its weight in a data file if a location is given; the data file is somebody else's to write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensor = numpy_helper.from_array(WEIGHT, weight)
    if location:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", WEIGHT.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, d]) for n, d in (("x", 64), ("y", 1024))]
    graph = helper.make_graph([helper.make_node("MatMul", [input_name, weight], ["y"], name="m")], "g", io[:1], io[1:], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def bundle(tmp_path):
    """Two models with one data file, one in a folder with a file of its own, one inline; a page, a list, what is hidden."""
    here = tmp_path / "bundle"
    product(here / "encoder.onnx", location="shared.data")
    product(here / "decoder.onnx", location="shared.data")
    product(here / "onnx" / "joint.onnx", location="joint.onnx.data", offset=4096)
    product(here / "tiny.onnx")
    (here / "shared.data").write_bytes(WEIGHT.tobytes())
    (here / "onnx" / "joint.onnx.data").write_bytes(bytes(4096) + WEIGHT.tobytes())
    (here / "page.onnx").write_text("<!DOCTYPE html><html></html>")
    (here / "vocab.txt").write_text("a b c")
    (here / ".cache").mkdir()
    (here / ".cache" / "old.onnx").write_text("nothing")
    return here


def sizes(folder, *names):
    return sum((folder / name).stat().st_size for name in names)


def test_models_of_a_folder(weir, bundle):
    said = is_valid(weir("inspect", bundle, "--json").json(), "inspect")
    assert said["model"] == str(bundle)
    folder = said["folder"]
    assert [each["path"] for each in folder["models"]] == ["decoder.onnx", "encoder.onnx", "onnx/joint.onnx", "tiny.onnx"]
    for each in folder["models"]:
        files = [file["path"] for file in each["files"]]
        assert files[0] == each["path"] and each["bytes"] == sizes(bundle, *files)
        assert [file["shared"] for file in each["files"]] == [False] + ["shared" in name for name in files[1:]]
    all_files = ["decoder.onnx", "encoder.onnx", "tiny.onnx", "shared.data", "onnx/joint.onnx", "onnx/joint.onnx.data"]
    assert (folder["files"], folder["bytes"]) == (6, sizes(bundle, *all_files))
    assert folder["unreferenced"] == [{"path": "vocab.txt", "bytes": 5}]
    [skipped] = folder["skipped"]
    assert skipped["path"] == "page.onnx" and "web page" in skipped["why"]


def test_what_weir_wrote_is_known(weir, bundle, tmp_path):
    """By a name next to its model, or by its beginning; a name without a model, or a beginning that only resembles one, is another file."""
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
    weir("convert", bundle / "tiny.onnx", bundle / "out" / "t.onnx", "--tensor-digests", "--edit-log", bundle / "log", "--report-json", bundle / "r.json",
         "--report-html", bundle / "r.html", "--provenance", bundle / "p")
    weir("sign", bundle / "out" / "t.onnx", "--key", key)
    weir("calibrate", bundle / "tiny.onnx", "-o", bundle / "ranges", "--generate", "1")
    theirs = {"gone.onnx.manifest.json": "{}", "out/t.sig": "", "s.json": '{"schema": 1, "commands": []}', "empty": "", "page.html": "<!doctype html><html></html>"}
    for name, text in theirs.items():
        (bundle / name).write_text(text)
    folder = is_valid(weir("inspect", bundle, "--json").json(), "inspect")["folder"]
    kinds = {"log": "edit log", "out/t.onnx.manifest.json": "manifest", "out/t.onnx.sig": "signature", "out/t.onnx.tensors.jsonl": "tensor digests",
             "p": "provenance", "r.html": "page", "r.json": "report", "ranges": "ranges"}
    assert {each["path"]: each["kind"] for each in folder["records"]} == kinds
    assert {each["path"] for each in folder["unreferenced"]} == {*theirs, "vocab.txt"}
    text = weir("check", bundle, code=65).out
    ours, others = text.split("\nFiles of weir next to them\n")[1].split("\nFiles that no model refers to\n")
    assert "out/t.onnx.manifest.json (manifest)\n" in ours and "log (edit log)\n" in ours and "vocab" not in ours and "log" not in others


def test_lines_of_a_folder(weir, bundle):
    lines = weir("inspect", bundle).out.splitlines()
    assert [line.split()[2] for line in lines[:4]] == ["decoder.onnx", "encoder.onnx", "onnx/joint.onnx", "tiny.onnx"]
    assert lines[0].endswith("+ shared.data (262 kB, shared)") and lines[2].endswith("+ joint.onnx.data (266 kB)")
    assert lines[4].endswith("in all: 4 models in 6 files; 1 file of several models, counted once")
    assert "Files that no model refers to" in lines and lines[-1] == "5 bytes    vocab.txt"
    assert any(line.startswith("  page.onnx: ") for line in lines)
    assert weir("inspect", ".", cwd=bundle).out.splitlines() == [line.replace(str(bundle) + "/", "./") for line in lines]
    assert weir("inspect", f"{bundle}/").out.splitlines() == lines


def test_one_file_of_several_names_counts_once(weir, bundle):
    """As in a Hugging Face cache, where every name is a link to a blob."""
    (bundle / "blob").write_bytes(WEIGHT.tobytes())
    for name in ("a.data", "b.data"):
        os.link(bundle / "blob", bundle / name)
    os.symlink("tiny.onnx", bundle / "again.onnx")
    os.symlink(".", bundle / "loop")
    product(bundle / "a.onnx", location="a.data")
    product(bundle / "b.onnx", location="b.data")
    folder = weir("inspect", bundle, "--allow-links", "--json").json()["folder"]
    found = {each["path"]: each for each in folder["models"]}
    assert found["a.onnx"]["files"][1]["shared"] and found["again.onnx"]["files"][0]["shared"]
    assert not any(name.startswith("loop") for name in found)
    before = sizes(bundle, "decoder.onnx", "encoder.onnx", "tiny.onnx", "shared.data", "onnx/joint.onnx", "onnx/joint.onnx.data")
    assert folder["bytes"] == before + sizes(bundle, "a.onnx", "b.onnx", "blob")
    assert [each["path"] for each in folder["unreferenced"]] == ["vocab.txt"]
    refused = weir("inspect", bundle, "--json").json()["folder"]["models"]
    assert "--allow-links" in weir("inspect", bundle / "a.onnx").out
    assert [each["files"][1]["unreadable"] for each in refused if each["path"] == "a.onnx"] != [None]


def test_what_is_missing(weir, bundle):
    (bundle / "shared.data").unlink()
    said = weir("inspect", bundle)
    assert said.out.count("+ shared.data (missing)") == 2
    folder = weir("inspect", bundle, "--json").json()["folder"]
    assert folder["files"] == 5 and folder["models"][0]["files"][1]["missing"] is True
    checked = weir("check", bundle, code=65)  # page.onnx is malformed
    assert checked.out.count("error: ") == 3
    (bundle / "page.onnx").unlink()
    weir("check", bundle, code=66)


def test_faults_of_a_folder(weir, bundle):
    product(bundle / "broken.onnx", input_name="nothing")
    said = is_valid(weir("check", bundle, "--json", code=65).json(), "check")
    assert {(each["model"], each["level"]) for each in said["faults"]} >= {("broken.onnx", "error"), ("page.onnx", "error")}
    found = {each["path"]: each["errors"] for each in said["folder"]["models"]}
    assert found["tiny.onnx"] == 0 and found["broken.onnx"] == 1
    assert said["errors"] == sum(found.values()) + sum(each["path"] not in found for each in said["folder"]["skipped"])
    text = weir("check", bundle, code=65).out
    assert "error: broken.onnx: " in text and text.splitlines()[-1] == f"{bundle}: 2 errors, 0 warnings, 1 note"
    assert [line for line in text.splitlines() if " broken.onnx: 1 error, 0 warnings, 0 notes" in line]
    alone = weir("check", bundle / "broken.onnx", code=65).out
    for line in alone.splitlines()[:-1]:
        assert line.replace("error: ", "error: broken.onnx: ") in text
    for name in ("broken.onnx", "page.onnx"):
        (bundle / name).unlink()
    assert weir("check", bundle).out.endswith(f"{bundle}: 0 errors, 0 warnings, 1 note\n")


def test_no_models(weir, tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    for command in ("inspect", "check"):
        assert "no .onnx files in" in weir(command, tmp_path, code=66).err
    (tmp_path / "page.onnx").write_text("<!DOCTYPE html><html></html>")
    said = weir("inspect", tmp_path, code=65)
    assert said.out == "" and "page.onnx" in said.err
    for option in ("--tensors", "--tree", "--shapes", "--values"):
        assert f"{option} needs one model" in weir("inspect", tmp_path, option, code=2).err


def test_what_cannot_be_looked_at_is_said(weir, bundle, tmp_path):
    """A model behind a path that is too long, or that a link names and is not there, is not passed over in silence."""
    inside, deep = os.getcwd(), tmp_path / "deep"
    product(deep / "a.onnx")
    try:
        os.chdir(deep)
        for _ in range(25):
            os.mkdir("y" * 200)
            os.chdir("y" * 200)
        Path("b.onnx").write_bytes((deep / "a.onnx").read_bytes())
    finally:
        os.chdir(inside)
    for command in ("inspect", "check"):
        said = weir(command, deep, code=66)
        assert "cannot be read: File name too long" in said.err
    (bundle / "page.onnx").unlink()
    os.symlink("blobs/4f6d", bundle / "model.onnx")
    os.symlink("blobs/4f6e", bundle / "notes.txt")
    assert "  model.onnx: " in weir("inspect", bundle).out
    faults = weir("check", bundle, "--json", code=66).json()["faults"]
    assert [each["model"] for each in faults if each["level"] == "error"] == ["model.onnx"]


def test_a_folder_that_may_be_listed_but_not_entered(bundle, tmp_path):
    """Its names are known, and nothing else: that is no folder without models."""
    words = as_user(tmp_path, bundle / "onnx" / "joint.onnx")
    if words is None:
        pytest.skip("root looks at everything, and setpriv is not installed")
    (bundle / "onnx").chmod(0o444)
    try:
        for folder in (bundle, bundle / "onnx"):
            done = subprocess.run([*words, "inspect", folder], capture_output=True, text=True)
            assert done.returncode == 77 and "cannot be read: Permission denied" in done.stderr, done.stdout
    finally:
        (bundle / "onnx").chmod(0o755)


def test_names_are_counted_as_they_come(weir, tmp_path):
    """A folder of very many names is left before all of them are in memory; so is one of names that are no files."""
    os.mkdir(tmp_path / "many")
    for i in range(100001):
        os.symlink(".", tmp_path / "many" / str(i))
    assert "more than 100000 files are below" in weir("inspect", tmp_path / "many", code=66).err


def test_names_cannot_steer_a_terminal(weir, bundle):
    (bundle / "no\x1b[31mte").write_text("x")
    product(bundle / "od\nd.onnx")
    out = weir("inspect", bundle).out
    assert "\x1b" not in out and "od\nd" not in out


def test_commands_of_one_manifest_say_which(weir, bundle, tmp_path):
    for command in ("audit", "rebuild"):
        words = ["--source", bundle / "tiny.onnx"] if command == "rebuild" else []
        assert "no model in it has a manifest" in weir(command, bundle, *words, code=66).err
    out = tmp_path / "out dir"
    out.mkdir()
    for name in ("b", "a"):
        weir("convert", bundle / "tiny.onnx", out / f"{name}.onnx")
    said = weir("audit", out, code=66).err
    assert f"'{out}' is a folder" in said and f"2 models in it have a manifest; give one at a time: weir audit '{out}/a.onnx'" in said
    assert weir("audit", out / "a.onnx").out
    records = {each["path"] for each in json.loads(weir("inspect", out, "--json").out)["folder"]["records"]}
    assert records == {Path(f"{name}.onnx.manifest.json").name for name in "ab"}
