"""`shrink --per-channel`: the axis that onnx_shrink_ray takes, and its tensors, byte for byte."""

import itertools
import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_shrink_ray import shrink as reference

import compare
from conftest import package_model

SHAPES = [(200, 130), (130, 200), (64, 32, 3, 3), (48, 40, 20), (4, 50, 5, 30), (20000,), (1, 20000), (16384, 1)]


def weights(dtype, seed=3):
    """Every shape with scales that differ along each of its axes, and along none."""
    random, found = np.random.default_rng(seed), {}
    for number, shape in enumerate(SHAPES):
        for axis in (*range(len(shape)), None):
            w = random.standard_normal(shape)
            if axis is not None:
                w *= np.exp(random.standard_normal([n if i == axis else 1 for i, n in enumerate(shape)]))
            found[f"w{number}_{axis}"] = w.astype(dtype)
    constant = np.full((300, 70), 0.25, dtype)
    constant[:, ::2] = random.standard_normal((300, 35))  # channels without a range
    found["constant"] = constant
    return found


def save(values, path):
    outputs = [helper.make_tensor_value_info(f"y_{n}", helper.np_dtype_to_tensor_dtype(w.dtype), w.shape) for n, w in values.items()]
    nodes = [helper.make_node("Add", [n, n], [f"y_{n}"], name=f"add_{n}") for n in values]
    tensors = [numpy_helper.from_array(w, n) for n, w in values.items()]
    graph = helper.make_graph(nodes, "g", [], outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def tensors(model):
    return {t.name: (t.data_type, tuple(t.dims), numpy_helper.to_array(t).tobytes()) for t in model.graph.initializer}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_to_the_package(weir, tmp_path, dtype):
    values, exact = weights(dtype), 0
    save(values, tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "shrink:per_channel=true")
    got = tensors(onnx.load(tmp_path / "out.onnx"))
    want = tensors(reference.quantize_weights(onnx.load(tmp_path / "in.onnx"), per_channel=True))
    assert {n for n in want if n.endswith("_scale")} == {f"{n}_scale" for n in values}
    for name, w in values.items():
        dims = want[f"{name}_scale"][1]
        assert got[f"{name}_scale"][1] == dims, name
        other = tuple(i for i, n in enumerate(dims) if n == 1) if w.ndim > 1 else None
        # Channels without a range get scale 0 and are exact, a listed difference; the axis is the same.
        if (w.max(axis=other) > w.min(axis=other)).all():
            for part in ("quantized", "scale", "zero_point"):
                assert got[f"{name}_{part}"] == want[f"{name}_{part}"], name
        else:
            exact += 1
            assert w.size in (20000, 16384) or name == "constant"
    assert 1 <= exact <= 9
    axes = {tuple(int(n > 1) for n in dims) for name, (_, dims, _) in want.items() if name.endswith("_scale")}
    assert len(axes) > 4  # the choice was not always the same


def test_float16_takes_the_best_axis(weir, tmp_path):
    """Compared in float32, where the package's norm may overflow: the axis whose result is nearest."""
    values = weights(np.float16)
    save(values, tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "shrink:per_channel=true")
    got = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "out.onnx").graph.initializer}
    for name, w in values.items():
        if w.ndim == 1 or name == "constant":
            continue
        scale = got[f"{name}_scale"].astype(np.float64)
        back = got[f"{name}_quantized"] * scale + got[f"{name}_zero_point"]
        error = np.square(back - w).sum()
        for axis in range(w.ndim):
            other = tuple(i for i in range(w.ndim) if i != axis)
            steps = (w.max(axis=other, keepdims=True).astype(np.float64) - w.min(axis=other, keepdims=True)) / 255
            least = (steps**2).sum() / 12 * w.size / w.shape[axis]  # of numbers spread evenly over each step
            assert error <= 3 * least + 1e-6, (name, axis)


def test_first_of_equal_axes(weir, tmp_path):
    """A constant has no error along any axis: the first one is taken."""
    save({"w": np.full((150, 130), 0.25, np.float32)}, tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "shrink:per_channel=true")
    assert tensors(onnx.load(tmp_path / "out.onnx"))["w_scale"][1] == (150, 1)


def test_real_model(weir, tmp_path):
    source = package_model("rapidocr", "rec")
    weir("run", source, tmp_path / "out.onnx", "--pass", "shrink:per_channel=true")
    got = tensors(onnx.load(tmp_path / "out.onnx"))
    want = tensors(reference.quantize_weights(onnx.load(source), per_channel=True))
    made = [n for n in want if n.endswith(("_quantized", "_scale", "_zero_point"))]
    assert len(made) > 20 and not [n for n in made if got.get(n) != want[n]]


def test_nothing_else_matters(weir, tmp_path):
    """Jobs, memory, engine; a replay; and 66 from other weights."""
    save(weights(np.float32), tmp_path / "in.onnx")
    ways = [["--jobs", "1", "--memory", "2M"], ["--jobs", "3"], ["--io", "sync"]]
    files = []
    for number, options in enumerate(ways):
        (tmp_path / str(number)).mkdir()
        weir("run", tmp_path / "in.onnx", tmp_path / str(number) / "out.onnx", "--pass", "shrink:per_channel=true",
             *options, "--edit-log", tmp_path / "edits.jsonl")  # fmt: skip
        files.append(compare.folder_bytes(tmp_path / str(number)))
    (tmp_path / "again").mkdir()
    weir("replay", tmp_path / "edits.jsonl", tmp_path / "in.onnx", tmp_path / "again" / "out.onnx")
    files.append(compare.folder_bytes(tmp_path / "again"))
    assert all(a == b for a, b in itertools.pairwise(files))
    stages = [line for line in (tmp_path / "edits.jsonl").read_text().splitlines() if '"artifact"' in line]
    assert len(stages) == 1 and json.loads(stages[0])["stage"] == "measure"
    data = bytearray((tmp_path / "in.onnx").read_bytes())
    data[len(data) // 2 + 3] ^= 0x3F
    (tmp_path / "in.onnx").write_bytes(data)
    weir("replay", tmp_path / "edits.jsonl", tmp_path / "in.onnx", tmp_path / "other.onnx", code=66)
    assert not (tmp_path / "other.onnx").exists()
