"""Strict JSON, and the JSON form of the domain objects as tables of kinds of value.

:func:`parse` reads a text and refuses what JSON itself leaves open: duplicate keys,
``NaN`` and ``Infinity``, integers of thousands of digits, deep nesting. The
:class:`Document` it returns turns a place in the content (``jobs[3].gpus``) into an
error that names file, line and place. A :class:`Record` is the JSON form of one
dataclass: its table of :class:`Kind` objects reads and writes each field.
:func:`lay_out` writes text that people can read and compare line by line.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Protocol

from .errors import DomainError, EacoError, FormatError, ScheduleError, UnknownNameError

MAX_DEPTH = 32
"""Deepest nesting of lists and objects that is read; the formats need nine."""

MAX_DIGITS = 400
"""Longest integer that is read; the largest float has 309 digits."""

Steps = tuple[str | int, ...]
"""A place in a document: keys and list positions from the outermost inwards."""


class _RefusedError(Exception):
    """What the parser's hooks raise; its place is looked for afterwards."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _RefusedError("a key occurs twice; keep one")
    return out


def _constant(text: str) -> Any:
    raise _RefusedError(f"expected a finite number, got {text}; JSON has none, an infinite deadline is null")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedError(f"expected a number of at most {MAX_DIGITS} digits, got one of {len(text)}")
    return int(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
_scan: Callable[[str, int], tuple[Any, int]] = _DECODER.scan_once  # type: ignore[attr-defined]
"""Reads the value that begins at a place; returns it and where it ends."""
_BLANKS = re.compile(r"[ \t\n\r]*")


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()


def _members(text: str, at: int) -> Iterator[tuple[str | int, int, int]]:
    """Yield (key or position, where it stands, where its value stands) of the container at ``at``."""
    named = text[at] == "{"
    at = _skip(text, at + 1)
    position = 0
    while text[at] not in "}]":
        key: str | int = position
        here = at
        if named:
            key, at = scanstring(text, at + 1, True)
            at = _skip(text, _skip(text, at) + 1)  # over the colon
        yield key, here, at
        at = _skip(text, _scan(text, at)[1])
        if text[at] != ",":
            return
        at = _skip(text, at + 1)
        position += 1


def _find(text: str, steps: Steps) -> int | None:
    """Return where the value at ``steps`` stands, or its innermost container that exists."""
    at = _skip(text, 0)
    try:
        for step in steps:
            if text[at] not in "{[":
                break
            for key, _, value in _members(text, at):
                if key == step:
                    at = value
                    break
            else:
                break
    except (
        IndexError,
        ValueError,
        RuntimeError,
        _RefusedError,
    ):  # pragma: no cover - the text was parsed before
        return None
    return at


def _culprit(text: str) -> tuple[str, Steps, int]:
    """Return what a hook refused in ``text``, and where.

    Goes down into the first member that cannot be read, until a value or a key is
    itself the reason.
    """
    at = _skip(text, 0)
    steps: Steps = ()
    while text[at] in "{[":
        seen: set[str | int] = set()
        last = (steps, at)
        try:
            for key, here, value in _members(text, at):
                if key in seen:
                    return f"key {_clip(key)} occurs twice; keep one", steps, here
                seen.add(key)
                last = ((*steps, key), value)
        except _RefusedError:
            steps, at = last
        else:  # pragma: no cover - a hook refused something in here
            break
    try:
        _scan(text, at)
    except _RefusedError as error:
        return str(error), steps, at
    return "cannot be read", steps, at  # pragma: no cover - as above


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."


def shown(value: object) -> str:
    """Return how a JSON value is named in messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {_clip(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {len(value)} key(s)"
    return _clip(value)


def path_text(steps: Steps) -> str:
    """Return a place as text: ``jobs[3].gpus``, ``metadata['a b']``."""
    out = ""
    for step in steps:
        if isinstance(step, int):
            out += f"[{step}]"
        elif step.isidentifier() and step.isascii() and len(step) <= 60:
            out += f".{step}" if out else step
        else:
            out += f"[{_clip(step)}]"
    return out


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text that knows where its values stand.

    Attributes
    ----------
    source
        Name of the file, for messages.
    text
        The text.
    root
        What it holds.
    """

    source: str
    text: str
    root: Any

    def place(self, steps: Steps) -> str:
        """Return source, line and place of a value, for the beginning of a message."""
        at = _find(self.text, steps)
        line = "" if at is None else f", line {self.text.count(chr(10), 0, at) + 1}"
        inside = path_text(steps)
        return f"{self.source}{line}, {inside}" if inside else f"{self.source}{line}"

    def error(self, steps: Steps, message: str, kind: type[EacoError] = FormatError) -> EacoError:
        """Return an error that begins with the place."""
        return kind(f"{self.place(steps)}: {message}")

    def placed(self, error: EacoError, steps: Steps, fields: Iterable[str] = ()) -> EacoError:
        """Return an error of a domain object with its place before it.

        ``fields`` are the keys of the object: the one that the text says must be
        otherwise is added to the place.
        """
        text = str(error)
        found = {text.find(f" {field} must"): field for field in fields if f" {field} must" in text}
        if found:
            steps = (*steps, found[min(found)])
        same = isinstance(error, (DomainError, UnknownNameError, ScheduleError))
        return self.error(steps, text, type(error) if same else FormatError)


def _too_deep(source: str) -> FormatError:
    return FormatError(f"{source}: lists and objects are nested more than {MAX_DEPTH} deep; expected less")


def parse(text: str, *, source: str) -> Document:
    """Parse a JSON text strictly.

    Parameters
    ----------
    text
        The text.
    source
        Name of the file, for messages.

    Raises
    ------
    FormatError
        The text is no JSON, or holds a duplicate key, ``NaN``, ``Infinity``, an
        integer of more than :data:`MAX_DIGITS` digits, or containers nested more
        than :data:`MAX_DEPTH` deep. The message gives line and column.
    """
    if text.startswith("\ufeff"):
        raise FormatError(f"{source}, line 1: starts with a byte order mark; save it as UTF-8 without one")
    try:
        root = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f"{source}, line {error.lineno}, column {error.colno}"
        if not text.strip():
            raise FormatError(f"{source}: expected a JSON document, got an empty file") from None
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        hint = "; the file ends too early, was it cut short?" if cut else ""
        raise FormatError(f"{place}: not valid JSON: {error.msg.lower()}{hint}") from None
    except _RefusedError:
        message, steps, at = _culprit(text)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        inside = f", {path_text(steps)}" if steps else ""
        raise FormatError(f"{source}, line {line}, column {column}{inside}: {message}") from None
    except RecursionError:
        raise _too_deep(source) from None
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for value in level
            for item in (value.values() if type(value) is dict else value if type(value) is list else ())
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return Document(source, text, root)
    raise _too_deep(source)


def check_keys(
    document: Document, steps: Steps, value: Mapping[str, Any], known: Iterable[str], needed: Iterable[str]
) -> None:
    """Refuse keys that are not known, naming a close one, and the absence of needed ones."""
    known = list(known)
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1) if len(key) <= 100 else []
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise document.error(
                (*steps, key), f"unknown key {_clip(key)}; {hint}known keys are: {', '.join(known)}"
            )
    missing = [key for key in needed if key not in value]
    if missing:
        names = ", ".join(repr(key) for key in missing)
        raise document.error(steps, f"expected the key(s) {names}, which are missing; add them")


class Kind(Protocol):
    """How one kind of value stands in JSON."""

    def read(self, document: Document, steps: Steps, value: Any) -> Any:
        """Return the Python value of a JSON value; raise an error with its place."""
        ...

    def write(self, value: Any) -> Any:
        """Return the JSON value of a Python value."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string of characters that UTF-8 can hold."""

    def read(self, document: Document, steps: Steps, value: Any) -> str:
        """Return the string."""
        if type(value) is not str:
            raise document.error(steps, f"expected a text in quotes, got {shown(value)}")
        check_surrogates(document, steps, value)
        return value

    def write(self, value: str) -> str:
        """Return the string itself, without the enumeration it may come from."""
        return str(value)


def check_surrogates(document: Document, steps: Steps, text: str) -> None:
    """Refuse a string that holds half of a surrogate pair."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise document.error(
                steps,
                f"text {_clip(text)} holds the lone surrogate {text[error.start]!r}; write whole characters",
            ) from None


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, document: Document, steps: Steps, value: Any) -> bool:
        """Return the flag."""
        if type(value) is not bool:
            raise document.error(steps, f"expected true or false, got {shown(value)}")
        return value

    def write(self, value: bool) -> bool:
        """Return the flag."""
        return value


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, written without a decimal point; ``null`` is None if allowed."""

    nullable: bool = False

    def read(self, document: Document, steps: Steps, value: Any) -> int | None:
        """Return the number."""
        if type(value) is int:
            return value
        if value is None and self.nullable:
            return None
        if type(value) is float and value.is_integer():
            raise document.error(
                steps, f"expected a whole number, got {value!r}; write it without a point or exponent"
            )
        also = " or null" if self.nullable else ""
        raise document.error(steps, f"expected a whole number{also}, got {shown(value)}")

    def write(self, value: int | None) -> int | None:
        """Return the number."""
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number; ``null`` is infinity if allowed."""

    nullable: bool = False

    def read(self, document: Document, steps: Steps, value: Any) -> float:
        """Return the nearest float."""
        if type(value) is float and not math.isinf(value):
            return value
        if value is None and self.nullable:
            return math.inf
        also = ", or null for infinity" if self.nullable else ""
        if type(value) is int:
            try:
                return float(value)
            except OverflowError:
                value = math.inf
        if type(value) is float:
            raise document.error(steps, f"expected a number below 1.8e308{also}, got a larger one")
        raise document.error(steps, f"expected a number{also}, got {shown(value)}")

    def write(self, value: float) -> float | None:
        """Return the number, or ``None`` for infinity."""
        return None if self.nullable and math.isinf(value) else value


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one kind; a tuple in Python."""

    kind: Kind

    def read(self, document: Document, steps: Steps, value: Any) -> tuple[Any, ...]:
        """Return the members."""
        if type(value) is not list:
            raise document.error(steps, f"expected a list, got {shown(value)}")
        read = self.kind.read
        return tuple([read(document, (*steps, i), item) for i, item in enumerate(value)])

    def write(self, value: Iterable[Any]) -> list[Any]:
        """Return the members."""
        return [self.kind.write(item) for item in value]


@dataclass(frozen=True, slots=True)
class Pairs:
    """An object whose keys are free; a tuple of (key, value) pairs in Python."""

    kind: Kind

    def read(self, document: Document, steps: Steps, value: Any) -> tuple[tuple[str, Any], ...]:
        """Return the pairs."""
        if type(value) is not dict:
            raise document.error(steps, f"expected an object of names and values, got {shown(value)}")
        for key in value:
            check_surrogates(document, steps, key)
        return tuple([(key, self.kind.read(document, (*steps, key), item)) for key, item in value.items()])

    def write(self, value: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """Return the object."""
        return {key: self.kind.write(item) for key, item in value}


class Keys:
    """An object with fixed keys; a dict in Python.

    Parameters
    ----------
    what
        What one is called in messages, with its article.
    fields
        The kind of each key's value, in the order of writing.
    needed
        Keys that a file must state.
    """

    def __init__(self, what: str, fields: Mapping[str, Kind], needed: Iterable[str]) -> None:
        self.what = what
        self.fields = dict(fields)
        self.needed = tuple(needed)

    def arguments(self, document: Document, steps: Steps, value: Any) -> dict[str, Any]:
        """Return the values of the keys that the object states."""
        if type(value) is not dict:
            raise document.error(steps, f"expected {self.what} as an object, got {shown(value)}")
        fields = self.fields
        if not (value.keys() <= fields.keys() and all(key in value for key in self.needed)):
            check_keys(document, steps, value, fields, self.needed)
        return {key: fields[key].read(document, (*steps, key), item) for key, item in value.items()}

    def read(self, document: Document, steps: Steps, value: Any) -> Any:
        """Return the values by key."""
        return self.arguments(document, steps, value)

    def write(self, value: Any) -> dict[str, Any]:
        """Return the object, with its keys in order."""
        return {key: kind.write(value[key]) for key, kind in self.fields.items()}


class Record(Keys):
    """The JSON form of a dataclass: an object with one key a field.

    Parameters
    ----------
    cls
        The dataclass.
    what
        What one is called in messages, with its article.
    fields
        The kind of each field, in the order of writing. Fields with a default may be
        left out of a file; the writer states all.
    """

    def __init__(self, cls: type[Any], what: str, fields: Mapping[str, Kind]) -> None:
        none = dataclasses.MISSING
        needed = (
            f.name
            for f in dataclasses.fields(cls)
            if f.name in fields and f.default is none and f.default_factory is none
        )
        super().__init__(what, fields, needed)
        self.cls = cls

    def read(self, document: Document, steps: Steps, value: Any) -> Any:
        """Return the object of the dataclass."""
        arguments = self.arguments(document, steps, value)
        try:
            return self.cls(**arguments)
        except EacoError as error:
            raise document.placed(error, steps, self.fields) from None

    def write(self, value: Any) -> dict[str, Any]:
        """Return the object, with all fields in order."""
        return {key: kind.write(getattr(value, key)) for key, kind in self.fields.items()}


Layout = Mapping[str, Any] | list[Any] | None
"""How a value is spread over lines: ``None`` on one line; a mapping opens an object, one key
a line, and says how its values are spread; ``[layout]`` opens a list, one member a line."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def lay_out(value: Any, layout: Layout, *, indent: str = "") -> str:
    """Return the JSON text of a value, spread over lines as ``layout`` says.

    Numbers are written as the shortest decimals that give the same float; keys stand in
    the order of the value, so the same value gives the same text.
    """
    if layout is None or not value:
        return _ENCODER.encode(value)
    deeper = indent + "  "
    if isinstance(layout, list):
        parts = [deeper + lay_out(item, layout[0], indent=deeper) for item in value]
        return "[\n" + ",\n".join(parts) + f"\n{indent}]"
    parts = [
        f"{deeper}{_ENCODER.encode(key)}: {lay_out(item, layout.get(key), indent=deeper)}"
        for key, item in value.items()
    ]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def document_text(owner: str, value: Any, layout: Layout) -> str:
    """Return a whole document, ending in a line end.

    Raises
    ------
    FormatError
        A text in it holds half of a surrogate pair, which no file can hold.
    """
    text = lay_out(value, layout) + "\n"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.end + 20]
        raise FormatError(
            f"{owner}: cannot be written, because a text holds the lone surrogate {text[error.start]!r} "
            f"(in {around!r}); expected whole characters"
        ) from None
    return text


def header(document: Document, wanted: str, versions: Iterable[int]) -> tuple[int, dict[str, Any]]:
    """Check ``format`` and ``version``; return the version and the other keys.

    Raises
    ------
    FormatError
        The document is of another format, or of a version that is not known.
    """
    root = document.root
    if type(root) is not dict:
        raise document.error((), f'expected an object with "format": "{wanted}", got {shown(root)}')
    if root.get("format") != wanted:
        got = f"got {shown(root['format'])}" if "format" in root else "which is missing"
        raise document.error(
            ("format",), f'expected "format": "{wanted}", {got}; is it another kind of file?'
        )
    version = root.get("version")
    known = sorted(versions)
    if type(version) is not int or version not in known:
        got = f"got {shown(version)}" if "version" in root else "which is missing"
        newer = type(version) is int and version > known[-1]
        hint = "; a newer eaco-opt wrote it: upgrade to read it" if newer else ""
        listed = ", ".join(str(v) for v in known)
        raise document.error(("version",), f'expected "version" to be one of {listed}, {got}{hint}')
    return version, {key: value for key, value in root.items() if key not in ("format", "version")}
