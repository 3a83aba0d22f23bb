"""Random tables written in random dialects come back as they were, or are refused, never silently different."""

import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st

from app.errors import PursuitError
from app.tables import Column, read_table
from app.tables.columns.cells import BLANKS, MISSING_TOKENS
from app.tables.read.names import clean_name
from tests.app.tables.files import zstd

LETTERS = st.characters(codec="cp1252", exclude_categories=["Cc"])
AWKWARD = ["a,b", "a;b", "a|b", "1,5", "1.5", "1,234", "02134", 'say "x"', "two\nlines", "NA", "-", "2011-01-31"]

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-10_000, 10_000, places=3).map(float),  # 1.234 and 1,234 are what may be mistaken
    st.integers(-(10**9), 10**9).map(float),
)
words = st.one_of(st.text(LETTERS, max_size=6), st.sampled_from(AWKWARD))
names = st.text(LETTERS, min_size=1, max_size=6).filter(lambda name: bool(name.strip()) and clean_name(name) == name)
PACKINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.compress, "zstd": zstd}


@dataclass(frozen=True, slots=True)
class Dialect:
    delimiter: str
    decimal: str
    quoting: Any
    end: str
    encoding: str
    packing: str
    last_end: bool

    def cell(self, cell: Any) -> str:
        if isinstance(cell, float):
            whole = cell.is_integer() and abs(cell) < 1e9
            return (repr(int(cell)) if whole else repr(cell)).replace(".", self.decimal)
        return cell or ""

    def write(self, table: dict[str, list[Any]]) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.delimiter, quoting=self.quoting, lineterminator=self.end)
        writer.writerow(table)
        writer.writerows(map(self.cell, row) for row in zip(*table.values(), strict=True))
        text = out.getvalue()
        data = (text if self.last_end else text.removesuffix(self.end)).encode(self.encoding)
        return PACKINGS[self.packing](data)


dialects = st.builds(
    Dialect,
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    packing=st.sampled_from(["", "", "gzip", "zstd"]),
    last_end=st.booleans(),
)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    rows = draw(st.integers(1, 8))
    kinds = [numbers, st.one_of(numbers, st.none()), words]
    made: dict[str, list[Any]] = {}
    for name in draw(st.lists(names, min_size=2, max_size=4, unique=True)):
        made[name] = draw(st.lists(draw(st.sampled_from(kinds)), min_size=rows, max_size=rows))
    return made


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), dialect=dialects)
@example(
    table={"0": [";"], ";:": [0.0]},  # read as two columns with either sign
    dialect=Dialect(",", ".", csv.QUOTE_MINIMAL, "\n", "utf-8", "", last_end=False),
)
def test_a_table_comes_back_or_is_refused(table: dict[str, list[Any]], dialect: Dialect) -> None:
    data = dialect.write(table)
    if dialect.encoding == "cp1252":
        assume(not _is_utf8_by_chance(dialect, table))
    try:
        found = read_table(data)
    except PursuitError:
        event("refused")
        return
    if any("no header line" in note for note in found.notes):
        event("said to be without a header")
        return
    if next(iter(table)).startswith("#") and any("comment line" in note for note in found.notes):
        event("said to have a comment where its names are")  # `#0,0` above `,0`, which a data frame writes as names
        return
    if any(f"'sep={dialect.delimiter}' has them read so" in note for note in found.notes):
        event("said to be separated by another sign as well")
        return
    event(f"read, separated by {found.separator!r}, decimal {dialect.decimal}")
    while all(_is_blank(cells[-1]) for cells in table.values()):  # dropped and said
        table = {name: cells[:-1] for name, cells in table.items()}
    assert list(table) == list(found.names)
    assert found.rows == len(next(iter(table.values())))
    for name, cells in table.items():
        _compare(cells, found.columns[name])


def _compare(cells: list[Any], column: Column) -> None:
    if isinstance(next((cell for cell in cells if cell is not None), None), str):
        assert column.texts.to_pylist() == cells
        return
    read = column.numbers
    wrong = set(read.invalid.tolist())  # training refuses these and names them
    for row, cell in enumerate(cells):
        if cell is None:
            assert read.missing[row]
        elif row not in wrong:
            assert read.values[row] == cell
        else:
            assert any(mark in column.texts[row].as_py() for mark in ",.")


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip(BLANKS))


def _is_utf8_by_chance(dialect: Dialect, table: dict[str, list[Any]]) -> bool:
    """True if the bytes of the old encoding are valid UTF-8 too, so that no reader can tell."""
    data = replace(dialect, packing="").write(table)
    try:
        return not data.isascii() and bool(data.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def test_the_words_for_missing_are_those_of_the_reader() -> None:
    data = "x,y\n" + "\n".join(f"{token},1" for token in MISSING_TOKENS) + "\n7,1\n"
    read = read_table(data.encode()).columns["x"].numbers
    assert read.missing.tolist() == [True] * len(MISSING_TOKENS) + [False]


def test_two_separators_that_part_the_lines_alike_are_told() -> None:
    data = b"size;price,net\n1;2,5\n3;4,5\n"
    found = read_table(data)
    assert list(found.names) == ["size", "price,net"]
    assert found.columns["price,net"].numbers.values.tolist() == [2.5, 4.5]
    assert [note for note in found.notes if "'sep=,' has them read so" in note]
    declared = read_table(b"sep=,\n" + data)
    assert list(declared.names) == ["size;price", "net"]
    assert not [note for note in declared.notes if "has them read so" in note]
    assert not [note for note in read_table(b"size;price\n1;2,5\n3;4,5\n").notes if "has them read so" in note]


def test_names_that_are_known_say_which_separator_it_is() -> None:
    """Rows to predict are read as those that were trained on, and nothing is in doubt."""
    data = b"size;price,net\n1;2,5\n3;4,5\n"
    by_comma = read_table(data, known=["size;price", "net"])
    assert list(by_comma.names) == ["size;price", "net"]
    by_semicolon = read_table(data, known=["price,net"])
    assert list(by_semicolon.names) == ["size", "price,net"]
    assert not [note for found in (by_comma, by_semicolon) for note in found.notes if "has them read so" in note]
