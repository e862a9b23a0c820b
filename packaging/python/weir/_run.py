"""Runs the program: words out of arguments, events and messages while it works, a document or an exception at its end.

The program gets a session of its own, so that a Ctrl-C at the terminal reaches Python alone: it is passed on once, the
program takes it as the wish to clean up and end, and is waited for. What it had finished is kept for the next call.
Standard error is read here, line by line; a thread reads standard output, where a long document may stand.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
import warnings
from numbers import Integral
from typing import IO, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ._errors import InternalError, KilledError, WeirError, WeirWarning, by_code, crashes
from ._find import find_weir_bin
from ._record import Record
from .documents import Progress

StrPath = Union[str, "os.PathLike[str]"]
Option = Union[None, bool, int, float, StrPath, Sequence[Union[int, float, StrPath]]]
R = TypeVar("R", bound=Record)

_log = logging.getLogger("weir")
_CALLER = 4  # warnings: who called the function of the command


# ---- words ----------------------------------------------------------------------------------------------------------


def _text(value: Union[int, float, StrPath]) -> str:
    """Numbers may be those of numpy."""
    if isinstance(value, (int, Integral)):
        return str(int(value))
    return str(value) if isinstance(value, float) else os.fspath(value)


def _option_words(options: Mapping[str, Option]) -> Iterable[str]:
    for name, value in options.items():
        if value is None or value is False:
            continue
        if value is True:
            yield f"--{name}"
        elif isinstance(value, (str, int, Integral, float, os.PathLike)):
            yield f"--{name}={_text(value)}"
        else:
            for element in value:
                yield f"--{name}={_text(element)}"


def _operand_words(operands: Sequence[Union[None, StrPath, Sequence[StrPath]]]) -> Iterable[str]:
    for operand in operands:
        if operand is None:
            continue
        if isinstance(operand, (str, os.PathLike)):
            yield os.fspath(operand)
        else:
            yield from (os.fspath(each) for each in operand)


def _escaped(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "".join("\\" + c if c in ",:=+\\" else c for c in str(value))


def pass_spec(name: str, **options: Union[bool, int, float, str, Sequence[Union[int, float, str]]]) -> str:
    """A pass and its options as ``run`` takes them in ``pass_``.

    >>> pass_spec("quantize", bits=4, symmetric=True, exclude=["*lm_head*", "a,b"])
    'quantize:bits=4,symmetric=true,exclude=*lm_head*+a\\\\,b'
    """
    words = []
    for key, value in options.items():
        several = not isinstance(value, (bool, int, float, str))
        words.append(f"{key}=" + ("+".join(map(_escaped, value)) if several else _escaped(value)))  # type: ignore[arg-type]
    return f"{name}:{','.join(words)}" if words else name


# ---- what it says ---------------------------------------------------------------------------------------------------

_ERROR, _WARNING, _NOTICE, _HINT = "weir: error: ", "weir: warning: ", "weir: ", "hint: "


class _Said:
    """Standard error, a line at a time: events go to the callback, notices to the logger, the rest is kept."""

    def __init__(self, progress: Optional[Callable[[Progress], object]]) -> None:
        self.progress = progress
        self.errors: List[List[str]] = []  # each with its hint, if it has one
        self.warnings: List[List[str]] = []
        self.other: List[str] = []
        self.hinted: List[str] = []  # what the next hint belongs to

    def take(self, line: str) -> None:
        if self.progress and line.startswith('{"event":'):
            self.progress(Progress._from(json.loads(line)))
            return
        kept = next((k for k in (_ERROR, _WARNING, _NOTICE, _HINT) if line.startswith(k)), "")
        text = line[len(kept) :]
        if kept == _HINT:
            self.hinted.append(text)
            return
        self.hinted = [text]
        if kept == _ERROR:
            self.errors.append(self.hinted)
        elif kept == _WARNING:
            self.warnings.append(self.hinted)
        elif kept == _NOTICE:
            _log.info(text)
        elif line:
            self.other.append(line)

    def warn(self) -> None:
        for warning in self.warnings:
            warnings.warn("\nhint: ".join(warning), WeirWarning, stacklevel=_CALLER)


# ---- a run ----------------------------------------------------------------------------------------------------------


def _end(child: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
    """Asks it to clean up, and waits for it; an interrupt meanwhile is a second signal, at which it ends at once."""
    for _ in range(2):
        try:
            child.send_signal(signal.SIGTERM)
            for _line in errors:
                pass
            child.wait()
            return
        except KeyboardInterrupt:
            continue
    child.kill()
    child.wait()


def _run(words: List[str], said: _Said) -> Tuple[int, bytes]:
    """The exit code (below 0: a signal) and what was on standard output."""
    document: List[bytes] = []
    child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout and child.stderr
    with child.stdout as output, child.stderr as errors:
        reader = threading.Thread(target=lambda: document.append(output.read()), daemon=True)
        try:
            reader.start()
            for line in errors:
                said.take(line.decode("utf-8", "surrogateescape").rstrip("\n"))
            child.wait()
        except BaseException:
            _end(child, errors)
            raise
        finally:
            if reader.ident is not None:  # it was started
                reader.join()
    return child.returncode, b"".join(document)


def _documents(text: bytes, lines: bool) -> List[Dict[str, Any]]:
    whole = text.decode("utf-8", "surrogateescape")
    try:
        return [json.loads(each) for each in (whole.splitlines() if lines else [whole]) if each.strip()]
    except ValueError:  # cut off: why is said elsewhere
        return []


def _blamed(command: str, found: Mapping[str, Any]) -> Optional[str]:
    """The sentence of documents that say themselves what is wrong."""
    if command == "audit":
        return f"{found['subject']}: {found['damaged_units']} of {found['units']} units are damaged"
    if command == "check":
        return f"{found.get('model')}: {found['errors']} errors, {found['warnings']} warnings"
    return None


def _failure(command: str, code: int, documents: Sequence[Dict[str, Any]], made: Sequence[Record], said: _Said) -> WeirError:
    tail = "\n".join(said.other[-10:])
    if code < 0:
        real_time = -code not in list(signal.Signals)
        name = f"signal {-code}" if real_time else signal.Signals(-code).name
        if -code in crashes:
            return InternalError(f"weir {command} crashed ({name})" + (f":\n{tail}" if tail else ""), None, 70)
        hint = "the same call continues what was begun"
        return KilledError(f"weir {command} was ended by {name}", hint, 128 - code, made)
    kind = by_code.get(code, WeirError)
    for found in documents:
        error = found.get("error")
        if error and error["code"] == code:
            return kind(error["message"], error["hint"], code, made)
    if said.errors:
        message, *hints = said.errors[0]
        return kind(message, hints[0] if hints else None, code, made)
    blamed = _blamed(command, documents[0]) if documents else None
    return kind(blamed or tail or f"weir {command} ended with the exit code {code}", None, code, made)


def call(
    make: Callable[[Dict[str, Any]], R],
    command: str,
    operands: Sequence[Union[None, StrPath, Sequence[StrPath]]],
    options: Mapping[str, Option],
    progress: Optional[Callable[[Progress], object]] = None,
    tells_progress: bool = False,
    lines: bool = False,
) -> List[R]:
    """Runs a command and gives its documents: one, or with `lines` one for each model."""
    words = [find_weir_bin(), command, "--json"]
    if tells_progress:
        words.append("--progress=json" if progress else "--progress=never")
    words += [*_option_words(options), "--", *_operand_words(operands)]
    said = _Said(progress)
    code, text = _run(words, said)
    documents = _documents(text, lines)
    made = [make(each) for each in documents if "error" not in each]
    said.warn()
    if code != 0:
        raise _failure(command, code, documents, made, said)
    return made
