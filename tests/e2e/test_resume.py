"""Interrupted runs: killed at any point, stopped by a signal, out of space, their input changed under them.

What holds afterwards: the old model or the new one stands whole under its name, the input is as it was, and `--resume`
ends with the bytes of a run that nobody disturbed, or says why it cannot. `weir-fault` is weir with a table that kills
it instead of its nth change to the file system (WEIR_FAULT=kill:n), or stops it there (stop:n) for others to do
something meanwhile.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import compare
import make_encoder
import report_page
import small_models
from conftest import ALL, MANY_UNITS, before_record, program, read_only_folder, sampled

STEP = 1 if ALL else 3  # of loops over all calls; odd, since what follows a kill depends on that
UNITS = 8  # of the medium encoder: seven of data, one of metadata
WAIT = 60  # seconds until a test gives up on a process that should have got somewhere
KEPT = r"interrupted: finished units \((\d+) %\) are kept, unfinished units will be written again"
SUMMARY = re.compile(KEPT + r"\nhint: .* are written and kept\n *continue: (.*)\n *discard: +(.*)\n")


# ---- what is in a folder


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def staging_folders(folder):
    return [path for path in Path(folder).iterdir() if path.name.endswith(".weir")]


def recorded(folder):
    """Lines in the unit records of a run in progress."""
    count = 0
    for staging in staging_folders(folder):
        for path in staging.glob("records.*"):
            try:
                count += path.read_bytes().count(b"\n")
            except FileNotFoundError:  # sealed and gone between two looks
                pass
    return count


def fingerprint(folder):
    return {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_ino) for path in Path(folder).iterdir()
    }


class Running:
    """A run of weir in the background that stops itself before a call of the file system, as a context.

    `before` is what weir-fault takes: before_record(2) is when one unit is recorded. However slow the machine, the run
    is there and no further when the context is entered; whatever happens, it is gone at the end.
    """

    def __init__(self, words, before):
        self.process = subprocess.Popen(
            [program("WEIR_FAULT_PROGRAM"), *map(os.fspath, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "WEIR_FAULT": f"stop:{before}"},
        )

    def __enter__(self):
        seen = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert seen.si_code == os.CLD_STOPPED, self.end()
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate()

    def send_signal(self, name):
        self.process.send_signal(getattr(signal, name))

    def end(self):
        """Let it go on: (exit code, standard error)."""
        self.send_signal("SIGCONT")
        _, err = self.process.communicate(timeout=WAIT)
        return self.process.returncode, err


# ---- kills between units


@pytest.fixture(scope="module")
def undisturbed(weir, large_folder, medium_encoder):
    """The files of a run of the medium encoder that nobody disturbed."""
    folder = large_folder / "undisturbed"
    folder.mkdir()
    weir("conv2matmul", medium_encoder, folder / "out.onnx")
    found = compare.folder_bytes(folder)
    shutil.rmtree(folder)
    return found


def command(source, folder, *options):
    return ["conv2matmul", source, Path(folder) / "out.onnx", "--jobs", "1", *options]


def assert_undisturbed(folder, undisturbed):
    assert names(folder) == sorted(undisturbed)
    for name, content in undisturbed.items():
        assert (folder / name).read_bytes() == content, name


@pytest.mark.parametrize("unit", [1, *(pytest.param(unit, marks=pytest.mark.long) for unit in (2, 4)), 7])
def test_kill_before_a_unit_is_recorded(weir, weir_fault, tmp_path, medium_encoder, undisturbed, unit):
    """Units that were recorded are kept, the others are made again."""
    before = fingerprint(medium_encoder.parent)
    kill = {"WEIR_FAULT": f"kill:{before_record(unit)}"}
    weir_fault(*command(medium_encoder, tmp_path), env=kill, code=-signal.SIGKILL)
    assert not (tmp_path / "out.onnx").exists() and len(staging_folders(tmp_path)) == 1
    done = recorded(tmp_path)
    report = weir.report(*command(medium_encoder, tmp_path), "--resume")
    assert report["weir"]["units_resumed"] == done == unit - 1
    assert_undisturbed(tmp_path, undisturbed)
    assert fingerprint(medium_encoder.parent) == before
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("units", [0, 2, 5])
def test_kill_from_outside(weir, tmp_path, medium_encoder, undisturbed, units):
    """SIGKILL at a moment of the system's choosing, twice in a row, then resume with other workers and engine."""
    for options in ([], ["--resume"]):
        process = subprocess.Popen([program("WEIR"), *command(medium_encoder, tmp_path), *options])
        while process.poll() is None and not (staging_folders(tmp_path) and recorded(tmp_path) >= units):
            time.sleep(0.0005)
        process.kill()
        process.wait()
    weir("conv2matmul", medium_encoder, tmp_path / "out.onnx", "--resume", "--jobs", "2", "--io", "sync", "--force")
    assert (tmp_path / "out.onnx").read_bytes() == undisturbed["out.onnx"]
    assert [name for name in names(tmp_path) if name.endswith(".weir")] == []
    assert (tmp_path / "out.onnx.data").read_bytes() == undisturbed["out.onnx.data"]
    shutil.rmtree(tmp_path)


def test_resume_without_anything_to_resume(weir, tmp_path, small_encoder):
    done = weir(*command(small_encoder, tmp_path), "--resume")
    assert "no interrupted run with these options" in done.err and "other options" not in done.err
    assert (tmp_path / "out.onnx").exists()


def test_resume_with_other_options(weir, weir_fault, tmp_path, one_layer):
    """What other options had begun is of no use, and stays."""
    weir_fault(*command(one_layer, tmp_path), env={"WEIR_FAULT": f"kill:{before_record(2)}"}, code=-signal.SIGKILL)
    left = staging_folders(tmp_path)
    done = weir("convert", one_layer, tmp_path / "out.onnx", "--resume")
    assert "(there is one with other options): starting from the beginning" in done.err
    assert staging_folders(tmp_path) == left
    shutil.rmtree(tmp_path)


def test_the_same_command_goes_on_by_itself(weir, weir_fault, tmp_path, medium_encoder, undisturbed):
    weir_fault(*command(medium_encoder, tmp_path), env={"WEIR_FAULT": f"kill:{before_record(3)}"}, code=-signal.SIGKILL)
    done = weir(*command(medium_encoder, tmp_path, "--json"))
    assert done.json()["weir"]["units_resumed"] == 2 and done.json()["weir"]["resumed"] == "units"
    assert re.search(r"resumed: 134 MB of \d+ MB were already written", done.err), done.err
    assert_undisturbed(tmp_path, undisturbed)
    shutil.rmtree(tmp_path)


def test_fresh_throws_away(weir, weir_fault, tmp_path, medium_encoder, undisturbed):
    weir_fault(*command(medium_encoder, tmp_path), env={"WEIR_FAULT": f"kill:{before_record(3)}"}, code=-signal.SIGKILL)
    done = weir(*command(medium_encoder, tmp_path, "--json", "--fresh"))
    assert done.json()["weir"]["units_resumed"] == 0 and done.json()["weir"]["resumed"] is None
    assert re.search(r"discarded \d+ MB of an interrupted run", done.err), done.err
    assert_undisturbed(tmp_path, undisturbed)
    shutil.rmtree(tmp_path)


def spoil(path, how):
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes({
        "empty": b"",
        "cut": content[:middle],
        "byte": content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :],
        "twice": content * 2,
    }[how])  # fmt: skip


@pytest.mark.parametrize("name, how", sampled(["records.0", "header.json", "plan.json", "plan.bin"], ["empty", "cut", "byte", "twice"], every=4))
def test_damaged_staging_folder(weir, weir_fault, tmp_path, one_layer, name, how):
    """What an interrupted run left is doubted like any input: units count only if their record does."""
    weir_fault(*command(one_layer, tmp_path), env={"WEIR_FAULT": f"kill:{before_record(3)}"}, code=-signal.SIGKILL)
    [staging] = staging_folders(tmp_path)
    spoil(staging / name, how)
    done = weir(*command(one_layer, tmp_path), "--resume", code=None)
    assert done.code in (0, 66), done.said
    if done.code != 0:
        assert not (tmp_path / "out.onnx").exists()
        weir(*command(one_layer, tmp_path), "--fresh")
    weir("audit", tmp_path / "out.onnx")
    (tmp_path / "fresh").mkdir()
    weir(*command(one_layer, tmp_path / "fresh"))
    found = compare.folder_bytes(tmp_path / "fresh")
    assert {each: (tmp_path / each).read_bytes() for each in found} == found
    assert names(tmp_path) == sorted([*found, "fresh"])
    shutil.rmtree(tmp_path)


# ---- kills between any two changes to the file system


def small_pair(folder, name, seed):
    """A small encoder with one sidecar; other seeds give other weights."""
    folder.mkdir(parents=True, exist_ok=True)
    make_encoder.make_encoder(folder / name, make_encoder.Shape(1, 32, 128, 2, 9, 16, 16), seed=seed)


class Setting:
    """One way to write over something, in a folder that can be made as often as wished.

    fresh     nothing is there
    force     an older model of the same name, written by weir, with sidecar and manifest
    force-foreign   an older model that weir did not write: no manifest tells what belongs to it
    inplace   the input itself is replaced
    """

    def __init__(self, weir, how, base):
        self.how = how
        self.base = base / "base"
        small_pair(self.base / "in", "model.onnx", seed=1)
        (self.base / "out").mkdir()
        if how == "force":
            small_pair(self.base / "old", "old.onnx", seed=2)
            weir("convert", self.base / "old" / "old.onnx", self.base / "out" / "model.onnx")
        if how == "force-foreign":
            small_pair(self.base / "out", "model.onnx", seed=2)
        self.old = compare.canonical(self.target(self.base)) if self.target(self.base).exists() else None
        done = self.make(base / "done")
        weir(*self.words(done))
        self.new = compare.canonical(self.target(done))
        self.files = compare.folder_bytes(self.target(done).parent)

    def make(self, folder):
        shutil.copytree(self.base, folder)
        return folder

    def target(self, folder):
        return folder / "in" / "model.onnx" if self.how == "inplace" else folder / "out" / "model.onnx"

    def words(self, folder):
        source = folder / "in" / "model.onnx"
        if self.how == "inplace":
            return ["conv2matmul", source, "--inplace"]
        return ["conv2matmul", source, self.target(folder), *(["--force"] if self.how != "fresh" else [])]

    def state(self, folder):
        """What a reader finds under the final name: 'old', 'new' or, where nothing was, 'nothing'."""
        if not self.target(folder).exists():
            assert self.old is None, "the old model is gone"
            return "nothing"
        found = compare.canonical(self.target(folder))
        assert found in (self.old, self.new), "neither the old model nor the new one"
        return "new" if found == self.new else "old"


def kill_and_resume(weir, weir_fault, setting, here, number):
    """One kill; gives what it left: (state, unfinished seal?), or None: the run had fewer calls."""
    source = {name: content for name, content in compare.folder_bytes(here / "in").items()}
    done = weir_fault(*setting.words(here), env={"WEIR_FAULT": f"kill:{number}"}, code=None)
    if done.code == 0:
        return None
    assert done.code == -signal.SIGKILL, done.said
    state = setting.state(here)
    if setting.how != "inplace":
        assert compare.folder_bytes(here / "in") == source
    unfinished = weir("audit", setting.target(here), code=None).code == 75
    if unfinished:
        other = weir(*setting.words(here), "--no-manifest", code=75).err
        assert "--resume completes it, --fresh discards it" in other, "an unfinished seal and no word of --resume"
    if state == "new" and not staging_folders(setting.target(here).parent):  # all is done: nothing to go on with
        if setting.how == "fresh":
            assert "exists" in weir(*setting.words(here), "--resume", code=2).err
        return state, unfinished
    # Where all is in place but the folder, the same command is a run of its own.
    again = [] if number % 2 and (unfinished or state != "new") else ["--resume"]
    weir(*setting.words(here), *again)
    assert setting.state(here) == "new"
    return state, unfinished


@pytest.mark.parametrize("how", ["fresh", "force", "force-foreign", "inplace"])
def test_kill_between_any_two_calls(weir, weir_fault, quick_folder, how):
    setting = Setting(weir, how, quick_folder)
    seen = set()
    for number in itertools.count(1, STEP):
        here = setting.make(quick_folder / f"kill-{number}")
        found = kill_and_resume(weir, weir_fault, setting, here, number)
        if not found:
            break
        seen.add(found)
        folder = setting.target(here).parent
        weir("clean", folder, "--yes", "--quiet")
        assert compare.folder_bytes(folder) == setting.files, f"killed at call {number}, found {found[0]}"
        shutil.rmtree(here)
    assert number > 40
    assert (("nothing" if how == "fresh" else "old"), True) in seen and ("new", True) in seen, seen


CONFIG = "passes:\n  - quantize: {block_size: %d}\n"
RULE = 'mine/relu "Relu of Relu" exact : Relu(Relu(x)) -> %s(x) ;\n'
CONVERT = ["run", "in.onnx", "out.onnx"]
# By what the command reads beside the model: its words, the file, and what that holds before and after it is edited.
BESIDE = {
    "a pipeline": ([*CONVERT, "--config", "c.yaml"], "c.yaml", CONFIG % 16, CONFIG % 32),
    "a file that it imports": ([*CONVERT, "--config", "all.yaml"], "c.yaml", CONFIG % 16, CONFIG % 32),
    "rules": ([*CONVERT, "--rules", "my.rules", "--pass", "mine/relu", "--pass", "quantize:block_size=16"], "my.rules", RULE % "Relu", RULE % "Abs "),
    "an edit log": (["replay", "log.jsonl", "in.onnx", "out.onnx"], "log.jsonl", 16, 32),
    "arrays": (["quantize", "in.onnx", "out.onnx", "--block-size", "16", "--verify=model", "--verify-inputs", "given"], "given/x.npz", 1, 2),
    # The folder that the command writes into changes with every call; only arrays in it count.
    "arrays beside the output": (["quantize", "in.onnx", "out.onnx", "--block-size", "16", "--verify=model", "--verify-inputs", "."], "x.npz", 1, 2),
    "arrays of a data set": (["quantize", "in.onnx", "out.onnx", "--block-size", "16", "--verify=model", "--verify-inputs", "."], "test_data_set_0/input_0.pb", 1, 2),
}  # fmt: skip


def beside_model(weir, here, what, changed):
    """The file as it is before, or after, it is edited."""
    _, name, before, after = BESIDE[what]
    content = after if changed else before
    path = here / name
    path.parent.mkdir(exist_ok=True)
    if what.startswith("arrays"):
        array = np.full((2, 64), content, np.float32)
        if path.suffix == ".pb":
            path.write_bytes(numpy_helper.from_array(array, "x").SerializeToString())
        else:
            np.savez(path, x=array)
    elif what == "an edit log":
        path.unlink(missing_ok=True)
        weir("quantize", here / "in.onnx", here / "logged.onnx", "--block-size", str(content), "--edit-log", path, "--force", "--quiet")
    else:
        path.write_text(content)


@pytest.mark.parametrize("what", BESIDE)
def test_a_file_of_the_command_is_edited_after_a_kill(weir, weir_fault, quick_folder, what):
    """What another file had made is never called what this command makes: not with exit code 0."""
    weight = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["a"]), helper.make_node("Relu", ["a"], ["z"])]
    words = BESIDE[what][0]

    def folder(name, changed):
        here = quick_folder / name
        here.mkdir()
        small_models.save(here / "in.onnx", nodes, [small_models.value("x", ["n", 64])], [small_models.value("z", ["n", 64])], {"w": weight})
        (here / "all.yaml").write_text("imports: [c.yaml]\n")
        beside_model(weir, here, what, changed)
        return here

    def run(program, here, *more, **others):
        return program(*words, *more, cwd=here, code=None, **others)

    done = {}
    for changed in (False, True):
        here = folder(f"done-{changed}", changed)
        assert run(weir, here).code == 0
        done[changed] = compare.canonical(here / "out.onnx")
    assert what.startswith("arrays") or done[False] != done[True]
    here = folder("count", False)
    run(weir_fault, here, env={"WEIR_FAULT_LOG": str(here / "calls")})
    calls = len((here / "calls").read_text().splitlines())
    met = set()
    for number in range(calls - 14, calls + 1):
        for edited in (True, False):
            here = folder(f"{number}-{edited}", False)
            if run(weir_fault, here, env={"WEIR_FAULT": f"kill:{number}"}).code == 0:
                continue
            if edited:
                beside_model(weir, here, what, True)
            again = run(weir, here)
            met.add((edited, again.code))
            if again.code == 0:
                assert compare.canonical(here / "out.onnx") == done[edited], number
                assert not what.startswith("arrays") or not edited or "verified" in again.said
            else:
                assert "exists already" in again.err if again.code == 2 else "interrupted while it moved" in again.err
    assert {(True, 2), (True, 75), (False, 0)} <= met and (False, 75) not in met, met


@pytest.mark.parametrize("how", ["fresh", "force", "inplace"])
def test_any_call_may_fail(weir, weir_fault, quick_folder, how):
    """EIO from the nth call instead: an exit code, a message, the old model or the new one, and a way to go on."""
    setting = Setting(weir, how, quick_folder)
    calls = len(count_log(weir_fault, setting, quick_folder))
    for number in range(1, calls + 1, STEP):
        here = setting.make(quick_folder / f"fail-{number}")
        done = weir_fault(*setting.words(here), env={"WEIR_FAULT": f"EIO:*:{number}"}, code=None)
        assert done.code in (0, 66, 74, 75), f"call {number}: exit code {done.code}: {done.said}"
        assert done.code == 0 or done.err.startswith("weir: "), done.said
        state = setting.state(here)
        assert state == "new" or done.code != 0, f"call {number} failed, the program said all is well, and it is not"
        if state != "new" or weir("audit", setting.target(here), code=None).code == 75:
            weir(*setting.words(here), "--resume")
            assert setting.state(here) == "new", f"call {number}"
        shutil.rmtree(here)


# ---- signals


@pytest.mark.parametrize("name, call", sampled(["SIGINT", "SIGTERM"], ["mkdirat:1", "fallocate:1", before_record(3)], every=2))
def test_signals_stop_a_run(weir, tmp_path, medium_encoder, quiet_run, name, call):
    """Ended by the signal, input untouched, nothing under a final name; and the printed command goes on."""
    before, line = fingerprint(medium_encoder.parent), command(medium_encoder, tmp_path, *MANY_UNITS)
    with Running(line, call) as run:
        run.send_signal(name)
        code, err = run.end()
    assert code == -getattr(signal, name), err
    assert fingerprint(medium_encoder.parent) == before
    assert len(names(tmp_path)) == 1 and len(staging_folders(tmp_path)) == 1
    told = SUMMARY.search(err)
    assert told and (int(told[1]) > 0) == (recorded(tmp_path) > 0), err
    assert shlex.split(told[3]) == ["weir", "clean", os.fspath(tmp_path), "--yes"]
    words = shlex.split(told[2])
    assert words == ["weir", *map(os.fspath, line)]
    held = weir("clean", tmp_path, "--json").json()["found"][0]["bytes"]
    went_on = weir(*words[1:]).err
    assert ("resumed: " in went_on) == (int(told[1]) > 0), went_on
    assert ("no unit of the earlier run was finished: " in went_on) == (int(told[1]) == 0 and held > 0), went_on
    assert compare.folder_digests(tmp_path) == quiet_run and names(tmp_path) == sorted(quiet_run)
    shutil.rmtree(tmp_path)


def test_signal_while_the_input_is_hashed(weir, tmp_path, medium_encoder):
    """--hash-inputs reads everything once more at the end: that stops as well, and nothing is lost."""
    words = command(medium_encoder, tmp_path, "--hash-inputs")
    with Running(words, before_record(UNITS)) as run:
        assert recorded(tmp_path) == UNITS - 1
        run.send_signal("SIGTERM")
        code, err = run.end()
    assert code == -signal.SIGTERM and "interrupted while hashing the input" in err, err
    report = weir.report(*words, "--resume")
    assert report["weir"]["units_resumed"] == UNITS
    shutil.rmtree(tmp_path)


# ---- sources that change


def killed_copy(weir_fault, encoder, folder):
    """A run over a copy of the encoder, killed after two units; gives the copy."""
    shutil.copytree(encoder.parent, folder / "in")
    (folder / "out").mkdir()
    source = folder / "in" / encoder.name
    weir_fault(*command(source, folder / "out"), env={"WEIR_FAULT": f"kill:{before_record(3)}"}, code=-signal.SIGKILL)
    return source


def change_a_weight(source, keep_times):
    """Same size, another byte in the data file; with the old modification time or a new one."""
    data = source.with_name(source.name + ".data")
    at = data.stat()
    with open(data, "r+b") as file:
        file.seek(at.st_size - 4096)
        byte = file.read(1)[0]
        file.seek(at.st_size - 4096)
        file.write(bytes([byte ^ 0xFF]))
    if keep_times:
        os.utime(data, ns=(at.st_atime_ns, at.st_mtime_ns))


@pytest.mark.parametrize("keep_times", [False, True], ids=["new time", "old time"])
def test_resume_over_changed_weights_is_refused(weir, weir_fault, tmp_path, one_layer, keep_times):
    shutil.copytree(one_layer.parent, tmp_path / "in")
    (tmp_path / "out").mkdir()
    source = tmp_path / "in" / one_layer.name
    weir_fault(*command(source, tmp_path / "out"), env={"WEIR_FAULT": f"kill:{before_record(2)}"}, code=-signal.SIGKILL)
    assert recorded(tmp_path / "out") == 1
    change_a_weight(source, keep_times)
    done = weir(*command(source, tmp_path / "out"), "--resume", code=66)
    assert source.name + ".data" in done.err and "changed" in done.err
    assert not (tmp_path / "out" / "out.onnx").exists()
    assert "the input changed since the interrupted run" in weir(*command(source, tmp_path / "out")).err
    compare_with_fresh(weir, source, tmp_path)
    shutil.rmtree(tmp_path)


def compare_with_fresh(weir, source, folder):
    (folder / "fresh").mkdir()
    weir(*command(source, folder / "fresh"))
    assert compare.folder_bytes(folder / "fresh") == compare.folder_bytes(folder / "out")


def run_and_disturb(encoder, folder, disturb):
    """Start over a copy, stop it after one unit, disturb the copy, let it go on; gives (exit code, messages)."""
    shutil.copytree(encoder.parent, folder / "in")
    (folder / "out").mkdir()
    source = folder / "in" / encoder.name
    with Running(command(source, folder / "out"), before_record(2)) as run:
        assert recorded(folder / "out") == 1
        disturb(source.with_name(source.name + ".data"))
        return run.end()


def truncate(keep):
    def disturb(data):
        with open(data, "r+b") as file:
            file.truncate(keep)

    return disturb


def overwrite(data):
    with open(data, "r+b") as file:
        file.seek(-5000, os.SEEK_END)
        file.write(b"changed")


def grow(data):
    with open(data, "ab") as file:
        file.write(b"more")


@pytest.mark.parametrize(
    "disturb",
    [truncate(0), truncate((200 << 20) + 1234), overwrite, grow],
    ids=["emptied", "cut", "overwritten", "grown"],
)
def test_input_changes_while_it_is_read(tmp_path, medium_encoder, disturb):
    """Exit 66, and nothing under a final name: neither zeros of a page that is gone, nor half of each."""
    code, err = run_and_disturb(medium_encoder, tmp_path, disturb)
    assert code == 66, err
    assert medium_encoder.name + ".data" in err
    assert not (tmp_path / "out" / "out.onnx").exists()
    shutil.rmtree(tmp_path)


def test_input_replaced_by_rename(weir, tmp_path, medium_encoder, undisturbed):
    """The old file lives on behind the open descriptor: its bytes, or a refusal."""

    def disturb(data):
        other = data.with_name("other")
        other.write_bytes(bytes(data.stat().st_size))
        other.rename(data)

    code, err = run_and_disturb(medium_encoder, tmp_path, disturb)
    assert code in (0, 66), err
    if code == 0:
        assert (tmp_path / "out" / "out.onnx.data").read_bytes() == undisturbed["out.onnx.data"]
    shutil.rmtree(tmp_path)


# ---- others at work


def test_live_run_holds_its_folder(weir, tmp_path, medium_encoder, undisturbed):
    """While a run holds its staging folder, the same command is told to come back, and clean leaves it alone."""
    with Running(command(medium_encoder, tmp_path), before_record(2)) as run:
        assert "in use" in weir(*command(medium_encoder, tmp_path), code=75).err
        [found] = json.loads(weir("clean", tmp_path, "--json", "--yes").out)["found"]
        assert found["locked"] and not found["removed"]
        code, err = run.end()
    assert code == 0, err
    assert_undisturbed(tmp_path, undisturbed)
    shutil.rmtree(tmp_path)


# ---- clean


def test_clean_lists_and_removes(weir, weir_fault, tmp_path, medium_encoder):
    weir_fault(*command(medium_encoder, tmp_path), env={"WEIR_FAULT": f"kill:{before_record(3)}"}, code=-signal.SIGKILL)
    [staging] = staging_folders(tmp_path)
    (tmp_path / "other.onnx").write_bytes(b"not ours")
    listed = weir("clean", tmp_path)
    assert staging.name in listed.out and "conv2matmul" in listed.out and "MB" in listed.out
    [found] = weir("clean", tmp_path, "--json").json()["found"]
    assert found["name"] == staging.name and not found["locked"] and not found["half_sealed"]
    assert found["bytes"] >= 100_000_000
    assert staging.exists()
    weir("clean", tmp_path, "--yes")
    assert names(tmp_path) == ["other.onnx"]


def test_printed_resume_command_of_clean(weir, weir_fault, tmp_path, one_layer):
    """Names with spaces and quotes: what is printed can be pasted into a shell."""
    folder = tmp_path / "a folder's"
    folder.mkdir()
    weir_fault(*command(one_layer, folder), env={"WEIR_FAULT": f"kill:{before_record(2)}"}, code=-signal.SIGKILL)
    [found] = weir("clean", folder, "--json").json()["found"]
    words = shlex.split(found["resume"])
    weir(*words[1:])
    assert (folder / "out.onnx").exists() and not staging_folders(folder)
    shutil.rmtree(tmp_path)


def test_clean_never_touches_a_half_sealed_folder(weir, weir_fault, quick_folder):
    """Its staging folder alone knows what is left to do."""
    setting = Setting(weir, "fresh", quick_folder)
    here = half_sealed(weir_fault, setting, quick_folder)
    [found] = weir("clean", here / "out", "--json", "--yes").json()["found"]
    assert found["half_sealed"] and not found["removed"]
    assert weir("audit", setting.target(here), code=75).err
    weir(*shlex.split(found["resume"])[1:])
    assert compare.folder_bytes(here / "out") == setting.files


def count_log(weir_fault, setting, folder):
    """[(call, name)] of an undisturbed run."""
    here = setting.make(folder / "log-run")
    weir_fault(*setting.words(here), env={"WEIR_FAULT_LOG": os.fspath(folder / "log")})
    shutil.rmtree(here)
    rows = (line.split(" ", 2) for line in (folder / "log").read_text().splitlines())
    return [(row[1], row[2] if len(row) > 2 else "") for row in rows]


def half_sealed(weir_fault, setting, folder, *options):
    """A run that was killed before it moved the .onnx. (How many other calls come before differs from run to run.)"""
    moves = [name for call, name in count_log(weir_fault, setting, folder) if call == "renameat2"]
    move = len(moves) - moves[::-1].index("model.onnx")
    here = setting.make(folder / "half")
    words = [*setting.words(here), *options]
    kept = 1 if "--report-json" in options else 0  # a report that is kept is one more
    weir_fault(*words, env={"WEIR_FAULT": f"kill:renameat2:{move + kept}"}, code=-signal.SIGKILL)
    return here


@pytest.mark.parametrize("how", ["fresh", "inplace"])
def test_report_of_a_completed_seal(weir, weir_fault, quick_folder, how):
    """It is that of the run that did the work, and says that it was resumed in the seal."""
    setting = Setting(weir, how, quick_folder)
    report = quick_folder / "report.json"
    here = half_sealed(weir_fault, setting, quick_folder, "--report-json", report)
    assert weir("audit", setting.target(here), code=75) and not report.exists()
    weir(*setting.words(here), "--dry-run", code=75)
    done = weir(*setting.words(here), "--report-json", report, "--resume", "--json")
    said = json.loads(report.read_text())
    assert done.json() == said and said["weir"]["resumed"] == "seal" and said["converted"] > 0
    assert said["weir"]["bytes_written"] == sum(each["size"] for each in said["weir"]["output"])
    assert compare.folder_bytes(setting.target(here).parent) == setting.files


def test_report_of_a_completed_seal_that_kept_none(weir, weir_fault, quick_folder):
    """Then it says what is known; where it could not be written, nothing is completed."""
    setting = Setting(weir, "fresh", quick_folder)
    here = half_sealed(weir_fault, setting, quick_folder)
    weir(*setting.words(here), "--resume", "--report-json", here / "nowhere" / "report.json", code=2)
    done = weir(*setting.words(here), "--resume", "--report-json", here / "r.json", "--strict-compat", code=2)
    assert "stored no report" in done.err and not (here / "r.json").exists() and not (here / "r.json.part").exists()
    assert weir("audit", setting.target(here), code=75)
    said = weir(*setting.words(here), "--resume", "--json").json()
    assert said["weir"] == {
        "manifest": "model.onnx.manifest.json",
        "output": [{"name": name, "size": os.path.getsize(here / "out" / name)} for name in ("model.onnx.data", "model.onnx")],
        "plan_id": said["weir"]["plan_id"],
        "resumed": "seal",
        "version": said["weir"]["version"],
    }
    assert compare.folder_bytes(here / "out") == setting.files


@pytest.mark.parametrize("how", ["kept", "changed", "never"])
def test_page_of_a_completed_seal(weir, weir_fault, quick_folder, how):
    """It is that of the run that did the work; or, where none was kept or it was changed, it has the files and the plan."""
    setting = Setting(weir, "inplace", quick_folder)
    words = [] if how == "never" else ["--report-html", quick_folder / "r.html"]
    here = half_sealed(weir_fault, setting, quick_folder, *words)
    [staging] = staging_folders(setting.target(here).parent)
    assert (staging / "report.html").exists() == (how != "never")
    if how == "changed":
        text = (staging / "report.html").read_text()
        (staging / "report.html").write_text(text.replace("<h1>", "<h1>x"))
    done = weir(*setting.words(here), "--resume", "--report-html", quick_folder / "r.html")
    page = report_page.read(quick_folder / "r.html")
    assert ("the report page that the interrupted run stored was changed or damaged" in done.err) == (how == "changed")
    assert ("What changed" in page.text()) == (how == "kept") and ("shows only its files" in page.text()) == (how != "kept")
    assert "model.onnx.data" in page.text() and "model.onnx.manifest.json" in page.text()
    assert compare.folder_bytes(setting.target(here).parent) == setting.files


@pytest.mark.parametrize("how", ["another number", "cut", "another check", "of another run", "not JSON"])
def test_a_kept_report_that_was_changed_is_not_believed(weir, weir_fault, quick_folder, how):
    """It says what is known without it, and so does a line; nothing of the changed one is repeated."""
    setting = Setting(weir, "fresh", quick_folder)
    here = half_sealed(weir_fault, setting, quick_folder, "--report-json", quick_folder / "r.json")
    [staging] = staging_folders(here / "out")
    kept = staging / "report.json"
    text = kept.read_text()
    report, check = text[: text.rindex("{")], text[text.rindex("{") :]
    assert json.loads(report)["converted"] > 0 and list(json.loads(check)) == ["sha256"]
    kept.write_text(
        {
            "another number": re.sub(r'"converted": \d+', '"converted": 777', text),
            "cut": report,
            "another check": report + check.replace(check[15], "0" if check[15] != "0" else "1"),
            "of another run": report.replace("encoder", "decoder") + "\n" + check,
            "not JSON": text[1:],
        }[how]
    )
    assert kept.read_text() != text
    done = weir(*setting.words(here), "--resume", "--json")
    assert "converted" not in done.json() and done.json()["weir"]["resumed"] == "seal"
    assert "the report that the interrupted run stored was changed or damaged" in done.err
    assert compare.folder_bytes(here / "out") == setting.files


def test_no_report_of_an_earlier_try_is_kept(weir, weir_fault, quick_folder):
    """The first try asked for a report and was killed before its seal began; the second one did not ask."""
    setting = Setting(weir, "fresh", quick_folder)
    here = setting.make(quick_folder / "here")
    moves = [name for call, name in count_log(weir_fault, setting, quick_folder) if call == "renameat2"]
    before_seal = moves.index(next(name for name in moves if name.startswith("seal.json"))) + 2  # one for the report
    kill = {"WEIR_FAULT": f"kill:renameat2:{before_seal}"}
    weir_fault(*setting.words(here), "--report-json", here / "r.json", env=kill, code=-signal.SIGKILL)
    [staging] = staging_folders(here / "out")
    assert (staging / "report.json").exists() and not (staging / "seal.json").exists()
    number = 0
    while not (staging / "seal.json").exists():
        number += 1
        weir_fault(*setting.words(here), env={"WEIR_FAULT": f"kill:renameat2:{number}"}, code=-signal.SIGKILL)
    assert not (staging / "report.json").exists()


def test_kill_in_the_seal_of_a_run_with_a_report(weir, weir_fault, quick_folder):
    """At any call: either the run was not sealed yet and is made, or its report comes from what it kept."""
    setting = Setting(weir, "inplace", quick_folder)
    seen = set()
    for number in range(1, 200):
        here = setting.make(quick_folder / f"kill-{number}")
        words = [*setting.words(here), "--report-json", here / "report.json"]
        if weir_fault(*words, env={"WEIR_FAULT": f"kill:{number}"}, code=None).code == 0:
            break
        if staging_folders(here / "in"):
            weir(*words, "--resume")
            said = json.loads((here / "report.json").read_text())
            seen.add(said["weir"]["resumed"])
            assert "converted" in said or setting.state(here) == "new"
        shutil.rmtree(here)
    assert seen == {None, "units", "seal"}


# ---- space and permission


def numbers_in(text):
    return [int(number) for number in re.findall(r"\d{4,}", text)]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 MiB, where one can be mounted."""
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", mount], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


def test_small_disk(weir, small_disk, one_layer):
    """Found before the first byte: needed and free bytes are named, and the disk is as it was."""
    done = weir(*command(one_layer, small_disk), code=73)
    needed, free = (
        os.path.getsize(f"{one_layer}.data"),
        os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize,
    )
    assert names(small_disk) == []
    found = numbers_in(done.err)
    assert any(number >= needed for number in found) and any(0 < number <= 64 << 20 for number in found), (
        done.err,
        free,
    )


def test_dry_run_on_a_small_disk(weir, small_disk, one_layer):
    """Says no where the run would, with the same words and figures; 0 where there is room."""
    dry = weir(*command(one_layer, small_disk), "--dry-run", code=73)
    real = weir(*command(one_layer, small_disk), code=73)
    assert dry.err == real.err and "disk needed" in dry.out and names(small_disk) == []
    said = weir(*command(one_layer, small_disk), "--dry-run", "--json", code=73).json()["weir"]
    assert said["disk_needed_bytes"] > said["disk_free_bytes"] > 0 and said["refusal"]["exit_code"] == 73
    make_encoder.make_encoder(small_disk / "model.onnx", size=20_000_000)
    weir("conv2matmul", small_disk / "model.onnx", "--inplace", "--dry-run")
    make_encoder.make_encoder(small_disk / "model.onnx", size=40_000_000)
    weir("conv2matmul", small_disk / "model.onnx", "--inplace", "--dry-run", code=73)


def test_small_disk_counts_both_models(weir, small_disk):
    """--inplace needs room for the new model beside the old one."""
    make_encoder.make_encoder(small_disk / "model.onnx", size=40_000_000)
    before = compare.canonical(small_disk / "model.onnx")
    weir("conv2matmul", small_disk / "model.onnx", "--inplace", code=73)
    assert compare.canonical(small_disk / "model.onnx") == before
    assert names(small_disk) == ["model.onnx", "model.onnx.data"]


@pytest.mark.parametrize(
    "fault",
    [
        "ENOSPC:fallocate:1",
        "ENOSPC:fdatasync:1",
        "EDQUOT:fdatasync:1",
        "ENOSPC:write:4:persist",
        f"ENOSPC:{before_record(2)}",
    ],
)
def test_disk_full_on_the_way(weir, weir_fault, tmp_path, one_layer, fault):
    done = weir_fault(*command(one_layer, tmp_path), env={"WEIR_FAULT": fault}, code=73)
    assert not (tmp_path / "out.onnx").exists()
    if staging_folders(tmp_path):
        assert "continue: weir conv2matmul" in done.err or "run the same command again" in done.err
    weir(*command(one_layer, tmp_path))
    assert names(tmp_path) == ["out.onnx", "out.onnx.data", "out.onnx.manifest.json"]
    resumed = compare.folder_bytes(tmp_path)
    for name in resumed:
        (tmp_path / name).unlink()
    weir(*command(one_layer, tmp_path))
    assert compare.folder_bytes(tmp_path) == resumed
    shutil.rmtree(tmp_path)


def test_read_only_folder(tmp_path, small_encoder):
    """Exit 77, as an ordinary user; nothing is written."""
    out, words = read_only_folder(tmp_path, small_encoder)
    done = subprocess.run([*words, *map(os.fspath, command(small_encoder, out))], capture_output=True, text=True)
    assert done.returncode == 77, done.stderr
    assert "read-only" in done.stderr and names(out) == []
