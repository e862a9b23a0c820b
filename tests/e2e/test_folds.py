"""Operators over constants become constants: what a runtime computes of them, to the bits that a rule's level promises.

Every case is one operator over constants, small (computed at once) and large (computed while they are written). A rule of
tests/unit/folds.rules takes its result in its place, at each level: below the one that a case says, nothing may fire.
"""

import json
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import peaks
from conftest import built_tool, sampled

pytestmark = pytest.mark.in_memory

TOOL = built_tool("rules_tool_folds")
LEVELS = ["exact", "zero", "rounding", "never"]
MIB = 1 << 20


def floats(*dims, seed=0, low=-2, high=2, dtype=np.float32):
    return np.random.default_rng(seed).uniform(low, high, dims).astype(dtype)


def whole(*dims, seed=0, low=-100, high=100, dtype=np.int64):
    return np.random.default_rng(seed).integers(low, high, dims).astype(dtype)


def truths(*dims, seed=0):
    return np.random.default_rng(seed).random(dims) < 0.5


def case(op, level, large, *operands, opset=21, **attributes):
    """`level`: the first at which it folds where all is at hand, `large`: where it is not. Operands: makers of arrays by the
    number of their rows, or arrays."""
    return op, level, large, operands, opset, attributes


def matrix(**k):
    return lambda n: floats(n, 16, **k)


def ints(*numbers):
    return np.array(numbers, np.int64)


POSITIVE = dict(low=0.1, high=3)
NAN = np.array([np.nan, 1, -1], np.float32)
CASES = {
    "add": case("Add", "exact", "exact", matrix(), matrix(seed=1)),
    "add-broadcast": case("Add", "exact", "exact", matrix(), lambda n: floats(n, 1, seed=1)),
    "add-of-half": case("Add", "exact", "exact", matrix(dtype=np.float16), floats(16, dtype=np.float16)),
    "add-of-int": case("Add", "exact", "exact", lambda n: whole(n, 16), whole(16)),
    "sub-of-double": case("Sub", "exact", "exact", matrix(dtype=np.float64), floats(1, 16, dtype=np.float64)),
    "mul-scalar": case("Mul", "exact", "exact", matrix(), np.array(0.1, np.float32)),
    "mul-nan": case("Mul", "zero", "zero", lambda n: floats(n, 3), NAN),
    "div": case("Div", "exact", "exact", matrix(), matrix(seed=1)),
    "div-of-int": case("Div", "exact", "exact", lambda n: whole(n, 16), whole(16, low=2, high=9)),
    "div-of-int-by-many": case("Div", "exact", "exact", lambda n: whole(n, 16), lambda n: whole(n, 16, low=2, high=9)),
    "div-by-zero-of-many": case("Div", "never", "never", lambda n: whole(n, 16), lambda n: whole(n, 16, low=-1, high=9)),
    "div-by-zero": case("Div", "never", "never", lambda n: whole(n, 3), ints(1, 0, 2)),
    "max": case("Max", "exact", "exact", matrix(), matrix(seed=1), matrix(seed=2)),
    "max-of-zeros": case("Max", "zero", "zero", lambda n: floats(n, 3, low=-2, high=-1), np.array([0, 0, 1], np.float32)),
    "min-of-int": case("Min", "exact", "exact", lambda n: whole(n, 16), whole(16)),
    "clip": case("Clip", "exact", "exact", matrix(), np.array(-1, np.float32), np.array(1.5, np.float32)),
    "clip-below": case("Clip", "exact", "exact", lambda n: np.where(floats(n, 16) > 0, -np.inf, floats(n, 16)).astype(np.float32), None, np.array(1.5, np.float32)),
    "clip-above-of-half": case("Clip", "exact", "exact", lambda n: np.where(floats(n, 16) > 0, np.inf, floats(n, 16)).astype(np.float16), np.array(-1, np.float16)),
    "clip-of-int": case("Clip", "exact", "exact", lambda n: whole(n, 16), None, np.array(7)),
    "clip-by-nan": case("Clip", "never", "never", matrix(), np.array(np.nan, np.float32), np.array(1.5, np.float32)),
    "sum": case("Sum", "exact", "exact", matrix(), matrix(seed=1), floats(16)),
    "mean": case("Mean", "exact", "exact", matrix(), matrix(seed=1)),
    "mean-of-three": case("Mean", "rounding", "rounding", matrix(), matrix(seed=1), matrix(seed=2)),
    "mean-of-half": case("Mean", "exact", "exact", matrix(dtype=np.float16, low=59000, high=65000), matrix(dtype=np.float16, low=59000, high=65000, seed=1)),
    "neg": case("Neg", "exact", "exact", matrix()),
    "abs": case("Abs", "exact", "exact", matrix()),
    "relu": case("Relu", "zero", "zero", matrix()),
    "sqrt": case("Sqrt", "exact", "exact", matrix(**POSITIVE)),
    "reciprocal": case("Reciprocal", "exact", "exact", matrix(**POSITIVE)),
    "floor": case("Floor", "exact", "exact", matrix()),
    "round": case("Round", "exact", "exact", matrix()),
    "exp": case("Exp", "rounding", "rounding", matrix()),
    "log": case("Log", "rounding", "rounding", matrix(**POSITIVE)),
    "erf": case("Erf", "rounding", "rounding", matrix()),
    "tanh": case("Tanh", "rounding", "rounding", matrix()),
    "sigmoid": case("Sigmoid", "rounding", "rounding", matrix()),
    "sigmoid-of-half": case("Sigmoid", "rounding", "rounding", matrix(dtype=np.float16)),
    "pow": case("Pow", "rounding", "rounding", matrix(**POSITIVE), np.array(2.5, np.float32)),
    "pow-of-int": case("Pow", "rounding", "rounding", matrix(), np.array(3, np.int64)),
    "pow-of-an-odd-int": case("Pow", "never", "never", lambda n: whole(n, 16, low=-1, high=2, dtype=np.float32), np.array(2**24 + 1, np.int64)),
    "pow-of-short-int": case("Pow", "rounding", "rounding", matrix(), np.array(2, np.int32)),
    "pow-of-double": case("Pow", "never", "never", matrix(**POSITIVE), np.array(2.1, np.float64)),
    "pow-of-half": case("Pow", "rounding", "rounding", matrix(dtype=np.float16, low=5, high=6), np.array(3 + 2**-9, np.float32)),
    "less": case("Less", "exact", "exact", matrix(), floats(16)),
    "equal": case("Equal", "exact", "exact", lambda n: whole(n, 16, low=0, high=3), whole(16, low=0, high=3)),
    "isnan": case("IsNaN", "exact", "exact", lambda n: np.where(floats(n, 16) > 0, np.float32(np.nan), np.float32(1))),
    "not": case("Not", "exact", "exact", lambda n: truths(4 * n, 16)),
    "and": case("And", "exact", "exact", lambda n: truths(4 * n, 16), truths(16)),
    "bitwise-xor": case("BitwiseXor", "exact", "exact", lambda n: whole(n, 16, dtype=np.int32), whole(16, dtype=np.int32)),
    "where": case("Where", "exact", "exact", lambda n: truths(n, 16), matrix(), np.array(np.nan, np.float32)),
    "cast-to-half": case("Cast", "exact", "exact", matrix(), to=TensorProto.FLOAT16),
    "cast-to-double": case("Cast", "exact", "exact", matrix(), to=TensorProto.DOUBLE),
    "cast-to-int": case("Cast", "exact", "exact", matrix(), to=TensorProto.INT32),
    "cast-to-bool": case("Cast", "exact", "exact", lambda n: floats(4 * n, 16).round(), to=TensorProto.BOOL),
    "cast-to-infinite-half": case("Cast", "exact", "never", lambda n: floats(n, 3) * np.array([1, 1e30, 1], np.float32), to=TensorProto.FLOAT16),
    "cast-of-int": case("Cast", "exact", "exact", lambda n: whole(n, 16), to=TensorProto.FLOAT),
    "cast-twice": case("Cast", "rounding", "rounding", matrix(dtype=np.float64), to=TensorProto.FLOAT16),
    "cast-out-of-range": case("Cast", "never", "never", lambda n: floats(n, 3) * np.array([1, 1e30, 1], np.float32), to=TensorProto.INT32),
    "cast-to-byte": case("Cast", "exact", "exact", matrix(low=0, high=255.9), to=TensorProto.UINT8),
    "cast-to-byte-below": case("Cast", "never", "never", matrix(low=-9, high=9), to=TensorProto.UINT8),
    "cast-to-int-of-nan": case("Cast", "never", "never", lambda n: floats(n, 3) + NAN, to=TensorProto.INT64),
    "cast-like": case("CastLike", "exact", "exact", lambda n: whole(n, 16), np.array(0, np.float32)),
    "reduce-sum": case("ReduceSum", "rounding", "rounding", lambda n: floats(2, n, 16), ints(1), keepdims=0),
    "reduce-sum-kept": case("ReduceSum", "rounding", "rounding", lambda n: floats(2, n, 16), ints(0, -1)),
    "reduce-sum-all": case("ReduceSum", "rounding", "rounding", matrix()),
    "reduce-sum-of-int": case("ReduceSum", "exact", "exact", lambda n: whole(n, 16), ints(0)),
    "reduce-sum-out-of-int": case("ReduceSum", "never", "never", lambda n: whole(n, 16, low=2**61, high=2**62)),
    "reduce-sum-noop": case("ReduceSum", "never", "never", matrix(), noop_with_empty_axes=1),
    "reduce-mean": case("ReduceMean", "rounding", "rounding", matrix(), ints(1)),
    "reduce-mean-of-half": case("ReduceMean", "rounding", "rounding", matrix(dtype=np.float16), ints(1)),
    "reduce-mean-of-int": case("ReduceMean", "never", "never", lambda n: whole(n, 16), ints(1)),
    "reduce-max": case("ReduceMax", "exact", "exact", matrix(), ints(0)),
    "reduce-min": case("ReduceMin", "exact", "exact", lambda n: floats(n, 7, 5), ints(0, 2), keepdims=0),
    "reduce-prod": case("ReduceProd", "rounding", "rounding", lambda n: floats(n, 5, **POSITIVE), ints(1)),
    "reduce-l1": case("ReduceL1", "rounding", "rounding", matrix(), ints(0)),
    "reduce-l2": case("ReduceL2", "rounding", "rounding", matrix(), ints(0)),
    "reduce-log-sum": case("ReduceLogSum", "rounding", "rounding", matrix(**POSITIVE), ints(1)),
    "reduce-log-sum-exp": case("ReduceLogSumExp", "rounding", "rounding", lambda n: floats(n, 16) * 60, ints(1)),
    "reduce-sum-square": case("ReduceSumSquare", "rounding", "rounding", matrix(), ints(-2)),
    "reduce-l1-of-int": case("ReduceL1", "exact", "exact", lambda n: whole(n, 16, dtype=np.int32), ints(0)),
    "reduce-l1-out-of-int": case("ReduceL1", "never", "never", lambda n: whole(n, 16, low=2**30, high=2**31 - 1, dtype=np.int32), ints(1)),
    "reduce-sum-square-of-int": case("ReduceSumSquare", "exact", "exact", lambda n: whole(n, 16), ints(1)),
    "reduce-sum-square-out-of-int": case("ReduceSumSquare", "never", "never", lambda n: whole(n, 16, low=50000, high=90000, dtype=np.int32), ints(1)),
    "reduce-prod-of-int": case("ReduceProd", "exact", "exact", lambda n: whole(n, 4, 5, low=-9, high=9), ints(1)),
    "reduce-prod-out-of-int": case("ReduceProd", "never", "never", lambda n: whole(n, 4, low=2**20, high=2**21), ints(1)),
    "reshape": case("Reshape", "exact", "exact", matrix(), ints(2, -1, 8)),
    "flatten": case("Flatten", "exact", "exact", lambda n: floats(2, n, 16), axis=2),
    "squeeze-all": case("Squeeze", "exact", "exact", lambda n: floats(1, n, 1, 16)),
    "unsqueeze": case("Unsqueeze", "exact", "exact", matrix(), ints(0, -1)),
    "transpose": case("Transpose", "exact", "exact", lambda n: floats(2, n, 16), perm=[2, 0, 1]),
    "transpose-reversed": case("Transpose", "exact", "exact", lambda n: floats(2, n, 16)),
    "slice": case("Slice", "exact", "exact", lambda n: floats(2, n, 16), ints(-2, 14), ints(-99999, 2), ints(1, 2), ints(-2, -3)),
    "concat": case("Concat", "exact", "exact", matrix(), matrix(seed=1), lambda n: floats(n, 2), axis=-1),
    "concat-in-front": case("Concat", "exact", "exact", matrix(), floats(2, 16), axis=0),
    "pad": case("Pad", "exact", "exact", matrix(), ints(1, 0, 0, 2), np.array(7, np.float32)),
    "pad-axes": case("Pad", "exact", "exact", lambda n: whole(n, 16), ints(2, -1), None, ints(-1)),
    "pad-edge": case("Pad", "never", "never", matrix(), ints(1, 0, 0, 2), mode="edge"),
    "gather": case("Gather", "exact", "exact", matrix(), ints(3, -1, 0, 0, 7), axis=1),
    "gather-rows": case("Gather", "exact", "exact", matrix(), ints(3, -1, 0, 6).reshape(2, 2)),
    "gather-one": case("Gather", "exact", "exact", lambda n: floats(2, n, 16), np.array(1, np.int64)),
    "matmul": case("MatMul", "rounding", "never", matrix(), floats(16, 5)),
    "matmul-of-int": case("MatMul", "exact", "never", lambda n: whole(n, 16, dtype=np.int32), whole(16, 5, dtype=np.int32)),
    "dequantize": case("DequantizeLinear", "exact", "exact", lambda n: whole(4 * n, 16, dtype=np.int8), np.array(0.1, np.float32), np.array(3, np.int8)),
    "dequantize-channels": case("DequantizeLinear", "exact", "exact", lambda n: whole(4 * n, 16, low=0, dtype=np.uint8), floats(16, **POSITIVE), whole(16, low=0, dtype=np.uint8), axis=-1),
    "sin": case("Sin", "never", "never", matrix()),
    "cumsum": case("CumSum", "never", "never", matrix(), np.array(0, np.int64)),
}


def model_of(op, operands, rows, opset, attributes):
    arrays = [a(rows) if callable(a) else a for a in operands]
    names = [f"c{i}" if a is not None else "" for i, a in enumerate(arrays)]
    tensors = [numpy_helper.from_array(a, n) for a, n in zip(arrays, names) if a is not None]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info("y")], tensors)
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))


def computed(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {})[0]


def fold(folder, op, level, *options):
    done = subprocess.run([TOOL, f"{level}/{op}", "finite", folder / "in.onnx", folder / "out.onnx", "--force", "--no-manifest", *options], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return sum(line.get("fired", 0) for line in map(json.loads, done.stdout.splitlines()) if "pass" in line)


@pytest.mark.parametrize("name, rows", sampled(CASES, [7, 12000], every=2))
def test_what_a_runtime_computes(quick_folder, name, rows):
    op, at_hand, large, operands, opset, attributes = CASES[name]
    first = at_hand if rows == 7 else large
    model = model_of(op, operands, rows, opset, attributes)
    onnx.save(model, quick_folder / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=1024)
    for level in LEVELS[:3]:
        fires = LEVELS.index(level) >= LEVELS.index(first)
        assert fold(quick_folder, op, level) == fires, level
        if not fires:
            continue
        after = onnx.load(quick_folder / "out.onnx")
        onnx.checker.check_model(after, full_check=True)
        assert {n.op_type for n in after.graph.node} <= {"Identity"}
        a, b = computed(quick_folder / "in.onnx"), computed(quick_folder / "out.onnx")
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if first == "exact":
            assert a.tobytes() == b.tobytes()
        elif first == "zero":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, **({"rtol": 2e-3, "atol": 1e-3} if a.dtype == np.float16 else {"rtol": 2e-5, "atol": 2e-5}))


@pytest.mark.parametrize("saturates", [0, 1])
def test_cast_like_saturates_where_it_says_so(quick_folder, saturates):
    """To a type of 8 bits: as numpy converts, but for what lies beyond its end."""
    x = np.array([1e6, -1e6, 3.3], np.float32)
    tensors = [numpy_helper.from_array(x, "x"), helper.make_tensor("like", TensorProto.FLOAT8E4M3FN, [], b"\0", raw=True)]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT8E4M3FN, [3])
    graph = helper.make_graph([helper.make_node("CastLike", ["x", "like"], ["y"], saturate=saturates)], "g", [], [out], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), quick_folder / "in.onnx")
    assert fold(quick_folder, "CastLike", "zero") == 1
    [made] = [t for t in onnx.load(quick_folder / "out.onnx").graph.initializer if t.data_type == TensorProto.FLOAT8E4M3FN and list(t.dims) == [3]]
    ends = [0x7E, 0xFE] if saturates else [0x7F, 0xFF]
    assert list(made.raw_data) == [*ends, 0x45]  # 3.25


def test_forty_megabytes_stream(quick_folder):
    """A chain over 40 MiB of constants, broadcast, cast and reduced, in 8 MiB; the numbers are the runtime's."""
    w = floats(320, 32768)
    tensors = {"w": w, "row": floats(32768, seed=1), "column": floats(320, 1, seed=2), "axes": ints(1)}
    nodes = [
        helper.make_node("Mul", ["w", "row"], ["a"]),
        helper.make_node("Add", ["column", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Transpose", ["c"], ["y"], perm=[1, 0]),
        helper.make_node("ReduceSum", ["b", "axes"], ["z"]),
        helper.make_node("Concat", ["w", "c"], ["v"], axis=0),
    ]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "yzv"]
    graph = helper.make_graph(nodes, "g", [], outs, [numpy_helper.from_array(a, n) for n, a in tensors.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    source, out = quick_folder / "in.onnx", quick_folder / "out.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), source, save_as_external_data=True, location="in.data", size_threshold=1024)
    passes = ",".join(f"rounding/{n.op_type}" for n in nodes)
    done = peaks.run([TOOL, passes, "finite", source, out, "--no-manifest", "--memory", "8M"], timeout=300)
    assert done.code == 0, done.err
    assert done.peak_bytes <= (8 + 16) * MIB
    assert (quick_folder / "in.data").stat().st_size > (8 + 16) * MIB  # what did not fit
    assert {n.op_type for n in onnx.load(out, load_external_data=False).graph.node} == {"Identity"}
    session = [ort.InferenceSession(p, providers=["CPUExecutionProvider"]).run(list("yzv"), {}) for p in (source, out)]
    for a, b, exact in zip(*session, [True, False, True]):
        np.testing.assert_array_equal(a, b) if exact else np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("op", ["Neg", "Add"])
def test_long_chains_fold_as_far_as_recipes_go(weir, quick_folder, op):
    """Forty operators, one behind the other, each of what the one before made (Add: of that twice): what is not folded stays nodes,
    and run and replay are those of any model."""
    nodes = [helper.make_node(op, [f"v{i}"] * (2 if op == "Add" else 1), [f"v{i + 1}"]) for i in range(40)]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("v40", TensorProto.FLOAT, [600, 40])], [numpy_helper.from_array(floats(600, 40), "v0")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, quick_folder / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=1024)
    assert fold(quick_folder, op, "zero", "--edit-log", quick_folder / "log.jsonl") >= 5
    assert (quick_folder / "log.jsonl").stat().st_size < 1 << 20
    np.testing.assert_array_equal(computed(quick_folder / "in.onnx"), computed(quick_folder / "out.onnx"))
    again = quick_folder / "again"
    again.mkdir()
    weir("replay", quick_folder / "log.jsonl", quick_folder / "in.onnx", again / "out.onnx")
    for path in sorted(again.iterdir()):
        if path.suffix in (".onnx", ".data", ".bin"):
            assert path.read_bytes() == (quick_folder / path.name).read_bytes()
