"""The column that a request means: the name as it is, else without the blanks around it, and never another one."""

from typing import Any

import pytest

from app.errors import InvalidRequestError
from app.tables import Schema, fit_schema, from_columns, from_rows, read_table
from app.tables.columns.cells import Cell
from app.tables.read.names import closest_name, find_name, match_names
from app.tables.schema.profile import describe_table
from tests.app.tables.files import FORMATS, Columns

SPELLINGS = ["x", " x", "x ", "\tx ", "x\n"]


@pytest.mark.parametrize("asked", SPELLINGS)
def test_blanks_around_a_name_do_not_count(asked: str) -> None:
    assert find_name(asked, ["y", "x"]) == "x"
    assert find_name("x", ["y", asked]) == asked
    assert match_names(["x"], ["y", asked]) == {"x": asked}


def test_the_same_name_goes_before_one_with_other_blanks() -> None:
    assert [find_name(name, ["x", "x ", " x"]) for name in ("x", "x ", " x")] == ["x", "x ", " x"]
    assert match_names(["x", "x "], ["x ", "x"]) == {"x": "x", "x ": "x "}


@pytest.mark.parametrize("other", ["X", "x y", "xx", ""])
def test_another_name_is_another_column(other: str) -> None:
    assert find_name(other, ["x", "y"]) is None
    assert match_names(["x"], [other, "y"]) == {}


def test_two_that_may_be_meant_are_refused_by_name() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"^target: 'x' may mean any of the columns 'x ', ' x': write it with"
    ):
        find_name("x", ["x ", " x"], "target")
    with pytest.raises(
        InvalidRequestError, match=r"^column 'x' may be any of 'x ', ' x': write its name with its blanks$"
    ):
        match_names(["x ", " x"], ["x"])


def test_a_column_that_is_another_one_by_its_name_is_not_taken() -> None:
    assert match_names(["x "], ["x"], others=["x"]) == {}
    assert match_names(["x", "x "], ["x"]) == {"x": "x"}


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("price", "Price"), ("PRICE ", "Price"), ("lot area", "Lot_Area"), ("LotArea", "Lot_Area"), ("Prise", "Price")],
)
def test_what_was_probably_meant_is_guessed(asked: str, meant: str) -> None:
    assert closest_name(asked, ["Lot_Area", "Price", "y"]) == meant
    assert closest_name("quite another", ["Lot_Area", "Price", "y"]) is None


PRICES: Columns = {"Price ": [1.0, 3.0, 5.0, 7.5], " area": [1.0, 2.0, 3.0, 4.0], "kind\t": ["a", "b", "a", "b"]}
ASKED: dict[str, Any] = {"target": "Price ", "features": [" area", "kind\t"], "columns": {"kind\t": "category"}}
TRIMMED: dict[str, Any] = {"target": "Price", "features": ["area", "kind"], "columns": {"kind": "category"}}


@pytest.mark.parametrize("written", [name for name in FORMATS if "tab" not in name])
def test_names_may_be_asked_for_as_the_header_has_them(written: str) -> None:
    for options in (ASKED, TRIMMED):
        schema, prepared = fit_schema(read_table(FORMATS[written](PRICES)), **options)
        assert (schema.target, schema.names) == ("Price", ("area", "kind"))
        assert prepared.targets.tolist() == PRICES["Price "]


def test_json_names_may_be_asked_for_as_they_are() -> None:
    rows = [dict(zip(PRICES, row, strict=True)) for row in zip(*PRICES.values(), strict=True)]
    for table in (from_columns(PRICES), from_rows(rows)):
        assert fit_schema(table, **ASKED)[0] == fit_schema(table, **TRIMMED)[0]
        assert describe_table(table, "Price ")["target"] == "Price"


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"target": "price"},
        "target: there is no column 'price'; did you mean 'Price'? There are 'Price', 'area', 'kind'",
    ),
    ({"target": "Price", "features": ["Area"]}, "features: there is no column 'Area'; did you mean 'area'? There are"),
    ({"target": "Price", "columns": {"ki nd": "ignore"}}, "columns: there is no column 'ki nd'; did you mean 'kind'?"),
    ({"target": "Price ", "features": ["Price", "area"]}, "features: 'Price' is the target"),
    ({"target": "Price", "features": ["area", "area "]}, "features: 'area' named twice"),
    ({"target": "Price", "columns": {"area": "number", " area": "ignore"}}, "columns: 'area' named twice"),
    ({"target": "Price", "columns": {"Price ": "ignore"}}, "columns: 'Price' is the target, which has to be a number"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_no_name_is_meant_by_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        fit_schema(from_columns(PRICES), **options)
    assert caught.value.message.startswith(message)


TWINS: dict[str, list[float]] = {"x": [1.0, 2.0, 3.0, 5.0], "x ": [7.0, 5.0, 6.0, 4.0], "y": [1.0, 2.0, 4.0, 3.0]}


@pytest.fixture(scope="module")
def twins() -> Schema:
    return fit_schema(from_columns(TWINS))[0]


@pytest.mark.parametrize("written", FORMATS)
def test_headers_that_differ_in_blanks_stay_two_columns(written: str, twins: Schema) -> None:
    table = read_table(FORMATS[written](TWINS))
    assert table.names == ("x", "x ", "y")
    assert twins.encode_table(table).tolist() == [[1, 7], [2, 5], [3, 6], [5, 4]]
    with pytest.raises(InvalidRequestError, match=r"^target: ' x' may mean any of the columns 'x', 'x ': write it"):
        fit_schema(table, target=" x")


def test_rows_to_predict_name_their_columns_alike(twins: Schema) -> None:
    assert twins.encode_rows([{"x": 1.0, "x ": 2.0}, {"x ": 4.0, "x": 3.0}]).tolist() == [[1, 2], [3, 4]]
    for missing in ([{"x": 1.0}], [{"x": 1.0, "x ": 2.0}, {"x": 3.0, "y": 1.0}]):
        with pytest.raises(InvalidRequestError, match=r"1 column missing: 'x '"):
            twins.encode_rows(missing)
    with pytest.raises(InvalidRequestError, match=r"'x' may mean any of the columns ' x', '\\tx'"):
        twins.encode_rows([{" x": 1.0, "\tx": 2.0}])
    with pytest.raises(InvalidRequestError, match=r"column '\\tx' may be any of 'x', 'x '"):
        twins.encode_columns({"\tx": [2.0]})


SPELT: list[dict[str, Cell]] = [{"area ": 2.0, "kind": "a"}, {"area": 1.0, " kind": "b"}]
OTHER: list[dict[str, Cell]] = [{"Area": 2.0, "kind": "a"}]
ABSENT: list[dict[str, Cell]] = [{"size": 2.0, "kind": "a"}]


def test_a_missing_column_is_told_by_what_may_be_it() -> None:
    schema, _ = fit_schema(from_columns(PRICES), **TRIMMED)
    assert schema.encode_rows(SPELT)[:, 0].tolist() == [2.0, 1.0]
    with pytest.raises(
        InvalidRequestError, match=r"^row 0: 1 column missing: 'area'; did you mean 'area' by 'Area'\?$"
    ):
        schema.encode_rows(OTHER)
    with pytest.raises(InvalidRequestError, match=r"the model needs 'area', 'kind'; did you mean 'area' by 'AREA'\?$"):
        schema.encode_columns({"AREA": [2.0], "kind": ["a"]})
    with pytest.raises(InvalidRequestError, match=r"^row 0: 1 column missing: 'area'$"):
        schema.encode_rows(ABSENT)
