"""Encoding at prediction time: the exact row or the exact refusal, and one answer for all ways of asking."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequestError, MalformedError
from app.tables import Feature, Kind, Schema, Unseen, from_columns, read_table
from app.tables.schema.features import UNSEEN_DISTANCE

SCHEMA = Schema(
    target="y",
    features=(
        Feature(name="x", kind=Kind.NUMBER),
        Feature(name="colour", kind=Kind.CATEGORY, levels=("1", "2.0", "blue", "red")),
        Feature(name="power", kind=Kind.NUMBER, fill=90.0, indicator=True),
        Feature(name="unit", kind=Kind.UNUSED),
        Feature(name="size", kind=Kind.CATEGORY, levels=("L", "S"), indicator=True),
    ),
)
NUMBERS = Schema(target="y", features=(Feature(name="a", kind=Kind.NUMBER), Feature(name="b", kind=Kind.NUMBER)))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1, "red", 2, "m", "L"], [1, 0, 0, 0, 1, 2, 0, 1, 0, 0]),
        ([" 1.5 ", " blue", "3.", None, "S "], [1.5, 0, 0, 1, 0, 3, 0, 0, 1, 0]),
        ([1, 1, None, None, None], [1, 1, 0, 0, 0, 90, 1, 0, 0, 1]),
        ([1, 1.0, "?", None, ""], [1, 1, 0, 0, 0, 90, 1, 0, 0, 1]),
        ([1, 2, "NA", None, " "], [1, 0, 1, 0, 0, 90, 1, 0, 0, 1]),
    ],
)
def test_a_row(row: list[Any], expected: list[float]) -> None:
    named = dict(zip(SCHEMA.names, row, strict=True))
    assert SCHEMA.encode_rows([row]).tolist() == [expected]
    assert SCHEMA.encode_rows([tuple(row)]).tolist() == [expected]
    assert SCHEMA.encode_rows([{**named, "y": [], "more": {}}]).tolist() == [expected]
    assert SCHEMA.encode_rows([{f" {name} ": cell for name, cell in named.items()}]).tolist() == [expected]
    columns = {name: [cell] for name, cell in named.items()}
    assert SCHEMA.encode_columns({**columns, "more": [1, 2]}).tolist() == [expected]
    assert SCHEMA.encode_columns({f"{name}\t": cells for name, cells in columns.items()}).tolist() == [expected]


def test_no_rows() -> None:
    assert SCHEMA.encode_rows([]).shape == (0, 10)
    assert SCHEMA.encode_columns({name: [] for name in SCHEMA.names}).shape == (0, 10)
    assert NUMBERS.encode_columns({"a": [], "b": []}).shape == (0, 2)


def test_groups_follow_the_features() -> None:
    assert SCHEMA.width == 10
    assert [len(range(10)[block]) for block in SCHEMA.blocks] == [feature.width for feature in SCHEMA.used]
    assert (SCHEMA.blocks[0].start, SCHEMA.blocks[-1].stop) == (0, 10)
    assert SCHEMA.groups.tolist() == [0, 1, 1, 1, 1, 2, 3, 4, 4, 4]
    assert SCHEMA.group_names == ("x", "colour", "power", "power (missing)", "size")
    assert SCHEMA.indicator.tolist() == [False, True, True, True, True, False, True, True, True, True]
    assert SCHEMA.column_names == (
        "x", "colour=1", "colour=2.0", "colour=blue", "colour=red", "power", "power (missing)",
        "size=L", "size=S", "size (missing)",
    )  # fmt: skip


REFUSALS: list[tuple[Any, str, list[tuple[int | None, str | None, str]]]] = [
    (
        [["a", "red", 1, None, "L"]],
        "row 0, column 'x': 'a' is not a number; correct it and send the table again",
        [(0, "x", "'a' is not a number")],
    ),
    (
        [[True, "red", 1, None, "L"]],
        "row 0, column 'x': 'true' is not a number; correct it and send the table again",
        [(0, "x", "'true' is not a number")],
    ),
    (
        [["1e400", "red", 1, None, "L"]],
        "row 0, column 'x': '1e400' is too large for a 64-bit number; correct it and send the table again",
        [(0, "x", "'1e400' is too large for a 64-bit number")],
    ),
    (
        [[1, "red", float("inf"), None, "L"]],
        "row 0, column 'power': 'inf' is not a finite number; correct it and send the table again",
        [(0, "power", "'inf' is not a finite number")],
    ),
    (
        [[1, "red", 1, None, "L"], [None, "red", 1, None, "L"]],
        "row 1, column 'x': missing (null); "
        "the model was trained without missing cells here, so every row needs a value",
        [(1, "x", "missing (null)")],
    ),
    (
        [[1, "", 1, None, "L"]],
        "row 0, column 'colour': missing (empty); "
        "the model was trained without missing cells here, so every row needs a value",
        [(0, "colour", "missing (empty)")],
    ),
    (
        [[1, "green", 1, None, "XL"], [1, 3, 1, None, "L"]],
        "3 cells cannot be used, the first at row 0, column 'colour': 'green' was not seen in training; "
        "known are '1', '2.0', 'blue', 'red'; correct it and send the table again, "
        'or train with "unseen": "prior" to have such rows answered too',
        [
            (0, "colour", "'green' was not seen in training; known are '1', '2.0', 'blue', 'red'"),
            (0, "size", "'XL' was not seen in training; known are 'L', 'S'"),
            (1, "colour", "'3' was not seen in training; known are '1', '2.0', 'blue', 'red'"),
        ],
    ),
    (
        [[1, "red", 1, None, "L"], [1, "red"]],
        "row 1: expected 5 cells ('x', 'colour', 'power', 'unit', 'size'), got 2",
        [(1, None, "expected 5 cells ('x', 'colour', 'power', 'unit', 'size'), got 2")],
    ),
    (
        [[1, "red", 1, None, "L"], {"x": 1}],
        "row 1: expected a list of cells, got an object",
        [(1, None, "expected a list of cells, got an object")],
    ),
    (
        [{"x": 1, "colour": "red", "power": 1, "size": "L"}, {"x": 1, "size": "L"}],
        "row 1: 2 columns missing: 'colour', 'power'",
        [(1, "colour", "the column is missing"), (1, "power", "the column is missing")],
    ),
    (
        [{"x": 1, "colour": "red", "power": 1, "size": "L"}, 3],
        "row 1: expected an object, as in row 0, got a number",
        [(1, None, "expected an object, as in row 0, got a number")],
    ),
    ([7], "row 0: expected a list of cells, got a number", [(0, None, "expected a list of cells, got a number")]),
    (
        [[1, ["red"], 1, None, "L"]],
        "row 0, column 'colour': expected a number or text, got a list",
        [(0, "colour", "expected a number or text, got a list")],
    ),
    (
        {"x": [1], "colour": ["red"]},
        "2 columns missing: 'power', 'size'; the model needs 'x', 'colour', 'power', 'size'",
        [(None, "power", "the column is missing"), (None, "size", "the column is missing")],
    ),
    (
        {"x": [1], "colour": ["red", "red"], "power": [1], "size": ["L"]},
        "columns differ in length: 'x' has 1 cell, 'colour' has 2",
        [(None, "colour", "2 cells, expected 1")],
    ),
    (
        {"x": 1, "colour": ["red"], "power": [1], "size": ["L"]},
        "column 'x': expected a list of cells, got a number",
        [(None, "x", "expected a list of cells, got a number")],
    ),
]


@pytest.mark.parametrize(("body", "message", "places"), REFUSALS)
def test_refusals(body: Any, message: str, places: list[tuple[int | None, str | None, str]]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        SCHEMA.encode_rows(body) if isinstance(body, list) else SCHEMA.encode_columns(body)
    assert caught.value.message == message
    assert [(fault.row, fault.column, fault.message) for fault in caught.value.faults] == places


def test_a_file_is_read_by_the_schema_and_names_its_lines() -> None:
    """One row of digits would be guessed a number; the schema knows better."""
    encoded = SCHEMA.encode_table(read_table(b"size,power,x,colour,other\nL,,3,1,junk\n"))
    assert encoded.tolist() == [[3, 1, 0, 0, 0, 90, 1, 1, 0, 0]]
    with pytest.raises(InvalidRequestError) as caught:
        SCHEMA.encode_table(read_table(b"size,power,x,colour\n\nL,1,3,1\nL,2,,green\n"))
    assert caught.value.message.startswith("2 cells cannot be used, the first at line 4, column 'x': missing (empty)")
    assert [(fault.row, fault.line) for fault in caught.value.faults] == [(1, 4), (1, 4)]
    with pytest.raises(InvalidRequestError, match=r"^1 column missing: 'colour'; the model needs "):
        SCHEMA.encode_table(read_table(b"size,power,x\nL,1,3\n"))


def test_an_unseen_level_may_be_far_from_all() -> None:
    schema = Schema(target="y", features=SCHEMA.features, unseen=Unseen.PRIOR)
    expected = [[1, UNSEEN_DISTANCE, 0, 0, 0, 1, 0, UNSEEN_DISTANCE, 0, 0]]
    assert schema.encode_rows([[1, "green", 1, None, "XL"]]).tolist() == expected
    assert schema.encode_table(read_table(b"x,colour,power,size\n1,green,1,XL\n")).tolist() == expected
    with pytest.raises(InvalidRequestError, match=r"column 'colour': missing \(null\)"):
        schema.encode_rows([[1, None, 1, None, "L"]])


@pytest.mark.parametrize("cell", [True, "7", None, "x", 10**400, float("nan"), float("inf")])
def test_the_fast_path_takes_numbers_only(cell: Any) -> None:
    rows: list[list[Any]] = [[1.0, 2], [3, 4.5]]
    assert NUMBERS.encode_rows(rows).tolist() == rows
    rows[1][0] = cell
    if cell == "7":
        assert NUMBERS.encode_rows(rows).tolist() == [[1, 2], [7, 4.5]]
        return
    with pytest.raises(InvalidRequestError, match=r"^row 1, column 'a': "):
        NUMBERS.encode_rows(rows)


def test_large_integers_are_rounded_as_in_text() -> None:
    for value in (2**53 + 1, 2**64 + 12345, 10**300 + 1):
        row: list[int | str] = [value, str(value)]
        encoded = NUMBERS.encode_rows([row])
        assert encoded[0, 0] == encoded[0, 1] == float(value)
        assert NUMBERS.encode_table(from_columns({"a": [value], "b": [0]}))[0, 0] == float(value)


def test_an_unseen_level_may_be_as_far_from_each_other_level() -> None:
    colour = replace(SCHEMA.features[1], unseen_value=0.25)
    schema = Schema(target="y", features=(colour, SCHEMA.features[4]), unseen=Unseen.PRIOR)
    assert schema.encode_rows([["green", "XL"], ["red", "S"]]).tolist() == [
        [0.25, 0.25, 0.25, 0.25, UNSEEN_DISTANCE, 0, 0],
        [0, 0, 0, 1, 0, 1, 0],
    ]
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_json_round_trip() -> None:
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
    assert Schema.from_json(NUMBERS.to_json()) == NUMBERS


@pytest.mark.parametrize(
    "change",
    [
        {"target": 3},
        {"unseen": "maybe"},
        {"features": 3},
        {"features": [{"name": "a"}]},
        {"features": [{"name": "a", "kind": "date", "levels": [], "fill": None, "indicator": False}]},
        {"features": [{"name": "a", "kind": "category", "levels": [], "fill": None, "indicator": False}]},
        {"features": [{"name": "a", "kind": "category", "levels": ["x", "x"], "fill": None, "indicator": False}]},
        {"features": [{"name": "a", "kind": "number", "levels": [], "fill": float("nan"), "indicator": False}]},
        {"features": [{"name": "a", "kind": "number", "levels": [], "fill": None, "indicator": 1}]},
        {"features": [{**SCHEMA.features[1].to_json(), "unseen_value": float("inf")}]},
        {"features": [{**SCHEMA.features[1].to_json(), "unseen_value": "near"}]},
    ],
)
def test_damaged_schemas_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(MalformedError, match="not a table schema"):
        Schema.from_json({**NUMBERS.to_json(), **change})


def test_rows_do_not_depend_on_the_batch() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(50, 2)).tolist()
    together = NUMBERS.encode_rows(rows)
    assert np.vstack([NUMBERS.encode_rows([row]) for row in rows]).tobytes() == together.tobytes()
