"""Columns that only tell rows apart."""

import pytest

from app.errors import InvalidRequestError
from tests.app.tables.small import LEFT_OUT, read, table

LEFT: list[tuple[str, bytes, str]] = [
    ("names of rows", table("id", [f"k{i * 7919 % 101:03}" for i in range(25)]), "is different text in every row"),
    ("padded codes", table("id", [f"{i * 7919 % 101:04}" for i in range(25)]), "is different text in every row"),
    (
        "remarks",
        table("id", ["fine", "fine", *(f"remark {i}" for i in range(23))]),
        "is mostly unique text (24 different values in 25 cells)",
    ),
]


@pytest.mark.parametrize(("data", "reason"), [case[1:] for case in LEFT], ids=[case[0] for case in LEFT])
def test_what_tells_rows_apart_is_left_out_unless_asked_for(data: bytes, reason: str) -> None:
    found, _, said = read(data)
    assert found["id"] == LEFT_OUT
    assert said == [f"column 'id' {reason} and was left out; to use it, say in \"columns\" what it is"]
    for asked in ({"columns": {"id": "category"}}, {"features": ["id"]}):
        found, _, said = read(data, **asked)
        assert found["id"] != LEFT_OUT


@pytest.mark.parametrize("rows", [20, 50, 51, 200])
def test_text_that_only_names_the_rows_is_no_category_even_alone(rows: int) -> None:
    names = "".join(f"k{i * 7919 % 1009:04},{i}\n" for i in range(rows))
    with pytest.raises(InvalidRequestError) as caught:
        read(f"name,y\n{names}".encode())
    assert caught.value.message == (
        "no feature is left to learn from: column 'name' is different text in every row and was left out; to use it, "
        'say in "columns" what it is'
    )
    found, _, _ = read(f"name,y\n{names}".encode(), columns={"name": "category"})
    assert found["name"] != LEFT_OUT


def test_beside_rising_numbers_text_is_left_out_and_they_are_not() -> None:
    data = "name,t,y\n" + "".join(f"k{i * 7919 % 1009:04},{i},{i * 37 % 11}\n" for i in range(50))
    found, _, said = read(data.encode())
    assert (found["name"], len(found["t"])) == (LEFT_OUT, 50)
    assert len(said) == 1


def test_nothing_is_left_when_all_is_to_be_ignored() -> None:
    with pytest.raises(InvalidRequestError, match=r"^no feature is left to learn from: all are to be ignored$"):
        read(b"x,y\n1,2\n2,3\n", columns={"x": "ignore"})


def test_of_many_reasons_the_first_are_told() -> None:
    names = ",".join(f"k{place}" for place in range(9))
    with pytest.raises(InvalidRequestError) as caught:
        read(f"{names},y\n{'1,' * 9}2\n{'1,' * 9}3\n".encode())
    assert caught.value.message.count("is 1.0 in every row") == 5
    assert caught.value.message.endswith("; and 4 more")
