"""tests/kernels/casts.def, to which the conversions are held: it is what the installed onnx makes of Cast, and
ONNX Runtime agrees wherever it has a kernel and the result is not open."""

import ctypes
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

HERE = Path(__file__).resolve().parents[1]
TABLE = HERE / "kernels" / "casts.def"
sys.path.insert(0, str(HERE / "support"))
import casts  # noqa: E402


def test_table_is_what_onnx_makes():
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        assert TABLE.read_text() == casts.table()


def rows():
    """(from, inputs), then (from, to, saturate, outputs) of each."""
    text = re.sub(r'"\s*"', "", TABLE.read_text())
    given = {m[1]: m[2].split() for m in re.finditer(r'^FROM\((\w+),\s+"(.*?)"\)$', text, re.M)}
    return given, [(m[1], m[2], m[3] == "true", m[4].split())
                   for m in re.finditer(r'^CAST\((\w+), (\w+), (\w+),\s+"(.*?)"\)$', text, re.M)]


# Types that ONNX Runtime casts on the CPU, of a byte and more.
RUNTIME = {"FLOAT": 4, "DOUBLE": 8, "FLOAT16": 2, "BFLOAT16": 2, "BOOL": 1, **dict.fromkeys(casts.FLOAT8, 1),
           **{f"{s}INT{b}": b // 8 for s in ("", "U") for b in (8, 16, 32, 64)}}


def run(source, target, saturate, raw, count):
    """Cast of a constant; its result seen as integers."""
    x = onnx.TensorProto(name="x", data_type=getattr(TensorProto, source), dims=[count], raw_data=raw)
    to = getattr(TensorProto, target)
    attributes = {"saturate": int(saturate)} if target in casts.FLOAT8 else {}
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=to, **attributes)], "g", [],
                              [helper.make_tensor_value_info("y", to, [count])], [x])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    value = session.run_with_ort_values(None, {})[0]
    width = RUNTIME[target]
    held = bytes((ctypes.c_uint8 * (count * width)).from_address(value.data_ptr()))
    return np.frombuffer(held, {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[width])


NAN = {"FLOAT8E4M3FN": 0x7F, "FLOAT8E5M2": 0x7D, "FLOAT16": 0x7C01, "BFLOAT16": 0x7F81, "FLOAT": 0x7F800001, 
       "DOUBLE": 0x7FF0000000000001}


def is_nan(bits, target):
    width = 8 * RUNTIME[target]
    return target in NAN and (bits & (2 ** (width - 1) - 1)) >= NAN[target]


def known_difference(target, saturate, want, got):
    """What ONNX Runtime makes otherwise, and why that is not followed."""
    if is_nan(want, target) and is_nan(got, target):
        return True  # another NaN
    if target == "FLOAT8E5M2" and not saturate and want & 0x7F == 0x7C and got & 0x7F == 0x7F:
        return True  # what rounds past the largest number is infinity, by the standard
    if target == "FLOAT8E4M3FN" and not saturate and want & 0x7F == 0x7F and got & 0x7F == 0x7E:
        return True  # 480 rounds to itself, past the largest number: NaN, by the standard
    return False


def test_runtime_agrees():
    given, table = rows()
    compared = 0
    for source, target, saturate, outputs in table:
        if source not in RUNTIME or target not in RUNTIME or source == target:
            continue
        inputs = np.array([int(x, 16) for x in given[source]], np.uint64)
        raw = inputs.astype({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[RUNTIME[source]]).tobytes()
        try:
            got = run(source, target, saturate, raw, len(inputs))
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            continue
        for x, want, y in zip(inputs, outputs, got):
            if want == "-":
                continue
            compared += 1
            assert int(want, 16) == y or known_difference(target, saturate, int(want, 16), int(y)), (
                f"{source} {int(x):#x} to {target} (saturate {saturate}): {int(y):#x}, not {want}")
    assert compared > 11000
