"""Small models on which the passes of onnx-passes fire, one a class or more, for all 516.

`models()` gives (class, tag, model, inputs, configuration). A model is traced: a function is called with values, and
what it calls on `op` become nodes. `op.Add(x, 1.5)`: a float is a float32 scalar, an int or a list of ints int64, an
array an initializer of its own; `op.ops.Silu(x)` is of onnx-passes' domain, `op.qonnx.Quant(…)` of QONNX's.
"""

import dataclasses

import numpy as np
import onnx
from onnx import helper

DOMAINS = {"ops": "onnx_passes.ops", "qonnx": "qonnx.custom_op.general", "brevitas": "onnx.brevitas"}
KINDS = {"f32": "FLOAT", "i64": "INT64", "i32": "INT32", "u8": "UINT8", "bool": "BOOL"}

# The elementwise operators that have a pass of their own for each thing that they move past.
FLOAT_UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    Identity LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan
    Tanh ThresholdedRelu""".split()
FLOAT_BINARY = "Add Sub Mul Div Mod Pow PRelu Equal Less LessOrEqual Greater GreaterOrEqual".split()
RANGES = {"Acos": "{-1:1}", "Asin": "{-1:1}", "Atanh": "{-0.9:0.9}", "Acosh": "{1:3}", "Log": "{0.1:3}",
          "Sqrt": "{0:3}", "Pow": "{0.1:2}", "Reciprocal": "{0.2:3}"}  # fmt: skip


class Value(str):
    """The name of a value that is being traced."""


class Tracer:
    """Calls become nodes: `op.Add(x, y)`, `op.ops.Silu(x)`, `a, b = op.Split(x, [2, 2], outputs=2)`."""

    def __init__(self, domain="", root=None):
        self.domain, self.root = domain, root or self
        if root is None:
            self.nodes, self.constants, self.domains, self.made = [], [], {""}, 0

    def __getattr__(self, name):
        if name in DOMAINS:
            return Tracer(DOMAINS[name], self.root)
        return lambda *operands, **attributes: self.call(name, operands, attributes)

    def fresh(self, stem):
        self.root.made += 1
        return Value(f"{stem}{self.root.made}")

    def operand(self, given):
        if isinstance(given, Value):
            return given
        if given is None:
            return ""
        if isinstance(given, bool):
            array = np.array(given)
        elif isinstance(given, float):
            array = np.array(given, np.float32)
        elif isinstance(given, np.ndarray):
            array = given
        else:
            array = np.array(given, np.int64)
        name = self.fresh("c")
        self.root.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def call(self, kind, operands, attributes):
        outputs = [self.fresh("v") for _ in range(attributes.pop("outputs", 1))]
        self.root.domains.add(self.domain)
        inputs = [self.operand(x) for x in operands]
        self.root.nodes.append(helper.make_node(kind, inputs, outputs, f"n{outputs[0]}", domain=self.domain, **attributes))
        return outputs[0] if len(outputs) == 1 else outputs


def shape_of(text):
    """'f32[2,N]{0:1}' → (element type, dims)"""
    kind, _, dims = text.split("{")[0].rstrip("]").partition("[")
    return getattr(onnx.TensorProto, KINDS[kind]), [int(d) if d.isdigit() else d for d in dims.split(",") if d]


def trace(function, inputs, opset=20, every=False):
    """The model that a function makes of inputs; with `every`, each value is an output as well."""
    op = Tracer()
    given = function(op, *(Value(name) for name in inputs))
    outputs = list(given) if isinstance(given, (tuple, list)) else [given]
    if every:
        outputs += [name for node in op.nodes for name in node.output if name not in outputs]
    graph = helper.make_graph(
        op.nodes,
        "g",
        [helper.make_tensor_value_info(name, *shape_of(text)) for name, text in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        op.constants,
    )
    imports = [helper.make_opsetid(d, opset if d == "" else 1) for d in sorted(op.domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def ramp(*shape, low=0.25, step=0.375):
    """A constant whose elements are all different and exact in float32."""
    return (low + step * np.arange(np.prod(shape), dtype=np.float32)).reshape(shape).astype(np.float32)


def bits(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


def words(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 16, shape).astype(np.int32)


def multiples(*shape, scale=0.375):
    """A constant of small whole numbers of a scale."""
    return (scale * (np.arange(np.prod(shape)) % 7 - 3)).reshape(shape).astype(np.float32)


@dataclasses.dataclass
class Model:
    name: str
    tag: str
    function: object
    inputs: dict
    opset: int = 19
    config: dict = None
    every: bool = False
    change: object = None  # done to the model once it is traced


FLOAT = {"x": "f32[2,3]"}
PAIR = {"x": "f32[2,3]", "y": "f32[2,3]"}
LOGIC = {"x": "bool[2,3]", "y": "bool[2,3]", "z": "bool[2,3]"}
INTS = {"x": "i32[2,3]", "y": "i32[2,3]", "z": "i32[2,3]"}
IMAGE = {"x": "f32[1,2,6,6]"}


def take(inputs, number):
    return dict(list(inputs.items())[:number])


def algebraic():
    """(class, function, inputs) of the algebraic family."""
    for kind in ("Add", "Mul", "Max", "Min"):
        yield f"Group{kind}", lambda op, x, k=kind: getattr(op, k)(getattr(op, k)(x, ramp(3)), ramp(2, 1, low=-1)), FLOAT
    for outer, inner in (("Mul", "Add"), ("Max", "Min"), ("Min", "Max")):
        yield (
            f"Distributive{outer}{inner}",
            lambda op, x, y, o=outer, i=inner: getattr(op, i)(getattr(op, o)(x, y), getattr(op, o)(x, ramp(3))),
            PAIR,
        )
    for kind in ("Neg", "Reciprocal", "Abs", "Ceil", "Floor", "Round"):
        yield f"Eliminate{kind}", lambda op, x, k=kind: getattr(op, k)(getattr(op, k)(x)), {"x": "f32[2,3]{0.5:2}"}
    yield "EliminateAbsorptionMinMax", lambda op, x, y: op.Max(op.Min(x, y), x), PAIR
    yield "EliminateAnnihilatorMul", lambda op, x: op.Mul(x, np.zeros((2, 3), np.float32)), FLOAT
    yield "SwapAntiCommutativeSub", lambda op, x, y: op.Neg(op.Sub(x, y)), PAIR
    yield "MoveMulPastAdd", lambda op, x: op.Add(op.Mul(x, ramp(3)), ramp(3, low=2)), FLOAT
    yield "ConvertAddToMul", lambda op, x: op.Add(op.Mul(x, ramp(3)), x), FLOAT
    yield "ConvertSubToAdd", lambda op, x, y: op.Sub(x, y), PAIR
    yield "ConvertDivToMul", lambda op, x: op.Div(x, ramp(3)), FLOAT
    yield "ConvertNegToMul", lambda op, x: op.Neg(x), FLOAT
    yield "EliminateComplementationDiv", lambda op, x: op.Div(x, x), {"x": "f32[2,3]{0.5:2}"}
    yield "EliminateComplementationMul", lambda op, x: op.Mul(x, op.Reciprocal(x)), {"x": "f32[2,3]{0.5:2}"}
    yield "EliminateComplementationSub", lambda op, x: op.Sub(x, x), FLOAT
    yield "EliminateComplementationAdd", lambda op, x: op.Add(x, op.Mul(x, -1.0)), FLOAT
    for bitwise, inputs, constant, none, every in (
        ("", LOGIC, bits, np.array(False), np.array(True)),
        ("Bitwise", INTS, words, np.array(0, np.int32), np.array(-1, np.int32)),
    ):
        yield from logic(bitwise, inputs, constant, none, every)
    yield from comparisons()
    yield from products()
    yield from reductions()


def logic(prefix, inputs, constant, none, every):
    def make(op, kind, *operands):
        return getattr(op, prefix + kind)(*operands)

    one, two, three = (take(inputs, n) for n in (1, 2, 3))
    for kind in ("And", "Or", "Xor"):
        yield (
            f"Group{prefix}{kind}",
            lambda op, x, k=kind: make(op, k, make(op, k, x, constant(3)), constant(2, 1, seed=2)),
            one,
        )
    for outer, inner in (("And", "Or"), ("Or", "And"), ("And", "Xor")):
        yield (
            f"Distributive{prefix}{outer}{prefix}{inner}",
            lambda op, x, y, z, o=outer, i=inner: make(op, i, make(op, o, x, y), make(op, o, x, z)),
            three,
        )
    yield f"Eliminate{prefix}Not", lambda op, x: make(op, "Not", make(op, "Not", x)), one
    for kind in ("And", "Or", "Xor"):
        yield f"Eliminate{prefix}{kind}", lambda op, x, k=kind: make(op, k, x, x), one
    yield f"EliminateAbsorption{prefix}", lambda op, x, y: make(op, "And", make(op, "Or", y, x), x), two
    for kind, edge in (("And", none), ("Or", every)):
        yield f"EliminateAnnihilator{prefix}{kind}", lambda op, x, k=kind, e=edge: make(op, k, x, e), one
        yield f"EliminateComplementation{prefix}{kind}", lambda op, x, k=kind: make(op, k, make(op, "Not", x), x), one
    yield (
        "DeMorganBitwise" if prefix else "DeMorganBoolean",
        lambda op, x, y: make(op, "Or", make(op, "Not", x), make(op, "Not", y)),
        two,
    )
    yield f"Move{prefix}NotPast{prefix}Xor", lambda op, x, y: make(op, "Xor", y, make(op, "Not", x)), two
    yield f"Convert{prefix}XorTo{prefix}Not", lambda op, x: make(op, "Xor", x, every), one


def comparisons():
    bound = ramp(3, low=-0.5)
    yield "ConvertLessToGreater", lambda op, x, y: op.Less(x, y), PAIR
    yield "ConvertLessOrEqualToGreaterOrEqual", lambda op, x, y: op.LessOrEqual(x, y), PAIR
    yield "EliminateComparison", lambda op, x: op.LessOrEqual(x, x), FLOAT
    yield "EliminateInfinityComparison", lambda op, x: op.LessOrEqual(x, float("inf")), FLOAT
    yield "EliminateAddFromComparison", lambda op, x, y: op.Greater(op.Add(x, ramp(3)), op.Add(y, ramp(3))), PAIR
    yield "EliminateAddFromComparison", lambda op, x, y, z: op.Greater(op.Add(x, z), op.Add(y, z)), {**PAIR, "z": "f32[2,3]"}
    yield "GroupAddComparison", lambda op, x: op.Less(op.Add(x, ramp(3)), 0.5), FLOAT
    yield "AbsorbMulIntoComparison", lambda op, x: op.Greater(op.Mul(x, ramp(3)), bound), FLOAT
    yield "AbsorbClipIntoComparison", lambda op, x: op.GreaterOrEqual(op.Clip(x, -1.0, 1.0), bound), FLOAT
    for kind in ("Relu", "Exp", "Log", "Sigmoid", "Neg"):
        inputs = {"x": "f32[2,3]{0.1:3}"} if kind == "Log" else FLOAT
        yield f"Absorb{kind}IntoComparison", lambda op, x, k=kind: op.GreaterOrEqual(getattr(op, k)(x), bound), inputs
    yield "AbsorbSquareIntoComparison", lambda op, x: op.GreaterOrEqual(op.Mul(x, x), bound), FLOAT
    yield "AbsorbSiluIntoComparison", lambda op, x: op.GreaterOrEqual(op.Mul(x, op.Sigmoid(x)), bound), FLOAT
    yield "AbsorbSiluIntoComparison", lambda op, x: op.GreaterOrEqual(op.ops.Silu(x), bound), FLOAT


def products():
    flat = {"x": "f32[2,4]"}
    yield "GroupMatMul", lambda op, x: op.MatMul(op.MatMul(x, ramp(4, 3)), ramp(3, 2)), flat
    yield "DistributiveMatMulAddLhs", lambda op, x: op.Add(op.MatMul(x, ramp(4, 3)), op.MatMul(x, ramp(4, 3, low=1))), flat
    yield "DistributiveMatMulAddRhs", lambda op, x: op.Add(op.MatMul(ramp(3, 2), x), op.MatMul(ramp(3, 2, low=1), x)), flat
    yield "MoveMulPastMatMulLhs", lambda op, x: op.MatMul(op.Mul(x, 0.5), ramp(4, 3)), flat
    yield "MoveMulPastMatMulRhs", lambda op, x: op.MatMul(ramp(3, 2), op.Mul(x, 0.5)), flat
    yield "MoveAddPastMatMul", lambda op, x: op.MatMul(op.Add(x, ramp(4)), ramp(4, 3)), flat
    yield "AbsorbMulIntoMatMul", lambda op, x: op.MatMul(op.Mul(x, ramp(4)), ramp(4, 3)), flat
    yield (
        "MoveTransposePastMatMul",
        lambda op, x, y: op.MatMul(op.Transpose(x, perm=[1, 0]), op.Transpose(y, perm=[1, 0])),
        {"x": "f32[3,2]", "y": "f32[4,3]"},
    )


def reductions():
    for kind in ("ReduceSum", "ReduceMax", "ReduceMin"):
        for moved in ("Add", "Mul"):
            yield (
                f"Move{moved}Past{kind}",
                lambda op, x, k=kind, m=moved: getattr(op, k)(getattr(op, m)(x, ramp(2, 1, low=-0.5)), [1], keepdims=1),
                FLOAT,
            )
    for kind in ("ReduceMean", "ReduceL1", "ReduceLogSumExp"):
        yield "EliminateIdentityReduce", lambda op, x, k=kind: getattr(op, k)(x, [1], keepdims=0), {"x": "f32[2,1,3]"}


def moved(op, kind, x):
    """An elementwise operator of x with what else it needs."""
    if kind == "Clip":
        return op.Clip(x, -1.0, 1.0)
    if kind == "Where":
        return op.Where(x, ramp(3), ramp(2, 3, low=-4))
    if kind == "Cast":
        return op.Cast(x, to=onnx.TensorProto.INT32)
    if kind == "BitShift":
        return op.BitShift(x, np.array([1, 2, 3], np.uint8), direction="LEFT")
    if kind in ("And", "Or", "Xor"):
        return getattr(op, kind)(x, bits(3))
    if kind.startswith("Bitwise") and kind != "BitwiseNot":
        return getattr(op, kind)(x, words(3))
    if kind == "Mod":
        return op.Mod(x, ramp(3), fmod=1)
    if kind in FLOAT_BINARY:
        return getattr(op, kind)(x, ramp(3))
    return getattr(op, kind)(x)


def moved_input(kind, dims):
    if kind in ("Where", "And", "Or", "Xor", "Not"):
        return {"x": f"bool{dims}"}
    if kind == "BitShift":
        return {"x": f"u8{dims}{{0:16}}"}
    if kind.startswith("Bitwise"):
        return {"x": f"i32{dims}"}
    return {"x": f"f32{dims}{RANGES.get(kind, '')}"}


def class_word(kind):
    return {"IsInf": "IfInf"}.get(kind, kind)


def elementwise():
    kinds = [*FLOAT_UNARY, "IsInf", "IsNaN", "Cast", "Clip", "Not", "BitwiseNot", *FLOAT_BINARY, "And", "Or", "Xor",
             "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Where"]  # fmt: skip
    patches = np.array([[0, 1], [1, 2], [4, 5]])
    for kind in kinds:
        word, flat, solid = class_word(kind), moved_input(kind, "[2,3]"), moved_input(kind, "[2,2,3]")
        yield f"Move{word}PastReshape", lambda op, x, k=kind: op.Reshape(moved(op, k, x), [3, 2]), flat
        yield f"Move{word}PastSlice", lambda op, x, k=kind: op.Slice(moved(op, k, x), [0, 1], [2, 3], [0, 1], [1, 1]), flat
        yield (
            f"Move{word}PastIm2Col",
            lambda op, x, k=kind: op.ops.Im2Col(moved(op, k, x), patches, kernel_shape=[2], strides=[1], dilations=[1]),
            solid,
        )
        if kind != "Where":  # the original has none
            yield f"Move{word}PastTranspose", lambda op, x, k=kind: op.Transpose(moved(op, k, x), perm=[1, 0]), flat
        yield f"MoveTransposePast{word}", lambda op, x, k=kind: moved(op, k, op.Transpose(x, perm=[1, 0])), {
            "x": flat["x"].replace("[2,3]", "[3,2]")
        }


def reorder():
    yield "MoveSquarePastReshape", lambda op, x: op.Reshape(op.Mul(x, x), [3, 2]), FLOAT
    yield "MoveCompositeSiluPastReshape", lambda op, x: op.Reshape(op.Mul(op.Sigmoid(x), x), [6]), FLOAT
    yield "MoveCompositeSwishPastReshape", lambda op, x: op.Reshape(op.Mul(op.Sigmoid(op.Mul(x, 1.5)), x), [6]), FLOAT
    yield "MoveFusedSiluPastReshape", lambda op, x: op.Reshape(op.ops.Silu(x), [6]), FLOAT
    yield "MoveFusedSwishPastReshape", lambda op, x: op.Reshape(op.ops.Swish(x, alpha=1.5), [6]), FLOAT
    yield (
        "MoveTransposePastReshape",
        lambda op, x: op.Reshape(op.Transpose(x, perm=[0, 2, 1]), [2, 4, 1, 3]),
        {"x": "f32[2,3,4]"},
    )
    yield "MoveTransposePastReduce", lambda op, x: op.ReduceMean(op.Transpose(x, perm=[2, 0, 1]), [1], keepdims=0), {
        "x": "f32[2,3,4]"
    }
    yield (
        "MoveTransposePastPad",
        lambda op, x: op.Pad(op.Transpose(x, perm=[2, 0, 1]), [1, 0, 0, 2], 0.5, [0, 2]),
        {"x": "f32[2,3,4]"},
    )
    yield "InferTransposePerm", lambda op, x: op.Transpose(x), FLOAT
    yield "FuseTranspose", lambda op, x: op.Transpose(op.Transpose(x, perm=[2, 0, 1]), perm=[0, 2, 1]), {"x": "f32[2,3,4]"}
    yield "EliminateIdentityTranspose", lambda op, x: op.Transpose(x, perm=[0, 1]), FLOAT
    yield "ConvertFlattenToReshape", lambda op, x: op.Flatten(x, axis=2), {"x": "f32[2,3,4]"}
    yield "ConvertSqueezeToReshape", lambda op, x: op.Squeeze(x, [1]), {"x": "f32[2,1,3]"}
    yield "ConvertUnsqueezeToReshape", lambda op, x: op.Unsqueeze(x, [0, 2]), FLOAT
    yield "InferSqueezeAxes", lambda op, x: op.Squeeze(x), {"x": "f32[2,1,3,1]"}
    yield "FuseReshape", lambda op, x: op.Reshape(op.Reshape(x, [6]), [3, 2]), FLOAT
    yield "ExplicitAllowzeroReshape", lambda op, x: op.Reshape(x, [3, 2]), FLOAT
    yield "EliminateIdentityReshape", lambda op, x: op.Reshape(x, [2, -1]), FLOAT
    yield "EliminateIdentitySlice", lambda op, x: op.Slice(x, [0], [100], [1], [1]), FLOAT
    yield "MoveElementwisePastSplit", split_behind, {"x": "f32[2,4]"}
    yield "MoveSplitPastElementwise", split_before, {"x": "f32[2,4]"}
    yield (
        "MoveElementwisePastConcat",
        lambda op, x, y: op.Relu(op.Concat(op.Mul(x, 2.0), op.Mul(y, 3.0), axis=1)),
        PAIR,
    )
    unary = {"x": "f32[3,2]"}
    yield "MoveTransposePastElementwiseUnary", lambda op, x: op.Relu(op.Transpose(x, perm=[1, 0])), unary
    yield (
        "MoveTransposePastElementwiseBinary",
        lambda op, x, y: op.Add(op.Transpose(x, perm=[1, 0]), op.Transpose(y, perm=[1, 0])),
        {"x": "f32[3,2]", "y": "f32[3,2]"},
    )
    yield (
        "MoveTransposePastElementwiseTernary",
        lambda op, c, x, y: op.Where(*(op.Transpose(v, perm=[1, 0]) for v in (c, x, y))),
        {"c": "bool[3,2]", "x": "f32[3,2]", "y": "f32[3,2]"},
    )
    yield "MoveElementwiseUnaryPastTranspose", lambda op, x: op.Transpose(op.Relu(x), perm=[1, 0]), FLOAT
    yield "MoveElementwiseBinaryPastTranspose", lambda op, x, y: op.Transpose(op.Add(x, y), perm=[1, 0]), PAIR
    yield (
        "MoveElementwiseTernaryPastTranspose",
        lambda op, c, x, y: op.Transpose(op.Where(c, x, y), perm=[1, 0]),
        {"c": "bool[2,3]", **PAIR},
    )


def split_behind(op, x):
    first, second = op.Split(op.Mul(x, ramp(4)), [1, 3], axis=1, outputs=2)
    return op.Relu(first), op.Neg(second)


def split_before(op, x):
    first, second = op.Split(x, [2, 2], axis=1, outputs=2)
    return op.Neg(op.Relu(first)), op.Abs(op.Relu(second))


def eliminated():
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    for kind, constant in (("Add", zero), ("Sub", zero), ("Mul", one), ("Div", one)):
        yield f"EliminateIdentity{kind}", lambda op, x, k=kind, c=constant: getattr(op, k)(x, c), FLOAT
    for kind, constant in (("And", True), ("Or", False), ("Xor", False)):
        yield f"EliminateIdentity{kind}", lambda op, x, k=kind, c=constant: getattr(op, k)(x, c), take(LOGIC, 1)
    for kind, constant in (("And", -1), ("Or", 0), ("Xor", 0)):
        yield (
            f"EliminateIdentityBitwise{kind}",
            lambda op, x, k=kind, c=constant: getattr(op, f"Bitwise{k}")(x, np.array(c, np.int32)),
            take(INTS, 1),
        )
    yield (
        "EliminateIdentityBitShift",
        lambda op, x: op.BitShift(x, np.array(0, np.uint8), direction="RIGHT"),
        {"x": "u8[2,3]{0:16}"},
    )
    yield "EliminateIdentityMatMulLhs", lambda op, x: op.MatMul(np.eye(3, dtype=np.float32), x), {"x": "f32[3,3]"}
    yield "EliminateIdentityMatMulRhs", lambda op, x: op.MatMul(x, np.eye(3, dtype=np.float32)), {"x": "f32[3,3]"}
    yield "EliminateIdentityCast", lambda op, x: op.Cast(x, to=onnx.TensorProto.FLOAT), FLOAT
    yield "EliminateIdentityCastLike", lambda op, x, y: op.CastLike(x, y), PAIR
    yield "EliminateIdentityExpand", lambda op, x: op.Expand(x, [2, 3]), FLOAT
    yield (
        "EliminateIdentityIm2Col",
        lambda op, x: op.ops.Im2Col(x, np.arange(6).reshape(2, 3), kernel_shape=[1], strides=[1], dilations=[1]),
        {"x": "f32[2,2,3]"},
    )
    yield "EliminateIdentity", lambda op, x: op.Neg(op.Identity(op.Abs(x))), FLOAT
    yield "EliminateWhereLhs", lambda op, x, y: op.Where(True, x, y), PAIR
    yield "EliminateWhereRhs", lambda op, x, y: op.Where(np.zeros((2, 3), bool), x, y), PAIR
    yield "EliminateCommonSubexpression", lambda op, x: op.Add(op.Neg(op.Exp(x)), op.Exp(x)), FLOAT


def lowered():
    kernel = ramp(4, 2, 3, 3, low=-2, step=0.125)
    yield "ConvToMatMul", lambda op, x: op.Conv(x, kernel, strides=[2, 2], kernel_shape=[3, 3]), IMAGE
    yield "ConvToMatMul", lambda op, x: op.Conv(x, kernel, ramp(4), pads=[1, 1, 1, 1], kernel_shape=[3, 3]), IMAGE
    yield "ConvToMatMul", lambda op, x: op.Conv(x, ramp(4, 1, 2, 2), group=2, dilations=[2, 2], kernel_shape=[2, 2]), IMAGE
    for kind in ("Average", "Max", "Lp"):
        yield f"ExplicitGlobal{kind}Pool", lambda op, x, k=kind: getattr(op, f"Global{k}Pool")(x), IMAGE
    yield "MaxPoolToReduceMax", lambda op, x: op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]), IMAGE
    yield "MaxPoolToReduceMax", lambda op, x: op.MaxPool(x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]), IMAGE
    yield "AveragePoolToReduceSum", lambda op, x: op.AveragePool(x, kernel_shape=[2, 3], strides=[2, 1]), IMAGE
    yield "AveragePoolToReduceSum", lambda op, x: op.AveragePool(x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), IMAGE
    yield (
        "InlineBatchNormalization",
        lambda op, x: op.BatchNormalization(x, ramp(2), ramp(2, low=-1), ramp(2, low=2), ramp(2, low=1), epsilon=0.001),
        IMAGE,
    )
    yield (
        "InlineGemm",
        lambda op, x: op.Gemm(x, ramp(4, 3), ramp(4), alpha=0.5, beta=2.0, transB=1),
        FLOAT,
    )
    yield "InlineGemm", lambda op, x: op.Gemm(x, ramp(3, 4), alpha=0.5), FLOAT
    yield "LowerSigmoid", lambda op, x: op.Sigmoid(x), FLOAT
    yield "FuseSilu", lambda op, x: op.Mul(op.Sigmoid(x), x), FLOAT
    yield "InlineFunctions", lambda op, x: op.ops.Swish(x, alpha=1.5), FLOAT
    yield "InlineFunctions", lambda op, x: op.Add(op.ops.Silu(x), op.ops.Silu(op.Neg(x))), FLOAT


def thresholds():
    sorted_up, mixed = np.array([[-1, 0, 0.5, 2]], np.float32), np.array([[1, -1, 0.5, 0]], np.float32)
    weights = np.array([1, 2, -1, 3], np.float32)
    unit = np.ones(4, np.float32)

    def fused(op, x, t=sorted_up, w=weights):
        steps = op.Cast(op.GreaterOrEqual(op.Reshape(x, [2, 3, 1], allowzero=0), t), to=onnx.TensorProto.FLOAT)
        return op.ReduceSum(op.Mul(steps, w), [-1], keepdims=0)

    def segments(op, x, inverted=False):
        wide = op.Reshape(x, [2, 3, 1], allowzero=0)
        steps = op.Xor(op.GreaterOrEqual(wide, sorted_up), op.GreaterOrEqual(wide, sorted_up + 0.25))
        steps = op.Not(steps) if inverted else steps
        return op.ReduceSum(op.Mul(op.Cast(steps, to=onnx.TensorProto.FLOAT), unit), [-1], keepdims=0)

    yield "InlineThresholds", lambda op, x: op.ops.MultiThreshold(x, sorted_up, weights), FLOAT
    yield "InlineThresholds", lambda op, x: op.ops.MultiThreshold(x, ramp(3, 4, low=-2), weights), FLOAT
    yield "FuseThresholds", fused, FLOAT
    yield "FuseThresholdSegments", segments, FLOAT
    yield "FuseThresholdSegments", lambda op, x: segments(op, x, inverted=True), FLOAT
    for kind in ("Round", "Ceil", "Floor"):
        yield "ConvertRoundToThresholds", lambda op, x, k=kind: getattr(op, k)(x), FLOAT
    yield "SortThresholds", lambda op, x: op.ops.MultiThreshold(x, mixed, weights), FLOAT
    yield "UnbroadcastThresholds", lambda op, x: op.ops.MultiThreshold(x, np.repeat(sorted_up, 3, 0), weights), FLOAT
    yield "ThresholdMonotonicityDecomposition", lambda op, x: op.ops.MultiThreshold(x, sorted_up, weights), FLOAT
    yield "ThresholdMultiplicityDecomposition", lambda op, x: op.ops.MultiThreshold(x, sorted_up, np.abs(weights)), FLOAT
    grid = sorted_up - np.array([[0, 1, 2], [1, 2, 3]], np.float32)[..., None]
    yield "ThresholdGranularityDecomposition", lambda op, x: op.ops.MultiThreshold(x, grid, unit), FLOAT
    yield "RangeAnnotation", lambda op, x: op.Round(op.Clip(x, -2.0, 2.0)), FLOAT
    yield "CleanupRangeAnnotation", lambda op, x: op.Round(op.Clip(x, -2.0, 2.0)), FLOAT
    yield "UnbroadcastElementwise", lambda op, x: op.Add(x, np.full((2, 3), 1.5, np.float32)), FLOAT
    yield "UnbroadcastElementwise", lambda op, x: op.Mul(x, np.repeat(ramp(1, 3), 2, 0)), FLOAT
    yield "ExtractCommonScaleFromMatMul", lambda op, x: op.MatMul(x, multiples(3, 4)), FLOAT
    yield (
        "ExtractCommonScaleFromGather",
        lambda op, i: op.Gather(multiples(5, 4), i),
        {"i": "i64[3]{0:1}"},
    )


def quantized():
    for mode in ("ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO"):
        yield (
            "InlineQONNXQuant",
            lambda op, x, m=mode: op.ops.Quant(x, 0.5, 0.0, 3.0, signed=1, narrow=0, rounding_mode=m),
            FLOAT,
        )
    yield (
        "FoldConstantQONNXQuant",
        lambda op, x: op.Add(x, op.ops.Quant(ramp(3), 0.5, 0.0, 3.0, signed=1, narrow=1, rounding_mode="ROUND")),
        FLOAT,
    )
    for domain in ("qonnx", "brevitas"):
        yield (
            "ImportQONNX",
            lambda op, x, d=domain: getattr(op, d).Quant(x, 0.5, 0.0, 4.0, signed=1, narrow=0, rounding_mode="ROUND"),
            FLOAT,
        )
    yield (
        "ImportQONNX",
        lambda op, x: op.qonnx.MultiThreshold(
            x, ramp(3, 4, low=-1), out_dtype="UINT2", out_scale=0.5, out_bias=-1.0, data_layout="NC"
        ),
        FLOAT,
    )


def cleaned():
    yield "FoldConstants", lambda op, x: op.Add(x, op.Mul(op.Constant(value_float=2.0), ramp(3))), FLOAT
    yield "FoldConstantShape", lambda op, x: op.Reshape(op.Neg(x), op.Shape(x)), FLOAT
    yield "FoldConstantSize", lambda op, x: op.Mul(op.Cast(op.Size(x), to=onnx.TensorProto.FLOAT), x), FLOAT
    yield "LiftConstantsToInitializers", lambda op, x: op.Add(x, op.Constant(value_floats=[1.0, 2.0, 3.0])), FLOAT
    yield "DeduplicateInitializers", lambda op, x: op.Add(op.Mul(x, ramp(3)), ramp(3)), FLOAT
    yield "GiveUniqueNames", lambda op, x: op.Neg(op.Abs(x)), FLOAT
    yield "RemoveUnusedNodes", lambda op, x: (op.Exp(x), op.Neg(x))[1], FLOAT
    yield "ShapeInference", lambda op, x: op.Transpose(op.Neg(x), perm=[1, 0]), FLOAT
    yield "Checker", lambda op, x: op.Neg(x), FLOAT
    yield "InjectCustomOps", lambda op, x: op.Neg(x), FLOAT
    for kind in ("Equality", "Tolerance", "Metric"):
        yield f"Verify{kind}", lambda op, x: op.Neg(x), FLOAT


def backwards(model):
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def with_initializer_as_input(model):
    tensor = model.graph.initializer[0]
    model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


def with_unused_function(model):
    body = [helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(helper.make_function("spare", "Spare", ["a"], ["b"], body, [helper.make_opsetid("", 19)]))
    model.opset_import.append(helper.make_opsetid("spare", 1))


def with_unused_opset(model):
    model.opset_import.append(helper.make_opsetid("spare", 1))


def with_branches(model):
    """An If whose branches have an initializer of their own."""
    graph = model.graph
    branches = []
    for word, constant in (("then", ramp(3)), ("else", ramp(3, low=2))):
        held = onnx.numpy_helper.from_array(constant, f"{word}_c")
        out = onnx.ValueInfoProto(name=f"{word}_y")
        node = helper.make_node("Add", ["x", f"{word}_c"], [f"{word}_y"])
        branches.append(helper.make_graph([node], word, [], [out], [held]))
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    del graph.node[:]
    graph.node.append(node)
    del graph.output[:]
    graph.output.append(onnx.ValueInfoProto(name="y"))


def ranged(model):
    """A range of the input, as onnx-passes notes it beside a value."""
    for value in model.graph.input:
        entry = value.metadata_props.add()
        entry.key, entry.value = "range", "[-3.0, 3.0]"


def composites():
    def net(op, x):
        hidden = op.MatMul(op.Div(op.Sub(x, ramp(4)), 2.0), multiples(4, 3))
        hidden = op.Relu(op.Add(op.Mul(hidden, 0.5), ramp(3)))
        return op.Transpose(op.Reshape(hidden, [3, 2]), perm=[1, 0])

    def quantizer(op, x):
        return op.Mul(op.Round(op.Clip(op.Div(x, 0.5), 0.0, 2.0)), 0.5)

    yield Model("Streamline", "pos", net, {"x": "f32[2,4]"}, 19)
    yield Model("StreamlineThresholds", "pos", quantizer, {"x": "f32[2]"}, 19)
    layouts = {"inp": [{"assumes": ["N", "C", "H", "W"], "perm": [0, 2, 3, 1]}], "out": [None]}
    yield Model("ConvertLayouts", "pos", lambda op, x: op.Relu(x), IMAGE, config={"layouts": layouts})
    for tag, function in (
        ("pos", lambda op, x: op.ops.LayoutConverter(
            op.Transpose(x, perm=[0, 3, 1, 2]), assumes=["N", "C", "H", "W"], perm=[0, 2, 3, 1])),
        ("behind", lambda op, x: op.Transpose(
            op.ops.LayoutConverter(x, assumes=["N", "C", "H", "W"], perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])),
    ):  # fmt: skip
        yield Model("AbsorbTransposeIntoLayoutConverter", tag, function, IMAGE)
    yield Model("InlineUnitThresholds", "pos", lambda op, x: op.ops.MultiThreshold(x, ramp(3, 4, low=-2)), FLOAT)
    for version in range(18, 24):
        yield Model(f"ConvertVersion{version}", "pos", lambda op, x: op.Relu(op.ReduceSum(x, [1])), FLOAT, version - 1)
    sums = lambda op, x: op.Add(op.Neg(x), ramp(3))  # noqa: E731
    yield Model("TopologicalSort", "pos", sums, FLOAT, change=backwards)
    yield Model("RemoveInitializersFromInputs", "pos", sums, FLOAT, change=with_initializer_as_input)
    yield Model("RemoveUnusedFunctions", "pos", sums, FLOAT, change=with_unused_function)
    yield Model("RemoveUnusedOpsets", "pos", sums, FLOAT, change=with_unused_opset)
    yield Model("LiftSubgraphInitializersToMainGraph", "pos", lambda op, c, x: sums(op, x), {"c": "bool[]", "x": "f32[2,3]"}, change=with_branches)


def open_batch(inputs):
    """The same inputs with a first dim that is open."""
    return {name: text.replace("[2,", "[N,", 1).replace("[1,", "[N,", 1) for name, text in inputs.items()}


def models():
    """All of them, with a model each whose first dim is open, and one all of whose values are outputs."""
    found, seen = [], {}
    for family in (algebraic, elementwise, reorder, eliminated, lowered, thresholds, quantized, cleaned):
        for name, function, inputs in family():
            number = seen[name] = seen.get(name, 0) + 1
            tag = "pos" if number == 1 else f"pos{number}"
            opset = 20 if "Gelu" in name else 19  # onnx-passes' own functions are of 19
            found.append(Model(name, tag, function, inputs, opset))
            found.append(Model(name, f"{tag}+dyn", function, open_batch(inputs), opset))
            found.append(Model(name, f"{tag}+fan", function, inputs, opset, every=True))
    return found + list(composites())


def build(row):
    model = trace(row.function, row.inputs, row.opset, row.every)
    if row.name in ("ConvertRoundToThresholds", "CleanupRangeAnnotation"):
        ranged(model)
    if row.change:
        row.change(model)
    return model
