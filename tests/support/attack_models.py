"""Small files that would take forever, or all memory, of who rewrites graphs without a limit: a function each, by name in ATTACKS.

Each gives a ModelProto of a few MB at most. What they have in common: the work or the result that they ask for grows
with a power, or with 2 to the power, of what they say.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
HUGE = 1 << 62
ATTACKS = {}


def attack(function):
    ATTACKS[function.__name__] = function
    return function


def value(name, dims, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def ints(name, *numbers, dims=None):
    array = np.array(numbers, np.int64)
    return numpy_helper.from_array(array if dims is None else array.reshape(dims), name)


def model(nodes, inputs, outputs, constants=(), functions=(), opset=18):
    graph = helper.make_graph(nodes, "attack", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions))


def chain(op_type, count, first="x", last="y", more=(), **attributes):
    """count nodes, each of what the one before it made."""
    names = [first, *(f"h{i}" for i in range(count - 1)), last]
    return [helper.make_node(op_type, [a, *more], [b], **attributes) for a, b in zip(names, names[1:])]


@attack
def squares_of_a_dim():
    """n * n * n …, each the square of the one before: 2^40 factors."""
    nodes = [helper.make_node("Shape", ["x"], ["s"])]
    nodes += [helper.make_node("Mul", [a, a], [b]) for a, b in zip(["s", *(f"m{i}" for i in range(39))], [*(f"m{i}" for i in range(39)), "y"])]
    return model(nodes, [value("x", ["n"])], [value("y", [1], INT64)])


@attack
def sums_of_dims():
    """(a + b) * (c + d) * … of 40 pairs of dims: 2^40 terms."""
    inputs = [value(f"x{i}", [f"d{i}"]) for i in range(80)]
    nodes = [helper.make_node("Shape", [f"x{i}"], [f"s{i}"]) for i in range(80)]
    nodes += [helper.make_node("Add", [f"s{2 * i}", f"s{2 * i + 1}"], [f"a{i}"]) for i in range(40)]
    nodes += [helper.make_node("Mul", ["a0" if i == 1 else f"p{i - 1}", f"a{i}"], [f"p{i}"]) for i in range(1, 40)]
    nodes.append(helper.make_node("Identity", ["p39"], ["y"]))
    return model(nodes, inputs, [value("y", [1], INT64)])


@attack
def floors_of_floors():
    """5 000 divisions that round, by 2 and 3 in turns."""
    nodes = [helper.make_node("Shape", ["x"], ["s"])]
    names = ["s", *(f"q{i}" for i in range(5_000))]
    for i, (a, b) in enumerate(zip(names, names[1:])):
        nodes.append(helper.make_node("Add" if i % 2 else "Div", [a, "three" if i % 2 else "two"], [b]))
    nodes.append(helper.make_node("Identity", [names[-1]], ["y"]))
    return model(nodes, [value("x", ["n"])], [value("y", [1], INT64)], [ints("two", 2), ints("three", 3)])


def function(name, nodes, opset=18):
    return helper.make_function("local", name, ["a"], ["r"], nodes, [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)])


@attack
def tower_of_functions():
    """Each of 50 functions calls the one below it twice: 2^50 calls of the last, which has an If that is decided."""
    branches = [helper.make_graph([helper.make_node(op, ["a"], [name])], name, [], [value(name, None)]) for op, name in (("Neg", "p"), ("Abs", "q"))]
    decided = [
        helper.make_node("Shape", ["a"], ["s"]), helper.make_node("Size", ["s"], ["k"]),
        helper.make_node("Constant", [], ["one"], value=ints("v", 1, dims=())),
        helper.make_node("Equal", ["k", "one"], ["c"]),
        helper.make_node("If", ["c"], ["r"], then_branch=branches[0], else_branch=branches[1]),
    ]  # fmt: skip
    functions = [function("f0", decided)]
    for i in range(1, 50):
        functions.append(function(f"f{i}", [helper.make_node(f"f{i - 1}", [a], [b], domain="local") for a, b in (("a", "t"), ("t", "r"))]))
    return model([helper.make_node("f49", ["x"], ["y"], domain="local")], [value("x", ["n"])], [value("y", ["n"])], functions=functions)


@attack
def tower_of_other_types():
    """The same, and each call is of another rank: no result may be remembered."""
    functions = [function("f0", [helper.make_node("Neg", ["a"], ["r"])])]
    for i in range(1, 40):
        nodes = [
            helper.make_node("Constant", [], ["zero"], value=ints("v", 0)),
            helper.make_node(f"f{i - 1}", ["a"], ["t"], domain="local"), helper.make_node("Unsqueeze", ["t", "zero"], ["u"]),
            helper.make_node(f"f{i - 1}", ["u"], ["w"], domain="local"), helper.make_node("Squeeze", ["w", "zero"], ["r"]),
        ]  # fmt: skip
        functions.append(function(f"f{i}", nodes))
    return model([helper.make_node("f39", ["x"], ["y"], domain="local")], [value("x", ["n"])], [value("y", ["n"])], functions=functions)


def loop_in_loop(depth, count):
    """Nodes that make r{depth} of v{depth + 1}; inside there is such a Loop again."""
    name = f"v{depth}"
    inner = [helper.make_node("Concat", [name, name], [f"r{depth - 1}"], axis=0)] if depth == 0 else loop_in_loop(depth - 1, count)
    made = f"r{depth - 1}"
    body = helper.make_graph(
        [helper.make_node("Identity", [f"c{depth}"], [f"d{depth}"]), *inner], f"body{depth}",
        [value(f"i{depth}", [], INT64), value(f"c{depth}", [], BOOL), value(name, None)],
        [value(f"d{depth}", [], BOOL), value(made, None)],
    )  # fmt: skip
    return [helper.make_node("Loop", [count, "yes", f"v{depth + 1}"], [f"r{depth}"], body=body)]


@attack
def loops_in_loops():
    """12 Loops in each other, the innermost of which doubles what it carries, 2^62 times."""
    nodes = [helper.make_node("Identity", ["x"], ["v12"]), *loop_in_loop(11, "count"), helper.make_node("Identity", ["r11"], ["y"])]
    constants = [ints("count", HUGE, dims=()), numpy_helper.from_array(np.array(True), "yes")]
    return model(nodes, [value("x", ["n"])], [value("y", None)], constants)


@attack
def loops_that_run_once():
    """The same, each once: all bodies move outside."""
    nodes = [helper.make_node("Identity", ["x"], ["v12"]), *loop_in_loop(11, "count"), helper.make_node("Identity", ["r11"], ["y"])]
    constants = [ints("count", 1, dims=()), numpy_helper.from_array(np.array(True), "yes")]
    return model(nodes, [value("x", ["n"])], [value("y", None)], constants)


@attack
def huge_results():
    """2^62 elements of ConstantOfShape, Expand, Tile, Range, Pad, Resize."""
    constants = [ints("huge", HUGE), ints("end", HUGE, dims=()), ints("zero", 0, dims=()), ints("one", 1, dims=()), ints("pads", 0, HUGE)]
    constants += [numpy_helper.from_array(np.ones(1, np.float32), "w"), numpy_helper.from_array(np.ones(4, np.float32), "four")]
    nodes = [
        helper.make_node("ConstantOfShape", ["huge"], ["a"]), helper.make_node("Expand", ["w", "huge"], ["b"]),
        helper.make_node("Tile", ["four", "huge"], ["c"]), helper.make_node("Range", ["zero", "end", "one"], ["d"]),
        helper.make_node("Pad", ["w", "pads"], ["e"]), helper.make_node("Resize", ["w", "", "", "huge"], ["f"]),
    ]  # fmt: skip
    nodes += [helper.make_node("ReduceMax", [name], [f"r{name}"], keepdims=0) for name in "abcef"]
    nodes += [helper.make_node("Sum", ["x", *(f"r{name}" for name in "abcef")], ["y"])]
    return model(nodes, [value("x", ["n"])], [value("y", ["n"])], constants)


@attack
def doubled_constants():
    """A constant of 1024 floats put behind itself 45 times: 2^55 elements."""
    nodes = [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in zip(["w", *(f"c{i}" for i in range(44))], [f"c{i}" for i in range(45)])]
    nodes += [helper.make_node("ReduceMax", ["c44"], ["m"], keepdims=0), helper.make_node("Add", ["x", "m"], ["y"])]
    return model(nodes, [value("x", ["n"])], [value("y", ["n"])], [numpy_helper.from_array(np.linspace(0, 1, 1024, dtype=np.float32), "w")])


@attack
def sums_of_sums():
    """A constant added to itself 3000 times, each sum being both operands of the next one: 2^3000 paths."""
    nodes = chain("Add", 1, "w", "h0", ["w"]) + [helper.make_node("Add", [f"h{i}", f"h{i}"], [f"h{i + 1}"]) for i in range(2999)]
    nodes += [helper.make_node("Add", ["x", "h2999"], ["y"])]
    return model(nodes, [value("x", ["n", 3000])], [value("y", ["n", 3000])], [numpy_helper.from_array(np.full(3000, 1e-3, np.float32), "w")])


@attack
def million_numbers():
    """Lists of 10^6 elements where a shape, axes, pads, indices are asked for."""
    many = 1_000_000
    constants = [numpy_helper.from_array(np.full(many, n, np.int64), name) for name, n in (("ones", 1), ("zeros", 0))]
    nodes = [
        helper.make_node("Reshape", ["x", "ones"], ["a"]), helper.make_node("Expand", ["x", "ones"], ["b"]),
        helper.make_node("Squeeze", ["x", "zeros"], ["c"]), helper.make_node("Unsqueeze", ["x", "zeros"], ["d"]),
        helper.make_node("Slice", ["x", "zeros", "ones", "zeros"], ["e"]), helper.make_node("Gather", ["ones", "zeros"], ["f"]),
        helper.make_node("Pad", ["x", "ones"], ["g"]), helper.make_node("ConstantOfShape", ["ones"], ["h"]),
        helper.make_node("Tile", ["x", "ones"], ["i"]), helper.make_node("ReduceSum", ["x", "zeros"], ["j"]),
        helper.make_node("Mul", ["ones", "zeros"], ["k"]), helper.make_node("Concat", ["ones", "zeros"], ["l"], axis=0),
    ]  # fmt: skip
    return model(nodes, [value("x", ["n"])], [value(name, None, INT64 if name in "fkl" else FLOAT) for name in "abcdefghijkl"], constants)


@attack
def million_attributes():
    """perm, axes, split, pads of 10^5 numbers."""
    many = [0] * 100_000
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=many), helper.make_node("Transpose", ["a"], ["b"], perm=many),
        helper.make_node("Squeeze", ["x"], ["c"], axes=many), helper.make_node("Unsqueeze", ["c"], ["d"], axes=many),
        helper.make_node("ReduceMax", ["x"], ["e"], axes=many), helper.make_node("MaxPool", ["x"], ["f"], kernel_shape=many),
        helper.make_node("Split", ["x"], ["g"], split=many), helper.make_node("Constant", [], ["h"], value_ints=many),
    ]  # fmt: skip
    return model(nodes, [value("x", ["n", 1])], [value(name, None, INT64 if name == "h" else FLOAT) for name in "bdefgh"], opset=12)


@attack
def many_operands():
    """Sum, Concat, Max and a list of 5 000 operands each, over and over the same two values."""
    operands = ["x", "w"] * 2_500
    nodes = [
        helper.make_node("Sum", operands, ["a"]), helper.make_node("Max", operands, ["b"]),
        helper.make_node("Concat", operands, ["c"], axis=0), helper.make_node("SequenceConstruct", operands, ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["d"], axis=0), helper.make_node("Concat", ["c", "c"], ["e"], axis=0),
    ]  # fmt: skip
    return model(nodes, [value("x", ["n", 2])], [value(name, None) for name in "abde"], [numpy_helper.from_array(np.ones((1, 2), np.float32), "w")])


def nested_ifs(depth, condition):
    body = [helper.make_node("Neg", ["x"], [f"o{depth}"])] if depth == 0 else nested_ifs(depth - 1, condition)
    last = body[-1].output[0]
    graphs = [helper.make_graph(body, f"g{depth}", [], [value(last, None)])]
    other = helper.make_node("Abs", ["x"], [f"e{depth}"])
    graphs.append(helper.make_graph([other], f"h{depth}", [], [value(f"e{depth}", None)]))
    return [helper.make_node("If", [condition], [f"o{depth + 1}"], then_branch=graphs[0], else_branch=graphs[1])]


@attack
def deep_ifs():
    """30 decided Ifs in each other: each moves out in a round, or all in one."""
    nodes = [*nested_ifs(29, "yes"), helper.make_node("Identity", ["o30"], ["y"])]
    return model(nodes, [value("x", ["n"])], [value("y", None)], [numpy_helper.from_array(np.array(True), "yes")])


@attack
def long_chains():
    """5 000 nodes each of what can be merged with its neighbour: Transposes, Reshapes, Casts, Clips, Adds of zero."""
    nodes = chain("Transpose", 5_000, "x", "a", perm=[1, 0])
    for op_type, first, last, more in (("Reshape", "a", "b", ["to"]), ("Clip", "b", "c", ["low"]), ("Add", "c", "d", ["low"]), ("Relu", "d", "y", [])):
        nodes += [*chain(op_type, 5_000, first, last, more)]
    names = iter(range(10**9))
    for node in nodes:  # one name each
        for place, name in enumerate(node.output):
            node.output[place] = name if name in "abcdy" else f"n{next(names)}"
    for before, node in zip(nodes, nodes[1:]):
        node.input[0] = before.output[0]
    low = numpy_helper.from_array(np.zeros((), np.float32), "low")
    return model(nodes, [value("x", [6, 6])], [value("y", None)], [ints("to", 6, 6), low])


@attack
def equal_all_over():
    """5 000 equal nodes of equal nodes, and as many equal constants."""
    constants = [numpy_helper.from_array(np.full(3, 0.5, np.float32), f"w{i}") for i in range(5_000)]
    nodes = [helper.make_node("Add", ["x", f"w{i}"], [f"a{i}"]) for i in range(5_000)]
    nodes += [helper.make_node("Exp", [f"a{i}"], [f"b{i}"]) for i in range(5_000)]
    nodes += [helper.make_node("Sum", [f"b{i}" for i in range(5_000)], ["y"])]
    return model(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])], constants)


@attack
def one_value_many_users():
    """A Transpose, an Unsqueeze and a Shape, each used by 5 000 nodes."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node("Shape", ["x"], ["s"])]
    nodes += [helper.make_node("Transpose", ["t"], [f"u{i}"], perm=[1, 0]) for i in range(5_000)]
    nodes += [helper.make_node("Reshape", [f"u{i}", "s"], [f"r{i}"]) for i in range(5_000)]
    nodes += [helper.make_node("Sum", [f"r{i}" for i in range(5_000)], ["y"])]
    return model(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])])


@attack
def dims_with_long_names():
    """dim_params that are formulas of 10^4 parentheses, 10^4 sums, and names of 60 000 bytes."""
    texts = ["(" * 10_000 + "n" + ")" * 10_000, "+".join(["n"] * 10_000), "n" * 60_000, "*".join(["n"] * 100), "n//2" * 60, "9" * 300]
    inputs = [value(f"x{i}", [text]) for i, text in enumerate(texts)]
    nodes = [helper.make_node("Shape", [f"x{i}"], [f"s{i}"]) for i in range(len(texts))]
    nodes.append(helper.make_node("Concat", [f"s{i}" for i in range(len(texts))], ["y"], axis=0))
    return model(nodes, inputs, [value("y", None, INT64)])
