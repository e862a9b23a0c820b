"""Samples that models are calibrated with: folders and files of every form, drawn ones, and what is refused before a model is run."""

import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import built_tool

pytestmark = pytest.mark.in_memory
TOOL = built_tool("samples_tool")


@pytest.fixture
def one_input(tmp_path):
    return save(tmp_path / "one.onnx", [("x", TensorProto.FLOAT, ["n", 3])])


@pytest.fixture
def two_inputs(tmp_path):
    return save(tmp_path / "two.onnx", [("x", TensorProto.FLOAT, ["n", 3]), ("ids", TensorProto.INT64, [2])])


def save(path, inputs):
    """A model of these inputs, the first of which it gives back; one more has an initializer."""
    infos = [helper.make_tensor_value_info(*row) for row in [*inputs, ("extra", TensorProto.FLOAT, [1])]]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", infos,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(1, np.float32), "extra")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def tool(model, *words, code=0, options=()):
    scratch = model.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    done = subprocess.run([TOOL, *map(str, options), model, scratch, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stderr if code else done.stdout.splitlines()


def sample(seed, n=2):
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((n, 3)).astype(np.float32), "ids": rng.integers(0, 9, 2)}


def checksum(x):
    return sum(np.ascontiguousarray(x).tobytes())


def line(name, arrays):
    words = {"float32": "float", "int64": "int64"}
    parts = [f"{k}={words[str(v.dtype)]}[{','.join(map(str, v.shape))}]:{checksum(v)}" for k, v in arrays.items()]
    return " ".join([name, *parts])


def in_every_form(folder, arrays):
    """The same samples as a folder of archives, one of data sets, and raw files."""
    npz, sets, raw = folder / "npz", folder / "sets", folder / "raw"
    for path in (npz, sets, raw):
        path.mkdir()
    for k, of in enumerate(arrays):
        (np.savez_compressed if k % 2 else np.savez)(npz / f"{k:02}.npz", **dict(reversed(of.items())))
        one = sets / f"test_data_set_{k}"
        one.mkdir()
        for i, (name, x) in enumerate(of.items()):
            (one / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x, name if k % 2 else "").SerializeToString())
    (raw / "x.bin").write_bytes(b"".join(of["x"].tobytes() for of in arrays))
    (raw / "i:d.bin").write_bytes(b"".join(of["ids"].tobytes() for of in arrays))
    return {"npz": [npz], "sets": [f"{sets}/"], "raw": [f"{raw}/x.bin:x:float:2x3", f"{raw}/i:d.bin:ids:int64:2"]}


def test_every_form_gives_the_same_samples(tmp_path, two_inputs):
    arrays = [sample(k) for k in range(12)]
    digests = set()
    for form, words in in_every_form(tmp_path, arrays).items():
        *lines, last = tool(two_inputs, *words)
        names = {"npz": lambda k: f"{k:02}.npz", "sets": lambda k: f"test_data_set_{k}",
                 "raw": lambda k: f"x.bin, sample {k}"}  # fmt: skip
        assert lines == [line(names[form](k), of) for k, of in enumerate(arrays)]
        assert last.startswith("samples 12 0 ")
        digests.add(last.split()[3])
    assert len(digests) == 1  # not of how they lie in files
    changed = [dict(of) for of in arrays]
    changed[5]["x"] = -changed[5]["x"]
    other = tmp_path / "other"
    other.mkdir()
    assert tool(two_inputs, *in_every_form(other, changed)["npz"])[-1].split()[3] not in digests
    swapped = tmp_path / "swapped"
    swapped.mkdir()
    assert tool(two_inputs, *in_every_form(swapped, arrays[::-1])["npz"])[-1].split()[3] not in digests


def test_files_and_how_many(tmp_path, one_input):
    folder = tmp_path / "npy"
    folder.mkdir()
    arrays = [{"x": sample(k, k + 1)["x"]} for k in range(9)]
    for k, of in enumerate(arrays):
        np.save(folder / f"{k}.npy", of["x"])
    (folder / "labels.txt").write_text("no sample")
    *lines, last = tool(one_input, folder)
    assert lines == [line(f"{k}.npy", of) for k, of in enumerate(arrays)]
    assert last.startswith("samples 9 0 ")
    *lines, last = tool(one_input, folder, options=["--most", 4])
    assert len(lines) == 4 and last.startswith("samples 4 5 ")
    *lines, last = tool(one_input, folder / "3.npy", folder / "1.npy")
    assert lines == [line("3.npy", arrays[3]), line("1.npy", arrays[1])]
    *lines, last = tool(one_input, folder / "3.npy", options=["--generate", 3, "--seed", 5])
    assert lines[0] == line("3.npy", arrays[3]) and [x.rsplit(" ", 1)[0] for x in lines[1:]] == [f"drawn sample {k}" for k in range(3)]
    assert len(set(lines)) == 4 and tool(one_input, folder / "3.npy", options=["--generate", 3, "--seed", 5])[-1] == last
    assert tool(one_input, folder / "3.npy", options=["--generate", 3, "--seed", 6])[-1].split()[3] != last.split()[3]


def test_many_more_than_the_default(tmp_path, one_input):
    x = np.arange(130 * 3, dtype=np.float32)
    x.tofile(tmp_path / "x.bin")
    *lines, last = tool(one_input, f"{tmp_path}/x.bin:x:float:1x3")
    assert len(lines) == 128 and last.startswith("samples 128 2 ")


def refused(folder, model, arrays, code=66):
    path = folder / "bad.npz"
    np.savez(path, **arrays)
    return tool(model, path, code=code)


def test_what_does_not_fit(tmp_path, two_inputs):
    good = sample(1)
    text = refused(tmp_path, two_inputs, {"x": good["x"]})
    assert "has no array for the input 'ids'" in text and "the model's inputs: 'x', 'ids'" in text
    assert "no such input" in refused(tmp_path, two_inputs, {**good, "label": np.ones(1)})
    text = refused(tmp_path, two_inputs, {**good, "x": good["x"].astype(np.float64)})
    assert "has double for the input 'x', but the model needs float" in text and "x.astype(numpy.float32)" in text
    assert "the model needs 2 dims" in refused(tmp_path, two_inputs, {**good, "x": good["x"][0]})
    assert "whose dim 1 is 3 in the model" in refused(tmp_path, two_inputs, {**good, "x": good["x"][:, :2]})
    np.savez(tmp_path / "good.npz", **good, extra=np.zeros(1, np.float32))
    assert len(tool(two_inputs, tmp_path / "good.npz")) == 2
    np.save(tmp_path / "x.npy", good["x"])
    assert "has no array for the input 'ids'" in tool(two_inputs, tmp_path / "x.npy", code=66)


def test_what_is_no_sample(tmp_path, one_input):
    (tmp_path / "empty").mkdir()
    assert "there are no samples in" in tool(one_input, tmp_path / "empty", code=66)
    assert "there are no samples" in tool(one_input, code=2)
    assert "FILE:INPUT:DTYPE:DIMS" in tool(one_input, tmp_path / "missing", code=66)
    (tmp_path / "x.bin").write_bytes(bytes(40))
    assert "not a multiple of the 24 bytes of a sample" in tool(one_input, f"{tmp_path}/x.bin:x:float:2x3", code=66)
    assert "its type is not one of" in tool(one_input, f"{tmp_path}/x.bin:x:flaot:2x3", code=2)
    for dims in ("2x", "0x3", "x", "-1", "2x3x" + "9" * 20, "65536x65536x65536x65536x4"):
        assert "dims" in tool(one_input, f"{tmp_path}/x.bin:x:float:{dims}", code=2)
    assert "cannot be read" in tool(one_input, f"{tmp_path}/none.bin:x:float:2x3", code=66)
    (tmp_path / "y.bin").write_bytes(bytes(48))
    text = tool(one_input, f"{tmp_path}/y.bin:x:float:2x3", f"{tmp_path}/y.bin:x:float:1x3", code=66)
    assert "has 2 samples, and" in text and "has 4" in text
    (tmp_path / "text.npz").write_text("no archive")
    assert tool(one_input, tmp_path / "text.npz", code=65)
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "object" in tool(one_input, tmp_path / "objects.npy", code=65)


def test_a_bomb_is_not_inflated(tmp_path, one_input):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as z, z.open("x.npy", "w", force_zip64=True) as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 3)})
        for _ in range(12):
            f.write(bytes(1 << 20))
    assert (tmp_path / "bomb.npz").stat().st_size < 100_000
    assert tool(one_input, tmp_path / "bomb.npz", options=["--bytes", 1 << 20], code=65)
    assert len(tool(one_input, tmp_path / "bomb.npz", options=["--bytes", 1 << 24])) == 2  # the control arm


def test_a_sample_that_changes_is_noticed(tmp_path, one_input):
    for k in range(2):
        np.save(tmp_path / f"{k}.npy", sample(k)["x"])
    text = tool(one_input, tmp_path / "0.npy", tmp_path / "1.npy", options=["--twice", tmp_path / "1.npy"], code=66)
    assert "the sample '1.npy' changed during the run" in text
