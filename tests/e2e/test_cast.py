"""The pass `cast`: float32 weights stored narrow, one Cast each, and nothing else changed.

The numbers behind the Casts are those that NumPy and ml_dtypes round to. Finite values that would become
infinite are counted, and the run is refused, unless they are to be clipped.
"""

import json

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import copy_model, package_model

KINDS = {
    "float16": (TensorProto.FLOAT16, np.float16, 2**-10),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 2**-7),
}


def cast(weir, source, out, to, *options, code=0):
    done = weir("cast", source, out, "--to", to, *options, code=code)
    if code == 0:
        onnx.checker.check_model(out, full_check=True)
    return done


def initializers(path):
    return {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}


def outputs(path, given):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)


def model(folder, values, name="in.onnx"):
    """x @ w1 @ w2 …, one MatMul a weight."""
    nodes, at = [], "x"
    for i, key in enumerate(values):
        nodes.append(helper.make_node("MatMul", [at, key], [f"h{i}"], f"mm_{key}"))
        at = f"h{i}"
    width = next(iter(values.values())).shape[0]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, width])
    y = helper.make_tensor_value_info(at, TensorProto.FLOAT, [1, width])
    weights = [numpy_helper.from_array(value, key) for key, value in values.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    path = folder / name
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def square(seed, size=32):
    return np.random.default_rng(seed).standard_normal((size, size)).astype(np.float32)


@pytest.mark.parametrize(
    "package,part,to",
    (
        ("rapidocr", "rec_small", "float16"),
        ("magika", "model.onnx", "float16"),
        ("magika", "model.onnx", "bfloat16"),
    ),
)
def test_real_models(weir, tmp_path, package, part, to):
    source = copy_model(package_model(package, part), tmp_path / "in")
    out = tmp_path / "out.onnx"
    cast(weir, source, out, to)
    before, after = initializers(source), initializers(out)
    number, kind, _ = KINDS[to]
    changed = {name for name in before if name not in after}
    assert changed
    for name in changed:
        value = numpy_helper.to_array(before[name])
        assert value.dtype == np.float32 and value.size >= 256
        stored = after[f"{name}_{to}"]
        assert stored.data_type == number
        assert stored.raw_data == value.astype(kind).tobytes()
    casts = [node for node in onnx.load(out).graph.node if node.name.endswith("_cast")]
    assert {node.output[0] for node in casts} == changed
    assert out.stat().st_size < 0.75 * source.stat().st_size


def test_training_stays_as_it_is(weir, tmp_path):
    """Weights of a training algorithm are another graph's affair."""
    source = model(tmp_path, {"a": square(1)})
    made = onnx.load(source)
    training = made.training_info.add()
    training.algorithm.CopyFrom(onnx.load(model(tmp_path, {"t": square(2)}, "training.onnx")).graph)
    onnx.save(made, source)
    weir("cast", source, tmp_path / "out.onnx", "--to", "float16")
    out = onnx.load(tmp_path / "out.onnx")
    assert [tensor.name for tensor in out.graph.initializer] == ["a_float16"]
    assert out.training_info[0] == made.training_info[0]


def test_old_opsets_have_no_bfloat16(weir, tmp_path):
    source = copy_model(package_model("rapidocr", "rec_small"), tmp_path / "in")
    assert "the opset is too old" in cast(weir, source, tmp_path / "out.onnx", "bfloat16").out
    assert set(initializers(tmp_path / "out.onnx")) == set(initializers(source))


@pytest.mark.parametrize("to", KINDS)
def test_runs(weir, tmp_path, to):
    values = {"a": square(1), "b": square(2)}
    source = model(tmp_path, values)
    cast(weir, source, tmp_path / "out.onnx", to)
    x = np.random.default_rng(3).standard_normal((1, 32)).astype(np.float32)
    [got] = outputs(tmp_path / "out.onnx", {"x": x})
    rounded = [value.astype(KINDS[to][1]).astype(np.float32) for value in values.values()]
    assert np.allclose(got, x @ rounded[0] @ rounded[1], rtol=1e-4, atol=1e-3)
    [exact] = outputs(source, {"x": x})
    assert 0 < np.abs(got - exact).max() <= 40 * KINDS[to][2] * np.abs(exact).max()


@pytest.mark.parametrize("to,bad", (("float16", 65520), ("float16", -1e5), ("bfloat16", 3.4e38)))
def test_never_silently_infinite(weir, tmp_path, to, bad):
    """The run looks at all weights, and one message has all that do not fit."""
    far, farther = square(4), square(9)
    far[3, 5] = bad
    farther[0, :3] = (bad, -bad, np.nan)
    source = model(tmp_path, {"far": far, "a": square(5), "farther": farther})
    report = tmp_path / "report.json"
    done = cast(weir, source, tmp_path / "out.onnx", to, "--report-json", report, code=1)
    assert "2 tensors have finite elements" in done.err
    assert "'far' (1), 'farther' (2)" in done.err
    assert "--exclude" in done.err and "--on-overflow clip" in done.err
    told = json.loads(report.read_text())
    assert told["weir"]["refusal"]["exit_code"] == 1
    counts = {t["name"]: t["error"]["overflows"] for t in told["passes"][0]["tensors"]}
    assert counts == {"far": 1, "a": 0, "farther": 2}
    assert {path.name for path in tmp_path.iterdir()} == {"in.onnx", "report.json"}
    cast(weir, source, tmp_path / "out.onnx", to, "--exclude", "far*")
    assert {"far", "farther", f"a_{to}"} == set(initializers(tmp_path / "out.onnx"))


@pytest.mark.parametrize("to,bad", (("float16", 65520), ("float16", 1e30), ("bfloat16", 3.4e38)))
def test_clip(weir, tmp_path, to, bad):
    """Only finite values are clipped, each with its sign; the report counts them."""
    value = square(4)
    value[0, :8] = (bad, -bad, np.inf, -np.inf, np.nan, 65519, 6e-8, 1e-9)
    source = model(tmp_path, {"a": square(5), "far": value})
    report, log = tmp_path / "report.json", tmp_path / "edits.jsonl"
    options = ("--on-overflow", "clip", "--report-json", report, "--edit-log", log)
    done = cast(weir, source, tmp_path / "out.onnx", to, *options)
    assert "(2 elements of 'far' clipped)" in done.out
    tensors = {t["name"]: t["error"] for t in json.loads(report.read_text())["passes"][0]["tensors"]}
    assert (tensors["a"]["overflows"], tensors["far"]["overflows"]) == (0, 2)
    kind = KINDS[to][1]
    most = float(ml_dtypes.finfo(kind).max)
    with np.errstate(over="ignore"):
        rounded = value.astype(kind).astype(np.float32)
    want = np.where(np.isinf(rounded) & np.isfinite(value), np.copysign(most, value), rounded)
    stored = initializers(tmp_path / "out.onnx")[f"far_{to}"].raw_data
    got = np.frombuffer(stored, kind).astype(np.float32).reshape(value.shape)
    assert np.array_equal(got, want.astype(np.float32), equal_nan=True)
    assert tensors["far"]["max_abs"] == pytest.approx(float(np.float32(bad)) - most, rel=1e-12)
    (tmp_path / "again").mkdir()
    weir("replay", log, source, tmp_path / "again" / "out.onnx")
    assert (tmp_path / "again" / "out.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


@pytest.mark.parametrize("to", KINDS)
def test_error_figures(weir, tmp_path, to):
    """Of what is finite: subnormals round, NaN and infinities are left out."""
    value = square(11) * np.float32(1e-5)
    value[0, :4] = (np.nan, np.inf, 6e-8, 1e-40)
    source = model(tmp_path, {"a": value})
    report = weir.report("cast", source, tmp_path / "out.onnx", "--to", to)
    [found] = [t["error"] for t in report["passes"][0]["tensors"]]
    kept = value[np.isfinite(value)].astype(np.float64)
    error = kept - kept.astype(np.float32).astype(KINDS[to][1]).astype(np.float64)
    assert found["max_abs"] == np.abs(error).max() > 0
    assert found["rmse"] == pytest.approx(np.sqrt((error**2).sum() / value.size), rel=1e-9)
    assert found["sqnr_db"] == pytest.approx(10 * np.log10((kept**2).sum() / (error**2).sum()), abs=1e-9)


def test_the_largest_and_the_infinite(weir, tmp_path):
    """What rounds to the largest float16 fits; what is infinite already stays so."""
    value = square(6)
    value[0, :4] = (65504, 65519, np.inf, -np.inf)
    source = model(tmp_path, {"a": value})
    cast(weir, source, tmp_path / "out.onnx", "float16")
    stored = numpy_helper.to_array(initializers(tmp_path / "out.onnx")["a_float16"])
    assert stored[0, :4].tolist() == [65504, 65504, np.inf, -np.inf]


def test_replay(weir, tmp_path):
    source = model(tmp_path, {"a": square(7), "b": square(8)})
    first, again = tmp_path / "a" / "out.onnx", tmp_path / "b" / "out.onnx"
    first.parent.mkdir()
    again.parent.mkdir()
    cast(weir, source, first, "float16", "--edit-log", tmp_path / "edits.jsonl")
    weir("replay", tmp_path / "edits.jsonl", source, again)
    assert first.read_bytes() == again.read_bytes()


def in_a_body(folder, weights, body, result="y"):
    """If (a constant) with `body` in both branches; `weights` are initializers of the body."""
    y = helper.make_tensor_value_info(result, TensorProto.FLOAT, [4, 4])
    branches = {
        name: helper.make_graph(body, name, [], [y], [numpy_helper.from_array(*each) for each in weights])
        for name in ("then_branch", "else_branch")
    }
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 4])
    outer = [numpy_helper.from_array(np.array(True), "yes"), numpy_helper.from_array(square(2, 4), "w")]
    nodes = [helper.make_node("If", ["yes"], ["h"], **branches), helper.make_node("MatMul", ["h", "w"], ["z"])]
    graph = helper.make_graph(nodes, "g", [x], [z], outer)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "in.onnx")
    return folder / "in.onnx"


def test_a_weight_of_a_body_by_the_name_of_one_around(weir, tmp_path):
    """Both become narrow, and each goes on to where it went."""
    source = in_a_body(tmp_path, [(square(1, 4), "w")], [helper.make_node("MatMul", ["x", "w"], ["y"])])
    weir("cast", source, tmp_path / "out.onnx", "--to", "float16", "--min-elements", "1")
    weir("check", tmp_path / "out.onnx")
    given = {"x": square(3, 4)}
    [want], [got] = outputs(source, given), outputs(tmp_path / "out.onnx", given)
    assert np.allclose(got, want, atol=0.2) and not np.array_equal(got, want)


def test_a_weight_that_a_body_gives_on_stays(weir, tmp_path):
    """Not a model that a runtime takes; but one to be left as it is."""
    source = in_a_body(tmp_path, [], [helper.make_node("Relu", ["x"], ["unused"])], "w")
    report = weir.report("cast", source, tmp_path / "out.onnx", "--to", "float16", "--min-elements", "1")
    assert "output_of_body" in json.dumps(report)
    assert (tmp_path / "out.onnx").read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    "words, doubts",
    [
        (["cast", "--to", "float16"], ["overflow"]),
        (["cast", "--to", "float16", "--on-overflow", "clip"], []),
        (["quantize"], ["nonfinite"]),
        (["convert"], []),
        (["run", "--pass", "matmulnbits", "--pass", "cast:to=bfloat16,min_elements=8"], ["nonfinite", "overflow"]),
    ],
)
def test_a_dry_run_says_what_it_does_not_look_for(weir, tmp_path, words, doubts):
    """A dry run reads no weight as a whole: it cannot refuse what the run refuses, and says so."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64]) for n in "xy")
    w = np.ones((64, 64), np.float32)
    w[3, 4] = 1e30
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"], "fc"), helper.make_node("Add", ["z", "b"], ["y"])]
    tensors = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.full(64, 3e38, np.float32), "b")]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], tensors), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    command, *options = words
    words = [command, tmp_path / "m.onnx", tmp_path / "o.onnx", *options, "--dry-run"]
    assert weir(*words, "--json").json()["weir"]["not_looked_for"] == doubts
    said = weir(*words).out
    assert ("not checked (a dry run reads only samples)" in said) == bool(doubts)
    assert ("values too large for the new type" in said) == ("overflow" in doubts)
