"""Run a command and tell what it took: exit code, output, wall seconds and peak resident memory.

Two ways to the peak, because each misses something. `wait4` gives the exact peak of the process itself (its VmHWM),
but not of a tree: for children it gives the largest, not the sum. Polling /proc sees every process of the tree at one
moment, but not what happens between two looks. So:

    peak_bytes   wait4's ru_maxrss: exact for one process
    tree_bytes   the largest sum of VmHWM over the command and all its descendants alive at one look; never less than
                 peak_bytes

One trap: Linux keeps ru_maxrss over exec, so a command started from a large Python would inherit Python's peak. The
command is therefore started by a second, bare Python (peak_launcher.py) of some 10 MB, which is then the
floor of peak_bytes. It also sets the resource limits, so that they bind the command and nothing else.
"""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

POLL_SECONDS = 0.002
LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peak_launcher.py")


@dataclass
class Peak:
    code: int  # exit code, or minus the number of the signal that ended it
    out: str
    err: str
    seconds: float
    peak_bytes: int
    tree_bytes: int


def run(command, *, cwd=None, env=None, stdin=None, timeout=None, limits=None):
    """Run `command` (a list) to its end and give a Peak.

    `limits` maps names of RLIMIT_* in lower case to bytes or counts, e.g. {"data": 64 << 20}. `stdin` is bytes; `env`
    replaces the environment. After `timeout` seconds the command's process group is killed and TimeoutError raised.
    """
    read_end, write_end = os.pipe()
    limits = [f"{name}={limit}" for name, limit in (limits or {}).items()]
    launcher = [sys.executable, "-I", "-S", LAUNCHER, str(write_end), *limits, "--"]
    process = subprocess.Popen(
        launcher + [os.fspath(word) for word in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[write_end],
        start_new_session=True,
    )
    os.close(write_end)
    watch = TreeWatch(process.pid)
    watch.start()
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise TimeoutError(f"{command[0]} took longer than {timeout} s") from None
    finally:
        watch.stop()
        with os.fdopen(read_end) as pipe:
            report = pipe.read()
    if not report:
        raise RuntimeError(f"the launcher of {command[0]} failed: {err.decode(errors='replace')}")
    code, seconds, peak = report.split()
    return Peak(
        code=int(code),
        out=out.decode(errors="replace"),
        err=err.decode(errors="replace"),
        seconds=float(seconds),
        peak_bytes=int(peak),
        tree_bytes=max(watch.peak_bytes, int(peak)),
    )


class TreeWatch(threading.Thread):
    """Looks at all descendants of a process (itself excluded) every POLL_SECONDS."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_bytes = 0
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(POLL_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(high_water(pid) for pid in descendants(self.pid)))

    def stop(self):
        self.over.set()
        self.join()


def descendants(pid):
    """Process ids below `pid`, as they are now."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{parent}/task/{thread}/children") as file:
                    children = [int(word) for word in file.read().split()]
            except OSError:
                continue
            found += children
            waiting += children
    return found


def high_water(pid):
    """VmHWM of a process in bytes, 0 if it is gone. A child between fork and exec counts as its parent's copy."""
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0
