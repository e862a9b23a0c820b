"""Every command that writes, with every change that it makes to the file system refused: once, and from then on; the disk
full, a write cut short, the process killed.

Each ends in one of three ways: as if nothing had been, where the call was no matter; with an error and its exit code; by
the kill. Then no file with a final name is anything but whole, the input is what it was, and the same command, given
again, ends with the bytes of an undisturbed run. In the ordinary run seven calls in twenty-four are tried, each with another
fault than its neighbours, and every 293rd allocation refused; with WEIR_TEST_ALL every call with every fault, and every allocation.
"""

import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import signing_keys
from conftest import ALL, DATA, program

EVERY = int(os.environ.get("WEIR_FAULT_EVERY", "1"))  # of allocations with WEIR_TEST_ALL: there are ten times as many as calls
pytestmark = pytest.mark.in_memory
SOURCE = DATA / "parakeet-torchscript" / "encoder-model.onnx"
FAULTS = ["EIO:*:{}", "EIO:*:{}:persist", "ENOSPC:*:{}:persist", "EACCES:*:{}", "EINTR:*:{}", "kill:{}", "short:write:{}"]
CODES = {66, 69, 73, 74, 75, 77, -9}  # 69: what runs models cannot be looked at
TRANSFERS = {
    "open": ["EMFILE"],
    "read": ["EIO", "eof", "short"],
    "write": ["EIO", "ENOSPC", "short", "torn", "kill"],
    "clone": ["EIO"],
    "submit": ["EPERM", "EINTR"],
    "wait": ["EIO"],
}
LATE = {"out/provenance", "out/report-html"}  # written when the output has its name
PASSES = ["--pass", "conv2matmul", "--tensor-digests"]


class Story:
    """A command and what comes before it, in a folder: model/ has the source, out/ what is written."""

    def __init__(self, weir, given):
        self.weir, self.given = weir, given

    def prepare(self, folder):
        (folder / "out").mkdir(parents=True)
        shutil.copytree(SOURCE.parent, folder / "model")
        self.source, self.out = folder / "model" / SOURCE.name, folder / "out" / "out.onnx"
        self.before(folder)

    def before(self, folder):
        pass

    def after(self, folder):
        pass

    def plan(self):
        [plan] = (path for path in self.out.parent.glob(".out.onnx.*.weir") if not path.name.endswith(".done.weir"))
        return plan


class Run(Story):
    """With all that it can write besides."""

    def words(self, folder):
        side = [word for option in ("edit-log", "report-html", "plan-out", "provenance") for word in (f"--{option}", folder / "out" / option)]
        return ["run", self.source, self.out, *PASSES, *side]


class Replace(Story):
    """The model that is there is written over, its data under the same name; for a while the .onnx names these by another."""

    passage = "out/out.onnx"

    def before(self, folder):
        self.weir("convert", self.source, self.out, "--external")

    def words(self, folder):
        return ["quantize", self.source, self.out, "--block-size", "32", "--force"]


class Linked(Story):
    """The model is a link into a folder of contents, as in a Hugging Face cache, and so is its data."""

    def before(self, folder):
        blobs, snapshot = folder / "model" / "blobs", folder / "model" / "snapshots" / "0a1b"
        blobs.mkdir()
        snapshot.mkdir(parents=True)
        for number, path in enumerate([path for path in self.source.parent.iterdir() if path.is_file()]):
            path.rename(blobs / f"{number:064x}")
            (snapshot / path.name).symlink_to(f"../../blobs/{number:064x}")
        self.source = snapshot / self.source.name

    def words(self, folder):
        return ["conv2matmul", self.source, self.out]


class Owned(Replace):
    """What is replaced is another user's, where this one may say so."""

    def before(self, folder):
        super().before(folder)
        if os.geteuid() == 0:
            os.chown(self.out, 12345, 12345)

    def words(self, folder):
        return ["conv2matmul", self.source, self.out, "--force"]


class Shrink(Story):
    def words(self, folder):
        return ["shrink", self.source, "--output-dir", folder / "out" / "more", "--resume"]


class Plan(Story):
    """Carried out afterwards by others."""

    def words(self, folder):
        return ["plan", self.source, self.out, *PASSES]

    def after(self, folder):
        self.weir("shard", self.plan())
        self.weir("finalize", self.plan())


class Shard(Plan):
    def before(self, folder):
        self.weir(*Plan.words(self, folder))

    def words(self, folder):
        return ["shard", self.plan()]

    def after(self, folder):
        self.weir("finalize", self.plan())


class Finalize(Shard):
    def before(self, folder):
        super().before(folder)
        self.staged = self.plan()
        self.weir("shard", self.staged)

    def words(self, folder):
        return ["finalize", self.staged]

    def after(self, folder):
        pass


class Rebuild(Story):
    def before(self, folder):
        (folder / "made").mkdir()
        self.weir("conv2matmul", self.source, folder / "made" / "out.onnx", "--tensor-digests")

    def words(self, folder):
        return ["rebuild", folder / "made" / "out.onnx", "--source", self.source, "--write", folder / "out"]


class Sign(Story):
    def before(self, folder):
        self.weir("conv2matmul", self.source, self.out)

    def words(self, folder):
        return ["sign", self.out, "--key", self.given.key]


class Calibrate(Story):
    """Ranges, second moments beside them, and a cache."""

    def words(self, folder):
        return ["calibrate", self.source, "-o", self.out, "--cache", folder / "out" / "cache", "--generate", "2", "--statistics", "gram"]


class Clean(Story):
    """A run that was killed, and a plan."""

    def before(self, folder):
        self.weir.fault("convert", self.source, self.out, "--external", env={"WEIR_FAULT": "kill:fdatasync:2"}, code=-9)
        self.weir("plan", self.source, folder / "out" / "other.onnx", *PASSES)

    def words(self, folder):
        return ["clean", folder / "out", "--yes"]


class Replay(Story):
    def before(self, folder):
        (folder / "made").mkdir()
        self.weir("quantize", self.source, folder / "made" / "q.onnx", *BUDGET, "--edit-log", folder / "made" / "log")

    def words(self, folder):
        return ["replay", folder / "made" / "log", self.source, self.out]


class Quantize(Story):
    """What is found in weights is kept."""

    def words(self, folder):
        return ["quantize", self.source, self.out, *BUDGET, "--artifacts", folder / "out" / "kept"]


def one(name, *words, ranges=False):
    """The story of a command that makes a model, with what is found in weights, or in RANGES, if it takes these."""
    return type(name, (Story,), {"words": lambda self, folder: [name, self.source, self.out, *words, *(["--ranges", self.given.ranges] if ranges else [])]})


BUDGET = ["--budget", "1500000", "--candidates", "4:32,8:32"]
STORIES = [
    Run, Replace, Linked, Owned, Shrink, Plan, Shard, Finalize, Rebuild, Sign, Calibrate, Clean, Replay, Quantize,
    one("static", ranges=True),
    one("smooth", ranges=True),
    one("dynamic"),
    one("cast", "--to", "float16"),
    one("optimize"),
    one("infer"),
    one("preprocess"),
    one("convert", "--split", "200K"),
]  # fmt: skip


def files(folder):
    """By path; of a signature only that it is there, since no two are equal, and of the page only that it is whole."""
    found = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            found[str(inside)] = b"" if path.suffix == ".sig" else path.read_bytes()[-20:] if path.name == "report-html" else path.read_bytes()
    return found


@pytest.fixture(scope="module")
def given(weir, weir_fault, tmp_path_factory):
    """What stories share: a key, ranges with second moments."""
    folder = tmp_path_factory.mktemp("given")
    weir.fault = weir_fault
    weir("calibrate", SOURCE, "-o", folder / "r.jsonl", "--generate", "1", "--statistics", "gram")
    return SimpleNamespace(key=signing_keys.make(folder)[0], ranges=folder / "r.jsonl")


def counts_of(words, folder):
    """How many changes the command makes to the file system, how many of these are writes, and what else of it can fail, by name."""
    told = {"WEIR_FAULT_LOG": str(folder / "log"), "WEIR_FAULT_COUNTS": str(folder / "counts")}
    subprocess.run([program("WEIR_FAULT_PROGRAM"), *map(str, words)], env={**os.environ, **told}, capture_output=True, check=True)
    lines = (folder / "log").read_text().splitlines()
    counts = {name: int(n) for name, n in map(str.split, (folder / "counts").read_text().splitlines())}
    return {**counts, "change": len(lines), "change of write": sum(line.split()[1] == "write" for line in lines)}


def changes_refused(counts):
    for number in range(1, counts["change"] + 1):
        for k, fault in enumerate(FAULTS):
            if (ALL or number % 24 == (19 * k + 6) % 24) and (number <= counts["change of write"] or "write" not in fault):
                yield {"WEIR_FAULT": fault.format(number)}


def looks_refused(counts):
    """Of the calls that change nothing: each kind refused at each of its times, once and from then on."""
    for word in (name[5:] for name in counts if name.startswith("look:")):
        for number in range(1, counts[f"look:{word}"] + 1):
            if ALL or number == 1 or number % 24 == 7:
                yield {"WEIR_FAULT": f"EIO:{word}:{number}"}
            if ALL or number == 2:
                yield {"WEIR_FAULT": f"EACCES:{word}:{number}:persist"}


def memory_refused(counts):
    step = EVERY if ALL else 293
    for kind, every in (("heap", step), ("map", (step + 3) // 4)):
        for number in range(1, counts[kind] + 1, every):
            yield {"WEIR_FAULT_MEMORY": f"{kind}:{number}"}
            if ALL or number == 1:
                yield {"WEIR_FAULT_MEMORY": f"{kind}:{number}:persist"}


def transfers_spoiled(counts):
    """Of the engine of reads and writes: a queue not opened, a piece not taken in, a completion that fails or is short."""
    for op, actions in TRANSFERS.items():
        for number in range(1, counts[op] + 1):
            for k, action in enumerate(actions):
                if ALL or number % (6 * len(actions)) == k:
                    yield {"WEIR_FAULT_IO": f"{op}:{number}:{action}"}
                if action.startswith("E") and (ALL or number == 1):
                    yield {"WEIR_FAULT_IO": f"{op}:{number}:persist:{action}"}


def trial(weir, weir_fault, story, folder, given, expected, fault):
    """Its exit code, when all has been asserted that holds whatever fails."""
    each = story(weir, given)
    each.prepare(folder)
    old = files(folder)
    words = each.words(folder)
    left = folder.parent / "left"
    done = weir_fault(*words, env=fault | {"WEIR_FAULT_LEFT": str(left)}, code=None)
    if "WEIR_FAULT_IO" not in fault:  # a queue that is lost stays as it is there
        assert not left.exists() or left.read_text() == "", (fault, done.said)
    left.unlink(missing_ok=True)
    [spec] = fault.values()
    refused = "WEIR_FAULT_MEMORY" in fault and done.code == 75 and "the system refused" in done.err  # what it wrote stays then
    in_place = False
    assert done.code == 0 or done.code in CODES, (fault, done.said)
    assert "WEIR_FAULT_MEMORY" not in fault or done.code in (0, 75), (fault, done.said)  # whichever part of the program asked
    assert done.code <= 0 or done.err.startswith("weir: error: ") or "\nweir: error: " in done.err, (fault, done.said)
    now = files(folder)
    if done.code == 0 and issubclass(story, Replace) and spec.startswith("EIO:look:") and now.get("out/out.onnx") != expected.get("out/out.onnx"):
        assert "OK" in weir("audit", each.out).out  # whose the data file is was not found out: it gets a name of its own
        shutil.rmtree(folder)
        return 0
    for name, data in now.items():  # what has a final name is whole: as it was, or as it will be
        if name == getattr(story, "passage", None):
            continue
        if name in expected or name in old:
            assert data in (old.get(name), expected.get(name)), (fault, name, done.said)
        else:  # a name on the way, of what the next run completes
            assert done.code == -9 or refused or "persist" in spec or list((folder / "out").glob(".*.weir")), (fault, name, done.said)
    assert {name for name in now if name.startswith("model/")} == {name for name in old if name.startswith("model/")}
    if done.code != 0:
        again = weir(*words, code=None)
        placed = all(now.get(name) == data for name, data in expected.items() if name not in LATE)
        in_place = placed and again.code == 2 and "exists" in again.err  # all but the folder's end, and what is written then
        assert again.code == 0 or in_place, (fault, done.said, again.said)
    each.after(folder)
    if in_place:  # what is written behind the last rename needs --force then (docs/reproducible.md)
        for path in [*(folder / "out").glob("*.part"), *(folder / "out").glob("provenance"), *(folder / "out").glob("report-html")]:
            path.unlink()
    at_last = files(folder)
    assert all(at_last.get(name) == data for name, data in expected.items() if not in_place or name not in LATE), (fault, done.said)
    assert at_last.keys() <= expected.keys(), (fault, done.said)
    shutil.rmtree(folder)
    return done.code


@pytest.mark.parametrize("faults", [changes_refused, looks_refused, memory_refused, transfers_spoiled], ids=lambda faults: faults.__name__)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.lower())
def test_whatever_fails(weir, weir_fault, tmp_path, given, story, faults):
    whole = story(weir, given)
    whole.prepare(tmp_path / "whole")
    counts = counts_of(whole.words(tmp_path / "whole"), tmp_path)
    whole.after(tmp_path / "whole")
    expected = files(tmp_path / "whole")
    assert counts["change"] > 5 and counts["heap"] > 50 and (counts["map"] > 0 or story is not Run)
    codes = [trial(weir, weir_fault, story, tmp_path / "here", given, expected, fault) for fault in faults(counts)]
    if faults is changes_refused:
        assert -9 in codes
    moves_bytes = faults is not transfers_spoiled or counts["read"] > 0
    assert any(code > 0 for code in codes) or not moves_bytes


# Commands of which no story tells: OUT is a model that weir wrote from SOURCE, MADE one to be written.
LOOKS = [
    "inspect SOURCE --json --tensors --tree --shapes --values",
    "inspect SOURCE --tree --shapes",
    "check SOURCE",
    "check FOLDER",
    "diff SOURCE OUT --all",
    "diff SOURCE OUT --json",
    "audit OUT --json",
    "measure SOURCE --json",
    "passes --json",
    "targets --json",
    "verify SOURCE OUT",
    "quantize SOURCE MADE --block-size 64 --verify --jobs 3 --force",
    "optimize SOURCE MADE --verify=all --jobs 3 --force",
    "quantize SOURCE MADE --block-size 64 --rank --report-html PAGE --force",
]


@pytest.fixture(scope="module")
def quantized(weir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quantized")
    weir("quantize", SOURCE, folder / "out.onnx", "--block-size", "64")
    return folder


@pytest.mark.parametrize("words", LOOKS)
def test_whoever_only_looks_leaves_nothing(weir_fault, quantized, tmp_path, words):
    """Every allocation refused, or a sample: an error or what would have been said, and nothing open, no thread, child, block, scratch."""
    paths = {"SOURCE": SOURCE, "OUT": quantized / "out.onnx", "FOLDER": quantized, "MADE": tmp_path / "made.onnx", "PAGE": tmp_path / "page.html"}
    words = [paths.get(word, word) for word in words.split()]
    (tmp_path / "tmp").mkdir()
    ort = {"WEIR_ORT": str(Path(program("WEIR")).resolve().parent / "weir-ort"), "TMPDIR": str(tmp_path / "tmp")}
    whole = weir_fault(*words, env={**ort, "WEIR_FAULT_COUNTS": str(tmp_path / "counts")}, code=None)
    counts = {name: int(n) for name, n in map(str.split, (tmp_path / "counts").read_text().splitlines())}
    assert whole.code in (0, 1) and counts["heap"] > 10, whole.said  # 1: the models differ
    left, codes = tmp_path / "left", set()
    for kind in ("heap", "map"):
        for number in range(1, counts[kind] + 1, 1 if ALL else counts[kind] // 7 + 1):
            done = weir_fault(*words, env={**ort, "WEIR_FAULT_MEMORY": f"{kind}:{number}", "WEIR_FAULT_LEFT": str(left)}, code=None)
            assert done.code in (whole.code, 75) and (done.code != 75 or "error: " in done.err), (kind, number, done.said)
            assert left.read_text() == "" and not list((tmp_path / "tmp").iterdir()), (kind, number, done.said)
            codes.add(done.code)
    assert 75 in codes


def test_what_is_left_is_told(tmp_path):
    """The control of what test_whatever_fails asserts: a file that nobody closes is."""
    left = tmp_path / "left"
    with open(tmp_path / "open", "w") as file:
        number = file.fileno()
        subprocess.run([program("WEIR_FAULT_PROGRAM"), "--version"], env={**os.environ, "WEIR_FAULT_LEFT": str(left)}, pass_fds=[number], check=True)
    assert left.read_text() == f"open {number} {tmp_path / 'open'}\n"


def test_killed_at_any_moment(weir, tmp_path, given):
    """plan, shard, finalize and rebuild, killed from outside after any time, again and again, until each is through."""
    wanted, rng = 1000 if ALL else 30, random.Random(17)
    kills = 0
    for round_ in range(20 * wanted):
        if kills >= wanted:
            break
        folder = tmp_path / str(round_)
        each = Story(weir, given)
        each.prepare(folder)
        words = {
            "plan": lambda: [each.source, each.out, *PASSES],
            "shard": lambda: [each.plan()],
            "finalize": lambda: [plan],
            "rebuild": lambda: [each.out, "--source", each.source, "--write", folder / "again"],
        }
        for command in words:
            if command == "finalize":
                plan = each.plan()
            while True:
                process = subprocess.Popen([program("WEIR"), command, *map(str, words[command]())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(rng.uniform(0, 0.02))
                process.kill()
                _, err = process.communicate()
                assert process.returncode in (0, -9) or (process.returncode == 2 and "exists already" in err), (command, err)
                kills += process.returncode == -9
                for found in (each.out, folder / "again" / "out.onnx"):
                    assert not found.exists() or weir("audit", found, code=None).code in (0, 66, 75)  # 66: its manifest is not there yet
                if process.returncode != -9:
                    break
                if rng.random() < 0.5:  # let it be, once in a while
                    done = weir(command, *words[command](), code=None)
                    assert done.code == 0 or (done.code == 2 and "exists already" in done.err), (command, done.said)
                    break
        expected = {name: data for name, data in files(folder / "out").items()}
        assert files(folder / "again") == expected and len(expected) == 4, round_
        if round_ == 0:
            first = expected
        assert expected == first
        shutil.rmtree(folder)
    assert kills >= wanted


# ---- what goes is closed ---------------------------------------------------------------------------


def open_at_its_end(words, folder, held=()):
    """What was removed, replaced or moved while it was open (tests/fault/fs_open.h)."""
    told = folder / "open"
    env = {**os.environ, "WEIR_FAULT_OPEN": str(told)}
    subprocess.run([program("WEIR_FAULT_PROGRAM"), *map(str, words)], env=env, capture_output=True, check=True, pass_fds=held)
    return sorted(set(told.read_text().splitlines())) if told.exists() else []


class Inplace(Story):
    """The input itself is replaced, and its data."""

    def before(self, folder):
        self.weir("convert", self.source, self.out, "--external")

    def words(self, folder):
        return ["conv2matmul", self.out, "--inplace"]


@pytest.mark.parametrize("story", [*STORIES, Inplace], ids=lambda story: story.__name__.lower())
def test_what_goes_is_closed(weir, tmp_path, given, story):
    each = story(weir, given)
    each.prepare(tmp_path)
    assert open_at_its_end(each.words(tmp_path), tmp_path) == []


def test_what_is_open_is_found(weir, tmp_path, given):
    """The control: the replaced model is open in the process."""
    each = Replace(weir, given)
    each.prepare(tmp_path)
    with open(each.out, "rb") as held:
        assert "replace out.onnx" in open_at_its_end(each.words(tmp_path), tmp_path, [held.fileno()])


# ---- every call ------------------------------------------------------------------------------------

# By another test.
ELSEWHERE = {
    "entry_born": "test_status_whatever_fails",
    "file_copy": "test_verify.py, test_copies_for_layers",
    "file_punch": "tests/unit/eval/test_eval_cache.c",
    "file_room": "tests/unit/eval/test_eval_cache.c",
    **({} if os.geteuid() == 0 else {"entry_set_owner": "as root"}),
}


def test_every_call_is_reached(weir, tmp_path, given):
    """Each call of the system that may be refused is made in one of the stories above, so that it is refused there."""
    rows = re.findall(r"^CALL\(\w+, \"\w+\", \S+ .*?, (\w+), \(", (DATA.parents[1] / "src" / "platform" / "files.def").read_text(), re.MULTILINE)
    made = set()
    for story in STORIES:
        folder = tmp_path / story.__name__
        each = story(weir, given)
        each.prepare(folder)
        made |= {name[5:] for name in counts_of(each.words(folder), folder) if name.startswith("call:")}
    assert len(rows) > 40 and set(rows) - made == set(ELSEWHERE)


def test_status_whatever_fails(weir, weir_fault, tmp_path, given):
    """It only looks."""
    shard = Shard(weir, given)
    shard.prepare(tmp_path)
    weir(*shard.words(tmp_path))
    words = ["status", shard.plan()]
    counts, codes = counts_of(words, tmp_path), set()
    assert counts["call:entry_born"] > 0
    for fault in looks_refused(counts):
        done = weir_fault(*words, env=fault, code=None)
        assert done.code in (0, *CODES), (fault, done.said)
        codes.add(done.code)
    assert 0 in codes and len(codes) > 1
