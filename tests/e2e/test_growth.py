"""What weir does with a model of four times the size takes four times the steps, over shapes of models and commands.

Steps are basic blocks of what looks at models (weir-growth), the same number in every run: a block that runs sixteen times as often
in a model of four times the size is found long before anybody waits for it. Tables of names that are fuller, and logarithms,
are less than that.
"""

import json
import os
import shlex
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import built_tool, sampled

pytestmark = pytest.mark.in_memory

FLOAT = TensorProto.FLOAT
TIMES = 4  # the size
LARGEST = 9  # so many times as often may a block run ...
SHARE = 25  # ... that takes more than a part of so many of all steps
TOTAL = 6


def weight(name, *dims):
    rng = np.random.default_rng(int(name[1:]))
    return numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), name)


def model(nodes, inputs, output, inits=()):
    """Inputs: {name: dims}."""
    ins = [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in inputs.items()]
    graph = helper.make_graph(nodes, "g", ins, [helper.make_tensor_value_info(output, FLOAT, None)], list(inits))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def numbers(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def chain(n, step, inputs, inits=()):
    """n steps: step(before, after, i) gives nodes."""
    nodes = [node for i in range(n) for node in step(f"v{i}", f"v{i + 1}", i)]
    return model(nodes, inputs, f"v{n}", inits)


def own_dims(n):
    return {"v0": ["s", 4], **{f"x{i}": [f"s{i}", 4] for i in range(n)}}


def concats(n):
    """Sums of ever more symbols."""
    return chain(n, lambda a, b, i: [helper.make_node("Concat", [a, f"x{i}"], [b], axis=0)], own_dims(n))


def concats_between(n):
    """The same, and nothing that could become one Concat."""
    return chain(n, lambda a, b, i: [helper.make_node("Concat", [a, f"x{i}"], [b + "c"], axis=0), helper.make_node("Tanh", [b + "c"], [b])], own_dims(n))


def doubled(n):
    """Sums with coefficients that grow past what a number holds."""
    return chain(n, lambda a, b, i: [helper.make_node("Concat", [a, a, f"x{i}"], [b], axis=0)], own_dims(n))


def halves(n):
    """Quotients in quotients."""
    step = lambda a, b, i: [helper.make_node("Concat", [a, f"x{i}"], [b + "c"], axis=0),  # noqa: E731
                            helper.make_node("Slice", [b + "c", "zero", "end", "zero", "two"], [b])]  # fmt: skip
    return chain(n, step, own_dims(n), [numbers("zero", 0), numbers("end", 2**62), numbers("two", 2)])


def largest(n):
    """Choices between ever more."""
    step = lambda a, b, i: [helper.make_node("Shape", [f"x{i}"], [b + "s"], end=1), helper.make_node("Max", [a, b + "s"], [b])]  # noqa: E731
    made = chain(n, step, {f"x{i}": [f"s{i}", 4] for i in range(n)}, [numbers("v0", 1)])
    made.graph.node.append(helper.make_node("ConstantOfShape", [f"v{n}"], ["y"]))
    made.graph.output[0].name = "y"
    return made


def affines(n):
    """Weights whose products become too large for their type."""
    step = lambda a, b, i: [helper.make_node("MatMul", [a, f"w{i}"], [b + "m"]), helper.make_node("Add", [b + "m", f"b{i}"], [b])]  # noqa: E731
    return chain(n, step, {"v0": ["t", 16]}, [weight(f"w{i}", 16, 16) for i in range(n)] + [weight(f"b{i}", 16) for i in range(n)])


def scales(n):
    """Factors whose products become too small for their type, between MatMuls that become one."""
    step = lambda a, b, i: [helper.make_node("Mul", [a, f"s{i}"], [b + "m"]), helper.make_node("MatMul", [b + "m", "w0"], [b])]  # noqa: E731
    factors = [numpy_helper.from_array(np.array(1e-20, np.float32), f"s{i}") for i in range(n)]
    return chain(n, step, {"v0": ["t", 16]}, [weight("w0", 16, 16), *factors])


def factors_between(n):
    """The same factors and values in turn: the factors gather at the end, each past all values after it, and become no fewer."""
    step = lambda a, b, i: [helper.make_node("Mul", [a, f"x{i}"], [b + "m"]), helper.make_node("Mul", [b + "m", f"s{i}"], [b])]  # noqa: E731
    factors = [numpy_helper.from_array(np.array(1e-20, np.float32), f"s{i}") for i in range(n)]
    return chain(n, step, {"v0": ["t", 16], **{f"x{i}": [] for i in range(n)}}, factors)


def reshapes_between(n):
    """Reshapes that become one, past what is elementwise."""
    step = lambda a, b, i: [helper.make_node("Sigmoid", [a], [b + "s"]), helper.make_node("Reshape", [b + "s", f"r{i % 2}"], [b])]  # noqa: E731
    return chain(n, step, {"v0": [4, 4]}, [numbers("r0", 2, 8), numbers("r1", 4, 4)])


def layers(n):
    """Weights in a file beside the model, all of which are quantized: (model, bytes of it)."""
    def external(name, dims, at):
        entries = (("location", "data"), ("offset", at), ("length", 4 * int(np.prod(dims))))
        where = [onnx.StringStringEntryProto(key=key, value=str(value)) for key, value in entries]
        return TensorProto(name=name, data_type=FLOAT, dims=dims, data_location=TensorProto.EXTERNAL, external_data=where)

    step = lambda a, b, i: [helper.make_node("MatMul", [a, f"w{i}"], [b + "m"]), helper.make_node("Relu", [b + "m"], [b])]  # noqa: E731
    return chain(n, step, {"v0": ["t", 8]}, [external(f"w{i}", (8, 8), 256 * i) for i in range(n)]), bytes(256 * n)


def captures(n):
    """A body that uses n values from outside."""
    body_nodes = [helper.make_node("Add", [f"a{i}", f"v{i}"], [f"a{i + 1}"]) for i in range(n)] + [helper.make_node("Identity", ["c"], ["d"])]
    one = lambda name, dtype, dims: helper.make_tensor_value_info(name, dtype, dims)  # noqa: E731
    body = helper.make_graph(body_nodes, "body", [one("i", TensorProto.INT64, []), one("c", TensorProto.BOOL, []), one("a0", FLOAT, ["t", 4])],
                             [one("d", TensorProto.BOOL, []), one(f"a{n}", FLOAT, ["t", 4])])  # fmt: skip
    nodes = [helper.make_node("Add", ["x", f"c{i}"], [f"v{i}"]) for i in range(n)] + [helper.make_node("Loop", ["k", "", "x"], ["y"], body=body)]
    made = model(nodes, {"x": ["t", 4]}, "y", [numpy_helper.from_array(np.full(1, i, np.float32), f"c{i}") for i in range(n)])
    made.graph.input.append(one("k", TensorProto.INT64, []))
    return made


def bodies(n):
    """n bodies, each with something to rewrite, and not sorted."""
    def node(i):
        inside = [helper.make_node("Tanh", [f"r{i}"], [f"t{i}"]), helper.make_node("Relu", [f"q{i}"], [f"r{i}"]), helper.make_node("Relu", [f"x{i}"], [f"q{i}"])]
        branches = {name: helper.make_graph(inside, name, [], [helper.make_tensor_value_info(f"t{i}", FLOAT, [f"s{i}", 4])]) for name in ("then_branch", "else_branch")}
        return helper.make_node("If", ["c"], [f"y{i}"], **branches)

    made = model([node(i) for i in range(n)], own_dims(n), "y0")
    made.graph.output.extend(helper.make_tensor_value_info(f"y{i}", FLOAT, None) for i in range(1, n))
    made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return made


def attributes(n):
    """A node, and a function, with n attributes; OTHER has them the other way round."""
    made = model([helper.make_node("Own", ["x"], ["y"], domain="o", **{f"a{i}": i for i in range(n)})], {"x": [4]}, "y")
    made.opset_import.append(helper.make_opsetid("o", 1))
    made.functions.append(helper.make_function("o", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)]))
    made.functions[0].attribute_proto.extend(made.graph.node[0].attribute)
    return made


def turned(made):
    other = onnx.ModelProto()
    other.CopyFrom(made)
    for each in (other.graph.node[0].attribute, other.functions[0].attribute_proto):
        kept = list(each)[::-1]
        del each[:]
        each.extend(kept)
    return other


def shared(n):
    """n products by one weight."""
    return model([helper.make_node("MatMul", [f"x{i}", "w0"], [f"y{i}"]) for i in range(n)], {f"x{i}": ["t", 64] for i in range(n)}, "y0", [weight("w0", 64, 64)])


def coded(n):
    """The same between Q and DQ, with a bias for all."""
    held = {"s": np.float32(0.02), "z": np.uint8(128), "w": np.ones((64, 64), np.int8), "i": np.int8(0), "b": np.ones(64, np.float32)}
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "i"], ["wf"])]
    for i in range(n):
        pairs = ("QuantizeLinear", "x{}", "q{}"), ("DequantizeLinear", "q{}", "d{}"), ("QuantizeLinear", "m{}", "o{}"), ("DequantizeLinear", "o{}", "p{}")
        nodes += [helper.make_node(op, [a.format(i), "s", "z"], [b.format(i)]) for op, a, b in pairs]
        nodes += [helper.make_node("MatMul", [f"d{i}", "wf"], [f"m{i}"]), helper.make_node("Add", [f"p{i}", "b"], [f"y{i}"])]
    order = sorted(nodes, key=lambda node: "wqdmopy".index(node.output[0][0]))
    return model(order, {f"x{i}": ["t", 64] for i in range(n)}, "y0", [numpy_helper.from_array(np.asarray(x), name) for name, x in held.items()])


SHAPES = [(concats, 100), (concats_between, 100), (doubled, 100), (halves, 100), (largest, 60), (affines, 100), (bodies, 200)]
COMMANDS = ["infer IN OUT", "optimize IN OUT", "run IN OUT --pass streamline"]
OTHERS = [(layers, 150, "shrink IN --output-dir DIR --min-elements 1"), (layers, 150, "static IN OUT --ranges RANGES --op-types all"),
          *((make, 100, "run IN OUT --pass streamline") for make in (scales, factors_between, reshapes_between)),
          (coded, 200, "requantize IN OUT --format int32-bias"), (coded, 200, "requantize IN OUT --format fp32-bias --execution qlinear"),
          (shared, 300, "quantize IN OUT"), (captures, 300, "shrink IN --output-dir DIR --min-elements 1"), (captures, 100, "optimize IN OUT"), (attributes, 400, "diff IN OTHER")]  # fmt: skip


def steps_of(command, file, folder):
    """How often each block ran."""
    told = folder / "places"
    places = {"IN": file, "OUT": folder / "o.onnx", "DIR": folder / "out", "RANGES": file.with_suffix(".json"), "OTHER": file.with_suffix(".other")}
    words = [places.get(word, word) for word in shlex.split(command)]
    usual = [] if words[0] == "diff" else ["--quiet", "--force", "--jobs", "1"]
    done = subprocess.run([built_tool("weir-growth"), *words, *usual], capture_output=True, text=True,
                          env={**os.environ, "WEIR_STEPS_PLACES": str(told)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {place: int(count) for place, count in map(str.split, told.read_text().splitlines())}


def line_of(place):
    words = ["addr2line", "-f", "-e", built_tool("weir-growth"), place]
    return " ".join(subprocess.run(words, capture_output=True, text=True).stdout.split()) if place else ""


def judge(make, n, command, folder):
    """Sentences of what grows too fast from n."""
    counted = []
    for size in (n, TIMES * n):
        file = folder / f"{size}.onnx"
        made = make(size)
        made, data = made if isinstance(made, tuple) else (made, b"")
        onnx.save(made, file)
        if "OTHER" in command:
            onnx.save(turned(made), file.with_suffix(".other"))
        (folder / "data").write_bytes(data)
        values = [v.name for v in made.graph.input] + [name for node in made.graph.node for name in node.output]
        file.with_suffix(".json").write_text(json.dumps(dict.fromkeys(values, [-3.0, 3.0])))
        counted.append(steps_of(command, file, folder))
    small, large = counted
    total = sum(large.values())
    grown = [place for place, count in large.items() if count * SHARE > total and count > LARGEST * small.get(place, 0)]
    wrong = [f"{small.get(place, 0)}, then {large[place]} steps at {line_of(place)}" for place in grown]
    if total > TOTAL * sum(small.values()):
        wrong.append(f"{sum(small.values())}, then {total} steps")
    return wrong




@pytest.mark.parametrize(
    "shape, command",
    [*sampled(SHAPES, COMMANDS, every=2), *(((make, n), command) for make, n, command in OTHERS)],
    ids=lambda x: x if isinstance(x, str) else f"{x[0].__name__}-{x[1]}",
)
def test_a_larger_model_takes_its_share_of_steps(tmp_path, shape, command):
    assert judge(*shape, command, tmp_path) == []


def own_budgets(n, apart):
    """n factors and values in turn, and a few of them in two bodies; `apart`: with what another pass must remove first."""
    def factors(after, many, apart):
        between = lambda i: [helper.make_node("Identity", [f"{after}m{i}"], [f"{after}i{i}"])] if apart else []  # noqa: E731
        return [node for i in range(many) for node in (
            helper.make_node("Mul", [f"{after}{i}" if i else "x", "s0"], [f"{after}m{i}"]), *between(i),
            helper.make_node("Mul", [f"{after}{'i' if apart else 'm'}{i}", "z"], [f"{after}{i + 1}"]))]  # fmt: skip

    def body(name, many):
        nodes = [*factors(name, many, apart), helper.make_node("Exp", [f"{name}{many}"], [name])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, FLOAT, [2])])

    branches = {"then_branch": body("t", n // 4), "else_branch": body("e", 10)}
    nodes = [*factors("v", n, False), helper.make_node("Exp", [f"v{n}"], ["w"]), helper.make_node("If", ["c"], ["b"], **branches), helper.make_node("Add", ["w", "b"], ["y"])]
    made = model(nodes, {"x": [2], "z": []}, "y", [numpy_helper.from_array(np.array(1e-20, np.float32), "s0")])
    made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return made


@pytest.mark.parametrize("passes, apart", [("algebraic/GroupMul", False), ("repeat(algebraic/GroupMul,fold-constants,tidy/identity)", True)])
def test_what_a_graph_takes_of_rewrites_is_its_own(weir, tmp_path, passes, apart):
    """The smaller body comes out as it would beside small graphs, however much the others have to rewrite."""
    written = []
    for n in (4, 400):
        onnx.save(own_budgets(n, apart), tmp_path / "m.onnx")
        warned = weir("run", tmp_path / "m.onnx", tmp_path / "o.onnx", "--force", "--pass", passes).err
        assert ("did not end" in warned) == (n > 4), warned
        [branches] = (node for node in onnx.load(tmp_path / "o.onnx").graph.node if node.op_type == "If")
        [smaller] = (a.g for a in branches.attribute if a.name == "else_branch")
        written.append(["s0" in node.input for node in smaller.node])
    assert written == [[False] * 10 + [True] * 10 + [False]] * 2
