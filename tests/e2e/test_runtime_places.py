"""Where weir finds ONNX Runtime and weir-ort: trees as installers make them, with us in them.

In each tree the library is a link to the real one, so that what is found is also loaded, and weir-ort lies where the wheel puts
it. `runtime_tool`, the client alone, stands for weir; it says which library it got.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import built_tool

pytestmark = pytest.mark.in_memory

CAPI = "onnxruntime/capi"
VENV = f"lib/python3.9/site-packages/{CAPI}"


@pytest.fixture(scope="module")
def real():
    [library] = Path(sys.prefix).glob(f"lib/python3*/site-packages/{CAPI}/libonnxruntime.so.*")
    return library


class Tree:
    """A prefix. `weir` is its program, `library(folder)` a library in it; an environment has a pyvenv.cfg."""

    def __init__(self, folder, real):
        self.folder, self.real = folder, real
        folder.mkdir(parents=True)

    def library(self, inside=VENV, name="libonnxruntime.so.1.31.1"):
        path = self.folder / inside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.real)
        return path

    def environment(self, mark="pyvenv.cfg"):
        (self.folder / mark).touch()
        return self

    def python(self):
        path = self.folder / "bin/python3"
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\nexit 1\n")  # it is never started
        path.chmod(0o755)
        return os.fspath(path.parent)

    def weir(self, ort="libexec/weir/weir-ort"):
        for source, to in ((built_tool("runtime_tool"), "bin/weir"), (built_tool("").parent / "weir-ort", ort)):
            path = self.folder / to
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, path)
        return self.folder / "bin/weir"


@pytest.fixture
def tree(tmp_path, real):
    return lambda name: Tree(tmp_path / name, real)


def opened(program, **environment):
    """What the client says when it begins; with nothing in its environment, not even a home."""
    done = subprocess.run([program, "--open"], capture_output=True, text=True, env={"PATH": "/nowhere", **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def found(program, **environment):
    said = opened(program, **environment)
    assert said["end"] == "done", said
    return Path(said["library"])


@pytest.mark.parametrize(
    "inside",
    [VENV, f"lib64/python3.14/site-packages/{CAPI}", f"lib/python3/dist-packages/{CAPI}", CAPI, "lib", f"lib/{os.uname().machine}-linux-gnu"],
    ids=["venv", "lib64", "debian's pip", "--target", "conda", "debian"],
)
def test_beside_us_in_every_layout(tree, inside):
    """Called by its path, as Python does, and by a link from elsewhere, as pipx makes it."""
    ours = tree("ours")
    library, program = ours.library(inside), ours.weir()
    assert found(program) == library
    link = tree("links").folder / "weir"
    link.symlink_to(program)
    assert found(link) == library


def test_nothing_is_found_where_there_is_nothing(tree):
    """The control of the others; of what may lie elsewhere, nothing is taken."""
    ours = tree("ours").environment()
    ours.library("lib/python2.7/site-packages/" + CAPI)
    ours.library(VENV, "libonnxruntime_providers_shared.so")
    said = opened(ours.weir())
    assert (said["end"], said["message"]) == ("failed", "ONNX Runtime was not found")
    assert "pip install onnxruntime" in said["hint"]


def test_the_environment_that_weir_is_in_comes_first(tree):
    ours, active = tree("ours").environment(), tree("active").environment()
    program, theirs = ours.weir(), active.library()
    assert found(program, VIRTUAL_ENV=str(active.folder)) == theirs, "ours has none"
    library = ours.library()
    assert found(program, VIRTUAL_ENV=str(active.folder)) == library
    assert found(program, CONDA_PREFIX=str(active.folder), PATH=active.python()) == library


def test_a_system_belongs_to_no_environment(tree):
    """A weir that no environment holds: the active environment is meant, then what lies beside it, then any Python."""
    ours, active, other = tree("usr"), tree("active").environment(), tree("other")
    program, library, theirs = ours.weir(), ours.library(), active.library()
    other.library()
    assert found(program, VIRTUAL_ENV=str(active.folder)) == theirs
    assert found(program, CONDA_PREFIX=str(active.folder)) == theirs
    assert found(program, PATH=other.python(), PYTHONUSERBASE=str(other.folder)) == library
    ours.environment("conda-meta")
    assert found(program, VIRTUAL_ENV=str(active.folder)) == library


def test_python_in_path_then_the_users_own(tree):
    ours, other, user, home = tree("ours"), tree("other"), tree("user"), tree("home/.local")
    program, theirs, mine = ours.weir(), other.library(), user.library()
    assert found(program, PATH=f"relative:/nowhere:{other.python()}", PYTHONUSERBASE=str(user.folder)) == theirs
    assert found(program, PYTHONUSERBASE=str(user.folder)) == mine
    library = home.library()
    assert found(program, HOME=str(home.folder.parent)) == library
    links = tree("links").folder
    (links / "python3").symlink_to(other.folder / "bin/python3")
    assert found(program, PATH=str(links)) == theirs, "a link to a Python leads there"


def test_the_newest_of_several(tree):
    ours = tree("ours")
    ours.library(name="libonnxruntime.so.1.9.0")
    newest = ours.library("lib/python3.13/site-packages/" + CAPI, "libonnxruntime.so.1.31.1")
    ours.library("lib/python3.12/site-packages/" + CAPI, "libonnxruntime.so.1.4.10")
    assert found(ours.weir()) == newest


def test_what_is_named_comes_before_all(tree):
    ours, other = tree("ours").environment(), tree("other")
    ours.library()
    named = other.library("any", "any.so")
    assert found(ours.weir(), WEIR_ONNXRUNTIME=str(named)) == named


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_everybody_can_write_to_is_not_loaded(tree, what):
    ours = tree("ours")
    library, program = ours.library(), ours.weir()
    library.unlink()
    shutil.copy(ours.real, library)
    (library if what == "file" else library.parent).chmod(0o777)
    said = opened(program)
    assert said["end"] == "failed" and "every user can write to" in said["message"]
    assert found(program, WEIR_ONNXRUNTIME=str(library)) == library


@pytest.mark.parametrize("place", ["bin/weir-ort", "libexec/weir/weir-ort"])
def test_weir_ort_beside_us(tree, place):
    ours = tree("ours")
    ours.library()
    found(ours.weir(place))
    (ours.folder / place).unlink()
    said = opened(ours.folder / "bin/weir")
    assert "weir-ort, the program that opens ONNX Runtime, was not found" in said["message"]
    folder = built_tool("").parent
    found(ours.folder / "bin/weir", PATH=str(folder))
    found(ours.folder / "bin/weir", WEIR_ORT=str(folder / "weir-ort"))


def test_a_system_that_cannot_start_weir_ort(tree):
    """As where there is musl alone: its loader is missing."""
    ours = tree("ours")
    ours.library()
    program = ours.weir()
    ort = ours.folder / "libexec/weir/weir-ort"
    ort.write_text("#!/lib/ld-of-another-system.so.2\n")
    said = opened(program)
    assert said["message"] == f"cannot start '{ort}': the dynamic loader that it needs is not on this system"
    assert "glibc" in said["hint"] and said["kind"] == opened(program, WEIR_ORT="/nowhere")["kind"]
