"""Every rule of the house fires on graphs made from its own pattern, and what it leaves computes what its exactness promises.

Of a template with many rows, some are looked at. Of the graphs those count that run; inputs have NaN, infinities and both zeros
unless the level rules them out.
"""

import os
import random
import subprocess
import zlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import ALL, built_tool
import rule_mutants
from rule_graphs import Draws, Graph, Tool, compiler, holds, inputs, pass_of, rules, run, session

pytestmark = pytest.mark.in_memory

TOOL = built_tool("rules_tool")
ENOUGH = 200 if ALL else 3  # graphs that a rule fires on, of all rows that are looked at
ROWS = 99 if ALL else 3  # of one template
TRIES = 400  # for a row; where they are too few, twice as many more, each like a graph that the rule fired on


BOOK = rules()
CASES = [(rule, row) for rule in BOOK.rules for row in rule.rows[:: -(-len(rule.rows) // ROWS)]]


@pytest.fixture(scope="module")
def tool(module_folder):
    tool = Tool(TOOL, module_folder)
    yield tool
    tool.close()


def label(rule, row):
    return f"{pass_of(BOOK, rule, row)}@{rule.line}"


@pytest.mark.parametrize("rule,row", CASES, ids=[label(*each) for each in CASES])
def test_fires_and_the_numbers_hold(weir, tool, rule, row, tmp_path):
    name, level = pass_of(BOOK, rule, row), compiler.LEVELS[rule.level]
    place = f"{rule.file}:{rule.line}"
    rng = Draws(zlib.crc32(label(rule, row).encode()))
    enough = -(-ENOUGH // min(len(rule.rows), ROWS))
    tries = max(TRIES, 4 * enough)
    found, good = 0, []
    for seed in range(3 * tries):
        assert seed < tries or good, "fires on none of the graphs made from its pattern"
        rng.begin(good if seed >= tries else ())
        model = Graph(rule, row, rng).build()
        if model is None:
            continue
        after, fired, _ = tool(model, name, level)
        given = inputs(model, level, seed)
        a = run(model, given) if fired.get(place) else None
        if not isinstance(a, np.ndarray):
            continue
        b = run(after, given)
        onnx.checker.check_model(after)
        assert holds(level, a, b, {node.op_type for node in model.graph.node}), f"{onnx.printer.to_text(model)}\n{onnx.printer.to_text(after)}\n{given}\n{a}\n{b}"
        # One level below it must not fire, and be counted. (Other rules of the pass may still.)
        if rule.level > 0 and found == 0:
            _, fired, passes = tool(model, name, compiler.LEVELS[rule.level - 1])
            assert place not in fired and passes[name][1] > 0
        found += 1
        good.append(rng.made)
        if ALL and found == 1:  # and every site of it can be verified
            onnx.save(model, tmp_path / "in.onnx")
            words = ["--pass", name, "--exactness", level, "--verify", "--verify-require", "100%", "--no-manifest"]
            done = weir("run", tmp_path / "in.onnx", tmp_path / "verified.onnx", *words, code=None)
            assert done.code == 0 or "nothing could be verified" in done.err, done.said
        if found == enough:
            return
    raise AssertionError(f"fires on {found} of the graphs made from its pattern; {enough} are wanted")


@pytest.mark.parametrize("families", ["algebraic,eliminate", "algebraic,eliminate,reorder"])
def test_together(tool, families):
    """Rules that run together: on graphs made from each of them they come to an end, and the numbers hold."""
    words = families.split(",")
    names = {pass_of(BOOK, rule, row) for rule in BOOK.rules for row in rule.rows if rule.names[0].split("/")[0] in words}
    rng, changed = random.Random(5), 0
    for rule, row in (each for each in CASES if each[0].names[0].split("/")[0] in words):
        for seed in range(20 if ALL else 1):
            model = Graph(rule, row, rng).build()
            if model is None:
                continue
            after, fired, _ = tool(model, ",".join(sorted(names)), "rounding")
            given = inputs(model, "rounding", seed)
            a = run(model, given) if fired else None
            changed += isinstance(a, np.ndarray)
            assert not isinstance(a, np.ndarray) or holds("rounding", a, run(after, given)), f"{fired}\n{onnx.printer.to_text(model)}\n{onnx.printer.to_text(after)}"
    assert changed > 50


def is_caught(tool, number, rule, row):
    """Does some graph on which the mutant fires compute something else? None: it fires on none."""
    rng, level, seen = random.Random(number), compiler.LEVELS[rule.level], None
    for seed in range(TRIES):
        model = Graph(rule, row, rng).build()
        if model is None:
            continue
        after, fired, _ = tool(model, f"mutant/{number}", level)
        given = inputs(model, level, seed)
        a = run(model, given) if fired else None
        if not isinstance(a, np.ndarray):
            continue
        if not holds(level, a, run(after, given), {node.op_type for node in model.graph.node}):
            return True
        seen = (seen or 0) + 1
        if seen == 40:
            return False
    return None if seen is None else False


MUTANTS = rule_mutants.mutants(BOOK)


@pytest.mark.parametrize("part", range(8 if ALL else 1))  # of so many, or of ten
def test_mistakes_are_caught(tmp_path, part):
    """The control arm: rules with a mistake in what they make."""
    tool = Tool(built_tool("rules_tool_mutants"), tmp_path, fuel=1)
    looked = list(enumerate(MUTANTS))[part :: 8 if ALL else 10]
    found = {f"mutant/{number} of {rule.file}:{rule.line} {row}": is_caught(tool, number, rule, row) for number, (rule, row, _) in looked}
    tool.close()
    assert [name for name, caught in found.items() if caught is False] == []
    assert list(found.values()).count(True) > 0.9 * len(looked)  # a result that cannot be built fires nowhere


def test_near_misses_stay(tool):
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
    house = {rule.names[0] for rule, _ in CASES if rule.names[0].split("/")[0] in ("tidy", "fuse", "optimize", "ort") and "{" not in rule.names[0]}
    _, fired, passes = tool(model, ",".join(sorted(house)), "zero")
    assert (fired, passes) == ({}, {})


def test_subgraphs_and_functions(tool):
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
    after, _, passes = tool(model, "tidy/identity", "finite")
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
    assert done.err.count("one place was rewritten 64 times") == 1 and done.err.count("the same as after round") == 1
