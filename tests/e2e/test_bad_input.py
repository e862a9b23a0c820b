"""What must be refused, and what only looks bad.

The files are those of tests/support/bad_models.py: named cases with what a good reader says to them, every beginning of
a small model, and every length in it replaced by a lie. Each goes through `check`, `inspect` and `convert`. A refusal
has the right exit code, a message that names what is wrong, no terminal control characters, little memory, and leaves
nothing behind; a crash, or a signal, is a failure whatever the case says.
"""

import itertools
import json
import os
import re
import shutil

import onnx
import pytest

import bad_models
import compare
import peaks
import wire
from conftest import ALL, as_user, program

RSS_LIMIT = 200 << 20
CASES = bad_models.cases()
OPERATORS = re.compile(
    "there is no operator|was added in opset|deprecated since|only ONNX Runtime|puts?, but|has no name, but|has attribute '|required "
    "attribute|its attribute|needs them to have the same type|must be|does not accept|cannot run with these inputs|it is declared as"
)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


def listing(folder):
    """Every name below a folder with what tells that nothing was written: kind, size and time."""
    found = {}
    for root, folders, files in os.walk(os.fsencode(folder)):
        for name in folders + files:
            path = os.path.join(root, name)
            at = os.lstat(path)
            found[path] = (at.st_mode, at.st_size if name in files else 0, at.st_mtime_ns if name in files else 0)
    return found


def command_line(case, path, out, command):
    words = [command, path, *case.flags]
    if command == "convert":
        words += [out, *(["--dry-run"] if case.large else [])]
    return words


def judge_refusal(case, command, done):
    said = done.out + done.err
    codes = (*case.codes, bad_models.BAD_MODEL) if command == "check" else case.codes  # whatever the fault, it is one
    if done.code not in codes:
        return f"exit code {done.code}, not {case.codes}: {said[:300]}"
    if case.pattern and not re.search(case.pattern, said, re.IGNORECASE | re.DOTALL):
        return f"the message does not match /{case.pattern}/: {said[:300]}"
    if command == "convert" and not done.err.startswith("weir: "):
        return f"an odd message: {said[:300]}"
    return None


def judge(case, command, done):
    """A complaint about how one command took a case, or None."""
    if done.code < 0 or done.code == 70:
        return f"crashed with {done.code}: {(done.out + done.err)[-300:]}"
    if CONTROL.search(done.out + done.err):
        return f"control characters in {(done.out + done.err)[:300]!r}"
    if done.peak_bytes > RSS_LIMIT:
        return f"took {done.peak_bytes >> 20} MiB"
    if done.code == 0 and case.accepted is False:
        return "accepted"
    if done.code != 0 and case.accepted is True:
        return f"refused: {(done.out + done.err)[:300]}"
    return None if done.code == 0 else judge_refusal(case, command, done)


def only_outside_metadata(case, command):
    """Cases that only a command with an output can refuse."""
    return case.name.startswith("out-") or case.name == "file-unwritable_folder" or "bomb" in case.name


def verdict(case, command, done):
    """`inspect` shows what it can, so it need not find every fault: it must not crash, or claim too much memory."""
    if command == "convert":
        return judge(case, command, done)
    if only_outside_metadata(case, command):
        return None if done.code == 0 else f"{command} refused: {done.out + done.err}"
    if command == "inspect" and done.code == 0 and case.accepted is False:
        return None if not CONTROL.search(done.out) else "control characters"
    return judge(case, command, done)


def left_behind(before, after, code):
    if code != 0 and before != after:
        return f"left behind or changed {sorted(set(before.items()) ^ set(after.items()))[:3]}"
    return None


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(tmp_path, case):
    if case.needs_user and os.geteuid() == 0:
        pytest.skip("means nothing to root")
    path = case.make(tmp_path)
    out = path.parent / case.out
    complaints = []
    for command in ("check", "inspect", "convert"):
        before = listing(tmp_path)
        done = peaks.run([program("WEIR"), *map(os.fsdecode, command_line(case, path, out, command))], timeout=60)
        complaint = verdict(case, command, done) or left_behind(before, listing(tmp_path), done.code)
        if complaint:
            complaints.append(f"{command}: {complaint}")
    assert not complaints, "\n".join(complaints)
    if out.exists() and case.accepted and not case.large and not case.name.startswith("out-"):
        equal_or_unreadable(path, out)
    shutil.rmtree(tmp_path, ignore_errors=True)


def equal_or_unreadable(source, out):
    """What was accepted means the same afterwards, as far as Python's protobuf can read the source."""
    try:
        compare.structure(source)
    except Exception:  # deeper than its limit, or with bits that only weir lives with
        return
    compare.same_meaning(source, out)


def test_cases_of_permissions_are_run_as_a_user(tmp_path):
    """As root the cases above that need a user are skipped; here they run under another id."""
    words = as_user(tmp_path)
    if os.geteuid() != 0 or words is None:
        pytest.skip("already a user, or setpriv is not installed")
    complaints = []
    for case in [case for case in CASES if case.needs_user]:
        folder = tmp_path / case.name
        folder.mkdir(mode=0o777)
        path = case.make(folder)
        if case.name != "file-unwritable_folder":
            folder.chmod(0o777)
        done = peaks.run([*words, "convert", path, folder / "out.onnx"], timeout=60)
        complaints += [f"{case.name}: {complaint}" for complaint in [judge(case, "convert", done)] if complaint]
        folder.chmod(0o755)
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", ["graph-odd_names", "graph-odd_names_in_message"])
def test_odd_names_in_json(weir, tmp_path, name):
    """Quotes, line breaks, escapes and U+202E: JSON holds the name itself, a terminal never sees it."""
    [case] = [case for case in CASES if case.name == name]
    path = case.make(tmp_path)
    for words in (["inspect", path, "--json", "--tensors"], ["check", path, "--json"]):
        done = weir(*words, code=None)
        assert not CONTROL.search(done.said)
        if done.code == 0 or words[0] == "check":
            json.loads(done.out)
    done = weir("inspect", path, "--tensors", code=None)
    assert not CONTROL.search(done.said.replace("\t", ""))


def test_odd_names_in_records(weir, tmp_path):
    """The same names in companions and logs: one line a record, and the name itself after decoding."""
    odd = 'w\x1b[31m\n"\\\u202e'
    weight = wire.tensor(odd, wire.FLOAT, (512,), bytes(2048))
    graph = wire.graph([wire.node("Identity", [odd], ["y"])], [weight], [], [("y", wire.FLOAT, [512])])
    (tmp_path / "in.onnx").write_bytes(wire.model(graph))
    weir("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--external", "--tensor-digests")
    rows = [json.loads(line) for line in (tmp_path / "out.onnx.tensors.jsonl").read_text().splitlines()]
    assert [row["name"] for row in rows] == [odd]
    weir("audit", tmp_path / "out.onnx")


# ---- thousands of small files


def run_small(weir, folder, number, content, accepted):
    """check, inspect and convert one file of a series; gives a complaint or None."""
    here = folder / str(number)
    here.mkdir()
    (here / "model.onnx").write_bytes(content)
    codes, errors = [], []
    for words in (
        ["check", "model.onnx"],
        ["inspect", "model.onnx"],
        ["convert", "model.onnx", "out.onnx", "--no-manifest"],
    ):
        done = weir(*words, code=None, cwd=here)
        codes.append(done.code)
        errors += [line for line in done.out.splitlines() if words[0] == "check" and line.startswith("error: ")]
        if done.code not in (0, 65, 66) or CONTROL.search(done.said):
            return f"{words[0]}: exit code {done.code}: {done.said[-300:]}"
    if accepted is False and (codes[0] == 0 or codes[2] == 0):
        return f"accepted ({codes})"
    of_operators = bool(errors) and all(map(OPERATORS.search, errors))  # which only check looks at
    if codes[0] != codes[2] and not (of_operators and codes[2] == 0):
        return f"check says {codes[0]}, convert {codes[2]}"
    names = sorted(os.listdir(here))
    if names != (["model.onnx", "out.onnx"] if codes[2] == 0 else ["model.onnx"]):
        return f"left {names}"
    if codes[2] == 0 and (here / "out.onnx").read_bytes() != content:
        return "the output is another model"
    shutil.rmtree(here)
    return None


def run_series(weir, folder, pool, series):
    series = list(series)
    jobs = [
        pool.submit(run_small, weir, folder, number, content, accepted)
        for number, (_, content, accepted) in enumerate(series)
    ]
    complaints = [f"{name}: {job.result()}" for (name, _, _), job in zip(series, jobs, strict=True) if job.result()]
    assert not complaints, f"{len(complaints)} of {len(series)}:\n" + "\n".join(complaints[:20])
    return len(series)


def some(series):
    """All of them with `tools/test --all`, and ordinarily every second."""
    return itertools.islice(series, 0, None, 1 if ALL else 2)


def test_truncated_at_every_byte(weir, quick_folder, pool):
    assert run_series(weir, quick_folder, pool, some(bad_models.truncations())) > (500 if ALL else 250)


def test_every_length_a_lie(weir, quick_folder, pool):
    assert run_series(weir, quick_folder, pool, some(bad_models.broken_lengths())) > (300 if ALL else 150)


def test_the_model_that_is_broken_is_sound(weir, tmp_path):
    """The control arm of the two above."""
    content = bad_models.small_model()
    (tmp_path / "model.onnx").write_bytes(content)
    weir("check", tmp_path / "model.onnx")
    weir("convert", tmp_path / "model.onnx", tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == content
    onnx.checker.check_model(tmp_path / "model.onnx")


def test_every_byte_changed(weir, quick_folder, pool):
    """No expectation but that nothing breaks: each byte of a small model replaced by its complement and by zero."""
    model = bad_models.small_model()

    def changed():
        for place, byte in enumerate(model):
            for other in sorted({byte ^ 0xFF, byte ^ 0x80, 0} - {byte})[slice(None) if ALL else slice(place % 6, None, 6)]:
                yield f"byte {place} = {other}", model[:place] + bytes([other]) + model[place + 1 :], None

    assert run_series(weir, quick_folder, pool, changed()) > (1000 if ALL else 150)


# ---- while it runs


def test_data_file_shortened_after_planning(weir, tmp_path):
    """Same name, less in it: found when the file is opened, before anything is written."""
    raw = wire.tensor("w", wire.UINT8, (5000,), pairs=wire.external("w.bin", 0, 5000))
    graph = wire.graph([wire.node("Identity", ["w"], ["y"])], [raw], [], [("y", wire.UINT8, [5000])])
    (tmp_path / "model.onnx").write_bytes(wire.model(graph))
    (tmp_path / "w.bin").write_bytes(bytes(4999))
    done = weir("convert", tmp_path / "model.onnx", tmp_path / "out.onnx", code=None)
    assert done.code in (65, 66) and "4999" in done.err and "'w'" in done.err
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "w.bin"]


@pytest.mark.parametrize("words", [
    "check IN", "inspect IN --values", "diff IN IN", "convert IN OUT", "optimize IN OUT --report-html PAGE", "infer IN OUT", "measure IN",
    "run IN OUT --pass import-qonnx --pass streamline-thresholds", "run IN OUT --pass tidy", "shrink IN --output-dir DIR",
])  # fmt: skip
def test_models_with_nothing_in_them(weir, tmp_path, words):
    """No values, no dims, no elements: tables that nothing was put into (a sanitized build sees what is done with them)."""
    scalar = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [])
    for values in ([], [scalar]):
        graph = onnx.helper.make_graph([], "g", values, values)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
        places = {"IN": tmp_path / "m.onnx", "OUT": tmp_path / "o.onnx", "PAGE": tmp_path / "p.html", "DIR": tmp_path / "d"}
        done = weir(*(places.get(word, word) for word in words.split()), *(["--force"] if "OUT" in words or "DIR" in words else []), code=None)
        assert done.code in (0, 1) and "runtime error" not in done.err
