"""ChosenLevels of a category that are told apart: as many as the table affords, or as the specification says."""

from typing import Any

import pytest

from app.tables import from_columns
from app.tables.columns.levels import MAX_CELLS, MAX_COLUMNS, MAX_LEVELS, choose_levels, level_limits
from app.tables.schema.fitting import fit_schema
from app.tables.schema.profile import describe_table


@pytest.mark.parametrize(
    ("counts", "rows", "asked", "expected"),
    [
        ({"a": 7, "b": 50}, 10**9, None, {"a": 7, "b": 50}),  # as always
        ({"a": 140}, 1_680, None, {"a": 140}),
        ({"a": 4_000}, 20_000, None, {"a": MAX_LEVELS}),
        ({"a": 4_000}, 100_000, None, {"a": 200}),
        ({"a": 4_000}, 1_000_000, None, {"a": 50}),
        ({"a": 4_000, "b": 60, "c": 3}, 100_000, None, {"a": 140, "b": 60, "c": 3}),
        ({"a": 400, "b": 400, "c": 400, "d": 400}, 3_000, None, {"a": 250, "b": 250, "c": 250, "d": 250}),
        ({"a": 4_000, "b": 3}, 1_000_000, 2, {"a": 2, "b": 2}),
        ({"a": 4_000}, 1_000_000, 4_000, {"a": 4_000}),
        ({}, 0, None, {}),
    ],
)
def test_the_room_for_levels(counts: dict[str, int], rows: int, asked: int | None, expected: dict[str, int]) -> None:
    assert level_limits(counts, rows, asked) == expected


def test_the_room_is_never_passed_by_columns_that_could_do_with_less() -> None:
    limits = level_limits({f"c{i}": 60 + 90 * i for i in range(8)}, 30_000, None)
    assert sum(limits.values()) == min(MAX_CELLS // 30_000, MAX_COLUMNS)
    assert limits["c0"] == 60
    assert max(limits.values()) - limits["c7"] == 0


def test_the_most_common_are_levels_and_the_others_counted() -> None:
    found = choose_levels({"b": 2, "a": 2, "c": 5, "d": 1}, 2)
    assert (found.names, found.pooled, found.cells) == (("a", "c"), 2, 3)
    assert choose_levels({"b": 2, "a": 1}, 2).names == ("a", "b")


def shops(count: int, rows: int = 3) -> dict[str, list[Any]]:
    names = [f"shop {shop:03}" for shop in range(count) for _ in range(rows)]
    return {"shop": names, "y": [float(row * row % 101) for row in range(len(names))]}


def test_hundreds_of_levels_stay_and_are_not_warned_of() -> None:
    schema, prepared = fit_schema(from_columns(shops(140)))
    assert (schema.width, schema.features[0].other, prepared.warnings) == (140, False, ())
    assert prepared.inputs.sum(axis=0).tolist() == [3.0] * 140


def test_a_lower_number_groups_and_is_told_in_training_alone() -> None:
    table = from_columns(shops(140))
    schema, prepared = fit_schema(table, max_levels=100)
    assert (schema.width, schema.features[0].other) == (101, True)
    assert prepared.warnings == (
        "column 'shop' is text with 140 different values: the 100 most common are levels, the others (120 cells) were "
        "grouped as 'other'; for more, set \"max_levels\"",
    )
    assert schema.encode_rows([["shop 099"], ["shop 100"], ["nowhere"]])[:, 99:].tolist() == [[1, 0], [0, 1], [0, 1]]
    described = describe_table(table, "y")["columns"][0]
    assert (described["distinct"], described["levels"], described["warnings"]) == (140, 140, [])


def test_levels_that_rows_without_a_target_had_are_not_counted_twice() -> None:
    columns = shops(60)
    columns["y"] = [None if row < 30 else value for row, value in enumerate(columns["y"])]
    schema, _ = fit_schema(from_columns(columns), missing="drop")
    assert (schema.width, schema.features[0].other) == (50, False)


def test_the_profile_tells_how_many_are_levels() -> None:
    described = describe_table(from_columns(shops(600)), "y")["columns"][0]
    assert (described["distinct"], described["levels"]) == (600, 500)
    assert described["warnings"] == [
        '600 different values: training groups all but the 500 most common, unless "max_levels" asks for more'
    ]
