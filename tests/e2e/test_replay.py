"""The edit log: what a run wrote down makes the same files again, and no other source or damaged log does."""

import json
import shutil
import subprocess

import onnx
import pytest

import compare
import conv_matrix
from conftest import DATA, ended, package_model, program

SOURCES = {
    "parakeet-dynamo": lambda: DATA / "parakeet-dynamo" / "encoder-model.onnx",
    "parakeet-torchscript": lambda: DATA / "parakeet-torchscript" / "encoder-model.onnx",
    "rapidocr-cls": lambda: package_model("rapidocr", "cls"),
    "silero": lambda: package_model("silero_vad", "silero_vad.onnx"),
}


def record(weir, source, folder, *options, command="conv2matmul"):
    """Run a command with an edit log; gives the paths of output and log."""
    folder.mkdir()
    out, log = folder / "out.onnx", folder / "edits.jsonl"
    weir(command, source, out, "--edit-log", log, *options)
    return out, log


def replay(weir, log, source, folder, name="out.onnx"):
    """Apply a log; gives the paths of output and the log of the replay."""
    folder.mkdir()
    weir("replay", log, source, folder / name, "--edit-log", folder / "edits.jsonl")
    return folder / name, folder / "edits.jsonl"


def lines(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("form", ["flat", "batched"])
@pytest.mark.parametrize("name", SOURCES)
def test_replay_gives_the_same_bytes(weir, tmp_path, name, form):
    """Model, data file and manifest byte for byte; and the log of the replay is the log."""
    source = SOURCES[name]()
    out, log = record(weir, source, tmp_path / "first", "--extended-conv1x1", "--form", form)
    again, log_again = replay(weir, log, source, tmp_path / "second")
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(again.parent)
    assert len(lines(log)) > 10 and log.read_bytes() == log_again.read_bytes()
    third, log_third = replay(weir, log_again, source, tmp_path / "third")
    assert compare.folder_bytes(third.parent) == compare.folder_bytes(out.parent)


@pytest.mark.parametrize("name", [case.name for case in conv_matrix.special()])
def test_replay_of_every_special_case(weir, quick_folder, name):
    """Subgraphs, functions, odd names, shared weights: every kind of edit that the pass makes."""
    [case] = [case for case in conv_matrix.special() if case.name == name]
    onnx.save(case.model, quick_folder / "in.onnx")
    options = ["--extended-conv1x1", "--allow-non-unit-dilation"]
    out, log = record(weir, quick_folder / "in.onnx", quick_folder / "first", *options)
    again, _ = replay(weir, log, quick_folder / "in.onnx", quick_folder / "second")
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(again.parent)


@pytest.mark.parametrize("options", [["--external"], ["--inline"], ["--data-file", "w.bin"], ["--align", "4096"]])
def test_replay_keeps_the_layout(weir, tmp_path, small_encoder, options):
    """`convert` makes no edits; its log still holds where payloads go."""
    out, log = record(weir, small_encoder, tmp_path / "first", *options, command="convert")
    again, _ = replay(weir, log, small_encoder, tmp_path / "second")
    assert compare.folder_bytes(out.parent) == compare.folder_bytes(again.parent)
    assert [line.get("edit", "head") for line in lines(log)] == ["head", "end"]


def test_other_name_changes_the_location_only(weir, tmp_path, small_encoder):
    out, log = record(weir, small_encoder, tmp_path / "first")
    other, _ = replay(weir, log, small_encoder, tmp_path / "second", "other.onnx")
    assert (out.parent / "out.onnx.data").read_bytes() == (other.parent / "other.onnx.data").read_bytes()
    a, b = compare.structure(out), compare.structure(other)
    for _, tensor in compare.tensors(b):
        for entry in tensor.external_data:
            if entry.key == "location":
                assert entry.value == "other.onnx.data"
                entry.value = "out.onnx.data"
    assert a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)


def test_log_is_written_in_a_dry_run_too(weir, tmp_path, small_encoder):
    out, log = record(weir, small_encoder, tmp_path / "first")
    words = ["conv2matmul", small_encoder, out, "--dry-run", "--edit-log", tmp_path / "dry.jsonl"]
    weir(*words, code=2)  # OUT exists: refused as the run would be, with the record all the same
    assert (tmp_path / "dry.jsonl").read_bytes() == log.read_bytes()
    weir(*words, "--force")
    assert (tmp_path / "dry.jsonl").read_bytes() == log.read_bytes()


def test_another_name_is_told_of_where_it_is_a_data_file_s_too(weir, tmp_path, small_encoder):
    _, log = record(weir, small_encoder, tmp_path / "first")
    told = "the recorded output was named 'out.onnx': this run's data file has another name"
    assert told in weir("replay", log, small_encoder, tmp_path / "new.onnx").err
    assert weir("replay", log, small_encoder, tmp_path / "alone.onnx", "--inline").err == ""
    assert weir("replay", log, small_encoder, tmp_path / "named.onnx", "--data-file", "out.onnx.data").err == ""


def test_log_head(weir, tmp_path, small_encoder):
    """What the head promises: the source by digest and sizes, the options, the layout, the output's name."""
    _, log = record(weir, small_encoder, tmp_path / "first", "--extended-conv1x1")
    head, *edits = lines(log)
    assert head["weir_edit_log"] == 2 and head["command"] == "conv2matmul" and head["output"] == "out.onnx"
    assert head["options"]["extended_conv1x1"] is True
    assert head["source"]["name"] == small_encoder.name and len(head["source"]["meta_sha256"]) == 64
    data = small_encoder.with_name(small_encoder.name + ".data")
    assert head["source"]["files"] == [{"name": data.name, "size": data.stat().st_size}]
    assert {edit["edit"] for edit in edits} >= {"group", "node.remove", "node.add", "tensor.add", "tensor.remove"}
    assert str(tmp_path) not in log.read_text()


# ---- refusals


def test_other_source_is_refused(weir, tmp_path, small_encoder):
    """Another model, and the same graph with a changed small weight."""
    _, log = record(weir, small_encoder, tmp_path / "first")
    (tmp_path / "other").mkdir()
    done = weir("replay", log, SOURCES["parakeet-dynamo"](), tmp_path / "other" / "out.onnx", code=66)
    assert "meta_sha256" in done.err
    changed = tmp_path / "changed"
    shutil.copytree(small_encoder.parent, changed)
    model = compare.structure(changed / small_encoder.name)
    model.graph.node[0].name += "x"
    (changed / small_encoder.name).write_bytes(model.SerializeToString())
    weir("replay", log, changed / small_encoder.name, tmp_path / "other" / "out.onnx", code=66)
    assert list((tmp_path / "other").iterdir()) == []


def test_missing_log(weir, tmp_path, small_encoder):
    weir("replay", tmp_path / "none.jsonl", small_encoder, tmp_path / "out.onnx", code=66)


def damages(text):
    """Name → a damaged log. Every one has to be refused."""
    head, *edits, end = text.splitlines(keepends=True)
    body = text[: -len(end)]
    first_add = next(number for number, line in enumerate(edits) if '"node.add"' in line)
    removed = next(number for number, line in enumerate(edits) if '"node.remove"' in line)

    def with_line(number, line):
        return ended("".join([head, *edits[:number], line, *edits[number + 1 :]]))

    add = json.loads(edits[first_add])
    dump = lambda value: json.dumps(value) + "\n"  # noqa: E731
    return {
        "empty": "",
        "no head": ended("".join(edits)),
        "head is no json": "{" + text,
        "other version": text.replace('"weir_edit_log":2', '"weir_edit_log":99', 1),
        "line cut": body[: -len(edits[-1]) // 2],
        "end cut off": body,
        "end cut": text[:-20],
        "edit left out": head + "".join(edits[1:]) + end,
        "edits swapped, which fits": body.replace(edits[0], "") + edits[0] + end,
        "count changed": text.replace('"edit":"end","edits":', '"edit":"end","edits":1'),
        "more behind the end": text + edits[0],
        "two ends": text + end,
        "a word of a name changed": text.replace('"pass":"conv2matmul"', '"pass":"conv2matmux"', 1),
        "no json": with_line(0, "not json\n"),
        "an array": with_line(0, "[]\n"),
        "unknown edit": with_line(first_add, dump({**add, "edit": "node.conjure"})),
        "unknown node": with_line(removed, edits[removed].replace("g0/n", "g0/n9999")),
        "unknown graph": with_line(removed, edits[removed].replace("g0/n", "g7/n")),
        "other operator": with_line(removed, edits[removed].replace('"Conv"', '"Gemm"')),
        "other name of a value": with_line(first_add, dump({**add, "in": [add["in"][0] + "x"]})),
        "output made already": with_line(first_add, dump({**add, "out": [add["in"][0]]})),
        "no op": with_line(first_add, dump({key: value for key, value in add.items() if key != "op"})),
        "removed twice": with_line(removed, edits[removed] * 2),
        "line twice": with_line(first_add, edits[first_add] * 2),
        "duplicate key": with_line(removed, edits[removed].replace("{", '{"edit":"group",', 1)),
        "huge id": with_line(removed, edits[removed].replace("g0/n", "g0/n18446744073709551615")),
        "negative id": with_line(removed, edits[removed].replace("g0/n", "g0/n-")),
    }


def test_damaged_logs_are_refused(weir, tmp_path, small_encoder):
    _, log = record(weir, small_encoder, tmp_path / "first")
    (tmp_path / "out").mkdir()
    complaints = []
    for name, text in damages(log.read_text()).items():
        (tmp_path / "damaged.jsonl").write_text(text)
        done = weir("replay", tmp_path / "damaged.jsonl", small_encoder, tmp_path / "out" / "out.onnx", code=None)
        if done.code != 65 or not done.err.startswith("weir: error: "):
            complaints.append(f"{name}: exit code {done.code}: {done.said[:200]}")
        if list((tmp_path / "out").iterdir()):
            complaints.append(f"{name}: left something behind")
            shutil.rmtree(tmp_path / "out")
            (tmp_path / "out").mkdir()
    assert not complaints, "\n".join(complaints)


def test_log_cut_at_any_line(weir, tmp_path, small_encoder):
    """Fewer edits than were made: a log that ends early is a shorter log, or is refused, but never a crash."""
    _, log = record(weir, small_encoder, tmp_path / "first")
    (tmp_path / "out").mkdir()
    rows = log.read_text().splitlines(keepends=True)
    for count in range(1, len(rows), 7):
        (tmp_path / "cut.jsonl").write_text("".join(rows[:count]))
        done = weir(
            "replay", "--partial", tmp_path / "cut.jsonl", small_encoder, tmp_path / "out" / "out.onnx", "--dry-run", code=None
        )
        assert done.code in (0, 65), (count, done.code, done.said)
        done = weir("replay", tmp_path / "cut.jsonl", small_encoder, tmp_path / "out" / "out.onnx", code=65)
        assert "is cut off" in done.err and "--partial" in done.err


def test_partial_takes_what_was_edited(weir, tmp_path, small_encoder):
    """A name changed by hand: refused, unless it is said to be meant; then the log of the replay is whole again."""
    _, log = record(weir, small_encoder, tmp_path / "first")
    (tmp_path / "out").mkdir()
    edited = tmp_path / "edited.jsonl"
    edited.write_text(log.read_text().replace('"pass":"conv2matmul"', '"pass":"mine"', 1))
    words = ["replay", edited, small_encoder, tmp_path / "out" / "out.onnx", "--edit-log", tmp_path / "again.jsonl"]
    assert "was changed" in weir(*words, code=65).err
    weir(*words, "--partial")
    assert (tmp_path / "again.jsonl").read_text() == ended("".join(edited.read_text().splitlines(keepends=True)[:-1]))
    (tmp_path / "out2").mkdir()
    weir("replay", tmp_path / "again.jsonl", small_encoder, tmp_path / "out2" / "out.onnx")


def test_swapped_operands(weir, tmp_path, small_encoder):
    _, log = record(weir, small_encoder, tmp_path / "first")
    done = weir("replay", small_encoder, log, tmp_path / "out.onnx", code=65)
    assert f"'{small_encoder}' is not an edit log\nhint: is it the model? usage: weir replay EDITS IN [OUT]" in done.err
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert f"'{tmp_path}/bad.jsonl': " in weir("replay", tmp_path / "bad.jsonl", small_encoder, tmp_path / "o", code=65).err


def test_log_whose_edits_leave_a_hole(weir, tmp_path, small_encoder):
    """Each line fits the model it meets; together they take away what others use."""
    _, log = record(weir, small_encoder, tmp_path / "first")
    (tmp_path / "out").mkdir()
    rows = log.read_text().splitlines(keepends=True)
    removed = next(number for number, line in enumerate(rows) if '"node.remove"' in line)
    (tmp_path / "cut.jsonl").write_text("".join(rows[: removed + 1]))
    words = ["replay", tmp_path / "cut.jsonl", small_encoder, tmp_path / "out" / "out.onnx"]
    done = weir(*words, "--partial", code=65)
    assert "invalid model" in done.err and "is not produced by any node" in done.err
    assert not list((tmp_path / "out").iterdir())


def test_an_endless_line_is_refused_before_it_is_held(tmp_path, small_encoder):
    """512 MiB without a line break, in a process that may have 256 MiB."""
    log = tmp_path / "endless.jsonl"
    with open(log, "wb") as file:
        file.write(b"{")
        file.truncate(512 << 20)
    words = [program("WEIR"), "replay", log, small_encoder, tmp_path / "out.onnx"]
    done = subprocess.run(["prlimit", f"--data={256 << 20}", *words], capture_output=True, text=True)
    assert done.returncode == 65 and "line 1 of the edit log" in done.stderr and "67108864" in done.stderr, done.stderr
