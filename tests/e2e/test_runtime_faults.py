"""What the client of weir-ort says when things go wrong: a runtime that crashes, hangs or speaks nonsense (`ort_stub`, a library
that does what it is told), a weir-ort that does (a script), libraries that are none. Whatever happens, the wait ends,
and no process and no descriptor is left (the tool says so at its end).
"""

import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import built_tool
from test_runtime import OLDEST, Tool, done, library_of, lives

pytestmark = pytest.mark.in_memory

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = built_tool("libort_stub.so")
FAILED, NO_RUNTIME, RETRY = 1, 69, 75
PIP = "pip install onnxruntime (1.20 or newer), or name its library with --onnxruntime FILE or WEIR_ONNXRUNTIME"


@pytest.fixture
def stub(tmp_path):
    """A tool with the stub as its runtime; `stub("abort@Run")` is told that."""

    def told(how, **environment):
        return Tool(tmp_path, {"WEIR_ONNXRUNTIME": str(LIBRARY), "WEIR_ORT_STUB": how, **environment})

    return told


def once(tool):
    """Opens, loads, runs; what was said to each, as far as it came."""
    return tool.do("--open", "--load", "m.onnx").run().said()


def is_end(line, end, kind, message, hint=""):
    assert (line["end"], line["kind"]) == (end, kind), line
    assert line["message"] == message
    assert line["hint"] == hint


def test_the_stub_runs_a_model_when_it_is_told_nothing(stub):
    opened, loaded, run = once(stub(""))
    assert opened["version"] == "1.99.0-stub"
    assert [each["dims"] for each in done(loaded)["inputs"]] == [[2]]
    assert np.array_equal(np.fromfile(done(run)["outputs"][0]["path"], np.float32), [1, 2])


# ---- a runtime that dies or hangs --------------------------------------------------------------------------------------

DEATHS = {
    "abort": "ended by signal 6 (SIGABRT)",
    "segv": "ended by signal 11 (SIGSEGV)",
    "kill": "ended by signal 9 (SIGKILL)",
    "exit": "ended with exit code 3",
}


@pytest.mark.parametrize("how", DEATHS)
def test_it_dies_in_a_run_and_is_started_again(stub, how):
    """A run after it is refused, since no model is open; the next load starts another process."""
    _, _, run, again, load, died = stub(f"{how}@Run").do("--open", "--load", "m.onnx").run().run().do("--load", "n.onnx").run().said()
    last = ": said at last" if how == "abort" else ""
    is_end(run, "died", FAILED, f"weir-ort {DEATHS[how]} while it ran 'm.onnx'{last}")
    is_end(again, "refused", FAILED, "no model is open in weir-ort")
    assert done(load)
    is_end(died, "died", FAILED, f"weir-ort {DEATHS[how]} while it ran 'n.onnx'{last}")


@pytest.mark.parametrize("where", ["OrtGetApiBase", "GetApi"])
def test_it_dies_before_there_is_a_model(stub, where):
    """Then there is no runtime: nothing was verified, and nothing can be."""
    [opened] = stub(f"abort@{where}").do("--open").said()
    is_end(opened, "failed", NO_RUNTIME, f"weir-ort ended by signal 6 (SIGABRT) while it loaded ONNX Runtime ('{LIBRARY}'): said at last")


def test_it_dies_while_it_loads_a_model(stub):
    [_, load, run] = once(stub("abort@CreateSession"))
    is_end(load, "died", FAILED, "weir-ort ended by signal 6 (SIGABRT) while it loaded 'm.onnx': said at last")
    is_end(run, "refused", FAILED, "no model is open in weir-ort")


def test_it_dies_while_it_closes_a_model(stub):
    """Which is nobody's loss: the next model is loaded by another process."""
    [_, _, load, run] = stub("abort@ReleaseSession").do("--open", "--load", "m.onnx", "--load", "n.onnx").run().said()
    assert done(load) and done(run)


def test_it_hangs(stub):
    _, _, run, load = stub("hang@Run").do("--seconds", "0.2", "--open", "--load", "m.onnx").run().do("--load", "n.onnx").said()
    is_end(run, "late", FAILED, "weir-ort timed out after 0.2 s while it ran 'm.onnx'")
    assert done(load)


def test_it_hangs_before_there_is_a_model(stub):
    [opened] = stub("hang@GetApi").do("--seconds", "0.2", "--open").said()
    is_end(opened, "failed", NO_RUNTIME, f"weir-ort timed out after 0.2 s while it loaded ONNX Runtime ('{LIBRARY}')")


def test_a_signal_to_weir_ends_the_wait(stub):
    """The flag that its handler sets; there is no deadline that could end the wait first."""
    _, load, run = stub("hang@Run").do("--open", "--load", "m.onnx", "--stop").run().said()
    assert done(load)
    is_end(run, "stopped", RETRY, "interrupted while weir-ort ran 'm.onnx'")


@pytest.mark.parametrize("end", ["exit", "hang"])
def test_what_a_runtime_starts_dies_with_it(stub, tmp_path, end):
    """The child has weir-ort's end of the connection too: that it is open does not keep the client waiting."""
    tool = stub(f"child@Run,{end}@Run", WEIR_ORT_STUB_CHILD=str(tmp_path / "child")).do("--seconds", "0.3" if end == "hang" else "600", "--open", "--load", "m.onnx")
    _, _, run = tool.run().said()
    assert run["end"] == ("late" if end == "hang" else "died")
    child = int((tmp_path / "child").read_text())
    while lives(child):  # it was killed, and goes when the system comes to it
        time.sleep(0.01)


def test_memory_has_a_limit(stub):
    """Of what a process may have for data: the stub wants 1 GiB."""
    _, _, run = stub("memory@Run").do("--memory", str(256 << 20), "--open", "--load", "m.onnx").run().said()
    assert run["end"] == "died"
    assert run["message"].endswith("while it ran 'm.onnx': terminate called after throwing an instance of 'std::bad_alloc'")
    assert run["hint"] == "it may have needed more memory than the 256MiB that it has"
    _, _, run = once(stub("memory@Run"))
    assert done(run)


def test_memory_has_a_limit_while_a_model_is_loaded(stub):
    """It is looked at, and the process is ended; it would not end by itself."""
    how = "memory@CreateSession,hang@CreateSession"
    _, load = stub(how).do("--memory", str(256 << 20), "--open", "--load", "m.onnx").said()
    is_end(load, "died", FAILED, "weir-ort needed more than 256MiB of memory while it loaded 'm.onnx'")


def test_peak_memory_is_told(stub):
    _, _, _, peak = stub("memory@Run").do("--open", "--load", "m.onnx").run().do("--peak").said()
    assert peak["bytes"] > 1 << 30


# ---- a runtime that says what makes no sense -----------------------------------------------------------------------------


def test_what_it_prints_does_not_break_frames(stub):
    assert done(once(stub("print@CreateSession,print@Run"))[-1])


def test_what_it_refuses_is_said_in_one_line(stub):
    opened, load, run = once(stub("refuse@Run"))
    is_end(run, "refused", FAILED, "ONNX Runtime 1.99.0-stub cannot run 'm.onnx': no, says the  [31mstub")


@pytest.mark.parametrize("where", ["SessionGetInputCount", "SessionGetOutputCount", "SessionGetInputName", "GetDimensionsCount"])
def test_a_model_without_sense_is_refused(stub, where):
    _, load, _ = once(stub(f"garbage@{where}"))
    assert (load["end"], load["kind"]) == ("refused", FAILED)
    assert load["message"].startswith("it ") or "cannot load" in load["message"]


@pytest.mark.parametrize("where", ["GetTensorElementType", "GetDimensions", "GetTensorMutableData", "GetValueType"])
def test_results_without_sense_are_refused(stub, where):
    _, load, run = once(stub(f"garbage@{where}"))
    assert (run["end"], run["kind"]) == ("refused", FAILED)


def test_dims_that_are_negative_are_refused(stub):
    _, load, run = once(stub("negative@GetDimensions"))
    assert [each["dims"] for each in done(load)["inputs"]] == [[-1]]
    assert run["end"] == "refused" and "has an unknown type or size" in run["message"]


def test_a_version_with_control_characters_is_quoted(stub):
    opened, *_ = once(stub("garbage@GetVersionString"))
    assert opened["version"] == "\\x1b[2J\\x0a"


# ---- libraries -----------------------------------------------------------------------------------------------------------


def test_a_runtime_that_is_too_old(stub):
    [opened] = stub("old@GetApi").do("--open").said()
    is_end(opened, "failed", NO_RUNTIME, f"ONNX Runtime 1.17.3 ('{LIBRARY}') is too old: 1.20 is the oldest that works", PIP)


def opened(folder, *words, **environment):
    [line] = Tool(folder, environment).do(*words, "--open").said()
    return line


def test_libraries_that_are_none(tmp_path):
    text, short, pipe, other = (tmp_path / name for name in ("text.so", "short.so", "pipe.so", "other.so"))
    text.write_text("not a library, " * 10)
    short.write_bytes(b"\x7fELF")
    os.mkfifo(pipe)
    head = bytearray(Path(library_of(OLDEST)).open("rb").read(4096))
    struct.pack_into("<H", head, 18, 8)  # e_machine: MIPS
    other.write_bytes(head)
    for path, why in (
        (tmp_path / "no-such.so", "No such file or directory"),
        (text, "it is not an ELF file"),
        (short, "it is not an ELF file"),
        (tmp_path, "it is not a regular file"),
        (pipe, "it is not a regular file"),
        (other, "it is for another kind of processor"),
    ):
        for how in ({"words": ["--library", path]}, {"words": [], "WEIR_ONNXRUNTIME": str(path)}):
            line = opened(tmp_path, *how.pop("words"), **how)
            is_end(line, "failed", NO_RUNTIME, f"'{path}' is not a library of ONNX Runtime for this machine: {why}", PIP)
    cut = tmp_path / "cut.so"
    cut.write_bytes(Path(library_of(OLDEST)).open("rb").read(100_000))
    line = opened(tmp_path, WEIR_ONNXRUNTIME=str(cut))
    assert (line["end"], line["kind"]) == ("failed", NO_RUNTIME) and "cut.so" in line["message"]
    provider = Path(library_of(OLDEST)).with_name("libonnxruntime_providers_shared.so")
    line = opened(tmp_path, WEIR_ONNXRUNTIME=str(provider))
    is_end(line, "failed", NO_RUNTIME, f"'{provider}' is not ONNX Runtime: it has no OrtGetApiBase", PIP)


def nowhere(folder):
    """An environment without a Python, a home and a runtime."""
    (folder / "empty").mkdir(exist_ok=True)
    return {"PATH": str(folder / "empty"), "HOME": str(folder / "empty"), "VIRTUAL_ENV": "", "CONDA_PREFIX": "", "PYTHONUSERBASE": ""}


def test_no_runtime_at_all(tmp_path):
    is_end(opened(tmp_path, **nowhere(tmp_path)), "failed", NO_RUNTIME, "ONNX Runtime was not found", PIP)


def installed(prefix, version="1.20.1", python="python3.11", folder="site-packages", real=True):
    """What pip leaves of the package, as far as the search looks."""
    capi = prefix / "lib" / python / folder / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    library = capi / f"libonnxruntime.so.{version}"
    library.symlink_to(LIBRARY) if real else library.write_bytes(b"")
    return library


def with_python(prefix, name="python3"):
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / name).write_text("#!/bin/false\n")
    (prefix / "bin" / name).chmod(0o755)
    return str(prefix / "bin")


def test_where_libraries_are_looked_for(tmp_path):
    """Each place before those that come after it."""
    env = nowhere(tmp_path)
    user = installed(tmp_path / "home" / ".local", python="python3.9")
    env["HOME"] = str(tmp_path / "home")
    assert opened(tmp_path, **env)["library"] == str(user)
    env["PATH"] = ":".join(["relative", with_python(tmp_path / "second", "python"), env["PATH"]])
    second = installed(tmp_path / "second", folder="dist-packages")
    assert opened(tmp_path, **env)["library"] == str(second)
    installed(tmp_path / "third")
    env["PATH"] += ":" + with_python(tmp_path / "third")
    assert opened(tmp_path, **env)["library"] == str(second)
    conda = installed(tmp_path / "conda")
    env["CONDA_PREFIX"] = str(tmp_path / "conda")
    assert opened(tmp_path, **env)["library"] == str(conda)
    env["VIRTUAL_ENV"] = str(tmp_path / "venv")
    installed(tmp_path / "venv", "1.9.0", "python3.10")
    newest = installed(tmp_path / "venv", "1.21.0")
    installed(tmp_path / "venv", "1.3.10", "python3.12")
    assert opened(tmp_path, **env)["library"] == str(newest)
    named = tmp_path / "named.so"
    named.symlink_to(LIBRARY)
    env["WEIR_ONNXRUNTIME"] = str(named)
    assert opened(tmp_path, **env)["library"] == str(named)
    option = tmp_path / "option.so"
    option.symlink_to(LIBRARY)
    assert opened(tmp_path, "--library", option, **env)["library"] == str(option)


def test_the_environment_that_weir_was_installed_into_comes_first(tmp_path):
    """If it is an environment; a prefix of another kind comes behind those that are active."""
    env = nowhere(tmp_path)
    prefix = tmp_path / "prefix"
    own, active = installed(prefix), installed(tmp_path / "active")
    (prefix / "bin").mkdir()
    tool = Tool(tmp_path, {**env, "VIRTUAL_ENV": str(tmp_path / "active")})
    tool.program = shutil.copy(built_tool("runtime_tool"), prefix / "bin")
    tool.do("--open")
    assert tool.said()[0]["library"] == str(active)
    (prefix / "pyvenv.cfg").touch()
    assert tool.said()[0]["library"] == str(own)
    (prefix / "pyvenv.cfg").unlink()
    del tool.environment["VIRTUAL_ENV"]
    assert tool.said()[0]["library"] == str(own)


@pytest.mark.parametrize("place", ["onnxruntime/capi", "lib", f"lib/{os.uname().machine}-linux-gnu"])
def test_other_folders_of_an_environment(tmp_path, place):
    library = tmp_path / "env" / place / "libonnxruntime.so.1.22.0"
    library.parent.mkdir(parents=True)
    library.symlink_to(LIBRARY)
    env = {**nowhere(tmp_path), "VIRTUAL_ENV": str(tmp_path / "env")}
    assert opened(tmp_path, **env)["library"] == str(library)


def test_a_python_that_is_a_link_leads_to_its_own_packages(tmp_path):
    env = nowhere(tmp_path)
    with_python(tmp_path / "real")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "python3").symlink_to(tmp_path / "real" / "bin" / "python3")
    library = installed(tmp_path / "real")
    env["PATH"] = str(tmp_path / "links")
    assert opened(tmp_path, **env)["library"] == str(library)


def test_a_library_that_everybody_can_write_to_is_loaded_only_if_it_is_named(tmp_path):
    library = installed(tmp_path / "venv")
    library.unlink()
    shutil.copy(LIBRARY, library)
    env = {**nowhere(tmp_path), "VIRTUAL_ENV": str(tmp_path / "venv")}
    assert done(opened(tmp_path, **env))
    for path, mode in ((library, 0o666), (library.parent, 0o777), (library.parent, 0o1777)):
        was = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        line = opened(tmp_path, **env)
        assert (line["end"], line["kind"]) == ("failed", NO_RUNTIME)
        assert line["message"] == f"every user can write to '{path}', where ONNX Runtime was found, so weir does not load it"
        assert line["hint"] == "chmod o-w, or name the library with --onnxruntime FILE if you trust it"
        assert done(opened(tmp_path, "--library", library, **env))
        path.chmod(was)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    library.rename(elsewhere / "lib.so")
    library.symlink_to(elsewhere / "lib.so")
    assert done(opened(tmp_path, **env))
    elsewhere.chmod(0o777)
    assert opened(tmp_path, **env)["message"].startswith(f"every user can write to '{elsewhere}'")


# ---- the program -----------------------------------------------------------------------------------------------------------


def test_no_program(tmp_path):
    (tmp_path / "bin").mkdir()
    tool = shutil.copy(built_tool("runtime_tool"), tmp_path / "bin")
    alone = Tool(tmp_path, {**nowhere(tmp_path), "WEIR_ONNXRUNTIME": str(LIBRARY)})
    alone.program = tool
    del alone.environment["WEIR_ORT"]
    [line] = alone.do("--open").said()
    is_end(
        line,
        "failed",
        NO_RUNTIME,
        "weir-ort, the program that opens ONNX Runtime, was not found",
        "it is installed with weir, next to it or in ../libexec/weir; if it is elsewhere, WEIR_ORT names it",
    )
    alone.environment["PATH"] = str(tmp_path / "path")
    for folder in (tmp_path / "path", tmp_path / "libexec" / "weir", tmp_path / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(built_tool("runtime_tool").parent.parent / "weir-ort", folder)
        alone.words = []
        assert done(alone.do("--open").said()[0])
        (folder / "weir-ort").unlink()


@pytest.mark.parametrize("what", ["missing", "a folder", "not executable"])
def test_a_program_that_is_named_and_is_none(tmp_path, what):
    path = tmp_path / "weir-ort"
    if what == "a folder":
        path.mkdir()
    elif what == "not executable":
        path.write_text("#!/bin/true\n")
        path.chmod(0o644)
    line = opened(tmp_path, WEIR_ONNXRUNTIME=str(LIBRARY), WEIR_ORT=str(path))
    is_end(line, "failed", NO_RUNTIME, f"WEIR_ORT names '{path}', which is not a program", "it names weir-ort, which opens ONNX Runtime for weir")


# ---- a weir-ort that says what it should not ---------------------------------------------------------------------------------

FAKE = f"""#!{sys.executable}
import os, struct, sys, time

def text(s): return struct.pack("<I", len(s)) + s.encode()
def frame(kind, body): return b"WRT1" + struct.pack("<HHQ", kind, 0, len(body)) + body
def say(content):
    while content: content = content[os.write(1, content):]
def hear():
    def take(n):
        got = b""
        while len(got) < n:
            piece = os.read(0, n - len(got))
            if not piece: sys.exit(0)
            got += piece
        return got
    kind, _, n = struct.unpack("<HHQ", take(16)[4:])
    return kind, take(n)
NUMBER = lambda x: struct.pack("<Q", x)
READY = frame(2, NUMBER(2) + text("1.20.0") + NUMBER(20) + text("/fake"))
VALUE = text("x") + struct.pack("<5I", 0, 1, 0, 1, 1) + struct.pack("<q", 2)
OPENED = frame(4, NUMBER(1) + struct.pack("<I", 1) + VALUE + struct.pack("<I", 1) + VALUE)
def array(name, dims, place, rest, dtype=1, form=0):
    return text(name) + struct.pack("<3I", form, dtype, len(dims)) + struct.pack(f"<{{len(dims)}}q", *dims) + struct.pack("<I", place) + rest
def ran(*arrays): return frame(6, struct.pack("<I", len(arrays)) + b"".join(arrays) + NUMBER(5))
FINE = array("y", [2], 0, NUMBER(8) + bytes(8))
answers = dict(hello=READY, open=OPENED, run=ran(FINE), close=frame(8, NUMBER(1)))
def serve():
    while True:
        kind, body = hear()
        answer = answers[{{1: "hello", 3: "open", 5: "run", 7: "close"}}[kind]]
        say(answer() if callable(answer) else answer)
"""


@pytest.fixture
def fake(tmp_path):
    def told(code):
        path = tmp_path / "fake-ort"
        path.write_text(f"{FAKE}\n{code}\nserve()\n")
        path.chmod(0o755)
        return Tool(tmp_path, {"WEIR_ONNXRUNTIME": str(LIBRARY), "WEIR_ORT": str(path)})

    return told


def test_the_fake_answers_as_it_should(fake):
    assert [line["end"] for line in once(fake(""))] == ["done"] * 3


WRONG = "weir-ort sent an unexpected answer while it ran 'm.onnx': "
FRAMES = {
    "no frame": ("answers['run'] = b'Segmentation fault, but politely\\n'", "the bytes received are not a message: they do not begin with 'WRT1'"),
    "another kind": ("answers['run'] = OPENED", "'opened'"),
    "a request": ("answers['run'] = frame(7, NUMBER(1))", "'close'"),
    "no kind": ("answers['run'] = frame(99, b'')", "message 99 (flags 0) is unknown"),
    "flags": ("answers['run'] = b'WRT1' + struct.pack('<HHQ', 6, 4, 0)", "message 6 (flags 4) is unknown"),
    "too long": ("answers['run'] = b'WRT1' + struct.pack('<HHQ', 6, 0, 1 << 62)", "message 'ran' declares a length of 4.61 EB; the limit is 256MiB"),
    "no body": ("answers['run'] = frame(6, b'')", "message 'ran': field 'outputs' ends too early (byte 0 of 0)"),
    "too many": ("answers['run'] = frame(6, struct.pack('<I', 1 << 31) + bytes(64))", "message 'ran': field 'outputs' counts more than it holds (byte 4 of 68)"),
    "more": ("answers['run'] = ran(FINE)[:8] + struct.pack('<Q', len(ran(FINE)) - 12) + ran(FINE)[16:] + b'four'", "message 'ran': field 'microseconds' is followed by extra bytes"),
    "other bytes": ("answers['run'] = ran(array('y', [3], 0, NUMBER(8) + bytes(8)))", "message 'ran': field 'outputs' has a number of bytes that does not match its dims"),
    "dims": ("answers['run'] = ran(array('y', [1 << 40, 1 << 40], 0, NUMBER(8) + bytes(8)))", "message 'ran': field 'outputs' has dims that are too large"),
    "negative": ("answers['run'] = ran(array('y', [-2], 0, NUMBER(8) + bytes(8)))", "message 'ran': field 'outputs' has a negative dim"),
    "type": ("answers['run'] = ran(array('y', [2], 0, NUMBER(8) + bytes(8), dtype=77))", "message 'ran': field 'outputs' has an unknown element type"),
    "strings": ("answers['run'] = ran(array('y', [2], 2, NUMBER(2) + text('a') + text('b')))", "message 'ran': field 'outputs' has strings among numbers"),
    "count of strings": ("answers['run'] = ran(array('y', [3], 2, NUMBER(2) + text('a') + text('b'), dtype=8))", "message 'ran': field 'outputs' has a different number of strings than elements"),
    "name": ("answers['run'] = ran(array('y\\0', [2], 0, NUMBER(8) + bytes(8)))", "message 'ran': field 'outputs' has a text with a NUL in it"),
    "outside the file": ("answers['run'] = ran(array('y', [2], 1, NUMBER(0) + NUMBER(8)))", "elements that are not in the file of outputs"),
    "an offset": ("answers['run'] = ran(array('y', [2], 1, NUMBER((1 << 64) - 4) + NUMBER(8)))", "message 'ran': field 'outputs' has an offset that is too large"),
    "fewer outputs": ("answers['run'] = ran()", "another number of outputs than requested"),
    "other outputs": ("answers['run'] = ran(array('z', [2], 0, NUMBER(8) + bytes(8)))", "other outputs than requested"),
}  # fmt: skip


@pytest.mark.parametrize("what", FRAMES)
def test_answers_that_are_none(fake, what):
    code, why = FRAMES[what]
    _, _, run, again, load = fake(code).do("--open", "--load", "m.onnx", "--want", "y").run().run().do("--load", "n.onnx").said()
    assert (run["end"], run["kind"]) == ("broken", FAILED)
    assert run["message"].removeprefix(WRONG).split(" (byte")[0] == why.split(" (byte")[0]
    is_end(again, "refused", FAILED, "no model is open in weir-ort")
    assert done(load)


def test_an_answer_that_nobody_asked_for(fake):
    """It comes with the one before, in one write: it is there when the next request is made."""
    _, load, run = once(fake("answers['open'] = OPENED + OPENED"))
    assert done(load)
    is_end(run, "broken", FAILED, "weir-ort sent an unexpected answer while it had nothing to do: an answer without a request")


def test_it_dies_between_two_messages(fake):
    """Before the next request or while it is made: it is said either way."""
    _, load, run = once(fake("def bye(): say(OPENED); os._exit(4)\nanswers['open'] = bye"))
    assert done(load) and (run["end"], run["kind"]) == ("died", FAILED)
    assert re.fullmatch(r"weir-ort ended with exit code 4 while it (had nothing to do|ran 'm.onnx')", run["message"])


def test_it_dies_in_the_middle_of_an_answer(fake):
    _, _, run = once(fake("def half(): say(ran(FINE)[:20]); os._exit(0)\nanswers['run'] = half"))
    is_end(run, "died", FAILED, "weir-ort ended with exit code 0 while it ran 'm.onnx'")


def test_it_stops_in_the_middle_of_an_answer(fake):
    code = "def half():\n  say(ran(FINE)[:20])\n  while True: time.sleep(60)\nanswers['run'] = half"
    _, _, run = fake(code).do("--seconds", "0.3", "--open", "--load", "m.onnx").run().said()
    is_end(run, "late", FAILED, "weir-ort timed out after 0.3 s while it ran 'm.onnx'")


def test_it_does_not_read_its_requests(fake):
    """They are longer than what a socket holds."""
    code = "answers['open'] = lambda: (say(OPENED), time.sleep(1000))"
    tool = fake(code).do("--seconds", "0.3", "--open", "--load", "m.onnx")
    for i in range(8):
        tool.array(f"x{i}", "uint8", np.zeros(1 << 20, np.uint8))
    _, _, run = tool.run().said()
    is_end(run, "late", FAILED, "weir-ort timed out after 0.3 s while it ran 'm.onnx'")


def test_it_closes_its_output_and_stays(fake):
    code = "def shut():\n  os.close(0); os.close(1)\n  while True: time.sleep(60)\nanswers['run'] = shut"
    _, _, run = once(fake(code))
    is_end(run, "died", FAILED, "weir-ort closed its end of the connection while it ran 'm.onnx'")


def test_it_closes_stderr_and_talks_a_lot_before(fake):
    code = "os.write(2, b'x' * 1000 + b'\\nlast\\n'); os.close(2)\ndef bye(): os._exit(5)\nanswers['run'] = bye"
    _, _, run = once(fake(code))
    is_end(run, "died", FAILED, "weir-ort ended with exit code 5 while it ran 'm.onnx': last")


def test_it_talks_without_end_on_stderr(fake):
    code = "def talk():\n  while True: os.write(2, b'x' * 65536)\nanswers['run'] = talk"
    _, _, run = fake(code).do("--seconds", "0.3", "--open", "--load", "m.onnx").run().said()
    is_end(run, "late", FAILED, "weir-ort timed out after 0.3 s while it ran 'm.onnx'")


@pytest.mark.parametrize("version", ["0.0.1", "1.19.2", "1", ""])
def test_versions_that_are_not_believed(fake, tmp_path, version):
    """None that works says so."""
    [line] = fake(f"answers['hello'] = frame(2, NUMBER(2) + text({version!r}) + NUMBER(20) + text('/fake'))").do("--open").said()
    is_end(line, "failed", NO_RUNTIME, f"'{tmp_path}/fake-ort' reports that it opened ONNX Runtime '{version}': 1.20 is the oldest that works")


def test_another_version_when_it_is_started_again(fake, tmp_path):
    """What was found before is told with the version that found it."""
    code = f"import pathlib\nmark = pathlib.Path({str(tmp_path / 'mark')!r})\nif mark.exists(): answers['hello'] = frame(2, NUMBER(2) + text('1.21.0') + NUMBER(20) + text('/fake'))\nmark.touch()\ndef bye(): os._exit(4)\nanswers['run'] = bye"
    _, _, run, load = fake(code).do("--open", "--load", "m.onnx").run().do("--load", "n.onnx").said()
    assert run["end"] == "died" and load["end"] == "broken"
    assert load["message"].endswith("reports that it opened ONNX Runtime '1.21.0', and 1.20.0 before")


@pytest.mark.parametrize(
    "code, why",
    [
        ("answers['run'] = ran()", "another number of outputs than requested"),
        ("answers['run'] = ran(FINE, FINE)", "another number of outputs than requested"),
    ],
)
def test_all_outputs_are_those_of_the_model(fake, code, why):
    """Where all are wanted, and none is named."""
    _, _, run = once(fake(code))
    is_end(run, "broken", FAILED, WRONG + why)


@pytest.mark.parametrize("outputs", ["", "y", "yz", "yw yz"])
def test_models_without_their_outputs_are_not_verified(weir, fake, tmp_path, outputs):
    """A weir-ort that opens a model as one with other outputs, and gives these: no good word comes of it."""
    path = tmp_path / "two.onnx"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xyw"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["w"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    outputs, given = outputs.split() if " " in outputs else (outputs, outputs)
    values = " + ".join([f"struct.pack('<I', {len(outputs)})", *(f"text('{name}') + VALUE[5:]" for name in outputs)])
    tool = fake(f"answers['open'] = frame(4, NUMBER(1) + struct.pack('<I', 1) + VALUE + {values})\nanswers['run'] = ran({', '.join(f'array({name!r}, [2], 0, NUMBER(8) + bytes(8))' for name in given)})")
    done = weir("verify", path, path, code=1, env=tool.environment)
    assert "reports other outputs than" in done.err and "(0.0 %)" in done.out
    done = weir("optimize", path, tmp_path / "o.onnx", "--verify=model", code=1, env=tool.environment)
    assert not (tmp_path / "o.onnx").exists()


def test_another_protocol(fake, tmp_path):
    tool = fake("answers['hello'] = frame(2, NUMBER(3) + text('1.20.0') + NUMBER(20) + text('/fake'))").do("--open")
    [line] = tool.said()
    is_end(line, "failed", NO_RUNTIME, f"'{tmp_path}/fake-ort' speaks another version of the protocol: it belongs to another version of weir")


def test_a_program_that_is_another(tmp_path):
    line = opened(tmp_path, WEIR_ONNXRUNTIME=str(LIBRARY), WEIR_ORT="/bin/echo")
    assert (line["end"], line["kind"]) == ("failed", NO_RUNTIME)


# ---- weir-ort alone ----------------------------------------------------------------------------------------------------------


def ort():
    return built_tool("runtime_tool").parent.parent / "weir-ort"


def test_weir_ort_at_a_shell():
    said = subprocess.run([ort(), "--version"], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "") and re.fullmatch(r"weir-ort \d+\.\d+\.\d+\n", said.stdout)
    said = subprocess.run([ort(), "--help"], capture_output=True, text=True)
    assert said.returncode == 0 and "ONNX Runtime" in said.stdout
    said = subprocess.run([ort(), "model.onnx"], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (2, "") and "--help" in said.stderr


def frame(kind, body):
    return b"WRT1" + struct.pack("<HHQ", kind, 0, len(body)) + body


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


def spoken(*frames, **environment):
    """What it answers to these requests, over pipes: kinds, and the codes of those that failed."""
    done = subprocess.run([ort()], input=b"".join(frames), capture_output=True, env={**os.environ, **environment})
    found, content = [], done.stdout
    while content:
        kind, _, n = struct.unpack("<4xHHQ", content[:16])
        found.append((kind, *struct.unpack("<Q", content[16:24])) if kind == 10 else (kind,))
        content = content[16 + n :]
    return done.returncode, found


def test_weir_ort_doubts_its_requests():
    hello = frame(1, struct.pack("<Q", 2) + text(str(LIBRARY)) + text(""))
    opening = frame(3, text("m.onnx") + text("") + struct.pack("<QQI", 1, 0, 0))
    run = frame(5, struct.pack("<QII", 1, 0, 0) + struct.pack("<QQ", 1 << 20, 0))
    refused, no_library, misused = 1, 2, 4
    assert spoken() == (0, [])
    assert spoken(hello, opening, run, frame(7, struct.pack("<Q", 1))) == (0, [(2,), (4,), (6,), (8,)])
    assert spoken(run, hello, hello, run) == (0, [(10, misused), (2,), (10, misused), (10, misused)])
    assert spoken(frame(1, struct.pack("<Q", 2) + text(str(LIBRARY)) + text("tpu")), run) == (0, [(10, misused), (10, misused)])
    assert spoken(hello, frame(7, struct.pack("<Q", 99)), opening) == (0, [(2,), (10, misused), (4,)])
    assert spoken(hello, frame(2, struct.pack("<Q", 1) + text("") + struct.pack("<Q", 1) + text(""))) == (0, [(2,), (10, misused)])
    assert spoken(frame(1, struct.pack("<Q", 3) + text("x") + text(""))) == (0, [(10, misused)])
    assert spoken(frame(1, struct.pack("<Q", 2) + text("/no/such.so") + text(""))) == (0, [(10, no_library)])
    assert spoken(hello, frame(3, text("m.onnx") + text("") + struct.pack("<QQI", 0, 0, 0))) == (0, [(2,), (10, misused)])
    assert spoken(hello, frame(3, text("m.onnx") + text("") + struct.pack("<QQI", 1, 0, 1) + text("one"))) == (0, [(2,), (10, misused)])
    past = text("x") + struct.pack("<4I", 0, 1, 1, 0)[:12] + struct.pack("<qI", 1, 1) + struct.pack("<QQ", 4096, 4)
    assert spoken(hello, opening, frame(5, struct.pack("<QI", 1, 1) + past + struct.pack("<I", 0) + struct.pack("<QQ", 1, 0))) == (0, [(2,), (4,), (10, misused)])
    assert spoken(hello, b"junk that is no frame at all") == (70, [(2,)])
    assert spoken(hello, opening[:-1]) == (70, [(2,)])
    assert spoken(hello, *[opening] * 65) == (0, [(2,), *[(4,)] * 64, (10, misused)])


def test_the_page_says_what_messages_there_are():
    rows, found = (ROOT / "src/frames/frame_messages.def").read_text(), []
    for stem, number in re.findall(r"^MESSAGE\((\w+), (\d+)\)", rows, re.M):
        fields = re.findall(rf"^FIELD\({stem}, (\w+), (\w+)\)", rows, re.M)
        found.append(f"| {number} | {stem} | {', '.join(' '.join(field) for field in fields)} |")
    page = (ROOT / "docs/weir-ort.md").read_text()
    assert re.findall(r"^\| \d+ \| .*$", page, re.M) == found


# ---- CUDA --------------------------------------------------------------------------------------------


def two(folder):
    """A model with the input and output that the stub has."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    np.savez(folder / "sample.npz", x=np.array([1, 2], np.float32))
    return folder / "m.onnx"


def asked(weir, folder, command, provider, told, code=0):
    model = two(folder)
    words = {"verify": ["verify", model, model], "calibrate": ["calibrate", model, "-o", folder / "r", "--data", folder / "sample.npz", "-f"]}[command]
    return weir(*words, "--provider", provider, "--onnxruntime", LIBRARY, env={"WEIR_ORT_STUB": told}, code=code)


APPEND = "SessionOptionsAppendExecutionProvider_CUDA_V2"


def test_cuda_is_asked_for_and_said(weir, tmp_path):
    assert "with ONNX Runtime 1.99.0-stub on CUDA" in asked(weir, tmp_path, "verify", "cuda", "").out
    assert "CUDA" not in asked(weir, tmp_path, "verify", "cpu", f"abort@{APPEND},abort@CreateCUDAProviderOptions").said


@pytest.mark.parametrize("where", ["CreateCUDAProviderOptions", APPEND])
@pytest.mark.parametrize("command", ["verify", "calibrate"])
def test_a_runtime_without_cuda(weir, tmp_path, command, where):
    said = asked(weir, tmp_path, command, "cuda", f"refuse@{where}", code=NO_RUNTIME).err
    assert "ONNX Runtime 1.99.0-stub has no CUDA here: no, says" in said and "onnxruntime-gpu" in said
    assert not (tmp_path / "r").exists()


def test_this_runtime_has_no_cuda(weir, tmp_path):
    said = weir("verify", two(tmp_path), tmp_path / "m.onnx", "--provider", "cuda", code=NO_RUNTIME).err
    assert "has no CUDA here" in said
