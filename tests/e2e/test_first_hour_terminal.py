"""The first hour, continued: keys, screens, pipes (test_first_hour.py says what this is about).

Keys are typed at a terminal and reach whoever is in the foreground there. For a key to come at a chosen moment, the
program is weir-fault, which stops itself before a chosen call and is sent on its way once the key's signal waits for it;
or it is held by a pipe that nobody reads yet.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import compare
from conftest import MANY_UNITS, before_record
from shell import CTRL_C, CTRL_Z, WAIT, wait_pending, wait_stopped
from test_resume import fingerprint, names

COMMANDS = ("inspect check conv2matmul quantize shrink cast dynamic calibrate static smooth requantize infer preprocess optimize measure run "
            "passes targets convert replay clean diff audit sign rebuild verify plan shard status jobs finalize").split()  # fmt: skip
TWO_UNITS_DONE = f"WEIR_FAULT=stop:{before_record(3)}"
LINE = f"conv2matmul $M 'sp ace/out.onnx' --jobs 1 {' '.join(MANY_UNITS)}"
UNTIL_STOPPED = 'pid=$!; while kill -0 $pid && ! grep -q "^State:.T" /proc/$pid/status; do sleep 0.01; done; '


@pytest.fixture
def long_desk(desk, medium_encoder):
    """A desk with $M, a model of some 400 MB, and a folder with a blank in its name."""
    (desk / "sp ace").mkdir()
    desk.env["M"] = os.fspath(medium_encoder)
    before = fingerprint(medium_encoder.parent)
    yield desk
    assert fingerprint(medium_encoder.parent) == before
    shutil.rmtree(desk / "sp ace")


def left(desk):
    return names(desk / "sp ace")


def assert_as_in_a_quiet_run(desk, quiet_run):
    desk("weir audit 'sp ace/out.onnx'")
    assert compare.folder_digests(desk / "sp ace") == quiet_run and left(desk) == sorted(quiet_run)


# ---- stop it, kill it, start it twice, put it aside, go on


def interrupted(desk, line):
    """Ctrl-C at a terminal when two units are done: how the shell ended, and the screen."""
    with desk.terminal(line) as terminal:
        pid = terminal.wait_until_runs("weir-fault")
        wait_stopped(pid)
        terminal.type(CTRL_C)
        wait_pending(pid, signal.SIGINT)
        os.kill(pid, signal.SIGCONT)
        return terminal.end()


def test_ctrl_c_and_on(long_desk, quiet_run):
    """A loop of the shell ends at once; the two commands that the screen offers are typed as they stand."""
    code, screen = interrupted(
        long_desk, f'for i in 1 2 3; do {TWO_UNITS_DONE} weir-fault {LINE}; echo "after $?"; done; echo ended'
    )
    assert code == -signal.SIGINT and "after" not in screen and "ended" not in screen
    assert re.search(r"interrupted: finished units \(\d+ %\) are kept, unfinished units", screen) and "nothing is lost" not in screen
    [staging] = left(long_desk)
    assert staging.startswith(".out.onnx.") and staging.endswith(".weir")
    found = re.search(r"continue: (.*)\n *discard: +(.*)\n", screen)
    assert found, screen
    assert len(screen.rstrip().split("\n")) <= 4, screen
    listed = long_desk("weir clean 'sp ace'").out
    assert staging in listed and found[1] in listed
    said = long_desk(found[1]).err
    [line] = [line for line in said.splitlines() if " %  " not in line]  # progress, where it takes long
    assert re.search(r"resumed: [\d.]+ MB of [\d.]+ MB", line)
    assert_as_in_a_quiet_run(long_desk, quiet_run)


def test_ctrl_c_and_away_with_it(long_desk):
    _, screen = interrupted(long_desk, f"{TWO_UNITS_DONE} weir-fault {LINE}")
    long_desk(re.search(r"discard: +(.*)\n", screen)[1])
    assert left(long_desk) == [] and "no interrupted runs" in long_desk("weir clean 'sp ace'").out


def test_ctrl_c_then_from_the_beginning(long_desk, quiet_run):
    """--fresh takes nothing over; other options than those of the interrupted run have nothing to take."""
    interrupted(long_desk, f"{TWO_UNITS_DONE} weir-fault {LINE}")
    assert "resumed" not in long_desk(f"weir {LINE} --fresh").said
    assert_as_in_a_quiet_run(long_desk, quiet_run)


def test_the_window_is_closed(long_desk, quiet_run):
    """A connection that breaks: what was done is kept, and the same line goes on."""
    with long_desk.terminal(f"{TWO_UNITS_DONE} weir-fault {LINE}; echo after >> after") as terminal:
        pid = terminal.wait_until_runs("weir-fault")
        wait_stopped(pid)
        terminal.hang_up()
        assert terminal.shell.wait() == -signal.SIGHUP and not (long_desk / "after").exists()
    with long_desk.terminal(f"until weir {LINE}; do [ $? = 75 ] || break; done") as terminal:
        code, screen = terminal.end()
    assert code == 0 and "resumed: " in screen, screen
    assert_as_in_a_quiet_run(long_desk, quiet_run)


@pytest.mark.parametrize("name, number", [("TERM", 15), ("KILL", 9), ("HUP", 1)])
def test_kill_in_a_script(long_desk, quiet_run, name, number):
    """The code that a script sees; nothing under a final name; the same line ends with the bytes of a quiet run."""
    end = f"kill -{name} $pid; kill -CONT $pid; wait $pid; echo $?"
    done = long_desk(f"{TWO_UNITS_DONE} weir-fault {LINE} 2>said & {UNTIL_STOPPED} {end}")
    assert done.out == f"{128 + number}\n" and [each for each in left(long_desk) if not each.startswith(".")] == []
    assert ("interrupted" in (long_desk / "said").read_text()) == (name != "KILL")
    long_desk(f"weir {LINE}")
    assert_as_in_a_quiet_run(long_desk, quiet_run)


def test_two_at_once(long_desk, quiet_run):
    """The second of the same output is told to wait, and clean keeps its hands off; another output is nobody's matter."""
    done = long_desk(
        f"{TWO_UNITS_DONE} weir-fault {LINE} & {UNTIL_STOPPED}"
        f" weir {LINE} 2>said; echo $?; weir clean 'sp ace' --yes 2>&1; weir convert encoder.onnx other.onnx --quiet;"
        " echo $?; kill -CONT $pid; wait $pid; echo $?"
    )
    said = (long_desk / "said").read_text()
    assert re.findall(r"^\d+$", done.out, re.MULTILINE) == ["75", "0", "0"] and "in use" in done.out
    assert len(said.splitlines()) == 2 and "hint: " in said
    assert_as_in_a_quiet_run(long_desk, quiet_run)


def test_ctrl_z_and_fg(desk):
    """Put aside while it writes a log that nobody reads yet; brought back, it ends as if nothing had been."""
    desk("mkfifo log; mkdir a b; weir quantize encoder.onnx b/o.onnx --block-size 32")
    line = 'weir quantize encoder.onnx a/o.onnx --block-size 32 --edit-log log; echo "code $?"'
    with desk.terminal(f'set -m; {line}; cat log >copy & fg %1 >/dev/null; echo "code $?"; wait; weir audit a/o.onnx') as terminal:
        terminal.wait_until_runs("weir")
        terminal.type(CTRL_Z)
        code, screen = terminal.end()
    assert code == 0 and re.findall(r"code (\d+)", screen) == [str(128 + signal.SIGTSTP), "0"], screen
    assert (desk / "copy").read_text().splitlines()[-1].startswith('{"edit":"end"')
    assert compare.folder_bytes(desk / "a", ["o.onnx.manifest.json"]) == compare.folder_bytes(desk / "b", ["o.onnx.manifest.json"])


# ---- in scripts, behind pipes, without a terminal


def test_in_a_script(desk):
    """set -e, &&, ||, $?: a script can tell what happened."""
    line = "weir quantize encoder.onnx o.onnx --block-size 32 --quiet"
    assert desk(f"set -e; {line}; weir audit o.onnx >/dev/null; echo well").said == "well\n"
    assert desk(f"{line} 2>/dev/null || echo $?").out == "2\n"
    codes = {
        "weir inspect nothere.onnx": 66,
        "weir inspect encoder.onnx.data": 65,
        "weir quantise": 2,
        "weir quantize encoder.onnx p.onnx --budget 9999": 1,
        "printf x | dd of=o.onnx.data bs=1 conv=notrunc 2>/dev/null; weir audit o.onnx": 1,
    }
    for words, code in codes.items():
        assert desk(f"{words} >/dev/null 2>&1; echo $?").out == f"{code}\n", words
    assert desk("find . -name '*.onnx' -print0 | xargs -0 -n1 weir check | wc -l").out.strip() == "2"


def test_one_log_of_both_streams(desk):
    """Lines stand in the order in which they were said."""
    desk("mkdir in; cp encoder.onnx* in; head -c 1000 encoder.onnx > in/bad.onnx; weir shrink in --output-dir out >log 2>&1", code=65)
    log = (desk / "log").read_text().splitlines()
    error = next(i for i, line in enumerate(log) if line.startswith("weir: error: 'in/bad.onnx'"))
    assert "in/bad.onnx" in log[error - 1] and "in/encoder.onnx" in log[error + 2]
    assert "1 written" in log[-1] and "1 failed" in log[-1]
    assert all("\x1b" not in line and "\r" not in line for line in log)


@pytest.mark.parametrize("words", ["inspect encoder.onnx --tensors --tree", "measure encoder.onnx --all", "passes --json", "quantize --help"])
def test_only_the_first_line(desk, words):
    """`| head -1` ends it without a word."""
    done = desk(f'weir {words} | head -1; echo "${{PIPESTATUS[0]}}"')
    assert done.err == "" and len(done.out.splitlines()) == 2
    assert int(done.out.splitlines()[1]) in (0, 128 + signal.SIGPIPE)


WORDS = ["inspect encoder.onnx", "check encoder.onnx", "measure encoder.onnx", "passes", "--version", "--help", "clean .",
         "inspect encoder.onnx --json", "quantize encoder.onnx --dry-run --block-size 32"]  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_standard_output_that_takes_nothing(desk, words):
    """A full disk behind it, or closed: one line, and no success."""
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("there is no /dev/full")
    for where, code in ((">/dev/full", 73), (">&-", 74)):
        done = desk(f"weir {words} {where}", code=code)
        assert len(done.err.splitlines()) == 1 and "standard output" in done.err
    assert sorted(desk.files()) == ["encoder.onnx", "encoder.onnx.data"]


def test_a_model_whose_summary_cannot_be_printed(desk):
    """The model is there; the code says that something was not written. Who asked for nothing misses nothing."""
    line = "weir quantize encoder.onnx o.onnx --block-size 32 --force"
    for where, code in ((">/dev/full", 73), (">&-", 74)):
        if where == ">&-" or os.access("/dev/full", os.W_OK):
            done = desk(f"{line} {where}", code=code)
            assert "standard output" in done.err and "hint: the output is complete" in done.err
            assert desk(f"weir audit o.onnx; {line} --quiet {where}").err == ""


def test_without_any_stream(desk):
    """All three closed, as some services start their children: no file of the output gets what was meant for a screen."""
    desk("weir quantize encoder.onnx o.onnx --block-size 32 <&- >&- 2>&-", code=None)
    desk("mkdir b; weir quantize encoder.onnx b/o.onnx --block-size 32 --quiet; weir audit o.onnx; cmp o.onnx b/o.onnx")
    assert desk.files("b").items() <= desk.files().items()
    desk("weir inspect nothere.onnx 2>/dev/full", code=66)
    desk("weir quantize encoder.onnx q.onnx --block-size 32 --quiet <&- >&- 2>&-; weir audit q.onnx")


def test_for_programs(desk):
    """--json of everything goes through a parser; a failure is a document too, and stderr has the words."""
    desk("weir quantize encoder.onnx o.onnx --block-size 32 --quiet")
    parser = "jq .schema" if shutil.which("jq") else "python3 -c 'import json, sys; print(json.load(sys.stdin)[\"schema\"])'"
    for words in ("inspect encoder.onnx", "check encoder.onnx", "measure encoder.onnx", "passes", "clean .", "audit o.onnx",
                  "quantize encoder.onnx p.onnx --block-size 32", "convert encoder.onnx c.onnx", "cast encoder.onnx h.onnx --to fp16",
                  "shrink encoder.onnx", "quantize encoder.onnx o.onnx", "inspect nothere.onnx", "quantize encoder.onnx"):  # fmt: skip
        assert desk(f"weir {words} --json 2>/dev/null | {parser}").out == "1\n", words
    failure = desk("weir inspect nothere.onnx --json", code=66)
    error = failure.json()["error"]
    assert error["code"] == 66 and error["message"] in failure.err and "nothere.onnx" in error["message"]


def test_colours(desk):
    """On a terminal that has them, unless NO_COLOR or TERM=dumb; never in a log, unless asked for."""
    refused = "weir inspect nothere.onnx"
    assert "\x1b" not in desk(refused, code=66).err and "\x1b" in desk(f"{refused} --color", code=66).err

    def screen(line):
        with desk.terminal(line) as terminal:
            code, shown = terminal.end()
        assert code == 66 and "nothere.onnx" in shown
        return shown

    assert "\x1b[" in screen(refused) and "\x1b[" in screen(f"{refused} --color")
    for line in (f"NO_COLOR=1 {refused}", f"TERM=dumb {refused}", f"{refused} --no-color", f"{refused} 2>&1 | cat; exit 66"):
        assert "\x1b" not in screen(line), line


# ---- what the shell and the manual know


def completed(desk, *words):
    line = 'source <(weir completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; printf "%s\\n" "${COMPREPLY[@]}"'
    return desk.lines(line, words=words)


def test_completion_in_bash(desk):
    """Commands, options, values, passes, folders and files."""
    desk("mkdir out; weir completion bash > c; bash -n c; bash -c 'source c; complete -p weir'")
    assert completed(desk, "weir", "quan") == ["quantize"]
    assert set(COMMANDS) <= set(completed(desk, "weir", ""))
    assert "--block-size" in completed(desk, "weir", "quantize", "encoder.onnx", "--bl")
    assert completed(desk, "weir", "quantize", "--format", "q") == ["qoperator", "qdq"]
    assert completed(desk, "weir", "quantize", "--bits", "=", "8") == ["8"]
    assert {"quantize", "tidy/cast"} <= set(completed(desk, "weir", "passes", ""))
    assert set(completed(desk, "weir", "help", "me")) == {"measure", "memory"}
    assert completed(desk, "weir", "completion", "z") == ["zsh"]
    assert completed(desk, "weir", "shrink", "encoder.onnx", "--output-dir", "o") == ["out"]
    assert "encoder.onnx" in completed(desk, "weir", "inspect", "enc")


def test_the_tab_key(desk):
    """In a shell that someone sits at."""
    with desk.terminal("PS1='ready> ' TERM=dumb HISTFILE= exec bash --norc --noprofile -i", columns=200) as terminal:
        terminal.wait_for("ready> ")
        terminal.type(b"source <(weir completion bash); echo so''urced\n")
        terminal.wait_for("sourced\r\nready> ")
        terminal.type(b"weir quan\t")
        terminal.wait_for("weir quantize ")
        terminal.type(b"encoder.onnx tab.onnx --block-s\t")
        terminal.wait_for("--block-size ")
        terminal.type(b"32 --qui\t")
        terminal.wait_for("--quiet ")
        terminal.type(b"; echo do''ne\n")
        terminal.wait_for("\ndone")
        terminal.type(b"exit\n")
        code, _ = terminal.end()
    assert code == 0 and (desk / "tab.onnx").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_in_other_shells(desk, shell):
    done = desk(f"weir completion {shell} > script; wc -l < script; {{ ! command -v {shell} >/dev/null; }} || {shell} -n script")
    assert int(done.out) > 30
    text = (desk / "script").read_text()
    assert all(command in text for command in COMMANDS) and "block-size" in text


def test_the_manual(desk):
    """A page for weir and for every command; whatever is installed to read them does."""
    desk("weir --generate man pages")
    names = ["weir.1", *(f"weir-{command}.1" for command in COMMANDS)]
    assert sorted(path.name for path in (desk / "pages").iterdir()) == sorted(names)
    for name in names:
        text = (desk / "pages" / name).read_text()
        assert text.startswith(".TH") or ".TH " in text[:200]
        assert ".SH NAME" in text and ".SH SYNOPSIS" in text
    if shutil.which("mandoc"):
        desk("mandoc -T lint -W warning pages/*.1")
    if shutil.which("groff"):
        assert "quantize" in desk("groff -man -T utf8 pages/weir-quantize.1 2>&1").out


def test_help_of_every_command(desk):
    """To standard output, within 80 columns, by any of its names, and without a file."""
    for command in COMMANDS:
        said = desk(f"weir {command} --help")
        assert said.err == "" and desk(f"weir help {command}").out.endswith(said.out)
        lines = said.out.splitlines()
        assert lines[0].startswith(f"Usage: weir {command}") and "Examples:" in lines
        assert all(len(line) <= 80 for line in lines), command
    assert desk("weir --help").out == desk("weir help").out
    assert all(re.search(rf"^  {command} ", desk("weir --help").out, re.MULTILINE) for command in COMMANDS)


# ---- how far it is


@pytest.mark.parametrize("columns", [100, 50])
def test_progress_on_a_terminal(desk, columns):
    """One line that stays within the window and is gone at the end; none where nobody sits."""
    with desk.terminal("weir quantize encoder.onnx o.onnx --block-size 32; weir measure encoder.onnx >/dev/null", columns) as terminal:
        code, screen = terminal.end()
    frames = re.findall(r"\r([^\r\n]*)\x1b\[K", screen)
    assert code == 0 and len(frames) >= 4, screen
    assert all(len(frame) < columns for frame in frames) and sum("100 %" in frame for frame in frames) >= 2
    assert frames[-1] == "" and screen.count("\x1b[K") == len(frames)
    with desk.terminal("TERM=dumb weir convert encoder.onnx p.onnx; weir convert encoder.onnx q.onnx --progress=never") as terminal:
        assert "%  " not in terminal.end()[1]


def test_progress_in_tmux(desk):
    """What is left on the screen of a window of 50 columns: the lines of the end and nothing of the bar."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    with tempfile.TemporaryDirectory(prefix="weir-") as sockets:
        env = {**desk.env, "TMUX_TMPDIR": sockets}
        env.pop("TMUX", None)

        def tmux(*words):
            return subprocess.run(["tmux", "-f", "/dev/null", *words], env=env, cwd=desk.folder, capture_output=True, text=True)

        line = "weir quantize encoder.onnx o.onnx --block-size 32; echo code $?; cat"
        started = tmux("new-session", "-d", "-x", "50", "-y", "30", line)
        if started.returncode != 0:
            pytest.skip(f"no tmux here: {started.stderr}")
        try:
            giving_up, shown = time.monotonic() + WAIT, ""
            while not re.search(r"^code \d", shown, re.MULTILINE) and time.monotonic() < giving_up:
                shown = tmux("capture-pane", "-p", "-J").stdout
        finally:
            tmux("kill-server")
    assert "\ncode 0\n" in shown and "wrote o.onnx" in shown and ": 46 weights quantized" in shown, shown
    assert "writing" not in shown and "left" not in shown


def test_progress_in_a_log(desk):
    """Nothing of a short run unless asked for; then lines without control characters, or events for programs."""
    assert desk("weir convert encoder.onnx a.onnx").err == ""
    lines = desk("weir convert encoder.onnx b.onnx --progress").err.splitlines()
    assert "100 %" in lines[-1] and all(line.startswith("weir: ") and "\x1b" not in line and "\r" not in line for line in lines)
    events = [json.loads(line) for line in desk("weir convert encoder.onnx c.onnx --progress=json").err.splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["start", "end"] and events[-1]["share"] == 1
