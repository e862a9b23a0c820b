"""Random graphs through optimize, preprocess and infer: none is harmed, no dim is wrong, and every step has something to do.

A sample in the ordinary run; with WEIR_TEST_ALL (`tools/test --all`) more than 20 000 graphs, over which every step of
`weir optimize` must have changed some: what nothing fires is not tested. The judge is shown wrong rewrites, too.
"""

import os
import re
import sys

import numpy as np
import onnx
import pytest

import optimized_graphs
import random_graphs
from conftest import ALL
from test_harness import Rewriting, believe_overrides, drop_nothings, fold_norms, fold_pads

GRAPHS = 21_000 if ALL else 240
LEAST = 5  # graphs that each step must have changed


@pytest.fixture(scope="module")
def found(weir):
    return optimized_graphs.run_arms(weir.path, GRAPHS, jobs=os.cpu_count())


def test_no_graph_is_harmed(found):
    assert found.graphs.total() >= GRAPHS and set(found.graphs) == set(optimized_graphs.ARMS)
    assert not found.harmed, "\n".join(optimized_graphs.told(found))
    assert found.unjudged.total() < 0.03 * GRAPHS, found.unjudged


def test_no_dim_is_wrong(found):
    """And nearly none is left open, of those that are not what the data says."""
    assert found.shapes["wrong"] == 0 and found.shapes["right"] > 5 * found.shapes["graphs"] > 0
    assert found.shapes["fresh"] + found.shapes["unknown"] < 0.05 * found.shapes["right"], found.shapes


def steps(weir):
    listed = weir("passes", "optimize").out
    return re.findall(r"^  ([a-z-]+/[a-z-]+)(?:  \(|$)", listed[listed.index("Steps of") :], re.MULTILINE)


def test_every_step_has_something_to_do(weir, found):
    names = steps(weir)
    assert len(names) >= 40 and len(set(names)) == len(names)
    if ALL:
        assert {name: found.fired[name] for name in names if found.fired[name] < LEAST} == {}
    else:
        assert sum(found.fired[name] > 0 for name in names) > 0.6 * len(names), found.fired


def wrong(rewrite, **options):
    """A program that rewrites the file it is given, and nothing else."""

    def run(source, out):
        r = Rewriting(onnx.load(source))
        rewrite(r, **options)
        onnx.save(r.model, out)

    return run


WRONG = [
    ("zero", "pad_window", wrong(fold_pads, takers=("Conv", "MaxPool")), {"Pad", "MaxPool"}),
    ("rounding", "matmul_norm", wrong(fold_norms, ask_axis=False), {"MatMul", "BatchNormalization"}),
    ("exact", "nothings", wrong(drop_nothings, plus_zero=True), {"Add"}),
    ("half", "pad_window", wrong(fold_pads, takers=("Conv", "MaxPool")), {"Pad", "MaxPool"}),
    ("rounding", "conv_affine", wrong(believe_overrides), set()),
]


@pytest.mark.parametrize("arm, piece, rewrite, left", WRONG, ids=lambda x: x if isinstance(x, str) else "")
def test_a_wrong_rewrite_is_found_and_shrunk(arm, piece, rewrite, left):
    """A Pad in a MaxPool, a norm of another axis, x + 0 of -0, what callers may override: few nodes show it."""
    harmed = optimized_graphs.run_many(rewrite, arm, range(100), [piece]).harmed
    assert harmed
    for _, _, complaints, text in harmed:
        small = onnx.parser.parse_model(text)
        assert complaints and left <= {node.op_type for node in small.graph.node}
        assert len([node for node in small.graph.node if node.op_type != "Constant"]) <= 4, text


def test_a_wrong_dim_is_found(tmp_path):
    """A program that declares every first dim to be 1."""
    path = tmp_path / "wrong"
    path.write_text(f"""#!/usr/bin/env python3
import sys
sys.path[:0] = {sys.path!r}
import onnx
model = onnx.shape_inference.infer_shapes(onnx.load(sys.argv[2]))
for each in model.graph.value_info:
    for dim in each.type.tensor_type.shape.dim[:1]:
        dim.dim_value = 1
onnx.save(model, sys.argv[3])
""")
    path.chmod(0o755)
    report = optimized_graphs.run_many(os.fspath(path), "shapes", range(12_000_000, 12_000_004))
    assert report.harmed and report.shapes["wrong"] > 0


def test_inputs_at_the_ends_of_what_there_is():
    feed = {"x": np.zeros((40, 40), np.float32), "h": np.zeros((40, 40), np.float16), "i": np.zeros(200, np.int32), "b": np.zeros(3, bool)}
    odd = optimized_graphs.odd_numbers(feed, 1)
    for name in "xh":
        assert np.isnan(odd[name]).any() and np.isposinf(odd[name]).any() and np.isneginf(odd[name]).any()
        assert (odd[name] == np.finfo(odd[name].dtype).smallest_subnormal).any() and np.signbit(odd[name][odd[name] == 0]).any()
    assert {*odd["i"]} == {0, np.iinfo(np.int32).min, np.iinfo(np.int32).max} and not odd["b"].any()


def test_a_graph_can_be_made_again():
    """By the words that a complaint ends with; what lies in a data file computes the same."""
    assert "--arm half --seed 10000007 1" in optimized_graphs.again("half", 10_000_007)
    for arm in optimized_graphs.ARMS:
        one, two = (optimized_graphs.case_of(arm, 5) for _ in range(2))
        assert one.model.SerializeToString(deterministic=True) == two.model.SerializeToString(deterministic=True)


def test_large_weights_lie_in_a_data_file(tmp_path):
    cases = (random_graphs.random_graph(seed, ["large_weights"]) for seed in range(50))
    case = next(each for each in cases if each.hazards["weight above 1 MiB"])
    optimized_graphs.save(case.model, tmp_path / "in.onnx", external=True)
    assert (tmp_path / "in.data").stat().st_size > 1 << 20
    assert random_graphs.compare(case.model, os.fspath(tmp_path / "in.onnx"), "E", case.feeds) == []
