"""SIGINT, SIGHUP and SIGTERM: every command ends by the signal itself, when it has left things in order.

An exit code of its own, whatever its number, would let a loop of a shell go on with the next model. Nothing here waits
for a moment: weir-fault stops itself when it has begun to watch for signals, or before a chosen call, and a command
that does not watch for them is held by a pipe that nobody reads.
"""

import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from conftest import program
from shell import state_of
from test_resume import WAIT, staging_folders

pytestmark = pytest.mark.in_memory
SIGNALS = [signal.SIGINT, signal.SIGHUP, signal.SIGTERM]
WATCHING = "sigaction:3"  # the third of the three is watched: no work is done yet
BUDGET = ["--candidates", "4:32,8:32", "--budget", "10GB"]


def default_signals():
    """For the child: who started the tests may have them ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def start(words, before=None, **how):
    env = {**os.environ, **({"WEIR_FAULT": f"stop:{before}"} if before else {})}
    words = [program("WEIR_FAULT_PROGRAM"), *map(os.fspath, words)]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how}
    return subprocess.Popen(words, env=env, preexec_fn=default_signals, **how)


def wait_stopped(pid):
    seen = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert seen.si_code == os.CLD_STOPPED, f"it ended instead of stopping: {seen}"


def end(process):
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=WAIT)
    return process.returncode, out, err


def signalled(words, number, before=WATCHING, **how):
    """(return code as subprocess has it, standard output, standard error) of a command that gets a signal there."""
    process = start(words, before, **how)
    wait_stopped(process.pid)
    process.send_signal(number)
    return end(process)


# ---- commands that leave things in order first


@pytest.fixture(scope="module")
def written(weir, large_folder, small_encoder):
    """A model that weir wrote, with its manifest, and the edit log of that run."""
    folder = large_folder / "written"
    folder.mkdir()
    weir("quantize", small_encoder, folder / "q.onnx", "--edit-log", folder / "q.jsonl")
    return folder


def writers(source, written, folder):
    out = folder / "out.onnx"
    return {
        "conv2matmul": ["conv2matmul", source, out],
        "quantize": ["quantize", source, out],
        "quantize-budget": ["quantize", source, out, *BUDGET],
        "shrink": ["shrink", source, "--output-dir", folder],
        "cast": ["cast", source, out, "--to", "float16"],
        "run": ["run", source, out, "--pass", "conv2matmul", "--pass", "tidy"],
        "convert": ["convert", source, out],
        "replay": ["replay", written / "q.jsonl", source, out],
    }


WRITERS = list(writers("", Path(), Path()))


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("name", WRITERS)
def test_writers_end_by_the_signal(weir, tmp_path, small_encoder, written, name, number):
    """Nothing under a final name, one error and how to go on; what they say goes on indeed."""
    words = writers(small_encoder, written, tmp_path)[name]
    code, out, err = signalled(words, number)
    assert code == -number, (code, err)
    assert err.count("weir: error: ") == 1 and "interrupted" in err, err
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".weir")] == []
    weir(*words)
    assert staging_folders(tmp_path) == []


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("name", ["measure", "audit"])
def test_readers_end_by_the_signal(small_encoder, written, name, number):
    words = {"measure": ["measure", small_encoder], "audit": ["audit", written / "q.onnx"]}[name]
    code, out, err = signalled(words, number)
    assert code == -number and "interrupted" in err, (code, err)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_no_half_written_record_is_left(weir, tmp_path, small_encoder, number):
    """Before there is a plan it ends where it is: the edit log was begun, under a temporary name."""
    words = ["quantize", small_encoder, tmp_path / "out.onnx", "--edit-log", tmp_path / "edits.jsonl"]
    process = start(words, WATCHING)
    wait_stopped(process.pid)
    assert "edits.jsonl.part" in os.listdir(tmp_path), "the test is to find one"
    process.send_signal(number)
    code, out, err = end(process)
    assert code == -number and os.listdir(tmp_path) == [], (code, err, os.listdir(tmp_path))


def test_signal_while_the_output_is_put_in_place(weir, tmp_path, small_encoder):
    """All was done: it stays, and the loop of a shell is to end all the same."""
    weir("conv2matmul", small_encoder, tmp_path / "other.onnx")
    code, out, err = signalled(["conv2matmul", small_encoder, tmp_path / "out.onnx"], signal.SIGINT, "renameat2:6")
    assert code == -signal.SIGINT and "error" not in err, (code, err)
    weir("audit", tmp_path / "out.onnx")
    assert staging_folders(tmp_path) == []


def test_shrink_ends_with_the_model_it_is_at(weir, tmp_path, small_encoder):
    """Of several models: the one in the making is interrupted, and none after it is begun."""
    words = ["shrink", small_encoder, small_encoder.parent, "--output-dir", tmp_path, "--jobs", "1"]
    code, out, err = signalled(words[:2] + words[3:], signal.SIGINT)
    assert code == -signal.SIGINT
    several = tmp_path / "in"
    several.mkdir()
    for name in ("a.onnx", "b.onnx", "c.onnx"):
        weir("convert", small_encoder, several / name, "--inline", "--no-manifest")
    code, out, err = signalled(["shrink", several, "--output-dir", tmp_path / "out", "--suffix", ".s.onnx"], signal.SIGTERM, "renameat2:6")
    assert code == -signal.SIGTERM and "b.s.onnx" not in os.listdir(tmp_path / "out"), (code, out, err)


def test_sigint_twice_while_it_cleans_up(tmp_path, one_layer):
    """The first is being answered (records are synced); the second does not wait for that."""
    words = ["conv2matmul", one_layer, tmp_path / "out.onnx", "--jobs", "1"]
    process = start(words, "fsync:2:persist")  # stops again and again
    try:
        wait_stopped(process.pid)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        wait_stopped_again(process.pid)
        process.send_signal(signal.SIGINT)
        code, out, err = end(process)
    finally:
        process.kill()
    assert code == -signal.SIGINT and "interrupted" not in err, (code, err)


def wait_stopped_again(pid):
    """Past a stop that was seen already: that one is taken, then the next is waited for."""
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
    wait_stopped(pid)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_what_was_ignored_stays_ignored(weir, tmp_path, small_encoder, number):
    """nohup, and jobs in the background of a script."""
    env = {**os.environ, "WEIR_FAULT": "stop:mkdirat:1"}
    process = subprocess.Popen(
        [program("WEIR_FAULT_PROGRAM"), "conv2matmul", small_encoder, tmp_path / "out.onnx"],
        env=env,
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_stopped(process.pid)
    process.send_signal(number)
    code, out, err = end(process)
    assert code == 0, err
    weir("audit", tmp_path / "out.onnx")


# ---- commands that have nothing to leave in order


def faulty(path, faults):
    """A model whose faults make a long list."""
    nodes = [helper.make_node("Relu", [f"nowhere_{i}"], [f"y_{i}"]) for i in range(faults)]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y_0", TensorProto.FLOAT, [1])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def in_pipe(fd):
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("name", ["inspect", "check", "clean", "passes"])
def test_listings_end_by_the_signal(tmp_path, small_encoder, name, number):
    """In the middle of a list that is longer than the pipe that takes it."""
    if name == "clean":
        for i in range(300):
            (tmp_path / f".{'x' * 40}.onnx.{i:016x}.weir").mkdir()
    words = {
        "inspect": ["inspect", small_encoder, "--tensors"],
        "check": ["check", faulty(tmp_path / "faulty.onnx", 400)],
        "clean": ["clean", tmp_path],
        "passes": ["passes", "--json"],
    }[name]
    reading, writing = os.pipe()
    full = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    process = start(words, stdout=writing)
    os.close(writing)
    while in_pipe(reading) < full:
        assert process.poll() is None, "the list is too short to be held"
        time.sleep(0.001)
    process.send_signal(number)
    process.communicate(timeout=WAIT)
    os.close(reading)
    assert process.returncode == -number


# ---- a loop of a shell

LOOP = 'for i in 1 2 3; do "$@"; echo "after $?"; done; echo ended'


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as listed:
        return [int(word) for word in listed.read().split()]


def interrupt_loop(words, env):
    """Ctrl-C at the first round of LOOP: both the shell and its child get it. Gives (return code, what it printed)."""
    shell = subprocess.Popen(
        ["bash", "-c", LOOP, "loop", *map(os.fspath, words)],
        env={**os.environ, **env},
        preexec_fn=default_signals,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    while not (found := children(shell.pid)) or state_of(found[0])[1] != "T":
        assert shell.poll() is None
        time.sleep(0.001)
    os.killpg(shell.pid, signal.SIGINT)
    os.kill(found[0], signal.SIGCONT)
    try:
        out, _ = shell.communicate(timeout=WAIT)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    return shell.returncode, out


@pytest.mark.parametrize("name", [*WRITERS, "measure", "audit"])
def test_a_loop_ends(tmp_path, small_encoder, written, name):
    words = {
        **writers(small_encoder, written, tmp_path),
        "measure": ["measure", small_encoder],
        "audit": ["audit", written / "q.onnx"],
    }[name]
    code, out = interrupt_loop([program("WEIR_FAULT_PROGRAM"), *words], {"WEIR_FAULT": f"stop:{WATCHING}"})
    assert code == -signal.SIGINT and "after" not in out and "ended" not in out, (code, out)


def test_a_loop_goes_on_after_an_exit_code(tmp_path):
    """What the test above must be able to see: a program that answers Ctrl-C with exit code 75."""
    flag = tmp_path / "stopped"
    script = f'trap "exit 75" INT; [ -e {flag} ] || {{ touch {flag}; kill -STOP $$; }}; exit 0'
    code, out = interrupt_loop(["bash", "-c", script], {})
    assert code == 0 and "after 75" in out and "ended" in out, (code, out)
