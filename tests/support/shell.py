"""How people use a program: a line given to a shell in a folder of theirs, and a terminal to sit at.

A Shell gives a line to bash, with weir on the PATH. A Terminal runs one behind a pseudo terminal of a size: keys that
are typed go through the line discipline, so that Ctrl-C and Ctrl-Z reach whoever is in the foreground, as at a desk.
Nothing here sleeps for a moment and hopes: what is waited for is a text on the screen or a state of a process.
"""

import fcntl
import hashlib
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from pathlib import Path

WAIT = 60  # seconds until a test gives up on something that should have come
CTRL_C, CTRL_Z = b"\x03", b"\x1a"


@dataclass
class Done:
    """A finished command. `said` is all that it printed."""

    code: int
    out: str
    err: str

    @property
    def said(self):
        return self.out + self.err

    def json(self):
        return json.loads(self.out)


def usual_signals():
    """For the child: who started the tests may have them ignored."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


class Shell:
    """`shell("weir inspect a.onnx | head -1")` demands success, `code=…` another exit code, `code=None` none."""

    def __init__(self, folder, **programs):
        """`programs`: what is called weir (and so on) there, by name; they come first on the PATH."""
        self.folder = Path(folder) / "desk"
        self.folder.mkdir()
        bin_folder = Path(folder) / "bin"
        bin_folder.mkdir()
        for name, path in programs.items():
            (bin_folder / name.replace("_", "-")).symlink_to(path)
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CLICOLOR_FORCE")}
        self.env = {**kept, "PATH": f"{bin_folder}:{os.environ['PATH']}", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}

    def __truediv__(self, name):
        return self.folder / name

    def __call__(self, line, code=0, words=()):
        """Run a line; `words` are $1, $2 … in it."""
        done = subprocess.run(
            ["bash", "-c", line, "bash", *map(os.fspath, words)],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            preexec_fn=usual_signals,
        )
        result = Done(done.returncode, done.stdout, done.stderr)
        assert code is None or result.code == code, f"{line}: exit code {result.code}, not {code}: {result.said}"
        return result

    def lines(self, line, **how):
        return self(line, **how).out.splitlines()

    def refused(self, line, code, *mentioned):
        """A refusal as it should be: that exit code, one plain line and perhaps a hint, nothing made or changed."""
        before = self.files()
        done = self(line, code=code)
        first, *more = done.err.splitlines()
        assert done.out == "", f"{line}: {done.out}"
        assert re.fullmatch(r"weir: error: \S.*[^.]|weir: error: [A-Z].*\.", first), f"{line}: {done.err}"
        assert len(more) <= 1 and all(re.match(r"hint: \S", each) for each in more), f"{line}: {done.err}"
        for word in mentioned:
            assert word in done.err, f"{line}: no {word!r} in {done.err}"
        assert self.files() == before, f"{line}: files came, went or changed"
        return done

    def files(self, folder="."):
        """Every file below a folder with its digest, links and folders by name."""
        found = {}
        for path in sorted((self.folder / folder).rglob("*")):
            name = str(path.relative_to(self.folder / folder))
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_file() and os.access(path, os.R_OK):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[name] = "there"
        return found

    def terminal(self, line, columns=80):
        return Terminal(line, columns, self.folder, self.env)


class Terminal:
    """bash with a line to run, behind a terminal so many columns wide; a context that ends with it gone."""

    def __init__(self, line, columns, folder, env):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.screen = b""

        def sit_down():
            usual_signals()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.shell = subprocess.Popen(
            ["bash", "--norc", "-c", line],
            stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=env, start_new_session=True, preexec_fn=sit_down,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for pid in [self.foreground(), self.shell.pid]:
            if pid > 1 and self.shell.poll() is None:
                os.killpg(pid, signal.SIGKILL)
        self.shell.wait()
        if self.master >= 0:
            os.close(self.master)

    def foreground(self):
        """The process group that keys go to; 0 if there is none any more."""
        if self.master < 0:
            return 0
        try:
            return struct.unpack("i", fcntl.ioctl(self.master, termios.TIOCGPGRP, b"\0" * 4))[0]
        except OSError:
            return 0

    def type(self, keys):
        os.write(self.master, keys)

    def read(self):
        """More of what is shown; False at the end."""
        if not select.select([self.master], [], [], WAIT)[0]:
            raise AssertionError(f"nothing comes any more after {self.screen!r}")
        try:
            self.screen += os.read(self.master, 65536)
        except OSError:  # EIO: nobody has the other side open
            return False
        return True

    def wait_for(self, text):
        while text.encode() not in self.screen:
            assert self.read(), f"it ended without {text!r}: {self.screen!r}"

    def wait_until_runs(self, name):
        """Until a program of that name is in the foreground: gives its process id."""
        giving_up = time.monotonic() + WAIT
        while time.monotonic() < giving_up:
            for pid in processes_of_group(self.foreground()):
                if state_of(pid)[0] == name:
                    return pid
            time.sleep(0.001)
        raise AssertionError(f"{name} does not run: {self.screen!r}")

    def hang_up(self):
        """Close the window."""
        os.close(self.master)
        self.master = -1

    def end(self):
        """Everything that was shown, and how the shell ended."""
        while self.read():
            pass
        return self.shell.wait(timeout=WAIT), self.screen.decode(errors="replace").replace("\r\n", "\n")


def state_of(pid):
    """(name, state) of a process, or two empty words."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", ""
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2]


def processes_of_group(group):
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and group > 0 and os.getpgid(int(entry)) == group:
                found.append(int(entry))
        except OSError:
            pass
    return found


def wait_stopped(pid):
    """Until a process that need not be our child has stopped."""
    giving_up = time.monotonic() + WAIT
    while state_of(pid)[1] != "T":
        assert time.monotonic() < giving_up and state_of(pid)[0], "it did not stop"
        time.sleep(0.001)


def wait_pending(pid, number):
    """Until a signal waits for a process that is stopped: keys take their time through the terminal."""
    giving_up = time.monotonic() + WAIT
    while True:
        waiting = re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        if any(int(each, 16) >> (number - 1) & 1 for each in waiting):
            return
        assert time.monotonic() < giving_up, f"signal {number} does not arrive"
        time.sleep(0.001)
