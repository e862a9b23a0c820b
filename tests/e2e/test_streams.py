"""`-` in the place of a path: standard input and output for records, logs and pipelines; never for a model."""

import json
import subprocess

import pytest

from test_shrink_command import matmul, names

PIPELINE = b"passes:\n  - cast: {to: float16}\n"


@pytest.fixture
def model(tmp_path):
    return matmul(tmp_path / "a.onnx", "float32")


def through(weir, folder, text, *words, code=0):
    done = subprocess.run([weir.path, *words], input=text, capture_output=True, cwd=folder)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "-"],
        ["check", "-"],
        ["audit", "-"],
        ["measure", "-"],
        ["convert", "-", "b.onnx"],
        ["convert", "a.onnx", "-"],
        ["convert", "a.onnx", "-o", "-"],
        ["shrink", "a.onnx", "-"],
        ["replay", "log.jsonl", "-", "b.onnx"],
        ["convert", "a.onnx", "b.onnx", "--plan-out", "-"],
    ],
)
def test_models_and_plans_are_no_streams(weir, tmp_path, model, words):
    said = weir(*words, code=2, cwd=tmp_path).err
    assert "./-" in said and names(tmp_path) == ["a.onnx"]


def test_a_file_of_that_name(weir, tmp_path, model):
    weir("convert", "a.onnx", "./-", cwd=tmp_path)
    assert names(tmp_path) == ["-", "a.onnx"]
    weir("convert", "./-", "./c.onnx", "--report-json", "./d", "--edit-log", "./e", cwd=tmp_path)
    weir("inspect", "./-", cwd=tmp_path)
    assert names(tmp_path) == ["-", "a.onnx", "c.onnx", "d", "e"]


def test_report_on_standard_output(weir, tmp_path, model):
    """It stands alone there, and no file is made."""
    said = weir("convert", "a.onnx", "b.onnx", "--report-json", "-", cwd=tmp_path).json()
    assert said["command"] == "convert" and names(tmp_path) == ["a.onnx", "b.onnx"]
    assert weir("convert", "a.onnx", "c.onnx", "--report-json", "-", "--dry-run", cwd=tmp_path).json()["weir"]["dry_run"]


def test_log_on_standard_output_and_back(weir, tmp_path, model):
    log = weir("cast", "a.onnx", "b.onnx", "--to", "float16", "--edit-log", "-", cwd=tmp_path).out
    weir("cast", "a.onnx", "c.onnx", "--to", "float16", "--edit-log", "log.jsonl", cwd=tmp_path)
    assert all("edit" in json.loads(line) or "weir" in line for line in log.splitlines())
    assert log.replace("b.onnx", "c.onnx").splitlines()[:-1] == (tmp_path / "log.jsonl").read_text().splitlines()[:-1]
    (tmp_path / "out").mkdir()
    through(weir, tmp_path, log.encode(), "replay", "-", "a.onnx", "out/b.onnx")
    assert (tmp_path / "out" / "b.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert b"'-'" in through(weir, tmp_path, b"", "replay", "-", "a.onnx", "d.onnx", code=65).stderr


def test_pipeline_from_standard_input(weir, tmp_path, model):
    through(weir, tmp_path, PIPELINE, "run", "a.onnx", "b.onnx", "--config", "-")
    weir("cast", "a.onnx", "c.onnx", "--to", "float16", cwd=tmp_path)
    assert (tmp_path / "b.onnx").read_bytes() == (tmp_path / "c.onnx").read_bytes()
    assert b"-:1:" in through(weir, tmp_path, b"passes: 3", "run", "a.onnx", "d.onnx", "--config", "-", code=2).stderr


@pytest.mark.parametrize(
    "words", [["--json", "--report-json", "-"], ["--report-json", "-", "--edit-log", "-"], ["--json", "--edit-log", "-"]]
)
def test_one_text_on_standard_output(weir, tmp_path, model, words):
    assert "standard output" in weir("convert", "a.onnx", "b.onnx", *words, code=2, cwd=tmp_path).err
    assert names(tmp_path) == ["a.onnx"]


def test_a_reader_that_goes_away_stops_no_run(weir, tmp_path, model):
    words = [weir.path, "convert", "a.onnx", "b.onnx", "--report-json", "-"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as run:
        run.stdout.close()
    assert run.returncode == 0 and names(tmp_path) == ["a.onnx", "b.onnx"]


def test_a_full_disk_behind_it_is_said(weir, tmp_path, model):
    with open("/dev/full", "wb") as full:
        words = [weir.path, "convert", "a.onnx", "b.onnx", "--report-json", "-"]
        done = subprocess.run(words, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 73 and b"standard output" in done.stderr
