"""Products of floats that an optimized session computes by codes, with activations of 8 bits: it is said, and fails nothing that loses nothing.

Versions of ONNX Runtime do so at different nodes. Each says what it did in the model that it saves after its own rewrites.
"""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import runtimes
from conftest import ALL
from small_models import value

pytestmark = pytest.mark.in_memory

K, N = 64, 48
OWN = next(version for version, patch in runtimes.ONNXRUNTIME.items() if patch == onnxruntime.__version__)
VERSIONS = list(runtimes.ONNXRUNTIME) if ALL else [OWN, "1.32"]
SAVE = """
import sys, onnxruntime
for path in sys.argv[1:]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = path + ".optimized"
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
"""
CODES = {"int8": (TensorProto.INT8, -100, 100), "uint8": (TensorProto.UINT8, 0, 255), "int4": (TensorProto.INT4, -8, 7), "int16": (TensorProto.INT16, -999, 999)}


@pytest.fixture(scope="module", params=VERSIONS)
def python(request):
    """The Python of an environment with that version."""
    return sys.executable if request.param == OWN else runtimes.python_of("onnxruntime", runtimes.ONNXRUNTIME[request.param])


@pytest.fixture(scope="module")
def version(python):
    said = "import onnxruntime; print(onnxruntime.__version__)"
    return subprocess.run([python, "-c", said], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def env(python):
    return {"VIRTUAL_ENV": str(sys.prefix if python == sys.executable else python.parent.parent)}


def form(path, codes="int8", scales="column", beside=None, op="MatMul", shared=False, **attributes):
    """x · DequantizeLinear(codes), with an x that is dequantized itself (`beside`: from that type), or not."""
    dtype, least, most = CODES[codes]
    draw = np.random.default_rng(5)
    of = draw.integers(least, most + 1, (N, K) if attributes.get("transB") else (K, N))
    block = int(scales[5:]) if scales.startswith("block") else 0
    how = {"tensor": ((), {}), "column": ((of.shape[1],), {"axis": 1}), "row": ((of.shape[0],), {"axis": 0}), "across": ((K, N // 16), {"axis": 1, "block_size": 16})}
    dims, words = ((K // block, N), {"axis": 0, "block_size": block}) if block else how[scales]
    constants = [helper.make_tensor("w", dtype, of.shape, of.reshape(-1).tolist()), numpy_helper.from_array(draw.uniform(0.5, 1, dims).astype(np.float32), "s")]
    nodes, x = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], **words)], "x"
    if beside:
        constants += [numpy_helper.from_array(np.float32(0.001 if beside.endswith("16") else 0.03), "xs"), numpy_helper.from_array(np.dtype(beside).type(0), "xz")]
        nodes += [helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]), helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"])]
        x = "xd"
    nodes += [helper.make_node(op, [x, "d"], ["p"], **attributes), helper.make_node("Relu", ["p"], ["y"])]
    outputs = [value("y", ["n", N])]
    if shared:
        nodes.append(helper.make_node("Neg", ["d"], ["z"]))
        outputs.append(value("z", list(of.shape)))
    graph = helper.make_graph(nodes, "g", [value("x", ["n", K])], outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


FORMS = {
    "a scale": dict(scales="tensor"),
    "columns": dict(),
    "rows": dict(scales="row"),
    "blocks": dict(scales="block32"),
    "blocks of 16": dict(scales="block16"),
    "blocks of 8": dict(scales="block8"),
    "blocks across": dict(scales="across"),
    "uint8": dict(codes="uint8"),
    "int4": dict(codes="int4", scales="block32"),
    "int4, blocks of 16": dict(codes="int4", scales="block16"),
    "int4, a scale": dict(codes="int4", scales="tensor"),
    "int4, columns": dict(codes="int4"),
    "int4, shared": dict(codes="int4", scales="block32", shared=True),
    "int4, Gemm": dict(codes="int4", scales="block32", op="Gemm"),
    "int16": dict(codes="int16"),
    "shared": dict(shared=True),
    "beside uint16": dict(beside="uint16"),
    "beside int16, int4": dict(beside="int16", codes="int4", scales="block32"),
    "beside uint8": dict(beside="uint8"),
    "beside int8": dict(beside="int8"),
    "Gemm": dict(op="Gemm"),
    "Gemm beside uint16": dict(op="Gemm", beside="uint16"),
    "Gemm, transposed": dict(op="Gemm", transB=1),
    "Gemm, twice": dict(op="Gemm", alpha=2.0),
}


def test_which_products_it_rounds(weir, tmp_path, python, env):
    """As many as MatMulNBits nodes in what each version makes of the model: all forms are held against it."""
    paths = {name: form(tmp_path / f"{i}.onnx", **how) for i, (name, how) in enumerate(FORMS.items())}
    subprocess.run([python, "-c", SAVE, *paths.values()], check=True, capture_output=True)
    said, made = {}, {}
    for name, path in paths.items():
        done = weir("verify", path, path, "--runtime-optimized", "--json", env=env)
        said[name] = json.loads(done.out)["verification"].get("rounded_products", 0)
        nodes = onnx.load(f"{path}.optimized", load_external_data=False).graph.node
        made[name] = sum(node.op_type == "MatMulNBits" for node in nodes)
        levels = [a.i for node in nodes if node.op_type == "MatMulNBits" for a in node.attribute if a.name == "accuracy_level"]
        assert levels == [4] * made[name]
    assert said == made and 0 < sum(made.values()) < len(made)


def weight_model(path, coded):
    """`coded`: of 255 numbers, the largest in each column, so that codes of 8 bits are that weight."""
    draw = np.random.default_rng(3)
    weight = draw.integers(-127, 128, (K, N)).astype(np.float32) / 128 if coded else draw.normal(size=(K, N)).astype(np.float32)
    weight[0] = 127 / 128 if coded else weight[0]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"), helper.make_node("Relu", ["h"], ["y"])],
        "g", [value("x", ["n", K])], [value("y", ["n", N])],
        [numpy_helper.from_array(weight, "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def test_two_forms_of_a_weight_are_the_same(weir, tmp_path, env, version):
    """MatMulNBits, which the session leaves as it is, and DequantizeLinear, of which it makes one that rounds."""
    source, forms = weight_model(tmp_path / "m.onnx", coded=False), {}
    for name in ("qoperator", "qdq"):
        forms[name] = tmp_path / f"{name}.onnx"
        weir("quantize", source, forms[name], "--bits", "4", "--block-size", "32", "--format", name)
    words = "an optimized session rounds the activations of 1 product to 8 bits (MatMulNBits, accuracy level 4)"
    done = weir("verify", forms["qoperator"], forms["qdq"], "--runtime-optimized", env=env)
    assert f"{words}; weir turned that off for this comparison\nverified with ONNX Runtime {version}" in done.out
    assert done.out.splitlines()[-1] == "verified: 1 of 1 output (100.0 %)"
    found = json.loads(weir("verify", forms["qoperator"], forms["qdq"], "--runtime-optimized", "--json", env=env).out)["verification"]
    assert found["kept_floats"] and found["rounded_products"] == 1
    # Without optimizations it does nothing of the kind. A bound of the user's is asked of the session as it is.
    assert "rounds" not in weir("verify", forms["qoperator"], forms["qdq"], env=env).out
    done = weir("verify", forms["qoperator"], forms["qdq"], "--runtime-optimized", "--metric", "relative=1e-4", env=env, code=1)
    assert words + "\n" in done.out and "verified: 0 of 1 output" in done.out
    # Another weight is another weight.
    model = onnx.load(forms["qdq"])
    scale = next(t for t in model.graph.initializer if "scale" in t.name)
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(1.01), scale.name))
    onnx.save(model, forms["qdq"])
    assert "verified: 0 of 1 output" in weir("verify", forms["qoperator"], forms["qdq"], "--runtime-optimized", env=env, code=1).out


def test_activations_of_16_bits(weir, tmp_path, env, version):
    """Version 1.32 rounds them to 8 bits again: figures fall, and the closing lines say why. A site is about what its edit does."""
    source, out, page = weight_model(tmp_path / "m.onnx", coded=True), tmp_path / "q.onnx", tmp_path / "r.html"
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(4).normal(size=(64, K)).astype(np.float32))
    weir("calibrate", source, "-o", tmp_path / "r.jsonl", "--data", tmp_path / "rows.npz", env=env)
    words = ("static", source, out, "--ranges", tmp_path / "r.jsonl", "--activation-type", "uint16", "--force")
    told = version.startswith("1.32")
    done = weir(*words, "--verify", "--runtime-optimized", "--verify-metric", "sqnr=60", "--report-html", page, env=env)
    said = "1 of them with float activations, which an optimized session rounds to 8 bits (MatMulNBits)"
    assert (said in done.out) == told == ("passed with float activations" in page.read_text()) and "verified: 1 of 1 site" in done.out
    assert "verification failed" in weir(*words, "--verify", "--runtime-optimized", "--verify-metric", "sqnr=200", env=env, code=1).err
    given = ("--inputs", tmp_path / "rows.npz", "--json")
    plain, optimized = (json.loads(weir("verify", source, out, *given, *more, env=env).out)["verification"] for more in ((), ("--runtime-optimized",)))
    assert optimized.get("rounded_products", 0) == told and "kept_floats" not in optimized and "rounded_products" not in plain
    figures = [of["rows"][0]["figures"]["sqnr_db"] for of in (plain, optimized)]
    assert (figures[0] - figures[1] > 1) == told, figures
