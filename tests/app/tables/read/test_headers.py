"""First rows made of numbers: read as names or as data, with a warning that tells which."""

import pytest

from app.tables import read_table
from tests.app.tables.files import workbook

HEADERLESS = "the file has no header line: its columns were named column_1 to column_{}"
DOUBT = "the names of the columns are numbers ({}): if the first row is data, put a row of names above it"

DATA = [
    b"1.5,2.5,3\n4,5,6\n1,2,3\n",
    b"1,2,3\n4,5,6\n7,8,9\n",  # those below are like it
    b"5,6,7\n1,8,2\n7,8,1\n",  # columns are not counted from five
    b"2019,2020,2021\n2018,2019,2020\n2011,2012,2013\n",
    b"2019,2021,2020\n1,8,2\n7,8,1\n",
    b"France,2019,2020\nSpain,2018,2019\nItaly,2011,2012\n",
    b"2019,2020\n2018,2019\n2011,2012\n",
    b"1,2\n1,8\n7,8\n",
    b"-1;0,5;3\n4;5;6\n1;2;3\n",
    b'"1","2","1"\n"3","4","1"\n',
    b"2013-01-01,1\n2013-01-02,2\n",
    b"7,a\n1,b\n2,c\n",
]


@pytest.mark.parametrize("data", DATA)
def test_a_row_of_data_names_nothing(data: bytes) -> None:
    table = read_table(data)
    assert table.rows == data.count(b"\n")
    assert table.names == tuple(f"column_{place}" for place in range(1, len(table.names) + 1))
    assert table.notes == (HEADERLESS.format(len(table.names)),)


NAMES = [
    b"2019,2020,2021\n4,5,6\n7,8,9\n",
    b"2019,2020\n1,8\n7,8\n",
    b"2019,2020,2021\n4,5.5,6\n7,,9\n",
    b"1,2,3\n4.5,5,6\n7,8,1\n",
    b"0,1,2,3\n4.5,5,6,6\n7,8,1,1\n",
    b"7,8\na,b\nc,d\n",
]


@pytest.mark.parametrize("data", NAMES)
def test_names_that_are_numbers_are_doubted(data: bytes) -> None:
    table = read_table(data)
    first = data.split(b"\n")[0].decode().split(",")
    assert list(table.names) == first
    assert table.notes == (DOUBT.format(", ".join(map(repr, first))),)


def test_numbers_beside_the_nameless_index_of_a_data_frame() -> None:
    table = read_table(b",0,1,2\n0,4,5,1\n1,7,9,8\n")
    assert table.names == ("Unnamed: 0", "0", "1", "2")
    assert table.index == ("Unnamed: 0",)


def test_names_that_a_model_knows_are_not_doubted() -> None:
    assert read_table(b"2019,2020\n4,5\n7,8\n", known=["2020", "2019"]).notes == ()


def test_the_names_of_a_sheet_are_doubted_too() -> None:
    assert read_table(workbook({"1": [1, 2], "2": [3, 4]})).notes == (DOUBT.format("'1', '2'"),)
    assert read_table(workbook({"1": [1, 2], "b": [3, 4]})).notes == ()
