"""Fit of a schema and a design matrix: the exact matrix or the exact refusal."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.tables import DesignMatrix, Kind, Missing, Schema, Table, fit_schema, from_columns, read_table
from app.tables.columns.cells import Cell
from app.tables.schema.table_options import resolve_features

SAID = "such rows are predicted by integrating over what the cell may be, given the row's other columns"

Fault = tuple[int | None, int | None, str | None, str | None, str]  # row, line, column, value, message


def fit(text: str, **options: Any) -> tuple[Schema, DesignMatrix]:
    return fit_schema(read_table(text.encode()), **options)


MIXED = "x,colour,y\n1,red,10\n2,blue,20\n3,red,30\n"


def test_numbers_and_categories() -> None:
    schema, prepared = fit(MIXED)
    assert schema.names == ("x", "colour")
    assert schema.column_names == ("x", "colour=blue", "colour=red")
    assert schema.group_names == ("x", "colour")
    assert schema.target == "y"
    assert prepared.inputs.tolist() == [[1, 0, 1], [2, 1, 0], [3, 0, 1]]
    assert prepared.inputs.flags.c_contiguous
    assert prepared.targets.tolist() == [10, 20, 30]
    assert prepared.groups.tolist() == [0, 1, 1]
    assert prepared.indicator.tolist() == [False, True, True]
    assert prepared.rows.tolist() == [0, 1, 2]
    assert (prepared.dropped, prepared.warnings) == (0, ())
    assert not any(array.flags.writeable for array in (prepared.inputs, prepared.targets, prepared.rows))


def test_target_and_features_are_chosen_by_name() -> None:
    schema, prepared = fit(MIXED, target="x", features=["y"])
    assert (schema.target, schema.names) == ("x", ("y",))
    assert prepared.inputs.tolist() == [[10], [20], [30]]
    schema, prepared = fit("y,b,a\n1,2,3\n4,5,7\n", target="y", features=["a", "b"])
    assert prepared.inputs.tolist() == [[3, 2], [7, 5]]


def test_constant_and_empty_columns_are_left_out_and_keep_their_place() -> None:
    schema, prepared = fit("k,x,e,t,y\n3,1,,u,1\n3,2,,u,2\n,5,,,4\n")
    assert [feature.kind for feature in schema.features] == [Kind.UNUSED, Kind.NUMBER, Kind.UNUSED, Kind.UNUSED]
    assert prepared.inputs.tolist() == [[1], [2], [5]]
    assert prepared.warnings == (
        "column 'k' is 3.0 in every row and was left out",
        "column 'e' is empty in every row and was left out",
        "column 't' is 'u' in every row and was left out",
    )
    assert schema.encode_rows([["?", 7, None, "new"]]).tolist() == [[7]]
    assert schema.encode_rows([{"x": 7}]).tolist() == [[7]]


GAPS = "x,c,y\n1,a,1\n,b,2\n3,,3\n9,a,\n5,b,5\n"


def test_missing_cells_drop() -> None:
    schema, prepared = fit(GAPS, missing="drop")
    assert prepared.rows.tolist() == [0, 4]
    assert prepared.inputs.tolist() == [[1, 1, 0], [5, 0, 1]]
    assert prepared.dropped == 3
    assert prepared.warnings == ("3 of 5 rows dropped because a cell is missing (by column: 'y' 1, 'x' 1, 'c' 1)",)
    with pytest.raises(InvalidRequestError, match="missing"):
        schema.encode_rows([[None, "a"]])


def test_missing_cells_impute() -> None:
    schema, prepared = fit(GAPS, missing="impute")
    nan = np.nan
    assert schema.column_names == ("x", "c=a", "c=b")
    assert schema.starts.tolist() == [0, 1, 3]
    assert prepared.rows.tolist() == [0, 1, 2, 4]
    np.testing.assert_array_equal(prepared.inputs, [[1, 1, 0], [nan, 0, 1], [3, nan, nan], [5, 0, 1]])
    assert prepared.warnings == (
        "1 of 5 rows dropped because a cell is missing (by column: 'y' 1)",
        "1 missing cell of column 'x': " + SAID,
        "1 missing cell of column 'c': " + SAID,
    )
    rows: list[list[Cell]] = [["NA", " "], [2, "a"]]
    found = schema.encode_rows(rows)
    np.testing.assert_array_equal(found, [[nan, nan, nan], [2, 1, 0]])
    assert schema.missing_cells(found).tolist() == [2, 0]
    assert Schema.from_json(schema.to_json()) == schema


def test_cells_that_are_marked_are_filled_in() -> None:
    """As where being missing says something of the target, and in versions trained by earlier releases."""
    schema, _ = fit(GAPS, missing="impute")
    schema = replace(schema, features=tuple(feature.marked for feature in schema.features))
    assert schema.column_names == ("x", "x (missing)", "c=a", "c=b", "c (missing)")
    assert schema.group_names == ("x", "x (missing)", "c")
    assert schema.groups.tolist() == [0, 1, 2, 2, 2]
    assert schema.indicator.tolist() == [False, True, True, True, True]
    rows: list[list[Cell]] = [["NA", " "], [2, "a"]]
    found = schema.encode_rows(rows)
    assert found.tolist() == [[3, 1, 0, 0, 1], [2, 0, 1, 0, 0]]
    assert schema.missing_cells(found).tolist() == [2, 0]
    assert Schema.from_json(schema.to_json()) == schema


def test_an_earlier_version_that_fills_unmarked_counts_nothing() -> None:
    schema, _ = fit("x,z,y\n1,5,1\n2,6,2\n3,7,3\n", missing="impute")
    features = tuple(replace(feature, integrate=False) for feature in schema.features)
    earlier = replace(schema, features=features)
    assert earlier.encode_rows([[None, 6]]).tolist() == [[2, 6]]
    with pytest.raises(InvalidRequestError, match="trained by a release that fills missing cells in unmarked"):
        earlier.missing_cells(earlier.encode_rows([[None, 6]]))


def test_impute_takes_later_gaps_of_a_column_that_had_none() -> None:
    schema, prepared = fit("x,z,when,y\n1,5,2024-01-01,1\n2,,2024-02-01,2\n3,7,2024-03-01,3\n", missing="impute")
    assert prepared.warnings == ("1 missing cell of column 'z': " + SAID,)
    rows: list[list[Cell]] = [[None, 6, None], [1, None, "1970-01-02"]]
    np.testing.assert_array_equal(schema.encode_rows(rows), [[np.nan, 6, np.nan], [1, np.nan, 1]])


def test_columns_that_become_constant_when_rows_are_dropped() -> None:
    schema, prepared = fit("x,c,k,y\n1,a,1,1\n2,a,1,2\n,b,2,3\n", missing="drop")
    assert schema.column_names == ("x",)
    assert prepared.warnings[1:] == (
        "column 'c' has one value in the rows that are left and was left out",
        "column 'k' has one value in the rows that are left and was left out",
    )


def test_null_in_any_usual_spelling_is_a_missing_number() -> None:
    schema, prepared = fit("x,y\n1,1\nNULL,2\nNull,3\n null ,4\n5,5\n", missing="drop")
    assert schema.column_names == ("x",)
    assert prepared.rows.tolist() == [0, 4]


def test_na_is_a_level_where_others_are_text() -> None:
    schema, _ = fit("c,y\nNA,1\nGrvl,2\nPave,3\nNA,4\n")
    assert schema.column_names == ("c=Grvl", "c=NA", "c=Pave")


def test_a_few_wrong_cells_make_no_category() -> None:
    wrong = "x,y\n" + "".join(f"{i},{i}\n" for i in range(18)) + "abc,1\n1e400,2\n"
    with pytest.raises(InvalidRequestError) as caught:
        fit(wrong)
    assert caught.value.total == 2
    category = "x,y\n" + "".join(f"{i % 8},{i}\n" for i in range(8)) + "abc,1\n"
    schema, _ = fit(category)
    assert schema.features[0].kind is Kind.CATEGORY


ADVICE = (
    'correct the file, list what stands for a missing cell in "missing_values", or say in "columns" what the column '
    'is ("category", "ignore")'
)
REFUSALS: list[tuple[str, str, dict[str, Any], str, list[Fault]]] = [
    ("one row", "a,b\n1,2\n", {}, "at least 2 rows are needed to learn from, got 1", []),
    (
        "no row left",
        "a,c,b\n1,,2\n2,,\n,4,3\n,5,1\n",
        {"missing": "drop"},
        "at least 2 rows are needed to learn from, got 0",
        [],
    ),
    (
        "constant target",
        "a,b\n1,3\n2,3.0\n",
        {},
        "the target 'b' is 3.0 in every row: there is nothing to predict, and nothing tells how far off that may be; "
        "name another target, or send rows in which it differs",
        [],
    ),
    (
        "text target",
        "a,b\n1,x\n2,y\n3,4\n4,\n",
        {},
        "the target 'b' is text, such as 'x': 1 of its 3 cells are numbers; name a numeric column as target ('a')",
        [],
    ),
    ("empty target", "a,b\n1,\n2,NA\n", {"missing": "drop"}, "the target 'b' has no value in any row", []),
    (
        "unknown target",
        "a,b\n1,2\n3,4\n",
        {"target": "mpg"},
        "target: there is no column 'mpg'; there are 'a', 'b'",
        [(None, None, "mpg", None, "no such column")],
    ),
    (
        "unknown target among others",
        "a,b\n1,2\n3,4\n",
        {"target": "b,mpg"},
        "target: there is no column 'mpg'; there are 'a', 'b'",
        [(None, None, "mpg", None, "no such column")],
    ),
    (
        "unknown feature",
        "a,b\n1,2\n3,4\n",
        {"features": ["a", "z"]},
        "features: there is no column 'z'; there are 'a', 'b'",
        [(None, None, "z", None, "no such column")],
    ),
    (
        "target among the features",
        "a,b\n1,2\n3,4\n",
        {"features": ["b"]},
        "features: 'b' is the target",
        [(None, None, "b", None, "'b' is the target")],
    ),
    (
        "feature twice",
        "a,b\n1,2\n3,4\n",
        {"features": ["a", "a"]},
        "features: 'a' named twice",
        [(None, None, "a", None, "'a' named twice")],
    ),
    (
        "no features",
        "a,b\n1,2\n3,4\n",
        {"features": []},
        "features: expected at least one column name",
        [(None, None, "features", None, "expected at least one column name")],
    ),
    (
        "constant features",
        "a,b\n1,2\n1,4\n",
        {},
        "no feature is left to learn from: column 'a' is 1.0 in every row and was left out",
        [],
    ),
    (
        "wrong word",
        "a,b\n1,2\n3,4\n",
        {"missing": "skip"},
        "missing: expected one of 'error', 'drop', 'impute', got 'skip'",
        [(None, None, "missing", None, "expected one of 'error', 'drop', 'impute', got 'skip'")],
    ),
    (
        "wrong other word",
        "a,b\n1,2\n3,4\n",
        {"unseen": "x"},
        "unseen: expected one of 'error', 'prior', got 'x'",
        [(None, None, "unseen", None, "expected one of 'error', 'prior', got 'x'")],
    ),
    (
        "NaN literal",
        "a,b\n1,2\nNaN,4\n5,6\n",
        {},
        "line 3, column 'a': missing ('NaN'); "
        'set "missing" to "drop" to leave such rows out, or to "impute" to integrate over what they may be',
        [(1, 3, "a", "NaN", "missing ('NaN')")],
    ),
    (
        "missing target",
        "a,b\n1,2\n3,\n5,6\n",
        {},
        'line 3, column \'b\': missing (empty); set "missing" to "drop" to leave such rows out',
        [(1, 3, "b", "", "missing (empty)")],
    ),
    (
        "missing time",
        "a,t,b\n1,1,2\n3,,4\n5,3,6\n",
        {"order": "t", "features": ["a"]},
        'line 3, column \'t\': missing (empty); set "missing" to "drop" to leave such rows out',
        [(1, 3, "t", "", "missing (empty)")],
    ),
    (
        "missing group",
        "a,g,b\n1,x,2\n3,,4\n5,y,6\n",
        {"groups": "g"},
        'line 3, column \'g\': missing (empty); set "missing" to "drop" to leave such rows out, or to "impute" '
        "to take a row without a group as one of its own",
        [(1, 3, "g", "", "missing (empty)")],
    ),
    (
        "missing cells by row",
        "a,b\n1,?\n\n,4\n5,6\n,\n",
        {},
        "2 cells cannot be used, the first at line 2, column 'b': missing ('?'); "
        'set "missing" to "drop" to leave such rows out, or to "impute" to integrate over what they may be; rows '
        "without 'b' are left out either way",
        [
            (0, 2, "b", "?", "missing ('?')"),
            (1, 4, "a", "", "missing (empty)"),
        ],
    ),
    (
        "1e400",
        "a,b\n1,2\n1e400,4\n",
        {"missing": "impute"},
        "line 3, column 'a': '1e400' is too large for a 64-bit number; " + ADVICE,
        [(1, 3, "a", "1e400", "'1e400' is too large for a 64-bit number")],
    ),
    (
        "infinity in the target",
        "a,b\n1,2\n3,-inf\n",
        {"missing": "drop"},
        "line 3, column 'b': '-inf' is not a finite number; correct the file, or list what stands for a missing cell "
        'in "missing_values"',
        [(1, 3, "b", "-inf", "'-inf' is not a finite number")],
    ),
    (
        "one bad cell",
        "a,b\n" + "".join(f"{i},{i}\n" for i in range(9)) + "x,3\n",
        {},
        "line 11, column 'a': 'x' is not a number; " + ADVICE,
        [(9, 11, "a", "x", "'x' is not a number")],
    ),
]


@pytest.mark.parametrize(
    ("text", "options", "message", "places"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_refusals(text: str, options: dict[str, Any], message: str, places: list[Fault]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        fit(text, **options)
    assert caught.value.message == message
    found = [(fault.row, fault.line, fault.column, fault.value, fault.message) for fault in caught.value.faults]
    assert found == places


def levels(count: int, times: int) -> str:
    return "c,y\n" + "".join(f"level {i % count:02},{i}\n" for i in range(count * times))


def test_fifty_levels_are_read() -> None:
    schema, prepared = fit(levels(50, 3))
    assert schema.width == 50
    assert prepared.warnings == ()


def test_the_rare_ones_of_more_levels_are_grouped() -> None:
    text = levels(52, 3) + "level 51,7\n"
    schema, prepared = fit(text, max_levels=50)
    (feature,) = schema.features
    assert (len(feature.levels), feature.other, schema.width) == (50, True, 51)
    assert {"level 49", "level 50"}.isdisjoint(feature.levels)  # of those that are as rare, the last by name
    assert schema.column_names[-1] == "c (other)"
    assert prepared.warnings == (
        "column 'c' is text with 52 different values: the 50 most common are levels, the others (6 cells) were "
        "grouped as 'other'; for more, set \"max_levels\"",
    )
    assert prepared.inputs[:, -1].sum() == 6
    assert schema.encode_rows([["level 49"], ["never seen"], ["level 51"]])[:, -1].tolist() == [1, 1, 0]


def test_only_the_target_is_there() -> None:
    with pytest.raises(InvalidRequestError, match="no column besides the target 'y' to learn from"):
        fit_schema(from_columns({"y": [1, 2]}))
    with pytest.raises(InvalidRequestError, match="no column besides the targets 'a', 'b' to learn from") as caught:
        resolve_features(from_columns({"a": [1, 2], "b": [3, 4]}), ["a", "b"], None)
    assert [fault.column for fault in caught.value.faults] == ["target"]


def test_json_refusals_name_the_row() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        fit_schema(from_columns({"x": [1, float("nan"), None, 4], "y": [1, 2, 3, 4]}))
    assert caught.value.message.startswith("2 cells cannot be used, the first at row 1, column 'x': missing ('nan')")
    with pytest.raises(InvalidRequestError, match="row 1, column 'x': this number is too large"):
        fit_schema(from_columns({"x": [1, 10**400], "y": [1, 2]}))


def test_columns_that_are_not_used_may_hold_anything() -> None:
    text = "junk,x,y\n" + "".join(f"word {i},{i},{i}\n" for i in range(60))
    schema, _ = fit(text, features=["x"])
    assert schema.names == ("x",)


def test_many_faults_are_counted() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        fit("a,b,y\n" + ",1,2\n" * 100 + "1,2,3\n2,3,4\n")
    assert caught.value.total == 100
    assert len(caught.value.faults) == 20
    assert [fault.line for fault in caught.value.faults] == list(range(2, 22))


@pytest.mark.parametrize("missing", list(Missing))
def test_a_table_without_gaps_is_the_same_whatever_missing_says(missing: Missing) -> None:
    _, plain = fit(MIXED)
    _, prepared = fit(MIXED, missing=missing)
    assert prepared.inputs.tobytes() == plain.inputs.tobytes()


def test_the_median_is_a_value_of_the_column() -> None:
    table: Table = from_columns({"x": [1.5e308, 1.7e308, None, 1.6e308, 1.2e308], "y": [1, 2, 3, 4, 5]})
    schema, prepared = fit_schema(table, missing="impute")
    assert schema.features[0].fill == 1.5e308
    assert np.isfinite(schema.features[0].marked.fill or np.nan)
    assert np.isnan(prepared.inputs).sum() == 1
