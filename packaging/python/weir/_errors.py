"""What functions raise: a class for each exit code of the program."""

from __future__ import annotations

import signal
from typing import Any, Dict, Optional, Sequence, Type


class WeirError(Exception):
    """The program ended with another exit code than 0.

    ``code`` is the exit code, ``message`` says in one sentence what was wrong, ``hint`` what can be done about it (or
    is None). ``reports`` are the documents that the program wrote nevertheless: the damage that an audit found, the
    faults that a check found, the figures of models that did not verify, the models that ``shrink`` wrote although
    another one failed. ``report`` is the first of them, or None.
    """

    def __init__(self, message: str, hint: Optional[str] = None, code: int = 1, reports: Sequence[Any] = ()) -> None:
        super().__init__(message, hint, code, reports)
        self.message = message
        self.hint = hint
        self.code = code
        self.reports = list(reports)

    @property
    def report(self) -> Any:
        return self.reports[0] if self.reports else None

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class FailedError(WeirError):
    """An audit found damage, a model did not verify, or the request is impossible for this model (exit code 1)."""


class UsageError(WeirError):
    """The arguments are wrong (exit code 2)."""


class ModelError(WeirError):
    """The model, log or manifest is malformed (exit code 65)."""


class InputError(WeirError):
    """An input is missing, is not what was expected, or changed during the run (exit code 66)."""


class RuntimeMissingError(WeirError):
    """A required program or library is not installed (exit code 69)."""


class InternalError(WeirError):
    """An internal error of the program: please report it (exit code 70, or a crash)."""


class NoSpaceError(WeirError):
    """There is no space on the output's file system (exit code 73)."""


class InputOutputError(WeirError):
    """The system could not read or write (exit code 74)."""


class RetryError(WeirError):
    """Busy, or interrupted: the same call continues (exit code 75)."""


class KilledError(RetryError):
    """A signal that somebody else sent ended the program; ``code`` is 128 and its number."""


class NotPermittedError(WeirError):
    """Not permitted, or a link that is not followed: see ``allow_links`` (exit code 77)."""


class WeirWarning(UserWarning):
    """The category of what the program warns about (see the module ``warnings``)."""


by_code: Dict[int, Type[WeirError]] = {
    1: FailedError,
    2: UsageError,
    65: ModelError,
    66: InputError,
    69: RuntimeMissingError,
    70: InternalError,
    73: NoSpaceError,
    74: InputOutputError,
    75: RetryError,
    77: NotPermittedError,
}

# Signals that come from the program's own doing.
crashes = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}

__all__ = [
    "FailedError",
    "InputError",
    "InputOutputError",
    "InternalError",
    "KilledError",
    "ModelError",
    "NoSpaceError",
    "NotPermittedError",
    "RetryError",
    "RuntimeMissingError",
    "UsageError",
    "WeirError",
    "WeirWarning",
]
