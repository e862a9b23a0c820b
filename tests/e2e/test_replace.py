"""A model that is replaced, by --force and --inplace: names, bytes, mode and owner stay what they were."""

import os
import shutil
import stat
import subprocess

import onnx
import pytest

import compare
from conftest import as_user


@pytest.fixture
def folder(tmp_path, small_encoder):
    """model.onnx with its data, which weir did not write."""
    for path in (small_encoder, small_encoder.with_name(small_encoder.name + ".data")):
        shutil.copy(path, tmp_path)
    return tmp_path


def model_of(folder):
    [model] = folder.glob("*.onnx")
    return model


def inodes(folder):
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def quantize(source, out, block):
    return ["quantize", source, out, "--block-size", str(block), "--force"]


# ---- names and bytes


def test_the_same_command_gives_the_same_names_and_bytes(weir, tmp_path, small_encoder):
    """Also where other bytes were there in between."""
    out = tmp_path / "m.onnx"
    weir(*quantize(small_encoder, out, 32))
    first = compare.folder_bytes(tmp_path)
    assert sorted(first) == ["m.onnx", "m.onnx.data", "m.onnx.manifest.json"]
    for block in (64, 32, 16, 32):
        weir(*quantize(small_encoder, out, block))
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(first)
        assert (compare.folder_bytes(tmp_path) == first) == (block == 32)
        weir("audit", out)


def test_what_is_equal_is_not_touched(weir, tmp_path, small_encoder):
    out = tmp_path / "m.onnx"
    weir(*quantize(small_encoder, out, 32))
    before = inodes(tmp_path)
    done = weir(*quantize(small_encoder, out, 32))
    assert inodes(tmp_path) == before and "unchanged, since they have the same bytes" in done.out and "wrote" not in done.out


@pytest.fixture
def traced(tmp_path, small_encoder):
    """A model whose nodes have long stack traces, as exporters leave them: 4 MB of metadata."""
    model = onnx.load(small_encoder)
    for node in model.graph.node:
        node.metadata_props.add(key="trace", value="x" * ((4 << 20) // len(model.graph.node)))
    onnx.save(model, tmp_path / "traced.onnx")
    (tmp_path / "out").mkdir()
    return tmp_path / "traced.onnx"


@pytest.mark.parametrize("memory", ["4MiB", "48MiB"])
def test_what_is_replaced_does_not_depend_on_memory(weir, traced, memory):
    """However much metadata the old model has: its data files are its own."""
    folder, words = traced.parent / "out", ("--memory", memory, "--jobs", "1")
    out = folder / "m.onnx"
    weir("convert", traced, out, "--data-file", "w.bin", "--force", *words)
    there = inodes(folder)
    done = weir("convert", traced, out, "--data-file", "w.bin", "--force", *words)
    assert inodes(folder) == there and done.out.splitlines()[-1].startswith("unchanged")
    done = weir("convert", out, "--inplace", "--data-file", "w.bin", *words)
    assert inodes(folder)["w.bin"] == there["w.bin"] and done.err == ""
    done = weir("run", out, "--inplace", "--pass", "cast:to=float16", *words)
    assert "was kept" not in done.err and sorted(inodes(folder)) == ["m.onnx", "m.onnx.data", "m.onnx.manifest.json"]
    for _ in range(3):
        weir("convert", traced, out, "--external", "--no-manifest", "--force", *words)
        assert sorted(inodes(folder)) == ["m.onnx", "m.onnx.data"]


def test_the_index_of_the_old_model_is_counted(weir, tmp_path, small_encoder):
    """It is not in memory beside that of the new one; where it is larger, it is the peak that a dry run says."""
    out = tmp_path / "m.onnx"
    nodes = b"\x0a\x03\x22\x01N" * (1 << 18)
    size = bytes(len(nodes) >> 7 * i & 127 | (i < 2) << 7 for i in range(3))
    out.write_bytes(b"\x08\x08\x42\x04\x0a\x00\x10\x11\x3a" + size + nodes)
    words = ("convert", small_encoder, out, "--inline", "--force", "--memory", "4MiB", "--jobs", "1")
    said = weir(*words, "--dry-run", "--json").json()["weir"]
    assert said["peak_memory_limit_bytes"] > said["index_bytes"] + (4 << 20) + (16 << 20)
    done = weir(*words, "--json").json()["weir"]
    assert done["index_bytes"] == said["index_bytes"] and done["peak_memory_bytes"] <= done["peak_memory_limit_bytes"]


def test_a_manifest_that_says_more_is_written(weir, tmp_path, small_encoder):
    """The same model by other options: what says so is another file."""
    out, manifest = tmp_path / "m.onnx", tmp_path / "m.onnx.manifest.json"
    weir("preprocess", small_encoder, out, "--tensor-digests")
    before, text = inodes(tmp_path), manifest.read_bytes()
    done = weir("preprocess", small_encoder, out, "--tensor-digests", "--force", "--int-max", "1000")
    [said] = [line for line in done.out.splitlines() if "have the same bytes" in line]
    same, *wrote = said.split("; ")
    assert same.startswith("unchanged") and "m.onnx.data" in same and manifest.name not in same
    assert wrote[0].startswith(f"wrote {manifest}") and wrote[1].startswith("unchanged") and "tensors" in wrote[1]
    assert manifest.read_bytes() != text and [name for name, inode in inodes(tmp_path).items() if inode != before[name]] == [manifest.name]


def test_inplace_keeps_the_name_of_its_data(weir, folder):
    """Of a model that weir did not write, too; and once nothing is left to do, nothing is written."""
    model = model_of(folder)
    before = sorted(path.name for path in folder.iterdir())
    weir("quantize", model, "--inplace")
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, model.name + ".manifest.json"])
    weir("audit", model)
    weir("quantize", model, "--inplace")
    there = inodes(folder)
    done = weir("quantize", model, "--inplace")
    assert inodes(folder) == there and "is left unchanged" in done.out and "wrote" not in done.out


def test_data_of_a_copy_is_left_alone(weir, folder):
    """A copy of the .onnx by any name has the same data, so the new model gets data of its own, by one name."""
    model = model_of(folder)
    data = folder / (model.name + ".data")
    shutil.copy(model, folder / "kept.bak")
    old = data.read_bytes()
    seen = set()
    for block in (32, 64, 16):
        weir("quantize", folder / "kept.bak", model, "--block-size", str(block), "--force")
        assert data.read_bytes() == old
        seen.add(tuple(sorted(path.name for path in folder.iterdir())))
        weir("audit", model)
    weir("check", folder / "kept.bak")
    assert len(seen) == 3, "names come from the content, which differs"
    weir("quantize", folder / "kept.bak", model, "--block-size", "16", "--force")
    assert tuple(sorted(path.name for path in folder.iterdir())) in seen


def test_data_that_is_no_longer_used_is_named(weir, folder):
    """Data by another name that weir did not write stays, and a line says how much of it there is."""
    model = model_of(folder)
    data = folder / (model.name + ".data")
    old = data.rename(folder / (model.name + "_data"))
    model.write_bytes(model.read_bytes().replace(data.name.encode(), old.name.encode()))
    shutil.copy(model, folder / "twin.onnx")
    done = weir("convert", folder / "twin.onnx", model, "--inline", "--force")
    assert f"'{old.name}' (" in done.err and "'twin.onnx' uses it too" in done.err, done.err
    (folder / "twin.onnx").unlink()
    assert old.exists()


# ---- mode and owner


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
@pytest.mark.parametrize("how", ["force", "inplace"])
def test_mode_is_kept(weir, folder, how, mode):
    model = model_of(folder)
    if how == "force":
        source = folder / "in"
        source.mkdir()
        for path in list(folder.glob("*.onnx*")):
            shutil.copy(path, source)
    model.chmod(mode)
    weir(*(["quantize", model, "--inplace"] if how == "inplace" else quantize(source / model.name, model, 64)))
    for path in folder.glob("*.onnx*"):
        assert stat.S_IMODE(path.stat().st_mode) == mode, path


def test_nobody_looks_into_the_folder_of_a_private_model(weir_fault, folder):
    """While the run is on, what it has written so far is as private as the model that it replaces."""
    model = model_of(folder)
    model.chmod(0o600)
    weir_fault("quantize", model, "--inplace", env={"WEIR_FAULT": "kill:fdatasync:1"}, code=-9)
    [staging] = folder.glob(".*.weir")
    assert stat.S_IMODE(staging.stat().st_mode) == 0o700


def test_owner_is_kept(weir, folder):
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    model = model_of(folder)
    os.chown(model, 65534, 65533)
    weir("quantize", model, "--inplace")
    for path in folder.glob("*.onnx*"):
        assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65533), path


# ---- write-protected


@pytest.mark.parametrize("which", ["model", "data"])
def test_a_protected_model_is_refused(weir, folder, which):
    model = model_of(folder)
    target = model if which == "model" else folder / (model.name + ".data")
    target.chmod(0o444)
    before = compare.folder_bytes(folder)
    for more in ([], ["--dry-run"]):
        done = weir("quantize", model, "--inplace", *more, code=77)
        assert f"'{target.name}'" in done.said and "--force-readonly" in done.said
        assert compare.folder_bytes(folder) == before
    weir("quantize", model, "--inplace", "--force-readonly")
    weir("audit", model)
    assert stat.S_IMODE(target.stat().st_mode) == (0o444 if which == "model" else stat.S_IMODE(model.stat().st_mode))


def test_what_somebody_else_owns_is_refused(folder):
    """In a folder where everybody may write, as in a shared one."""
    if os.geteuid() != 0:
        pytest.skip("only root has files of others")
    model = model_of(folder)
    words = as_user(folder, model)
    if words is None:
        pytest.skip("setpriv is not installed")
    folder.chmod(0o777)
    before = compare.folder_bytes(folder)

    def run(*more):
        return subprocess.run([*words, "quantize", os.fspath(model), "--inplace", *more], capture_output=True, text=True)

    done = run()
    assert done.returncode == 77 and "--force-readonly" in done.stderr, done.stderr
    assert compare.folder_bytes(folder) == before
    done = run("--force-readonly")
    assert done.returncode == 0, done.stderr
    assert model.stat().st_uid == 65534  # an ordinary user cannot give files away
