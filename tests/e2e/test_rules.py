"""Every rule of the house fires on some graph made from its own pattern, and what it leaves computes what its exactness promises.

Graphs are made by the compiler's parser: operators of the pattern become nodes, names become inputs or constants of some dims,
attributes some value. Of a template with many rows, some are looked at. Of many such graphs those count that ONNX Runtime takes; the tool is asked whether the rule fired. Inputs have
NaN, infinities and both zeros unless the level rules them out.
"""

import importlib.util
import json
import os
import random
import subprocess
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import built_tool

pytestmark = pytest.mark.in_memory

SOURCE = Path(__file__).resolve().parents[2] / "src"
RULES = SOURCE / "passes" / "rules"
_spec = importlib.util.spec_from_file_location("compile_rules", RULES / "compile_rules.py")
compiler = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compiler)

TOOL = built_tool("rules_tool")
TRIES = 400
LONG = os.environ.get("WEIR_TEST_ALL", "0") == "1"
ENOUGH = 5 if LONG else 3  # graphs that a row fires on
ROWS = 3  # of one template
FIRST = {}  # the version that brought an operator
for _schema in onnx.defs.get_all_schemas_with_history():
    if not _schema.domain:
        FIRST[_schema.name] = min(FIRST.get(_schema.name, 99), _schema.since_version)
TRUTHS = {"And", "Or", "Not", "Xor"}
WHOLE = {"BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}


def rules():
    book = compiler.Book()
    for path in sorted((RULES / "book").glob("*.rules")):
        compiler.read(path, book)
    return [(rule, row) for rule in book.rules for row in rule.rows[:: -(-len(rule.rows) // ROWS)]]


ALL = rules()


class Graph:
    """One graph made from a pattern; `rng` decides what the pattern leaves open."""

    def __init__(self, rule, row, rng):
        self.rule, self.row, self.rng = rule, row, rng
        self.nodes, self.inputs, self.constants, self.names, self.attributes = [], {}, {}, {}, {}
        trees = list(compiler.walk([rule.pattern, rule.result]))
        self.ops = {compiler.fill(t[2], row) for t in trees if t[0] == "op" and t in list(compiler.walk(rule.pattern))}
        self.fixed = {x[1] for t in compiler.walk(rule.where) if t[0] == "call" and t[1] in ("consts", "number", "all") for x in t[2]}
        self.fixed |= {x[1] for t in compiler.walk(rule.result) if t[0] == "call" and t[1] == "number" for x in t[2]}
        self.reduced = None  # the axes of the first reduction, which are those of the others
        self.rank = rng.choice([1, 2, 2, 3, 3])
        self.dims = [rng.choice([2, 3, 3, 1]) for _ in range(self.rank)]
        if "Transpose" in self.ops and rng.random() < 0.5:
            self.dims = [3] * self.rank
        if self.ops & {"Conv", "ConvTranspose", "AveragePool"}:
            self.rank, self.dims = 4, [1, 2, 4, 5]
        self.element = rng.choice([np.float32, np.float32, np.int32])
        if "Cast" in self.ops and rng.random() < 0.4:
            self.element = np.float16
        self.inner = np.float32 if any(t[0] == "op" and t[3].get("to") == ("num", 1) for t in trees) else None
        self.choose_types(trees)
        if "Squeeze" in self.ops:
            self.dims = [rng.choice([1, 1, 2]) for _ in range(self.rank)]
        if self.ops & {"LayerNormalization", "SkipLayerNormalization"}:
            self.rank, self.dims = 3, [2, 1, 3]
        if self.ops & TRUTHS:
            self.element = np.bool_
        if self.ops & WHOLE:
            self.element = np.int32
        made = [compiler.fill(t[2], row) for t in trees if t[0] == "op" and not t[1]]
        least = max([11, rule.since, *(FIRST[op] for op in made)])
        self.opset = rng.choice([11, 11, 17]) if rule.since == 1 else rng.choice([each for each in (11, 13, 17, 18, 20, 23, 24) if each >= least])

    def choose_types(self, trees):
        """Where the condition lists what Casts may make (t in [10,16]): one of them, and what belongs to it."""
        made = {t[3]["to"][1] for t in trees if t[0] == "op" and t[3].get("to", ("",))[0] == "var"}
        for t in compiler.walk(self.rule.where):
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
        axes = [rng.randrange(-self.rank, self.rank + 1)] if rng.random() < 0.7 else [0, -1]
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
        if (op, slot) == ("Dropout", 2):
            return np.array(rng.random() < 0.3)
        if (op, slot) == ("Pad", 2):
            return np.array(0, self.element)
        return None if weights is None else self.numbers(weights)

    def numbers(self, dims):
        made = np.random.default_rng(self.rng.randrange(1 << 30)).uniform(0.5, 2, dims)
        return np.asarray(made * self.rng.choice([1, -1]) * (100 if self.element == np.int32 else 1)).astype(self.element)

    def variable(self, name, op, slot):
        """What a name stands for, by the place where it stands first."""
        if name not in self.names:
            rng = self.rng
            made = self.slot(op, slot)
            if made is None and (name in self.fixed or (self.each and rng.random() < 0.4)):
                dims = [[], [1], self.dims[-1:]] + ([[3, 1, 1], [1, 3, 1, 1]] if self.ops & {"Conv", "ConvTranspose"} else [])
                matrix = {("MatMul", 1): [self.dims[-1], 3], ("Gemm", 1): self.dims[-1:] * 2}.get((op, slot))
                made = self.numbers(matrix or rng.choice(dims))
                made = np.abs(made) if "Sqrt" in self.ops else made
                made = made.astype(self.inner or self.element) if name in self.fixed else made
            if made is not None:
                self.names[name] = self.constant(made)
            else:
                dims = rng.choice([self.dims, self.dims, self.dims[-1:], [1] * self.rank])
                dims = self.dims if self.rank == 4 or self.each else dims
                dims = self.dims[-1:] if "LayerNormalization" in op and name in "gbc" else dims
                dims = self.dims[-1:] if op == "Add" and slot == 1 and name in "bc" else dims
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
            for each in ("transA", "transB", "allowzero", "keepdims", "count_include_pad"):
                some[each] = [0, 1]
            made = rng.choice(some.get(key, [1.0, 1.0, 2.0]))
            if value[0] == "none":
                return None
            self.attributes[value[1]] = None if rng.random() < 0.2 and key not in ("to", "axes", "kernel_shape") else made
        return self.attributes[value[1]]

    def operand(self, p, op, slot):
        kind = p[0]
        if kind in ("var", "opt"):
            return "" if kind == "opt" and self.rng.random() < 0.5 else self.variable(p[1], op, slot)
        if kind == "lit":
            word = compiler.fill(p[1], self.row)
            number = float({"true": 1, "false": 0}.get(word, word))
            element = self.inner or self.element
            shape = self.rng.choice([[], [1], self.dims])
            if number == 0 and self.rng.random() < 0.5:
                number = -0.0
            return self.constant(np.full(shape, number, element))
        if kind == "alt":
            return self.operand(self.rng.choice(p[1]), op, slot)
        if kind == "any":
            return self.variable(f"_{len(self.names)}", op, slot)
        assert kind == "op", kind
        return self.node(p)

    each = False

    def operands(self, args, op):
        """Of an operator of many operands as many as it has, each with names of its own."""
        if not args or args[-1][0] != "each":
            return [self.operand(x, op, i) for i, x in enumerate(args)]
        ins, outer = [], dict(self.names)
        self.each = True
        for i in range(min(2, onnx.defs.get_schema(op, self.opset).max_input)):
            self.names = dict(outer)
            ins.append(self.operand(args[-1][2], op, i))
        self.each = False
        return ins

    def node(self, p):
        op = compiler.fill(p[2], self.row)
        ins = self.operands(p[5], op)
        while ins and not ins[-1]:
            ins.pop()
        if op == "Where":
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
        out = f"t{len(self.nodes)}"
        domain = {"ms": "com.microsoft"}.get(p[1], "")
        given = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(op, ins, [out], domain=domain, **given))
        if p[6] and p[6] not in self.names:
            self.names[p[6]] = out
        return out

    def build(self):
        """The model, typed; None if the runtime does not take it."""
        root = self.node(self.rule.pattern)
        before = self.rng.random() < 0.5  # a node behind the root, so that its value is no output
        if before:
            self.nodes.append(helper.make_node("Identity" if self.element == np.bool_ else "Abs", [root], ["y"]))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.element))
        out = helper.make_empty_tensor_value_info("y" if before else root)
        foreign = any(node.domain for node in self.nodes)
        if foreign:
            out = helper.make_tensor_value_info(out.name, kind, [None] * self.rank)
        ins = [helper.make_tensor_value_info(name, kind, dims) for name, dims in self.inputs.items()]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", ins, [out], tensors)
        opsets = [helper.make_opsetid("", self.opset)] + ([helper.make_opsetid("com.microsoft", 1)] if foreign else [])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        try:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=not foreign, data_prop=True)
            onnx.checker.check_model(model)
            session(model).run(None, inputs(model, "finite", 0))
        except Exception:
            return None
        return model


def session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def inputs(model, level, seed):
    rng = np.random.default_rng(seed)
    # The last two: a NaN that is quiet, and one that signals.
    special = [] if level in ("rounding", "finite") else [0x7F800000, 0xFF800000, 0, 0x80000000, 0x7FC00000, 0x7F800001]
    made = {}
    for value in model.graph.input:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = rng.uniform(0.5, 2, dims) * rng.choice([-1, 1], dims)
        if value.type.tensor_type.elem_type != TensorProto.FLOAT:
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            made[value.name] = array > 0 if dtype == np.bool_ else (array * (1 if dtype.kind == "f" else 100)).astype(dtype)
            continue
        bits = array.astype(np.float32).view(np.uint32)
        for number in special:
            bits = np.where(rng.random(dims) < 0.15, np.uint32(number), bits)
        made[value.name] = bits.view(np.float32)
    return made


def holds(level, a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if level == "exact":
        return a.tobytes() == b.tobytes()
    if level == "zero":
        return np.array_equal(a, b, equal_nan=True)
    if a.dtype.kind != "f" or not a.size:
        return np.array_equal(a, b)
    finite = np.isfinite(a)
    largest = np.abs(a[finite], dtype=np.float64).max(initial=0)
    part, least = (2e-3, 2e-3) if a.dtype == np.float16 else (1e-5, 1e-6)
    return np.array_equal(finite, np.isfinite(b)) and np.allclose(a[finite], b[finite], rtol=0, atol=part * largest + least)


def apply(model, name, level, folder):
    """The model afterwards, and what the tool says: {rule: fired}, {pass: (fired, held)}."""
    onnx.save(model, folder / "in.onnx")
    command = [TOOL, name, level, folder / "in.onnx", folder / "out.onnx", "--force", "--no-manifest"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    fired = {line["rule"]: line["fired"] for line in lines if "rule" in line}
    passes = {line["pass"]: (line["fired"], line["held"]) for line in lines if "pass" in line}
    after = onnx.load(folder / "out.onnx")
    onnx.checker.check_model(after)
    return after, fired, passes


def label(rule, row):
    return compiler.fill(rule.names[0], row) + "@" + str(rule.line)


@pytest.mark.parametrize("rule,row", ALL, ids=[label(*each) for each in ALL])
def test_fires_and_the_numbers_hold(weir, rule, row, tmp_path):
    name, level = compiler.fill(rule.names[0], row), compiler.LEVELS[rule.level]
    rng = random.Random(zlib.crc32(label(rule, row).encode()))
    found = 0
    for seed in range(TRIES):
        model = Graph(rule, row, rng).build()
        if model is None:
            continue
        after, fired, _ = apply(model, name, "finite", tmp_path)
        if not fired.get(f"{rule.file}:{rule.line}"):
            continue
        given = inputs(model, level, seed)
        [a], [b] = session(model).run(None, given), session(after).run(None, given)
        assert holds(level, a, b), onnx.printer.to_text(model)
        # One level below it must not fire, and be counted. (Other rules of the pass may still.)
        if rule.level > 0:
            _, fired, passes = apply(model, name, compiler.LEVELS[rule.level - 1], tmp_path)
            assert f"{rule.file}:{rule.line}" not in fired and passes[name][1] > 0
        found += 1
        if LONG and found == 1:  # and every site of it can be verified
            words = ["--pass", name, "--exactness", "finite", "--verify", "--verify-require", "100%", "--no-manifest"]
            weir("run", tmp_path / "in.onnx", tmp_path / "verified.onnx", *words)
        if found == ENOUGH:
            return
    assert found > 0, "fires on none of the graphs made from its pattern"


def test_near_misses_stay(tmp_path):
    """What looks like a rule's pattern and is not: nothing fires."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    half = numpy_helper.from_array(np.array([1, 1.5], np.float32), "c")
    shape = numpy_helper.from_array(np.array([3, 2], np.int64), "s")
    axes = [numpy_helper.from_array(np.array([i], np.int64), f"a{i}") for i in range(2)]
    yes = numpy_helper.from_array(np.array(True), "yes")
    wide = numpy_helper.from_array(np.ones((4, 2, 3), np.float32), "wide")
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["r"]),
        helper.make_node("Mul", ["r", "c"], ["m"]),
        helper.make_node("Transpose", ["m"], ["t"], perm=[1, 0]),
        helper.make_node("Unsqueeze", ["t", "a0"], ["u"]),
        helper.make_node("Neg", ["u"], ["v"]),
        helper.make_node("Unsqueeze", ["v", "a1"], ["w"]),
        helper.make_node("Squeeze", ["w", "a0"], ["q"]),
        helper.make_node("Cast", ["q"], ["d"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("Dropout", ["e", "", "yes"], ["f"]),
        helper.make_node("Add", ["f", "c3"], ["y"]),
    ]
    ones = numpy_helper.from_array(np.array([0, 0, 1e-45], np.float32), "c3")
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [out], [half, shape, *axes, yes, wide, ones])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    _, fired, passes = apply(model, "all", "finite", tmp_path)
    assert (fired, passes) == ({}, {})


def test_subgraphs_and_functions(tmp_path):
    """The same Identity goes in the main graph, a branch and a function's body; an attribute that is a parameter matches nothing."""

    def info(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])

    branch = [helper.make_node("Identity", ["h"], ["b1"]), helper.make_node("Neg", ["b1"], ["b2"])]
    other = helper.make_graph([helper.make_node("Abs", ["h"], ["o"])], "else", [], [info("o")])
    then = helper.make_graph(branch, "then", [], [info("b2")])
    cast = helper.make_node("Cast", ["p"], ["q"])
    cast.attribute.add(name="to", type=onnx.AttributeProto.INT, ref_attr_name="kind")
    body = [helper.make_node("Identity", ["a"], ["p"]), cast]
    function = helper.make_function("mine", "F", ["a"], ["q"], body, [helper.make_opsetid("", 17)], ["kind"])
    nodes = [
        helper.make_node("Identity", ["x"], ["g"]),
        helper.make_node("Relu", ["g"], ["h"]),
        helper.make_node("If", ["cond"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("F", ["i"], ["y"], domain="mine", kind=1),
    ]
    cond = helper.make_tensor_value_info("cond", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "g", [info("x"), cond], [info("y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=8)
    after, _, passes = apply(model, "all", "finite", tmp_path)
    assert passes == {"tidy/identity": (3, 0)}
    assert [n.op_type for n in after.functions[0].node] == ["Cast"]
    given = {"x": np.array([-1, 2], np.float32), "cond": np.array(True)}
    [a], [b] = session(model).run(None, given), session(after).run(None, given)
    assert a.tobytes() == b.tobytes()


def matmul_and_add(path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    c = numpy_helper.from_array(np.arange(4, dtype=np.float32), "c")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "c"], ["y"])]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    graph = helper.make_graph(nodes, "g", [x], [out], [w, c])
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    onnx.save(model, path)
    return model


def test_opposites_are_stopped(tmp_path):
    """Two passes that undo one another, asked for together: a warning that names them, and a model that computes the same."""
    model = matmul_and_add(tmp_path / "in.onnx")
    command = [TOOL, "fuse/gemm,unfuse/gemm", "rounding", tmp_path / "in.onnx", tmp_path / "out.onnx", "--no-manifest"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0
    assert "one place was rewritten 64 times: fuse/gemm, unfuse/gemm; rewriting stopped" in done.stderr
    given = {"x": np.ones((2, 3), np.float32)}
    [a], [b] = session(model).run(None, given), session(onnx.load(tmp_path / "out.onnx")).run(None, given)
    assert np.allclose(a, b)


def test_what_a_repeat_warns_of_is_said_once(weir, tmp_path):
    """Opposites, each of which is stopped anew in every round."""
    matmul_and_add(tmp_path / "in.onnx")
    done = weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "repeat=5(fuse/gemm,unfuse/gemm)")
    assert done.err.count("one place was rewritten 64 times") == 1 and done.err.count("changed the model after 5 rounds") == 1
