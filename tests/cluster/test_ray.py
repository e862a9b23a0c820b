"""The job file of Ray, run as it is: Ray starts on this machine, and goes when it is done."""

import os
import signal
import sys

import pytest

from conftest import WAIT, parent_of, wait_until

pytest.importorskip("ray", reason="Ray is not installed")


@pytest.fixture
def started(desk):
    """The job file at work; whatever happens, it and what it started are gone at the end."""
    desk.env["RAY_USAGE_STATS_ENABLED"] = "0"
    processes = []

    def start():
        desk.job_file("ray", "job.py")
        processes.append(desk.start(f"exec '{sys.executable}' job.py"))
        return processes[-1]

    yield start
    for process in processes:
        process.terminate()  # Ray's own then end with it
        process.wait(WAIT)


def end(process, desk):
    assert process.wait(WAIT) == 0, (desk / "said").read_text()
    desk.is_single()


def test_a_worker_is_killed(desk, started):
    """In the middle of its shard, which lives on: another worker has it, and what finalizes waits for both."""
    desk.hold()
    process = started()
    pid = desk.held()
    os.kill(parent_of(pid), signal.SIGKILL)
    wait_until(lambda: desk.finalize_calls() or process.poll() is not None, "a call of finalize")
    print((desk / "said").read_text()); os.system(f"ps -o pid,ppid,stat,cmd {pid}")
    os.kill(pid, signal.SIGCONT)
    end(process, desk)
