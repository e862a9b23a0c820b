"""The passes of the family streamline that are C: random graphs around Split and Concat, and constants that are not at hand."""

import random

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import ALL
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.in_memory

GRAPHS = 1000 if ALL else 25  # of a kind
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38], np.float32)


def outputs(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


class Drawn:
    """A random model: elementwise operators, with constants that broadcast and perhaps a variable, before or behind `what`."""

    UNARY = ["Relu", "Neg", "Abs", "Floor", "Sign"]
    BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"]

    def __init__(self, seed):
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.opset = self.rng.choice([13, 18])
        self.rank = self.rng.randint(1, 3)
        self.axis = self.rng.randrange(self.rank)
        self.dims = [self.rng.randint(1, 3) for _ in range(self.rank)]
        self.parts = [self.rng.randint(1, 3) for _ in range(self.rng.randint(2, 3))]

    def long(self, length):
        return [length if i == self.axis else d for i, d in enumerate(self.dims)]

    def constant(self, dims):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(self.numbers.uniform(-2, 2, dims).astype(np.float32), name))
        return name

    def input(self, dims):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, dims))
        return name

    def node(self, op, ins, n=1, **attributes):
        outs = [f"v{len(self.nodes)}_{i}" for i in range(n)]
        self.nodes.append(helper.make_node(op, ins, outs, name=f"n{len(self.nodes)}", **attributes))
        return outs

    def other(self, dims):
        """An operand that broadcasts to these dims, mostly a constant."""
        dims = [d if self.rng.random() < 0.6 else 1 for d in dims][self.rng.randint(0, self.rank) :]
        return self.input(dims) if self.rng.random() < 0.15 else self.constant(dims)

    def draw_ops(self):
        """A chain of operators, to be made alike at several places; perhaps with operands to the left."""
        return [
            (self.rng.choice(self.UNARY), None)
            if self.rng.random() < 0.4
            else (self.rng.choice(self.BINARY), self.rng.random() < 0.25)
            for _ in range(self.rng.randint(1, 3))
        ]

    def chain(self, ops, value, dims):
        for op, left in ops:
            if left is None:
                value = self.node(op, [value])[0]
            else:
                other = self.other(dims)
                value = self.node(op, [other, value] if left and op != "PRelu" else [value, other])[0]
            if self.rng.random() < 0.1:
                self.outputs.append(value)
        return value

    def split(self, value):
        if len(set(self.parts)) == 1 and self.opset == 18 and self.rng.random() < 0.5:
            return self.node("Split", [value], len(self.parts), axis=self.axis, num_outputs=len(self.parts))
        sizes = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(self.parts, np.int64), sizes))
        axis = self.axis - self.rank * self.rng.randint(0, 1)
        return self.node("Split", [value, sizes], len(self.parts), axis=axis)

    def past_split(self):
        dims = self.long(sum(self.parts))
        value = self.chain(self.draw_ops(), self.input(dims), dims)
        self.outputs += self.split(value)

    def past_concat(self):
        ops, values = self.draw_ops(), []
        for length in self.parts:
            if values and self.rng.random() < 0.2:  # one part several times
                values.append(values[0])
                continue
            value = self.input(self.long(length))
            alike = self.rng.random() < 0.8
            values.append(self.chain(ops if alike else ops[:1], value, self.long(length)) if alike or self.rng.random() < 0.5 else value)
        self.outputs += self.node("Concat", values, axis=self.axis - self.rank * self.rng.randint(0, 1))

    def split_past(self):
        ops = self.draw_ops()
        for value, length in zip(self.split(self.input(self.long(sum(self.parts)))), self.parts):
            self.outputs.append(self.chain(ops, value, self.long(length)))

    def unbroadcast(self):
        dims = self.long(sum(self.parts))
        value = self.chain(self.draw_ops(), self.input(dims), dims)
        for constant in self.constants:  # that repeat themselves
            array = numpy_helper.to_array(constant)
            for axis in range(array.ndim):
                if self.rng.random() < 0.6:
                    array = np.repeat(np.take(array, [0], axis), array.shape[axis], axis)
            constant.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), constant.name))
        self.outputs.append(value)

    def model(self):
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in self.inputs],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in dict.fromkeys(self.outputs)],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def feeds(self):
        feeds = {}
        for name, dims in self.inputs:
            x = self.numbers.uniform(-2, 2, dims).astype(np.float32)
            where = self.numbers.random(dims) < 0.2
            feeds[name] = np.where(where, self.numbers.choice(SPECIAL, dims), x).astype(np.float32)
        return feeds


PASSES = {
    "past_split": "MoveElementwisePastSplit",
    "past_concat": "MoveElementwisePastConcat",
    "split_past": "MoveSplitPastElementwise",
    "unbroadcast": "UnbroadcastElementwise",
}


@pytest.mark.parametrize("kind", PASSES)
def test_random_graphs_keep_their_bits(weir, tmp_path, kind):
    changed = looked_at = 0
    for seed in range(GRAPHS):
        drawn = Drawn(seed)
        getattr(drawn, kind)()
        model, feeds = drawn.model(), drawn.feeds()
        try:
            before = outputs(model, feeds)
        except Exception:  # noqa: BLE001 — a slope wider than what it is for, say
            continue
        onnx.save(model, tmp_path / "in.onnx")
        weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", PASSES[kind], "--exactness", "exact", "--force", "--quiet")
        written = onnx.load(tmp_path / "out.onnx")
        after = outputs(written, feeds)
        looked_at += 1
        changed += [n.SerializeToString() for n in written.graph.node] != [n.SerializeToString() for n in model.graph.node]
        for a, b in zip(before, after, strict=True):
            assert a.shape == b.shape and np.array_equal(a.view(np.uint32)[~np.isnan(a)], b.view(np.uint32)[~np.isnan(b)]), seed
            assert np.array_equal(np.isnan(a), np.isnan(b)), seed
    assert looked_at > GRAPHS / 2 and changed > GRAPHS / 6


ALIKE = {  # nodes, and what they take: of one element along the axis where the result has more than one
    "a value twice": ([("Mul", "ab")] * 2, {"a": [4, 1], "b": [1]}),
    "a value three times": ([("Sub", "ab")] * 3, {"a": [1], "b": [1]}),
    "truth values": ([("And", "pq")] * 2, {"p": [1], "q": [4, 1]}),
    "two nodes": ([("Less", "ab"), ("Less", "ab")], {"a": [4, 1], "b": [4, 1]}),
    "constants": ([("Add", "kl")] * 2, {}),
    "slopes": ([("PRelu", "ak"), ("PRelu", "al")], {"a": [4, 1]}),
    "a choice": ([("Where", "pab")] * 2, {"p": [4, 1], "a": [1], "b": [1]}),
}


@pytest.mark.parametrize("one_node", [True, False])
@pytest.mark.parametrize("kind", ALIKE)
def test_equal_operands_give_the_length_of_a_concat(weir, tmp_path, kind, one_node):
    nodes, inputs = ALIKE[kind]
    made = {}
    list_of_nodes, parts = [], []
    for i, (op, taken) in enumerate(nodes):
        if (op, taken) not in made or not one_node:
            made[op, taken] = f"v{i}"
            list_of_nodes.append(helper.make_node(op, list(taken), [f"v{i}"], name=f"n{i}"))
        parts.append(made[op, taken])
    list_of_nodes.append(helper.make_node("Concat", parts, ["y"], name="concat", axis=-1))
    truths = {n: n in "pq" for n in inputs}
    out = TensorProto.BOOL if nodes[0][0] in ("And", "Less") else TensorProto.FLOAT
    graph = helper.make_graph(
        list_of_nodes,
        "alike",
        [helper.make_tensor_value_info(n, TensorProto.BOOL if truths[n] else TensorProto.FLOAT, d) for n, d in inputs.items()],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(np.array([[x]], np.float32), n) for n, x in (("k", 2), ("l", 3))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    rng = np.random.default_rng(0)
    feeds = {n: rng.integers(0, 2, d).astype(bool) if truths[n] else rng.uniform(-2, 2, d).astype(np.float32) for n, d in inputs.items()}
    onnx.save(model, tmp_path / "in.onnx")
    for asked in ("MoveElementwisePastConcat", "streamline"):
        weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", asked, "--force", "--quiet")
        before, after = outputs(model, feeds)[0], outputs(onnx.load(tmp_path / "out.onnx"), feeds)[0]
        assert before.shape == after.shape and np.array_equal(before, after), asked


def large(array):
    """x[64,1024] + a constant that stays in its file."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "c"], ["y"], name="add")],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 1024])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 1024])],
        [numpy_helper.from_array(array, "c")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(
    "first,change,cap,dims",
    [
        (1, None, "exact", [1024]),
        (1, 0.5, "exact", [64, 1024]),  # one element is another
        (-3, None, "exact", [64, 1024]),  # among zeros there may be -0
        (-3, None, "zero", [1024]),
        (-3, -0.0, "exact", [64, 1024]),
        (-3, -0.0, "zero", [1024]),
    ],
)
def test_large_constants_are_asked_about(weir, tmp_path, first, change, cap, dims):
    array = np.tile(np.arange(1024, dtype=np.float32) + first, (64, 1))
    if change is not None:
        array[7, 3] = change
    model = large(array)
    onnx.save(model, tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", "UnbroadcastElementwise", "--exactness", cap, "--quiet")
    written = onnx.load(tmp_path / "out.onnx")
    assert [list(t.dims) for t in written.graph.initializer] == [dims]
    x = np.random.default_rng(0).uniform(-1, 1, (64, 1024)).astype(np.float32)
    assert np.array_equal(outputs(model, {"x": x})[0], outputs(written, {"x": x})[0])


def product(w, x, after=(), dims=None):
    """MatMul(x, w) with elementwise nodes of constants behind it: (operator, constant) each."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["v0"], name="matmul")]
    constants = [numpy_helper.from_array(w, "w")]
    for i, (op, c) in enumerate(after):
        constants.append(numpy_helper.from_array(np.array(c, w.dtype), f"c{i}"))
        nodes.append(helper.make_node(op, [f"v{i}", f"c{i}"], [f"v{i + 1}"], name=f"n{i}"))
    kind = helper.np_dtype_to_tensor_dtype(w.dtype)
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], kind, None)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("large", [False, True])  # constants are at hand, or a stage is asked about them
@pytest.mark.parametrize(
    "kind",
    ["one tiny element", "all tiny, and no multiples", "halves of whole numbers", "a tiny scale and a bias", "float16", "factors that underflow", "factors that overflow"],
)
def test_scales_keep_numbers_in_their_range(weir, tmp_path, kind, large):
    """Finite numbers stay finite, and none is lost: neither by scales that are taken out nor by constants that are put together."""
    rng = np.random.default_rng(3)
    w = rng.integers(1, 100, (600, 60) if large else (4, 3)).astype(np.float32)
    w[0, 0] = 1
    size, after, factored = 1.0, (), False
    if kind == "one tiny element":
        w[1, 1], size = 2e-39, 1e9
    elif kind == "all tiny, and no multiples":
        w = (1e-9 * (1 + rng.random(w.shape))).astype(np.float32)
    elif kind == "halves of whole numbers":
        w, factored = w / 2, True
    elif kind == "a tiny scale and a bias":
        w, after, factored = (w * np.float32(1e-30)).astype(np.float32), (("Add", 1e10),), True
    elif kind == "float16":
        w, size = (w / 128).astype(np.float16), 100 if large else 1000
    elif kind == "factors that underflow":
        w, size, after = w + np.float32(0.4), 1e30, (("Mul", 1e-30), ("Mul", 1e-20))
    else:
        w, size, after = w + np.float32(0.4), 1e-30, (("Mul", 1e30), ("Mul", 1e30))
    x = np.full((2, w.shape[0]), size, w.dtype)
    model = product(w, x, after)
    before = outputs(model, {"x": x})[0]
    assert np.isfinite(before).all() and (before != 0).all()
    onnx.save(model, tmp_path / "in.onnx")
    for asked in ("factorize", "streamline", "optimize"):
        weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", asked, "--force", "--quiet")
        written = onnx.load(tmp_path / "out.onnx")
        after_it = outputs(written, {"x": x})[0]
        assert np.allclose(before.astype(np.float64), after_it, rtol=2e-3 if w.dtype == np.float16 else 1e-5, atol=0), asked
        if asked == "factorize":
            assert ([n.op_type for n in written.graph.node][:2] == ["MatMul", "Mul"]) == (factored or bool(after and after[0][0] == "Mul"))
            assert any(np.array_equal(numpy_helper.to_array(t), np.round(numpy_helper.to_array(t))) and t.dims[:] for t in written.graph.initializer) == factored


def test_dims_too_long_to_be_said_keep_their_names(weir, tmp_path):
    """A part of such a dim has a name that weir made; it stays from round to round, and when all is inferred again."""
    from test_growth import largest

    onnx.save(largest(40), tmp_path / "m.onnx")
    done = weir("run", tmp_path / "m.onnx", tmp_path / "a.onnx", "--pass", "streamline")
    assert "warning" not in done.err and "types and shapes of 81 values" in done.out
    dims = []
    for source, out in (("a", "b"), ("b", "c")):
        weir("infer", tmp_path / f"{source}.onnx", tmp_path / f"{out}.onnx")
        dims.append(onnx.load(tmp_path / f"{out}.onnx").graph.output[0].type.tensor_type.shape.dim[0].dim_param)
    assert dims[0] == dims[1] == onnx.load(tmp_path / "a.onnx").graph.output[0].type.tensor_type.shape.dim[0].dim_param
    assert "Max(" in dims[0] and "unk__" in dims[0]
