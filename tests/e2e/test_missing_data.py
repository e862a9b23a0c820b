"""Data files that are missing, cut off, or something else: one line a file, the right code, and inspect goes on."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345\n"


@pytest.fixture
def model(tmp_path):
    """Ten weights of 4 KiB and a shape of 16 bytes in one data file, which a Reshape needs."""
    folder = tmp_path / "in"
    folder.mkdir()
    weights = [numpy_helper.from_array(np.full((32, 32), i, np.float32), f"w{i}") for i in range(10)]
    shape = numpy_helper.from_array(np.array([32, 32], np.int64), "shape")
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y0"])]
    nodes += [helper.make_node("MatMul", [f"y{i}", f"w{i}"], [f"y{i + 1}"], name=f"m{i}") for i in range(10)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 32])  # noqa: E731
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y10")], [shape, *weights])
    path = folder / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        path,
        save_as_external_data=True,
        location="m.data",
        size_threshold=0,
    )
    return path


def test_missing(weir, tmp_path, model):
    (model.parent / "m.data").unlink()
    done = weir("check", "in/m.onnx", code=66, cwd=tmp_path)
    [line] = [line for line in done.out.splitlines() if line.startswith("error")]
    assert line.startswith("error: the data file 'in/m.data' is missing: 11 tensors (41.0 kB) are stored in it (")
    assert done.out.endswith("in/m.onnx: 1 error, 0 warnings, 0 notes\n")
    [fault] = weir("check", "in/m.onnx", "--json", code=66, cwd=tmp_path).json()["faults"]
    assert "11 tensors" in fault["message"] and fault["place"] == ""
    shown = weir("inspect", "in/m.onnx", cwd=tmp_path).out
    assert "missing    m.data: 11 tensors (41.0 kB)\n" in shown and "10  MatMul" in shown
    said = weir("inspect", "in/m.onnx", "--json", "--tensors", "--tree", cwd=tmp_path).json()
    assert said["data_files"][0]["missing"] is True and said["data_files"][0]["bytes_needed"] >= 40960
    assert "w3\tfloat\t[32,32]\t4096\tm.data\t" in weir("inspect", "in/m.onnx", "--tensors", cwd=tmp_path).out
    done = weir("quantize", "in/m.onnx", "out.onnx", code=66, cwd=tmp_path)
    assert "'in/m.data' is missing" in done.err and done.err.startswith("weir: error: 'in/m.onnx': tensor 'shape': ")


def test_whole(weir, model):
    """The control arm."""
    weir("check", model)
    shown = weir("inspect", model).out
    assert "missing" not in shown and "too short" not in shown
    assert not {"missing", "bytes_needed"} & set(weir("inspect", model, "--json").json()["data_files"][0])


def test_another_fault_beside_it(weir, model):
    """A model that is malformed is that, whatever it lacks besides."""
    broken = onnx.load(model, load_external_data=False)
    broken.graph.node[3].input[0] = "nobody"
    model.write_bytes(broken.SerializeToString())
    assert weir("check", model, code=65).out.count("error:") == 1
    (model.parent / "m.data").unlink()
    assert weir("check", model, code=65).out.count("error:") == 2


def test_cut_off(weir, model):
    data = model.parent / "m.data"
    size = data.stat().st_size
    data.write_bytes(data.read_bytes()[: size // 2])
    done = weir("check", model, code=65)
    [line] = [line for line in done.out.splitlines() if line.startswith("error")]
    assert f"'{data}' is too short ({size // 2} of {size} bytes): 6 tensors reach past its end" in line
    assert "was the download complete?" in line
    assert "too short: " in weir("inspect", model).out
    assert weir("inspect", model, "--json").json()["data_files"][0]["bytes_needed"] == size
    data.write_bytes(bytes(size - 1))
    assert "tensor 'w9': 4096 bytes at byte" in weir("check", model, code=65).out
    assert "tensor 'w9': 4096 bytes at byte" in weir("convert", model, model.parent / "o.onnx", code=65).err


@pytest.mark.parametrize(
    "content, is_what, hint",
    [
        (POINTER, "is a Git LFS pointer", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html></html>\n", "is a web page", "/resolve/"),
        (b"", "is empty", "was the download complete?"),
    ],
)
def test_something_else_in_its_place(weir, model, content, is_what, hint):
    (model.parent / "m.data").write_bytes(content)
    for done in (weir("check", model, code=66), weir("convert", model, model.parent / "o.onnx", code=66)):
        assert is_what in done.said and hint in done.said
    assert is_what in weir("inspect", model).out


def test_data_that_begins_like_something_else(weir, model):
    """Only what is too short is doubted: weights may begin with any bytes."""
    data = model.parent / "m.data"
    data.write_bytes(POINTER + data.read_bytes()[len(POINTER) :])
    weir("check", model, code=None)
    weir("convert", model, model.parent / "o.onnx", code=None)
    assert "pointer" not in weir("check", model, code=None).said + weir("convert", model, model.parent / "p.onnx", code=None).said


@pytest.mark.parametrize(
    "content, is_what, hint",
    [
        (POINTER, "is a Git LFS pointer", "git lfs pull"),
        (b"<!doctype html>\n", "is a web page", "/resolve/"),
        (b"GGUF\x03\0\0\0", "is a GGUF file", "export the model to ONNX"),
        (b"\x10\0\0\0\0\0\0\0" + b'{"__metadata__"}' + bytes(32), "is a safetensors file", "export the model to ONNX"),
        (b"PK\x03\x04" + bytes(30), "is a zip archive", "unpack"),
        (bytes(100), "is filled with zeros", "was the download complete?"),
        (b"\x01\x02\x03\x04", "does not begin like one", "not its data files"),
        (b"hello\n", "is text", "give the .onnx file"),
    ],
)
def test_something_else_as_the_model(weir, model, content, is_what, hint):
    model.write_bytes(content)
    for done in (weir("inspect", model, code=65), weir("check", model, code=65)):
        assert is_what in done.said and hint in done.said and "wire type" not in done.said


def test_a_model_cut_off(weir, model):
    model.write_bytes(model.read_bytes()[:500])
    assert "hint: the file is cut off at its end: was the download complete?" in weir("inspect", model, code=65).err
