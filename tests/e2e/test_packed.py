"""Compressed sizes in inspect, dry runs and pages: within bounds of gzip -9 of the files, and the same in each run."""

import gzip
import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import DATA, copy_model, package_model

WITHIN = 0.06  # samples are a twentieth of the files here
WAYS = [
    ["cast", "--to", "float16"],
    ["shrink"],
    pytest.param(["shrink", "--method", "float_weights", "--levels", "100"], marks=pytest.mark.long),
    ["quantize", "--block-size", "64"],
    ["run", "--pass", "conv2matmul", "--pass", "quantize:block_size=64", "--pass", "shrink"],
    ["convert", "--external"],
]


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory):
    return copy_model(package_model("rapidocr", "rec"), tmp_path_factory.mktemp("recognizer"))


def packed(folder, name):
    """The size of all files of a model, joined, after gzip -9."""
    files = sorted(folder.glob(f"{name}*"), key=lambda path: (path.suffix == ".onnx", path.name))
    return len(gzip.compress(b"".join(path.read_bytes() for path in files if path.suffix != ".json"), 9))


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_of_a_real_model(weir, tmp_path, recognizer, way):
    """The dry run estimates the size of files that do not exist yet; the page has the same number, and inspect of the files is as near."""
    command, *options = way
    out = ["-o", tmp_path / "out.onnx"] if command == "shrink" else [tmp_path / "out.onnx"]
    dry = weir(command, recognizer, *out, *options, "--dry-run", "--json").json()
    dry = (dry[0] if isinstance(dry, list) else dry)["weir"]["gzip_bytes"]
    assert not list(tmp_path.iterdir())
    said = weir(command, recognizer, *out, *options, "--dry-run").out
    page = tmp_path.parent / f"{tmp_path.name}.html"
    weir(command, recognizer, *out, *options, "--report-html", page)
    real = packed(tmp_path, "out.onnx")
    assert dry == pytest.approx(real, rel=WITHIN)
    assert weir("inspect", tmp_path / "out.onnx", "--json").json()["gzip_bytes"] == pytest.approx(real, rel=WITHIN)
    [words] = re.findall(r"^compressed: ≈ (.*) \(gzip -9\)$", said, re.M)
    assert f"≈ {words} compressed (gzip -9)" in page.read_text()


def test_small_files_are_whole(weir, tmp_path):
    source = copy_model(DATA / "parakeet-dynamo" / "encoder-model.onnx", tmp_path / "model")
    said = weir("inspect", source, "--json").json()["gzip_bytes"]
    whole = b"".join(path.read_bytes() for path in (source, source.with_name(source.name + ".data")))
    assert abs(said - len(gzip.compress(whole, 9))) < 300
    assert said == weir("inspect", source, "--json").json()["gzip_bytes"]
    assert "≈ " in weir("inspect", source).out
    source.with_name(source.name + ".data").unlink()
    assert weir("inspect", source, "--json").json()["gzip_bytes"] is None
    assert "compressed" not in weir("inspect", source).out


def test_a_report_without_a_page_has_none(weir, tmp_path):
    """A run that shows no estimate reads no samples."""
    source = copy_model(DATA / "parakeet-dynamo" / "encoder-model.onnx", tmp_path / "model")
    assert "gzip_bytes" not in weir("quantize", source, tmp_path / "out.onnx", "--block-size", "64", "--json").json()["weir"]


def test_few_values_are_for_compression(weir, tmp_path):
    """Their files are as large as before: the last lines say the size that they are made for, in a pipeline too."""
    source = copy_model(DATA / "parakeet-dynamo" / "encoder-model.onnx", tmp_path / "model")
    for name, words in (("a", ["shrink", source, "-o", tmp_path / "a.onnx", "--method", "float_weights", "--min-elements", "1000"]),
                        ("b", ["run", source, tmp_path / "b.onnx", "--pass", "shrink:method=float_weights,min_elements=1000"])):
        [_, size, unit] = re.search(r"^  packed ≈ (([\d.]+) (kB|MB)) compressed \(gzip -9\)$", weir(*words).out, re.M).groups()
        assert float(size) * {"kB": 1e3, "MB": 1e6}[unit] == pytest.approx(packed(tmp_path, f"{name}.onnx"), rel=WITHIN)
    assert "packed" not in weir("shrink", source, "-o", tmp_path / "c.onnx", "--min-elements", "1000").out


def test_weights_too_large_to_be_looked_at(weir, tmp_path):
    """One scale for a weight needs all of its elements: past the limit for a sample there is no estimate, and no error."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4096, 5000], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "m.data"), ("length", str(4 * 4096 * 5000))):
        tensor.external_data.add(key=key, value=value)
    with open(tmp_path / "m.data", "wb") as file:
        file.truncate(4 * 4096 * 5000)  # a hole
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, d]) for n, d in (("x", 4096), ("y", 5000))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", io[:1], io[1:], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    done = weir("shrink", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--dry-run")
    assert "compressed: " not in done.out and "would write:" in done.out
    assert weir("inspect", tmp_path / "m.onnx", "--json").json()["gzip_bytes"] < 200_000  # copied bytes have no such limit


def test_a_changed_weight_changes_no_place(weir, tmp_path):
    """Samples are at places that depend on sizes alone, so the estimate grows with the share of noise among zeros."""
    sizes = {}
    for share in (0, 0.5, 1):
        rng = np.random.default_rng(1)
        w = np.zeros((1024, 2048), np.float32)
        w[: int(1024 * share)] = rng.standard_normal((int(1024 * share), 2048))
        io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, d]) for n, d in (("x", 1024), ("y", 2048))]
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", io[:1], io[1:], [numpy_helper.from_array(w, "w")])
        path = tmp_path / f"{share}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        sizes[share] = json.loads(weir("inspect", path, "--json").out)["gzip_bytes"]
        assert sizes[share] == pytest.approx(len(gzip.compress(path.read_bytes(), 9)), rel=0.05, abs=8192)
    assert sizes[0.5] == pytest.approx(sizes[1] / 2, rel=0.05)


def test_what_is_said_depends_on_no_number_of_workers(weir, tmp_path, recognizer):
    """Nor on memory from 32 MiB on; with less, samples read more, and fewer of them may be made."""
    said = {}
    for memory in ("1GiB", "48MiB", "32MiB", "2MiB"):
        for jobs in ("1", "2") if memory != "2MiB" else ("1",):
            done = weir("quantize", recognizer, tmp_path / "o.onnx", "--block-size", "64", "--dry-run", "--json", "--memory", memory, "--jobs", jobs)
            said.setdefault(memory, set()).add(done.json()["weir"]["gzip_bytes"])
    [bytes_] = said["1GiB"] | said["48MiB"] | said["32MiB"]
    [less] = said["2MiB"]
    assert less == pytest.approx(bytes_, rel=WITHIN)
