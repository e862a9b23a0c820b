"""weir verify, and --verify of the commands that write: the same model, or a clear no.

Whatever is said to be verified was run by ONNX Runtime; what is damaged on purpose must be found.
"""

import json
import os
import re
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from compare import folder_bytes
from conftest import ALL, DATA, built_tool, package_models
from small_models import save, value
from test_preprocess import EXPORTS, MODELS

pytestmark = pytest.mark.in_memory

ENCODER = DATA / "parakeet-dynamo" / "encoder-model.onnx"
BERT = EXPORTS / "bert-eager-torchscript-17.onnx"
CNN = EXPORTS / "cnn-kept-torchscript-17.onnx"


def found(weir, *words, code=0):
    """What `weir verify --json` found."""
    done = weir("verify", *words, "--json", code=code)
    return json.loads(done.out)["verification"]


def found_with(weir, env, *words):
    return json.loads(weir("verify", *words, "--json", env={key: str(value) for key, value in env.items()}).out)["verification"]


def damage(source, to, change):
    """A copy of a model with one thing changed by `change(model)`."""
    model = onnx.load(source)
    change(model)
    onnx.save(model, to)
    return to


# ---- whole models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_optimized_models_are_the_same(weir, tmp_path, path):
    weir("optimize", path, tmp_path / "out.onnx", "--no-manifest")
    of = found(weir, path, tmp_path / "out.onnx", "--metric", "relative=1e-4", "--require", "100%")
    assert of["passed"] == len(of["rows"]) > 0 and of["failed"] == of["not_verified"] == 0
    assert all(row["figures"]["elements"] > 0 for row in of["rows"])


@pytest.mark.parametrize("package", ["rapidocr", "silero_vad", "magika"])
def test_models_of_packages(weir, package):
    for path in list(package_models(package))[: None if ALL else 1]:
        of = found(weir, path, path, "--metric", "max_abs=0", "--require", "100%")
        assert of["passed"] == len(of["rows"]) > 0, path.name


def weight_of(model):
    return max(model.graph.initializer, key=lambda each: len(each.raw_data))


def flip_sign(model):
    weight = weight_of(model)
    raw = bytearray(weight.raw_data)
    at = 4 * int(np.argmax(np.abs(np.frombuffer(weight.raw_data, np.float32)))) + 3
    raw[at] ^= 0x80
    weight.raw_data = bytes(raw)


def test_another_weight_is_found(weir, tmp_path):
    bad = damage(CNN, tmp_path / "bad.onnx", flip_sign)
    done = weir("verify", CNN, bad, "--max-abs", "1e-7", code=1)
    assert "verification failed" in done.err and "max abs" in done.err and "failed" in done.out
    assert "(0.0 %)" in done.out.splitlines()[-1]
    # The same with figures: what differs by little passes a bound that allows it.
    of = found(weir, CNN, bad, "--metric", "cosine=0.1")
    assert of["rows"][0]["figures"]["max_abs"] > 1e-7


def test_figures_are_those_of_numpy(weir, tmp_path):
    """On given inputs, against ONNX Runtime called from Python."""
    bad = damage(CNN, tmp_path / "bad.onnx", flip_sign)
    case = tmp_path / "case"
    weir("verify", CNN, CNN, "--save-case", case)
    inputs = {}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    a, b = (onnxruntime.InferenceSession(str(path), options) for path in (CNN, bad))
    for i, each in enumerate(a.get_inputs()):
        with open(case / "test_data_set_0" / f"input_{i}.pb", "rb") as file:
            inputs[each.name] = numpy_helper.to_array(TensorProto.FromString(file.read()))
    x, y = (np.asarray(session.run(None, inputs)[0], np.float64) for session in (a, b))
    [row] = found(weir, CNN, bad, "--inputs", case, "--metric", "cosine=0")["rows"][-1:]
    figures, difference = row["figures"], np.abs(x - y)
    assert figures["elements"] == x.size
    assert figures["max_abs"] == difference.max()
    assert figures["mean_abs"] == pytest.approx(difference.mean(), rel=1e-12)
    assert figures["cosine"] == pytest.approx(float(x.ravel() @ y.ravel() / np.linalg.norm(x) / np.linalg.norm(y)), rel=1e-12)
    assert figures["sqnr_db"] == pytest.approx(10 * np.log10((x**2).sum() / ((x - y) ** 2).sum()), rel=1e-9)


@pytest.mark.parametrize("op", ["Atan", "Neg"])
def test_last_bits_may_depend_on_the_place(weir, tmp_path, op):
    """ONNX Runtime rounds eight elements of an Atan at a time, the rest in another way: whoever moves them wrote no other model."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[3,3,3] x) => (float[3,3,3] y) { t = %s (x) y = Transpose <perm = [0,2,1]> (t) }'
    source, out, log = (tmp_path / name for name in ("in.onnx", "out.onnx", "log.jsonl"))
    onnx.save(onnx.parser.parse_model(text % op), source)
    weir("run", source, out, "--pass", f"reorder-back/Move{op}PastTranspose", "--edit-log", log, "--no-manifest")
    [row] = found(weir, source, out, "--edits", log, "--require", "100%")["rows"]
    assert row["bounds"] == ("relative error of 3e-05" if op == "Atan" else "equal")
    assert op == "Atan" or row["figures"]["unequal"] == 0

    def turn(model):
        next(node for node in model.graph.node if node.op_type == "Transpose").attribute[0].ints[:] = [0, 1, 2]

    weir("verify", source, damage(out, tmp_path / "bad.onnx", turn), "--edits", log, code=1)


def test_a_case_is_saved_and_taken(weir, tmp_path):
    """The outputs that were saved are expected; another model does not give them."""
    case = tmp_path / "case"
    weir("verify", CNN, CNN, "--save-case", case)
    assert sorted(path.name for path in (case / "test_data_set_0").iterdir()) == ["input_0.pb", "output_0.pb"]
    of = found(weir, CNN, "--inputs", case, "--max-abs", "0")
    assert of["passed"] == len(of["rows"]) == 1
    bad = damage(CNN, tmp_path / "bad.onnx", flip_sign)
    done = weir("verify", bad, "--inputs", case, "--max-abs", "1e-9", code=1)
    assert "verification failed" in done.err
    # What is there is not written over.
    weir("verify", CNN, CNN, "--save-case", case, code=None)
    assert found(weir, CNN, "--inputs", case, "--max-abs", "0")["passed"] == 1


def test_the_same_seed_draws_the_same(weir, tmp_path):
    for name, words in (("a", ()), ("b", ()), ("c", ("--seed", "7"))):
        weir("verify", CNN, CNN, "--save-case", tmp_path / name, *words)
    a, b, c = ((tmp_path / name / "test_data_set_0" / "input_0.pb").read_bytes() for name in "abc")
    assert a == b != c


def test_arrays_of_a_user(weir, tmp_path):
    x = np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(CNN))
    name, shape = session.get_inputs()[0].name, session.get_inputs()[0].shape
    x = np.random.default_rng(0).normal(size=[d if isinstance(d, int) else 2 for d in shape]).astype(np.float32)
    np.savez(tmp_path / "a.npz", **{name: x})
    np.savez_compressed(tmp_path / "b.npz", **{name: x})
    for file in ("a.npz", "b.npz"):
        assert found(weir, CNN, CNN, "--inputs", tmp_path / file)["passed"] > 0
    wrong = {
        "name.npz": ({"other": x}, "no such input"),
        "dtype.npz": ({name: x.astype(np.float64)}, "takes float"),
        "rank.npz": ({name: x[0]}, "dims"),
        "more.npz": ({name: x, "other": x}, "no such input"),
        "none.npz": ({}, "no array"),
    }
    for file, (arrays, words) in wrong.items():
        np.savez(tmp_path / file, **arrays)
        done = weir("verify", CNN, CNN, "--inputs", tmp_path / file, code=2)
        assert words in done.err and file in done.err, file
    (tmp_path / "cut.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-40])
    assert "cut.npz" in weir("verify", CNN, CNN, "--inputs", tmp_path / "cut.npz", code=65).err


def test_copies_for_layers(weir_fault, tmp_path):
    """The model's other version is copied by the system if it can; a copy that fails is told."""
    words = ["verify", CNN, CNN, "--layers"]
    done = weir_fault(*words, env={"WEIR_FAULT": "EIO:copy:1"}, code=74)
    assert "cannot be copied for --layers" in done.err
    faults = ("EIO:copy:1000", "EOPNOTSUPP:copy:1:persist")
    layers = [json.loads(weir_fault(*words, "--json", env={"WEIR_FAULT": fault}).out)["verification"]["layers"] for fault in faults]
    assert layers[0] == layers[1] and layers[0]


def test_layers(weir, tmp_path):
    weir("quantize", BERT, tmp_path / "q.onnx", "--no-manifest")
    of = found(weir, BERT, tmp_path / "q.onnx", "--layers", "--metric", "cosine=0.5")
    assert len(of["layers"]) > 40
    first, last = of["layers"][0]["figures"], of["layers"][-1]["figures"]
    assert first["sqnr_db"] == "Infinity" and last["sqnr_db"] < 60
    done = weir("verify", BERT, tmp_path / "q.onnx", "--layers", "--metric", "cosine=0.5")
    head, *table = done.out.split("layer by layer:\n")[1].split("\n")
    end = next(i for i, line in enumerate(table) if line.startswith("the 10 of "))
    assert end == 11 and table[end] == f"the 10 of {len(of['layers'])} layers where the SQNR drops most from one to the next; --json lists all"
    assert {len(line) for line in table[: end - 1]} == {len(head)} and len(head) <= 100  # columns end where their heads do
    drops = [(b["figures"]["sqnr_db"], a["figures"]["sqnr_db"]) for a, b in zip(of["layers"], of["layers"][1:])]
    drops = [min(float(a), 200) - min(float(b), 200) for b, a in drops]
    worst = sorted(range(len(drops)), key=lambda i: -drops[i])[:10]
    shared = done.out.partition("… stands for ")[2].partition("\n")[0]
    assert [line.split()[0].replace("…", shared) for line in table[: end - 1]] == [of["layers"][i + 1]["node"] for i in sorted(worst)]


def test_a_bound_of_several_rows_is_said_once(weir, tmp_path):
    weir("quantize", BERT, tmp_path / "q.onnx", "--edit-log", tmp_path / "log")
    lines = weir("verify", BERT, tmp_path / "q.onnx", "--edits", tmp_path / "log").out.splitlines()
    rows = [line for line in lines if line.endswith("  passed")]
    assert len(rows) == 12 and lines[14] == "bound: quantize; SQNR of 6 dB (weights of 4 bits)"
    # No line is wider than 100 columns, and columns stand under their heads: what long names begin with alike is said once.
    of = found(weir, BERT, tmp_path / "q.onnx", "--edits", tmp_path / "log")["rows"]
    [shared] = [line.removeprefix("… stands for ") for line in lines if line.startswith("… stands for ")]
    assert max(map(len, lines[:15])) <= 100 and {line.index("  passed") for line in rows} == {lines[0].index("  verdict")}
    assert {line.split()[0].replace("…", shared) for line in rows} == {row["name"] for row in of} and any("…" in line for line in rows)
    # Outputs have their cases beside them.
    weir("verify", BERT, BERT, "--save-case", tmp_path / "case", "--quiet")
    said = weir("verify", BERT, BERT, "--inputs", tmp_path / "case").out
    assert set(re.findall(r"  (passed.*)", said)) == {"passed (test_data_set_0)", "passed (test_data_set_0, expected)"}
    assert "\nbound: relative error of 0.0001\n" in said
    # Of several bounds each has a number; where every row has its own, it stands in the row.
    weir("run", BERT, tmp_path / "r.onnx", "--pass", "quantize:include=*key*", "--pass", "cast:to=float16,min_elements=1000", "--edit-log", tmp_path / "log")
    said = weir("verify", BERT, tmp_path / "r.onnx", "--edits", tmp_path / "log").out
    notes = re.findall(r"^\[(\d+)\] \S.*; \S", said, re.M)
    assert len(notes) > 1 and set(re.findall(r"passed \[(\d+)\]$", said, re.M)) == set(notes), said


# ---- site by site ----------------------------------------------------------------------------------------------------

REWRITES = {
    "conv2matmul": (ENCODER, ["conv2matmul"]),
    "quantize": (ENCODER, ["quantize"]),
    "qdq": (BERT, ["quantize", "--format", "qdq", "--opset", "auto"]),
    "shrink": (BERT, ["shrink", "--min-elements", "256"]),
    "cast": (BERT, ["cast", "--to", "float16"]),
    "optimize": (BERT, ["optimize"]),
    "attention": (BERT, ["optimize", "--opset", "23"]),
    "onnxruntime": (BERT, ["optimize", "--goal", "onnxruntime"]),
    "onnxruntime-encoder": (ENCODER, ["optimize", "--goal", "onnxruntime"]),
    "preprocess": (CNN, ["preprocess"]),
}


@pytest.mark.parametrize("name", REWRITES)
def test_sites(weir, tmp_path, name):
    """Every site of every kind of rewrite can be verified, while it is written and from its log."""
    model, [command, *words] = REWRITES[name]
    log, report = tmp_path / "edits.jsonl", tmp_path / "report.json"
    out = ["--output", tmp_path / "out.onnx"] if command == "shrink" else [tmp_path / "out.onnx"]
    weir(command, model, *out, *words, "--edit-log", log, "--verify", "--verify-require", "100%", "--report-json", report)
    of = json.loads(report.read_text())["verification"]
    assert of["passed"] == len(of["rows"]) > 0 and of["scope"] == "sites"
    again = found(weir, model, "--edits", log, "--require", "100%")
    assert [row["name"] for row in again["rows"]] == [row["name"] for row in of["rows"]]
    assert found(weir, model, tmp_path / "out.onnx", "--edits", log, "--require", "100%")["passed"] == of["passed"]


def test_weights_of_few_values(weir, tmp_path):
    """They keep their type, so that what they are is not to be seen in the output."""
    words = ["--method", "float_weights", "--min-elements", "256", "--verify=all", "--report-json", tmp_path / "r.json", "--force"]
    weir("verify", BERT, BERT, "--save-case", tmp_path / "case")
    for more, whole in (([], "not_judged"), (["--verify-inputs", tmp_path / "case"], "passed")):
        weir("shrink", BERT, "--output", tmp_path / "out.onnx", *words, *more)
        rows = [row for row in json.loads((tmp_path / "r.json").read_text())["verification"]["rows"] if "expected" not in row["of"]]
        assert {row["status"] for row in rows[:-1]} == {"passed"} and rows[-1]["status"] == whole
        assert 0 < rows[-1]["figures"]["relative"] and "SQNR of 10 dB" in rows[-1]["bounds"]


def test_constants_that_are_infinite(weir, tmp_path):
    """What a site of constants gives is all that there is of it: an infinity that stays one is no lack of numbers."""
    path, log = tmp_path / "m.onnx", tmp_path / "edits.jsonl"
    fill = helper.make_node("Constant", [], ["fill"], value=numpy_helper.from_array(np.full(3, -np.inf, np.float32)), name="fill")
    nodes = [fill, helper.make_node("Max", ["x", "fill"], ["y"], name="max")]
    onnx.save(model_of(nodes, [value("x", [3])], [value("y", [3])]), path)
    weir("optimize", path, tmp_path / "out.onnx", "--edit-log", log, "--verify", "--verify-require", "100%")
    assert found(weir, path, "--edits", log)["passed"] > 0


def test_some_sites(weir, tmp_path):
    log = tmp_path / "edits.jsonl"
    weir("quantize", ENCODER, tmp_path / "out.onnx", "--edit-log", log)
    all_of = found(weir, ENCODER, "--edits", log)
    three = found(weir, ENCODER, "--edits", log, "--sites", "3")
    assert len(three["rows"]) == 3 < len(all_of["rows"])
    assert three["left_out"] == len(all_of["rows"]) - 3 and all_of["left_out"] == 0
    # A pattern that fits nothing has not shown anything.
    done = weir("verify", ENCODER, "--edits", log, "--sites", "no such *", code=1)
    assert f"none of the {len(all_of['rows'])} sites" in done.err and "left out" in done.out
    by_name = found(weir, ENCODER, "--edits", log, "--sites", f"*{all_of['rows'][0]['name'][-12:]}")
    assert 1 <= len(by_name["rows"]) < len(all_of["rows"])


def test_the_same_is_found_by_several_processes(weir, tmp_path):
    """Rows in the order of sites and every figure, of one process and of two; none is left behind."""
    log, out = tmp_path / "edits.jsonl", tmp_path / "out.onnx"
    weir("optimize", BERT, out, "--edit-log", log, "--no-manifest")
    one, two = (found(weir, BERT, out, "--edits", log, "--jobs", jobs)["rows"] for jobs in ("1", "2"))
    assert one == two and len(one) > 20
    before = {each.name for each in onnx.load(BERT).graph.initializer}

    def change(model):
        for weight in model.graph.initializer:
            if weight.name not in before and weight.data_type == TensorProto.FLOAT and len(weight.raw_data) > 1000:
                raw = bytearray(weight.raw_data)
                raw[3] ^= 0x80
                weight.raw_data = bytes(raw)

    bad = damage(out, tmp_path / "bad.onnx", change)
    failed = [
        [row["name"] for row in found(weir, BERT, bad, "--edits", log, "--jobs", jobs, code=1)["rows"] if row["status"] == "failed"]
        for jobs in ("1", "2")
    ]
    assert failed[0] == failed[1] != []


def test_a_damaged_output_is_found_by_its_site(weir, tmp_path):
    log, out = tmp_path / "edits.jsonl", tmp_path / "out.onnx"
    weir("conv2matmul", ENCODER, out, "--edit-log", log, "--inline", "--no-manifest")
    before = {each.name for each in onnx.load(ENCODER).graph.initializer}

    def change(model):
        weight = next(each for each in model.graph.initializer if each.name not in before and each.data_type == TensorProto.FLOAT)
        raw = bytearray(weight.raw_data)
        raw[3] ^= 0x80
        weight.raw_data = bytes(raw)

    bad = damage(out, tmp_path / "bad.onnx", change)
    done = weir("verify", ENCODER, bad, "--edits", log, code=1)
    assert "verification failed" in done.err and "(conv2matmul)" in done.err
    assert done.out.count("failed") >= 1 and "5 of 6 sites" in done.out


# ---- commands that write ---------------------------------------------------------------------------------------------


def test_nothing_gets_its_name_that_failed(weir, tmp_path):
    before = sorted(os.listdir(tmp_path))
    for scope in ("sites", "model"):
        done = weir("quantize", BERT, tmp_path / "q.onnx", f"--verify={scope}", "--verify-max-abs-threshold", "0", code=1)
        assert "verification failed" in done.err
        assert sorted(os.listdir(tmp_path)) == before


def test_in_place_is_compared_with_the_original(weir, tmp_path):
    model = tmp_path / "m.onnx"
    shutil.copy(BERT, model)
    weir("quantize", model, "--inplace", "--verify=model", "--verify-max-abs-threshold", "0", code=1)
    assert model.read_bytes() == BERT.read_bytes()
    weir("quantize", model, "--inplace", "--verify=all", "--verify-metric", "cosine=0.9")
    assert model.read_bytes() != BERT.read_bytes()


def test_without_a_runtime(weir, tmp_path):
    nowhere = {"WEIR_ONNXRUNTIME": "", "VIRTUAL_ENV": "", "PATH": "/nonexistent", "HOME": str(tmp_path)}
    done = weir("quantize", BERT, tmp_path / "q.onnx", "--verify", code=69, env=nowhere)
    assert "pip install onnxruntime" in done.err and not (tmp_path / "q.onnx").exists()
    done = weir("verify", BERT, BERT, code=69, env=nowhere)
    assert "pip install onnxruntime" in done.err


def test_the_runtime_tells_nobody(weir, tmp_path):
    """ONNX Runtime from 1.29 on reports the models that it opens to its makers, and leaves a file of that session where temporary
    files go: not when weir runs it, whatever the user's environment says."""
    env = {"TMPDIR": tmp_path, "HOME": tmp_path, "XDG_CACHE_HOME": tmp_path, "ORT_DISABLE_TELEMETRY": "0", "CI": ""}
    assert found_with(weir, env, CNN, CNN)["passed"] > 0
    assert os.listdir(tmp_path) == []


def test_options_go_together(weir, tmp_path):
    for words, said in (
        (["verify", BERT], "nothing to compare"),
        (["verify", BERT, BERT, "--sites", "3"], "--edits"),
        (["verify", BERT, BERT, "--rtol", "-1"], "number from 0"),
        (["verify", BERT, BERT, "--metric", "beauty=1"], "beauty"),
        (["verify", BERT, BERT, "--shape", "1x2"], "NAME=SHAPE"),
        (["verify", BERT, BERT, "--lengths", "4,x"], "whole numbers"),
        (["verify", BERT, BERT, "--require", "lots"], "100%"),
        (["verify", BERT, BERT, "--inputs", "x.npz", "--lengths", "3"], "when inputs are given"),
        (["verify", BERT, BERT, "--inputs", "x.npz", "--shape", "x=3"], "when inputs are given"),
        (["verify", BERT, "--edits", "x.jsonl", "--lengths", "3", "--lengths", "4"], "one length"),
        (["quantize", BERT, tmp_path / "q.onnx", "--verify-seed", "3"], "without --verify"),
        (["quantize", BERT, tmp_path / "q.onnx", "--verify", "--verify-inputs", "x.npz"], "needs whole models"),
    ):
        assert said in weir(*words, code=2).err, words


def test_what_cannot_be_drawn_names_the_way_out(weir, tmp_path):
    """An input without a shape: both ways that the hint names are ways out."""
    source, out, log = tmp_path / "m.onnx", tmp_path / "o.onnx", tmp_path / "log"
    unranked = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    save(source, [helper.make_node("Conv", ["x", "w"], ["y"])], unranked[:1], unranked[1:], {"w": np.ones((8, 8, 1, 1), np.float32)})
    for scope in ("--verify", "--verify=model"):
        said = weir("conv2matmul", source, out, scope, code=1).err
        assert "its rank is not known" in said and "hint: --verify-shape INPUT=SHAPE sets" in said and "--verify=model --verify-inputs DIR runs" in said
        assert "verified: " in weir("conv2matmul", source, out, scope, "--verify-shape", "x=1x8x4x4", "--force", "--edit-log", log).out
        out.unlink()
    np.savez(tmp_path / "x.npz", x=np.ones((1, 8, 4, 4), np.float32))
    weir("conv2matmul", source, out, "--verify=model", "--verify-inputs", tmp_path / "x.npz", "--force")
    said = weir("verify", source, out, "--edits", log, code=1).err
    assert "hint: --shape INPUT=SHAPE sets" in said and "without --edits, --inputs DIR runs" in said
    weir("verify", source, out, "--edits", log, "--shape", "x=1x8x4x4")
    weir("verify", source, out, "--inputs", tmp_path / "x.npz")


def test_conv2matmul_as_its_users_know_it(weir, tmp_path):
    """The options of onnx-conv2matmul, its closing line, and its five lengths."""
    words = ["--verify", "--verify-lengths", "64,80", "--verify-rtol", "1e-4", "--verify-atol", "1e-4", "--verify-deterministic-cpu"]
    done = weir("conv2matmul", ENCODER, tmp_path / "out.onnx", *words, "--strict-compat")
    [line] = [line for line in done.out.splitlines() if line.startswith("verify_ok=")]
    assert re.fullmatch(r"verify_ok=True( max(_mean|_p99|_p999)?_abs=\d\.\d{9}e[-+]\d\d){4} seed=102 lengths=64,80", line), line
    report = tmp_path / "report.json"
    weir("conv2matmul", ENCODER, tmp_path / "b.onnx", "--verify", "--verify-seed", "7", "--report-json", report)
    of = json.loads(report.read_text())["verification"]
    assert of["scope"] == "model" and of["seed"] == 7
    assert {row["of"] for row in of["rows"]} == {f"length {n}" for n in (64, 80, 97, 128, 191)}
    weir("conv2matmul", ENCODER, tmp_path / "c.onnx", "--verify", "--report-json", report)
    assert json.loads(report.read_text())["verification"]["scope"] == "sites"


# ---- what cannot be verified -----------------------------------------------------------------------------------------


def model_of(nodes, inputs, outputs, initializers=(), **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)], ir_version=8, **more)


def test_never_a_good_word_for_what_was_not_run(weir, tmp_path):
    """An operator that the runtime lacks: the reason is said, and the exit code is 1."""
    custom = tmp_path / "custom.onnx"
    nodes = [helper.make_node("Mystery", ["x"], ["a"], domain="custom", name="strange"), helper.make_node("Identity", ["a"], ["y"])]
    onnx.save(model_of(nodes, [value("x", [2])], [value("y", [2])]), custom)
    done = weir("verify", custom, custom, code=1)
    assert "nothing could be verified" in done.err and "Mystery" in done.err
    assert "0 of 1" in done.out
    # It is that for every length, not a model that was never opened.
    rows = found(weir, custom, custom, "--lengths", "3", "--lengths", "4,5", code=1)["rows"]
    assert [row["status"] for row in rows] == ["not_verified"] * 3 and all("Mystery" in row["why"] for row in rows)


def test_a_runtime_that_never_answers(weir, tmp_path):
    """It is waited for a few times, not once for each site."""
    weights = [numpy_helper.from_array(np.ones((32, 32), np.float32) * (i + 1), f"w{i}") for i in range(9)]
    names = [*(f"x{i}" for i in range(9)), "y"]  # as the stub calls its output
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]], name=f"mm{i}") for i in range(9)]
    onnx.save(model_of(nodes, [value("x0", [1, 32])], [value("y", [1, 32])], weights), tmp_path / "m.onnx")
    log = tmp_path / "edits.jsonl"
    weir("quantize", tmp_path / "m.onnx", tmp_path / "q.onnx", "--edit-log", log)
    env = {"WEIR_ONNXRUNTIME": str(built_tool("libort_stub.so")), "WEIR_ORT_STUB": "abort@Run"}
    done = weir("verify", tmp_path / "m.onnx", "--edits", log, "--json", "--jobs", "1", code=1, env=env)
    why = [row["why"] for row in json.loads(done.out)["verification"]["rows"]]
    assert len(why) == 9 and ["SIGABRT" in each for each in why] == [i < 4 for i in range(9)] and "not started again" in why[4]
    # A model that did not run is nothing to compare with: the other is not run.
    env["WEIR_ORT_STUB"] = "hang@Run"
    done = weir("verify", tmp_path / "m.onnx", tmp_path / "q.onnx", "--runtime-timeout", "1", code=1, env=env)
    assert "the source does not run" in done.err and "timed out" in done.err


def test_outputs_are_paired_by_name(weir, tmp_path):
    """By place only where one was renamed; an output that nothing was compared with is no verified one."""

    def model(file, **ops):
        return save(tmp_path / file, [helper.make_node(op, ["x"], [name]) for name, op in ops.items()], [value("x", [4, 3])], [value(name, [4, 3]) for name in ops], {})

    source = model("m.onnx", p="Relu", q="Relu")
    done = weir("verify", source, model("shifted.onnx", q="Relu", z="Neg"), code=1)
    assert "'p': the result has no such output" in done.err and "not verified  'z': the source has no such output" in done.out
    assert "verified: 1 of 3 outputs (33.3 %)" in done.out
    more = model("more.onnx", p="Relu", z="Neg", q="Relu")
    assert "verified: 2 of 3 outputs (66.7 %), 1 not verified" in weir("verify", source, more).out
    weir("verify", source, more, "--require", "100%", code=1)
    assert "verified: 2 of 2 outputs (100.0 %)" in weir("verify", source, model("turned.onnx", q="Relu", p="Relu")).out
    assert "verified: 2 of 2 outputs (100.0 %)" in weir("verify", source, model("renamed.onnx", p="Relu", r="Relu")).out
    weir("verify", source, model("wrong.onnx", p="Relu", r="Neg"), code=1)
    weir("verify", more, source, code=1)


def test_inputs_that_cannot_be_drawn(weir, tmp_path):
    """A sequence: the whole model is not verified, with that reason, and what can be looked at is."""
    listed = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [3])
    nodes = [helper.make_node("Identity", ["s"], ["s1"]), helper.make_node("Identity", ["f"], ["f1"])]
    nodes += [helper.make_node("SequenceLength", ["s1"], ["n"]), helper.make_node("Neg", ["f1"], ["y"])]
    path, report = tmp_path / "m.onnx", tmp_path / "r.json"
    ends = [value("n", [], TensorProto.INT64), value("y", [3])]
    onnx.save(model_of(nodes, [listed, value("f", [3])], ends), path)
    done = weir("optimize", path, tmp_path / "out.onnx", "--verify=all", "--report-json", report)
    rows = json.loads(report.read_text())["verification"]["rows"]
    assert {row["status"] for row in rows if "sequence" in (row["why"] or "")} == {"not_verified"} and rows[-1]["name"] == "outputs"
    assert "--verify-inputs" in rows[-1]["why"]
    assert "not verified" in done.out.splitlines()[-2]
    assert "sequence" in weir("verify", path, path, code=1).err


def test_strings_are_drawn(weir, tmp_path):
    """Words of the tables that look them up, and others; numbers where they are read as such."""
    colours = [f"colour {i}" for i in range(3)]
    encoder = {"domain": "ai.onnx.ml", "keys_strings": colours, "default_int64": 0}
    nodes = [
        helper.make_node("Reshape", ["s", "flat"], ["r"]),
        helper.make_node("LabelEncoder", ["r"], ["e"], values_int64s=[1, 2, 3], **encoder),
        helper.make_node("Identity", ["e"], ["y"]),
        helper.make_node("Cast", ["t"], ["z"], to=TensorProto.FLOAT),
    ]
    inputs = [value("s", ["n", 2], TensorProto.STRING), value("t", [4], TensorProto.STRING)]
    tensors = [numpy_helper.from_array(np.array([-1]), "flat")]
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]

    def model(name, *labels):
        nodes[1].attribute[[a.name for a in nodes[1].attribute].index("values_int64s")].ints[:] = labels
        graph = helper.make_graph(nodes, "g", inputs, [value("y", [None], TensorProto.INT64), value("z", [4])], tensors)
        onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=8), tmp_path / name)
        return tmp_path / name

    source, other = model("m.onnx", 1, 2, 3), model("other.onnx", 1, 2, 7)
    weir("optimize", source, tmp_path / "o.onnx", "--verify=all")
    assert "2 of 2 outputs (100.0 %)" in weir("verify", source, tmp_path / "o.onnx").out
    assert "'y': 15 of 32 elements differ" in weir("verify", source, other, code=1).err  # the third word was drawn


@pytest.mark.parametrize("pad", [0, 200])
def test_lengths_that_an_audio_front_end_takes(weir, tmp_path, pad):
    """The signal is as long as a frame of the STFT, and longer than what a Pad reflects of it."""
    nodes = [
        helper.make_node("Unsqueeze", ["audio", "one"], ["a"]),
        helper.make_node("Pad", ["a", "pads"], ["p"], mode="reflect"),
        helper.make_node("Squeeze", ["p", "one"], ["q"]),
        helper.make_node("STFT", ["q", "step", "window", "frame"], ["s"], onesided=1),
        helper.make_node("ReduceSumSquare", ["s"], ["y"], keepdims=0, axes=[-1]),
    ]
    numbers = {"one": [1], "pads": [0, 0, pad, 0, 0, pad], "step": 160, "frame": 400}
    tensors = [numpy_helper.from_array(np.array(x), name) for name, x in numbers.items()]
    tensors.append(numpy_helper.from_array(np.hanning(400).astype(np.float32), "window"))
    path = tmp_path / "m.onnx"
    onnx.save(model_of(nodes, [value("audio", ["b", "samples"])], [value("y", ["b", "t", 201])], tensors), path)
    said = weir("verify", path, path).out
    assert "1 of 1 output (100.0 %)" in said and "samples=" in said


def test_outputs_of_nothing(weir, tmp_path):
    """No elements, or no outputs: there is nothing that could differ, so nothing is shown."""
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(model_of([node], [value("x", [0, 4])], [value("y", [0, 4])]), tmp_path / "empty.onnx")
    onnx.save(model_of([node], [value("x", [4])], []), tmp_path / "none.onnx")
    for name, said in (("empty", "no elements"), ("none", "no outputs")):
        done = weir("verify", tmp_path / f"{name}.onnx", tmp_path / f"{name}.onnx", code=1)
        assert said in done.err and "(0.0 %)" in done.out.splitlines()[-1], name
    case = tmp_path / "case"
    weir("verify", tmp_path / "empty.onnx", tmp_path / "empty.onnx", "--save-case", case, code=1)
    assert "no elements" in weir("verify", tmp_path / "empty.onnx", "--inputs", case, code=1).err


def test_outputs_that_are_not_finite(weir, tmp_path):
    """A source that gives NaN is no reference; a result that does where the source does not has failed, and the place is said."""
    log_of = [helper.make_node("Sub", ["x", "big"], ["a"]), helper.make_node("Log", ["a"], ["y"])]
    big, small = (numpy_helper.from_array(np.float32(v), "big") for v in (100, -100))
    for name, constant in (("nan", big), ("fine", small)):
        onnx.save(model_of(log_of, [value("x", [4])], [value("y", [4])], [constant]), tmp_path / f"{name}.onnx")
    done = weir("verify", tmp_path / "nan.onnx", tmp_path / "nan.onnx", code=1)
    assert "no finite number" in done.err
    done = weir("verify", tmp_path / "fine.onnx", tmp_path / "nan.onnx", code=1)
    assert "verification failed" in done.err and "finite" in done.err
    [row] = found(weir, tmp_path / "fine.onnx", tmp_path / "nan.onnx", code=1)["rows"]
    assert row["figures"]["nonfinite_apart"] == 4 and row["figures"]["nonfinite_apart_at"] == 0


def test_outputs_of_another_shape(weir, tmp_path):
    for name, axis in (("a", 0), ("b", 1)):
        node = helper.make_node("Concat", ["x", "x"], ["y"], axis=axis)
        onnx.save(model_of([node], [value("x", [2, 3])], [value("y", None)]), tmp_path / f"{name}.onnx")
    done = weir("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", code=1)
    assert "float[4,3]" in done.err and "float[2,6]" in done.err


# ---- initializers that callers may override ----------------------------------------------------------------------------


@pytest.fixture
def overridable(tmp_path):
    """x · a · b, of which a and b are inputs with elements of their own."""
    weights = [numpy_helper.from_array(np.float32(each), name) for name, each in (("a", [1.5, 2, 0.5]), ("b", [2, 4, 8]))]
    nodes = [helper.make_node("Mul", ["x", "a"], ["h"]), helper.make_node("Mul", ["h", "b"], ["y"])]
    onnx.save(model_of(nodes, [value(name, [3]) for name in "xab"], [value("y", [3])], weights), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("how", ["sites", "model", "all"])
@pytest.mark.parametrize("words", [["run", "--pass", "inputs-are-constant", "--pass", "GroupMul", "--pass", "fold-constants"], ["optimize", "--inputs-are-constant"]], ids=["passes", "optimize"])
def test_elements_of_initializers_that_are_inputs(weir, tmp_path, overridable, how, words):
    """What is right for their own elements is right, though it is not for others."""
    log = tmp_path / "log.jsonl"
    weir(words[0], overridable, tmp_path / "o.onnx", *words[1:], f"--verify={how}", "--verify-require", "100%", "--edit-log", log)
    assert found(weir, overridable, tmp_path / "o.onnx", "--edits", log)["passed"] > 0

    def change(model):
        weight = model.graph.initializer[0]
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.25), weight.name))

    bad = damage(tmp_path / "o.onnx", tmp_path / "bad.onnx", change)
    weir("verify", overridable, bad, code=1)
    weir("verify", overridable, bad, "--edits", log, code=1)


def test_initializers_that_are_inputs_may_be_given(weir, tmp_path, overridable):
    x, a = np.float32([1, 2, 3]), np.float32([3, 3, 3])
    np.savez(tmp_path / "own.npz", x=x)
    np.savez(tmp_path / "given.npz", x=x, a=a)
    for name, y in (("own", [3, 16, 12]), ("given", [6, 24, 72])):
        weir("verify", overridable, overridable, "--inputs", tmp_path / f"{name}.npz", "--save-case", tmp_path / name)
        with open(tmp_path / name / "test_data_set_0" / "output_0.pb", "rb") as file:
            assert numpy_helper.to_array(TensorProto.FromString(file.read())).tolist() == y
    # A result of which it is a constant is not that model any more.
    weir("run", overridable, tmp_path / "o.onnx", "--pass", "inputs-are-constant")
    weir("verify", overridable, tmp_path / "o.onnx", "--inputs", tmp_path / "own.npz")
    assert "the result does not run" in weir("verify", overridable, tmp_path / "o.onnx", "--inputs", tmp_path / "given.npz", code=1).err


# ---- what no edit is about ---------------------------------------------------------------------------------------------


@pytest.fixture
def logged(weir, tmp_path):
    """A model, and what quantizing its two products made of it: the output, and the log."""
    rng = np.random.default_rng(5)
    arrays = {"w": rng.normal(size=(64, 32)), "w2": rng.normal(size=(32, 32)), "bias": rng.normal(size=32), "g": np.ones(32)}
    weights = [numpy_helper.from_array(each.astype(np.float32), name) for name, each in arrays.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Add", ["a", "bias"], ["b"], name="add"),
        helper.make_node("Relu", ["b"], ["c"], name="relu"),
        helper.make_node("LayerNormalization", ["c", "g"], ["d"], name="norm", epsilon=1e-5),
        helper.make_node("MatMul", ["d", "w2"], ["y"], name="second"),
    ]
    onnx.save(model_of(nodes, [value("x", ["batch", 64])], [value("y", ["batch", 32])], weights), tmp_path / "m.onnx")
    words = ["--block-size", "32", "--edit-log", tmp_path / "log.jsonl"]
    weir("quantize", tmp_path / "m.onnx", tmp_path / "o.onnx", *words)
    return tmp_path / "m.onnx", tmp_path / "o.onnx", tmp_path / "log.jsonl"


def alter(name, change):
    def altered(model):
        weight = named(model, name)
        array = numpy_helper.to_array(weight).copy()
        weight.CopyFrom(numpy_helper.from_array(change(array), name))

    return altered


def one_element(array):
    array.ravel()[7] *= np.float32(1 + 2**-23)
    return array


def named(model, name):
    return next(each for each in model.graph.initializer if each.name == name)


def a_function():
    return helper.make_function("own", "Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 21)])


def attribute(model):
    next(node for node in model.graph.node if node.name == "norm").attribute[0].f = 1e-4


def declared(model):
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 33


UNTOUCHED = {
    "an ulp of a bias": (alter("bias", one_element), "tensor 'bias'"),
    "a constant of another type": (alter("g", lambda array: array.astype(np.float64)), "tensor 'g'"),
    "a constant of other dims": (alter("g", lambda array: array.reshape(1, 32)), "tensor 'g'"),
    "an attribute": (attribute, "norm"),
    "an attribute more": (lambda model: model.graph.node[2].attribute.append(helper.make_attribute("beta", 1.0)), "relu"),
    "an opset": (lambda model: setattr(model.opset_import[0], "version", 18), "opset"),
    "an output": (declared, "output 'y'"),
    "an initializer more": (lambda model: model.graph.initializer.append(numpy_helper.from_array(np.ones(3), "more")), "tensor 'more'"),
    "a name of a node": (lambda model: setattr(model.graph.node[2], "name", "another"), "node 'relu'"),
    "a text of a node": (lambda model: setattr(model.graph.node[2], "doc_string", "another"), "node 'relu'"),
    "a text of a tensor": (lambda model: setattr(named(model, "bias"), "doc_string", "another"), "tensor 'bias'"),
    "a text of the graph": (lambda model: setattr(model.graph, "doc_string", "another"), "graph 'g'"),
    "the graph's name": (lambda model: setattr(model.graph, "name", "another"), "graph name of the model"),
    "a declared type": (lambda model: model.graph.value_info.append(value("c", [7, 32])), "value_info 'c'"),
    "ir_version": (lambda model: setattr(model, "ir_version", 9), "ir_version of the model"),
    "producer_name": (lambda model: setattr(model, "producer_name", "another"), "producer_name of the model"),
    "producer_version": (lambda model: setattr(model, "producer_version", "another"), "producer_version of the model"),
    "domain": (lambda model: setattr(model, "domain", "another"), "domain of the model"),
    "model_version": (lambda model: setattr(model, "model_version", 2**40), "model_version of the model"),
    "doc_string": (lambda model: setattr(model, "doc_string", "another"), "doc_string of the model"),
    "metadata": (lambda model: model.metadata_props.add(key="k", value="v"), "metadata 'k'"),
    "a dim's name that reads like the dim": (lambda model: model.graph.output[0].CopyFrom(value("y", ["batch", "32"])), "output 'y'"),
    "a denotation": (lambda model: setattr(model.graph.input[0].type, "denotation", "IMAGE"), "input 'x'"),
    "a text of an input": (lambda model: setattr(model.graph.input[0], "doc_string", "another"), "input 'x'"),
    "metadata of an output": (lambda model: model.graph.output[0].metadata_props.add(key="k", value="v"), "output 'y'"),
    "a declared type of no value": (lambda model: model.graph.value_info.append(value("ghost", [7])), "value_info 'values that no node produces'"),
    "an opset twice": (lambda model: model.opset_import.append(helper.make_opsetid("", 18)), "opset"),
    "a function": (lambda model: model.functions.append(a_function()), "function 'own.Twice'"),
    "training": (lambda model: model.training_info.add(), "training 'steps'"),
    "a field that nobody knows": (lambda model: model.MergeFromString(b"\xa2\x1f\x01x"), "other fields of the model"),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_no_edit_is_about(weir, tmp_path, logged, name):
    source, out, log = logged
    change, place = UNTOUCHED[name]
    bad = damage(out, tmp_path / "bad.onnx", change)
    done = weir("verify", source, bad, "--edits", log, code=1)
    assert "no edit explains these differences from SRC (m.onnx): the " in done.out and place in done.out
    assert place in done.err or "the part after the change does not run" in done.err  # which a site says first
    said = json.loads(weir("verify", source, bad, "--edits", log, "--json", code=1).out)
    assert said["verification"]["rest"]["differing"] == 1 and place in said["verification"]["rest"]["first"] and said["error"]["code"] == 1


def test_what_no_edit_is_about_and_is_as_it_was(weir, tmp_path, logged):
    """The control, also of an output whose weights lie elsewhere."""
    source, out, log = logged
    assert "everything that no edit changes is the same as in SRC (m.onnx)\n" in weir("verify", source, out, "--edits", log).out
    assert found(weir, source, out, "--edits", log)["rest"] == {"differing": 0, "first": None}
    weir("convert", out, tmp_path / "split.onnx", "--external")
    assert found(weir, source, tmp_path / "split.onnx", "--edits", log)["rest"]["differing"] == 0
    # Without an output there is nothing that could be otherwise.
    assert found(weir, source, "--edits", log)["rest"] is None
    # What edits are about is for sites.
    bad = damage(out, tmp_path / "bad.onnx", lambda model: flip_sign_of_scale(model))
    done = weir("verify", source, bad, "--edits", log, code=1)
    assert "no edit changes is the same as in SRC" in done.out and "caused by group" in done.out


LONG = "x" * 10000


def odd_places():
    """A model with tensors wherever there may be some, beside a product that is quantized; and long texts."""
    ones = np.ones(900, np.float32)
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(ones, "s"), numpy_helper.from_array(np.arange(900), "s_i"), [1024])
    table = helper.make_node("LabelEncoder", ["i"], ["l"], "table", domain="ai.onnx.ml",
                             keys_tensor=numpy_helper.from_array(np.arange(900), "k"), values_tensor=numpy_helper.from_array(ones, "v"))  # fmt: skip
    held = helper.make_node("Constant", [], ["held"], "held", sparse_value=helper.make_sparse_tensor(numpy_helper.from_array(ones, ""), numpy_helper.from_array(np.arange(900), ""), [1024]))
    strings = helper.make_node("Constant", [], ["strings"], "strings", value_strings=[LONG, "b"])
    listed = helper.make_node("Own", ["x"], ["o"], "listed", domain="own", tensors=[numpy_helper.from_array(ones, "0"), numpy_helper.from_array(ones, "1")], text=LONG * 10)
    inner = [helper.make_node("Constant", [], ["deep"], "deep", value=numpy_helper.from_array(ones, "d")), helper.make_node("ReduceSum", ["deep"], ["sum"])]
    branch = helper.make_graph(inner, "b", [], [helper.make_tensor_value_info("sum", TensorProto.FLOAT, None)])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]), table, held, strings, listed,
        helper.make_node("Identity", ["texts"], ["t"]), helper.make_node("If", ["c"], ["r"], then_branch=branch, else_branch=branch),
    ]  # fmt: skip
    texts = helper.make_tensor("texts", TensorProto.STRING, [2], [LONG.encode(), b"b"])
    weights = [numpy_helper.from_array(np.random.default_rng(1).normal(size=(32, 32)).astype(np.float32), "w"), texts]
    inputs = [value("x", [1, 32]), helper.make_tensor_value_info("i", TensorProto.INT64, [2]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    outputs = [value("y", [1, 32]), value("l", [2]), helper.make_tensor_value_info("t", TensorProto.STRING, [2])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights, sparse_initializer=[sparse]), ir_version=10, doc_string=LONG,
                              opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("own", 1)])  # fmt: skip
    twice = a_function()
    twice.attribute_proto.append(helper.make_attribute("v", numpy_helper.from_array(ones, "f")))
    model.functions.append(twice)
    step = helper.make_graph([helper.make_node("Constant", [], ["u"], "u", value=numpy_helper.from_array(ones, "t"))], "step", [], [value("u", [900])])
    model.training_info.add(algorithm=step).update_binding.add(key="w", value="u")
    return model


def in_node(name, attribute):
    """The attribute of a node of the main graph."""
    return lambda model: next(each for each in next(node for node in model.graph.node if node.name == name).attribute if each.name == attribute)


def last_bit(tensor):
    def change(model):
        array = numpy_helper.to_array(tensor(model)).copy()
        array.view(np.uint8)[-4 if array.dtype == np.float32 else 0] ^= 1
        tensor(model).raw_data = array.tobytes()

    return change


def of_branch(model):
    return next(node for node in model.graph.node if node.op_type == "If").attribute[1].g.node[0].attribute[0].t


def set_string(tensor, text):
    return lambda model: tensor(model).string_data.__setitem__(0, text)


ODD_PLACES = {
    "values of a sparse initializer": (last_bit(lambda model: model.graph.sparse_initializer[0].values), "tensor 's'"),
    "places of a sparse initializer": (last_bit(lambda model: model.graph.sparse_initializer[0].indices), "tensor 's_i'"),
    "dims of a sparse initializer": (lambda model: model.graph.sparse_initializer[0].dims.__setitem__(0, 1025), "tensor 's'"),
    "no sparse initializer": (lambda model: model.graph.ClearField("sparse_initializer"), "tensor 's'"),
    "keys of a table": (last_bit(lambda model: in_node("table", "keys_tensor")(model).t), "node 'table'"),
    "values of a table": (last_bit(lambda model: in_node("table", "values_tensor")(model).t), "tensor 'v'"),
    "a sparse attribute": (last_bit(lambda model: in_node("held", "sparse_value")(model).sparse_tensor.values), "attribute 'sparse_value' of node 'held'"),
    "dims of a sparse attribute": (lambda model: in_node("held", "sparse_value")(model).sparse_tensor.dims.__setitem__(0, 1025), "attribute 'sparse_value' of node 'held'"),
    "the second of several tensors": (last_bit(lambda model: in_node("listed", "tensors")(model).tensors[1]), "tensor '1'"),
    "an attribute beside a Constant's strings": (lambda model: next(node for node in model.graph.node if node.name == "strings").attribute.append(helper.make_attribute("extra", 5)), "node 'strings'"),
    "a text of a Constant's attribute": (lambda model: setattr(in_node("strings", "value_strings")(model), "doc_string", "another"), "node 'strings'"),
    "an opset of a function twice": (lambda model: model.functions[0].opset_import.append(helper.make_opsetid("", 17)), "opset 'ai.onnx (function own.Twice)'"),
    "a string": (set_string(lambda model: named(model, "texts"), LONG[:-1].encode() + b"y"), "tensor 'texts'"),
    "a string of a Constant": (lambda model: in_node("strings", "value_strings")(model).strings.__setitem__(1, b"c"), "tensor 'strings'"),
    "a long string": (lambda model: setattr(in_node("listed", "text")(model), "s", LONG.encode() * 9 + b"y" * len(LONG)), "node 'listed'"),
    "a tensor of a branch": (last_bit(of_branch), "tensor 'deep'"),
    "a default of a function": (last_bit(lambda model: model.functions[0].attribute_proto[0].t), "tensor 'f'"),
    "no default of a function": (lambda model: model.functions[0].ClearField("attribute_proto"), "attribute 'v (function own.Twice)'"),
    "a node of a function": (lambda model: setattr(model.functions[0].node[0], "op_type", "Mul"), "Mul"),
    "a text of a function": (lambda model: setattr(model.functions[0], "doc_string", "another"), "graph"),
    "a tensor of training": (last_bit(lambda model: model.training_info[0].algorithm.node[0].attribute[0].t), "tensor 'u'"),
    "a binding of training": (lambda model: setattr(model.training_info[0].update_binding[0], "value", "v"), "training '0'"),
    "the end of a long text": (lambda model: setattr(model, "doc_string", LONG[:-1] + "y"), "doc_string of the model"),
}  # fmt: skip


def test_tensors_in_odd_places(weir, tmp_path):
    """Strings, sparse tensors, and those of attributes, functions and training: any that is another is found."""
    source, out, log = tmp_path / "m.onnx", tmp_path / "q.onnx", tmp_path / "edits.jsonl"
    onnx.save(odd_places(), source)
    weir("quantize", source, out, "--block-size", "32", "--edit-log", log)
    words = ["--edits", log, "--sites", "1"]
    again = damage(out, tmp_path / "again.onnx", lambda model: None)
    assert found(weir, source, again, *words)["rest"] == {"differing": 0, "first": None}
    for name, (change, place) in ODD_PLACES.items():
        done = weir("verify", source, damage(out, tmp_path / "bad.onnx", change), *words, "--json", code=1)
        rest = json.loads(done.out).get("verification", {}).get("rest")
        assert place in (rest["first"] if rest else done.err), (name, rest)


def test_attributes_in_another_order_and_twice(weir, tmp_path):
    """Of several of one name each has its twin, and the order says nothing; functions are found by all of their names."""
    first, second = (numpy_helper.from_array(np.full(900, i, np.float32), "t") for i in range(2))
    own = helper.make_node("Own", ["x"], ["z"], "own", domain="own", **{f"a{i}": i for i in range(40)})
    for tensor in (first, second):
        own.attribute.append(helper.make_attribute("t", tensor))
    model = odd_places()
    model.graph.node.append(own)
    for name, domain in (("Twice", "own"), ("Other", "own"), ("Twice", "more")):
        if (name, domain) != ("Twice", "own"):
            model.functions.append(helper.make_function(domain, name, ["x"], ["y"], [helper.make_node("Neg" if domain == "own" else "Abs", ["x"], ["y"])], [helper.make_opsetid("", 21)]))
    source, out, log = tmp_path / "m.onnx", tmp_path / "q.onnx", tmp_path / "edits.jsonl"
    onnx.save(model, source)
    weir("quantize", source, out, "--block-size", "32", "--edit-log", log)

    def turn(model):
        model.functions.reverse()
        for each in model.graph.node:
            kept = sorted(each.attribute, key=lambda attribute: attribute.name, reverse=True)
            del each.attribute[:]
            each.attribute.extend(kept)

    def swap(model):
        node = next(each for each in model.graph.node if each.name == "own")
        tensors = [each for each in node.attribute if each.name == "t"]
        tensors[0].t.raw_data, tensors[1].t.raw_data = tensors[1].t.raw_data, tensors[0].t.raw_data

    words = ["--edits", log, "--sites", "1"]
    assert found(weir, source, damage(out, tmp_path / "turned.onnx", turn), *words)["rest"] == {"differing": 0, "first": None}
    done = weir("verify", source, damage(out, tmp_path / "bad.onnx", swap), *words, "--json", code=1)
    assert json.loads(done.out)["verification"]["rest"] == {"differing": 2, "first": "tensor 't'"}


def flip_sign_of_scale(model):
    scales = next(each for each in model.graph.initializer if "scale" in each.name)
    scales.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(scales), scales.name))


def test_rows_enough_for_a_relu(weir, tmp_path):
    """A unit that is dead in nine rows of ten: what is wrong in it is seen in a batch of sixteen, at most of its places."""
    rng = np.random.default_rng(8)
    w, bias = rng.normal(size=(64, 128)).astype(np.float32), np.full(128, -10, np.float32)

    def net(path, change=None):
        other = bias.copy()
        if change is not None:
            other[change] += 1
        weights = [numpy_helper.from_array(each, name) for name, each in (("w", w), ("b", other))]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"]), helper.make_node("ReduceSum", ["d", "axes"], ["y"])]
        weights.append(numpy_helper.from_array(np.int64([1]), "axes"))
        onnx.save(model_of(nodes, [value("x", ["batch", 64])], [value("y", ["batch", 1])], weights), path)
        return path

    source = net(tmp_path / "m.onnx")
    assert "batch=16" in weir("verify", source, source).out
    seen = sum(weir("verify", source, net(tmp_path / "bad.onnx", change=i), code=None).code == 1 for i in range(0, 128, 16))
    assert seen >= 6
    # A batch that is a number stays that; onnx-conv2matmul's one row too.
    assert "batch=1" in weir("verify", source, source, "--shape", "x=1x64").out


@pytest.mark.parametrize("after", ["Cast", "DequantizeLinear"])
def test_sums_of_products_are_below_zero_too(weir, tmp_path, after):
    """A failed site is run again with its surroundings: codes of 32 bits there have either sign, as in the model."""
    w = np.random.default_rng(0).integers(-100, 100, (16, 8)).astype(np.int8)
    held = [numpy_helper.from_array(x, n) for n, x in (("w", w), ("s", np.float32(0.01)), ("z", np.int32(0)))]
    middle = helper.make_node("Cast", ["q"], ["m"], to=1) if after == "Cast" else helper.make_node(after, ["q", "s", "z"], ["m"])
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["q"]), middle, helper.make_node("Relu", ["m"], ["y"], "r")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [4, 16])],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 8])], held)  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "in.onnx")
    (tmp_path / "wrong.rules").write_text('mine/Wrong "not the same" exact :\n  Relu(x) -> Abs(x) ;\n')
    words = ["--rules", tmp_path / "wrong.rules", "--verify"]
    assert "'r'" in weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", *words, code=1).err


@pytest.mark.parametrize("option", ["--report-json", "--report-html"])
def test_a_report_replaces_nothing_that_is_compared(weir, tmp_path, small_encoder, option):
    """Nor does it on its way, as FILE.part, or by another name of the file."""
    for path in small_encoder.parent.iterdir():
        shutil.copy(path, tmp_path)
    model, out, log = (tmp_path / name for name in (small_encoder.name, "out.onnx", "log.jsonl"))
    weir("conv2matmul", model, out, "--edit-log", log)
    os.symlink(f"{model.name}.data", tmp_path / "link")
    os.link(log, tmp_path / "r.part")
    before = folder_bytes(tmp_path)
    for name in (model.name, f"{model.name}.data", out.name, f"{out.name}.data", log.name, "link", "r"):
        done = weir("verify", model, out, "--edits", log, option, tmp_path / name, code=2)
        assert f"{option} would overwrite" in done.err and done.out == ""
    assert folder_bytes(tmp_path) == before
    weir("verify", model, out, "--edits", log, option, tmp_path / "report")
