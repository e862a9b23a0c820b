"""The job file of Ray, run as it is: Ray starts on this machine, and goes when it is done."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from conftest import WAIT, is_there, parent_of, usual_signals, wait_until

pytest.importorskip("ray", reason="Ray is not installed")


@pytest.fixture(scope="module")
def environment():
    """Its files lie in a folder with a short path, since those of sockets are; nothing is told to its makers."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        found = {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        line = "import ray; ray.init(); print(ray.get(ray.remote(lambda: 'it works').remote()))"
        tried = subprocess.run([sys.executable, "-c", line], env={**os.environ, **found}, capture_output=True, text=True)
        if "it works" not in tried.stdout:
            pytest.skip(f"Ray does not start here: {tried.stderr.strip()}")
        yield found


@pytest.fixture
def started(desk, environment):
    """The job file at work; whatever happens, it and what it started are gone at the end."""
    desk.env.update(environment)
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
    """In the middle of its shard, which Ray ends with it: another worker makes it."""
    desk.hold()
    process = started()
    pid = desk.held()
    os.kill(parent_of(pid), signal.SIGKILL)
    end(process, desk)
    assert not is_there(pid)


def test_a_shard_that_ray_does_not_know(desk, started):
    """As one is on a machine that Ray believes lost: what finalizes waits for it."""
    desk.hold()
    stray = subprocess.Popen(["weir", "shard", desk.plan, "--index", "0", "--quiet"], env=desk.env, executable=desk.notes / "bin" / "weir", preexec_fn=usual_signals)
    desk.held()
    process = started()
    wait_until(lambda: desk.finalize_calls() or process.poll() is not None, "a call of finalize")
    assert not desk.is_made()
    stray.send_signal(signal.SIGCONT)
    assert stray.wait(WAIT) == 0
    end(process, desk)
