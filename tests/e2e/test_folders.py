"""The folder of the output: which one is made, when it goes again, and that a dry run says so."""

import os
import shutil
import subprocess

import pytest

from conftest import as_user
from test_cli_contract import same_refusal
from test_shrink_command import HALF, matmul, names


@pytest.fixture
def model(tmp_path):
    return matmul(tmp_path / "a.onnx")


def test_a_missing_folder_is_made(weir, tmp_path, model):
    out = tmp_path / "new" / "out.onnx"
    dry = weir("convert", model, out, "--dry-run")
    assert f"folder: '{tmp_path}' is writable (the nearest existing one; the run creates the output's folder)" in dry.out
    assert names(tmp_path) == ["a.onnx"]
    weir("convert", model, out)
    assert names(tmp_path / "new") == ["out.onnx"]
    weir("convert", "a.onnx", "further/out.onnx", cwd=tmp_path)
    weir("convert", "a.onnx", "slash//out.onnx", cwd=tmp_path)
    assert names(tmp_path / "further") == names(tmp_path / "slash") == ["out.onnx"]


def test_records_in_the_folder_that_is_made(weir, tmp_path, model):
    weir("convert", model, tmp_path / "new" / "out.onnx", "--report-json", tmp_path / "new" / "report.json")
    assert names(tmp_path / "new") == ["out.onnx", "report.json"]


@pytest.mark.parametrize("fault", [["--io", "null"], ["--edit-log", "missing/log.jsonl"], ["--budget"]])
def test_a_folder_made_for_nothing_goes_again(weir, tmp_path, model, fault):
    """Also where the failure comes after it was made; not where it was there before, or something lies in it."""
    if fault == ["--budget"]:
        words = ["quantize", model, tmp_path / "new" / "out.onnx", "--budget", "1"]
    else:
        words = ["convert", model, tmp_path / "new" / "out.onnx", *fault]
    weir(*words, code=None)
    assert names(tmp_path) == ["a.onnx"]
    (tmp_path / "new").mkdir()
    weir(*words, code=None)
    assert names(tmp_path) == ["a.onnx", "new"]


def test_whatever_fails_no_empty_folder_stays(weir_fault, tmp_path, model):
    """Every change to the file system fails once; what can be resumed keeps its folder, and no other run does."""
    failed, kept = 0, 0
    for number in range(1, 31):
        here = tmp_path / str(number)
        here.mkdir()
        done = weir_fault("convert", model, here / "new" / "out.onnx", env={"WEIR_FAULT": f"EIO:*:{number}"}, code=None)
        assert not (here / "new").exists() or os.listdir(here / "new") != [], number
        failed += done.code != 0
        kept += done.code != 0 and (here / "new").exists()
    assert 0 < kept < failed


def test_one_folder_is_made_and_no_tree(weir, tmp_path, model):
    words = ["convert", model, tmp_path / "a b" / "c" / "out.onnx"]
    same_refusal(weir, words, 2)
    assert f"hint: create it first: mkdir -p '{tmp_path}/a b/c'\n" in weir(*words, code=2).err
    assert names(tmp_path) == ["a.onnx"]
    (tmp_path / "file").write_bytes(b"")
    same = weir("convert", model, tmp_path / "file" / "out.onnx", "--dry-run", code=2)
    assert "would write" in same.out and "cannot be opened: Not a directory" in same.err


@pytest.mark.parametrize("behind", ["out.onnx", "", "sub/out.onnx"])
def test_a_link_that_leads_nowhere_is_no_folder_to_make(weir, tmp_path, model, behind):
    (tmp_path / "link").symlink_to("nowhere")
    words = ["convert", model, f"{tmp_path}/link/{behind}"]
    same_refusal(weir, words, 2)
    said = weir(*words, code=2).err
    assert f"the output's folder '{tmp_path}/link' is a link to 'nowhere', which does not exist\nhint: create that folder, " in said
    folder = f"{tmp_path}/link/{behind}"
    assert "is a link to 'nowhere'" in weir("shrink", model, "--output-dir", folder, code=2).err
    assert names(tmp_path) == ["a.onnx", "link"]
    (tmp_path / "nowhere").mkdir()
    if behind != "sub/out.onnx":
        weir(*words)


def test_a_folder_that_cannot_be_made(tmp_path, model):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    words = as_user(tmp_path, model)
    if words is None:
        pytest.skip("root may write everywhere, and setpriv is not installed")
    words += ["convert", os.fspath(model), os.fspath(closed / "new" / "out.onnx")]
    real = subprocess.run(words, capture_output=True, text=True)
    dry = subprocess.run([*words, "--dry-run"], capture_output=True, text=True)
    assert real.returncode == dry.returncode == 77 and real.stderr == dry.stderr and "cannot be created" in real.stderr
    assert "would write" in dry.stdout and "this would fail with exit code 77" in dry.stdout


def test_the_dry_run_of_a_missing_tree_has_figures(weir, tmp_path, model):
    done = weir("convert", model, tmp_path / "x" / "y" / "out.onnx", "--dry-run", "--json", code=2)
    assert done.json()["weir"]["refusal"]["exit_code"] == 2 and done.json()["weir"]["output"][0]["size"] > 0


# ---- weir shrink, which makes names


def test_output_dir_with_a_slash_behind_its_name(weir, tmp_path, model):
    said = weir("shrink", model, "--output-dir", f"{tmp_path}/new/").out
    assert f"{tmp_path}/new/a_quantized_weights.onnx" in said and "//" not in said


def test_output_dir_goes_again_too(weir, tmp_path, model):
    (tmp_path / "bad.onnx").write_bytes(b"no model at all")
    weir("shrink", tmp_path / "bad.onnx", "--output-dir", tmp_path / "x" / "y", code=65)
    assert names(tmp_path) == ["a.onnx", "bad.onnx"]
    (tmp_path / "x").mkdir()
    weir("shrink", tmp_path / "bad.onnx", "--output-dir", f"{tmp_path}/x//y/", code=65)
    assert names(tmp_path) == ["a.onnx", "bad.onnx", "x"] and names(tmp_path / "x") == []
    weir("shrink", model, "--method", "f16_to_f32", "--output-dir", tmp_path / "x" / "y")
    assert names(tmp_path / "x" / "y") == [f"a{HALF}"]


def test_in_and_out_are_no_two_inputs(weir, tmp_path, model):
    done = weir("shrink", "a.onnx", "it's.onnx", code=66, cwd=tmp_path)
    assert done.err.endswith("hint: is it the output? weir shrink a.onnx -o 'it'\\''s.onnx'\n") and done.out == ""
    assert "--output-dir out/" in weir("shrink", "a.onnx", "out/", code=66, cwd=tmp_path).err
    assert names(tmp_path) == ["a.onnx"]
    shutil.copy(model, tmp_path / "it's.onnx")
    weir("shrink", "a.onnx", "it's.onnx", "--method", "f16_to_f32", cwd=tmp_path)


def test_many_models_end_with_a_count_and_in_order(weir, tmp_path, model):
    """Standard output and standard error in one log: every line stands behind those that were said before it."""
    (tmp_path / "b.onnx").write_bytes(b"no model at all")
    matmul(tmp_path / "c.onnx")
    (tmp_path / f"d{HALF}").write_bytes(b"")
    words = [weir.path, "shrink", os.fspath(tmp_path), "--method", "f16_to_f32"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 65
    lines = done.stdout.splitlines()
    assert lines[-1] == "weir: 2 written, 1 failed, 1 skipped"
    places = [next(i for i, line in enumerate(lines) if text in line) for text in ("skipped", "a.onnx ->", "b.onnx ->", "weir: error", "c.onnx ->")]
    assert places == sorted(places) and len(set(places)) == 5
    again = weir("shrink", tmp_path, "--method", "f16_to_f32", "--resume", code=65)
    assert again.err.endswith("weir: 0 written, 1 failed, 5 skipped\n")
    assert "written" not in weir("shrink", model, "--method", "f16_to_f32", "-o", tmp_path / "x.onnx").err
