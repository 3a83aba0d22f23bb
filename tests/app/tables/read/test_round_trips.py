"""Random tables: as CSV in any dialect and as JSON they give the same matrix to the last bit."""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequestError, MalformedError, UnavailableError
from app.tables import (
    DesignMatrix,
    Missing,
    Schema,
    TableOptions,
    build_design_matrix,
    fit_schema,
    fit_table,
    from_columns,
    from_rows,
    open_canonical,
    read_table,
    write_table,
)

Columns = dict[str, list[Any]]

finite = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.from_regex(r"[+-]?[0-9]{1,30}\.?[0-9]{0,30}(e[+-]?[0-9]{1,2})?", fullmatch=True)
numbers = st.one_of(finite, st.integers(-(2**70), 2**70), finite.map(repr), decimals)
words = st.sampled_from(
    ["red", "blue", "NA", "a,b", 'x "y"', "semi;colon", "tab\there", "two\nlines", "ü", "日本", "-"]
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5).filter(
    lambda name: name == name.strip() and not name.startswith("\ufeff") and is_normalized("NFC", name)  # as it is kept
)


@st.composite
def tables(draw: st.DrawFn) -> Columns:
    rows = draw(st.integers(1, 12))
    columns: Columns = {}
    kinds = [numbers, st.one_of(numbers, st.none()), words, st.one_of(words, st.none())]
    for name in draw(st.lists(names, min_size=2, max_size=5, unique=True)):
        columns[name] = draw(st.lists(draw(st.sampled_from(kinds)), min_size=rows, max_size=rows))
    if draw(st.integers(0, 9)):  # most tables have a target to learn
        columns[name] = draw(st.lists(numbers, min_size=rows, max_size=rows))
    assume(any(cells[-1] is not None for cells in columns.values()))  # empty rows at the end of a file are dropped
    return columns


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    line_end: str
    quote_all: bool
    mark: bool
    zipped: bool
    last_end: bool

    def write(self, columns: Columns) -> bytes:
        records = [list(columns), *map(list, zip(*columns.values(), strict=True))]
        lines = [self.delimiter.join(self._cell(cell) for cell in record) for record in records]
        text = self.line_end.join(lines) + (self.line_end if self.last_end else "")
        data = (b"\xef\xbb\xbf" if self.mark else b"") + text.encode()
        return gzip.compress(data, 1) if self.zipped else data

    def _cell(self, cell: Any) -> str:
        text = "" if cell is None else cell if isinstance(cell, str) else repr(cell)
        special = any(mark in text for mark in '"\r\n,;\t')
        return '"' + text.replace('"', '""') + '"' if special or self.quote_all else text


dialects = st.builds(
    Dialect,
    delimiter=st.sampled_from([",", ";", "\t"]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    quote_all=st.booleans(),
    mark=st.booleans(),
    zipped=st.booleans(),
    last_end=st.booleans(),
)


def attempt(table: Any, missing: Missing) -> tuple[Schema, DesignMatrix] | str:
    try:
        return fit_schema(table, missing=missing)
    except InvalidRequestError as error:
        return error.message


def same(one: DesignMatrix, other: DesignMatrix) -> bool:
    arrays = ("inputs", "targets", "groups", "indicator", "rows")
    return (one.dropped, one.warnings) == (other.dropped, other.warnings) and all(
        getattr(one, name).shape == getattr(other, name).shape
        and getattr(one, name).dtype == getattr(other, name).dtype
        and getattr(one, name).tobytes() == getattr(other, name).tobytes()
        for name in arrays
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(columns=tables(), dialect=dialects, missing=st.sampled_from(Missing))
def test_csv_and_json_give_the_same_bits(columns: Columns, dialect: Dialect, missing: Missing) -> None:
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    from_json = attempt(from_columns(columns), missing)
    from_file = attempt(read_table(dialect.write(columns), known=columns), missing)
    if isinstance(from_json, str):
        assert isinstance(from_file, str)
        return
    assert not isinstance(from_file, str)
    event("trained")
    schema, prepared = from_json
    assert from_file[0] == schema
    assert same(from_file[1], prepared)
    by_row = attempt(from_rows(rows), missing)
    assert not isinstance(by_row, str)
    assert by_row[0] == schema
    assert same(by_row[1], prepared)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(columns=tables(), dialect=dialects)
def test_every_way_to_encode_agrees_with_training(columns: Columns, dialect: Dialect) -> None:
    fitted = attempt(from_columns(columns), Missing.IMPUTE)
    if isinstance(fitted, str):
        return
    schema, prepared = fitted
    kept = prepared.rows.tolist()
    columns = {name: [cells[row] for row in kept] for name, cells in columns.items()}
    inputs = {name: columns[name] for name in schema.names}
    lists = [list(cells) for cells in zip(*inputs.values(), strict=True)]
    objects = [dict(zip(inputs, cells, strict=True)) for cells in lists]
    answers = [
        schema.encode_rows(lists),
        schema.encode_rows(objects),
        schema.encode_columns(inputs),
        schema.encode_table(from_columns(columns)),
        schema.encode_table(read_table(dialect.write(columns), known=columns)),
        np.vstack([schema.encode_rows([cells]) for cells in lists]),
        Schema.from_json(schema.to_json()).encode_rows(lists),
    ]
    assert {answer.tobytes() for answer in answers} == {prepared.inputs.tobytes()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns=tables(), missing=st.sampled_from(Missing))
def test_a_stored_table_comes_back_bit_for_bit(columns: Columns, missing: Missing, tmp_path: Path) -> None:
    table = from_columns(columns)
    fitted = attempt(table, missing)
    if isinstance(fitted, str):
        return
    path = tmp_path / "table.parquet"
    write_table(path, table)
    first = path.read_bytes()
    again = attempt(open_canonical(path), missing)
    assert not isinstance(again, str)
    assert again[0] == fitted[0]
    assert same(again[1], fitted[1])
    write_table(path, table)
    assert path.read_bytes() == first


def test_the_child_makes_the_matrix_that_was_checked(tmp_path: Path) -> None:
    table = from_columns({"x": [1, None, 3, 4], "c": ["a", "b", "a", None], "y": [1, 2, 4, None]})
    schema, fitted = fit_table(table, TableOptions(missing="impute"))
    _, expected = fit_schema(table, missing="impute")
    path = tmp_path / "table.parquet"
    write_table(path, table)
    assert same(build_design_matrix(open_canonical(path), Schema.from_json(schema.to_json()), fitted), expected)


def test_damaged_stored_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    write_table(path, from_columns({"x": [1, 2, 3], "y": [1, 2, 4]}))
    data = path.read_bytes()
    for damaged in (b"", b"x,y\n1,2\n", data[: len(data) // 2], data.replace(b"pursuit-table/1", b"pursuit-table/2")):
        path.write_bytes(damaged)
        with pytest.raises(MalformedError, match=r"the (stored )?table (is damaged|has format)"):
            open_canonical(path)


def test_a_stored_table_that_may_not_be_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's file in a shared folder. Root may read everything, so the refusal is made up here."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("app.tables.read.canonical.pq.ParquetFile", refuse)
    with pytest.raises(UnavailableError, match="cannot be read: Permission denied"):
        open_canonical(tmp_path / "table.parquet")
