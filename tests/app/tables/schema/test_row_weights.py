"""app/tables/schema/row_weights.py: how much each row counts, as a column says it."""

from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.tables import DesignMatrix, Schema, Table, TableFit, TableOptions, fit_schema, read_table

MEASURED = "x,times,y,other\n1,4,1,a\n2,1,2,b\n3,0,4,a\n4,2.5,3,b\n5,1,6,a\n"


def table(text: str) -> Table:
    return read_table(text.encode())


def fit(text: str, **options: object) -> tuple[Schema, DesignMatrix]:
    return fit_schema(table(text), **options)


def test_weights_are_numbers_of_a_column_which_is_no_feature_and_nought_leaves_a_row_out() -> None:
    schema, matrix = fit(MEASURED, target="y", weights="times")
    assert [feature.name for feature in schema.features] == ["x", "other"]
    assert matrix.weight_column == "times"
    assert matrix.weights.tolist() == [4.0, 1.0, 2.5, 1.0]
    assert matrix.rows.tolist() == [0, 1, 3, 4]
    assert matrix.dropped == 1
    assert "1 of 5 rows has a weight of 0 and was left out" in matrix.warnings


def test_without_the_field_there_are_none_and_the_column_is_a_feature() -> None:
    schema, matrix = fit(MEASURED, target="y")
    assert [feature.name for feature in schema.used] == ["x", "times", "other"]
    assert (matrix.weight_column, len(matrix.weights)) == (None, 0)


def test_weights_stay_with_their_rows() -> None:
    _, matrix = fit(MEASURED, target="y", weights="times")
    assert matrix.take(np.array([2, 0])).weights.tolist() == [2.5, 4.0]
    _, grouped = fit(MEASURED, target="y", weights="times", groups="other")
    assert grouped.weights.tolist() == [4.0, 1.0, 2.5, 1.0]
    assert grouped.group_values.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("-2", r"line 4, column 'times': '-2' is negative; a weight is a number of at least 0"),
        ("", r"line 4, column 'times': missing"),
        ("heavy", r"line 4, column 'times': 'heavy' is no"),
        ("inf", r"line 4, column 'times': 'inf'"),
        ("1e-14", r"weights: row 2, column 'times': 1e-14 is nothing beside the greatest, 4\.0; write 0"),
    ],
)
def test_what_is_no_weight_is_refused_by_row_and_column(cell: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        fit(MEASURED.replace("3,0,4", f"3,{cell},4"), target="y", weights="times")
    assert [(fault.row, fault.column) for fault in caught.value.faults] == [(2, "times")]


@pytest.mark.parametrize("cell", ["-2", "heavy", "true", "inf"])
def test_what_a_column_of_weights_is_is_not_asked_for(cell: str) -> None:
    """They are numbers: "category" is refused of them."""
    with pytest.raises(InvalidRequestError, match="list what stands for a missing cell") as caught:
        fit(MEASURED.replace("3,0,4", f"3,{cell},4"), target="y", weights="times")
    assert "columns" not in caught.value.message
    # of a feature it is, by its name
    with pytest.raises(InvalidRequestError, match="say in \"columns\" what 'x' is"):
        fit(MEASURED.replace("3,0,4", f"inf,{cell},4"), target="y", weights="times", columns={"x": "number"})


@pytest.mark.parametrize(("old", "new"), [("3,0,4", "3,,4"), ("3,0,4", ",0,4"), ("3,0,4", "3,0,")])
def test_missing_cells_beside_weights_are_not_to_be_imputed(old: str, new: str) -> None:
    """The specification refuses both together."""
    with pytest.raises(InvalidRequestError, match=r'set "missing" to "drop" to leave such rows out$'):
        fit(MEASURED.replace(old, new), target="y", weights="times")


def test_rows_without_a_weight_are_dropped_where_that_is_asked_for() -> None:
    _, matrix = fit(MEASURED.replace("2,1,2", "2,,2"), target="y", weights="times", missing="drop")
    assert matrix.rows.tolist() == [0, 3, 4]
    assert any("dropped because a cell is missing (by column: 'times' 1)" in said for said in matrix.warnings)


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"weights": "tims"}, "weights: there is no column 'tims'; did you mean 'times'"),
    ({"weights": "y"}, "weights: 'y' is the target"),
    ({"weights": "times", "order": "times"}, "weights: 'times' is the column of order too"),
    ({"weights": "times", "features": ["x", "times"]}, "weights: 'times' is one of the features too"),
    ({"weights": "times", "columns": {"times": "category"}}, "weights: 'times' is declared as category"),
    ({"weights": "times", "target": ["y", "x"]}, "weights: rows of several targets all count the same"),
    ({"weights": "other"}, "column 'other': 'a' is no"),
]


@pytest.mark.parametrize(("options", "said"), REFUSALS)
def test_refusals(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        fit(MEASURED, **{"target": "y", **options})
    assert caught.value.faults


def test_rows_of_no_weight_are_none() -> None:
    with pytest.raises(InvalidRequestError, match="weights: column 'w' is 0 in every row"):
        fit("w,x,y\n0,1,1\n0,2,2\n0,3,4\n", weights="w")
    with pytest.raises(InvalidRequestError, match="at least 2 rows"):
        fit("w,x,y\n0,1,1\n0,2,2\n1,3,4\n", weights="w")


def test_the_column_is_kept_with_the_fit() -> None:
    read, options = table(MEASURED), TableOptions(target="y", weights="times")
    found = TableFit.of(read, options)
    again = TableFit.from_bytes(found.to_bytes())
    assert again.training_rows.weights == "times"
    assert again.is_of(read, options)
    assert not again.is_of(read, TableOptions(target="y"))


def test_a_column_of_weights_names_no_groups() -> None:
    """Its values explain the target, as those of a name would."""
    random = np.random.default_rng(0)
    level, weight = np.repeat(random.normal(size=30), 5), np.repeat(random.permutation(30) + 1, 5)
    lines = [
        f"{w},{x!r},{y!r}\n"
        for w, x, y in zip(
            weight.tolist(),
            random.normal(size=150).tolist(),
            (3.0 * level + 0.1 * random.normal(size=150)).tolist(),
            strict=True,
        )
    ]
    text = "w,x,y\n" + "".join(lines)
    _, plain = fit(text)
    assert any('set "groups": "w"' in said for said in plain.warnings)
    _, weighted = fit(text, weights="w")
    assert not any("groups" in said for said in weighted.warnings)
