"""How every bench here measures: pairs, shuffled, memory primed, medians of ratios.

Machines are noisy and their disks more so: an absolute time is never a claim. Two or more arms are run in rounds; in
each round every arm runs once, in random order, and a claim is the median over the rounds of arm / baseline, with the
smallest and largest beside it. Before each run

  - outputs of the run before are removed and the file system synced, so that nobody pays for another's dirty pages
  - 4 GiB of fresh anonymous memory are touched and given back: on virtual machines the first touch of memory that the
    host has not backed yet costs 5-10 us a page, and would hit whichever arm comes first
  - the source is read once, so that it is in the page cache for all arms alike; where one of the sources is too large
    for that, all are put out of it instead

Memory is the sum of VmHWM over the process tree (tests/support/peaks.py).
"""

import contextlib
import fcntl
import os
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import peaks  # noqa: E402

PRIME_BYTES = 4 << 30


def prime_memory():
    """Touch and free memory in a child, so that our own peak stays small."""
    code = (
        "import ctypes, mmap\n"
        f"m = mmap.mmap(-1, {PRIME_BYTES})\n"
        f"ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(m)), 1, {PRIME_BYTES})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def warm(paths):
    for path in paths:
        with open(path, "rb", buffering=0) as f:
            block = bytearray(4 << 20)
            while f.readinto(block):
                pass


def forget(paths):
    """Out of the page cache: what is too large to be kept there is compared with what is not kept there."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


class Arm:
    """One thing to time. `commands` run one after the other, timed together; `outputs` are removed before each run.
    `last` has the seconds of the last command alone."""

    def __init__(self, name, commands, outputs=(), env=None):
        self.name = name
        self.commands = commands
        self.outputs = [Path(p) for p in outputs]
        self.env = env
        self.seconds = []
        self.last = []
        self.peak = 0

    def clear(self):
        for path in self.outputs:
            if path.is_dir():
                for inner in path.iterdir():
                    inner.unlink()
            else:
                path.unlink(missing_ok=True)

    def run(self):
        total = 0.0
        for command in self.commands:
            result = peaks.run(command, env=self.env)
            if result.code:
                raise SystemExit(f"{self.name}: {command} gave {result.code}\n{result.out}{result.err}")
            total += result.seconds
            self.peak = max(self.peak, result.tree_bytes)
        self.seconds.append(total)
        self.last.append(result.seconds)


@contextlib.contextmanager
def quiet():
    """With WEIR_BENCH_LOCK in the environment: hold that file's lock, so that who shares the machine can wait for us."""
    path = os.environ.get("WEIR_BENCH_LOCK")
    if not path:
        yield
        return
    with open(path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def one_round(arms, turn, sources, what, cold=()):
    for arm in turn:
        for other in arms:
            other.clear()
        os.sync()
        prime_memory()
        warm(sources)
        forget(cold)
        arm.run()
        print(f"  {what} {arm.name}: {arm.seconds[-1]:.2f} s", file=sys.stderr, flush=True)


def rounds(arms, n, sources, seed=1, cold=()):
    order = random.Random(seed)
    for number in range(n):
        turn = list(arms)
        order.shuffle(turn)
        with quiet():
            one_round(arms, turn, sources, f"round {number + 1}/{n}", cold)
    for arm in arms:
        arm.clear()


def copy_and_sync(files, folder):
    """The baseline: a full copy of the files, made durable."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    targets = [str(folder / Path(f).name) for f in files]
    script = 'cp --reflink=never --sparse=never "$@" && shift $(($# - 1)) && sync "$1"/*'
    return Arm("cp + sync", [["sh", "-c", script, "sh", *map(str, files), str(folder)]], targets)


def hash_files(files):
    return Arm("openssl sha256", [["openssl", "dgst", "-sha256", *map(str, files)]])


def weir():
    return os.environ.get("WEIR", str(Path(__file__).resolve().parent.parent / "build" / "plain" / "weir"))
