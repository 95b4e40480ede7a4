"""Strict JSON: what is refused, and whether the message leads to the place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.errors import FormatError
from eaco_opt.io_json import MAX_DEPTH, MAX_DIGITS, Layout, lay_out, parse, path_text

# Values that strict JSON can hold: finite floats, whole text.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_plain_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    """Strictness changes no value: what is accepted equals what `json` gives, type for type."""
    text = json.dumps(value)
    assert repr(parse(text, source="x").root) == repr(json.loads(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x: expected a JSON document, got an empty file"),
        (" \n ", r"x: expected a JSON document, got an empty file"),
        ('{"a": 1', r"x, line 1, column 8: not valid JSON: .*the file ends too early"),
        ('{"a":\n "b', r"x, line 2, column 2: not valid JSON: unterminated string.*the file ends too early"),
        ('{"a": 1,\n "b" 2}', r"x, line 2, column 6: not valid JSON: expecting ':' delimiter$"),
        ('{"a": 1}\n{}', r"x, line 2, column 1: not valid JSON: extra data"),
        ("{'a': 1}", r"x, line 1, column 2: not valid JSON"),
        ('{"b": {"c": 1,\n "a": 2, "c": 3}}', r"x, line 2, column 10, b: key 'c' occurs twice; keep one"),
        ('{"a": [1, {"b": 1, "b": 1}]}', r"x, line 1, column 20, a\[1\]: key 'b' occurs twice"),
        ('{"a": {"x": 1}, "a": 2}', r"x, line 1, column 17: key 'a' occurs twice"),
        ('{"a": [1,\n  NaN]}', r"x, line 2, column 3, a\[1\]: expected a finite number, got NaN"),
        ('{"a": -Infinity}', r"x, line 1, column 7, a: expected a finite number, got -Infinity"),
        ("Infinity", r"x, line 1, column 1: expected a finite number, got Infinity"),
        ('{"a b": ' + "7" * 401 + "}", r"\['a b'\]: expected a number of at most 400 digits, got one of 401"),
        ("\ufeff{}", r"x, line 1: starts with a byte order mark; save it as UTF-8 without one"),
        ('{"a": "\x00"}', r"x, line 1, column 8: not valid JSON: invalid control character"),
        (r'{"a": "\ud8"}', r"x, line 1, column \d+: not valid JSON"),
    ],
)  # fmt: skip
def test_what_json_leaves_open_is_refused_with_its_place(text: str, message: str) -> None:
    """Each of these texts is refused; the message gives line, column and place in the content."""
    with pytest.raises(FormatError, match=message):
        parse(text, source="x")


def test_key_twice_in_a_later_place_is_found_past_values_that_look_alike() -> None:
    """The place found is that of the duplicate, not of strings or objects before it that look like it."""
    text = '{"a": "{\\"b\\": 1, \\"b\\": 2}", "c": [{"b": 1}, {"b": 2}], "d": {"b": "]", "b": 3}}'
    column = text.rindex('"b"') + 1
    with pytest.raises(FormatError, match=rf"column {column}, d: key 'b' occurs twice"):
        parse(text, source="x")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_depth_is_limited() -> None:
    """Nesting up to the limit is read; beyond it, however far, it is refused without exhausting the stack."""
    parse(nested(MAX_DEPTH), source="x")
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(FormatError, match=f"x: lists and objects are nested more than {MAX_DEPTH} deep"):
            parse(nested(depth), source="x")
        with pytest.raises(FormatError, match=r"nested more than|not valid JSON"):
            parse('{"a":' * depth, source="x")


def test_long_integers_up_to_the_limit_are_exact() -> None:
    """An integer of as many digits as are allowed is read exactly."""
    digits = "9" * MAX_DIGITS
    assert parse(digits, source="x").root == int(digits)


def test_places_of_values() -> None:
    """A place in the content leads to the line of its value, or of its innermost container that exists."""
    document = parse('{\n"a": [\n{"b": 1},\n{"b": \n2}],\n"c d": {}\n}', source="x")
    assert document.place(("a", 0, "b")) == "x, line 3, a[0].b"
    assert document.place(("a", 1, "b")) == "x, line 5, a[1].b"
    assert document.place(("c d",)) == "x, line 6, ['c d']"
    assert document.place(("a", 1, "missing")) == "x, line 4, a[1].missing"
    assert document.place(("a", 7)) == "x, line 2, a[7]"
    assert document.place(()) == "x, line 1"
    assert path_text(("a", 3, "gpus", 0)) == "a[3].gpus[0]"
    assert path_text(("a'\u202e" * 40,)).isprintable()


@st.composite
def values_with_layouts(draw: st.DrawFn) -> tuple[object, Layout]:
    def layout(value: object) -> Layout:
        if isinstance(value, dict) and draw(st.booleans()):
            return {key: layout(item) for key, item in value.items() if draw(st.booleans())}
        if isinstance(value, list) and draw(st.booleans()):
            return [{}] if all(isinstance(item, dict) for item in value) else [None]
        return None

    value = draw(JSON)
    return value, layout(value)


@given(values_with_layouts())
def test_layout_never_changes_the_value(drawn: tuple[object, Layout]) -> None:
    """However a value is spread over lines, it reads back as the same value."""
    value, layout = drawn
    assert repr(json.loads(lay_out(value, layout))) == repr(value)


def test_layout_by_hand() -> None:
    """One member a line where the layout opens a container, everything else on one line."""
    value = {"a": [{"b": 1.0}, {"b": 0.1}], "c": {"d": []}, "e": []}
    assert lay_out(value, {"a": [None], "e": [None]}) == (
        '{\n  "a": [\n    {"b": 1.0},\n    {"b": 0.1}\n  ],\n  "c": {"d": []},\n  "e": []\n}'
    )
