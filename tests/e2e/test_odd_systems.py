"""Machines that lack what most have: overlays and file systems in user space, no /proc, no room in /dev/shm, clocks that
jump, calls that are refused. The same bytes, or an error of the system's own.

Where this machine lets an ordinary user's namespace mount it, the thing itself is mounted; what it would refuse is
refused by count otherwise (spoiled_calls.py).
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import TESTS, program
from test_interrupted import CANNOT, SOURCE, spoiled, written

pytestmark = pytest.mark.in_memory
USER_FILES = TESTS / "support" / "user_files.py"


def sample(names, *kept):
    """All of them with --all, and a few always."""
    return [name if name in kept else pytest.param(name, marks=pytest.mark.long) for name in names]


def in_namespace(script, *words, env=None):
    """A shell script in mount and user namespaces of its own, with words as "$@"; skips where there are none."""
    probe = subprocess.run(["unshare", "-rm", "true"], capture_output=True) if shutil.which("unshare") else None
    if probe is None or probe.returncode != 0:
        pytest.skip("no user and mount namespaces here")
    command = ["unshare", "-rm", "bash", "-c", f"set -e\n{script}", "bash", *map(os.fspath, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode == CANNOT:
        pytest.skip(f"not to be mounted here: {done.stderr.strip()}")
    return done


def model_in(folder):
    shutil.copytree(SOURCE.parent, folder / "model")
    return folder / "model" / SOURCE.name


@pytest.fixture(scope="module")
def expected(weir, module_folder):
    """{name: bytes} of quantize, an undisturbed run."""
    weir("quantize", SOURCE, module_folder / "out.onnx", "--block-size", "32")
    return written(module_folder)


QUANTIZE = '"$1" quantize "$2" "$3" --block-size 32'


# ---- file systems


@pytest.mark.parametrize("io", sample(["auto", "sync"], "auto"))
def test_an_overlay(weir, tmp_path, expected, io):
    """The source in the lower folder, and the output beside it; over a model of the lower folder, too."""
    for name in ("low", "up", "work", "merged"):
        (tmp_path / name).mkdir()
    model_in(tmp_path / "low")
    weir("convert", SOURCE, tmp_path / "low" / "out.onnx", "--external")
    script = f"""
    cd "$2"
    mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work,userxattr merged || exit {CANNOT}
    "$1" quantize merged/model/encoder-model.onnx merged/out.onnx --block-size 32 --io {io} --force
    "$1" audit merged/out.onnx
    "$1" quantize merged/model/encoder-model.onnx --inplace --block-size 32 --io {io}
    ls -A merged merged/model
    """
    done = in_namespace(script, program("WEIR"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path / "up") == expected
    assert ".weir" not in done.stdout.split("merged:")[1], done.stdout  # nothing is left over
    assert (tmp_path / "low" / "model" / SOURCE.name).read_bytes() == SOURCE.read_bytes()  # below nothing changed


FUSE = {
    "plain": [],
    "clock-back": ["--clock-back"],
    "interrupted": ["--interrupted", "2"],
}


def on_user_files(how, folder, *words):
    below, mount = folder / "below", folder / "mount"
    mount.mkdir(exist_ok=True)
    script = 'exec "$@"'
    return in_namespace(script, sys.executable, "-I", USER_FILES, *how, below, mount, *words)


@pytest.mark.parametrize("how", sample(FUSE, "plain", "clock-back"))
def test_a_file_system_in_user_space(tmp_path, expected, how):
    """No links, no flags of renames, no fallocate, no unnamed files; inode numbers that do not last."""
    below, mount = tmp_path / "below", tmp_path / "mount"
    below.mkdir()
    model_in(below)
    source, out = mount / "model" / SOURCE.name, mount / "out.onnx"
    side = [word for option in ("edit-log", "report-json", "provenance") for word in (f"--{option}", mount / option)]
    done = on_user_files(FUSE[how], tmp_path, program("WEIR"), "quantize", source, out, "--block-size", "32", *side)
    assert done.returncode == 0, done.stderr
    found = {name: data for name, data in written(below).items()}
    assert found == expected
    assert sorted(path.name for path in below.iterdir() if path.name.startswith(".")) == []
    assert json.loads((below / "report-json").read_text())["weir"]["seconds"] >= 0
    log = (below / "edit-log").read_text().splitlines()
    assert '"edit":"end"' in log[-1]
    done = on_user_files(FUSE[how], tmp_path, program("WEIR"), "audit", out)
    assert done.returncode == 0 and "OK" in done.stdout, done.stderr
    done = on_user_files(FUSE[how], tmp_path, program("WEIR"), "convert", source, out, "--force", "--external")
    assert done.returncode == 0 and sorted(written(below)) == sorted(expected), done.stderr


@pytest.mark.parametrize("how", sample(FUSE, "interrupted"))
def test_a_run_is_taken_up_there(weir, tmp_path, expected, how):
    below, mount = tmp_path / "below", tmp_path / "mount"
    below.mkdir()
    model_in(below)
    words = ["quantize", mount / "model" / SOURCE.name, mount / "out.onnx", "--block-size", "32"]
    env = ["env", "WEIR_FAULT=kill:fdatasync:2"]
    done = on_user_files(FUSE[how], tmp_path, *env, program("WEIR_FAULT_PROGRAM"), *words)
    assert done.returncode == 128 + 9 and list(below.glob(".out.onnx.*.weir")), done.stderr
    done = on_user_files(FUSE[how], tmp_path, program("WEIR"), *words)
    assert done.returncode == 0 and written(below) == expected, done.stderr
    assert list(below.glob(".*.weir")) == []


@pytest.mark.long
def test_inode_numbers_that_change_at_every_look(tmp_path, expected):
    """It cannot be told whether a folder or a source is still the same one: errors that say so, and nothing is written."""
    below = tmp_path / "below"
    below.mkdir()
    model_in(below)
    words = ["quantize", tmp_path / "mount" / "model" / SOURCE.name, tmp_path / "mount" / "out.onnx", "--block-size", "32"]
    done = on_user_files(["--other-inodes"], tmp_path, program("WEIR"), *words)
    assert done.returncode == 75 and "inode" in done.stderr, done.stderr
    assert written(below) == {}
    done = on_user_files(["--other-inodes"], tmp_path, program("WEIR"), *words[:2], tmp_path / "out.onnx", *words[3:])
    assert done.returncode == 66 and "changed during the run" in done.stderr, done.stderr
    assert written(tmp_path) == {}


REFUSED = {
    "fallocate": "fallocate=EOPNOTSUPP",
    "renames with flags": "renameat2=EINVAL",
    "renames at all by that call": "renameat2=ENOSYS",
    "links": "linkat=EPERM",
    "clones": "ioctl#0x4020940d=EXDEV",
    "copies": "copy_file_range=ENOSYS",
    "writes with flags": "pwritev2=EOPNOTSUPP",
    "write-back": "sync_file_range=ENOSYS",
    "advice": "fadvise64=EINVAL",
    "locks": "flock=ENOLCK",
}


@pytest.mark.parametrize("name", sample(REFUSED, "renames with flags", "writes with flags", "locks"))
def test_a_file_system_that_refuses(tmp_path, expected, name):
    """By count, whatever this machine can mount."""
    folder = tmp_path / "out"
    folder.mkdir()
    words = ["quantize", SOURCE, folder / "out.onnx", "--block-size", "32"]
    code, err, _ = spoiled([REFUSED[name]], words, tmp_path)
    assert code == 0, err
    assert written(folder) == expected


# ---- /proc and /dev/shm

NO_PROC = f"mount -t tmpfs none /proc || exit {CANNOT}\n"


def test_without_proc(tmp_path, expected):
    """Sizes come from elsewhere, the run is the same."""
    report = tmp_path / "report"
    done = in_namespace(NO_PROC + QUANTIZE + ' --report-json "$4"', program("WEIR"), SOURCE, tmp_path / "out.onnx", report)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path) == expected
    told = json.loads(report.read_text())["weir"]
    assert told["peak_memory_bytes"] > 1 << 20 and told["memory_bytes"] > 1 << 20 and told["jobs"] >= 1


def test_what_proc_says_may_be_missing(tmp_path, expected):
    """The same where nothing can be mounted: every file of /proc is refused."""
    folder = tmp_path / "out"
    folder.mkdir()
    code, err, counts = spoiled(["openat,open/proc/=ENOENT"], ["quantize", SOURCE, folder / "out.onnx", "--block-size", "32"], tmp_path)
    assert code == 0 and written(folder) == expected, err
    assert sum(counts.values()) > 0


def test_weir_ort_is_found_without_proc(weir, tmp_path):
    """Beside the program, by the name that it was started by, links resolved; its memory is not known there."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "links").mkdir()
    shutil.copy(program("WEIR"), tmp_path / "bin" / "weir")
    shutil.copy(os.environ["WEIR_ORT"], tmp_path / "bin" / "weir-ort")
    (tmp_path / "links" / "weir").symlink_to("../bin/weir")
    weir("convert", SOURCE, tmp_path / "in.onnx", "--inline")
    weir("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx", "--inline")
    script = NO_PROC + 'unset WEIR_ORT; cd "$1"; exec "$2" verify in.onnx out.onnx'
    for name in (tmp_path / "bin" / "weir", tmp_path / "links" / "weir", "bin/weir"):
        done = in_namespace(script, tmp_path, name)
        assert done.returncode == 0, done.stderr
        assert "verified: 1 of 1 output" in done.stdout and "unknown amount in the runtime" in done.stdout, done.stdout


@pytest.mark.parametrize("mount", sample(["-o size=64k", "-o size=64k,mode=000"], "-o size=64k"))
def test_no_room_in_shared_memory(weir, result_folder, expected, mount):
    """Nothing of weir's or of its helper's lies in /dev/shm."""
    if str(result_folder).startswith("/dev/shm"):  # it would be hidden
        pytest.skip("the tests' own folder lies there")
    weir("optimize", SOURCE, result_folder / "fast.onnx")
    script = f"""
    mount -t tmpfs {mount} none /dev/shm || exit {CANNOT}
    {QUANTIZE}
    "$1" verify "$2" "$4"
    test "$(ls -A /dev/shm)" = ""
    """
    done = in_namespace(script, program("WEIR"), SOURCE, result_folder / "out.onnx", result_folder / "fast.onnx", env={"TMPDIR": os.fspath(result_folder)})
    assert done.returncode == 0, done.stderr
    assert written(result_folder) == expected


# ---- calls that a filter refuses


@pytest.mark.parametrize("rule", sample(["io_uring_setup=EPERM", "io_uring_setup=ENOSYS", "io_uring_register=EPERM", "io_uring_enter=EPERM", "io_uring_enter=ENOSYS"], "io_uring_enter=EPERM"))
def test_io_uring_refused(weir, tmp_path, large_folder, expected, rule):
    """Also where the ring can be made and then not be used; the report says what the run used."""
    if "engine: uring" not in weir("--version").out:
        pytest.skip("no io_uring here")
    folder = large_folder / f"refused-{rule}"  # on the disk, where a ring has writes
    folder.mkdir()
    report = tmp_path / "report"
    words = ["quantize", SOURCE, folder / "out.onnx", "--block-size", "32", "--report-json", report]
    code, err, counts = spoiled([rule], words, tmp_path)
    assert code == 0, err
    assert written(folder) == expected
    call = rule.split("=")[0]
    used = json.loads(report.read_text())["weir"]["io"]
    if call == "io_uring_setup":
        assert used == "sync" and err.count("io_uring") >= 1, (used, err)
        code, err, _ = spoiled([rule], ["--version"], tmp_path)
        assert code == 0
    elif counts.get(call, 0) > 0:
        assert used in ("sync", "uring, then sync") or call == "io_uring_register", used
        assert "io_uring" in err or used == "uring", err
    shutil.rmtree(folder)


def test_version_says_the_engine(tmp_path):
    done = subprocess.run([sys.executable, "-I", TESTS / "support" / "spoiled_calls.py", "io_uring_setup=EPERM", "--", program("WEIR"), "--version"],
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode == CANNOT:
        pytest.skip("system calls cannot be handed over here (seccomp_unotify)")
    assert re.search(r"^engine: sync .*io_uring is not permitted", done.stdout, re.M), done.stdout


# ---- clocks


@pytest.mark.parametrize("when", [0, 4_000_000_000])
def test_status_of_a_plan_of_another_day(weir, tmp_path, expected, when):
    """A clock was set since the plan was made: no figure is negative, and the output is the same."""
    weir("plan", SOURCE, tmp_path / "out.onnx", "--pass", "conv2matmul")
    [plan] = tmp_path.glob(".out.onnx.*.weir")
    for path in plan.iterdir():
        os.utime(path, (when, when))
    for words in (["status", plan], ["status", plan, "--json"]):
        done = weir(*words, code=None)
        assert done.code in (0, 1, 75) and not re.search(r"(?<![\w.])-\d|\bnan\b|\binf\b", done.out), done.said
    weir("shard", plan)
    weir("finalize", plan)
    weir("conv2matmul", SOURCE, tmp_path / "other.onnx", "--no-manifest")
    assert (tmp_path / "out.onnx").stat().st_size > 0
    weir("audit", tmp_path / "out.onnx")


def test_the_time_of_day_is_asked_in_one_place():
    """All else counts on a clock that only runs forward, which nobody can set."""
    asks = re.compile(r"CLOCK_REALTIME|gettimeofday|[^_a-z]time\(NULL\)|time\(0\)|localtime|timespec_get|machine_time_ns\(")
    root = TESTS.parent
    found = {str(path.relative_to(root)) for folder in ("src", "tools") for path in (root / folder).rglob("*.c") if asks.search(path.read_text())}
    assert found == {"src/distribute/plan_status.c", "src/platform/machine.c"}
