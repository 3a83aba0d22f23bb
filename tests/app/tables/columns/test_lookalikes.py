"""Texts that look like numbers: told as a category of few, refused as a column of many, never taken for a number."""

import time

import pytest

from app.errors import InvalidRequestError
from app.tables import Feature, Kind, Schema, from_columns, read_table
from app.tables.columns.lookalikes import Lookalike, find_lookalike, match_lookalike
from app.tables.schema.profile import describe_column, describe_table
from tests.app.tables.small import read

TEXTS = {
    Lookalike.PERCENTAGE: ["12%", "12.5 %", "-3%", "12,5%", "100\u00a0%"],
    Lookalike.MONEY: [
        *("$5", "$1,234.50", "-$5", "$-5", "($5.00)", "€ 12,50", "12,50 €", "1.234,50€", "US$ 3", "£3k", "1'000 CHF"),
        *("USD 12", "12 USD", "1 234,50\u00a0€", "R$ 3,50", "₹ 1,00,000", "Rs. 20", "250 kr"),
    ],
    Lookalike.TIME: ["13:45", "9:05", "00:00:01", "1:02:03.5", "18.00.00", "7:15 pm", "7 AM", "120:30"],
    Lookalike.MONTH: ["January", "jan", "Sep.", "sept", "MAY", "december"],
    None: [
        *("", "12", "1,234.50", "12 kg", "percent", "$", "%", "cash $", "A$AP", "16:9", "25:70", "1.2.3", "24.00.00"),
        *("Mayor", "Ma", "Q1", "EUR", "12 USDT", "2011-01-31", "10.00", "5 a", "13 pm"),
    ],
}


@pytest.mark.parametrize(("text", "what"), [(text, what) for what, texts in TEXTS.items() for text in texts])
def test_what_a_text_looks_like(text: str, what: Lookalike | None) -> None:
    assert match_lookalike(text) is what


def test_a_column_is_what_nine_in_ten_of_its_texts_are() -> None:
    prices = [f"${price}" for price in range(90)]
    found = find_lookalike([*(f"!{row}" for row in range(10)), *prices], 0.9)
    assert found is not None
    assert (found.what, found.example) == (Lookalike.MONEY, "$0")
    assert find_lookalike([*(f"!{row}" for row in range(11)), *prices], 0.9) is None
    assert find_lookalike(["May"], 0.9) is None
    assert find_lookalike([], 0.9) is None


def column(cells: list[str]) -> bytes:
    lines = [f'"{cell}",{row * 7 % 5},{row * row % 17}' for row, cell in enumerate(cells)]
    return ("c,x,y\n" + "\n".join(lines) + "\n").encode()


FEW = [
    (
        ["5%", "10%", "20%"],
        "'10%' is a percentage; to learn from its order, write the number without its sign, 12 or 0.12",
    ),
    (["$1,000", "$2,000"], "'$1,000' is an amount of money; to learn from its order, write the plain number, 1234.5"),
    (
        ["13:45", "9:05"],
        "'13:45' is a time; to learn from its order, write the hours as a number, 13.75, or the date with the time",
    ),
    (["Jan", "Feb", "May"], "'Feb' is the name of a month; to learn from its order, write 1 to 12"),
]


@pytest.mark.parametrize(("texts", "said"), FEW)
def test_few_are_a_category_and_told(texts: list[str], said: str) -> None:
    data = column(texts * 20)
    found, _, warnings = read(data)
    assert found["c"] == texts * 20
    assert warnings == [f"column 'c' was read as a category, though {said}"]
    assert read(data, columns={"c": "category"})[2] == []  # whoever says so knows
    assert read(data, columns={"c": "ignore"})[2] == []
    profile = describe_column("c", read_table(data).columns["c"])
    assert profile["type"] == "category"
    assert profile["warnings"] == [f"was read as a category, though {said}"]


ADVICE = (
    'correct the file, list what stands for a missing cell in "missing_values", or say in "columns" what the column '
    'is ("category", "ignore")'
)
MANY = [
    (
        [f"{share / 10}%" for share in range(60)] * 3,
        "'0.0%' is a percentage: write the number without its sign, 12 or 0.12",
    ),
    (
        [f"${price:,}.50" for price in range(900, 1100)],
        "'$900.50' is an amount of money: write the plain number, 1234.5",
    ),
    ([f"€ {price},5" for price in range(30)], "'€ 0,5' is an amount of money: write the plain number, 1234.5"),
    (
        [f"{minute // 60:02}:{minute % 60:02}" for minute in range(300)],
        "'00:00' is a time: write the hours as a number, 13.75, or the date with the time",
    ),
]


@pytest.mark.parametrize(("texts", "said"), MANY)
def test_many_are_refused_and_neither_grouped_nor_left_out(texts: list[str], said: str) -> None:
    data = column(texts)
    with pytest.raises(InvalidRequestError) as caught:
        read(data)
    many = f"{len(texts):,} cells cannot be used, the first at line 2"
    assert caught.value.message == f"{many}, column 'c': {said}; {ADVICE}"
    assert len(read(data, columns={"c": "category"})[0]["c"]) == len(texts)
    described = describe_table(read_table(data), None)
    assert "cells cannot be read as a number" in described["columns"][0]["warnings"][0]
    assert described["warnings"] == []


def test_a_target_of_them_is_told_what_to_write() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read(b"x,price\n1,$5\n2,$7\n4,$9\n")
    assert caught.value.message == (
        "the target 'price' is text, such as '$5': 0 of its 3 cells are numbers; name a numeric column as target "
        "('x'), or write the plain number, 1234.5"
    )


def test_a_prediction_reads_none_as_a_number() -> None:
    schema = Schema(target="y", features=(Feature(name="x", kind=Kind.NUMBER),))
    refused = r"^row 0, column 'x': '12%' is a percentage: write the number without its sign, 12 or 0\.12; correct it"
    with pytest.raises(InvalidRequestError, match=refused):
        schema.encode_rows([["12%"]])
    with pytest.raises(InvalidRequestError, match=refused):
        schema.encode_table(from_columns({"x": ["12%"]}))


@pytest.mark.parametrize("text", ["1" * 100_000, "1 " * 50_000, "$" + "1," * 50_000, "(" * 100_000, "1:" * 50_000])
def test_a_long_cell_is_looked_at_quickly(text: str) -> None:
    started = time.monotonic()
    match_lookalike(text)
    assert time.monotonic() - started < 0.5
