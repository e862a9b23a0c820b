"""Weights of equal bytes: each is told by its name, with the bytes that are stored for it.

Those of at most 1 KiB, and those that lie at one place of a data file, are known to be equal without a look.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

N = 6
NAMES = [f"w{i}" for i in range(N)]


def chain(tensors, path, twice=None):
    """x @ w0 @ w1 …; the weight `twice` is taken once more at the end."""
    used = [t.name for t in tensors] + ([twice] if twice else [])
    nodes = [helper.make_node("MatMul", [f"v{i}", w], [f"v{i + 1}"], f"mm{i}") for i, w in enumerate(used)]
    dim = tensors[0].dims[0]
    io = [helper.make_tensor_value_info(v, TensorProto.FLOAT, ["n", dim]) for v in ("v0", f"v{len(used)}")]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def external(name, dim):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[dim, dim])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.data"), ("offset", 0), ("length", 4 * dim * dim)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return tensor


def equal_weights(folder, dim, shared):
    values = np.random.default_rng(3).standard_normal((dim, dim)).astype(np.float32)
    if shared:
        values.tofile(folder / "w.data")
    make = (lambda name: external(name, dim)) if shared else (lambda name: numpy_helper.from_array(values, name))
    return chain([make(name) for name in NAMES], folder / "m.onnx", twice="w2")


@pytest.fixture(params=[(16, False), (17, False), (128, True)], ids=["small", "large", "one place"])
def model(request, tmp_path):
    return equal_weights(tmp_path, *request.param)


def each_is_told(weir, model, out, form, did, uses, names=()):
    """`names`: of the tensors that a weight becomes."""
    words = ["run", model, out, "--pass", form]
    assert f"of memory: {N} weights {did}" in weir(*words).said
    (step,) = weir.report(*words, "--force")["passes"]
    rows = step["tensors"]
    assert [row["name"] for row in rows] == NAMES
    assert [row["uses"] for row in rows] == [uses if name == "w2" else 1 for name in NAMES]
    assert [row["layer"] for row in rows] == [f"mm{i}" for i in range(N)]
    assert len({str(row["error"]) for row in rows}) == 1 and rows[0]["error"]["sqnr_db"] > 10
    made = {t.name: numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer}
    for row in rows if names else []:
        assert row["bytes_after"] == sum(made[name.format(row["name"])].nbytes for name in names)


@pytest.mark.parametrize(
    "form, did, uses, names",
    [
        ("quantize:block_size=16", "quantized", 2, ["{}_Q4", "{}_scales", "{}_zero_points"]),
        ("quantize:block_size=16,format=qdq", "quantized", 2, ()),
        ("cast:to=float16,min_elements=1", "cast", 1, ["{}_float16"]),
    ],
)
def test_each_is_told(weir, model, tmp_path, form, did, uses, names):
    each_is_told(weir, model, tmp_path / "out.onnx", form, did, uses, names)


@pytest.mark.parametrize("form", ["shrink", "shrink:form=dequantize,per_channel=true", "shrink:method=float_weights"])
def test_shrink_tells_each(weir, tmp_path, form):
    """It takes none of 1 KiB: only where they lie are they known to be equal."""
    each_is_told(weir, equal_weights(tmp_path, 128, True), tmp_path / "out.onnx", form, "quantized", 1)


def test_measure_lists_each(weir, model):
    found = weir("measure", model, "--candidates", "4:16,8:16", "--json").json()
    assert [w["name"] for w in found["weights"]] == NAMES
    assert [w["layer"] for w in found["weights"]] == [f"mm{i}" for i in range(N)]
    assert len({str(w["candidates"]) for w in found["weights"]}) == 1
    for i, total in enumerate(found["totals"]):
        assert total["bytes"] == sum(w["candidates"][i]["bytes"] for w in found["weights"])
    said = weir("measure", model, "--candidates", "4:16").out
    assert f"{N} weights, " in said.splitlines()[-1]


def test_a_gate_names_each(weir, model, tmp_path):
    gate = ["quantize", model, tmp_path / "o.onnx", "--block-size", "16", "--gate", "sqnr=200dB"]
    failed = weir(*gate, "--gate-action", "fail", code=1).err
    assert f"{N} of {N} weights miss the gate" in failed and all(f"'mm{i}' (" in failed for i in range(N))
    raised = weir(*gate).err
    assert all(raised.count(f"'mm{i}' misses the gate with 8 bits too") == 1 for i in range(N))


def test_steps_of_a_pipeline_take_their_own(weir, model, tmp_path):
    """Weights that one step took are not those that another took, though their codes are the same."""
    steps = ["--pass", "quantize:block_size=16,include=w0", "--pass", "quantize:block_size=16,include=w1"]
    first, second = weir.report("run", model, tmp_path / "o.onnx", *steps)["passes"]
    assert [row["name"] for row in first["tensors"]] == ["w0"]
    assert [row["name"] for row in second["tensors"]] == ["w1"]


def test_a_budget_reports_each(weir, model, tmp_path):
    budget = (tmp_path / "m.onnx").stat().st_size + 64_000
    options = ["--budget", str(budget), "--candidates", "4:16,8:16"]
    (step,) = weir.report("quantize", model, tmp_path / "o.onnx", *options)["passes"]
    assert [row["name"] for row in step["tensors"]] == NAMES
    assert {row["scheme"]["bits"] for row in step["tensors"]} == {8}
