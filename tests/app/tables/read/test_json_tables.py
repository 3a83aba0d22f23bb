"""JSON rows and columns: the exact table or the exact refusal."""

from typing import Any

import pytest

from app.errors import InvalidRequestError
from app.tables import from_columns, from_rows
from tests.app.tables.faults import Fault, faults, texts

JSON_REFUSALS: list[tuple[Any, str, list[Fault]]] = [
    ({}, "there are no columns: expected at least one feature and the target", []),
    ({"a": [], "b": []}, "the columns are empty: expected at least one row", []),
    (
        {"a": [1], "b": [1, 2]},
        "columns differ in length: 'a' has 1 cell, 'b' has 2",
        [(None, None, "b", "2 cells, expected 1")],
    ),
    (
        {"a": "xy"},
        "column 'a': expected a list of cells, got text",
        [(None, None, "a", "expected a list of cells, got text")],
    ),
    (
        {"a": [1, [2]]},
        "row 1, column 'a': expected a number or text, got a list",
        [(1, None, "a", "expected a number or text, got a list")],
    ),
    (
        {"a": [{}]},
        "row 0, column 'a': expected a number or text, got an object",
        [(0, None, "a", "expected a number or text, got an object")],
    ),
    (
        {"a": ["\ud800"]},
        "row 0, column 'a': the text is not valid Unicode",
        [(0, None, "a", "the text is not valid Unicode")],
    ),
    (
        {"caf\u00e9": [1], "cafe\u0301": [1]},
        "every column needs a name of its own; columns 1 and 2 are both named 'caf\u00e9'",
        [(None, None, "caf\u00e9", "columns 1 and 2 are both named 'caf\u00e9'")],
    ),
    ([], "rows is empty: expected at least one row", []),
    (
        [{"a": 1}, [1]],
        "row 1: expected an object of cells by column name, got a list",
        [(1, None, None, "expected an object, got a list")],
    ),
]


@pytest.mark.parametrize(("body", "message", "places"), JSON_REFUSALS)
def test_json_that_is_refused(body: Any, message: str, places: list[Fault]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        from_rows(body) if isinstance(body, list) else from_columns(body)
    assert caught.value.message == message
    assert faults(caught.value) == places


def test_rows_and_columns_give_the_same_table() -> None:
    rows = from_rows([{"a": 1, "b": "x"}, {"b": None, "c": 2.5}])
    columns = from_columns({"a": [1, None], "b": ["x", None], "c": [None, 2.5]})
    assert rows.names == columns.names == ("a", "b", "c")
    assert texts(rows) == texts(columns) == {"a": ["1", None], "b": ["x", None], "c": [None, "2.5"]}


def test_columns_of_shape_n_1_are_flat() -> None:
    table = from_columns({"x": [["a"], ["b"], ["a"]], "y": [[0.0], [1.0], [None]]})
    assert [table.columns[name].texts.to_pylist() for name in table.names] == [["a", "b", "a"], ["0.0", "1.0", None]]
    wrong: list[list[Any]] = [[[0.0], [1.0, 2.0]], [[0.0], 1.0], [0.0, [1.0]], [[[0.0]], [[1.0]]], [[], []]]
    for cells in wrong:
        with pytest.raises(InvalidRequestError, match="column 'y': expected a number or text, got a list"):
            from_columns({"x": [1, 2], "y": cells})
