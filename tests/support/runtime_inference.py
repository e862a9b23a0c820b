"""What ONNX Runtime's own inference says of the outputs of models, by the Python of an environment that has it and need have
nothing else: of operators too for which it has no kernel.

    python runtime_inference.py models.json results.json      models: [path]; results: {path: {"dims": {name: dims}, "error": text}}

Outputs are declared with other dims than they have, so that the runtime says both as it loads the model; a dim that it does not know
is -1. That it has no kernel, or that a kernel refuses an attribute, comes after inference and is no error here.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import onnxruntime


def load(path):
    try:
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as why:  # of any kind: runtimes have their own
        return str(why)
    return ""


def told(path):
    """What is written to the standard error as the model is loaded."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            error = load(path)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        said.seek(0)
        return error, said.read().decode(errors="replace")


def inferred(path):
    error, text = told(path)
    found = re.findall(r"Error merging shape info for output. '(\w+)' source:\{([-\d,]*)\}", text)
    dims = {name: [int(dim) for dim in dims.split(",") if dim] for name, dims in found}
    return {"dims": dims, "error": error if re.search("InferenceError|Type Error|INVALID_GRAPH", error) else ""}


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(2)
    models, results = sys.argv[1:]
    Path(results).write_text(json.dumps({path: inferred(path) for path in json.loads(Path(models).read_text())}))
