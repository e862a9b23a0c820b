"""The files beside the outputs: logs, plans and reports never cost a model, and the data file has a name of its own."""

import json
import os
import shutil
import stat
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper

import compare
from chain import make_chain
from conftest import as_user, ended, program


@pytest.fixture
def model(tmp_path):
    """A model `m.onnx` with its weights in `m.bin`, in a folder of its own."""
    folder = tmp_path / "in"
    folder.mkdir()
    w = helper.make_tensor("w", TensorProto.FLOAT, [1024], bytes(range(256)) * 16, raw=True)
    s = helper.make_tensor("s", TensorProto.STRING, [3], [b"one", b"", b"three"])
    x, y, t = (
        helper.make_tensor_value_info(name, dtype, dims)
        for name, dtype, dims in (("x", 1, [1024]), ("y", 1, [1024]), ("t", 8, [3]))
    )
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Identity", ["s"], ["t"])]
    graph = helper.make_graph(nodes, "g", [x], [y, t], [w, s])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(content, folder / "m.onnx", save_as_external_data=True, location="m.bin")
    return folder / "m.onnx"


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html"])
@pytest.mark.parametrize("name", ["m.onnx", "m.bin"])
def test_no_side_file_over_the_input(weir, tmp_path, model, option, name):
    before = compare.folder_bytes(model.parent)
    done = weir("convert", model, tmp_path / "out.onnx", option, model.parent / name, code=2)
    assert name in done.err and "input" in done.err
    assert compare.folder_bytes(model.parent) == before and os.listdir(tmp_path) == ["in"]


def test_the_literals_of_a_plan_are_a_file_too(weir, tmp_path, model):
    """`--plan-out m` writes `m.bin` as well, which is what the weights are called."""
    before = compare.folder_bytes(model.parent)
    weir("convert", model, tmp_path / "out.onnx", "--plan-out", model.parent / "m", code=2)
    assert compare.folder_bytes(model.parent) == before


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html"])
@pytest.mark.parametrize("name", ["out.onnx", "out.onnx.data", "out.onnx.manifest.json", "in/../out.onnx"])
def test_no_side_file_over_the_output(weir, tmp_path, model, option, name):
    done = weir("convert", model, tmp_path / "out.onnx", option, tmp_path / name, code=2)
    assert "output" in done.err and os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html", "-o"])
def test_nothing_is_written_over_the_log_that_is_replayed(weir, tmp_path, model, option):
    (tmp_path / "first").mkdir()
    log, link = tmp_path / "first" / "log.jsonl", tmp_path / "log.link"
    weir("convert", model, tmp_path / "first" / "out.onnx", "--edit-log", log)
    link.symlink_to(log)
    before, words = log.read_bytes(), [] if option == "-o" else ["-o", tmp_path / "out.onnx"]
    for name in (log, link):
        done = weir("replay", log, model, *words, option, name, "--force", code=2)
        assert name.name in done.err and "hint:" in done.err
        assert log.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["first", "in", "log.link"]


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html", "-o"])
def test_nothing_is_written_over_the_pipeline(weir, tmp_path, model, option):
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("passes:\n  - conv2matmul\n")
    words = ["run", model, "--config", pipeline, "--force"]
    weir(*words, "-o", tmp_path / "out.onnx", "--dry-run")
    before, out = pipeline.read_bytes(), [] if option == "-o" else ["-o", tmp_path / "out.onnx"]
    done = weir(*words, *out, option, pipeline, code=2)
    assert "pipeline.yaml" in done.err
    assert pipeline.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["in", "pipeline.yaml"]


@pytest.mark.parametrize(
    "words",
    [
        ("--edit-log", "r", "--report-json", "r"),
        ("--edit-log", "r", "--report-json", "in/../r"),
        ("--edit-log", "r.part", "--report-json", "r"),
        ("--plan-out", "r", "--report-json", "r.bin"),
        ("--plan-out", "r", "--edit-log", "r.bin.part"),
        ("--report-html", "r", "--report-json", "in/../r"),
        ("--report-html", "r", "--plan-out", "r.part"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_two_side_files_have_two_names(weir, tmp_path, model, words, dry):
    """Two of one name: the later would replace the other, and a run would fail when its model is written."""
    words = [word if word[0] == "-" else tmp_path / word for word in words]
    done = weir("convert", model, tmp_path / "out.onnx", *words, *dry, code=2)
    assert "both" in done.err and "hint:" in done.err and os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html"])
def test_a_full_disk_of_a_side_file_is_named(weir, tmp_path, option):
    """Also where it is long, so that it is written piece by piece before it ends."""
    make_chain(tmp_path / "big.onnx", 1000)
    words = ["cast", tmp_path / "big.onnx", tmp_path / "out.onnx", "--to", "float16", "--min-elements", "1"]
    done = weir(*words, option, "/dev/full", code=73)
    assert "'/dev/full'" in done.err and "No space left" in done.err, done.err


def test_two_side_files_may_share_a_device(weir, tmp_path, model):
    weir("convert", model, tmp_path / "out.onnx", "--edit-log", "/dev/null", "--report-json", "/dev/null", "--report-html", "/dev/null")


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html"])
def test_a_pipe_is_written_not_replaced(weir, tmp_path, model, option):
    """As /dev/null and /dev/stdout must not become files when root says so."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        weir("convert", model, tmp_path / "out.onnx", option, pipe)
        assert stat.S_ISFIFO(os.stat(pipe).st_mode) and os.read(reader, 1 << 16)[:1] in (b"{", b"<")
    finally:
        os.close(reader)


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html"])
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_side_files_that_cannot_be_written_are_known_before(weir, tmp_path, model, option, dry):
    """No folder, a folder in its place, a file for a folder: nothing was written, nothing is left."""
    (tmp_path / "folder").mkdir()
    before = compare.folder_bytes(model.parent)
    for path, word in (("no/r.json", "No such"), ("folder", "directory"), ("in/m.onnx/r.json", "Not a dir")):
        done = weir("convert", model, tmp_path / "out.onnx", option, tmp_path / path, *dry, code=2)
        assert path in done.err and word in done.err and "hint:" in done.err and done.out == ""
        assert sorted(os.listdir(tmp_path)) == ["folder", "in"] and os.listdir(tmp_path / "folder") == []
    assert compare.folder_bytes(model.parent) == before


@pytest.mark.parametrize("option", ["--edit-log", "--plan-out", "--report-json", "--report-html"])
def test_side_files_where_nobody_may_write(tmp_path, model, option):
    words = as_user(tmp_path, model)
    if words is None:
        pytest.skip("root may write everywhere, and setpriv is not installed")
    (model.parent / "m.bin").chmod(0o644)  # onnx.save keeps it to its owner
    closed, out = tmp_path / "closed", tmp_path / "out"
    closed.mkdir(mode=0o555)
    out.mkdir()
    out.chmod(0o777)
    words = [*words, "convert", model, out / "out.onnx", option, closed / "r.json"]
    done = subprocess.run(list(map(os.fspath, words)), capture_output=True, text=True)
    assert done.returncode == 77 and "r.json" in done.stderr, done.stderr
    assert os.listdir(out) == [] and os.listdir(closed) == []


def test_a_run_that_fails_leaves_no_report(weir_fault, tmp_path, model):
    """Neither the final name nor a temporary one; what was under the final name stays, behind a link too."""
    (tmp_path / "old.json").write_text("old")
    (tmp_path / "link.json").symlink_to("old.json")
    for name in ("report.json", "old.json", "link.json"):
        words = ["convert", model, tmp_path / "out.onnx", "--report-json", tmp_path / name]
        weir_fault(*words, env={"WEIR_FAULT": "EROFS:fdatasync:1"}, code=None)
        assert not (tmp_path / "out.onnx").exists()
        assert (tmp_path / "old.json").read_text() == "old"
        assert [path for path in os.listdir(tmp_path) if "json" in path and path[0] != "."] in (
            ["old.json", "link.json"],
            ["link.json", "old.json"],
        )


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    "name, options",
    [
        ("x" * 237, []),
        ("x" * 237, ["--no-manifest", "--tensor-digests"]),
        ("x" * 246, ["--no-manifest"]),  # with .data
        ("x" * 237, ["--inline"]),
        ("back\\slash.onnx", []),
        ("out.onnx", ["--data-file", "back\\slash"]),
    ],
)
def test_names_that_cannot_be_are_known_before(weir, tmp_path, model, name, options, dry):
    """Those that the folder does not take, and those that no reader takes as the place of a weight."""
    done = weir("convert", model, tmp_path / name, *options, *dry, code=2)
    assert "hint:" in done.err and os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize(
    "name, options",
    [("x" * 236, ["--tensor-digests"]), ("x" * 245, ["--no-manifest"]), ("x" * 250, ["--no-manifest", "--inline"])],
)
def test_names_that_can_just_be(weir, tmp_path, model, name, options):
    weir("convert", model, tmp_path / name, *options)
    compare.same_meaning(model, tmp_path / name)


def test_a_backslash_where_no_reader_minds_it(weir, tmp_path, model):
    weir("convert", model, tmp_path / "back\\slash.onnx", "--inline")
    weir("check", tmp_path / "back\\slash.onnx")
    weir("audit", tmp_path / "back\\slash.onnx")


@pytest.mark.parametrize("name", ["out.onnx", "out.onnx.manifest.json", "out.onnx.tensors.jsonl"])
def test_the_data_file_has_a_name_of_its_own(weir, tmp_path, model, name):
    """Also where a log names it: the file that is written last would take the weights' place."""
    weir("convert", model, tmp_path / "out.onnx", "--data-file", name, "--tensor-digests", code=2)
    assert os.listdir(tmp_path) == ["in"]
    log = doctored_log(weir, tmp_path, model, lambda head: head["layout"].update(data_file=name))
    weir("replay", log, model, tmp_path / "out.onnx", code=2)
    assert not (tmp_path / "out.onnx").exists()


def doctored_log(weir, tmp_path, model, change, *edits):
    """The log of a `convert` with another head, and edits behind it."""
    (tmp_path / "first").mkdir(exist_ok=True)
    log = tmp_path / "first" / "log.jsonl"
    weir("convert", model, tmp_path / "first" / "out.onnx", "--edit-log", log, "--force")
    head = json.loads(log.read_text().splitlines()[0])
    change(head)
    log.write_text(ended("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [head, *edits])))
    return log


def test_any_command_name_in_a_log_gives_a_plan_that_is_json(weir, tmp_path, model):
    log = doctored_log(weir, tmp_path, model, lambda head: head.update(command='a"}],"b\n'))
    weir("replay", log, model, tmp_path / "out.onnx", "--plan-out", tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["passes"][0]["name"] == 'a"}],"b\n'


def test_renamed_strings_keep_their_values(weir, tmp_path, model):
    value = next(i for i in range(16) if replay_rename(weir, tmp_path, model, i))
    graph = onnx.load(tmp_path / f"out{value}.onnx").graph
    [strings] = [tensor for tensor in graph.initializer if tensor.name == "renamed"]
    assert list(strings.string_data) == [b"one", b"", b"three"] and graph.node[1].input == ["renamed"]


def replay_rename(weir, tmp_path, model, number):
    """Numbers of values follow the file: only one is that of `s`."""
    edit = {"edit": "value.rename", "value": f"g0/v{number}:s", "to": "renamed"}
    log = doctored_log(weir, tmp_path, model, lambda head: None, edit)
    done = weir("replay", log, model, tmp_path / f"out{number}.onnx", code=None)
    assert done.code in (0, 65)
    return done.code == 0


def test_the_log_outlives_a_kill_in_the_seal(weir, tmp_path, model):
    """Killed before its Nth change of the file system, N = 1, 2, …: what --resume completes has its edit log."""
    out = tmp_path / "out"
    arguments = ["convert", str(model), str(out / "out.onnx"), "--edit-log", str(out / "log.jsonl")]
    for n in range(1, 200):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        environment = dict(os.environ, WEIR_FAULT=f"kill:{n}")
        killed = subprocess.run([program("WEIR_FAULT_PROGRAM"), *arguments], env=environment, capture_output=True)
        if killed.returncode == 0:
            break
        weir(*arguments, "--resume")
        assert (out / "log.jsonl").exists() and (out / "out.onnx").exists(), n
    assert 10 < n < 199
