"""Files that ask for a power of work: what rewrites graphs ends, with little memory, a small file, and says where it stopped.

Nothing here looks at a clock: rounds, sites, bytes of the result and of memory are counted. What has no end runs into the
time limit of the call.
"""

import json

import onnx
import pytest

import attack_models
import peaks
from conftest import program

MIB = 1 << 20
COMMANDS = {"optimize": ("optimize",), "preprocess": ("preprocess",), "cast": ("cast", "--to", "float16", "--graph"), "infer": ("infer",)}
# What stays without a shape, and why: no other reason may be given.
REASONS = {
    "loops_in_loops": {"depends_on_data", "input_unknown"},
    "loops_that_run_once": {"depends_on_data", "input_unknown"},
    "million_attributes": {"input_unknown"},
    "million_numbers": {"input_unknown"},
}
GROWN = {"doubled_constants": 2 * MIB}  # --fold-limit is 1 MiB


@pytest.fixture(scope="module", params=attack_models.ATTACKS)
def source(request, large_folder):
    path = large_folder / f"{request.param}.onnx"
    onnx.save(attack_models.ATTACKS[request.param](), path)
    yield path
    path.unlink()


@pytest.mark.parametrize("command", COMMANDS)
def test_it_ends(source, quick_folder, command):
    out, report = quick_folder / "out.onnx", quick_folder / "report.json"
    words = [program("WEIR"), *COMMANDS[command], source, "-o", out, "--report-json", report]
    done = peaks.run(words, timeout=300)
    size = source.stat().st_size
    assert done.code == 0, done.err
    assert done.peak_bytes <= 32 * MIB + 80 * size, (done.peak_bytes, size)
    assert out.stat().st_size <= 4 * size + 4096 + GROWN.get(source.stem, 0)
    onnx.load(out)
    steps = json.loads(report.read_text())["passes"]
    assert all(step.get("rounds", 1) <= 10 for step in steps)
    unknown = {site["reason"] for step in steps if step["name"] == "infer" for site in step["nodes"] if site["status"] == "skipped"}
    assert unknown <= REASONS.get(source.stem, set())


def nodes_of(graph):
    rest, count = [graph], 0
    while rest:
        graph = rest.pop()
        count += len(graph.node)
        rest += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return count


@pytest.mark.parametrize(
    "name, nodes",
    [("loops_that_run_once", 1), ("deep_ifs", 1), ("long_chains", 1), ("sums_of_sums", 1), ("one_value_many_users", 2), ("loops_in_loops", 25)],
)
def test_what_is_left(weir, quick_folder, name, nodes):
    """A limit is no excuse: what can be done in a few steps is."""
    source, out = quick_folder / "in.onnx", quick_folder / "out.onnx"
    onnx.save(attack_models.ATTACKS[name](), source)
    weir("optimize", source, out, "--quiet")
    assert nodes_of(onnx.load(out).graph) <= nodes
