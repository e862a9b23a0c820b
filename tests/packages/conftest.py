"""What tests of the wheel share: an environment that has nothing but it, and the package imported from there.

WEIR_WHEEL names the wheel, WEIR the program of the ordinary build, which the results are compared with, WEIR_FAULT_PROGRAM
the one with fault injection; `tools/test packages` sets all. WEIR_WHEEL_TOOLS: an environment with what
tests/requirements-wheel.txt lists; tests that need it are skipped without. With WEIR_TEST_ALL=1 (tools/test --all) what takes minutes is tested too.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
sys.path.insert(0, str(TESTS / "support"))

import make_encoder  # noqa: E402

SAMPLE = TESTS / "data" / "parakeet-dynamo" / "encoder-model.onnx"
ALL = os.environ.get("WEIR_TEST_ALL") == "1"
WAIT = 60  # seconds until a test gives up on something that should have come

# Who runs the tests in the background of a script has SIGINT ignored, which children inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def named(variable):
    path = os.environ.get(variable, "")
    if not os.path.isfile(path):
        pytest.exit(f"{variable} does not name a file: run the tests with tools/test packages", returncode=2)
    return Path(path).resolve()


@pytest.fixture(scope="session")
def wheel():
    return named("WEIR_WHEEL")


@pytest.fixture(scope="session")
def ordinary():
    """The program of the ordinary build: `ordinary("convert", a, b)` demands success."""

    def run(*words, code=0):
        done = subprocess.run([named("WEIR"), *map(os.fspath, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def runtime(monkeypatch):
    """The tests' own ONNX Runtime is what is found, in an environment that has none too."""
    [library] = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    monkeypatch.setenv("WEIR_ONNXRUNTIME", os.fspath(library))


@pytest.fixture(scope="session")
def fault():
    return named("WEIR_FAULT_PROGRAM")


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """An environment with the wheel in it, and not even pip."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    words = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check", "install"]
    subprocess.run([*words, "--quiet", "--no-index", "--no-deps", wheel], check=True)
    return folder


@pytest.fixture(scope="session")
def weir(environment):
    """The package, as whoever has that environment imports it."""
    [packages] = environment.glob("lib/python*/site-packages")
    sys.path.insert(0, str(packages))
    module = importlib.import_module("weir")
    assert Path(module.__file__).is_relative_to(packages)
    return module


@pytest.fixture(scope="session")
def tables(environment):
    done = subprocess.run([environment / "bin" / "weir", "--generate", "json"], capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def python(environment):
    """Runs lines with the environment's interpreter, away from the sources."""

    def run(*words, cwd="/", code=0, env=None):
        words = [environment / "bin" / "python", *words]
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A speech encoder of two megabytes."""
    path = tmp_path_factory.mktemp("encoder") / "encoder.onnx"
    make_encoder.make_encoder(path, size=2_000_000)
    return path


@pytest.fixture
def instead(weir, monkeypatch):
    """Has the functions run another program."""

    def run(path):
        monkeypatch.setattr(sys.modules["weir._run"], "find_weir_bin", lambda: os.fspath(path))

    return run
