"""`weir finalize --verify`: what members made is run beside its source before it is put in place."""

import json
import shutil

import pytest

from conftest import DATA, records_last
from test_documents import is_valid

pytestmark = pytest.mark.in_memory
SOURCE = DATA / "parakeet-torchscript" / "encoder-model.onnx"
PASSES = ["--pass", "conv2matmul", "--pass", "quantize:block_size=32"]


@pytest.fixture
def made(weir, tmp_path):
    """A plan whose units are all there, and its log."""
    weir("plan", SOURCE, tmp_path / "out.onnx", *PASSES, "--edit-log", tmp_path / "edits.jsonl")
    [plan] = tmp_path.glob(".out.onnx.*.weir")
    weir("shard", plan, "--count", "1")
    return plan


def test_the_whole_model(weir, tmp_path, made):
    said = weir("finalize", made, "--verify").out
    assert "not judged (drawn inputs: --verify-inputs DIR): 1 of 1 output" in said and f"wrote {tmp_path}/out.onnx" in said
    again = weir("finalize", made, "--verify")
    assert "in place already" in again.out and "nothing was verified: the output was in place already" in again.err


def test_sites(weir, tmp_path, made):
    said = is_valid(weir("finalize", made, "--verify", "--edits", tmp_path / "edits.jsonl", "--verify-require", "100%", "--json").json(), "finalize")
    found = said["verification"]
    assert found["scope"] == "sites" and found["passed"] > 20 and found["failed"] == found["not_verified"] == 0


def test_both(weir, tmp_path, made):
    said = weir("finalize", made, "--verify=all", "--edits", tmp_path / "edits.jsonl", "--jobs", "1", "--memory", "64MiB", "--json").json()
    assert said["verification"]["scope"] == "all" and {row["name"] for row in said["verification"]["rows"]} > {"outputs"}


def test_bounds_that_are_not_met(weir, tmp_path, made):
    """Nothing is put in place, the plan stays, and can still be finalized."""
    done = weir("finalize", made, "--verify", "--verify-metric", "cosine=1", code=1)
    assert "verification failed" in done.err and "failed" in done.out and "outputs" in done.out
    assert not (tmp_path / "out.onnx").exists() and made.exists()
    weir("finalize", made)
    assert (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("edits", [False, True])
def test_the_bytes_that_were_made_are_verified(weir, tmp_path, made, edits):
    """A weight that rotted in the plan's folder before it was recorded: by its model, and by its site."""
    data = made / "out.onnx.data"
    data.write_bytes(bytes(byte ^ 0x88 for byte in data.read_bytes()))
    records_last(made)
    more = ["--edits", tmp_path / "edits.jsonl"] if edits else ["--verify-metric", "sqnr=35"]
    weir("finalize", made, "--verify", *more, code=1)
    assert not (tmp_path / "out.onnx").exists()


def test_what_does_not_fit(weir, tmp_path, made):
    log = tmp_path / "edits.jsonl"
    assert "--verify=sites needs --edits" in weir("finalize", made, "--verify=sites", code=2).err
    assert "has no effect without --verify" in weir("finalize", made, "--edits", log, code=2).err
    assert "--verify-seed has no effect without --verify" in weir("finalize", made, "--verify-seed", "3", code=2).err
    assert "must be a file" in weir("finalize", made, "--verify", "--edits", "-", code=2).err
    assert "there is no edit log" in weir("finalize", made, "--verify", "--edits", tmp_path / "no", code=66).err
    log.write_text(log.read_text() + "\n")
    assert "is not the edit log of this plan" in weir("finalize", made, "--verify", "--edits", log, code=66).err
    assert weir("finalize", made, "--verify", "--onnxruntime", tmp_path / "no.so", code=69).err
    assert made.exists() and not (tmp_path / "out.onnx").exists()
    assert "'weir finalize --verify' verifies the output" in weir("plan", SOURCE, tmp_path / "p.onnx", *PASSES, "--verify", code=2).err
    weir("plan", SOURCE, tmp_path / "null.onnx", *PASSES, "--io", "null")
    [null] = tmp_path.glob(".null.onnx.*.weir")
    weir("shard", null, "--count", "1")
    assert "there is nothing to verify" in weir("finalize", null, "--verify", code=2).err


def test_units_that_are_missing_come_first(weir, tmp_path):
    """Before a model is run."""
    weir("plan", SOURCE, tmp_path / "out.onnx", *PASSES)
    [plan] = tmp_path.glob(".out.onnx.*.weir")
    assert "units are missing" in weir("finalize", plan, "--verify", code=75).err


def test_another_place_of_the_source(weir, tmp_path):
    """--source-dir: that is the model that is run."""
    there = tmp_path / "there"
    shutil.copytree(SOURCE.parent, there)
    weir("plan", there / SOURCE.name, tmp_path / "out.onnx", *PASSES)
    [plan] = tmp_path.glob(".out.onnx.*.weir")
    weir("shard", plan, "--count", "1")
    there.rename(tmp_path / "moved")
    assert json.loads(weir("finalize", plan, "--source-dir", tmp_path / "moved", "--verify", "--json").out)["verification"]["not_judged"] == 1
