"""What quantize_static knows of types: `weir static --compat` quantizes what it quantizes, and leaves float what it leaves float.

The tool asks onnx.shape_inference, which knows no operators of other domains, and behind them only what an operator gives whatever its
inputs are. Operators of each kind, bodies, functions, and random models with com.microsoft's operators in between, with value_info of
them and without, in both forms.
"""

import collections
import json
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat

import int8_models
import quantizers
from conftest import ALL
from quantized_alike import alike
from static_pair import Setup, flags, theirs
from test_static import runs, why_not_alike

pytestmark = pytest.mark.in_memory

RANDOM = 100 if ALL else 20
FLOAT, MS = TensorProto.FLOAT, "com.microsoft"
# As codes, bodies are wrong there; behind a Pad of what has no type it may never come to an end (test_what_is_padded).
PIECES = {*int8_models.SEQUENCE, *int8_models.IMAGE, "table", "tied"} - {"if", "pad"}
FORMS = {"qdq": QuantFormat.QDQ, "qoperator": QuantFormat.QOperator}
node, info = helper.make_node, helper.make_tensor_value_info


def gelu(x, y):
    return node("Gelu", [x], [y], f"gelu_{y}", domain=MS)


def cache_of(model):
    """A range for every value."""
    array = lambda x: {"data": [x], "dtype": "float32", "CLS": "numpy.array"}  # noqa: E731
    names = {v for n in model.graph.node for v in (*n.input, *n.output) if v} | {i.name for i in model.graph.input}
    data = {v: {"lowest": array(-1.0), "highest": array(2.0), "CLS": "TensorData"} for v in names}
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    return json.dumps({"CLS": "TensorsData", "data": data, "smooth_quant": False, "calibration_method": method})


class Pair:
    """A model as both write it from ranges of all its values; nothing is run."""

    def __init__(self, weir, folder, model, setup, tool=quantizers.HERE):
        self.made, self.ours = folder / "t.onnx", folder / "o.onnx"
        onnx.save(model, folder / "m.onnx")
        (folder / "c.json").write_text(cache_of(model))
        self.failure = tool(theirs, folder / "m.onnx", self.made, folder / "c.json", setup)
        if not self.failure:
            weir("static", folder / "m.onnx", self.ours, "--force", "--quiet", *flags(setup, folder / "c.json", folder, tool))

    def differences(self):
        assert self.failure is None, self.failure
        return alike(self.ours, self.made, raised=True)

    def floats(self):
        """What was left float of what Sigmoids read."""
        nodes = onnx.load(self.made).graph.node
        quantized = {o for n in nodes if n.op_type == "DequantizeLinear" for o in n.output}
        return {n.input[0] for n in nodes if n.op_type == "Sigmoid"} - quantized


def model_of(nodes, held=(), outputs=None, opset=17, functions=(), value_info=(), dims=(2, 4)):
    outputs = outputs or [n.output[0] for n in nodes if n.op_type == "Sigmoid"]
    graph = helper.make_graph(nodes, "g", [info("x", FLOAT, dims), info("flag", TensorProto.BOOL, [])], [info(o, FLOAT, None) for o in outputs],
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(held).items()], value_info=value_info)  # fmt: skip
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


# ---- operators -----------------------------------------------------------------------------------------------------------------------

# u: behind com.microsoft's Gelu; x: of a known type; i, b: integers and booleans made of u. Those whose output the tool quantizes.
KNOWN = [
    ("Add", "x u"), ("Max", "x u u"), ("Concat", "x u", {"axis": 0}), ("Where", "b x u"), ("MatMul", "x ut"), ("Gemm", "x ut u22"),
    ("Cast", "u", {"to": FLOAT}), ("CastLike", "u x"), ("ConstantOfShape", "i"), ("LayerNormalization", "x u4"), ("PRelu", "x u"),
    ("RandomNormalLike", "u", {"dtype": FLOAT}), ("Bernoulli", "u", {"dtype": FLOAT}), ("Expand", "x i"), ("Gather", "x i2"), ("Pow", "x u"),
    ("ReduceSum", "x i2"), ("Clip", "x u0"), ("OneHot", "i2 i3 x2"), ("Tile", "x i"), ("Compress", "x b1", {"axis": 0}),
]  # fmt: skip
UNKNOWN = [
    ("Add", "u x"), ("Max", "u x x"), ("Concat", "u x", {"axis": 0}), ("Where", "b u x"), ("MatMul", "u xt"), ("Gemm", "u xt x22"), ("Relu", "u"),
    ("CastLike", "x u"), ("LayerNormalization", "u x4"), ("RandomNormalLike", "u"), ("Bernoulli", "u"), ("Expand", "u i"), ("Gather", "u i2"),
    ("ReduceSum", "u i2"), ("Clip", "u"), ("OneHot", "i2 i3 u2"), ("Softmax", "u"), ("Transpose", "u"), ("Compress", "u b1", {"axis": 0}),
]  # fmt: skip
# What they read besides, made of x and u.
MADE = [gelu("x", "u"), node("Shape", ["u"], ["i"]), node("Greater", ["u", "x"], ["b"]), node("Transpose", ["x"], ["xt"]), gelu("xt", "ut")]
HELD = {"x4": np.ones(4, np.float32), "x22": np.ones((2, 2), np.float32), "x2": np.ones(2, np.float32), "i2": np.array([1]), "i3": np.array(3),
        "b1": np.array([True, False]), "x0": np.float32(0)}  # fmt: skip
MADE += [gelu(f"x{n}", f"u{n}") for n in ("4", "22", "2", "0")]


def operators(rows, opset=17):
    nodes = list(MADE)
    for i, (op, inputs, *attributes) in enumerate(rows):
        nodes.append(node(op, inputs.split(), [f"{op}{i}"], f"n{i}", **(attributes[0] if attributes else {})))
        nodes.append(node("Sigmoid", [f"{op}{i}"], [f"s{i}"], f"end{i}"))
    return model_of(nodes, HELD, opset=opset)


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("form", FORMS)
def test_types_behind_operators(weir, tmp_path, tool, form, opset):
    rows = KNOWN + UNKNOWN
    pair = Pair(weir, tmp_path, operators(rows, opset), Setup("uint8", ops=("Sigmoid",), form=FORMS[form]), tool)
    assert pair.differences() == []
    left = {f"{op}{i}" for i, (op, *_) in enumerate(rows) if i >= len(KNOWN)}
    assert form == "qoperator" or left == pair.floats()


def test_types_that_are_declared(weir, tmp_path):
    """A value_info is as good as inference; one without a type is none."""
    nodes = [gelu("x", "u"), gelu("x", "v"), node("Relu", ["u"], ["r"], "r"), node("Relu", ["v"], ["s"], "s"), node("Add", ["r", "s"], ["y"], "a")]
    declared = [info("u", FLOAT, None), helper.make_empty_tensor_value_info("v")]
    pair = Pair(weir, tmp_path, model_of(nodes, outputs=["y"], value_info=declared), Setup("uint8"))
    assert pair.differences() == []
    assert {n.name for n in onnx.load(pair.made).graph.node if n.op_type == "QuantizeLinear"} == {"r_QuantizeLinear", "y_QuantizeLinear"}


@pytest.mark.parametrize("what, mode", [("u", "constant"), ("u", "edge"), ("w", "constant"), ("w", "edge"), ("x", "constant")])
def test_what_is_padded(weir, tmp_path, what, mode):
    """With zeros the tool wants the type of a computed value or input; else the result has parameters of its own, if its type is declared."""
    nodes = [gelu("x", "u"), node("Pad", [what, "pads"], ["p"], "p", mode=mode), node("Add", ["p", "p"], ["y"], "a")]
    held = {"pads": np.array([0, 1, 0, 1]), "w": np.ones((2, 4), np.float32)}
    model = model_of(nodes, held, ["y"], value_info=[info("p", FLOAT, None)])
    if (what, mode) == ("u", "edge"):  # shares the parameters of what has none: the tool never comes to an end
        onnx.save(model, tmp_path / "m.onnx")
        (tmp_path / "c.json").write_text(cache_of(model))
        weir("static", tmp_path / "m.onnx", tmp_path / "o.onnx", *flags(Setup("uint8"), tmp_path / "c.json", tmp_path))
        assert runs(tmp_path / "o.onnx", {"x": np.ones((2, 4), np.float32), "flag": np.array(True)})
    else:
        assert Pair(weir, tmp_path, model, Setup("uint8")).differences() == []


def test_an_operator_that_nobody_knows(weir, tmp_path):
    """As codes the tool takes it for floats; the names of its values are enough."""
    nodes = [node("Unheard", ["x"], ["h"], "u", domain="own"), node("MatMul", ["h", "w"], ["y"], "m")]
    model = model_of(nodes, {"w": np.ones((4, 2), np.float32)}, ["y"])
    for form in FORMS.values():
        assert Pair(weir, tmp_path, model, Setup("uint8", form=form)).differences() == []


# ---- bodies and functions ------------------------------------------------------------------------------------------------------------


def body(name, nodes, inputs, outputs, typed):
    out = info if typed else lambda n, *_: helper.make_empty_tensor_value_info(n)
    return helper.make_graph(nodes, name, inputs, [out(o, FLOAT, None) for o in outputs])


def branching(a, b):
    """An If whose branches give a known type or none."""
    made = {"known": [node("Relu", ["x"], ["r"])], "unknown": [gelu("x", "r")], "around": [node("Relu", ["u"], ["r"])]}
    bodies = {key: body(key, [onnx.NodeProto.FromString(n.SerializeToString()) for n in made[what]], [], ["r"], typed)
              for key, (what, typed) in {"then_branch": a, "else_branch": b}.items()}  # fmt: skip
    for key, graph in bodies.items():
        graph.node[0].output[0] = graph.output[0].name = key
    return [gelu("x", "u"), node("If", ["flag"], ["h"], "if", **bodies), node("Sigmoid", ["h"], ["y"], "s")]


def looping(carried, inner, typed=True):
    """A Loop that carries a value from turn to turn, and stacks another."""
    inputs = [info("turn", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("c", FLOAT, None)]
    nodes = [node("Identity", ["go"], ["on"]), node("Relu", ["c"], ["next"]), gelu("c", "each") if inner else node("Neg", ["c"], ["each"])]
    graph = helper.make_graph(nodes, "body", inputs, [info("on", TensorProto.BOOL, []), info("next", FLOAT, None)])
    graph.output.append(info("each", FLOAT, None) if typed else helper.make_empty_tensor_value_info("each"))
    return [gelu("x", "u"), node("Loop", ["", "flag", carried], ["last", "all"], "loop", body=graph),
            node("Sigmoid", ["last"], ["y"], "s"), node("Sigmoid", ["all"], ["z"], "t")]  # fmt: skip


def scanning(given, inner):
    nodes = [node("Relu", ["c"], ["next"]), gelu("e", "each") if inner else node("Neg", ["e"], ["each"])]
    graph = helper.make_graph(nodes, "body", [info("c", FLOAT, None), info("e", FLOAT, None)],
                              [info("next", FLOAT, None), helper.make_empty_tensor_value_info("each")])  # fmt: skip
    return [gelu("x", "u"), node("Scan", ["x", given], ["last", "all"], "scan", body=graph, num_scan_inputs=1),
            node("Sigmoid", ["last"], ["y"], "s"), node("Sigmoid", ["all"], ["z"], "t")]  # fmt: skip


BODIES = {
    "both known": branching(("known", False), ("known", False)), "one known": branching(("known", False), ("unknown", False)),
    "one declared": branching(("known", False), ("unknown", True)), "both declared": branching(("around", True), ("unknown", True)),
    "neither": branching(("around", False), ("unknown", False)),
    "loop": looping("x", False), "loop, stacked": looping("x", True, False), "loop, carried": looping("u", False),
    "loop, declared": looping("x", True), "scan": scanning("x", False), "scan, inside": scanning("x", True), "scan, given": scanning("u", False),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_types_out_of_bodies(weir, tmp_path, form):
    floats = {}
    for name, nodes in BODIES.items():
        pair = Pair(weir, tmp_path, model_of(nodes), Setup("uint8", ops=("Sigmoid",), form=FORMS[form]))
        assert pair.differences() == [], name
        floats[name] = len(pair.floats())
    assert {n for n, left in floats.items() if left} == {
        "one known", "neither", "loop, stacked", "loop, carried", "scan, inside", "scan, given"} or form == "qoperator"  # fmt: skip


def function(name, inputs, outputs, nodes):
    return helper.make_function("own", name, inputs, outputs, nodes, [helper.make_opsetid(d, v) for d, v in (("", 17), (MS, 1), ("own", 1))])


FUNCTIONS = [
    function("Both", ["a"], ["p", "q"], [node("Relu", ["a"], ["p"]), gelu("a", "q")]),
    function("Through", ["a", "b"], ["p", "q"], [node("Add", ["a", "b"], ["p"]), node("Add", ["b", "a"], ["q"])]),
    function("Deep", ["a"], ["p", "q"], [node("Both", ["a"], ["r", "s"], domain="own"), node("Through", ["r", "s"], ["p", "q"], domain="own")]),
    function("Shaped", ["a"], ["p"], [node("Shape", ["a"], ["i"]), node("ConstantOfShape", ["i"], ["p"])]),
]


def test_types_through_functions(weir, tmp_path):
    """Each call for itself: what a function gives may be known for one and unknown for another."""
    calls = [("Both", "x"), ("Both", "u"), ("Through", "x u"), ("Through", "u x"), ("Through", "x x"), ("Deep", "x"), ("Deep", "u"), ("Shaped", "u")]
    nodes = [gelu("x", "u")]
    for i, (name, inputs) in enumerate(calls):
        made = [f"{name}{i}p", f"{name}{i}q"][: 1 if name == "Shaped" else 2]
        nodes += [node(name, inputs.split(), made, f"call{i}", domain="own"), *(node("Sigmoid", [m], [f"{m}s"], f"s{m}") for m in made)]
    for form in FORMS.values():
        pair = Pair(weir, tmp_path, model_of(nodes, functions=FUNCTIONS), Setup("uint8", ops=("Sigmoid",), form=form))
        assert pair.differences() == []
        if form == QuantFormat.QDQ:
            assert pair.floats() == {"Both0q", "Both1p", "Both1q", "Through2q", "Through3p", "Deep5q", "Deep6p", "Deep6q"}


# ---- random models -------------------------------------------------------------------------------------------------------------------


def put_between(case, seed):
    """Operators of com.microsoft behind some of the model's values; the value_info of what they make."""
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    model = onnx.shape_inference.infer_shapes(case.model)
    dims = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.value_info if v.type.tensor_type.elem_type == FLOAT}
    made = [(n, v) for n in model.graph.node for v in n.output if dims.get(v) and n.op_type not in ("If", "LSTM")]
    nodes, known = list(model.graph.node), []
    for maker, v in r.sample(made, min(len(made), r.randint(1, 3))):
        width, out = dims[v][-1], f"{v}_own"
        held = lambda stem, a: model.graph.initializer.append(numpy_helper.from_array(a.astype(np.float32), f"{v}_{stem}"))  # noqa: E731
        fits = ["Gelu", "FastGelu", "QuickGelu", "BiasGelu"] + ["FusedMatMul"] * (len(dims[v]) > 1) + ["SkipLayerNormalization"] * (len(dims[v]) == 3)
        op, inputs = r.choice(fits), [v]
        if op == "BiasGelu":
            held("b", numbers.normal(size=width))
            inputs.append(f"{v}_b")
        if op == "FusedMatMul":
            held("m", numbers.normal(size=(width, width)))
            inputs.append(f"{v}_m")
        if op == "SkipLayerNormalization":
            held("g", numbers.normal(size=width))
            inputs += [v, f"{v}_g"]
        for n in nodes:
            if n is not maker and (r.random() < 0.8 or n.op_type == "If"):
                for i, x in enumerate(n.input):
                    n.input[i] = out if x == v else x
        nodes.insert(next(i for i, n in enumerate(nodes) if n is maker) + 1, node(op, inputs, [out], f"{v}_node", domain=MS))
        known.append(info(out, FLOAT, dims[v]))
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid(MS, 1))
    return model, known


# What the tool raises: codes for a bias whose node's input stays float; no range of what it quantizes without knowing the type (or stumbles
# over it); the range of a Softmax of unknown type, which it sets and did not measure.
FAILS = ("Unable to get valid quantization scale", "Quantization parameters are not specified", "Only an existing tensor can be modified", "'NoneType' object")


def test_random_models_with_operators_of_another_domain(weir, tmp_path, capfd):
    """Six of each: without value_info and with it, in both forms, from ranges of all values; and from those that the tool finds itself."""
    found = collections.Counter()
    for seed in range(RANDOM):
        case = int8_models.random_model(1000 + seed, pieces=PIECES)
        bare, known = put_between(case, seed)
        told = onnx.ModelProto.FromString(bare.SerializeToString())
        told.graph.value_info.extend(known)
        feeds, per_channel = [case.feeds(i) for i in range(2)], seed % 3 == 0
        for form in FORMS.values():
            setup = Setup("uint8", per_channel=per_channel, form=form)
            cache = tmp_path / f"{seed}-{form}.json"
            for model, ranges in ((told, cache), (bare, cache), (bare, tmp_path / f"{seed}-{form}-own.json")):
                kind = (form.name, "told" if model is told else "bare" if ranges == cache else "own")
                onnx.save(model, tmp_path / "m.onnx")
                failure = theirs(tmp_path / "m.onnx", tmp_path / "t.onnx", ranges, setup, feeds)
                weir("static", tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", "--quiet", *flags(setup, ranges, tmp_path))
                differences = [] if failure else alike(tmp_path / "o.onnx", tmp_path / "t.onnx", raised=True)
                if failure or differences:
                    said = (seed, case.pieces, kind, failure or differences)
                    assert runs(tmp_path / "o.onnx", feeds[0]), said
                    if failure:
                        assert any(words in failure for words in FAILS) and model is bare, said
                    elif runs(tmp_path / "t.onnx", feeds[0]):
                        pair = [onnx.load(tmp_path / f) for f in ("o.onnx", "t.onnx")]
                        assert why_not_alike(differences, model, *pair), said
                found[(*kind, "fails there" if failure else "wrong there" if differences else "equal")] += 1
    capfd.readouterr()
    with capfd.disabled():
        print(f"\n  {dict(found)}")
    assert sum(n for kind, n in found.items() if kind[-1] == "equal" and kind[0] == "QDQ") >= RANDOM * 3 * 0.6
    assert found["QOperator", "bare", "equal"] >= RANDOM * 0.5
