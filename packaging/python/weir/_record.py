"""What the dataclasses of weir.documents share, and how values of JSON become theirs."""

from __future__ import annotations

import dataclasses
import html
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

T = TypeVar("T")
SHOWN = 3  # elements of a list in a repr
LINE = 100  # characters of a member in the text of a document


def _short(value: object) -> str:
    if isinstance(value, list) and len(value) > SHOWN:
        return f"[<{len(value)} elements>]"
    return repr(value)


def _line(value: object) -> str:
    """A member in at most LINE characters; "" of one that says nothing."""
    if isinstance(value, list) and (len(value) > SHOWN or any(isinstance(each, Record) for each in value)):
        return f"{len(value)} element{'' if len(value) == 1 else 's'}"
    if isinstance(value, Record):
        parts = ((name, _line(inner)) for name, inner in value._told())
        nested = (f"{name} ({line})" if isinstance(getattr(value, name), Record) else f"{name} {line}" for name, line in parts if line)
        return _cut(", ".join(nested))
    return _cut(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LINE else text[: LINE - 1] + "…"


@dataclass(frozen=True, repr=False)
class Record:
    """An object of a document. ``raw`` is the same as json.loads gives it, also what this class has no name for."""

    raw: Dict[str, Any] = field(compare=False)

    def _told(self) -> List[Tuple[str, object]]:
        """The members that are there."""
        names = [each.name for each in dataclasses.fields(self) if each.name != "raw"]
        return [(name, value) for name in names if (value := getattr(self, name)) not in (None, [])]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in self._told())})"


class Document(Record):
    """What a command found. As a text it has a line for each member that says something, and of long lists how long they are."""

    def _lines(self) -> List[str]:
        told = ((name, _line(value)) for name, value in self._told() if name not in ("command", "model"))
        shown = {name: line for name, line in told if line}
        width = max(map(len, shown), default=0)
        command, about = self.raw.get("command"), self.raw.get("model")
        first = (f"weir {command}" if command else type(self).__name__) + (f": {about}" if about else "")
        return [first, *(f"  {name:{width}}  {line}" for name, line in shown.items())]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


class Told(Record):
    """A report: as a text it is what the command line says of the run, in a notebook the head of its page."""

    def _lines(self) -> List[str]:
        return list((self.raw.get("weir") or {}).get("summary", ()))

    def __str__(self) -> str:
        lines = self._lines()
        verified = self.raw.get("verification")
        if verified:
            lines.append("  verification  " + _verified(verified))
        files = ", ".join(sorted(each["name"] for each in self._files("output")))
        if files:
            lines.append(("  planned  " if self._member("dry_run") else "  output  ") + files)
        return "\n".join(lines) or repr(self)

    def _member(self, name: str) -> Any:
        return (self.raw.get("weir") or {}).get(name)

    def _files(self, which: str) -> List[Dict[str, Any]]:
        return list(self._member(which) or ())

    def _repr_html_(self) -> str:
        lines = self._lines()
        if not lines:
            return f"<pre>{html.escape(repr(self))}</pre>"
        before, after = (sum(int(each["size"]) for each in self._files(which)) for which in ("input", "output"))
        cells = [("Size", f"{_bytes(before)} → {_bytes(after)}" + (f" ({100 * after / before:.1f} %)" if before else ""))]
        tensors = sum(len(each.get("tensors", ())) for each in self.raw.get("passes", ()))
        if tensors:
            cells.append(("Tensors converted", f"{tensors:,}"))
        if self.raw.get("verification"):
            cells.append(("Verification", _verified(self.raw["verification"])))
        if self._member("seconds"):
            cells.append(("Time", _seconds(float(self._member("seconds")))))
        if self._member("peak_memory_bytes"):
            cells.append(("Peak memory", _bytes(int(self._member("peak_memory_bytes")))))
        head = "".join(f"<th>{html.escape(title)}</th>" for title, _ in cells)
        row = "".join(f"<td>{html.escape(text)}</td>" for _, text in cells)
        title = html.escape(f"weir {self.raw.get('command')}: {self.raw.get('model')}")
        told = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
        return f"<div><b>{title}</b>{told}<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table></div>"


def _verified(found: Dict[str, Any]) -> str:
    words = (("passed", "passed"), ("failed", "failed"), ("not_verified", "not verified"), ("not_judged", "not judged"))
    return ", ".join(f"{int(found[key])} {word}" for key, word in words if key == "passed" or int(found.get(key) or 0))


def _bytes(n: float) -> str:
    """As the program says it: "705 kB"."""
    if n < 1000:
        return f"{n:.0f} byte{'' if n == 1 else 's'}"
    units = ["kB", "MB", "GB", "TB", "PB", "EB"]
    n /= 1000
    while n >= 999.95 and len(units) > 1:
        n, units = n / 1000, units[1:]
    return f"{n:.{2 if n < 9.995 else 1 if n < 99.95 else 0}f} {units[0]}"


def _seconds(seconds: float) -> str:
    """As the program says it: "0.41 s", "2 min 5 s"."""
    if seconds < 119.5:
        return f"{seconds:.{2 if seconds < 0.995 else 1}f} s"
    whole = int(seconds + 0.5)
    return f"{whole // 60} min {whole % 60} s" if whole < 7200 else f"{whole // 3600} h {whole // 60 % 60} min"


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


def of_a_form(make: Callable[[Any], T], value: Any) -> Any:
    """An object that documents of this form have, and others lack."""
    return maybe(make, value)


def each(make: Callable[[Any], T], value: Any) -> List[T]:
    """A list that may be absent."""
    return [make(element) for element in value or ()]


def by_name(make: Callable[[Any], T], value: Any) -> Dict[str, T]:
    return {name: make(element) for name, element in (value or {}).items()}
