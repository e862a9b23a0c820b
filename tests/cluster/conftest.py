"""What the tests of job files under real schedulers share (tools/test cluster): a plan in a folder of odd letters, a shard
that stands still in the middle of its work, the bytes of a run in one process.

WEIR names the program, WEIR_FAULT_PROGRAM the one with fault injection; `tools/test cluster` sets both.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))

import make_encoder  # noqa: E402
from shell import Shell, state_of, usual_signals, wait_stopped  # noqa: E402, F401 (for the tests)

SHARDS = 3
ODD = "it's a \"folder\""
WAIT = 180  # seconds until a test gives up on something that should have come
PASSES = "--pass conv2matmul"
WEIR = """#!/bin/bash
# weir, which notes calls of finalize; where there is a folder 'hold', the next shard 0 stands still before its first unit
[ "$1" != finalize ] || echo finalize >>{folder}/calls
if [[ "$* " = "shard "*" --index 0 "* ]] && rmdir {folder}/hold 2>/dev/null; then
  echo $$ >{folder}/held.new && mv {folder}/held.new {folder}/held
  WEIR_FAULT=stop:sigaction:7 exec {fault} "$@"
fi
exec {weir} "$@"
"""


def program(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        pytest.exit(f"{variable} does not name a program: run the tests with tools/test cluster", returncode=2)
    return os.path.abspath(path)


def wait_until(true, what):
    giving_up = time.monotonic() + WAIT
    while not (found := true()):
        assert time.monotonic() < giving_up, f"{what() if callable(what) else what}: that does not come"
        time.sleep(0.05)
    return found


def parent_of(pid):
    return int(re.search(r"^PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])


def is_there(pid):
    return state_of(pid)[1] not in ("", "Z")


@pytest.fixture(scope="session")
def large_folder():
    with tempfile.TemporaryDirectory(prefix="weir-cluster-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def model(large_folder):
    """Four layers at full width, 400 MB: eight units of output, of which shard 0 has three."""
    path = large_folder / "models" / "encoder.onnx"
    path.parent.mkdir()
    make_encoder.make_encoder(path, shape=make_encoder.Shape(layers=4))
    return path


@pytest.fixture(scope="session")
def single(large_folder, model):
    """What a run in one process writes."""
    out = large_folder / "single" / "out.onnx"
    subprocess.run([program("WEIR"), "run", model, out, *PASSES.split()], check=True, capture_output=True)
    return out.parent


class Desk(Shell):
    """A plan, the job file of a scheduler for it in `job`, and what there is to know about its members."""

    def __init__(self, folder, model, single):
        super().__init__(folder, weir_itself=program("WEIR"))
        self.out, self.single, self.members = self / ODD, single, []
        script = Path(folder) / "bin" / "weir"
        script.write_text(WEIR.format(folder=folder, fault=program("WEIR_FAULT_PROGRAM"), weir=program("WEIR")))
        script.chmod(0o755)
        self.notes = Path(folder)
        self.out.mkdir()
        self(f'weir plan "$1" "$2"/out.onnx {PASSES} --shards {SHARDS}', words=[model, self.out])
        [self.plan] = self.out.iterdir()

    def job_file(self, scheduler, name="job"):
        self(f'weir jobs "$1" --scheduler {scheduler} >{name}', words=[self.plan])
        return self / name

    def start(self, line):
        """A line in the background, with its own output in `said`."""
        with open(self / "said", "w") as said:
            return subprocess.Popen(["bash", "-c", line], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, preexec_fn=usual_signals)

    def hold(self):
        """The next process that is shard 0 stands still before its first unit."""
        (self.notes / "held").unlink(missing_ok=True)
        (self.notes / "hold").mkdir()

    def held(self):
        """… and is that process."""
        wait_until((self.notes / "held").exists, "shard 0")
        pid = int((self.notes / "held").read_text())
        self.members.append(pid)
        wait_stopped(pid)
        return pid

    def finalize_calls(self):
        calls = self.notes / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    def is_made(self):
        return (self.out / "out.onnx.manifest.json").exists()

    def is_single(self):
        """Names and bytes of a run in one process, and nothing else."""
        names = sorted(path.name for path in self.single.iterdir())
        assert sorted(path.name for path in self.out.iterdir()) == names
        for name in names:
            assert subprocess.run(["cmp", self.out / name, self.single / name], capture_output=True).returncode == 0, name

    def end(self):
        for pid in self.members:
            if state_of(pid)[0].startswith("weir"):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def desk(tmp_path, model, single):
    desk = Desk(tmp_path, model, single)
    yield desk
    desk.end()
    for path in desk.out.rglob("*.data"):  # pytest keeps the rest of what failed
        path.unlink()
