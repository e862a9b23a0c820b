"""`pip install onnx-weir[verify]` into an empty environment, and nothing else: models are verified from there.

weir is called by its path and by Python, with nothing in the process's environment that would lead to the runtime: where
the installer put it must do.
"""

import os
import shutil
import subprocess
import sys

import pytest

from conftest import ALL, SAMPLE

OLDEST = "1.20.1"
NOWHERE = {"PATH": "/nowhere", "HOME": "/nowhere"}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel and what pip gets for these requirements: `installed("{}[verify]")`."""

    def make(*requirements):
        folder = tmp_path_factory.mktemp("verifying")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        words = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*words, *(each.format(wheel) for each in requirements)], check=True)
        return folder

    return make


@pytest.fixture(scope="module")
def empty(installed):
    return installed("{}[verify]")


@pytest.fixture(scope="module")
def model(ordinary, tmp_path_factory):
    """Quantized by the ordinary program."""
    path = tmp_path_factory.mktemp("model") / "out.onnx"
    ordinary("quantize", SAMPLE, path, "--block-size", "32")
    return path


def run(*words, code=0, cwd=None):
    done = subprocess.run(list(map(os.fspath, words)), capture_output=True, text=True, env=NOWHERE, stdin=subprocess.DEVNULL, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def test_by_its_path(empty, model, tmp_path):
    said = run(empty / "bin/weir", "verify", SAMPLE, model, "--metric", "sqnr=10")
    assert "passed" in said and said.splitlines()[-1].startswith("verified: ")
    assert "failed" in run(empty / "bin/weir", "verify", SAMPLE, model, "--max-abs", "0", code=1)
    link = tmp_path / "weir"  # as pipx puts it in PATH
    link.symlink_to(empty / "bin/weir")
    assert run(link, "verify", SAMPLE, model, "--metric", "sqnr=10", "--quiet").splitlines()[-1] == said.splitlines()[-1]


def test_while_writing(empty, tmp_path):
    said = run(empty / "bin/weir", "conv2matmul", SAMPLE, tmp_path / "out.onnx", "--verify")
    assert "verified: 6 of 6 sites (100.0 %)" in said and (tmp_path / "out.onnx").exists()


def test_in_python(empty, model, tmp_path):
    lines = f"""
import weir
found = weir.verify({str(SAMPLE)!r}, {str(model)!r}).verification
assert found.scope == "model" and found.not_judged == len(found.rows) > 0 and found.rows[0].figures.sqnr_db > 10
written = weir.conv2matmul({str(SAMPLE)!r}, {str(tmp_path / "out.onnx")!r}, verify="sites").verification
assert (written.scope, written.passed, written.failed) == ("sites", 6, 0)
try:
    weir.verify({str(SAMPLE)!r}, {str(model)!r}, max_abs=0)
except weir.FailedError as error:
    print(error.report.verification.failed > 0, found.runtime)
"""
    verified, version = run(empty / "bin/python", "-I", "-c", lines).split()
    assert verified == "True" and tuple(map(int, version.split(".")[:2])) >= (1, 20)
    assert "not judged (drawn inputs: --inputs DIR)" in run(empty / "bin/python", "-m", "weir", "verify", SAMPLE, model)


def test_without_a_runtime(environment, python, model):
    """The control: the same wheel alone."""
    said = run(environment / "bin/weir", "verify", SAMPLE, model, code=69)
    assert "ONNX Runtime was not found" in said and "pip install onnxruntime" in said
    lines = f"import weir\ntry:\n    weir.verify({str(SAMPLE)!r}, {str(model)!r})\nexcept weir.RuntimeMissingError as e:\n    print(e.code)"
    assert python("-c", lines, env=NOWHERE) == "69\n"


def test_where_everything_is_in_one_folder(wheel, empty, model, tmp_path):
    """pip install --target: weir-ort and the packages lie elsewhere than in an environment."""
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*words, "--target", tmp_path, wheel], check=True, capture_output=True)
    [packages] = empty.glob("lib/python*/site-packages")
    shutil.copytree(packages / "onnxruntime", tmp_path / "onnxruntime", copy_function=os.link)
    assert "compared with ONNX Runtime " in run(tmp_path / "bin/weir", "verify", SAMPLE, model)


def test_the_oldest_runtime(installed, model, tmp_path):
    if not ALL:
        pytest.skip("downloads another runtime: tools/test --all")
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        pytest.skip(f"onnxruntime {OLDEST} has no wheel for this Python")
    oldest = installed("{}", f"onnxruntime=={OLDEST}")
    assert f"compared with ONNX Runtime {OLDEST}" in run(oldest / "bin/weir", "verify", SAMPLE, model)
    run(oldest / "bin/weir", "quantize", SAMPLE, tmp_path / "out.onnx", "--verify=all")


def test_a_runtime_that_is_too_old(installed, model):
    if not ALL:
        pytest.skip("downloads another runtime: tools/test --all")
    if not (3, 10) <= sys.version_info[:2] <= (3, 12):
        pytest.skip("onnxruntime 1.19.2 has no wheel for this Python")
    said = run(installed("{}", "onnxruntime==1.19.2") / "bin/weir", "verify", SAMPLE, model, code=69)
    assert "1.19.2" in said and "1.20 is the oldest that works" in said
