"""Signals that come all the time: each call that one can interrupt is interrupted three times before it is through.

A handler without SA_RESTART is enough, which a profiler or a preloaded library may have; file systems in user space
answer so too. The calls fail by count (spoiled_calls.py), so that no test waits for a signal to come in time. What is
printed and what goes through the C library's streams (logs, reports) is left out: an interrupted write ends that with
an error.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ALL, DATA, TESTS, program

pytestmark = pytest.mark.in_memory
SPOILED_CALLS = TESTS / "support" / "spoiled_calls.py"
SOURCE = DATA / "parakeet-torchscript" / "encoder-model.onnx"
TRANSFERS = "read,write,pread64,pwrite64,preadv,pwritev,preadv2,pwritev2,copy_file_range,sendto,recvfrom"
WAITS = "io_uring_enter,poll,ppoll,wait4,waitid,clock_nanosleep,flock"
DISK = "fsync,fdatasync,ftruncate,fallocate,ioctl"
OPENING = "openat,openat2"
CANNOT = 125


def spoiled(rules, words, folder, program_="WEIR", env=None):
    """(exit code, standard error, {call: how often it failed})"""
    told = folder / "spoiled"
    command = [sys.executable, "-I", SPOILED_CALLS, *rules, "--", program(program_), *map(os.fspath, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SPOILED": os.fspath(told), **(env or {})})
    if done.returncode == CANNOT:
        pytest.skip("system calls cannot be handed over here (seccomp_unotify)")
    counts = {name: int(count) for name, count in map(str.split, told.read_text().splitlines())}
    told.unlink()
    return done.returncode, done.stderr, counts


def written(folder, name="out.onnx"):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(name)}


COMMANDS = {
    "quantize": ["quantize", SOURCE, "OUT", "--block-size", "32"],
    "convert": ["convert", SOURCE, "OUT", "--split", "200K"],
    "conv2matmul": ["conv2matmul", SOURCE, "OUT"],
    "cast": ["cast", SOURCE, "OUT", "--to", "float16"],
    "optimize": ["optimize", SOURCE, "OUT"],
}
SAMPLE = ["quantize"]


def engines(weir):
    return ["sync", "uring"] if "engine: uring" in weir("--version").out else ["sync"]


@pytest.mark.parametrize("name", list(COMMANDS) if ALL else SAMPLE)
@pytest.mark.parametrize("io", ["sync", "uring"])
def test_the_same_bytes(weir, tmp_path, result_folder, name, io):
    if io not in engines(weir):
        pytest.skip("no io_uring here")
    words = lambda folder: [*(folder / "out.onnx" if word == "OUT" else word for word in COMMANDS[name]), "--io", io]
    whole, stormy = result_folder / "whole", result_folder / "stormy"  # on the disk, where a ring has writes
    whole.mkdir()
    stormy.mkdir()
    weir(*words(whole))
    code, err, counts = spoiled([f"{OPENING},{TRANSFERS},{WAITS},{DISK}=EINTR:3"], words(stormy), tmp_path)
    assert code == 0, err
    assert written(stormy) == written(whole)
    reserves = [] if "(POSIX alone)" in weir("--version").out else ["fallocate"]
    for call in ("openat", "write", "fsync", "fdatasync", *reserves, "flock", "pread64"):
        assert counts.get(call, 0) > 2, counts
    assert sum(counts.get(call, 0) for call in ("pwritev2", "pwrite64", "io_uring_enter")) > 2, counts


@pytest.mark.long
def test_a_call_interrupted_a_hundred_times(weir, tmp_path):
    """No number of them is too many, whichever the engine."""
    weir("convert", SOURCE, tmp_path / "out.onnx", "--external")
    whole = written(tmp_path)
    for io in engines(weir):
        words = ["convert", SOURCE, tmp_path / "out.onnx", "--external", "--force", "--io", io]
        code, err, _ = spoiled([f"{TRANSFERS},{WAITS},{DISK}=EINTR:100"], words, tmp_path)
        assert code == 0 and written(tmp_path) == whole, err


def test_audit_and_resume(weir, weir_fault, tmp_path):
    """A run that was killed is taken up, and what it wrote is hashed again."""
    words = ["quantize", SOURCE, tmp_path / "out.onnx", "--split", "100K"]
    weir(*words)
    whole = written(tmp_path)
    for path in whole:
        (tmp_path / path).unlink()
    weir_fault(*words, env={"WEIR_FAULT": "kill:fdatasync:1"}, code=-9)
    rule = [f"{OPENING},{TRANSFERS},{WAITS},{DISK}=EINTR:3"]
    code, err, _ = spoiled(rule, words, tmp_path)
    assert code == 0 and written(tmp_path) == whole, err
    code, err, counts = spoiled(rule, ["audit", tmp_path / "out.onnx"], tmp_path)
    assert code == 0 and counts["pread64"] > 2, err
    data = next(path for path in sorted(tmp_path.iterdir()) if "data" in path.name)
    altered = bytearray(data.read_bytes())
    altered[len(altered) // 2] ^= 1
    data.write_bytes(altered)
    code, err, _ = spoiled(rule, ["audit", tmp_path / "out.onnx"], tmp_path)
    assert code == 1, err


def test_weir_ort_is_waited_for(weir, tmp_path):
    """The helper's messages, its death and its files; opening is left out, since ONNX Runtime itself gives up there."""
    weir("optimize", SOURCE, tmp_path / "out.onnx")
    rule = [f"{TRANSFERS},{WAITS},{DISK}=EINTR:3"]
    code, err, counts = spoiled(rule, ["verify", SOURCE, tmp_path / "out.onnx"], tmp_path)
    assert code == 0, err
    assert counts["recvfrom"] > 2 and counts["sendto"] > 2 and counts["poll"] > 2 and counts["waitid"] > 2, counts


@pytest.mark.long
def test_the_ranges_of_calibrate(weir, tmp_path):
    words = lambda name: ["calibrate", SOURCE, "-o", tmp_path / name, "--generate", "1"]
    weir(*words("whole"))
    rule = [f"{TRANSFERS.replace('write,', '', 1)},{WAITS},{DISK}=EINTR:3"]  # RANGES are written through a stream
    code, err, counts = spoiled(rule, words("stormy"), tmp_path)
    assert code == 0 and (tmp_path / "stormy").read_bytes() == (tmp_path / "whole").read_bytes(), err
    assert "ONNX Runtime 0 bytes" not in err and counts["sendto"] > 2


def test_what_weir_ort_says_when_it_dies(weir, tmp_path):
    """Its exit code and last words are not lost to a wait that a signal ended."""
    stub = tmp_path / "weir-ort"
    stub.write_text('#!/bin/sh\necho "the last words" >&2\nexit 7\n')
    stub.chmod(0o755)
    weir("optimize", SOURCE, tmp_path / "out.onnx")
    words = ["verify", SOURCE, tmp_path / "out.onnx"]
    code, err, _ = spoiled(["poll,wait4,waitid,recvfrom,sendto=EINTR:3"], words, tmp_path, env={"WEIR_ORT": os.fspath(stub)})
    assert code not in (0, -6) and "exit code 7" in err and "the last words" in err, err


@pytest.mark.parametrize("call", ["fsync", "openat2"])
def test_other_errors_are_no_signals(tmp_path, call):
    """The control: what is made again is what a signal interrupted."""
    code, err, counts = spoiled([f"{call}=EIO"], ["convert", SOURCE, tmp_path / "out.onnx"], tmp_path)
    assert code in (66, 74) and "Input/output error" in err or "I/O error" in err, err
    assert 0 < counts[call] < 20 and not Path(tmp_path / "out.onnx").exists()


def test_a_lock_that_cannot_be_asked_is_no_free_lock(weir, weir_fault, tmp_path):
    """`clean` takes no folder of a run that lives, however often its question is interrupted."""
    env = {**os.environ, "WEIR_FAULT": "stop:fdatasync:1"}
    running = subprocess.Popen([program("WEIR_FAULT_PROGRAM"), "convert", SOURCE, tmp_path / "out.onnx", "--external"], env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        code, err, counts = spoiled(["flock=EINTR:3"], ["clean", tmp_path, "--yes"], tmp_path)
        assert code == 0 and counts["flock"] > 2, err
        assert list(tmp_path.glob(".out.onnx.*.weir"))
    finally:
        running.kill()
        running.wait()
