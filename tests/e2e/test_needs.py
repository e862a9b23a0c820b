"""Which version of ONNX Runtime a model needs, by its opset, its IR version and its operators: `weir inspect` is held against the runtimes themselves.

Models of one node, a hundred operators, opsets 7 to 28; and one operator at IR versions 3 to 15. All of them in all versions with tools/test --all;
a sample in the oldest, the tests' own and the newest otherwise.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import onnx
import onnxruntime
import pytest

import opset_models
import runtimes
from conftest import ALL

pytestmark = pytest.mark.in_memory
OLDEST, *_, NEWEST = runtimes.ONNXRUNTIME
OWN = next(version for version, patch in runtimes.ONNXRUNTIME.items() if patch == onnxruntime.__version__)
VERSIONS = list(runtimes.ONNXRUNTIME) if ALL else [OLDEST, OWN, NEWEST]
OPSETS = range(7, 29) if ALL else (12, 21, 25, 27, 28)
LOAD = """
import json, sys, onnxruntime
onnxruntime.set_default_logger_severity(4)
found = {}
for path in json.load(sys.stdin):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        found[path] = None
    except Exception as why:
        found[path] = str(why)[:300] or repr(why)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("models"), []

    def put(op, opset, ir):
        made.append(folder / f"{op}-{opset}-{ir}.onnx")
        made[-1].write_bytes(opset_models.model(op, opset, ir))

    for opset in OPSETS:
        for op in opset_models.OPERATORS:
            if opset_models.exists(op, opset):
                put(op, opset, 8)
        for ir in (*range(3, 8), *range(9, 16)):
            put("Relu", opset, ir)
    return made


@pytest.fixture(scope="module")
def needs(weir, models):
    """What inspect says of each."""

    def ask(path):
        return os.fspath(path), json.loads(weir("inspect", path, "--json").out)["needs"]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(ask, models))


def minor(version):
    return int(version.split(".")[1])


def says_it_runs(said, version):
    if said["onnxruntime"] is None:
        return not said["why"]  # else none runs it
    return minor(said["onnxruntime"]) <= minor(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_it_loads_where_it_is_said_to(needs, version):
    python = sys.executable if version == OWN else runtimes.python_of("onnxruntime", runtimes.ONNXRUNTIME[version])
    done = subprocess.run([python, "-c", LOAD], input=json.dumps(list(needs)), capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    wrong = [f"{path} needs {said}: {loaded[path] or 'it loads'}" for path, said in needs.items() if says_it_runs(said, version) != (loaded[path] is None)]
    assert not wrong, "\n".join(wrong)
    assert any(loaded.values()) and not all(loaded.values())


def test_what_nothing_runs(needs):
    """Quantization of opset 28 has no kernel yet, nor has what SwiGLU is made of; no release reads IR version 15."""
    none = {os.path.basename(path)[:-5]: said["why"] for path, said in needs.items() if said["onnxruntime"] is None and said["why"]}
    for name, why in {"QuantizeLinear-28-8": "QuantizeLinear of opset 28", "DequantizeLinear-28-8": "DequantizeLinear of opset 28",
                      "SwiGLU-28-8": "SwiGLU of opset 28", "Relu-21-15": "IR version 15"}.items():  # fmt: skip
        assert none[name] == [why]
    assert not {name for name in none if name.startswith(("QuantizeLinear-27", "DequantizeLinear-27"))}


def test_attention_of_a_newer_version_in_older_runtimes(weir, tmp_path, needs):
    """Releases that load opset 25 and do not know its Attention take it for that of 24, if it has no attribute that 24 lacks."""

    plain = next(path for path in needs if path.endswith("Attention-25-8.onnx"))
    assert needs[plain]["onnxruntime"] == "1.24"
    model = onnx.load(plain)
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("left_window_size", 1))
    onnx.save(model, tmp_path / "windowed.onnx")
    said = json.loads(weir("inspect", tmp_path / "windowed.onnx", "--json").out)["needs"]
    assert said == {"onnxruntime": "1.32", "why": ["Attention of opset 25"]}
    with pytest.raises(Exception, match="left_window_size"):
        onnxruntime.InferenceSession(tmp_path / "windowed.onnx", providers=["CPUExecutionProvider"])


def test_operators_of_the_runtime_itself(weir, tmp_path):
    """com.microsoft has one version: releases add operators to it, and some have no kernel for a processor."""

    def said(op, inputs, outputs, **attributes):
        node = onnx.helper.make_node(op, [name for name, *_ in inputs], [name for name, *_ in outputs], domain="com.microsoft", **attributes)
        made = [[onnx.helper.make_tensor_value_info(*each) for each in list] for list in (inputs, outputs)]
        opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
        onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", *made), opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
        return json.loads(weir("inspect", tmp_path / "m.onnx", "--json").out)["needs"]

    f, u, i = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8, onnx.TensorProto.INT64
    data, picked = [("t", u, [4, 34]), ("i", i, [2])], [("y", f, [2, 32])]
    assert said("GatherPacked", data, picked, packed_type=8, K=32, output_dtype=1) == {"onnxruntime": "1.32", "why": ["GatherPacked"]}
    for version, runs in ((OWN, False), (NEWEST, True)):
        python = sys.executable if version == OWN else runtimes.python_of("onnxruntime", runtimes.ONNXRUNTIME[version])
        done = subprocess.run([python, "-c", LOAD], input=json.dumps([os.fspath(tmp_path / "m.onnx")]), capture_output=True, text=True, check=True)
        assert (list(json.loads(done.stdout.splitlines()[-1]).values()) == [None]) == runs
    assert said("SwiGLU", [("a", f, [2, 8])], [("y", f, [2, 4])]) == {"onnxruntime": None, "why": ["SwiGLU"]}
    assert said("QuickGelu", [("a", f, [2, 8])], [("y", f, [2, 8])]) == {"onnxruntime": None, "why": []}
