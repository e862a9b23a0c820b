"""Every class of onnx-passes: what its pass makes of a small model is what the original makes, or computes the same.

The cases (tests/data/onnx-passes, made by tests/support/passes_original.py) are models of ours, before and after the
original's pass. One a class in the ordinary run, all with `tools/test --all`: with an open dim, with every value an output.
What is not there yet stands in left.txt, line by line: a case that becomes good must leave it.
"""

import os

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import passes_cases
from conftest import ALL, DATA

ARCHIVE = DATA / "onnx-passes" / "cases.tar.xz"
LEFT = DATA / "onnx-passes" / "left.txt"
CLASSES = 516  # of onnx-passes 0.4.1

pytestmark = pytest.mark.in_memory


@pytest.fixture(scope="module")
def cases(weir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx-passes")
    return passes_cases.Cases(weir.path, passes_cases.unpacked(ARCHIVE, folder))


@pytest.fixture(scope="module")
def verdicts(cases):
    rows = [row for row in cases.rows if ALL or "+" not in row["tag"]]
    return passes_cases.all_verdicts(cases, rows, os.cpu_count())


def test_every_class_has_a_case(cases):
    assert len({row["pass"] for row in cases.rows}) == CLASSES
    assert len({row["pass"] for row in cases.rows if row["fired"]}) >= 504  # the others raise, or change nothing


def test_passes_do_what_the_original_does(verdicts):
    left = passes_cases.read_left(LEFT)
    bad = [v for v in verdicts if v.word in passes_cases.BAD and left.get((v.name, v.tag), ("", ""))[0] != v.word]
    assert not bad, "\n".join(v.line() for v in bad)


def test_what_is_left_is_left(verdicts):
    """Cases that are good now are taken from the list (its first lines say how)."""
    left = passes_cases.read_left(LEFT)
    good = [v for v in verdicts if v.word in passes_cases.GOOD and (v.name, v.tag) in left]
    assert not good, "\n".join(v.line() for v in good)


# ---- the judge is shown other graphs


def model(nodes, constants, dims=(2, 3)):
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [out], out, **more) for kind, inputs, out, more in nodes],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info(nodes[-1][2], onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


SUM = [("Mul", ["x", "a"], "m", {}), ("Add", ["m", "b"], "y", {})]
HELD = {"a": [1, 2, 3], "b": [4, 5, 6]}
ALIKE = [
    ("same", [("Mul", ["c", "x"], "p", {}), ("Add", ["d", "p"], "q", {})], {"c": [1, 2, 3], "d": [4, 5, 6]}),
    ("same", [*SUM[:1], ("Neg", ["m"], "unused", {}), *SUM[1:]], HELD),
    ("folded", [("Neg", ["n"], "a", {}), *SUM], {"n": [-1, -2, -3], "b": [4, 5, 6]}),
    ("folded", [("Identity", ["x"], "i", {}), ("Mul", ["i", "a"], "m", {}), SUM[1]], HELD),
    ("rounded", SUM, {"a": [1, 2, np.nextafter(np.float32(3), np.float32(4))], "b": [4, 5, 6]}),
    ("", SUM, {"a": [1, 2, 3.001], "b": [4, 5, 6]}),
    ("", SUM, {"a": [[1, 2, 3]], "b": [4, 5, 6]}),
    ("", [("Mul", ["x", "a"], "m", {}), ("Sub", ["m", "b"], "y", {})], HELD),
    ("", [("Mul", ["x", "b"], "m", {}), ("Add", ["m", "a"], "y", {})], HELD),
    ("", [*SUM[:1], ("Add", ["m", "m"], "y", {})], HELD),
]


@pytest.mark.parametrize("word, nodes, constants", ALIKE)
def test_what_counts_as_the_same_graph(word, nodes, constants):
    assert passes_cases.alike(model(SUM, HELD), model(nodes, constants)) == word


def test_the_order_of_operands_counts_where_it_matters():
    first = model([("Sub", ["x", "a"], "y", {})], {"a": [1, 2, 3]})
    assert passes_cases.alike(first, model([("Sub", ["a", "x"], "y", {})], {"a": [1, 2, 3]})) == ""


def test_attributes_count_unless_they_are_defaults():
    default = [("Elu", ["x"], "y", {})]
    for alpha, word in ((1.0, "same"), (0.5, "")):
        assert passes_cases.alike(model(default, {}), model([("Elu", ["x"], "y", {"alpha": alpha})], {})) == word


@pytest.mark.parametrize(
    "after, verdict",
    [
        ([("Add", ["x", "x"], "y", {})], "values"),
        ([("Add", ["x", "h"], "y", {})], "wrong"),
        ([("Mul", ["x", "t"], "r", {}), ("Relu", ["r"], "y", {})], "wrong"),
    ],
)
def test_a_wrong_result_is_found(tmp_path, after, verdict):
    """x · 2: another graph that computes it, and two that do not."""
    constants = {"t": [2], "h": [1.5]}
    files = {"before": [("Mul", ["x", "t"], "y", {})], "after": [("Mul", ["t", "x"], "m", {}), ("Identity", ["m"], "y", {})]}
    row = {"pass": "P", "tag": "t", "fired": True, "inputs": {"x": "f32[2,3]"}}
    for word, nodes in files.items():
        row[word] = f"{word}.onnx"
        onnx.save(model(nodes, constants), tmp_path / row[word])
    (tmp_path / "index.jsonl").write_text("")
    said = passes_cases.Verdict("P", "t", "")
    passes_cases.Cases("weir", tmp_path).look(row, said, model(after, constants), True)
    assert said.word == verdict


def test_doing_nothing_is_right_where_the_original_is_wrong(tmp_path):
    row = {"pass": "P", "tag": "t", "fired": True, "inputs": {"x": "f32[2,3]"}, "before": "b.onnx", "after": "a.onnx"}
    before = model([("Mul", ["x", "t"], "y", {})], {"t": [2]})
    onnx.save(before, tmp_path / "b.onnx")
    (tmp_path / "index.jsonl").write_text("")
    for factor, verdict in (([3], "held"), ([[2]], "not-fired")):
        onnx.save(model([("Mul", ["x", "t"], "y", {})], {"t": factor}), tmp_path / "a.onnx")
        said = passes_cases.Verdict("P", "t", "")
        passes_cases.Cases("weir", tmp_path).look(row, said, before, False)
        assert said.word == verdict
