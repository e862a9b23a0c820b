"""Configurations of onnx-passes as pipeline files: the graphs and the verdicts are those that onnx-passes itself came to
(tests/data/onnx-passes, made by tests/support/onnx_passes_configs.py), and what a file says wrongly is said with its place."""

import json
import os
import shutil

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_passes_configs import CONFIGS, DATA, outline

pytestmark = pytest.mark.in_memory

# Where onnx-passes raises something, weir's exit code says what it was.
CODES = {"missing-reference": 66, "bad-reference": 65, "other-module": 2, "unknown-pass": 2}
SAID = {
    "tolerance-not-met": ["rtol 0 and atol 0", "caused by group"],
    "accuracy-not-met": ["'accuracy': accuracy 0.95 is not within [0.96, 1]"],
    "top-5-not-met": ["top_5_accuracy 0.95 is not within [0, 0.9]"],
    "error-not-met": ["max_abs_error", "is not within [0, 0.1]"],
    "mispredictions-not-met": ["count_mispredictions 1 is not within [0, 0]"],
    "missing-reference": ["cannot open 'nowhere.npy'"],
    "bad-reference": ["bad.npy"],
    "other-module": ["config.yaml:1:11: 'not_here.at_all' is a Python module, and weir does not run Python"],
    "unknown-pass": ["config.yaml:1:10: pass 'eliminat' does not exist", "did you mean 'eliminate'?"],
}


@pytest.fixture
def folder(tmp_path):
    for path in DATA.glob("*.*"):
        shutil.copy(path, tmp_path)
    return tmp_path


class Runs:
    """`weir run` of the model with a configuration of that text."""

    def __init__(self, weir, folder):
        self.weir, self.folder, self.out = weir, folder, folder / "out.onnx"

    def __call__(self, text, *words, code=0):
        (self.folder / "config.yaml").write_text(text)
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        more = ["--config", "config.yaml", "--force", "--no-manifest", "--report-json", report, *words]
        done = self.weir("run", "model.onnx", "out.onnx", *more, code=code, cwd=self.folder)
        done.report = json.loads(report.read_text()) if report.exists() else {}
        done.found = done.report.get("verification")
        return done


@pytest.fixture
def run(weir, folder):
    return Runs(weir, folder)


def save(path, nodes):
    """A model of these nodes, from x to y."""
    x, y = (helper.make_tensor_value_info(name, 1, [4]) for name in "xy")
    made = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(made, path)


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_graphs_and_verdicts_are_the_original_s(run, name):
    text, words, *other = CONFIGS[name]
    if other:
        shutil.copy(run.folder / f"{other[0]}.onnx", run.folder / "model.onnx")
    assert (DATA / name / "config.yaml").read_text() == text
    theirs = int((DATA / name / "verdict.txt").read_text().split("\n")[0])
    more = [word for one in words for word in ("--pass", one)]
    done = run(text, *more, code=CODES.get(name, theirs))
    for sentence in SAID.get(name, []):
        assert sentence in done.err
    assert (theirs == 0) == run.out.exists() == (name not in SAID)
    if theirs == 0:
        assert outline(onnx.load(run.out)) == outline(onnx.load(DATA / name / "golden.onnx"))


def test_the_outline_sees_a_difference():
    """What graphs are compared by is not blind."""
    source, golden = onnx.load(DATA / "model.onnx"), onnx.load(DATA / "names" / "golden.onnx")
    assert outline(source) != outline(golden)
    other = onnx.load(DATA / "names" / "golden.onnx")
    for tensor in other.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * 2, tensor.name))
    assert outline(other) != outline(golden)


# ---- what a file decides ---------------------------------------------------------------------------


def test_such_a_file_means_finite(run):
    """x/x is 1 where there are no zeros: a file of onnx-passes lets it be, and says so in what is recorded."""
    save(run.folder / "model.onnx", [helper.make_node("Div", ["x", "x"], ["q"]), helper.make_node("Add", ["q", "x"], ["y"])])
    run("passes: [EliminateComplementationDiv]\n")
    assert "Div" not in operators(run.out)
    run("passes: [EliminateComplementationDiv]\nexactness: rounding\n")
    assert "Div" in operators(run.out)
    run("passes: [EliminateComplementationDiv]\n", "--exactness", "exact")
    assert "Div" in operators(run.out)
    done = run("passes: [EliminateComplementationDiv, tidy/identity]\n")  # a file of ours, by a name
    assert "Div" in operators(run.out) and "held back" in done.out and "(--exactness finite allows it)" in done.out
    run("passes: [EliminateComplementationDiv, tidy/identity]\nexhaustive: false\n")
    assert "Div" not in operators(run.out)


def test_all_of_it_again_and_again(run):
    """What the second pass makes equal, the first one merges in another round; `exhaustive` and --repeat mean the same."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Add", ["a", "d"], ["y"]),
    ]
    save(run.folder / "model.onnx", nodes)
    alone = "passes: [EliminateCommonSubexpression, EliminateNeg]\n"
    run(alone)
    assert operators(run.out).count("Relu") == 2
    run(alone + "exhaustive: true\n")
    assert operators(run.out).count("Relu") == 1
    first = run.out.read_bytes()
    done = run(alone, "--repeat")
    assert run.out.read_bytes() == first
    rounds = [step["rounds"] for step in done.report["passes"]]
    assert rounds[0] == rounds[1] >= 3
    run("passes: [EliminateCommonSubexpression]\nexhaustive: true\n", "--pass", "EliminateNeg")
    assert run.out.read_bytes() == first
    # An inner repeat ends in each round of the outer one.
    done = run("passes: [EliminateCommonSubexpression, repeat: [EliminateNeg]]\nexhaustive: true\n")
    assert run.out.read_bytes() == first
    outer, inner = [step["rounds"] for step in done.report["passes"]]
    assert inner > outer >= 3


def test_files_import_files(run):
    (run.folder / "parts").mkdir()
    (run.folder / "parts" / "fuse.yaml").write_text("imports: [base.yml]\npasses: [FuseTranspose]\nexactness: exact\n")
    (run.folder / "parts" / "base.yml").write_text("passes: [EliminateNeg]\nexactness: zero\n")
    text = "imports: [onnx_passes.passes.cleanup, parts/fuse.yaml, parts/base.yml]\npasses: [eliminate-identity]\n"
    done = run(text, "--edit-log", "log.jsonl")
    names = [step["name"] for step in done.report["passes"]]
    assert names[:2] == ["algebraic/EliminateNeg", "reorder/FuseTranspose"] and names.count("algebraic/EliminateNeg") == 1
    head = json.loads((run.folder / "log.jsonl").read_text().split("\n")[0])
    assert head["options"]["exactness"] == "exact"  # what comes later counts for more
    (run.folder / "parts" / "base.yml").write_text("imports: [fuse.yaml]\n")
    err = run(text, code=2).err
    assert "parts/base.yml:1:11: the file imports itself: parts/fuse.yaml -> parts/base.yml -> parts/fuse.yaml" in err
    (run.folder / "parts" / "base.yml").write_text("imports: [../config.yaml]\n")
    assert "imports itself: config.yaml -> parts/fuse.yaml -> parts/base.yml -> config.yaml" in run(text, code=2).err
    (run.folder / "parts" / "base.yml").write_text("passes: [nothing]\n")
    assert "parts/base.yml:1:10: pass 'nothing' does not exist" in run(text, code=2).err
    (run.folder / "parts" / "base.yml").unlink()
    assert "parts/fuse.yaml:1:11: the pipeline 'parts/base.yml' cannot be read" in run(text, code=66).err


def test_a_file_without_passes_wants_some(run):
    assert "config.yaml:1:1: the key 'passes' is missing" in run("exhaustive: true\n", code=2).err
    run("exhaustive: true\n", "--pass", "EliminateNeg")
    assert "Neg" not in operators(run.out)


# ---- steps that look -------------------------------------------------------------------------------


def test_steps_look_at_the_model_where_they_stand(run):
    """Equality holds before the rounding, and not behind it; the row says which step it is."""
    reference = "reference: {inp: [x.npy]}\n"
    done = run("passes: [EliminateNeg, GroupMul, VerifyEquality, VerifyTolerance]\n" + reference, code=1)
    assert "'y'" in done.err and "elements differ" in done.err and not run.out.exists()
    assert [row["status"] for row in done.found["rows"]] == ["failed"]
    done = run("passes: [EliminateNeg, VerifyEquality, GroupMul]\n" + reference)
    assert [row["of"] for row in done.found["rows"]] == ["verify/VerifyEquality (step 2), reference"]
    assert done.found["scope"] == "model"
    done = run("passes: [EliminateNeg, GroupMul, VerifyTolerance]\n" + reference)
    assert done.found["rows"][0]["bounds"] == "relative error of 0.0001"
    done = run("passes: [VerifyTolerance, GroupMul]\nverify: off\n" + reference)
    assert done.found is None
    done = run("passes: [VerifyEquality, GroupMul]\n")  # drawn
    assert done.found["passed"] == 1
    done = run("passes: [GroupMul]\n", "--pass", "verify")
    assert done.found["passed"] == 1


def test_the_checker_ends_the_run(run):
    made = onnx.load(run.folder / "model.onnx")
    made.graph.node[0].op_type = "Mull"
    onnx.save(made, run.folder / "model.onnx")
    done = run("passes: [checker]\n", code=1)
    assert "checker/Checker found an invalid model" in done.err and "did you mean 'Mul'?" in done.err
    assert not run.out.exists()


def test_metrics_are_numbers_of_numpy(run):
    """The values are those of NumPy, by names of outputs too, and rows that no class is named for are refused."""
    scores, classes = np.load(run.folder / "scores.npy"), np.load(run.folder / "classes.npy")
    np.savez(run.folder / "out.npz", y=classes)
    text = "passes: [VerifyMetric]\nverify: {{metrics: {{{}: [0, 100]}}}}\nreference: {{inp: [x.npy], out: [{}]}}\n"
    top = [c in row.argsort()[-5:] for row, c in zip(scores, classes)]
    noisy = np.load(run.folder / "noisy.npy")
    wanted = [
        ("accuracy", "classes.npy", np.mean(scores.argmax(axis=-1) == classes)),
        ("accuracy", "out.npz", np.mean(scores.argmax(axis=-1) == classes)),
        ("top_5_accuracy", "classes.npy", np.mean(top)),
        ("count_mispredictions", "noisy.npy", np.sum(scores.argmax(axis=-1) != noisy.argmax(axis=-1))),
        ("max_abs_error", "noisy.npy", np.max(np.abs(scores - noisy))),
    ]
    for metric, file, value in wanted:
        row = run(text.format(metric, file)).found["rows"][0]
        assert row["name"] == metric and row["value"] == pytest.approx(value, rel=1e-5) and row["bounds"] == "from 0 to 100"
    np.save(run.folder / "few.npy", classes[:7])
    assert "the rows do not match" in run(text.format("accuracy", "few.npy"), code=1).err
    np.savez(run.folder / "out.npz", z=classes)
    assert "do not have the names of the first outputs ('z')" in run(text.format("accuracy", "out.npz"), code=1).err
    np.save(run.folder / "x.npy", np.zeros((20, 16)))
    assert "is double there, but the model takes float" in run(text.format("accuracy", "classes.npy"), code=2).err


def test_arrays_that_are_not_fit(run):
    text = "passes: [GroupMul]\nverify: {{tolerance: }}\nreference: {{inp: [{}]}}\n"
    (run.folder / "short.npy").write_bytes((run.folder / "x.npy").read_bytes()[:100])
    np.save(run.folder / "objects.npy", np.array([None, 1]))
    np.save(run.folder / "wide.npy", np.zeros((20, 17), np.float32))
    for files, code, said in [
        ("x.npy, x.npy", 2, "'reference' has 2 arrays, but the model takes 1"),
        ("short.npy", 65, "'short.npy': it ends inside its header"),
        ("objects.npy", 65, "objects.npy"),
        ("wide.npy", 2, "dim 1 of input 'x' is 17 there, but the model takes 16"),
        (".", 66, "'.' is not a regular file"),
        ("nowhere.npz", 66, "cannot open 'nowhere.npz'"),
    ]:
        assert said in run(text.format(files), code=code).err
        assert not run.out.exists()


def test_metrics_that_nothing_is_held_against(run):
    done = run("passes: [verify]\nverify: {metrics: {accuracy: [0, 1]}}\nreference: {inp: [x.npy]}\n")
    assert "the metrics have no effect: there are no expected outputs" in done.err
    done = run("passes: [verify]\nverify: true\nreference: {inp: [x.npy], out: [classes.npy]}\n")
    assert "('out') have no effect: there are no metrics" in done.err
    done = run("passes: [verify]\nreference:\n  out: [classes.npy]\n", code=2)
    assert "config.yaml:2:1: 'reference' has expected outputs ('out'), but not the inputs" in done.err


@pytest.mark.parametrize("passes", ["[eliminate]", "[eliminate, verify]"])
@pytest.mark.parametrize("more", ["", "  metrics: {count_mispredictions: [0, 20]}\n"], ids=["", "metrics"])
def test_expected_outputs_are_held_against_the_tolerance(run, passes, more):
    """What the file has them for: a wrong one is found, and a right one is a row of its own."""
    text = "passes: {}\nverify:\n  tolerance: {{rtol: 1.0e-4, atol: 1.0e-5}}\n{}reference:\n  inp: [x.npy]\n  out: [{}.npy]\n"
    done = run(text.format(passes, more, "scores"))
    rows = [row for row in done.found["rows"] if "reference.out" in row["of"]]
    assert rows and {(row["status"], row["bounds"]) for row in rows} == {("passed", "rtol 0.0001, atol 1e-05")} and "no effect" not in done.err
    scores = np.load(run.folder / "scores.npy")
    wrong = scores.copy()
    wrong.ravel()[3] += 1
    np.save(run.folder / "wrong.npy", wrong)
    said = run(text.format(passes, more, "wrong"), code=1).err
    assert "' differs from reference.out: " in said and "rtol 0.0001 and atol 1e-05" in said
    np.save(run.folder / "near.npy", scores + np.float32(1e-6))
    run(text.format(passes, more, "near"))
    # Arrays of another shape are no outputs: places of largest elements, for metrics alone.
    done = run(text.format(passes, more, "classes"), code=None)
    assert done.code == (0 if more else 1)


def test_expected_outputs_of_few_rows_are_no_top1(run):
    text = "passes: [eliminate]\nverify: {tolerance: {rtol: 1.0e-4, atol: 1.0e-5}, metric: {top1: [0.5, 1]}}\nreference: {inp: [x.npy], out: [scores.npy]}\n"
    done = run(text, code=1)
    assert f"top-1: too few rows ({len(np.load(run.folder / 'x.npy'))}, 100 wanted)" in done.err and not run.out.exists()


# ---- files of models, what is said -----------------------------------------------------------------


def test_models_on_the_way(run, weir):
    """Each is the model as it was, and runs; a step that changed nothing has none."""
    done = run(CONFIGS["files"][0])
    names = sorted(path.name for path in (run.folder / "steps").iterdir())
    assert [name.split("-", 1)[1] for name in names] == ["EliminateIdentity.onnx", "EliminateNeg.onnx"]
    assert all(len(name.split("-")[0]) == 8 for name in names)
    assert operators(run.folder / "steps" / names[0]).count("Neg") == 2 and "Neg" not in operators(run.out)
    assert outline(onnx.load(run.folder / "steps" / names[1])) == outline(onnx.load(run.out))
    assert outline(onnx.load(run.folder / "after-last.onnx")) == outline(onnx.load(run.out))
    assert outline(onnx.load(run.folder / "before-last.onnx")) == outline(onnx.load(run.folder / "steps" / names[0]))
    assert "  algebraic/EliminateNeg" in done.out
    run("passes: [EliminateNot]\nlogging: {checkpoint: last.onnx, keep_intermediates: none}\n")
    assert outline(onnx.load(run.folder / "after-last.onnx")) == outline(onnx.load(DATA / "model.onnx"))
    assert list((run.folder / "none").iterdir()) == []
    assert "the folder 'no/where' cannot be created" in run("passes: [GroupMul]\nlogging: {keep_intermediates: no/where}\n", code=74).err


@pytest.mark.parametrize("name", ["before-last.onnx", "after-last.onnx", "before-last.onnx.data"])
def test_a_checkpoint_never_replaces_what_is_read(weir, tmp_path, name):
    """The source, also by another name of it, and its weights."""
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    x, y = (helper.make_tensor_value_info(of, 1, [64, 64]) for of in "xy")
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Add", ["b", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, tmp_path / "in.onnx", save_as_external_data=True, location=name if name.endswith("data") else "w.bin", size_threshold=0)
    if not name.endswith("data"):
        os.link(tmp_path / "in.onnx", tmp_path / name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "config.yaml").write_text("passes: [EliminateNeg]\nlogging: {checkpoint: last.onnx}\n")
    done = weir("run", "in.onnx", "out.onnx", "--config", "config.yaml", code=2, cwd=tmp_path)
    assert f"'{name}' would replace a file this command reads from" in done.err
    assert not (tmp_path / "out.onnx").exists()
    assert {of: (tmp_path / of).read_bytes() for of in before} == before


@pytest.mark.parametrize("of", ["rules", "imported", "reference", "output"])
def test_a_checkpoint_never_replaces_what_a_pipeline_names(weir, tmp_path, of):
    """Files of rules, of steps and of arrays; and the output, which is not there yet."""
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "in.onnx")
    texts = {"rules": "my/Twice exact : Neg(Neg(x)) -> x ;\n", "imported": "passes: [EliminateNeg]\n", "reference": "no arrays\n"}
    config = "logging: {checkpoint: last.onnx}\n" + ("imports: [base.yaml]\n" if of == "imported" else "passes: [EliminateNeg]\n")
    if of == "reference":
        config += "reference: after-last.onnx\nverify: off\n"
    (tmp_path / "config.yaml").write_text(config)
    if of in texts:
        (tmp_path / "after-last.onnx").write_text(texts[of])
    if of == "imported":
        os.link(tmp_path / "after-last.onnx", tmp_path / "base.yaml")
    words = ["--rules", "after-last.onnx"] if of == "rules" else []
    out = "after-last.onnx" if of == "output" else "out.onnx"
    done = weir("run", "in.onnx", out, "--config", "config.yaml", *words, code=2, cwd=tmp_path)
    would = "replace a file of the output" if of == "output" else "replace a file this command reads from"
    assert f"'after-last.onnx' would {would}" in done.err
    assert not (tmp_path / out).exists() and (of == "output" or (tmp_path / "after-last.onnx").read_text() == texts[of])


def test_many_steps_are_readable(run):
    done = run("passes: [algebraic, reorder, eliminate, cleanup]\n")
    lines = done.out.splitlines()
    steps = done.report["passes"]
    did = {step["name"] for step in steps if step["converted"]}
    assert len(steps) > 300 and f" by {len(did)} passes (of {len(steps)} steps)" in lines[0] and 4 < len(lines) < 30
    assert {line.split()[1] for line in lines[1:] if line.split()[0].isdigit()} == did
    verbose = run("passes: [algebraic, reorder, eliminate, cleanup]\nlogging: {verbose: yes}\n")
    listed = {line.split()[1] for line in verbose.out.splitlines()[1:] if line.split()[0].isdigit()}
    assert listed == {step["name"] for step in steps}
    assert run("passes: [GroupMul]\n", "--verbose").out.splitlines()[1].split() == ["1", "algebraic/GroupMul"]
    assert len(run("passes: [GroupMul]\n").out.splitlines()) == 2


def test_expected_outputs_of_a_source_that_does_not_run(run):
    """It is said, and nothing is compared."""
    nodes = [helper.make_node("Mystery", ["x"], ["a"], domain="custom"), helper.make_node("Identity", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, 1, [4]) for name in "xy")
    made = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 19), helper.make_opsetid("custom", 1)], ir_version=9)
    onnx.save(made, run.folder / "model.onnx")
    for name in ("x4.npy", "y4.npy"):
        np.save(run.folder / name, np.zeros(4, np.float32))
    done = run("passes: [eliminate]\nverify: {tolerance: {rtol: 1.0e-4}}\nreference: {inp: [x4.npy], out: [y4.npy]}\n", code=1)
    assert "nothing could be verified" in done.err and not run.out.exists()
