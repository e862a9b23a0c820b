"""Error figures of quantized weights: what numpy computes, and the same whoever made which unit.

The weights' codes are cut by unit borders, so that figures are put together from several units.
"""

import shutil
import signal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

K, COLUMNS = 2048, (20000, 23001)  # at 8 bits: 41 and 47 MB of codes, scales and zeros behind each
RUN = ("run",)
PASSES = ("--pass", "matmulnbits:bits=8,block_size=64,symmetric=false")


def write_model(path, columns, spoil=None):
    """A MatMul for each weight [K, n]; the data lies in one file, weight by weight."""
    rng = np.random.default_rng(5)
    nodes, weights, outputs, offset = [], [], [], 0
    with open(path.parent / "w.data", "wb") as data:
        for i, n in enumerate(columns):
            values = rng.standard_normal((K, n), dtype=np.float32) * np.float32(0.02)
            if spoil:
                values[spoil] = np.nan
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[K, n])
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "w.data"), ("offset", offset), ("length", values.nbytes)):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, str(value)
            offset += data.write(values.tobytes())
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"], name=f"m{i}"))
            outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["b", n]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", K])
    graph = helper.make_graph(nodes, "g", [x], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def model(large_folder):
    folder = large_folder / "figures"
    folder.mkdir()
    yield write_model(folder / "m.onnx", COLUMNS)
    shutil.rmtree(folder)


def figures(report):
    return [tensor["error"] for step in report["passes"] for tensor in step.get("tensors", []) if "error" in tensor]


def run(weir, model, folder, *options):
    folder.mkdir(exist_ok=True)
    return weir.report(*RUN, model, folder / "out.onnx", *PASSES, *options)


@pytest.fixture(scope="module")
def alone(weir, model, large_folder):
    """Figures of one worker in one run."""
    found = figures(run(weir, model, large_folder / "alone", "--jobs", "1"))
    assert len(found) == len(COLUMNS)
    yield found
    shutil.rmtree(large_folder / "alone")


def test_figures_are_those_of_numpy(model, alone, large_folder):
    made = onnx.load(large_folder / "alone" / "out.onnx")
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in made.graph.initializer}
    for i, n in enumerate(COLUMNS):
        offset = sum(COLUMNS[:i]) * K * 4
        w = np.fromfile(model.parent / "w.data", np.float32, K * n, offset=offset).reshape(K, n)
        codes = tensors[f"w{i}_Q8"].astype(np.float32).reshape(n, K // 64, 64)
        scales, zeros = tensors[f"w{i}_scales"], tensors[f"w{i}_zero_points"].astype(np.float32)
        back = ((codes - zeros[..., None]) * scales[..., None]).reshape(n, K).T
        error = (w - back).astype(np.float64)
        assert alone[i]["max_abs"] == pytest.approx(np.abs(error).max(), rel=1e-6)
        assert alone[i]["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-4)
        power = (w.astype(np.float64) ** 2).sum()
        assert alone[i]["sqnr_db"] == pytest.approx(10 * np.log10(power / (error**2).sum()), abs=1e-3)


@pytest.mark.parametrize("options", [("--jobs", "2"), ("--jobs", "4"), ("--io", "null"), ("--memory", "6M")])
def test_figures_do_not_depend_on_how(weir, model, tmp_path, alone, options):
    assert figures(run(weir, model, tmp_path, *options)) == alone
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("sync", [1, 2])
def test_figures_survive_a_kill(weir, weir_fault, model, tmp_path, alone, sync):
    """Those of recorded units come from the records."""
    words = (*RUN, model, tmp_path / "out.onnx", *PASSES, "--jobs", "1")
    weir_fault(*words, env={"WEIR_FAULT": f"kill:fdatasync:{sync}"}, code=-signal.SIGKILL)
    report = weir.report(*words, "--resume")
    assert report["weir"]["units_resumed"] == sync - 1
    assert figures(report) == alone
    shutil.rmtree(tmp_path)


def test_source_is_read_once(weir, model, tmp_path):
    """Scales and zeros come of the read that the codes took; with no memory for them they cost more."""
    size = (model.parent / "w.data").stat().st_size
    report = run(weir, model, tmp_path / "a", "--io", "sync", "--jobs", "1")
    assert report["weir"]["source_bytes_read"] <= 1.02 * size
    report = run(weir, model, tmp_path / "b", "--io", "sync", "--jobs", "1", "--memory", "3M")
    assert report["weir"]["source_bytes_read"] > 1.5 * size
    shutil.rmtree(tmp_path)


def test_a_weight_that_is_not_finite_is_named(weir, tmp_path):
    path = write_model(tmp_path / "bad.onnx", (70,), spoil=(3, 41))
    said = weir(*RUN, path, tmp_path / "out.onnx", *PASSES, code=65).err
    assert "w0_Q8" in said and "element [3,41]" in said and "nan" in said
    assert not (tmp_path / "out.onnx").exists()
