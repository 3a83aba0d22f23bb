"""JSON rows and the schema's own reading agree, or both refuse."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequestError, MalformedError
from app.services.predict.row_decoder import RowDecoder
from app.tables import Feature, Kind, Schema

PLAIN = Schema(target="y", features=(Feature(name="a b", kind=Kind.NUMBER), Feature(name='quo"te', kind=Kind.NUMBER)))
MIXED = Schema(
    target="y",
    features=(
        Feature(name="n", kind=Kind.NUMBER),
        Feature(name="gone", kind=Kind.UNUSED),
        Feature(name="c", kind=Kind.CATEGORY, levels=("1", "x")),
        Feature(name="g", kind=Kind.NUMBER, fill=2.5, indicator=True),
    ),
)

finite = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**20), 10**20)


@given(st.lists(st.tuples(finite, finite), max_size=20))
def test_numbers_come_out_as_they_are(rows: list[tuple[float, float]]) -> None:
    decoder = RowDecoder(PLAIN)
    expected = np.array(rows, dtype=np.float64).reshape(-1, 2)
    assert np.array_equal(decoder.decode_rows(json.dumps(rows).encode()), expected)
    objects = [dict(zip(PLAIN.names, row, strict=True)) for row in rows]
    assert np.array_equal(decoder.decode_rows(json.dumps(objects).encode()), expected)
    columns = {name: [row[place] for row in rows] for place, name in enumerate(PLAIN.names)}
    assert np.array_equal(decoder.decode_columns(json.dumps(columns).encode()), expected)


def test_categories_missing_and_unused_columns() -> None:
    decoder = RowDecoder(MIXED)
    expected = [[1.0, 0.0, 1.0, 3.0, 0.0], [2.0, 1.0, 0.0, 2.5, 1.0]]
    lists = [[1, {"any": 1}, "x", 3], [2, None, 1, None]]
    assert decoder.decode_rows(json.dumps(lists).encode()).tolist() == expected
    objects = [{"n": 1, "c": "x", "g": 3, "more": []}, {"g": None, "gone": "?", "c": 1, "n": 2}]
    assert decoder.decode_rows(json.dumps(objects).encode()).tolist() == expected
    columns = {"n": [1, 2], "c": ["x", 1], "g": [3, None], "more": 7}
    assert decoder.decode_columns(json.dumps(columns).encode()).tolist() == expected


cells: st.SearchStrategy[Any] = st.none() | st.booleans() | finite | st.text(max_size=3) | st.just([1])


@given(st.lists(st.lists(cells, max_size=5) | st.dictionaries(st.sampled_from(["n", "c", "g"]), cells), max_size=4))
def test_what_is_taken_is_what_the_schema_takes(rows: list[Any]) -> None:
    try:
        found = RowDecoder(MIXED).decode_rows(json.dumps(rows).encode())
    except InvalidRequestError:
        return
    assert np.array_equal(found, MIXED.encode_rows(rows))


def test_a_number_in_quotation_marks_is_the_number() -> None:
    expected = RowDecoder(PLAIN).decode_rows(b"[[0.1, 1e3]]").tobytes()
    assert RowDecoder(PLAIN).decode_rows(b'[["0.1", " 1e3"]]').tobytes() == expected
    assert (
        RowDecoder(PLAIN).decode_columns(json.dumps({"a b": ["0.1"], 'quo"te': [1000]}).encode()).tobytes() == expected
    )


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for read in (RowDecoder(MIXED).decode_rows, RowDecoder(MIXED).decode_columns):
        try:
            assert read(body).shape[1] == MIXED.width
        except (InvalidRequestError, MalformedError):
            continue


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('[[1, "2,5"]]', "row 0, column 'quo\"te': '2,5' is no plain number"),
        ("[[1, true]]", "0"),
        ("[[1, 2], [1]]", "row 1: expected 2 cells"),
        ('[{"a b": 1}]', "row 0"),
        ('[{"a b": 1, "quo\\"te": 1e999}]', 'rows[0].quo"te: this number is too large'),
        ("[[1, 2], 3]", "row 1"),
        ("3", "rows: expected a list"),
        ("null", "rows: expected a list"),
        ('"[["', "rows: expected a list"),
    ],
)
def test_refusals_say_where(body: str, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        RowDecoder(PLAIN).decode_rows(body.encode())
    assert words in caught.value.message
