"""Verification as a pipeline file asks for it: `verify`, `verify_on` and `reference`, for all passes and for each."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.in_memory


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two MatMuls that can be quantized, and an Identity that can go."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(64, 64)).astype(np.float32), name) for name in ("w", "w2")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Identity", ["a"], ["b"], name="between"),
        helper.make_node("Relu", ["b"], ["c"], name="relu"),
        helper.make_node("MatMul", ["c", "w2"], ["y"], name="second"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Runs:
    """`weir run` with a pipeline of that text; what was found, or None where nothing was to be verified."""

    def __init__(self, weir, model, folder):
        self.weir, self.model, self.folder = weir, model, folder
        self.out = folder / "out.onnx"

    def __call__(self, text, *words, code=0):
        (self.folder / "p.yaml").write_text(text)
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        more = ["--force", "--report-json", report, "--no-manifest", *words]
        done = self.weir("run", self.model, self.out, "--config", "p.yaml", *more, code=code, cwd=self.folder)
        done.found = json.loads(report.read_text()).get("verification") if report.exists() else None
        return done


@pytest.fixture
def run(weir, model, tmp_path):
    return Runs(weir, model, tmp_path)


BOTH = "passes:\n  - tidy/identity\n  - quantize\n"
ONE_EACH = "passes:\n  - tidy/identity:\n    verify: {}\n  - quantize:\n    verify: {}\n"


def test_promises_hold(run):
    done = run(BOTH + "verify: promise\n")
    assert done.found["scope"] == "sites" and done.found["passed"] == len(done.found["rows"]) == 3
    assert done.found["left_out"] == 0 and "verified: 3 of 3 sites (100.0 %)" in done.out


@pytest.mark.parametrize(
    "text, why",
    [
        ("equality", "elements differ"),
        ("tolerance", "rtol 1e-05 and atol 1e-08"),
        ("{tolerance: }", "rtol 1e-05 and atol 1e-08"),
        ("{tolerance: {rtol: 1e-3}}", "rtol 0.001 and atol 1e-08"),
        ("{tolerance: {atol: 1e-3, rtol: 0}}", "rtol 0 and atol 0.001"),
        ("{metric: {sqnr: [60, .inf]}}", "SQNR"),
        ("{metric: {cosine: [0.999999, 1]}}", "cosine"),
        ("{metric: {max_abs: [0, 1e-6]}}", "max abs"),
        ("{metric: {cosine: [0.5, 1], mean_abs: [0, 1e-6]}}", "mean abs"),
        ("{metric: {cosine: [0.5, 1]}, tolerance: {rtol: 1e-6}}", "rtol 1e-06"),
    ],
)
@pytest.mark.parametrize("on", ["sites", "model"])
def test_bounds_for_all(run, text, why, on):
    """Bounds that quantization cannot meet are not met, whichever is looked at, and nothing gets its name."""
    run.out.write_bytes(b"as it was")
    done = run(f"{BOTH}verify: {text}\nverify_on: {on}\n", code=1)
    assert "verification failed" in done.err and why in done.err
    assert done.found["failed"] > 0 and done.found["scope"] == on
    assert run.out.read_bytes() == b"as it was"


@pytest.mark.parametrize("on", ["sites", "model"])
def test_bounds_that_are_met(run, on):
    done = run(f"{BOTH}verify: {{metric: {{cosine: [0.9, 1], sqnr: [5, .inf]}}}}\nverify_on: {on}\n")
    assert {row["bounds"] for row in done.found["rows"]} == {"cosine 0.9, SQNR 5 dB"}
    assert done.found["passed"] == len(done.found["rows"]) == (3 if on == "sites" else 2)


def test_each_pass_has_its_own(run):
    """What removes nodes changes nothing; what quantizes does."""
    done = run(ONE_EACH.format("equality", "{metric: {cosine: [0.9, 1]}}"))
    assert sorted(row["bounds"] for row in done.found["rows"]) == ["cosine 0.9", "cosine 0.9", "equal"]
    done = run(ONE_EACH.format("promise", "equality"), code=1)
    assert done.found["failed"] == 2 and done.found["passed"] == 1
    # What a pass says itself counts, not what is said for all.
    done = run(ONE_EACH.format("promise", "promise") + "verify: {tolerance: {rtol: 0, atol: 0}}\n")
    assert done.found["passed"] == 3


def test_each_pass_has_its_own_on_whole_models(run):
    """Behind every pass the model is held against the one before it, by what that pass wants."""
    done = run(ONE_EACH.format("equality", "{metric: {cosine: [0.9, 1]}}") + "verify_on: model\n")
    rows = done.found["rows"]
    assert [(row["of"].split(",")[0], row["bounds"]) for row in rows] == [("tidy/identity", "equal"), ("quantize", "cosine 0.9")]
    assert rows[0]["figures"]["unequal"] == 0 < rows[1]["figures"]["unequal"]
    done = run(ONE_EACH.format("promise", "equality") + "verify_on: model\n", code=1)
    assert [row["status"] for row in done.found["rows"]] == ["passed", "failed"]
    # What one pass is allowed another is not: removing nodes has bounds of its own.
    done = run(ONE_EACH.format("promise", "{metric: {cosine: [0.1, 1]}}") + "verify_on: model\n")
    assert [row["bounds"].split()[0] for row in done.found["rows"]] == ["relative", "cosine"]
    done = run(ONE_EACH.format("off", "promise") + "verify_on: model\n")
    assert [row["of"].split(",")[0] for row in done.found["rows"]] == ["quantize"]


def test_some_are_left_out(run):
    done = run(ONE_EACH.format("equality", "off"))
    assert done.found["passed"] == len(done.found["rows"]) == 1 and done.found["left_out"] == 2
    assert done.out.count("2 left out") == 1
    done = run("passes:\n  - tidy/identity:\n    verify: promise\n  - quantize\n")
    assert done.found["passed"] == 1 and done.found["left_out"] == 2
    # --verify asks of those that say nothing what they promise; off stays off.
    done = run("passes:\n  - tidy/identity:\n    verify: promise\n  - quantize\n", "--verify")
    assert done.found["passed"] == 3 and done.found["left_out"] == 0
    done = run(ONE_EACH.format("equality", "off"), "--verify")
    assert done.found["passed"] == 1 and done.found["left_out"] == 2


def test_nothing_is_asked_for(run):
    assert run(ONE_EACH.format("off", "off")).found is None
    assert run(BOTH + "verify: off\n").found is None
    # But who asks for it is told that nothing was verified.
    done = run(ONE_EACH.format("off", "off"), "--verify", code=1)
    assert "nothing was verified" in done.err and done.found["left_out"] == 3


def test_options_count_for_more(run):
    done = run(BOTH + "verify: equality\n", "--verify-metric", "cosine=0.9")
    assert done.found["passed"] == 3
    done = run(BOTH + "verify: {metric: {cosine: [0.9, 1]}}\n", "--verify=all")
    assert done.found["scope"] == "all" and done.found["passed"] == 4


def test_reference(run, weir, tmp_path):
    """Arrays of a user, for the whole model: .npy, .npz, saved cases; the expected outputs are held against too."""
    x = np.random.default_rng(1).normal(size=(5, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    weir("verify", run.model, run.model, "--inputs", tmp_path / "x.npz", "--save-case", tmp_path / "case")
    text = BOTH + "verify: {metric: {cosine: [0.9, 1]}}\nverify_on: model\nreference: "
    for name in ("x.npy", "x.npz", "case"):
        rows = run(text + name + "\n").found["rows"]
        assert [row["figures"]["elements"] for row in rows] == [5 * 64] * len(rows) and rows
    assert [("tidy/identity" in row["of"], "expected" in row["of"]) for row in rows] == [(i < 2, i % 2 == 0) for i in range(4)]
    assert "nowhere.npz" in run(text + "nowhere.npz\n", code=66).err
    np.savez(tmp_path / "x.npz", y=x)
    assert "no such input" in run(text + "x.npz\n", code=2).err
    done = run(BOTH + "verify: promise\nreference: x.npz\n", code=2)
    assert "needs whole models" in done.err and "verify_on: model" in done.err


@pytest.mark.parametrize(
    "text, said",
    [
        ("verify: sometimes\n", "4:9: 'verify' is equality, tolerance, metric, promise or off"),
        ("verify: {sometimes: 1}\n", "4:10: 'verify' is equality, tolerance, metric, promise or off"),
        ("verify: [equality]\n", "4:9: expected how to verify here, found a list"),
        ("verify: {tolerance: {rtol: much}}\n", "4:28: expected a number here"),
        ("verify: {tolerance: {rtol: .nan}}\n", "4:28: expected a number here"),
        ("verify: {tolerance: {rtol: -1}}\n", "4:28: a tolerance is a number from 0 on"),
        ("verify: {tolerance: {atol: .inf}}\n", "4:28: a tolerance is a number from 0 on"),
        ("verify: {tolerance: {ptol: 1}}\n", "4:22: a tolerance has 'rtol' and 'atol'"),
        ("verify: {tolerance: [1, 2]}\n", "4:21: expected a mapping with 'rtol' and 'atol' here, found a list"),
        ("verify: {metric: {}}\n", "4:19: no metric is named"),
        ("verify: {metric: cosine}\n", "4:18: expected a mapping of metrics here, found a word"),
        ("verify: {metric: {beauty: [0, 1]}}\n", "4:19: there is no metric 'beauty'"),
        ("verify: {metric: {cosine: 1}}\n", "4:27: expected a list of minimum and maximum here, found a word"),
        ("verify: {metric: {cosine: [0.9]}}\n", "4:31: expected a number here"),
        ("verify: {metric: {cosine: [0.9, 1, 2]}}\n", "4:36: expected the end of the list here"),
        ("verify: {metric: {cosine: [2, 3]}}\n", "4:19: the bound of 'cosine' is 2, but the limit is 1"),
        ("verify: {metric: {max_abs: [0, -1]}}\n", "4:19: the bound of 'max_abs' is '-1', which is not a number of at least 0"),
        ("verify: {metric: {max_abs: [0, .inf]}}\n", "4:19: the range of 'max_abs' has no maximum"),
        ("verify: {metric: {sqnr: [-.inf, 20]}}\n", "4:19: the range of 'sqnr' has no minimum"),
        ("verify: !!str promise\n", "4:9: tags are not allowed in a pipeline"),
        ("verify: promise\nverify: off\n", "5:1: a second key 'verify'"),
        ("verify_on: moon\nverify: promise\n", "4:12: 'verify_on' is sites or model"),
        ("verify_on: model\n", "4:1: 'verify_on' has no effect without 'verify'"),
        ("reference: x.npz\n", "4:1: 'reference' has no effect without 'verify'"),
        ("verify: promise\nreference: ''\n", "5:12: expected a file or folder of arrays here"),
        ("verify: promise\nreference: [x]\n", "5:12: expected a file or folder of arrays here, found a list"),
    ],
)
def test_errors_have_their_place(run, text, said):
    done = run(BOTH + text, code=2)
    assert f"p.yaml:{said}" in done.err
    assert not run.out.exists()
    # Of one pass it is read by the same rules, in its own place.
    if text.startswith("verify: ") and text.count("\n") == 1:
        row, column, words = said.split(":", 2)
        done = run(f"passes:\n  - quantize:\n      bits: 8\n    {text}", code=2)
        assert f"p.yaml:{row}:{int(column) + 4}:{words}" in done.err


LOWERED = ["--pass", "lower-conv"]


@pytest.mark.parametrize("steps", [["verify"], ["VerifyTolerance"], ["tidy", "VerifyTolerance"]], ids=" ".join)
def test_functions_go_along(weir, tmp_path, steps):
    """Operators that a pass makes carry functions, which come at the end of the run: a step that looks before has them too, as has a
    model on the way and one of a fault that is looked for."""
    w = np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [1, 3, 6, 6])], [helper.make_tensor_value_info("y", 1, [1, 2, 4, 4])], [numpy_helper.from_array(w, "w")]
    )
    source, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), source)
    passes = [*LOWERED, *(word for step in steps for word in ("--pass", step))]
    weir("run", source, out, *passes)
    assert onnx.load(out).functions
    # A step that is not met fails for its numbers.
    done = weir("run", source, tmp_path / "h.onnx", *LOWERED, "--pass", "cast:to=float16,min_elements=1", "--pass", "VerifyEquality", code=1)
    assert "verification failed" in done.err and "differ" in done.err and "load" not in done.err and not (tmp_path / "h.onnx").exists()
    (tmp_path / "p.yaml").write_text("passes:\n  - lower-conv\n  - cast: {to: float16, min_elements: 1}\nlogging:\n  keep_intermediates: way\nverify: promise\nverify_on: model\n")
    weir("run", source, tmp_path / "h.onnx", "--config", "p.yaml", cwd=tmp_path)
    way = sorted((tmp_path / "way").glob("*.onnx"))
    assert len(way) >= 2 and all(onnx.load(path).functions for path in way)
