"""Folders and files of other users: an ordinary user runs weir where root owns files, folders that give their group away,
umasks. test_damaged_staging.py has staging folders with files of another user."""

import os
import shutil
import stat
import subprocess

import pytest

from conftest import as_user
from test_interrupted import SOURCE, written

pytestmark = pytest.mark.in_memory
USER = 65534
GROUP = 54321


@pytest.fixture(scope="module")
def expected(weir, module_folder):
    weir("quantize", SOURCE, module_folder / "out.onnx", "--block-size", "32")
    return written(module_folder)


@pytest.fixture
def other(tmp_path):
    """The words that run weir as another user than the owner of tmp_path; skips where that is not possible."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become somebody else, with setpriv")
    shutil.copytree(SOURCE.parent, tmp_path / "model")
    for path in (tmp_path / "model").iterdir():
        path.chmod(0o444)
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:  # those of this session's own temporary tree
        if folder.name.startswith(("weir-", "pytest-")):
            folder.chmod(folder.stat().st_mode | 0o055)
    (tmp_path / "bin").mkdir(mode=0o755)
    words = as_user(tmp_path / "bin")
    return lambda *rest, umask=0o022: subprocess.run([*words, *map(os.fspath, rest)], capture_output=True, text=True, umask=umask)


def folder_of(tmp_path, name, owner=USER, group=USER, mode=0o755):
    folder = tmp_path / name
    folder.mkdir()
    os.chown(folder, owner, group)
    folder.chmod(mode)
    return folder


def quantized(tmp_path, folder):
    return ["quantize", tmp_path / "model" / SOURCE.name, folder / "out.onnx", "--block-size", "32"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_a_source_of_somebody_else(tmp_path, expected, other, umask):
    """Only to be read: the same bytes, owned by who ran weir, with the mode that the umask leaves."""
    folder = folder_of(tmp_path, "out")
    done = other(*quantized(tmp_path, folder), umask=umask)
    assert done.returncode == 0, done.stderr
    assert written(folder) == expected
    for path in folder.iterdir():
        at = path.stat()
        assert (at.st_uid, stat.S_IMODE(at.st_mode)) == (USER, 0o666 & ~umask), path


def test_a_source_that_may_not_be_read(tmp_path, other):
    folder = folder_of(tmp_path, "out")
    for path in (tmp_path / "model").iterdir():
        path.chmod(0o600)
    done = other(*quantized(tmp_path, folder))
    assert done.returncode in (66, 77) and "Permission denied" in done.stderr, done.stderr
    assert list(folder.iterdir()) == []


def test_a_folder_that_gives_its_group_away(tmp_path, expected, other):
    """setgid: new files there have the folder's group, temporary ones too."""
    folder = folder_of(tmp_path, "out", group=GROUP, mode=0o2775)
    done = other(*quantized(tmp_path, folder))
    assert done.returncode == 0, done.stderr
    assert written(folder) == expected
    assert {path.stat().st_gid for path in folder.iterdir()} == {GROUP}


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_folder_of_somebody_else_that_all_may_write_to(tmp_path, expected, other, mode):
    folder = folder_of(tmp_path, "out", owner=0, group=0, mode=mode)
    done = other(*quantized(tmp_path, folder))
    assert done.returncode == 0, done.stderr
    assert written(folder) == expected and {path.stat().st_uid for path in folder.iterdir()} == {USER}


def test_a_folder_that_only_its_owner_writes_to(tmp_path, other):
    folder = folder_of(tmp_path, "out", owner=0, group=0)
    done = other(*quantized(tmp_path, folder))
    assert done.returncode in (73, 74, 77) and "Permission denied" in done.stderr, done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_model_of_somebody_else_is_replaced_or_kept(weir, tmp_path, expected, other, mode):
    """The sticky bit keeps what others own: an error, and the old model is whole. Without it the new one is."""
    folder = folder_of(tmp_path, "out", owner=0, group=0, mode=mode)
    weir("convert", SOURCE, folder / "out.onnx", "--external")
    old = written(folder)
    done = other(*quantized(tmp_path, folder), "--force")
    assert done.returncode == 77 and ("sticky" if mode & 0o1000 else "write-protected") in done.stderr and written(folder) == old, done.stderr
    for path in folder.iterdir():
        path.chmod(0o666)
    done = other(*quantized(tmp_path, folder), "--force")
    if mode & 0o1000:
        assert done.returncode == 77 and "sticky bit" in done.stderr, done.stderr
        assert written(folder) == old
        weir("audit", folder / "out.onnx")
        done = other(*quantized(tmp_path, folder), "--force", "--force-readonly")
        assert done.returncode == 77 and written(folder) == old
    else:
        assert done.returncode == 0, done.stderr
        assert written(folder) == expected


def test_staged_by_root_and_taken_up_by_somebody_else(weir_fault, tmp_path, other):
    """Others neither trust nor remove the files that root staged: the error names the owner."""
    folder = folder_of(tmp_path, "out", mode=0o777)
    words = quantized(tmp_path, folder)
    weir_fault(*words, env={"WEIR_FAULT": "kill:fdatasync:2"}, code=-9)
    [staged] = folder.glob(".out.onnx.*.weir")
    left = sorted(path.name for path in staged.iterdir())
    done = other(*words)
    assert done.returncode == 77 and "belongs to another user" in done.stderr, done.stderr
    assert sorted(path.name for path in staged.iterdir()) == left and written(folder) == {}
    done = other("clean", folder, "--yes")
    assert staged.exists() and sorted(path.name for path in staged.iterdir()) == left, (done.stdout, done.stderr)


def test_root_of_a_namespace(weir, tmp_path, expected):
    """Who is root there alone owns nothing of others; ids without a name, and groups that cannot be set."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-r", "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    words = ["unshare", "-r", weir.path, "quantize", SOURCE, tmp_path / "out.onnx", "--block-size", "32"]
    done = subprocess.run([*map(os.fspath, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path) == expected
    done = subprocess.run([*map(os.fspath, words), "--force", "--fresh"], capture_output=True, text=True)
    assert done.returncode == 0 and written(tmp_path) == expected, done.stderr
