"""Runtimes of other versions than the tests' own, each in a virtual environment that is made once.

They lie in ${WEIR_CACHE:-${XDG_CACHE_HOME:-~/.cache}/weir}/runtimes, named by package and version. Called as a program by
the Python of such an environment, this file runs models:

    python runtimes.py jobs.json results.json      jobs: {name: [model, inputs.npz, outputs.npz]}; results: {name: error or null}
"""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NUMPY = "2.2.6"  # the newest that all of them import
# By the version that a target names, the newest of its patches.
ONNXRUNTIME = {
    "1.20": "1.20.1",
    "1.21": "1.21.1",
    "1.22": "1.22.1",
    "1.23": "1.23.2",
    "1.24": "1.24.4",
    "1.25": "1.25.1",
    "1.26": "1.26.0",
    "1.27": "1.27.0",
    "1.28": "1.28.0",
    "1.29": "1.29.0",
    "1.30": "1.30.0",
    "1.31": "1.31.1",
}
OPENVINO = "2026.4.1"


class Missing(Exception):
    """It is not there and cannot be installed: why."""


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("WEIR_CACHE") or f"{home}/weir") / "runtimes"


def python_of(package, version):
    """The Python of an environment with that package, made if it is not there."""
    folder = cache() / f"{package}-{version}"
    if folder.is_dir():
        return folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", new], check=True, capture_output=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", new / "bin" / "python"]
        words = ["install", "-q", "--no-deps", "--only-binary", ":all:", "--retries", "1", "--timeout", "20"]
        done = subprocess.run([*pip, *words, f"{package}=={version}", f"numpy=={NUMPY}"], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"{package} {version} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
        try:
            new.rename(folder)
        except OSError:  # somebody else was faster
            assert folder.is_dir()
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder / "bin" / "python"


def run(package, version, jobs, scratch):
    """{name: error or None} of {name: (model, inputs, outputs)}; outputs are written where there is no error."""
    here = Path(tempfile.mkdtemp(dir=scratch))
    (here / "jobs.json").write_text(json.dumps({name: [os.fspath(path) for path in job] for name, job in jobs.items()}))
    words = [python_of(package, version), __file__, package, here / "jobs.json", here / "results.json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{package} {version}: {done.stderr}"
    return json.loads((here / "results.json").read_text())


# ---- in the environment


def onnxruntime_session(path):
    onnxruntime = importlib.import_module("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda given: session.run(None, given)


def openvino_session(path):
    openvino = importlib.import_module("openvino")
    compiled = openvino.Core().compile_model(path, "CPU")
    return lambda given: list(compiled(given).values())


def main(package, jobs, results):
    import numpy as np

    found = {}
    for name, (model, inputs, outputs) in json.loads(Path(jobs).read_text()).items():
        try:
            session = {"onnxruntime": onnxruntime_session, "openvino": openvino_session}[package](model)
            np.savez(outputs, *session(dict(np.load(inputs))))
            found[name] = None
        except Exception as why:  # of any kind: runtimes have their own
            found[name] = str(why) or repr(why)
    Path(results).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
