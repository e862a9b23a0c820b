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
from numbers import Integral, Real
from typing import IO, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ._errors import InternalError, KilledError, WeirError, WeirWarning, by_code, crashes
from ._find import find_weir_bin
from ._record import Record
from ._samples import GivenSamples, StrPath, private_folder, spooled
from .documents import Progress

Option = Union[None, "Flag", "Several", GivenSamples, int, float, StrPath]
Operand = Union[None, "Several", StrPath]
R = TypeVar("R", bound=Record)

_log = logging.getLogger("weir")
_CALLER = 4  # warnings: who called the function of the command


# ---- words ----------------------------------------------------------------------------------------------------------


class Flag:
    """What becomes of a flag: its word, alone or with a value."""

    def __init__(self, value: str = "") -> None:
        self.end = f"={value}" if value else ""


def _is_bool(value: object) -> bool:
    """Numbers and truth may be those of numpy, which is not imported for that."""
    return isinstance(value, bool) or (type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"))


def flag(name: str, value: object, for_false: Optional[Flag] = None) -> Optional[Flag]:
    """A keyword that is True or False; None is not given."""
    if value is not None and not _is_bool(value):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return None if value is None else Flag() if value else for_false


def flag_or_word(name: str, value: Any) -> Any:
    return flag(name, value) if _is_bool(value) else value


class Several(Tuple[Any, ...]):
    """The values of what may be given again."""


def _is_one(value: object) -> bool:
    return isinstance(value, (str, bytes, Real, os.PathLike)) or _is_bool(value)


def several(name: str, value: Any) -> Optional[Several]:
    """A keyword or operand that takes one value or a sequence of them; None is not given."""
    if value is None:
        return None
    if isinstance(value, Mapping) or not _is_one(value) and not isinstance(value, Iterable):
        raise TypeError(f"{name} is one value or a sequence of them, not {value!r}")
    return Several([value] if _is_one(value) else value)


def _text(name: str, value: Any) -> str:
    if _is_bool(value):
        raise TypeError(f"{name} needs a value, not {value!r}")
    if not _is_one(value):
        raise TypeError(f"{name} takes one value, not {value!r}")
    if isinstance(value, Integral):
        return str(int(value))
    return str(float(value)) if isinstance(value, Real) else os.fsdecode(value)


def _option_words(options: Mapping[str, Option]) -> Iterable[str]:
    for name, value in options.items():
        keyword = name.replace("-", "_")
        if isinstance(value, Flag):
            yield f"--{name}{value.end}"
        elif isinstance(value, Several):
            yield from (f"--{name}={_text(keyword, each)}" for each in value)
        elif value is not None:
            yield f"--{name}={_text(keyword, value)}"


def _operand_words(operands: Mapping[str, Operand]) -> Iterable[str]:
    for name, value in operands.items():
        for each in value if isinstance(value, Several) else () if value is None else (value,):
            if not isinstance(each, (str, bytes, os.PathLike)):
                raise TypeError(f"{name} takes one value, not {each!r}")
            yield os.fsdecode(each)


def _escaped(value: object) -> str:
    if _is_bool(value):
        return "true" if value else "false"
    return "".join("\\" + c if c in ",:=+\\" else c for c in str(value))


def pass_spec(name: str, **options: Union[bool, int, float, str, Sequence[Union[int, float, str]]]) -> str:
    """A pass and its options as ``run`` takes them in ``pass_``.

    >>> pass_spec("quantize", bits=4, symmetric=True, exclude=["*lm_head*", "a,b"])
    'quantize:bits=4,symmetric=true,exclude=*lm_head*+a\\\\,b'
    """
    words = []
    for key, value in options.items():
        several = not isinstance(value, (Real, str)) and not _is_bool(value)
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
    """None that cannot be read, and then none at all."""
    whole = text.decode("utf-8", "surrogateescape")
    try:
        found = [json.loads(each) for each in (whole.splitlines() if lines else [whole]) if each.strip()]
        return [each for each in found if each and isinstance(each, dict)]
    except ValueError:  # cut off
        return []


_OF_A_FAILURE = {"schema", "command", "model", "error"}  # a document with more tells what was found nevertheless


def _records(make: Callable[[Dict[str, Any]], R], documents: Sequence[Dict[str, Any]]) -> List[R]:
    """None if one has another form."""
    try:
        return [make(each) for each in documents if "error" not in each or not set(each) <= _OF_A_FAILURE]
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def _n(count: Any, noun: str) -> str:
    return f"{count} {noun}{'' if int(count) == 1 else 's'}"


def _blamed(command: str, found: Mapping[str, Any]) -> Optional[str]:
    """The sentence of documents that say themselves what is wrong."""
    if command == "audit":
        verb = "is" if int(found["damaged_units"]) == 1 else "are"
        return f"{found['subject']}: {found['damaged_units']} of {_n(found['units'], 'unit')} {verb} damaged"
    if command == "check":
        return f"{found.get('model')}: {_n(found['errors'], 'error')}, {_n(found['warnings'], 'warning')}"
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
    blamed = _blamed(command, documents[0]) if made else None
    return kind(blamed or tail or f"weir {command} ended with the exit code {code}", None, code, made)


def call(
    make: Callable[[Dict[str, Any]], R],
    command: str,
    operands: Mapping[str, Operand],
    options: Mapping[str, Option],
    progress: Optional[Callable[[Progress], object]] = None,
    tells_progress: bool = False,
    lines: bool = False,
) -> List[R]:
    """Runs a command and gives its documents: one, or with `lines` one for each model."""
    words = [find_weir_bin(), command, "--json"]
    if tells_progress:
        words.append("--progress=json" if progress else "--progress=never")
    samples = {name: value for name, value in options.items() if isinstance(value, GivenSamples)}
    words += _option_words({name: value for name, value in options.items() if name not in samples})
    last = ["--", *_operand_words(operands)]
    said = _Said(progress)
    if samples:
        with private_folder() as folder:
            code, text = _run([*words, *spooled(samples, folder), *last], said)
    else:
        code, text = _run([*words, *last], said)
    documents = _documents(text, lines)
    made = _records(make, documents)
    if code == 0 and not made and (text.strip() or not lines):
        raise InternalError(f"weir {command} ended well, but without a document that can be read", None, 70)
    differs = command == "diff" and code == 1 and bool(made)  # an answer, as diff(1) gives it
    if code != 0 and not differs:
        failure = _failure(command, code, documents, made, said)
        try:
            said.warn()
        except Warning:  # they may be errors here (-W error), but none that explains more
            pass
        raise failure
    said.warn()
    return made
