"""Verification site by site takes the memory of the largest site, whatever the size of the model; the control arm, whole models,
takes the model's.

Peaks are VmHWM, of weir and of the runtime's process, as the report says them.
"""

import json
import shutil

import pytest

import make_encoder
from conftest import ALL

MIB = 1 << 20
LARGE = 24_000_000_000 if ALL else 2_400_000_000
PASSES = ["--pass", "conv2matmul", "--pass", "quantize:block_size=64"]


@pytest.fixture(scope="module")
def logs(weir, large_folder):
    """Encoders of full width, nearly all of them holes, and the log of a run that writes nothing: {size: (model, log)}"""
    made = {}
    for size in (200_000_000, LARGE):
        folder = large_folder / f"verified-{size}"
        folder.mkdir()
        model, log = folder / "encoder-model.onnx", folder / "edits.jsonl"
        make_encoder.make_encoder(model, make_encoder.Shape(), size=size, sparse=True)
        weir("run", model, folder / "none.onnx", *PASSES, "--io", "null", "--edit-log", log)
        made[size] = model, log
    yield made
    for model, _ in made.values():
        shutil.rmtree(model.parent)


def peaks_of(weir, *words):
    found = json.loads(weir("verify", *words, "--json").out)["verification"]
    assert found["passed"] == len(found["rows"]) > 0
    return found["peak_memory_bytes"], found["runtime_peak_memory_bytes"]


@pytest.mark.slow
def test_sites_take_the_memory_of_one(weir, logs):
    """0.2 and 2.4 GB (24 with --all): the runtime has the largest site, and weir the index."""
    runtime = {}
    for size, (model, log) in logs.items():
        ours, runtime[size] = peaks_of(weir, model, "--edits", log, "--sites", "12", "--metric", "max_abs=1", "--jobs", "1")
        assert ours < 64 * MIB + 8 * (model.stat().st_size), (size, ours)
        assert ours + runtime[size] < 300 * MIB, (size, ours, runtime[size])
    small, large = runtime.values()
    assert abs(large - small) < 32 * MIB, runtime


@pytest.mark.slow
def test_whole_models_take_the_memory_of_the_model(weir, logs):
    """The control arm: what the bound of sites would not let through."""
    model, log = logs[200_000_000]
    _, sites = peaks_of(weir, model, "--edits", log, "--sites", "12", "--metric", "max_abs=1", "--jobs", "1")
    _, whole = peaks_of(weir, model, model, "--max-abs", "1")
    assert whole > 200 * MIB > sites, (whole, sites)
