"""Samples that the caller holds in memory, for a program that reads files.

They are written as .npz files into a private temporary folder, one after the other, so that memory holds one sample
however many there are; the folder is removed when the function returns or raises. Arrays are what NumPy makes arrays
of; NumPy is imported only when there are any.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import tempfile
import zipfile
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Protocol, Tuple, Union

from ._errors import InputError, NoSpaceError

StrPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Sample = Mapping[str, Any]


class DataReader(Protocol):
    """What onnxruntime's CalibrationDataReader has: a sample from each call, None after the last."""

    def get_next(self) -> Optional[Sample]: ...


Samples = Union[StrPath, Sample, Iterable[Sample], DataReader]
ManySamples = Union[Samples, Iterable[Union[StrPath, Sample]]]

_KINDS = "biufcUS"  # of NumPy's types: numbers and strings, which .npy files hold as they are
_log = logging.getLogger("weir")


class GivenSamples:
    """Samples as they were given; none is taken before `words`."""

    def __init__(self, keyword: str, value: Any, several: bool, most: Optional[int]) -> None:
        self.keyword = keyword
        self.value = value
        self.several = several  # paths among them
        self.most = most

    def words(self, folder: str) -> List[str]:
        """What the option takes instead: paths as they are, and of arrays the path of a folder below `folder`."""
        words: List[str] = []
        spool = ""  # where the samples go that follow one another
        taken = 0
        for each in _each(self.keyword, self.value):
            if self.most is not None and taken == self.most:
                _log.info("more samples are left out (samples=)")
                break
            if self.several and _is_path(each):
                words.append(os.fsdecode(each))
                spool = ""
                continue
            if not spool:
                # Its name is in reports, so it is the same every time.
                spool = os.path.join(folder, f"samples-{len(words)}" if words else "samples")
                os.mkdir(spool)
                words.append(spool)
            where = self.keyword if each is self.value else f"{self.keyword}[{taken}]"
            _write(os.path.join(spool, f"{taken:07}.npz"), where, each)
            taken += 1
        if not words:
            hint = "a reader or generator gives its samples once: make another one"
            raise InputError(f"{self.keyword} gives no sample", hint, 66)
        return words


def given_samples(keyword: str, value: Any, several: bool, most: Optional[int] = None) -> Any:
    """A keyword that takes a path (with `several`: paths) or samples. None is not given."""
    return value if value is None or _is_path(value) else GivenSamples(keyword, value, several, most)


def spooled(given: Mapping[str, GivenSamples], folder: str) -> Iterator[str]:
    """The words of options, given what their samples are."""
    for name, samples in given.items():
        try:
            yield from (f"--{name}={word}" for word in samples.words(folder))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            message = f"no space for the samples of {samples.keyword} in {folder!r}"
            raise NoSpaceError(message, "TMPDIR names another folder for them", 73) from error


def private_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="weir-")


def _is_path(value: object) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def _each(keyword: str, value: Any) -> Iterator[Any]:
    get_next = getattr(value, "get_next", None)
    if isinstance(value, Mapping):
        yield value
    elif isinstance(value, type):
        raise TypeError(f"{keyword} is the class {value.__name__}: give a reader that was made of it")
    elif callable(get_next):
        while (sample := get_next()) is not None:
            yield sample
    elif isinstance(value, Iterable) and not hasattr(value, "__array__"):
        yield from value
    else:
        raise TypeError(
            f"{keyword} takes a path, a dict of arrays by the names of inputs, a sequence or generator of such dicts, "
            f"or an object with get_next, not the type {type(value).__name__}"
        )


def _write(path: str, where: str, sample: Any) -> None:
    if not isinstance(sample, Mapping):
        raise TypeError(f"{where} is of type {type(sample).__name__}: a sample is a dict of arrays by the names of inputs")
    with zipfile.ZipFile(path, "x") as archive:
        for name, value in sample.items():
            if not isinstance(name, str):
                raise TypeError(f"{where} has the key {name!r}: keys are the names of inputs")
            format, array = _array(f"{where}[{name!r}]", value)
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as member:
                format.write_array(member, array, allow_pickle=False)


def _array(where: str, value: Any) -> Tuple[Any, Any]:
    """NumPy's module of .npy files, and the value as an array, without a copy if it is one."""
    numpy: Any = importlib.import_module("numpy")
    make = value if hasattr(value, "__array__") else getattr(value, "numpy", None)  # an OrtValue has the latter
    if make is None or isinstance(value, type):
        name = type(value).__name__
        raise TypeError(f"{where} is of type {name}, no array: numpy.asarray(…, dtype=…) makes one, of the input's type")
    try:
        array = numpy.asarray(make() if make is not value else value)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor on another device, or one with a gradient
        raise TypeError(f"{where} becomes no NumPy array: {error}") from error
    if array.dtype.kind == "O" and all(isinstance(each, str) for each in array.flat):
        array = array.astype(str)  # strings, as onnxruntime takes them
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"{where} has elements of type {array.dtype}: arrays have numbers or strings")
    return importlib.import_module("numpy.lib.format"), array
