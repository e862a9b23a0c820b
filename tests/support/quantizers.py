"""onnxruntime's quantizers in both versions that --compat names: functions called here, or in the environment of the newest.

    for tool in quantizers.TOOLS:
        tool(quantize_dynamic, source, out, per_channel=True)      # whatever the function raises, as RuntimeError from the newest
        weir("dynamic", source, ours, "--compat", tool.word)

The tests' own environment has 1.31. That of 1.32 is made once, of tests/requirements-quantizers-1.32.txt, and kept (runtimes.py). One
process of its Python answers all calls of a process of tests, since the imports take seconds: functions and arguments go there as
pickle, so they are of installed packages or of files in this folder, and what is in these files must import there.
"""

import hashlib
import importlib.metadata
import os
import pickle
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
LIST = SUPPORT.parent / "requirements-quantizers-1.32.txt"


def newest_python():
    runtimes = importlib.import_module("runtimes")
    lines = [line.split("#")[0].strip() for line in LIST.read_text().splitlines()]
    packages = [line for line in lines if line]
    digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]
    return runtimes.environment(f"quantizers-{digest}", packages)


class Here:
    """The version of the tests' own environment."""

    version, word = "1.31", "onnxruntime-1.31"

    def __call__(self, function, *args, **options):
        assert importlib.metadata.version("onnxruntime").startswith(f"{self.version}.")
        return function(*args, **options)

    def python(self):
        return sys.executable

    def __str__(self):
        return self.version


class There:
    """The newest, in a process that lives as long as this one."""

    version, word = "1.32", "onnxruntime-1.32"

    def __init__(self):
        self.process = self.said = None

    def start(self):
        if self.process is not None and self.process.poll() is None:
            return
        self.said = tempfile.TemporaryFile()
        words = [self.python(), __file__]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)

    def __call__(self, function, *args, **options):
        self.start()
        try:
            put(self.process.stdin, (function, args, options))
            ok, found = taken(self.process.stdout)
        except (EOFError, BrokenPipeError):
            self.process.wait()
            self.said.seek(0)
            said = self.said.read().decode(errors="replace")[-500:]
            raise RuntimeError(f"onnxruntime {self.version} ended with {self.process.returncode}: {said}") from None
        if not ok:
            raise RuntimeError(found)
        return found

    def python(self):
        return newest_python()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    def __str__(self):
        return self.version


def put(stream, what):
    data = pickle.dumps(what)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def taken(stream):
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(stream.read(struct.unpack("<Q", head)[0]))


HERE, THERE = TOOLS = Here(), There()


# ---- functions for either environment


def outputs(path, feeds, optimized=True):
    """What the runtime makes of the feeds."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


# ---- in the environment of the newest


def main():
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    sys.path.insert(0, str(SUPPORT))
    importlib.import_module("logging").disable(importlib.import_module("logging").CRITICAL)
    importlib.import_module("warnings").simplefilter("ignore")
    while True:
        try:
            function, args, options = taken(source)
        except EOFError:
            return
        try:
            answer = (True, function(*args, **options))
        except Exception as why:  # tools raise what they like
            answer = (False, f"{type(why).__name__}: {why}")
        put(answers, answer)


if __name__ == "__main__":
    main()
