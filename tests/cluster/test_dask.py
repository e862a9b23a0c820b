"""The job file of Dask, run as it is: on a cluster that it starts itself on this machine, and on one that is there."""

import os
import signal
import subprocess
import sys

import pytest

from conftest import WAIT, is_there, parent_of, usual_signals, wait_until

pytest.importorskip("distributed", reason="Dask is not installed")


@pytest.fixture
def started(desk):
    """Words in the background; whatever happens, they and what they started are gone at the end."""
    processes = []

    def start(*words):
        with open(desk / f"said{len(processes)}", "w") as said:
            process = subprocess.Popen([sys.executable, *words], cwd=desk.folder, env=desk.env, stdout=said, stderr=said, preexec_fn=usual_signals, start_new_session=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(WAIT)


def end(process, desk):
    code = process.wait(WAIT)
    assert code == 0, "".join(path.read_text() for path in desk.folder.glob("said*"))
    desk.is_single()


def test_a_worker_is_killed(desk, started):
    """In the middle of its shard, which lives on: another worker has it, and what finalizes waits for both."""
    desk.hold()
    desk.job_file("dask", "job.py")
    process = started("job.py")
    pid = desk.held()
    os.kill(parent_of(pid), signal.SIGKILL)
    wait_until(lambda: desk.finalize_calls() or process.poll() is not None, "a call of finalize")
    assert is_there(pid) and not desk.is_made()
    os.kill(pid, signal.SIGCONT)
    end(process, desk)
    assert not is_there(pid)


def test_a_scheduler_elsewhere(desk, started):
    """By its address; workers without nannies, one thread each, as they are where each runs on a machine of its own."""
    scheduler = started("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", "scheduler.json")
    wait_until(lambda: (desk / "scheduler.json").exists() or scheduler.poll() is not None, "a scheduler")
    for _ in range(2):
        started("-m", "distributed.cli.dask_worker", "--scheduler-file", "scheduler.json", "--no-nanny", "--nthreads", "1", "--no-dashboard")
    desk.hold()
    desk.job_file("dask", "job.py")
    address = subprocess.run([sys.executable, "-c", "import json; print(json.load(open('scheduler.json'))['address'])"], cwd=desk.folder, capture_output=True, text=True, check=True).stdout.strip()
    process = started("job.py", address)
    pid = desk.held()
    os.kill(parent_of(pid), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    end(process, desk)
