"""The small exports of tests/data/exports are what PyTorch computed: each agrees with the numbers beside it."""

import numpy as np
import onnxruntime as ort
import pytest

from conftest import DATA

EXPORTS = sorted((DATA / "exports").glob("*.onnx"))


def test_there_are_exports_of_both_exporters():
    assert {path.stem.split("-")[2] for path in EXPORTS} == {"dynamo", "torchscript"}
    assert {path.stem.split("-")[0] for path in EXPORTS} == {path.stem for path in (DATA / "exports").glob("*.npz")}


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.stem)
def test_an_export_agrees_with_pytorch(path):
    numbers = np.load(path.with_name(path.stem.split("-")[0] + ".npz"))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for label in ("first", "second"):
        given = {each.name: numbers[f"{label}.{each.name}"] for each in session.get_inputs()}
        [y], expected = session.run(None, given), numbers[f"{label}.y"]
        assert y.shape == expected.shape and np.abs(y - expected).max() <= 1e-5 * np.abs(expected).max()
