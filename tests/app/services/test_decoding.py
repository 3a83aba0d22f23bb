"""Strict JSON: each refusal says where."""

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequestError, MalformedError, PursuitError
from app.services.decoding import decode, decode_any


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: float
    name: str = ""


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b'{"x": NaN}', MalformedError, "byte 6: NaN is not a JSON number"),
        (b'{"x": -Infinity}', MalformedError, "Infinity is not a JSON number"),
        (b'{"x": 1e400}', InvalidRequestError, "x: this number is too large"),
        (b'{"x": null}', InvalidRequestError, "x: expected a number, got null"),
        (b'{"x": "1"}', InvalidRequestError, "x: expected a number, got a text"),
        (b'{"x": 1, "y": 2}', InvalidRequestError, "unknown field `y`"),
        (b"{}", InvalidRequestError, "missing field `x`"),
        (b'{"x": 1', MalformedError, "ends too early, after 7 bytes"),
        (b"", MalformedError, "the body is empty"),
        (b'{"x": 1}\n\n}', MalformedError, "line 3"),
        (b"a,b\n1,2\n", MalformedError, "not JSON: invalid character at byte 0, line 1, near 'a,b"),
        (b'{"x": 1, "name": "\xff"}', MalformedError, "not UTF-8"),
        (b"[" * 100_000, InvalidRequestError, "expected an object, got a list"),
    ],
)
def test_refusals_say_where(body: bytes, error: type[PursuitError], words: str) -> None:
    with pytest.raises(error) as caught:
        decode(body, Point)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[1, [2, 1e999]]", "[1][1]: this number is too large"),
        (b'{"a": {"b c": [0, 1e999]}}', "a.b c[1]: this number is too large"),
        (b'[{"a": 1}, {"b": -1e999}]', "[1].b: this number is too large"),
    ],
)
def test_the_path_of_a_number_that_is_too_large(body: bytes, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        decode_any(body)
    assert words in caught.value.message
    with pytest.raises(InvalidRequestError) as caught:
        decode_any(body, where="rows")
    assert caught.value.message.startswith("rows")
    assert caught.value.faults[0].column is not None


PLACES = [
    (b'[{"a": 1}, {"a": 1e400}]', 1, "a"),
    (b'[{"a": 1}, {"a b.c": NaN}]', 1, "a b.c"),
    (b'[{"a": "NaN, Infinity"}, {"a": "x"}, {"b": -Infinity, "a": NaN}]', 2, "b"),
    (b"[[1, 2], [1, 1e400]]", 1, "second"),
    (b"[[1, NaN], [NaN, 4]]", 0, "second"),
    (b"[[1, 2, NaN]]", 0, "[2]"),
    (b"[1, NaN]", 1, None),
]


@pytest.mark.parametrize(("body", "row", "column"), PLACES)
def test_the_row_and_column_of_what_is_no_number(body: bytes, row: int, column: str | None) -> None:
    with pytest.raises(PursuitError) as caught:
        decode_any(body, where="rows", names=("first", "second"))
    fault = caught.value.faults[0]
    assert (fault.row, fault.column) == (row, column)
    if column is not None and column.isalpha():
        columns = b'{"first": [2], "second": [1, 2, ' + (b"NaN" if b"NaN" in body else b"1e400") + b"]}"
        with pytest.raises(PursuitError) as caught:
            decode_any(columns, where="columns")
        assert (caught.value.faults[0].row, caught.value.faults[0].column) == (2, "second")


def test_nested_for_ever() -> None:
    with pytest.raises(MalformedError):
        decode_any(b"[" * 100_000 + b"]" * 100_000)


finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**63), 2**63)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
)


@given(values)
def test_what_json_can_say_comes_back(value: Any) -> None:
    assert decode_any(json.dumps(value).encode()) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        found = decode_any(body)
    except (MalformedError, InvalidRequestError):
        return
    assert found == json.loads(body)


@given(finite)
def test_numbers_are_correctly_rounded(number: float) -> None:
    assert math.copysign(1.0, decode(repr(number).encode(), float)) == math.copysign(1.0, number)
    assert decode(repr(number).encode(), float) == number
