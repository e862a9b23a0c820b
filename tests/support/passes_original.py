#!/usr/bin/env python3
"""Makes the corpus of onnx-passes: models of passes_models.py, before and after the original's passes.

    python -m venv V && V/bin/pip install onnx-passes==0.4.1 qonnx==1.0.0
    V/bin/python passes_original.py ../data/onnx-passes/cases.tar.xz         writes the archive anew

The original runs without verification, one pass a model, its own functions put in and shapes inferred before, as its
programs do. Of functions and opsets, a case keeps what it uses. The archive holds `index.jsonl` (as passes_cases.py reads
it; the first line names the version) and the models; it is the same for the same version.
"""

import contextlib
import importlib
import importlib.metadata
import io
import json
import logging
import signal
import sys
import tarfile
import warnings

import onnx
import onnx_ir
import onnx_passes.passes as catalogue
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedOpsetsPass
from onnx_passes.ops import _registry as operators

import passes_models

VERSION = "0.4.1"
PATIENCE = 20  # seconds for a pass: some of the original's never end
KEEP_UNUSED = {"RemoveUnusedFunctions", "RemoveUnusedOpsets", "InjectCustomOps"}
AS_IT_IS = {"InjectCustomOps", "ShapeInference", "TopologicalSort", "Checker"}  # neither functions nor shapes put in


def classes():
    """All passes of the original by the name of their class, with keys; the modules that it leaves out too."""
    for module in ("imports.qonnx", "inline.qonnx", "lowering.sigmoid"):
        importlib.import_module("onnx_passes.passes." + module)
    found, keys = {}, {}
    for key, members in catalogue._registry.items():
        for member in members:
            found[member.__name__] = member
            keys.setdefault(member.__name__, []).append(key)
    return found, keys


def with_functions(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.functions.extend(f.to_function_proto() for f in operators.values())
    if not any(o.domain == "onnx_passes.ops" for o in copy.opset_import):
        copy.opset_import.append(onnx.helper.make_opsetid("onnx_passes.ops", 1))
    return copy


def slim(model, keep_unused):
    """Without the functions and opsets that it does not use."""
    if keep_unused:
        return model
    inside = onnx_ir.from_proto(model)
    RemoveUnusedFunctionsPass()(inside)
    RemoveUnusedOpsetsPass()(inside)
    found = onnx_ir.to_proto(inside)
    if not any(o.domain == "" for o in found.opset_import):
        found.opset_import.extend(o for o in model.opset_import if o.domain == "")
    return found


def case(row, passes, keys):
    """A line of the index, and the files of it."""
    keep = row.name in KEEP_UNUSED
    traced = passes_models.build(row)
    full = traced
    if row.name not in AS_IT_IS:
        # What another opset is asked for has no functions: the original refuses theirs.
        full = traced if row.name.startswith("ConvertVersion") else with_functions(traced)
        full = onnx.shape_inference.infer_shapes(full, data_prop=True)
    plain = onnx_ir.to_proto(onnx_ir.from_proto(full)).SerializeToString(deterministic=True)
    before = slim(full, keep)
    line = {"pass": row.name, "tag": row.tag, "keys": keys[row.name], "fired": False, "error": None, "inputs": row.inputs}
    line["before"] = f"{row.name}.{row.tag}.before.onnx"
    if row.config:
        line["config"] = row.config
    files = {line["before"]: before}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            signal.alarm(PATIENCE)
            result = passes[row.name](dict(row.config or {}), {})(onnx_ir.from_proto(full))
            signal.alarm(0)
            given = onnx_ir.to_proto(result.model)
            line["fired"] = given.SerializeToString(deterministic=True) != plain  # some change things and do not say so
            after = slim(given, keep)
    except Exception as error:  # noqa: BLE001 — the original raises what it likes
        while error.__context__ is not None:
            error = error.__context__
        signal.alarm(0)
        line["error"] = f"{type(error).__name__}: {error}"[:120]
        return line, files
    if line["fired"]:
        line["after"] = f"{row.name}.{row.tag}.after.onnx"
        files[line["after"]] = after
    return line, files


def archive(path, lines, files):
    """A tar.xz whose bytes depend on nothing but what is in it."""
    with tarfile.open(path, "w:xz", preset=9) as out:
        index = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
        for name, held in [("index.jsonl", index), *sorted(files.items())]:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(held), 0o644
            out.addfile(entry, io.BytesIO(held))


def endless(*_):
    raise TimeoutError("the pass does not end")


def main(path):
    installed = importlib.metadata.version("onnx-passes")
    if installed != VERSION:
        sys.exit(f"onnx-passes {installed} is installed; the corpus is of {VERSION}")
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, endless)
    passes, keys = classes()
    lines, files = [{"onnx-passes": VERSION, "classes": len(passes)}], {}
    for row in passes_models.models():
        line, made = case(row, passes, keys)
        lines.append(line)
        files.update({name: model.SerializeToString(deterministic=True) for name, model in made.items()})
    archive(path, lines, files)
    fired = {line["pass"] for line in lines[1:] if line["fired"]}
    print(f"{len(lines) - 1} cases of {len({x['pass'] for x in lines[1:]})} classes, {len(fired)} of which fire")
    for name in sorted(set(passes) - fired):
        errors = sorted({str(line["error"]) for line in lines[1:] if line["pass"] == name})
        print(f"  {name} does not fire: {', '.join(errors) or 'it has no model'}")


if __name__ == "__main__":
    main(sys.argv[1])
