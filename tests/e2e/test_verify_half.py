"""Verification of models that compute in float16: with inputs of that type, by bounds of what nodes compute in, and with every value rounded,
which ONNX Runtime does not do by itself on a CPU."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from small_models import save, value

pytestmark = pytest.mark.in_memory
UNSEEN = "computed in float32 by this runtime: overflow is not seen"
CAST = ["--to", "float16", "--graph"]


def scaled(path, up, down, branch=False):
    """x · up · down, the first product in a branch of an If or not."""
    first, more = [helper.make_node("Mul", ["x", "up"], ["a"], name="up")], {}
    if branch:
        body = helper.make_graph([helper.make_node("Mul", ["x", "up"], ["t"], name="up"), helper.make_node("Mul", ["t", "down"], ["u"], name="inner")], "then", [], [value("u", [1, 8])])
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "else", [], [value("n", [1, 8])])
        first, more = [helper.make_node("If", ["yes"], ["a"], then_branch=body, else_branch=other)], {"yes": np.array(True)}
    nodes = [*first, helper.make_node("Mul", ["a", "one" if branch else "down"], ["y"], name="down")]
    more |= {"one": np.float32(1)} if branch else {}
    return save(path, nodes, [value("x", [1, 8])], [value("y", [1, 8])], {"up": np.float32(up), "down": np.float32(down), **more})


@pytest.fixture
def given(tmp_path):
    np.savez(tmp_path / "in.npz", x=np.linspace(900, 1000, 8, dtype=np.float32)[None])
    return tmp_path / "in.npz"


@pytest.mark.parametrize("io", [[], ["--keep-io"]], ids=["half", "keep-io"])
@pytest.mark.parametrize("up, down, branch, right", [(1000, 1e-3, False, False), (1e-4, 1e4, False, True), (1e-12, 1e12, False, False), (10, 0.1, False, True), (1000, 1e-3, True, False), (10, 0.1, True, True)])
def test_what_float16_does_not_hold_is_seen(weir, tmp_path, given, up, down, branch, right, io):
    """Overflow, underflow, in a branch too: what the reference evaluator makes of the written model says what is right."""
    source, out = scaled(tmp_path / "m.onnx", up, down, branch), tmp_path / "h.onnx"
    weir("cast", source, out, *CAST, *io, "--on-overflow", "clip", code=None)
    if not out.exists():
        pytest.skip("the constants do not fit into float16")
    x = np.load(given)["x"].astype(np.float32 if io else np.float16)
    with np.errstate(all="ignore"):
        y = ReferenceEvaluator(str(out)).run(None, {"x": x})[0].astype(np.float64)
    with np.errstate(all="ignore"):
        assert right == bool(np.isfinite(y).all() and np.abs(y / np.load(given)["x"] - 1).max() < 0.1)
    done = weir("verify", source, out, "--inputs", given, code=None)
    assert (done.code == 0) == right and ("verified: 1 of 1" in done.out) == right and UNSEEN not in done.out
    assert right or "'y' differs" in done.err
    done = weir("cast", source, tmp_path / "v.onnx", *CAST, *io, "--on-overflow", "clip", "--verify=all", "--verify-inputs", given, code=None)
    assert (done.code == 0) == right == (tmp_path / "v.onnx").exists()


def test_where_it_is_not_seen_it_is_said(weir, tmp_path, given):
    source, out = scaled(tmp_path / "m.onnx", 1000, 1e-3), tmp_path / "h.onnx"
    log = ["--edit-log", tmp_path / "log.jsonl", "--report-json", tmp_path / "r.json", "--force"]
    assert UNSEEN in weir("cast", source, out, *CAST, "--verify", *log).out
    assert json.loads((tmp_path / "r.json").read_text())["verification"]["overflow_unseen"] is True
    assert UNSEEN in weir("verify", source, out, "--edits", tmp_path / "log.jsonl").out
    # The same rewrites of a model in float16: sites and models are compared as the runtime has them.
    assert UNSEEN in weir("verify", out, out).out
    # Drawn inputs are rounded too, and nobody judges them. The control: what computes in float32.
    assert UNSEEN not in weir("verify", source, out).out
    assert UNSEEN not in weir("verify", source, source).out
    assert UNSEEN not in weir("cast", source, out, "--to", "float16", "--min-elements", "1", "--verify=all", "--verify-inputs", given, "--force").out


def product(path, dtype=TensorProto.FLOAT, **changed):
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) * np.float32(0.1)
    if dtype == TensorProto.FLOAT16:
        weight = weight.astype(np.float16)
    return save(path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")], [value("x", ["n", 64], dtype)], [value("y", ["n", 64], dtype)], {"w": changed.get("weight", weight)})


@pytest.mark.parametrize("io", [[], ["--keep-io"]], ids=["half", "keep-io"])
def test_inputs_are_cast_both_ways(weir, tmp_path, io):
    source, out, back = product(tmp_path / "m.onnx"), tmp_path / "h.onnx", tmp_path / "f.onnx"
    weir("cast", source, out, *CAST, *io, "--verify=model")
    for suffix, dtype in (("32", np.float32), ("16", np.float16)):
        np.savez(tmp_path / f"x{suffix}.npz", x=np.random.default_rng(1).normal(size=(5, 64)).astype(dtype))
    weir("verify", source, out)
    assert "verified: 1 of 1" in weir("verify", source, out, "--inputs", tmp_path / "x32.npz").out
    weir("verify", out, source)
    for file in ("x32.npz", "x16.npz")[: 2 - bool(io)]:
        assert "verified: 1 of 1" in weir("verify", out, source, "--inputs", tmp_path / file, "--metric", "sqnr=40").out
    # Another weight is another model, whichever way.
    other = product(tmp_path / "o.onnx", weight=np.random.default_rng(7).normal(size=(64, 64)).astype(np.float32))
    weir("cast", other, back, *CAST, *io)
    assert "differs" in weir("verify", source, back, "--inputs", tmp_path / "x32.npz", code=1).err
    weir("verify", back, source, "--inputs", tmp_path / "x32.npz", code=1)


def test_bounds_by_what_nodes_compute_in(weir, tmp_path):
    """A graph without a constant of 16 bits is not held to what float32 keeps; and one whose nodes compute in float32 is."""
    nodes = [helper.make_node("Mul", ["x", "x"], ["m"]), helper.make_node("Sqrt", ["m"], ["s"]), helper.make_node("Add", ["s", "x"], ["y"])]
    source, out = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 8])], [value("y", ["n", 8])], {}), tmp_path / "h.onnx"
    weir("cast", source, out, *CAST, "--keep-io")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32))
    [row] = json.loads(weir("verify", source, out, "--inputs", tmp_path / "x.npz", "--json").out)["verification"]["rows"]
    assert row["status"] == "passed" and row["figures"]["relative"] > 1e-4 and row["bounds"] == "SQNR of 10 dB (values rounded to float16)"
    nodes[2] = helper.make_node("Add", ["s", "tiny"], ["y"])
    near = save(tmp_path / "n.onnx", nodes, [value("x", ["n", 8])], [value("y", ["n", 8])], {"tiny": np.float32(1)})
    assert "relative" in weir("verify", source, near, code=1).err
