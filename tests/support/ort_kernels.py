"""Which operators of ai.onnx and com.microsoft each release of ONNX Runtime has a CPU kernel for, from the runtimes themselves:

    ort_kernels.py FOLDER > src/targets/target_kernels.def

FOLDER has a folder for each release (pip install --no-deps --target FOLDER/1.20.0 onnxruntime==1.20.0); a developer runs it when a release comes out.
A kernel is one for a node whose operator came with the version that the kernel begins with, or with one before its end, where it has an end: what a kernel
without an end does with later versions the runtime does not try. An operator that is a function in ONNX is run through its body where it has no kernel:
that is asked of the release, with the models that ONNX has of it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPEN = 2**31 - 1
# The first release that loads an opset, as src/targets/target_versions.def has it.
LOADS_OPSET = {0: 0, 22: 21, 23: 23, 24: 24, 26: 25, 27: 32}
FIRST_TRIED = 22  # functions of older versions have run in every release that is listed

KERNELS = """
import json
from onnxruntime.capi import onnxruntime_pybind11_state as state
print(json.dumps([[k.op_name, k.version_range[0], k.version_range[1], k.type_constraints] for k in state.get_all_opkernel_def()
                  if k.domain == DOMAIN and k.provider in ("", "CPUExecutionProvider")]))
"""
SCHEMAS = """
import json
from onnxruntime.capi import onnxruntime_pybind11_state as state
print(json.dumps([[s.name, s.since_version] for s in state.get_all_operator_schema() if s.domain == DOMAIN]))
"""
LOADS = """
import json, sys
import onnxruntime
onnxruntime.set_default_logger_severity(4)
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
loaded = []
for path in json.load(sys.stdin):
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        loaded.append(path)
    except Exception as error:
        pass
print(json.dumps(loaded))
"""


def asked(release, program, given="", domain=""):
    environment = dict(os.environ, PYTHONPATH=str(release))
    done = subprocess.run([sys.executable, "-c", f"DOMAIN = {domain!r}\n{program}"], input=given, capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def takes(kernel, since):
    _, first, last, _ = kernel
    return first == since or (first < since <= last and last != OPEN)


def dtypes_of(words, numbers):
    """The bits of the tensors among the types; None: there are none."""
    tensors = [numbers[word[7:-1]] for word in words if word.startswith("tensor(") and word[7:-1] in numbers]
    return sum(1 << number for number in tensors) if tensors else None


def functions(schemas, folder):
    """Models with one node, of operators that are functions and came with a version that is tried: (operator, version) to paths."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    found = {}
    for case in collect_testcases(None):
        model = case.model
        if not model or len(model.graph.node) != 1 or model.graph.node[0].domain:
            continue
        node, opset = model.graph.node[0], next((i.version for i in model.opset_import if not i.domain), 0)
        model.ir_version = min(model.ir_version, 10)
        for schema in {schemas[node.op_type, v] for v in range(FIRST_TRIED, opset + 1) if (node.op_type, v) in schemas}:
            if not (schema.has_function or schema.has_context_dependent_function) or schema.since_version < FIRST_TRIED:
                continue
            model.opset_import[0].version = schema.since_version
            path = Path(folder) / f"{case.name}-{schema.since_version}.onnx"
            onnx.save(model, path)
            found.setdefault((schema.name, schema.since_version), []).append(str(path))
    return found


def body_opsets(schema, newest):
    """The opsets of models in which the body of a function is taken: those in which its own operators are what they were where it was written."""
    import onnx

    def unchanged(version, opset):
        for node in schema_body(schema, version).node:
            if onnx.defs.get_schema(node.op_type, version).since_version != onnx.defs.get_schema(node.op_type, opset).since_version:
                return False
        return True

    taken = []
    for opset in range(schema.since_version, newest + 1):
        if onnx.defs.get_schema(schema.name, opset).since_version == schema.since_version:
            written = max((v for v in schema.function_opset_versions if v <= opset), default=0)
            taken += [opset] if written and unchanged(written, opset) else []
    return taken


def schema_body(schema, version):
    import onnx

    body = onnx.FunctionProto()
    body.ParseFromString(schema.get_function_with_opset_version(version))
    return body


def first_releases(history, kernels, since):
    """Of each variable: (release, dtypes that it takes from then on), only what is more than before."""
    rows, had, any_before = [], {}, False
    for release in sorted(kernels):
        fitting = [k for k in kernels[release].get(history.name, ()) if takes(k, since)]
        if not fitting:
            continue
        more = {}
        for variable in history.type_constraints:
            name = variable.type_param_str
            words = {w for k in fitting for w in k[3].get(name, ())}
            words = words or {w for k in fitting if name not in k[3] for w in variable.allowed_type_strs}
            bits = dtypes_of(words, NUMBERS)
            if bits and bits & ~had.get(name, 0):
                more[name] = bits | had.get(name, 0)
                had[name] = more[name]
        if more or not any_before:
            rows.append((release, more))
        any_before = True
    return rows


def microsoft(releases):
    """The first release with a kernel of each operator of com.microsoft, 0: none has one; those of the oldest are left out."""
    first = {}
    for number in sorted(releases):
        for kernel in asked(releases[number], KERNELS, domain="com.microsoft"):
            first.setdefault(kernel[0], number)
    known = {name for name, _ in asked(releases[max(releases)], SCHEMAS, domain="com.microsoft")}
    return {name: first.get(name, 0) for name in sorted(known) if first.get(name, 0) > min(releases) or name not in first}


def loads(opset):
    """The first release that loads it."""
    return max(release for version, release in LOADS_OPSET.items() if version <= opset)


def older(history, known):
    """(the first release that knows this version, the version that releases take it for which load its opset and do not), or None."""
    name, since = history.name, history.since_version
    lacking = [release for release in sorted(known) if release >= loads(since) and (name, since) not in known[release]]
    if not lacking:
        return None
    [taken] = {max((v for n, v in known[release] if n == name and v < since), default=0) for release in lacking}
    return (lacking[-1] + 1, taken) if taken else None


def main(folder):
    import onnx

    global NUMBERS
    NUMBERS = {onnx.helper.tensor_dtype_to_string(n).split(".")[-1].lower(): n for n in onnx.TensorProto.DataType.values() if n}
    releases = {int(p.name.split(".")[1]): p for p in Path(folder).iterdir() if p.name.startswith("1.")}
    kernels = {}
    for number, path in releases.items():
        for kernel in asked(path, KERNELS):
            kernels.setdefault(number, {}).setdefault(kernel[0], []).append(kernel)
    known = {number: {tuple(row) for row in asked(path, SCHEMAS)} for number, path in releases.items()}
    history = sorted((s for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and not s.deprecated), key=lambda s: (s.name, s.since_version))
    newest = onnx.defs.onnx_opset_version()
    at = {(s.name, v): onnx.defs.get_schema(s.name, v) for s in history for v in range(s.since_version, newest + 1)}
    with tempfile.TemporaryDirectory() as scratch:
        models = functions(at, scratch)
        loaded = {number: set(asked(path, LOADS, json.dumps([m for ms in models.values() for m in ms]))) for number, path in releases.items()}
    print(HEAD % (min(releases), max(releases)))
    for schema in history:
        name, since = schema.name, schema.since_version
        rows = first_releases(schema, kernels, since)
        body = schema.has_function or schema.has_context_dependent_function
        by_body = [min(releases)] if body and since < FIRST_TRIED else [n for n in sorted(releases) if any(m in loaded[n] for m in models.get((name, since), ()))]
        if schema.has_function:
            tried = models.get((name, since))  # what its body has may have no kernel either
            opsets = body_opsets(schema, newest) if by_body or not tried else []
            while opsets:  # runs of opsets side by side
                last = next(o for o in opsets if o + 1 not in opsets)
                print(f'FUNCTION("{name}", {since}, {max(min(releases), loads(opsets[0]))}, {opsets[0]}, {last})')
                opsets = [o for o in opsets if o > last]
        elif by_body:
            print(f'FUNCTION("{name}", {since}, {by_body[0]}, {min(schema.context_dependent_function_opset_versions)}, {newest})')
        if found := older(schema, known):
            print(f'OLDER("{name}", {since}, {found[0]}, {found[1]})')
        for release, more in rows:
            for variable, bits in more.items() or [("NULL", 0)]:
                print(f'KERNEL("{name}", {since}, {release}, {variable if variable == "NULL" else chr(34) + variable + chr(34)}, {bits:#x})')


    for name, release in microsoft(releases).items():
        print(f'MICROSOFT("{name}", {release})')


HEAD = """// Made by tests/support/ort_kernels.py, of ONNX Runtime 1.%d to 1.%d: do not change it by hand.
//
// The first release whose CPU provider has a kernel for an operator of ai.onnx, by the version that the operator came
// with; operators without a row have none. A row with a variable says which types (bits by dtype) that takes from the
// release on; without one: a kernel of any types. What is a function in ONNX the release takes apart, in models of some
// opsets: those in which the operators of its body are what they were where it was written.
// A release that loads an opset and does not know a version of it takes an operator for that of the version before.
//
// KERNEL(operator, since, ort, variable, dtypes)
// OLDER(operator, since, ort that knows it, the version that those before take it for)
// FUNCTION(operator, since, ort, from opset, to opset)
// MICROSOFT(operator of com.microsoft, ort; 0: none has a kernel): those of all releases are left out"""

if __name__ == "__main__":
    main(sys.argv[1])
