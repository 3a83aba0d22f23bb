"""The tables that people have, as they are: what is read, dropped, left out and warned of."""

from typing import Any

import pytest

from app.tables import Kind, fit_schema, read_table
from tests.app.tables.messy import FOLDER, needs_files

pytestmark = needs_files

CASES: dict[str, tuple[dict[str, Any], int, int, list[str]]] = {
    "messy/auto-mpg.csv": (
        {"target": "mpg", "missing": "drop"},
        392,
        7,
        ["'car name' is mostly unique text", "6 of 398 rows dropped"],
    ),
    "messy/winequality-red.csv": ({}, 1599, 11, []),
    "messy/AirQualityUCI.csv": (
        {"target": "CO(GT)", "missing": "impute", "missing_values": [-200]},
        7674,
        37,
        [
            "2 empty columns",
            "114 empty rows",
            "begin with the day",
            "'00.00.00' is a time",
            "'CO(GT)' 1,683",
            *["integrating over"] * 12,
        ],
    ),
    "messy/bike_sharing_day.csv": ({}, 731, 15, ["sum of the columns 'casual', 'reg"]),
    "messy/forestfires.csv": ({}, 517, 29, ["'apr' is the name of a month"]),
    "messy/AmesHousing.csv": (
        {"missing": "impute"},
        2930,
        334,
        [
            "'PID' is different text in every row",
            "'Order' looks like a row number",
            "of column 'Lot Frontage': such rows",
            *[""] * 20,
        ],
    ),
    "abalone.csv.gz": ({}, 4177, 10, []),
    "diamonds.csv.gz": ({"target": "price"}, 53940, 26, []),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_read_and_what_is_unusual_is_said(name: str) -> None:
    options, rows, width, said = CASES[name]
    schema, prepared = fit_schema(read_table(FOLDER / name), **options)
    assert prepared.inputs.shape == (rows, width)
    assert len(prepared.warnings) == len(said), prepared.warnings
    for words, warning in zip(said, prepared.warnings, strict=True):
        assert words in warning
    kinds = {feature.name: feature.kind for feature in schema.features}
    assert kinds.get("Date", Kind.DATE) is kinds.get("dteday", Kind.DATE) is Kind.DATE
    assert kinds.get("MS SubClass", Kind.CATEGORY) is Kind.CATEGORY
