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
    "1.32": "1.32.0",
}
OPENVINO = "2026.4.1"
GENAI = "0.18.0"
QNN = "2.7.0"
# Graph optimizers that weir is compared with (peers.py), and what they need, at versions that go together.
PEERS = {
    "onnxruntime": "1.31.1",
    "onnxslim": "0.1.98",
    "onnxsim": "0.8.1",
    "onnxoptimizer": "0.4.2",
    "onnxscript": "0.7.2",
}
BESIDE_PEERS = ["onnx==1.23.2", "onnx-ir==1.1.0", "protobuf==7.36.2", "ml-dtypes==0.6.0", "typing-extensions==4.16.0",
                "sympy==1.14.0", "mpmath==1.3.0", "packaging==26.3", "flatbuffers==25.12.19", "colorama==0.4.6",
                "rich==15.0.0", "pygments==2.21.0", "markdown-it-py==4.3.0", "mdurl==0.1.2", "numpy==2.4.6"]  # fmt: skip
# What they are used with.
BESIDE = {"onnxruntime-genai": ["onnxruntime==1.31.1"], "onnxruntime-qnn": ["onnxruntime==1.31.1"]}


class Missing(Exception):
    """It is not there and cannot be installed: why."""


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("WEIR_CACHE") or f"{home}/weir") / "runtimes"


def kept(name, fill):
    """The folder of that name in the cache; made if it is not there, by fill(folder)."""
    folder = cache() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=folder.parent))
    try:
        fill(new)
        try:
            new.rename(folder)
        except OSError:  # somebody else was faster
            assert folder.is_dir()
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def environment(name, packages):
    """The Python of an environment of that name with these packages, name==version, and no others; made if it is not there."""

    def fill(folder):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, capture_output=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python"]
        words = ["install", "-q", "--no-deps", "--only-binary", ":all:", "--retries", "1", "--timeout", "20"]
        done = subprocess.run([*pip, *words, *packages], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"{', '.join(packages)} cannot be installed: {done.stderr.strip().splitlines()[-1]}")

    return kept(name, fill) / "bin" / "python"


def python_of(package, version):
    """The Python of an environment with that package."""
    beside = BESIDE.get(package, [])
    name = "-".join([package, version, *(each.replace("==", "-") for each in beside)])
    return environment(name, [f"{package}=={version}", f"numpy=={NUMPY}", *beside])


def run(package, version, jobs, scratch):
    """{name: error or None} of {name: (model, inputs, outputs)}; outputs are written where there is no error."""
    here = Path(tempfile.mkdtemp(dir=scratch))
    if package == "onnxruntime":
        exact_products = importlib.import_module("exact_products")  # which the environment has not
        jobs = {name: (exact_products.exact_file(model, here / f"{i}.onnx"), *arrays) for i, (name, (model, *arrays)) in enumerate(jobs.items())}
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


def genai_session(path):
    """Tokens until the greatest length of genai_config.json, each the likeliest."""
    genai = importlib.import_module("onnxruntime_genai")
    model = genai.Model(os.path.dirname(path))

    def generate(given):
        generator = genai.Generator(model, genai.GeneratorParams(model))
        generator.append_tokens(given["input_ids"])
        while not generator.is_done():
            generator.generate_next_token()
        return [generator.get_sequence(0)]

    return generate


def qnn_session(path):
    """The simulator of Qualcomm's NPU (HTP), as its version 73; what would go to the CPU fails."""
    onnxruntime, qnn = importlib.import_module("onnxruntime"), importlib.import_module("onnxruntime_qnn")
    onnxruntime.set_default_logger_severity(4)
    if "QNN" not in {device.ep_name for device in onnxruntime.get_ep_devices()}:
        onnxruntime.register_execution_provider_library("QNN", qnn.get_library_path())
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "QNN"]
    options.add_provider_for_devices(devices, {"backend_path": qnn.get_qnn_htp_path(), "htp_arch": "73", "soc_model": "60"})
    session = onnxruntime.InferenceSession(path, options)
    return lambda given: session.run(None, given)


SESSIONS = {
    "onnxruntime": onnxruntime_session,
    "onnxruntime-genai": genai_session,
    "onnxruntime-qnn": qnn_session,
    "openvino": openvino_session,
}


def main(package, jobs, results):
    import numpy as np

    found = {}
    for name, (model, inputs, outputs) in json.loads(Path(jobs).read_text()).items():
        try:
            np.savez(outputs, *SESSIONS[package](model)(dict(np.load(inputs))))
            found[name] = None
        except Exception as why:  # of any kind: runtimes have their own
            found[name] = str(why) or repr(why)
    Path(results).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
