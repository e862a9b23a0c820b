"""Configurations of onnx-passes, what it makes of a small model with each, and how both are compared.

    onnx_passes_configs.py --python PYTHON    runs onnx-passes, which that Python has, and writes tests/data/onnx-passes

The folder has the model, its inputs and expected outputs, and for each configuration a folder with `config.yaml`, the words of
the command line (`passes.txt`), what came out (`golden.onnx`, without the functions that every output has) and the verdict
(`verdict.txt`: the exit code, and the last line of what was said).
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

DATA = pathlib.Path(__file__).parent.parent / "data" / "onnx-passes-configs"

REFERENCE = "reference:\n  inp: [x.npy]\n  out: [{}.npy]\n"

# name: (configuration, words of the command line[, model])
CONFIGS = {
    "names": (
        "imports:\n  - onnx_passes.passes.imports.qonnx\n  - onnx_passes.passes.inline.qonnx\n"
        "passes: [streamline.algebraic.numeric.GroupMul, eliminate-identity, streamline.algebraic.numeric.EliminateNeg]\n",
        [],
    ),
    "words-behind": ("passes:\n- eliminate\n", ["streamline.algebraic.numeric.GroupMul", "streamline.algebraic.numeric.EliminateNeg"]),
    "no-passes": ("logging: {verbose: false}\n", ["eliminate"]),
    "exhaustive": (
        "exhaustive: true\npasses:\n  - streamline.reorder.transpose.FuseTranspose\n"
        "  - streamline.reorder.transpose.EliminateIdentityTranspose\n  - eliminate\n",
        [],
    ),
    "cleanup": ("passes: [eliminate, cleanup]\nlift_constants: {lift_all_constants: true, size_limit: 0}\n", []),
    "aliases": (
        "passes: [streamline.algebraic.numeric.GroupMul, verify]\nverify:\n  tolerance: {rtol: &small 1.0e-4, atol: *small}\n"
        + REFERENCE.format("scores"),
        [],
    ),
    "steps": ("passes: [checker, eliminate, verify, checker]\nverify: {true: true}\n" + REFERENCE.format("scores"), []),
    "off": ("passes: [streamline.algebraic.numeric.GroupMul]\nverify: {}\n" + REFERENCE.format("scores"), []),
    "tolerance-met": (
        "passes: [streamline.algebraic.numeric.GroupMul, eliminate, streamline.algebraic.numeric.EliminateNeg]\n"
        "verify: {tolerance: {rtol: 1.0e-4, atol: 1.0e-5}}\n" + REFERENCE.format("scores"),
        [],
    ),
    "tolerance-not-met": (
        "passes: [eliminate, streamline.algebraic.numeric.GroupMul]\nverify: {tolerance: {rtol: 0, atol: 0}}\n"
        + REFERENCE.format("scores"),
        [],
    ),
    "metrics-met": (
        "passes: [eliminate, verify]\nverify:\n  tolerance: {rtol: 1.0e-4, atol: 1.0e-5}\n  metrics:\n    accuracy: [0.9, 1.0]\n"
        "    top_5_accuracy: [0.94, 0.96]\n" + REFERENCE.format("classes"),
        [],
    ),
    "accuracy-not-met": (
        "passes: [eliminate, verify]\nverify: {metrics: {accuracy: [0.96, 1.0]}}\n" + REFERENCE.format("classes"),
        [],
    ),
    "top-5-not-met": (
        "passes: [eliminate, verify]\nverify: {metrics: {top_5_accuracy: [0.0, 0.9]}}\n" + REFERENCE.format("classes"),
        [],
    ),
    "error-met": (
        "passes: [eliminate, verify.VerifyMetric]\nverify: {metrics: {max_abs_error: [0, 0.6], count_mispredictions: [1, 1]}}\n"
        + REFERENCE.format("noisy"),
        [],
    ),
    "error-not-met": (
        "passes: [eliminate, verify.VerifyMetric]\nverify: {metrics: {max_abs_error: [0, 0.1]}}\n" + REFERENCE.format("noisy"),
        [],
    ),
    "mispredictions-not-met": (
        "passes: [eliminate, verify.VerifyMetric]\nverify: {metrics: {count_mispredictions: [0, 0]}}\n" + REFERENCE.format("noisy"),
        [],
    ),
    "no-metric-step": (
        "passes: [eliminate]\nverify: {metrics: {accuracy: [0.9, 1.0]}}\n" + REFERENCE.format("classes"),
        [],
    ),
    "files": (
        "passes: [eliminate, streamline.algebraic.numeric.EliminateNeg]\n"
        "logging: {verbose: true, checkpoint: last.onnx, keep_intermediates: steps}\n",
        [],
    ),
    "missing-reference": ("passes: [eliminate]\nverify: {true: true}\nreference: {inp: [nowhere.npy]}\n", []),
    "bad-reference": ("passes: [eliminate]\nverify: {true: true}\nreference: {inp: [bad.npy]}\n", []),
    "streamline": ("passes: [streamline]\n", []),
    "streamline-verified": (
        "imports: [onnx_passes.passes.streamline]\npasses: [checker, shape-inference, fold-constants, streamline, verify]\n"
        "verify:\n  tolerance: {rtol: 1.0e-3, atol: 1.0e-5}\n  metrics: {max_abs_error: [0, 1.0e-4]}\n"
        + REFERENCE.format("scores"),
        [],
    ),
    "layouts": (
        "passes: [convert-layouts]\nlayouts:\n  inp: [{assumes: [B, F], perm: [1, 0]}]\n  out: [null]\n",
        [],
    ),
    "layouts-out": ("passes: [convert-layouts]\nlayouts: {out: [{assumes: [B, C], perm: [1, 0]}]}\n", []),
    "thresholds": ("passes: [shape-inference, range-annotation, infer-thresholds, fold-constants, eliminate]\n", [], "rounding"),
    "few-thresholds": (
        "passes: [shape-inference, range-annotation, infer-thresholds, fold-constants, eliminate]\ninfer_thresholds: {max: 2}\n",
        [],
        "rounding",
    ),
    "other-module": ("imports: [not_here.at_all]\npasses: [eliminate]\n", []),
    "unknown-pass": ("passes: [eliminat]\n", []),
}


def model():
    rng = np.random.default_rng(7)
    weights = [
        numpy_helper.from_array(rng.normal(size=(16, 10)).astype(np.float32), "w"),
        numpy_helper.from_array(np.float32(0.1), "tenth"),
        numpy_helper.from_array(np.float32(0.3), "third"),
    ]
    nodes = [
        helper.make_node("Mul", ["x", "tenth"], ["a"], name="first"),
        helper.make_node("Mul", ["a", "third"], ["b"], name="second"),
        helper.make_node("Identity", ["b"], ["c"], name="same"),
        helper.make_node("Transpose", ["c"], ["d"], name="there", perm=[1, 0]),
        helper.make_node("Transpose", ["d"], ["e"], name="back", perm=[1, 0]),
        helper.make_node("MatMul", ["e", "w"], ["f"], name="product"),
        helper.make_node("Neg", ["f"], ["g"], name="minus"),
        helper.make_node("Neg", ["g"], ["y"], name="plus"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [20, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 10])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def rounding_model():
    """Values that are rounded between bounds."""
    constants = [numpy_helper.from_array(np.float32(value), name) for value, name in ((0, "low"), (3, "high"), (2, "two"))]
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["a"]),
        helper.make_node("Clip", ["a", "low", "high"], ["b"]),
        helper.make_node("Round", ["b"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [20, 16]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def write_inputs(folder):
    """The model, its input, its scores, other scores nearby, and classes of which one is beyond the five best."""
    made = model()
    onnx.save(made, folder / "model.onnx")
    onnx.save(rounding_model(), folder / "rounding.onnx")
    x = np.random.default_rng(8).normal(size=(20, 16)).astype(np.float32)
    w = numpy_helper.to_array(made.graph.initializer[0])
    scores = (x * np.float32(0.1) * np.float32(0.3)) @ w
    noisy = scores.copy()
    noisy[3, scores[3].argmin()] = scores[3].max() + 0.1
    classes = scores.argmax(axis=-1)
    classes[5] = scores[5].argmin()
    for name, array in (("x", x), ("scores", scores), ("noisy", noisy), ("classes", classes)):
        np.save(folder / f"{name}.npy", array)
    (folder / "bad.npy").write_bytes(b"no array")


# ---- equal up to names ---------------------------------------------------------------------------

COMMUTES = {"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Sum", "Mean"}


def _hash(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _constant(array):
    return _hash("constant", array.dtype.str, array.shape, array.tobytes())


def is_idle(made, node, constants):
    """An Expand to the dims of the model's input: nothing in these models has other ones before it has as many."""
    dims = [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim]
    return node.op_type == "Expand" and node.input[1] in constants and constants[node.input[1]].tolist() == dims


def outline(made):
    """A digest for each output of a model: what it is computed by, names and order of nodes aside. Constants that are computed
    count as what they are, Identity and an idle Expand as what they are given."""
    known = {value.name: _hash("input", i) for i, value in enumerate(made.graph.input)}
    constants = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    known.update({name: _constant(array) for name, array in constants.items()})
    for node in made.graph.node:
        if all(name in constants for name in node.input):
            given = {name: constants[name] for name in node.input}
            for name, array in zip(node.output, ReferenceEvaluator(node).run(None, given)):
                constants[name] = np.asarray(array)
                known[name] = _constant(constants[name])
            continue
        if node.op_type == "Identity" or is_idle(made, node, constants):
            known[node.output[0]] = known[node.input[0]]
            continue
        inputs = [known[name] if name else "" for name in node.input]
        inputs = sorted(inputs) if node.op_type in COMMUTES else inputs
        attributes = sorted((a.name, str(helper.get_attribute_value(a))) for a in node.attribute)
        for k, name in enumerate(node.output):
            known[name] = _hash(node.domain, node.op_type, inputs, attributes, k)
    return [known[value.name] for value in made.graph.output]


# ---- the original ----------------------------------------------------------------------------------


def golden(python, name, folder):
    """What onnx-passes makes of one configuration, in a folder of its own."""
    text, words, *other = CONFIGS[name]
    for path in DATA.glob("*.np[yz]"):
        shutil.copy(path, folder)
    (folder / "config.yaml").write_text(text)
    call = [python, "-m", "onnx_passes", DATA / f"{(other or ['model'])[0]}.onnx", *words, "-c", "config.yaml", "-o", "out.onnx"]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    to = DATA / name
    to.mkdir()
    shutil.copy(folder / "config.yaml", to)
    (to / "passes.txt").write_text("".join(f"{word}\n" for word in words))
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    (to / "verdict.txt").write_text(f"{done.returncode}\n{said[-1] if done.returncode and said else ''}\n")
    if done.returncode == 0:
        made = onnx.load(folder / "out.onnx")
        del made.functions[:]
        onnx.save(made, to / "golden.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with onnx-passes 0.4.1")
    parser.add_argument("--scratch", type=pathlib.Path, required=True, help="an empty folder to work in")
    asked = parser.parse_args()
    if DATA.exists():
        shutil.rmtree(DATA)
    DATA.mkdir(parents=True)
    write_inputs(DATA)
    for name in CONFIGS:
        folder = asked.scratch / name
        folder.mkdir(parents=True)
        golden(asked.python, name, folder)


if __name__ == "__main__":
    main()
