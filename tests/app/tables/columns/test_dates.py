"""Forms of dates, which of them need to be told by others, and the same reading at prediction."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.errors import InvalidRequestError
from app.tables import Kind, Schema, fit_schema, from_columns
from app.tables.columns.dates import TEXT_ORDERS, DateOrder, infer_number_order, parse_date

NEW_YEAR, LAST, FIVE = datetime(2024, 1, 1), datetime(2024, 1, 31), datetime(2024, 1, 31, 17, 0)
SURE: list[tuple[str, datetime]] = [
    ("2024-01-31", LAST),
    ("2024.01.31", LAST),
    ("31-Jan-2024", LAST),
    ("31 january 2024", LAST),
    ("31/JAN/24", LAST),
    ("Jan 31, 2024", LAST),
    ("January 31st, 2024", LAST),
    ("2024-Jan-31", LAST),
    ("Wed, 31 Jan 2024 17:00:00 GMT", FIVE),
    ("2024-01-31 5:00 PM", FIVE),
    ("2024-01-31T17:00:00+00:00", FIVE),
    ("20240131T1700", FIVE),
    ("20240131T170000Z", FIVE),
    ("2024-01", NEW_YEAR),
    ("2024/01", NEW_YEAR),
    ("01/2024", NEW_YEAR),
    ("Jan 2024", NEW_YEAR),
    ("2024Q1", NEW_YEAR),
    ("2024-Q1", NEW_YEAR),
    ("Q1 2024", NEW_YEAR),
    ("2024-W01", NEW_YEAR),
    ("2024W053", LAST),
    ("31-Dec-68", datetime(2068, 12, 31)),
    ("31-Dec-69", datetime(1969, 12, 31)),
]
NONE = [
    *("2024-13-01", "2024-01-32", "31 Foo 2024", "Jan-24", "2024", "20240131", "1706659200", "12.5", "18.00.00", "May"),
    *("2024-01-31 5", "2024-01-31 13:00 PM", "2024Q5", "2024-W54", "2024-1", "1 May", "2024-02-30 and more", "1.2.3.4"),
]


def micros(when: datetime) -> int:
    return round((when.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 10**6


@pytest.mark.parametrize(("text", "when"), SURE)
def test_dates_that_say_which_part_is_which(text: str, when: datetime) -> None:
    for order in TEXT_ORDERS:
        assert parse_date(text, order) == micros(when)


@pytest.mark.parametrize("text", NONE)
def test_texts_that_are_no_dates(text: str) -> None:
    for order in TEXT_ORDERS:
        assert parse_date(text, order) is None


@pytest.mark.parametrize("text", ["1/5/24", "01.05.2024", "1-5-24 12:00 AM"])
def test_dates_that_an_order_tells(text: str) -> None:
    assert parse_date(text, DateOrder.DAY_FIRST) == micros(datetime(2024, 5, 1))
    assert parse_date(text, DateOrder.MONTH_FIRST) == micros(datetime(2024, 1, 5))
    assert parse_date(text, DateOrder.YEAR_FIRST) is None


NUMBERS = [
    ("2024", DateOrder.YEARS, NEW_YEAR),
    ("202401", DateOrder.MONTHS, NEW_YEAR),
    ("20240131", DateOrder.DAYS, LAST),
    ("20240131.0", DateOrder.DAYS, LAST),
    ("2024013117", DateOrder.HOURS, FIVE),
    ("202401311700", DateOrder.MINUTES, FIVE),
    ("20240131170000", DateOrder.SECONDS, FIVE),
    ("1706720400", DateOrder.UNIX_SECONDS, FIVE),
    ("1706720400.0", DateOrder.UNIX_SECONDS, FIVE),
    ("1706720400000", DateOrder.UNIX_MILLISECONDS, FIVE),
    ("1706720400000000", DateOrder.UNIX_MICROSECONDS, FIVE),
    ("1706720400000000000", DateOrder.UNIX_NANOSECONDS, FIVE),
]


@pytest.mark.parametrize(("text", "order", "when"), NUMBERS)
def test_numbers_that_are_said_to_be_dates(text: str, order: DateOrder, when: datetime) -> None:
    assert infer_number_order([text, text], 0.9) is order
    assert parse_date(text, order) == micros(when)


COLUMNS: list[tuple[list[Any], dict[str, str], DateOrder]] = [
    (["01-Jan-2024", "02-Jan-2024", "05-Feb-2024"], {}, DateOrder.YEAR_FIRST),
    (["2024Q1", "2024Q2", "2024Q4"], {}, DateOrder.YEAR_FIRST),
    (["1/5/24", "2/5/24", "13/5/24"], {}, DateOrder.DAY_FIRST),
    (["5/1/24", "5/2/24", "5/13/24"], {}, DateOrder.MONTH_FIRST),
    (["1/11/24", "2/11/24", "1/12/24"], {}, DateOrder.DAY_FIRST),
    (["11/1/24", "11/2/24", "12/1/24"], {}, DateOrder.MONTH_FIRST),
    (["1/5/24", "2/5/24", "3/5/24"], {"when": "day-first"}, DateOrder.DAY_FIRST),
    ([20240131, 20240201, 20240305], {"when": "date"}, DateOrder.DAYS),
    ([20240131.0, 20240201.0, 20240305.0], {"when": "date"}, DateOrder.DAYS),
]


@pytest.mark.parametrize(("cells", "said", "order"), COLUMNS)
def test_a_column_is_read_alike_at_prediction(cells: list[Any], said: dict[str, str], order: DateOrder) -> None:
    schema, prepared = fit_schema(from_columns({"when": cells, "y": [1.0, 2.0, 4.0]}), columns=said)
    assert (schema.features[0].kind, schema.features[0].order) == (Kind.DATE, order)
    again = Schema.from_json(schema.to_json())
    for cell, days in zip(cells, prepared.inputs[:, 0].tolist(), strict=True):
        assert again.encode_rows([[cell]]).tolist() == [[days]]
    same_day = datetime.fromtimestamp(86_400 * prepared.inputs[0, 0], UTC).date().isoformat()
    assert again.encode_rows([[same_day]]).tolist() == [[prepared.inputs[0, 0]]]
    with pytest.raises(InvalidRequestError, match=r"row 0, column 'when': '31.31.31' is no date of the form"):
        again.encode_rows([["31.31.31"]])


def test_what_looks_like_dates_is_not_told_of_other_columns() -> None:
    cells: dict[str, list[Any]] = {
        "level": ["level 10", "level 11"] * 2,
        "size": [20, 30, 40, 50],
        "year": [2001, 2002, 2004, 2003],
    }
    assert fit_schema(from_columns({**cells, "y": [1, 2, 3, 5]}))[1].warnings == ()
