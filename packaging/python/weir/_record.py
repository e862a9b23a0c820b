"""What the dataclasses of weir.documents share, and how values of JSON become theirs."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, TypeVar

T = TypeVar("T")
SHOWN = 3  # elements of a list in a repr


def _short(value: object) -> str:
    if isinstance(value, list) and len(value) > SHOWN:
        return f"[<{len(value)} elements>]"
    return repr(value)


@dataclass(frozen=True, repr=False)
class Record:
    """An object of a document. ``raw`` is the same as json.loads gives it, also what this class has no name for."""

    raw: Dict[str, Any] = field(compare=False)

    def __repr__(self) -> str:
        names = [each.name for each in dataclasses.fields(self) if each.name != "raw"]
        told = (f"{name}={_short(value)}" for name in names if (value := getattr(self, name)) not in (None, []))
        return f"{type(self).__name__}({', '.join(told)})"


def same(value: Any) -> Any:
    return value


def count(value: Any) -> Any:
    """Whole numbers past 2^53 come as strings."""
    return None if value is None else int(value)


def figure(value: Any) -> Any:
    """So do numbers that JSON has no form for: NaN, Infinity."""
    return None if value is None else float(value)


def count_or_word(value: Any) -> Any:
    return value if isinstance(value, str) and not value.isdigit() else count(value)


def setting(value: Any) -> Any:
    """The value of an option: a word of digits, with a fraction or an exponent or not, is a number; lists are of names."""
    if not isinstance(value, str) or not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", value):
        return value
    return int(value) if re.fullmatch(r"-?[0-9]+", value) else float(value)


def maybe(make: Callable[[Any], T], value: Any) -> Optional[T]:
    return None if value is None else make(value)


def each(make: Callable[[Any], T], value: Any) -> List[T]:
    """A list that may be absent."""
    return [make(element) for element in value or ()]


def by_name(make: Callable[[Any], T], value: Any) -> Dict[str, T]:
    return {name: make(element) for name, element in (value or {}).items()}
