"""Operators of onnx_passes.ops as functions, functions put in place of calls, and QONNX: the numbers in ONNX Runtime.

What the operators of QONNX compute is written down here in NumPy, as the package qonnx has it.
"""

import itertools
import json

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from conftest import ALL
from onnx import TensorProto, helper, numpy_helper
from random_graphs import compare, random_graph, session

pytestmark = pytest.mark.in_memory

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPS, QONNX, BREVITAS = "onnx_passes.ops", "qonnx.custom_op.general", "onnx.brevitas"
MODES = ["ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO", "ANY_OTHER"]

SPECIAL = [-np.inf, -10, -2.5, -2, -1.5, -0.75, -0.5, -0.27, -0.25, -0.1, -0.0, 0, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 10, np.inf, np.nan]
X = np.array(SPECIAL, np.float32)


def f32(x):
    return np.asarray(x, np.float32)


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, constants=(), opset=19, functions=(), domains=(OPS,)):
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in dict(constants).items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))


def one(op, inputs, attributes, constants=(), opset=19, domain=OPS, dtype=FLOAT, rank=None):
    """A model of one node over inputs (name: array) and constants."""
    node = helper.make_node(op, [*inputs, *dict(constants)], ["y"], name="node", domain=domain, **attributes)
    [first] = [*inputs.values()][:1] or [*dict(constants).values()][:1]
    dims = [f"d{i}" for i in range(first.ndim if rank is None else rank)]
    values = [value(name, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype)) for name, a in inputs.items()]
    return model_of([node], values, [value("y", dims, dtype)], constants, opset, domains=(domain,))


def passed(weir, tmp_path, model, *passes):
    """What comes out of passes, checked."""
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    weir("run", source, result, "--force", *(word for name in passes for word in ("--pass", name)))
    made = onnx.load(result)
    onnx.checker.check_model(made)
    return made


def run(model, feeds):
    return session(model.SerializeToString()).run(None, feeds)


def assert_equal(ours, theirs):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"), f"\n{ours}\n{theirs}"


def operators(model):
    return sorted(f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in model.graph.node)


# ---- NumPy ----------------------------------------------------------------------------------------------------------


def rounded(mode, x):
    away, size = np.sign(x), np.abs(x)
    return {
        "CEIL": np.ceil(x),
        "FLOOR": np.floor(x),
        "DOWN": away * np.floor(size),
        "ROUND_TO_ZERO": away * np.floor(size),
        "UP": away * np.ceil(size),
        "HALF_UP": away * np.floor(size + f32(0.5)),
        "HALF_DOWN": away * np.ceil(size - f32(0.5)),
    }.get(mode, np.round(x))


def codes_between(x, bits, signed, narrow):
    least = -(2.0 ** (bits - 1)) + narrow if signed else 0
    most = 2.0 ** (bits - 1) - 1 if signed else 2.0**bits - 1 - narrow
    return np.clip(x, f32(least), f32(most))


def quant(x, scale, zero, bits, signed, narrow, mode):
    q = x / scale + zero
    if bits == 1 and signed:
        q = np.where(q >= 0, f32(1), f32(-1))
    else:
        q = rounded(mode, codes_between(q, bits, signed, narrow))
    return (q - zero) * scale


# ---- functions --------------------------------------------------------------------------------------------------------


def swish(x, alpha=f32(1)):
    return x / (1 + np.exp(-alpha * x))


FUNCTIONS = [
    ("Silu", {}, {}, lambda x: swish(x)),
    ("Swish", {"alpha": 0.5}, {}, lambda x: swish(x, f32(0.5))),
    ("Log2", {}, {}, lambda x: np.log(x) / np.log(f32(2))),
    ("Ulp", {}, {}, lambda x: np.where(np.isinf(x), f32(0), np.spacing(np.abs(x)))),
    ("ArgSort", {}, {}, lambda x: np.argsort(x, kind="stable")),
    ("Any", {}, {}, lambda x: np.array(True)),
    ("MultiThreshold", {}, {"t": f32([-1, 0, 0, 1]), "w": f32([1, 2, -1, 3])}, lambda x: ((x[:, None] >= f32([-1, 0, 0, 1])) * f32([1, 2, -1, 3])).sum(-1)),
    ("Im2Col", {}, {"i": np.array([[0, 0], [0, 0]])}, lambda x: x[:, None, None] + np.zeros((1, 2, 2), np.float32)),
    ("LayoutConverter", {"assumes": ["C"], "perm": [0]}, {}, lambda x: x),
]


@pytest.mark.parametrize(("op", "attributes", "constants", "expected"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
@pytest.mark.parametrize("opset", [13, 19, 22])
@pytest.mark.parametrize("how", ["inject-ops/InjectCustomOps", "InlineFunctions"])
def test_operators_have_functions(weir, tmp_path, op, attributes, constants, expected, opset, how):
    x = X[np.isfinite(X)] if op in {"ArgSort", "Im2Col"} else X
    x = np.unique(x) if op == "ArgSort" else x
    rank = {"Any": 0, "Im2Col": 3}.get(op)
    dtype = {"ArgSort": INT64, "Any": BOOL}.get(op, FLOAT)
    made = passed(weir, tmp_path, one(op, {"x": x}, attributes, constants, opset, dtype=dtype, rank=rank), how)
    assert bool(made.functions) == (how != "InlineFunctions")
    assert all(f.domain == OPS for f in made.functions)
    [ours] = run(made, {"x": x})
    with np.errstate(all="ignore"):
        theirs = np.asarray(expected(x)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    exact = op not in {"Silu", "Swish", "Log2"}
    assert_equal(ours, theirs) if exact else np.testing.assert_allclose(ours[np.isfinite(x)], theirs[np.isfinite(x)], rtol=1e-5, atol=1e-6)


# x, k, x of the inverse: what onnx-passes computes in float32.
INVERSES = [(0, [-0.27, -0.1, 1, 10], [-1.01511, -0.225266, 1.27846, 10.00045]), (-1, [-0.27, -0.1], [-1.57729, -3.53726])]


@pytest.mark.parametrize(("k", "x", "expected"), INVERSES)
def test_inverse_of_silu(weir, tmp_path, k, x, expected):
    made = passed(weir, tmp_path, one("InverseSilu", {"x": f32(x)}, {"k": k}), "inject-ops")
    assert {f.name for f in made.functions} == {"InverseSilu", "InverseSwish", "LambertW", "Swish"}
    [y] = run(made, {"x": f32(x)})
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    np.testing.assert_allclose(swish(y), x, rtol=1e-4)


def test_what_a_rule_makes_gets_its_function(weir, tmp_path):
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["y"])]
    model = model_of(nodes, [value("x", X.shape)], [value("y", X.shape)], opset=17, domains=())
    made = passed(weir, tmp_path, model, "fuse-silu")
    assert operators(made) == [f"{OPS}::Silu"] and [f.name for f in made.functions] == ["Silu"]
    assert_equal(run(made, {"x": X})[0], run(model, {"x": X})[0])
    assert passed(weir, tmp_path, made, "fuse-silu").SerializeToString() == made.SerializeToString()
    back = passed(weir, tmp_path, made, "inline-functions")
    assert operators(back) == ["Mul", "Sigmoid"] and not back.functions


def test_the_last_pass_is_held_back(weir, tmp_path):
    """Functions are made though no step of the last call runs."""
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["y"])]
    model = model_of(nodes, [value("x", X.shape)], [value("y", X.shape)], opset=17, domains=())
    made = passed(weir, tmp_path, model, "fuse-silu", "tidy/unused-initializers", "algebraic/EliminateComplementationDiv")
    assert operators(made) == [f"{OPS}::Silu"] and [f.name for f in made.functions] == ["Silu"]
    assert passed(weir, tmp_path, model, "algebraic/EliminateComplementationDiv") == model


def test_log_replays(weir, tmp_path):
    """Functions with attributes, references and graphs come back from the log as they were."""
    model = one("Quant", {"x": X}, {"signed": 1, "narrow": 0, "rounding_mode": "CEIL"}, {"s": f32(0.5), "z": f32(0), "n": f32(3)})
    made = passed(weir, tmp_path, model, "inject-ops")
    weir("run", tmp_path / "in.onnx", tmp_path / "log.onnx", "--pass", "inject-ops", "--edit-log", tmp_path / "log.jsonl")
    lines = (tmp_path / "log.jsonl").read_text()
    assert '"ref":"rounding_mode","type":"string"' in lines and '"signed":null' in lines
    weir("replay", tmp_path / "log.jsonl", tmp_path / "in.onnx", tmp_path / "again.onnx")
    assert onnx.load(tmp_path / "again.onnx") == made


# ---- quantizers -------------------------------------------------------------------------------------------------------

SETTINGS = [*itertools.product([0, 1], [0, 1], [1, 2, 3, 8])]


@pytest.mark.parametrize("mode", MODES)
def test_quant(weir, tmp_path, mode):
    """All in one model: natively, inlined, folded; values equal NumPy's bit for bit."""
    nodes, constants, expected = [], {"s": f32(0.5)}, []
    x = X[np.isfinite(X)]
    for signed, narrow, bits in SETTINGS:
        zero = f32(0 if signed else 1)
        constants |= {f"z{signed}": zero, f"n{bits}": f32(bits), "c": x}
        attributes = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
        for source in "xc":
            nodes.append(
                helper.make_node(
                    "Quant", [source, "s", f"z{signed}", f"n{bits}"], [f"y{len(nodes)}"], name=f"q{len(nodes)}", domain=OPS, **attributes
                )
            )
            expected.append(quant(x, f32(0.5), zero, bits, signed, narrow, mode))
    outputs = [value(n.output[0], x.shape) for n in nodes]
    model = model_of(nodes, [value("x", x.shape)], outputs, constants, opset=17)
    made = passed(weir, tmp_path, model, "inject-ops")
    native = run(made, {"x": x})
    inlined = passed(weir, tmp_path, model, "inline-qonnx")
    assert not any(n.domain for n in inlined.graph.node)
    for ours, alone, theirs in zip(native, run(inlined, {"x": x}), expected, strict=True):
        assert_equal(ours, theirs)
        assert_equal(alone, theirs)
    folded = passed(weir, tmp_path, model, "FoldConstantQONNXQuant")
    assert sum(n.op_type == "Quant" for n in folded.graph.node) == len(SETTINGS)
    assert {n.op_type for n in folded.graph.node} == {"Quant", "Sub", "Mul"}


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("bits", [1, 4])
def test_quant_of_bits_that_come_later(weir, tmp_path, signed, bits):
    model = one("Quant", {"x": X, "s": f32(0.5), "z": f32(0), "n": f32(bits)}, {"signed": signed, "narrow": 1, "rounding_mode": "ROUND"})
    feeds = {"x": X[np.isfinite(X)], "s": f32(0.5), "z": f32(0), "n": f32(bits)}
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    made = passed(weir, tmp_path, model, "InlineQONNXQuant")
    [ours] = run(made, feeds)
    assert_equal(ours, quant(feeds["x"], f32(0.5), f32(0), bits, signed, 1, "ROUND"))


def test_quantized_weights_are_recipes(weir, tmp_path):
    """A weight's codes are computed while the output is written: by rows, with a scale for each."""
    rng = np.random.default_rng(1)
    w, s = f32(rng.standard_normal((64, 300))), f32(rng.uniform(0.01, 0.1, (64, 1)))
    nodes = [
        helper.make_node("Quant", ["w", "s", "z", "n"], ["q"], domain=OPS, signed=1, narrow=1, rounding_mode="ROUND"),
        helper.make_node("MatMul", ["x", "q"], ["y"]),
    ]
    model = model_of(nodes, [value("x", [2, 64])], [value("y", [2, 300])], {"w": w, "s": s, "z": f32(0), "n": f32(4)})
    made = passed(weir, tmp_path, model, "inline-qonnx")
    [codes] = [numpy_helper.to_array(t) for t in made.graph.initializer if t.dims == [64, 300]]
    assert_equal(codes, np.round(np.clip(w / s + f32(0), -7, 7)))
    assert operators(made) == ["MatMul", "Mul", "Sub"]


# ---- QONNX ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [QONNX, BREVITAS])
@pytest.mark.parametrize(("op", "mode"), [("Quant", "ROUND"), ("IntQuant", "half_even"), ("Quant", "floor"), ("Quant", "down"), ("Quant", None)])
def test_import_quant(weir, tmp_path, domain, op, mode):
    x = X[np.isfinite(X)]
    attributes = {"signed": 1, "narrow": 0} | ({"rounding_mode": mode} if mode else {})
    model = one(op, {"x": x}, attributes, {"s": f32(0.5), "z": f32(0), "n": f32(3)}, opset=11, domain=domain)
    made = passed(weir, tmp_path, model, "import-qonnx")
    assert operators(made) == [f"{OPS}::Quant"] and {f.name for f in made.functions} == {"Quant", "Round"}
    expected = quant(x, f32(0.5), f32(0), 3, 1, 0, (mode or "round").upper())
    assert_equal(run(made, {"x": x})[0], expected)
    plain = passed(weir, tmp_path, model, "import-qonnx", "inline-qonnx", "remove-unused")
    assert_equal(run(plain, {"x": x})[0], expected)


@pytest.mark.parametrize("mode", ["UP", "HALF_UP", "HALF_DOWN"])
@pytest.mark.parametrize("bits", [1, 3])
def test_import_quant_of_other_roundings(weir, tmp_path, mode, bits):
    """The operator of onnx_passes.ops does not have them: they are written in operators of ONNX."""
    x = X[np.isfinite(X)]
    model = one("Quant", {"x": x}, {"signed": 1, "narrow": 1, "rounding_mode": mode}, {"s": f32(0.5), "z": f32(0), "n": f32(bits)}, domain=QONNX)
    made = passed(weir, tmp_path, model, "import-qonnx")
    assert not any(n.domain for n in made.graph.node) and not made.functions
    assert_equal(run(made, {"x": x})[0], quant(x, f32(0.5), f32(0), bits, 1, 1, mode))


def test_import_bipolar(weir, tmp_path):
    model = one("BipolarQuant", {"x": X}, {}, {"s": f32(0.25)}, opset=11, domain=QONNX)
    made = passed(weir, tmp_path, model, "import-qonnx")
    assert_equal(run(made, {"x": X})[0], np.where(X >= 0, f32(0.25), f32(-0.25)))


def trunc(x, scale, zero, cut, mode, zero_out, scale_out, limit=lambda y: y):
    y = np.round(x / scale + zero) / cut
    return (rounded(mode, limit(y)) - zero_out) * scale_out


@pytest.mark.parametrize("mode", [None, "ROUND", "CEIL", "half_down"])
@pytest.mark.parametrize("constant", [True, False])
def test_import_trunc(weir, tmp_path, mode, constant):
    x = f32(np.arange(-40, 40) * 0.37)
    word = (mode or "floor").upper()
    attributes = {"rounding_mode": mode} if mode else {}
    rest = {"s": f32(0.25), "z": f32(1), "i": f32(8), "o": f32(6)}
    inputs = {"x": x} if constant else {"x": x, **rest}
    model = one("Trunc", inputs, attributes, rest if constant else {}, opset=13, domain=QONNX)
    made = passed(weir, tmp_path, model, "import-qonnx")
    assert_equal(run(made, inputs)[0], trunc(x, f32(0.25), f32(1), f32(4), word, f32(1), f32(0.25)))

    rest = {"s": f32(0.25), "z": f32(1), "i": f32(8), "t": f32(1), "o": f32(4)}
    inputs = {"x": x} if constant else {"x": x, **rest}
    model = one("Trunc", inputs, attributes | {"signed": 1, "narrow": 1}, rest if constant else {}, opset=13, domain=QONNX)
    made = passed(weir, tmp_path, model, "import-qonnx")
    expected = trunc(x, f32(0.25), f32(1), f32(4), word, f32(0.25), f32(1), lambda y: codes_between(y, 4, 1, 1))
    assert_equal(run(made, inputs)[0], expected)


@pytest.mark.parametrize(
    ("shape", "layout", "axis"), [((2, 3), "", 1), ((2, 5, 3), "", 2), ((2, 3, 4, 5), "", 1), ((2, 4, 5, 3), "NHWC", 3), ((1, 3, 2, 2, 2), "", 1)]
)
@pytest.mark.parametrize("shared", [False, True])
def test_import_thresholds(weir, tmp_path, shape, layout, axis, shared):
    rng = np.random.default_rng(2)
    x, t = f32(rng.standard_normal(shape)), f32(np.sort(rng.standard_normal((1 if shared else 3, 7))))
    attributes = {"out_scale": 0.5, "out_bias": -1.0, "out_dtype": "INT4"} | ({"data_layout": layout} if layout else {})
    model = one("MultiThreshold", {"x": x}, attributes, {"t": t}, domain=QONNX)
    made = passed(weir, tmp_path, model, "import-qonnx")
    steps = (np.moveaxis(x, axis, -1)[..., None] >= t).sum(-1).astype(np.float32)
    assert_equal(run(made, {"x": x})[0], f32(0.5) * np.moveaxis(steps, -1, axis) + f32(-1))


def test_a_model_that_says_what_quant_is_stays(weir, tmp_path):
    function = helper.make_function(QONNX, "BipolarQuant", ["x", "s"], ["y"], [helper.make_node("Mul", ["x", "s"], ["y"])], [helper.make_opsetid("", 19)])
    model = one("BipolarQuant", {"x": X}, {}, {"s": f32(2)}, domain=QONNX)
    model.functions.append(function)
    onnx.save(model, tmp_path / "in.onnx")
    told = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "import-qonnx")
    assert "the model has functions for operators of QONNX" in told.err
    assert operators(onnx.load(tmp_path / "out.onnx")) == [f"{QONNX}::BipolarQuant"]


# ---- functions in place of calls -------------------------------------------------------------------------------------

NESTED = """
<ir_version: 8, opset_import: ["": 18, "local": 1]>
main (float[N, 4] x, bool c) => (float[N, 4] y, float[N, 4] z) {
  a = local.outer <k = 0.5> (x)
  y = If (c) <
    then_branch = t () => (float[N, 4] p) { p = local.outer (a) },
    else_branch = e () => (float[N, 4] q) { q = local.twice (a, x) }
  >
  z, unused = local.both (y)
}
<domain: "local", opset_import: ["": 18, "local": 1]>
outer <k: float = 2.0> (a) => (b) {
  m = local.inner <alpha: float = @k> (a)
  b = local.inner (m)
}
<domain: "local", opset_import: ["": 18]>
inner <alpha: float = 1.0> (p) => (q) {
  one = Constant <value = float {1.0}> ()
  e = Elu <alpha: float = @alpha> (p)
  q = Add (e, one)
}
<domain: "local", opset_import: ["": 18]>
twice (a, b) => (r) {
  n = Constant <value = int64 {3}> ()
  yes = Constant <value = bool {1}> ()
  r = Loop (n, yes, a) <body = l (int64 i, bool go, float[M, 4] v) => (bool go_on, float[M, 4] w) {
    go_on = Identity (go)
    s = Add (v, b)
    h = Constant <value_float = 0.5> ()
    w = Mul (s, h)
  }>
}
<domain: "local", opset_import: ["": 18]>
both (a) => (c, b) {
  c = Identity (a)
  b = Neg (a)
}
"""


@pytest.mark.parametrize("c", [True, False])
def test_nested_functions(weir, tmp_path, c):
    model = onnx.parser.parse_model(NESTED)
    made = passed(weir, tmp_path, model, "InlineFunctions")
    assert not made.functions and not any(n.domain for n in made.graph.node)
    feeds = {"x": f32(np.random.default_rng(3).standard_normal((3, 4))), "c": np.array(c)}
    for ours, theirs in zip(run(made, feeds), run(model, feeds), strict=True):
        assert_equal(ours, theirs)


def test_opsets_that_differ_become_the_newest(weir, tmp_path):
    old = helper.make_function("local", "f", ["a"], ["r"], [helper.make_node("ReduceSum", ["a"], ["r"], axes=[1], keepdims=0)], [helper.make_opsetid("", 11)])
    model = model_of([helper.make_node("f", ["x"], ["y"], domain="local")], [value("x", [2, 3])], [value("y", [2])], opset=18, functions=[old], domains=("local",))
    made = passed(weir, tmp_path, model, "InlineFunctions")
    x = f32(np.arange(6).reshape(2, 3))
    assert_equal(run(made, {"x": x})[0], x.sum(1))


def test_functions_that_grow_are_refused(weir, tmp_path):
    """f0 calls f1 ten times, f1 f2 ten times and so on: a short file, and 10^12 nodes."""
    functions = []
    for i in range(12):
        callee = {"domain": "local"} if i < 11 else {}
        op = f"f{i + 1}" if i < 11 else "Neg"
        nodes = [helper.make_node(op, ["a" if k == 0 else f"h{k}"], ["r" if k == 9 else f"h{k + 1}"], **callee) for k in range(10)]
        functions.append(helper.make_function("local", f"f{i}", ["a"], ["r"], nodes, [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]))
    model = model_of([helper.make_node("f0", ["x"], ["y"], domain="local")], [value("x", [2])], [value("y", [2])], opset=18, functions=functions, domains=("local",))
    onnx.save(model, tmp_path / "in.onnx")
    told = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "InlineFunctions", code=1)
    assert "more than 20000000 nodes" in told.err and not (tmp_path / "out.onnx").exists()


def test_a_function_of_another_meaning_is_not_called(weir, tmp_path):
    """A pass makes MultiThreshold, and the model has another function of that name."""
    own = helper.make_function(OPS, "MultiThreshold", ["a", "c"], ["b"], [helper.make_node("Add", ["a", "c"], ["b"])], [helper.make_opsetid("", 19)])
    nodes = [helper.make_node("Clip", ["x", "lo", "hi"], ["c"]), helper.make_node("Round", ["c"], ["y"])]
    model = model_of(nodes, [value("x", [4])], [value("y", [4])], {"lo": f32(-2), "hi": f32(2)}, functions=[own])
    onnx.save(model, tmp_path / "in.onnx")
    told = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "infer-thresholds", code=65)
    assert "the model's own function 'onnx_passes.ops::MultiThreshold' has 2 inputs" in told.err


def test_a_function_that_calls_itself_is_refused(weir, tmp_path):
    me = helper.make_function("local", "f", ["a"], ["r"], [helper.make_node("f", ["a"], ["r"], domain="local")], [helper.make_opsetid("local", 1)])
    model = model_of([helper.make_node("f", ["x"], ["y"], domain="local")], [value("x", [2])], [value("y", [2])], functions=[me], domains=("local",))
    onnx.save(model, tmp_path / "in.onnx")
    told = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "InlineFunctions", code=None)
    assert told.code != 0 and "call" in told.err and not (tmp_path / "out.onnx").exists()


def test_large_weights_are_not_read(weir, tmp_path):
    """A weight that goes through calls stays where it is; one that a function has is stored once."""
    rng = np.random.default_rng(4)
    w, b = f32(rng.standard_normal((64, 64))), f32(rng.standard_normal(4096))
    body = [
        helper.make_node("Constant", [], ["big"], value=numpy_helper.from_array(b.reshape(64, 64))),
        helper.make_node("MatMul", ["a", "w"], ["m"]),
        helper.make_node("MatMul", ["m", "big"], ["r"]),
    ]
    function = helper.make_function("local", "mm", ["a", "w"], ["r"], body, [helper.make_opsetid("", 18)])
    nodes = [helper.make_node("mm", [["x", "h", "i"][i], "w"], [["h", "i", "y"][i]], domain="local") for i in range(3)]
    model = model_of(nodes, [value("x", [2, 64])], [value("y", [2, 64])], {"w": w}, opset=18, functions=[function], domains=("local",))
    made = passed(weir, tmp_path, model, "InlineFunctions")
    assert [t.dims for t in made.graph.initializer] == [[64, 64], [64, 64]]
    x = f32(rng.standard_normal((2, 64)))
    np.testing.assert_allclose(run(made, {"x": x})[0], run(model, {"x": x})[0], rtol=1e-5)
    report = json.loads(weir("run", tmp_path / "in.onnx", tmp_path / "json.onnx", "--pass", "InlineFunctions", "--json").out)
    assert report


def names_in(nodes):
    """All names that nodes and the graphs in them use."""
    found = set()
    for node in nodes:
        found.update(node.input)
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                found |= names_in(graph.node) | {o.name for o in graph.output}
    return found


def as_functions(model, split):
    """The model as a call of a function, which calls another one for the nodes from `split` on; initializers are Constants there."""
    graph = model.graph
    callers = {i.name for i in graph.input}
    constants = [helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer if t.name not in callers]
    first, second = [*constants, *graph.node[:split]], graph.node[split:]
    made = {name for node in first for name in node.output if name} | callers
    inner = sorted(names_in(second) & made)
    wanted = [o.name for o in graph.output if o.name not in callers]
    given = [name for name in wanted if any(name in node.output for node in second)]
    opsets = [*model.opset_import, helper.make_opsetid("split", 1)]
    body = [*first, *([helper.make_node("rest", inner, given, domain="split", name="rest")] if second else [])]
    functions = [helper.make_function("split", "whole", sorted(callers), wanted, body, opsets)]
    functions += [helper.make_function("split", "rest", inner, given, second, opsets)] if second else []
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:], changed.graph.value_info[:]
    kept = [t for t in graph.initializer if t.name in callers]
    del changed.graph.initializer[:]
    changed.graph.initializer.extend(kept)
    changed.graph.node.append(helper.make_node("whole", sorted(callers), wanted, domain="split"))
    changed.functions.extend(functions)
    changed.opset_import.append(helper.make_opsetid("split", 1))
    changed.ir_version = max(changed.ir_version, 8)
    return changed


@pytest.mark.parametrize("seed", range(300 if ALL else 24))
def test_random_graphs_as_functions(weir, tmp_path, seed):
    """Whatever a graph is made of: as the bodies of two functions, inlined, it is what it was, bit for bit."""
    case = random_graph(seed)
    onnx.save(case.model, tmp_path / "graph.onnx")
    onnx.save(as_functions(case.model, seed % (len(case.model.graph.node) + 1)), tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "InlineFunctions")
    made = onnx.load(tmp_path / "out.onnx")
    assert not made.functions and not any(n.domain == "split" for n in made.graph.node)
    assert compare(tmp_path / "graph.onnx", tmp_path / "out.onnx", "E", case.feeds) == []


def test_calls_in_bodies_keep_their_overload(weir, tmp_path):
    """What stays calls the function that it called, and not the one of that name without an overload."""
    function, call = helper.make_function, helper.make_node
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    sparse = helper.make_sparse_tensor(helper.make_tensor("v", FLOAT, [1], [5.0]), helper.make_tensor("i", INT64, [1], [1]), [2])
    stays = [call("Constant", [], ["c"], sparse_value=sparse), call("Add", ["x", "c"], ["y"])]
    functions = [
        function("d", "F", ["x"], ["y"], [call("G", ["x"], ["h"], domain="d", overload="two"), call("G", ["h"], ["y"], domain="d", overload="one")], imports),
        function("d", "G", ["x"], ["y"], stays, imports, overload="one"),
        function("d", "G", ["x"], ["y"], [call("Neg", ["x"], ["y"])], imports, overload="two"),
        function("d", "G", ["x"], ["y"], [call("Exp", ["x"], ["y"])], imports),
    ]
    model = model_of([call("F", ["x"], ["y"], domain="d", name="f")], [value("x", [2])], [value("y", [2])], opset=17, functions=functions, domains=("d",))
    model.ir_version = 10
    onnx.save(model, tmp_path / "in.onnx")
    log = tmp_path / "log.jsonl"
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "InlineFunctions", "--edit-log", log)
    made = onnx.load(tmp_path / "out.onnx")
    assert [(n.op_type, n.overload) for n in made.graph.node] == [("Neg", ""), ("G", "one")]
    assert [f.overload for f in made.functions] == ["one"]
    weir("replay", log, tmp_path / "in.onnx", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


def test_names_of_calls_in_calls_have_an_end(weir, tmp_path):
    """A chain of calls is a short file: what its names take is in proportion to it."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    step = "é" * 300
    functions = [
        helper.make_function("d", f"F{i}", ["x"], ["y"], [helper.make_node(f"F{i + 1}", ["x"], ["y"], name=step, domain="d")], imports)
        for i in range(8)
    ]
    functions.append(helper.make_function("d", "F8", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"], name="neg")], imports))
    model = model_of([helper.make_node("F0", ["x"], ["y"], domain="d", name=step)], [value("x", [2])], [value("y", [2])], opset=17, functions=functions, domains=("d",))
    [node] = passed(weir, tmp_path, model, "InlineFunctions").graph.node
    assert node.op_type == "Neg" and node.name.startswith(step + "/") and len(node.name.encode()) <= 1024 + len("/neg")
