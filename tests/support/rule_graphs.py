"""Graphs on which a rule of the house fires, made from its own pattern, and what it takes to compare them before and after.

Graphs are made by the compiler's parser: operators of the pattern become nodes, names become inputs or constants of some dims,
attributes some value. Most often what the condition says of constants, types, dims and signs is heeded; what else it says is
left to chance: who wants graphs on which the rule fires tries many, and then some that are like those (Draws).
"""

import copy
import importlib.util
import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
from onnx.reference import ReferenceEvaluator

RULES = Path(__file__).resolve().parents[2] / "src" / "passes" / "rules"
_spec = importlib.util.spec_from_file_location("compile_rules", RULES / "compile_rules.py")
compiler = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compiler)

FIRST = {}  # the version that brought an operator
for _schema in onnx.defs.get_all_schemas_with_history():
    if not _schema.domain:
        FIRST[_schema.name] = min(FIRST.get(_schema.name, 99), _schema.since_version)
TRUTHS = {"And", "Or", "Not", "Xor"}
WHOLE = {"BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
JUDGES = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf"} | TRUTHS
SCALAR = JUDGES | WHOLE | set("Add Sub Mul Div Max Min Neg Abs Reciprocal Ceil Floor Round Relu Clip Exp Log Sigmoid Pow Where".split())
FLOATS = (np.float16, np.float32, np.float64)
MOVING = {"MatMul", "Transpose", "Reshape", "Expand", "Identity", "Squeeze", "Unsqueeze", "Slice", "Shape", "Concat", "Gather"}
# Whose elements depend on where they lie: ONNX Runtime computes eight at a time and the rest one by one.
UNEVEN = set("Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Exp Gelu Log Mish Selu Sigmoid Sin Sinh Softplus Tan Tanh Celu Pow".split())
# Whose NaNs do: those that signal come out quiet or not, and of two either is taken. Rules that are exact only move these.
UNEVEN_NANS = {"Add", "Mul", "Ceil", "Floor", "Sign"}
LACKING = object()  # what run gives where the runtime lacks an operator of that type
GIVEN = ("to", "axes", "kernel_shape")  # attributes that are never left out
DOMAINS = {"": "", "ms": "com.microsoft", "ops": "onnx_passes.ops"}


def rules():
    """Those of the house's book, and for each its rows."""
    book = compiler.Book()
    for path in sorted((RULES / "book").glob("*.rules")):
        compiler.read(path, book)
    return book


def pass_of(book, rule, row):
    """The pass of a rule's row, as the compiler spells it."""
    name = compiler.fill(rule.names[0], row)
    for before, after in book.spell.items():
        name = name.replace(before, after) if before in row.values() else name
    return name


BODIES = {
    "Im2Col": "Im2Col <kernel_shape, strides, dilations> (x, i) => (y) { f = Flatten (x) y = Gather <axis: int = 1> (f, i) }",
    "Silu": "Silu (x) => (y) { s = Sigmoid (x) y = Mul (x, s) }",
    "Swish": "Swish <alpha: float = 1.0> (x) => (y) "
    "{ a = Constant <value_float: float = @alpha> () c = CastLike (a, x) m = Mul (c, x) s = Sigmoid (m) y = Mul (x, s) }",
    "LayoutConverter": "LayoutConverter <perm, assumes> (x) => (y) { y = Transpose <perm: ints = @perm> (x) }",
    "MultiThreshold": "MultiThreshold (x, t, w) => (y) { l = Constant <value_ints: ints = [-1]> () u = Unsqueeze (x, l) g = GreaterOrEqual (u, t) "
    "c = Cast <to: int = 1> (g) p = Mul (c, w) y = ReduceSum <keepdims: int = 0> (p, l) }",
}
BODIES["MultiThreshold of units"] = BODIES["MultiThreshold"].replace(", w)", ")", 1).replace("p = Mul (c, w)", "p = Identity (c)")


def without_weights(model):
    return any(node.op_type == "MultiThreshold" and len(node.input) == 2 for node in model.graph.node)


def with_bodies(bare):
    """What a runtime takes the operators of onnx_passes.ops for, where the model does not say."""
    if bare.functions:
        return bare
    model = onnx.ModelProto()
    model.CopyFrom(bare)
    version = next(each.version for each in model.opset_import if not each.domain)
    units = without_weights(model)
    for name in sorted({node.op_type for node in model.graph.node if node.domain == "onnx_passes.ops"}):
        body = BODIES[name + " of units" * (units and name == "MultiThreshold")]
        model.functions.append(onnx.parser.parse_function(f'<domain: "onnx_passes.ops", opset_import: ["" : {version}]> {body}'))
    return model


def is_valid(model):
    """Is it what ONNX says of operands that onnx's own inference lets pass: the slope of a PRelu spreads to what it is of, axes are some, each once?"""
    graph = model.graph
    dims = {each.name: list(each.dims) for each in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        if value.type.tensor_type.HasField("shape"):
            dims[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
    numbers = {each.name: numpy_helper.to_array(each).ravel().tolist() for each in graph.initializer if each.data_type == TensorProto.INT64}
    for node in graph.node:
        x, *others = [dims.get(name) for name in node.input]
        if x is None:
            continue
        if node.op_type == "PRelu" and others[0] is not None:
            if len(others[0]) > len(x) or any(b not in (1, a) for a, b in zip(x[::-1], others[0][::-1])):
                return False
        if node.op_type in ("Squeeze", "Unsqueeze"):
            axes = [list(each.ints) for each in node.attribute if each.name == "axes"] or [numbers[name] for name in node.input[1:] if name in numbers]
            rank = len(x) + (len(axes[0]) if axes and node.op_type == "Unsqueeze" else 0)
            if axes and (any(not -rank <= i < rank for i in axes[0]) or len({i % rank for i in axes[0]}) < len(axes[0])):
                return False
    return True


class Draws(random.Random):
    """What decides what a pattern leaves open, and remembers it: the draws that a good graph came of, some of them anew, make one much like it.

    Bits, of which seeds of numbers are made, are always new: no two graphs have the same numbers.
    """

    def __init__(self, seed):
        super().__init__(seed)
        self.begin()

    def begin(self, good=()):
        """The next graph: like one of those of which these were the draws."""
        self.like, self.made = (), []
        if good:
            like, self.share = self.choice(good), self.random() / 3
            self.like, self.made = like, []

    def random(self):
        drawn = super().random()
        if len(self.made) < len(self.like) and super().random() >= self.share:
            drawn = self.like[len(self.made)]
        self.made.append(drawn)
        return drawn


def uniform(rng, dims, equal):
    """Numbers of about one; where some must be equal, of few."""
    return rng.choice([0.5, 1.0, 2.0], dims) if equal else rng.uniform(0.5, 2, dims)


class Graph:
    """One graph made from a pattern; `rng` decides what the pattern leaves open."""

    def __init__(self, rule, row, rng):
        self.rule, self.row, self.rng = rule, row, rng
        self.domains = {}
        self.nodes, self.inputs, self.constants, self.names, self.attributes = [], {}, {}, {}, {}
        trees = list(compiler.walk([rule.pattern, rule.result]))
        self.ops = {compiler.fill(t[2], row) for t in trees if t[0] == "op" and t in list(compiler.walk(rule.pattern))}
        self.fixed = {x[1] for t in compiler.walk(rule.where) if t[0] == "call" and t[1] in ("consts", "number", "all") for x in t[2]}
        self.fixed |= {x[1] for t in compiler.walk(rule.result) if t[0] == "call" and t[1] == "number" for x in t[2]}
        self.reduced = None  # the axes of the first reduction, which are those of the others
        self.read_condition()
        self.world = rng.choice(compiler.constants(rule.where))
        self.scaled = {t[2][0][1] for t in compiler.walk(rule.where) if t[0] == "call" and t[1] == "common_scale"}
        self.eyes = {t[2][0][1] for t in compiler.walk(rule.where) if t[0] == "call" and t[1] == "identity"}
        self.rank = rng.choice([0 if self.ops <= SCALAR else 1, 1, 2, 2, 3, 3])
        if self.ranks and rng.random() < 0.7:
            self.rank = max(self.ranks)
        self.dims = [rng.choice([2, 3, 3, 1]) for _ in range(self.rank)]
        self.square = bool(self.ops & {"Transpose", "MatMul", "Gemm"}) and rng.random() < 0.7
        if self.square:
            self.dims = [3] * self.rank
        if self.ops & {"Conv", "ConvTranspose", "AveragePool", "BatchNormalization", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}:
            self.rank, self.dims = 4, [1, 2, 4, 5]
        self.element = rng.choice([np.float32, np.float32, np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8])
        if self.floats and rng.random() < 0.7:
            self.element = rng.choice([np.float32, np.float32, np.float64, np.float16])
        whole = any(t[0] == "not" and t[1][0] == "call" and t[1][1] == "float" for t in compiler.walk(rule.where))
        if whole and rng.random() < 0.7:
            self.element = rng.choice([np.int32, np.int64])
        self.inner = np.float32 if any(t[0] == "op" and t[3].get("to") == ("num", 1) for t in trees) else None
        self.choose_types(trees)
        if "Squeeze" in self.ops:
            self.dims = [rng.choice([1, 1, 2]) for _ in range(self.rank)]
        if self.ops & {"LayerNormalization", "SkipLayerNormalization"}:
            self.rank, self.dims = 3, [2, 1, 3]
        if self.ops & TRUTHS:
            self.element = np.bool_
        if self.ops & WHOLE:
            self.element = rng.choice([np.int32, np.int64, np.uint8])
        if self.ops & {"BatchNormalization", "MatMul"} and self.element == np.float16:
            self.element = np.float32  # sums lose more than its tolerance
        if "BitShift" in self.ops:
            self.element = np.uint32
        made = [compiler.fill(t[2], row) for t in trees if t[0] == "op" and not t[1]]
        if self.ops & {"Im2Col"}:
            self.rank, self.dims = 4, [1, 2, 2, 3]
        least = max([11, rule.since, *(FIRST[op] for op in made), 15 if any(t[0] == "op" and t[1] == "ops" for t in trees) else 11])
        old = [10, 10] if 1 < rule.since < 11 else []  # the last version in which pads were an attribute
        opsets = [11, 11, 17] if rule.since == 1 else old + [each for each in (11, 13, 17, 18, 20, 23, 24) if each >= least]
        self.opset = rng.choice([each for each in opsets if self.has(rule.pattern, each)] or opsets)

    def read_condition(self):
        """What it says of names, where it says no more than that: the last dims of another, one element, a sign, a rank, floats, twins of attributes."""
        where = list(compiler.walk(self.rule.where))
        denied = [id(t[1]) for t in where if t[0] == "not"]
        either = {id(each) for t in where if t[0] == "or" for each in compiler.walk(t)}
        self.single = {t[2][0][1] for t in compiler.walk(self.rule.result) if t[:2] == ("call", "number")}
        self.wholes, self.tails, self.signs, self.ranks, self.twins, self.floats = set(), set(), {}, [], {}, False
        for t in where:
            called = t[1] if t[0] == "call" else None
            if called in ("scalar", "number") and t[2][0][0] == "name" and id(t) not in denied:
                self.single.add(t[2][0][1])
            if called == "float" and id(t) not in denied:
                self.floats = True
            if called == "all" and t[2][2] == ("num", 0) and t[2][1][1][0] in "<>":
                self.signs[t[2][0][1]] = 1 if t[2][1][1][0] == ">" else -1
            if t[0] != "cmp" or t[1] != "==":
                continue
            if t[2][:2] == ("call", "dims") and t[3][0] == "slice":
                self.tails.add(t[2][2][0][1])
                self.wholes |= {each[2][0][1] for each in compiler.walk(t[3][1]) if each[:2] == ("call", "dims")}
            if t[2][:2] == ("call", "rank") and t[3][0] == "num" and t[3][1] > 1 and id(t) not in either:
                self.ranks.append(t[3][1])
            if t[2][0] == t[3][0] == "name":
                self.twins[t[2][1]], self.twins[t[3][1]] = t[3][1], t[2][1]

    def choose_types(self, trees):
        """Where the condition lists what Casts may make (t in [10,16]): one of them, and what belongs to it."""
        made = {t[3]["to"][1] for t in trees if t[0] == "op" and t[3].get("to", ("",))[0] == "var"}
        for t in compiler.walk(self.rule.where):
            if t[0] == "cmp" and t[1] == "==" and t[2][:2] == ("call", "dtype") and t[3] == ("num", 1) and self.rng.random() < 0.8:
                self.element = np.float32  # where it says so of a value
            if t[0] != "cmp" or t[1] not in ("in", "==") or t[2][0] != "name" or t[2][1] not in made or t[3][0] not in ("list", "num"):
                continue
            listed = {each[1] for each in t[3][1]} if t[3][0] == "list" else {t[3][1]}
            if TensorProto.FLOAT16 in listed:
                self.element, self.attributes[t[2][1]] = np.float16, int(TensorProto.FLOAT16)
            elif listed <= {TensorProto.FLOAT, TensorProto.DOUBLE}:
                self.attributes[t[2][1]] = self.rng.choice(sorted(listed))
                self.inner = helper.tensor_dtype_to_np_dtype(self.attributes[t[2][1]])

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def slot(self, op, slot):
        """The constant that an operator wants there, or None."""
        rng = self.rng
        axes = [rng.randrange(-max(self.rank, 1), self.rank + 1)] if rng.random() < 0.7 else [0, -1]
        some = {
            ("Reshape", 1): [[-1], [0, -1], self.dims, [1, -1], [2, -1, 1]],
            ("Unsqueeze", 1): [axes],
            ("Squeeze", 1): [axes],
            ("Expand", 1): [self.dims, [1]],
            ("Tile", 1): [[1] * self.rank],
            ("Slice", 1): [[0]],
            ("Slice", 2): [[99], [2]],
            ("Slice", 3): [axes[:1], [self.rank - 1]],
            ("Slice", 4): [[1]],
            ("Pad", 1): [[0] * 2 * self.rank, [0, 0, 1, 1, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 1, 0]],
            ("Pad", 3): [list(range(self.rank))],
            ("Gather", 1): [0, -1, [0], [0, -1]],
        }.get((op, slot))
        if op.startswith("Reduce") and slot == 1:
            some = [self.reduced] if self.reduced else [[-1], [self.rank - 1], [0], [1, 2]]
            self.reduced = rng.choice(some)
        if some:
            return np.array(rng.choice(some), np.int64)
        weights = {("Conv", 1): (3, 2, 2, 2), ("ConvTranspose", 1): (2, 3, 2, 2), ("Conv", 2): (3,), ("ConvTranspose", 2): (3,), ("Dropout", 1): (), ("Clip", 1): (), ("Clip", 2): ()}.get((op, slot))
        if (op, slot) == ("Im2Col", 1):
            places = np.arange(np.prod(self.dims[1:]))
            return places.reshape(self.dims[1:]) if "ones_list(" in self.rule.text else places[:4].reshape(2, 2)
        if (op, slot) == ("Dropout", 2):
            return np.array(rng.random() < 0.3)
        if (op, slot) == ("Pad", 2):
            return np.array(0, self.element)
        return None if weights is None else self.numbers(weights)

    def numbers(self, dims):
        made = uniform(np.random.default_rng(self.rng.getrandbits(30)), dims, "Equal" in self.ops)
        sign = 1 if np.issubdtype(self.element, np.unsignedinteger) else self.rng.choice([1, -1])
        return np.asarray(made * sign * (50 if np.issubdtype(self.element, np.integer) else 1)).astype(self.element)

    def heeded(self, name, dims):
        """The dims of a name, or most often others, where the condition says which."""
        if name not in self.single | self.wholes | self.tails or self.rng.random() < 0.2:
            return dims
        if name in self.single:
            return self.rng.choice([[], [1], [1] * self.rank])
        return self.dims[self.rng.randrange(max(self.rank, 1)) if name in self.tails else 0 :]

    def variable(self, name, op, slot):
        """What a name stands for, by the place where it stands first."""
        if name not in self.names:
            rng = self.rng
            made = self.slot(op, slot)
            wanted = self.world.get(name, "c" if name in self.fixed or rng.random() < (0.4 if self.each else 0.1) else "v")
            if op == "BatchNormalization" and slot:
                made = np.abs(self.numbers(self.dims[1:2]))
            if op == "MultiThreshold" and slot:
                made = np.sort(self.numbers([4]))
            if name in self.scaled:
                steps = np.random.default_rng(rng.getrandbits(30)).integers(1, 5, [3, 3])
                made = (steps * rng.choice([0.25, -0.5, 1])).astype(self.element)
            if made is None and name in self.eyes:
                made = np.eye((self.dims or [1])[-1 if slot else max(-2, -self.rank)], dtype=self.element)
            if made is None and wanted == "c":
                dims = [[], [1], self.dims[-1:], self.dims] + ([[3, 1, 1], [1, 3, 1, 1]] if self.ops & {"Conv", "ConvTranspose"} else [])
                matrix = {("MatMul", 0): [3, *self.dims[-2:][:1]], ("MatMul", 1): [*self.dims[-1:], 3], ("Gemm", 1): self.dims[-1:] * 2}.get((op, slot))
                made = self.numbers(matrix or self.heeded(name, rng.choice(dims)))
                if name in self.signs and made.dtype.kind not in "ub" and rng.random() < 0.8:
                    made = np.abs(made) * self.signs[name]
                made = np.abs(made) if "Sqrt" in self.ops else made
                made = made.astype(self.inner or self.element) if name in self.fixed else made
                if rng.random() < 0.1 and not self.ops & {"Div", "Mod", "Reciprocal"}:
                    made = np.zeros_like(made)
            if made is not None:
                self.names[name] = self.constant(made)
            else:
                dims = rng.choice([self.dims, self.dims, self.dims[-1:], [1] * self.rank, []])
                dims = [3] * rng.choice([self.rank, max(1, self.rank - 1)]) if self.square else dims
                dims = self.dims if self.rank == 4 or self.each and rng.random() < 0.7 else dims
                dims = self.dims[-1:] if "LayerNormalization" in op and name in "gbc" else dims
                dims = self.dims[-1:] if op == "Add" and slot == 1 and name in "bc" else dims
                dims = self.heeded(name, dims)
                label = f"in_{name}{len(self.inputs)}"
                self.inputs[label] = dims
                self.names[name] = label
        return self.names[name]

    def attribute(self, op, key, value):
        rng = self.rng
        if value[0] in ("num", "text"):
            return value[1]
        if value[0] == "none" or value[1] not in self.attributes:
            perm = list(range(self.rank))
            rng.shuffle(perm)
            kinds = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64]
            some = {
                "perm": [perm, perm[::-1], [*range(self.rank - 2), self.rank - 1, self.rank - 2] if self.rank > 1 else perm],
                "to": [int(each) for each in kinds],
                "axes": [[0], [1], [-1], [self.rank - 1], [1, 2]],
                "axis": [-1, self.rank - 1],
                "pads": [[1, 0, 0, 1]],
                "kernel_shape": [[3, 3]],
                "auto_pad": ["VALID", "NOTSET"],
                "mode": ["constant"],
                "approximate": ["none", "tanh"],
            }
            if op == "LayoutConverter":
                some = {"perm": [perm], "assumes": [perm]}
            if op == "Im2Col":
                some = dict.fromkeys(("kernel_shape", "strides", "dilations"), [[1, 1], [1, 1], [2, 2]])
            if op == "Pad":
                some |= {"pads": [[0] * 2 * self.rank, [0, 0, 1, 1, 0, 0, 0, 1]], "value": [0.0, 0.0, 1.0]}
            if op == "HardSigmoid":
                some |= {"alpha": [1 / 6, 1 / 6, 0.2], "beta": [0.5]}
            for each in ("transA", "transB", "allowzero", "keepdims", "count_include_pad"):
                some[each] = [0, 1]
            made = rng.choice(some.get(key, [1.0, 1.0, 2.0]))
            if key == "axes" and op.startswith("Reduce"):
                made = self.reduced = self.reduced if self.reduced and rng.random() < 0.8 else made
            if value[0] == "none":
                return None
            twin = self.attributes.get(self.twins.get(value[1]))
            made = twin if twin is not None and rng.random() < 0.7 else made
            self.attributes[value[1]] = None if rng.random() < 0.2 and key not in GIVEN and (op, key) != ("Pad", "pads") else made
        return self.attributes[value[1]]

    def operand(self, p, op, slot):
        kind = p[0]
        if kind in ("var", "opt"):
            return "" if kind == "opt" and self.rng.random() < 0.5 else self.variable(p[1], op, slot)
        if kind == "lit":
            word = compiler.fill(p[1], self.row)
            element = self.inner or self.element
            ones = 1 if element == np.bool_ else np.array(-1).astype(element)
            number = ones if word == "ones" else float({"true": 1, "false": 0}.get(word, word))
            if word in ("true", "false"):
                element = np.bool_
            if np.isinf(number) and element not in FLOATS:
                number = np.iinfo(element).max if number > 0 else np.iinfo(element).min
            shape = self.rng.choice([[], [1], self.dims])
            if number == 0 and element in FLOATS and self.rng.random() < 0.5:
                number = -0.0
            return self.constant(np.full(shape, number, element))
        if kind == "alt":
            return self.operand(self.rng.choice([each for each in p[1] if self.has(each, self.opset)] or p[1]), op, slot)
        if kind == "any":
            return self.variable(f"_{len(self.names)}", op, slot)
        assert kind == "op", kind
        return self.node(p)

    def has(self, p, opset):
        """Has that version operators of these attributes and so many operands? (Axes were an attribute and became an operand.)"""
        if p[0] == "alt":
            return any(self.has(each, opset) for each in p[1])
        if p[0] == "each":
            return self.has(p[2], opset)
        if p[0] != "op":
            return True
        if not p[1]:
            schema = onnx.defs.get_schema(compiler.fill(p[2], self.row), opset)
            always = (*GIVEN, "pads") if p[2] == "Pad" else GIVEN
            given = {key for key, value in p[3].items() if value[0] in ("num", "text") or value[0] == "var" and key in always}
            needed = [each for each in p[5] if each[0] not in ("opt", "rest", "each")]
            if not given <= set(schema.attributes) or len(needed) > schema.max_input:
                return False
        return all(self.has(each, opset) for each in p[5])

    each = False

    def operands(self, args, op):
        """Of an operator of many operands as many as it has, each with names of its own."""
        if not args or args[-1][0] not in ("each", "rest"):
            return [self.operand(x, op, i) for i, x in enumerate(args)]
        ins, outer = [], dict(self.names)
        most = onnx.defs.get_schema(op, self.opset).max_input if not self.domains.get(op) else 1
        self.each = True
        for i in range(min(3 if op in ("Clip", "Where") else 2, most)):
            self.names = dict(outer)
            ins.append(self.operand(args[-1][2] if args[-1][0] == "each" else ("var", f"{args[-1][1]}{i}"), op, i))
        self.each = False
        return ins

    def node(self, p):
        op = compiler.fill(p[2], self.row)
        self.domains[op] = p[1]
        ins = self.operands(p[5], op)
        while ins and not ins[-1]:
            ins.pop()
        if op == "Where" and not (p[5] and p[5][0][0] == "lit"):
            ins = [self.constant(self.numbers(self.dims) > 0), *ins[:2]]
        if op in ("Add", "Mul") and self.rng.random() < 0.5:
            ins.reverse()
        attributes = {key: self.attribute(op, key, value) for key, value in p[3].items()}
        if op == "Cast":
            attributes.setdefault("to", int(TensorProto.FLOAT))
        if op == "Concat":
            attributes["axis"] = 0
        if op == "AveragePool":
            attributes.setdefault("kernel_shape", [3, 3])
        if op == "BitShift":
            attributes.setdefault("direction", self.rng.choice(["LEFT", "RIGHT"]))
        out = f"t{len(self.nodes)}"
        domain = DOMAINS[p[1]]
        given = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(op, ins, [out], domain=domain, **given))
        if p[6] and p[6] not in self.names:
            self.names[p[6]] = out
        return out

    def build(self):
        """The model, typed; None if it is none."""
        root = self.node(self.rule.pattern)
        judges = compiler.fill(self.rule.pattern[2], self.row) in JUDGES
        before = self.rng.random() < 0.5  # a node behind the root, so that its value is no output
        if before:
            self.nodes.append(helper.make_node("Not" if judges else "Abs", [root], ["y"]))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.element))
        out = helper.make_empty_tensor_value_info("y" if before else root)
        foreign = any(node.domain == "com.microsoft" for node in self.nodes)
        if foreign:
            out = helper.make_tensor_value_info(out.name, kind, [None] * self.rank)
        ins = [helper.make_tensor_value_info(name, kind, dims) for name, dims in self.inputs.items()]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", ins, [out], tensors)
        domains = sorted({node.domain for node in self.nodes} - {""})
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        try:
            model = onnx.shape_inference.infer_shapes(with_bodies(model), strict_mode=not foreign, data_prop=True)
            onnx.checker.check_model(model)
        except Exception:
            return None
        if without_weights(model):
            del model.functions[:]  # a body with two inputs makes it a function of the model's own
        return model if is_valid(model) else None


def session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # of small graphs: to start the others takes longer than to run
    return ort.InferenceSession(with_bodies(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


def in_order(model):
    """With axes of Squeeze in order, which its evaluator takes for granted; the specification does not."""
    model = copy.deepcopy(model)
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Squeeze" and attribute.name == "axes":
                attribute.ints[:] = sorted(attribute.ints)
    return model


def run(model, given):
    """The only output; None if the model does not run, or LACKING. ONNX Runtime keeps float32 between nodes of float16: those are NumPy's."""
    half = any(value.type.tensor_type.elem_type == TensorProto.FLOAT16 for value in model.graph.input)
    plain = all(node.op_type in SCALAR | MOVING or node.op_type.startswith("Reduce") for node in model.graph.node)
    try:
        with np.errstate(all="ignore"):
            return np.asarray((ReferenceEvaluator(in_order(model)) if half and plain else session(model)).run(None, given)[0])
    except NoKernel:
        return LACKING
    except Exception:
        return None


WORDS = {np.float16: np.uint16, np.float32: np.uint32, np.float64: np.uint64}


def specials(dtype, level):
    """Bits of numbers that arithmetic forgets: zeros, and unless the level rules them out infinities, and NaNs that are quiet and that signal."""
    f = np.finfo(dtype)
    sign, infinity = 1 << (f.bits - 1), ((1 << f.nexp) - 1) << f.nmant
    if level in ("rounding", "finite"):
        return [0, sign]
    signaling = [] if dtype == np.float16 else [infinity | 1]  # NumPy's evaluator computes where it should move
    return [0, sign, infinity, sign | infinity, infinity | 1 << (f.nmant - 1)] + signaling


def inputs(model, level, seed):
    """Numbers of about one, with others among them that arithmetic forgets."""
    rng = np.random.default_rng(seed)
    ops = {node.op_type for node in model.graph.node}
    made = {}
    for value in model.graph.input:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).type
        array = uniform(rng, dims, "Equal" in ops) * rng.choice([-1, 1], dims)
        if dtype in FLOATS:
            bits = np.asarray(array.astype(dtype)).view(WORDS[dtype])
            for number in specials(dtype, level)[2 if level == "finite" else 0 :]:
                bits = np.where(rng.random(dims) < 0.12, WORDS[dtype](number), bits)
            array = bits.view(dtype)
        elif dtype == np.bool_:
            array = array > 0
        else:
            ends = np.iinfo(dtype)
            array = np.abs(array) * 50 if ends.min == 0 else array * 50
            array = np.asarray(array).astype(dtype)
            # Where something divides a zero is none; reductions of ONNX Runtime are exact below 2**53.
            if not ops & {"Div", "Mod"} and not any(op.startswith("Reduce") for op in ops):
                for number in [0, ends.max] if "Abs" in ops else [0, ends.min, ends.max]:  # the least has no other sign
                    array = np.where(rng.random(dims) < 0.12, dtype(number), array)
        made[value.name] = np.asarray(array)
    return made


def holds(level, a, b, ops=()):
    """Is b what a is, as exactly as that, if these operators made it? What the runtime lacks says nothing."""
    if b is LACKING:
        return True
    if b is None or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if UNEVEN.intersection(ops):
        level = "rounding"
    if level == "exact" and a.dtype.kind == "f" and UNEVEN_NANS.intersection(ops):
        a, b = (np.where(np.isnan(each), each.dtype.type("nan"), each) for each in (a, b))
    if level == "exact":
        return a.tobytes() == b.tobytes()
    if level == "zero":
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if a.dtype.kind != "f" or not a.size:
        return np.array_equal(a, b)
    finite = np.isfinite(a)
    largest = np.abs(a[finite], dtype=np.float64).max(initial=0)
    part, least = (2e-3, 2e-3) if a.dtype == np.float16 else (1e-5, 1e-6)
    return np.array_equal(finite, np.isfinite(b)) and np.allclose(a[finite], b[finite], rtol=0, atol=part * largest + least)


class Tool:
    """A rules_tool that serves: the model afterwards, and what the tool says: {rule: fired}, {pass: (fired, held)}."""

    def __init__(self, program, folder, fuel=None):
        """`fuel`: so many rewrites at one place, and where that is not enough no word about it."""
        self.folder, self.warns = folder, fuel is not None
        env = {**os.environ, "RULES_FUEL": str(fuel)} if fuel else None
        self.process = subprocess.Popen([program, "serve"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __call__(self, model, passes, level):
        onnx.save(model, self.folder / "in.onnx")
        self.process.stdin.write(f"{passes} {level} {self.folder}/in.onnx {self.folder}/out.onnx --force --no-manifest\n")
        self.process.stdin.flush()
        lines = []
        while not lines or not lines[-1].startswith('{"done"'):
            lines.append(self.process.stdout.readline())
            assert lines[-1], f"rules_tool ended: {lines}"
        assert lines[-1] == '{"done":0}\n' and all(self.warns or line.startswith("{") for line in lines), lines
        said = [json.loads(line) for line in lines[:-1] if line.startswith("{")]
        fired = {line["rule"]: line["fired"] for line in said if "rule" in line}
        after = with_bodies(onnx.load(self.folder / "out.onnx"))
        return after, fired, {line["pass"]: (line["fired"], line["held"]) for line in said if "pass" in line}

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
