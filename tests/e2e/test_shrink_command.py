"""weir shrink over many models, and weir cast: names, skips, what one failure leaves; what runtimes make of it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import compare

HALF = "_f16_to_f32.onnx"


def matmul(path, dtype=np.float16, rows=200, columns=100):
    """y = x W with one weight."""
    weight = np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        "g",
        [helper.make_tensor_value_info("x", kind, [4, rows])],
        [helper.make_tensor_value_info("y", kind, [4, columns])],
        [numpy_helper.from_array(weight, "w")],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9), path)
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".manifest.json"))


def test_many_models_and_folders(weir, tmp_path):
    a, b = matmul(tmp_path / "a.onnx"), matmul(tmp_path / "more" / "b.c.onnx")
    matmul(tmp_path / "more" / "d.onnx")
    done = weir("shrink", a, tmp_path / "more", "--method", "f16_to_f32", "--output-dir", tmp_path / "x" / "y")
    assert f"{a} -> {tmp_path}/x/y/a{HALF}\n" in done.out and done.out.count("1 weight cast to float32") == 3
    assert names(tmp_path / "x" / "y") == [f"a{HALF}", f"b.c{HALF}", f"d{HALF}"]
    alone = tmp_path / "alone.onnx"
    weir("shrink", b, "--method", "f16_to_f32", "-o", alone)
    assert alone.read_bytes() == (tmp_path / "x" / "y" / f"b.c{HALF}").read_bytes()
    model = onnx.load(alone)
    assert [t.data_type for t in model.graph.initializer] == [TensorProto.FLOAT]


def test_levels_past_the_end_of_a_type_are_refused(weir, tmp_path):
    """The hint names what shrink has."""
    model = onnx.load(matmul(tmp_path / "a.onnx"))
    mask = np.where(np.triu(np.ones((200, 100), bool), 1), np.float16(-65504), np.float16(0))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(mask, "w"))
    onnx.save(model, tmp_path / "a.onnx")
    words = ("shrink", tmp_path / "a.onnx", "-o", tmp_path / "out.onnx")
    done = weir(*words, "--method", "float_weights", code=None)
    assert done.code != 0 and "'w'" in done.err and "use --method integer_weights" in done.err
    weir(*words)


def test_a_folder_can_be_said_twice(weir, tmp_path):
    """Outputs of the first call are no inputs of the second, which finds them there."""
    matmul(tmp_path / "a.onnx")
    weir("shrink", tmp_path, "--method", "f16_to_f32")
    before = compare.folder_bytes(tmp_path)
    done = weir("shrink", tmp_path, "--method", "f16_to_f32", code=2)
    assert "exists already" in done.err and " skipped: " in done.err
    weir("shrink", tmp_path, "--method", "f16_to_f32", "--resume")
    weir("shrink", tmp_path, "--method", "f16_to_f32", "--force")
    assert compare.folder_bytes(tmp_path) == before


def test_one_failure_leaves_the_others(weir, tmp_path):
    matmul(tmp_path / "a.onnx"), matmul(tmp_path / "c.onnx")
    (tmp_path / "b.onnx").write_bytes(b"no model at all")
    done = weir("shrink", tmp_path, "--method", "f16_to_f32", code=65)
    assert "b.onnx" in done.err
    assert names(tmp_path) == ["a.onnx", f"a{HALF}", "b.onnx", "c.onnx", f"c{HALF}"]


def test_dry_run_makes_no_folder(weir, tmp_path):
    matmul(tmp_path / "a.onnx")
    before = compare.folder_bytes(tmp_path)
    matmul(tmp_path / f"a{HALF}")  # of that name, in the folder above
    before = compare.folder_bytes(tmp_path)
    said = weir("shrink", tmp_path / "a.onnx", "--method", "f16_to_f32", "--output-dir", tmp_path / "new" / "er", "--dry-run").out
    assert compare.folder_bytes(tmp_path) == before and not (tmp_path / "new").exists()
    assert f"output: '{tmp_path}/new/er/a{HALF}' does not exist yet" in said
    assert f"folder: '{tmp_path}' is writable (the nearest existing one" in said


def test_inplace(weir, tmp_path):
    path = matmul(tmp_path / "a.onnx")
    weir("shrink", path, "--method", "f16_to_f32", "--inplace")
    assert onnx.load(path).graph.initializer[0].data_type == TensorProto.FLOAT
    assert names(tmp_path) == ["a.onnx"]


def test_int8_and_levels(weir, tmp_path):
    """A quarter of the bytes; a runtime's numbers are those of the codes."""
    path = matmul(tmp_path / "a.onnx", np.float32)
    said = weir("shrink", path, "--output-dir", tmp_path).out
    assert ": 1 weight quantized to int8\n" in said
    weir("shrink", path, "--method", "float_weights", "--levels", "16", "-o", tmp_path / "levels.onnx")
    x = np.random.default_rng(1).standard_normal((4, 200)).astype(np.float32)
    small = tmp_path / "a_quantized_weights.onnx"
    assert small.stat().st_size < path.stat().st_size / 3
    assert 0 < np.abs(run(small, x) - run(path, x)).max() < 0.6
    [weight] = onnx.load(tmp_path / "levels.onnx").graph.initializer
    assert len(np.unique(numpy_helper.to_array(weight))) <= 16


def test_info(weir, tmp_path):
    path = matmul(tmp_path / "a.onnx")
    said = weir("shrink", path, "--info").out
    assert "Initializer: w: [200,100] - 20000 elements, float16, 40000 bytes" in said
    assert weir("shrink", path, "--info", "--json").json()["weights"][0]["elements"] == 20000
    assert names(tmp_path) == ["a.onnx"]


def run(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_cast(weir, tmp_path):
    """Half the bytes, the same types outside, numbers within float16's precision; --exclude keeps the weight."""
    path, out, kept = matmul(tmp_path / "a.onnx", np.float32), tmp_path / "half.onnx", tmp_path / "kept.onnx"
    report = weir.report("cast", path, out, "--to", "float16")
    [tensor] = report["passes"][0]["tensors"]
    assert (tensor["name"], tensor["bytes_before"], tensor["bytes_after"]) == ("w", 80000, 40000)
    x = np.random.default_rng(1).standard_normal((4, 200)).astype(np.float32)
    np.testing.assert_allclose(run(out, x), run(path, x), atol=0.05)
    assert np.abs(run(out, x) - run(path, x)).max() > 0
    weir("cast", path, kept, "--to", "float16", "--exclude", "mm")
    assert np.array_equal(run(kept, x), run(path, x))
    done = weir("cast", path, tmp_path / "c.onnx", "--to", "float16", "--exclude", "v")
    assert "matches no weight and no node" in done.err and "'w'" in done.err


@pytest.mark.parametrize("words", [["--pass", "cast:to=float16"], ["--pass", "cast:to=float16,exclude=re:^v$"]])
def test_cast_as_a_pass(weir, tmp_path, words):
    path = matmul(tmp_path / "a.onnx", np.float32)
    weir("cast", path, tmp_path / "one.onnx", "--to", "float16")
    weir("run", path, tmp_path / "two.onnx", *words)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
