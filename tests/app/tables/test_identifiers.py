"""Columns that only tell rows apart."""

import pytest

from tests.app.tables.small import LEFT_OUT, read, table

LEFT: list[tuple[str, bytes, str]] = [
    ("row numbers", table("id", [str(i) for i in range(1, 26)]), "numbers the rows (unique integers in order)"),
    ("numbers that fall", table("id", [str(-3 * i) for i in range(25)]), "numbers the rows (unique integers in order)"),
    ("names of rows", table("id", [f"k{i * 7919 % 101:03}" for i in range(25)]), "is different text in every row"),
    ("padded codes", table("id", [f"{i * 7919 % 101:04}" for i in range(25)]), "is different text in every row"),
    (
        "remarks",
        table("id", ["fine", "fine", *(f"remark {i}" for i in range(23))]),
        "is text that hardly comes twice (24 different values in 25 cells)",
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


def test_the_only_feature_is_never_left_out() -> None:
    found, _, _ = read(b"t,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(30)))
    assert found["t"] == [float(i) for i in range(30)]
