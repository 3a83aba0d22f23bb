"""JSON rows and columns of a predict request to the design matrix of one model, as strict as they are fast.

msgspec decoders are made once for a model from its schema, so that a row is read and checked in one pass of C: its
length, a number where a number must be, nothing that is not finite, in columns that are ignored either. Only what they
refuse is read a second time, by the schema, whose refusal names rows, columns and values.
"""

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidRequestError
from app.services.decoding import check_whole_numbers, decode_any
from app.services.predict.row_objects import IGNORED, RowObjects
from app.tables import CellErrors, Feature, Kind, Schema, flatten_column
from app.tables.read.strict_json import check_duplicate_keys, is_too_large

PIECE_BYTES = 1 << 17
"""Rows are decoded so many bytes at a time, a millisecond or two: other threads wait for no more than a piece."""

_WHITE = b" \t\r\n"
_NEXT_NUMBER = re.compile(rb",")
_NEXT_LIST, _NEXT_OBJECT = re.compile(rb"\]\s*,"), re.compile(rb"\}\s*,")
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_Level = str | int | float | bool | None
_ignored = msgspec.json.Decoder(list[IGNORED])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodedRows:
    """Rows that were read: inputs (m, p) of the good ones, the number of all, which failed, why the first did."""

    inputs: NDArray[np.float64]
    rows: int
    failed: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    reason: str | None = None

    @classmethod
    def of(cls, inputs: NDArray[np.float64]) -> "DecodedRows":
        """Rows that are all good."""
        return cls(inputs=inputs, rows=len(inputs))

    def spread(self, arrays: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of the good rows as arrays of all, NaN for those that failed."""
        if not len(self.failed):
            return dict(arrays)
        good = np.delete(np.arange(self.rows), self.failed)
        found = {}
        for name, array in arrays.items():
            found[name] = np.full(self.rows, np.nan)
            found[name][good] = array
        return found


class RowDecoder:
    """Decoder of the `rows` or `columns` of a request for one schema. Thread-safe; refuses with InvalidRequestError."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._plain = schema.mostly_numeric
        self._kinds = [_cell_type(feature) for feature in schema.features]
        self._lists = msgspec.json.Decoder(_list_of(types.GenericAlias(tuple, tuple(self._kinds))))
        used = [feature.kind is not Kind.UNUSED for feature in schema.features]
        self._objects = RowObjects(schema.features, self._kinds, used)
        self._columns = {
            feature.name: msgspec.json.Decoder(_list_of(kind))
            for feature, kind in zip(schema.features, self._kinds, strict=True)
        }

    def decode_rows(self, raw: msgspec.Raw | bytes) -> NDArray[np.float64]:
        """`[[1, 2], ..]` in the order of the features, or `[{"a": 1, ..}, ..]`, to (m, p)."""
        data = memoryview(raw)
        objects = bytes(data[:64]).lstrip(_WHITE)[1:].lstrip(_WHITE).startswith(b"{")
        try:
            if len(data) > PIECE_BYTES:
                return self._in_pieces(data, objects)
            return self._decoded(data, objects)
        except _REFUSALS:
            pass  # said better by the slow reading
        return self._rows_slowly(bytes(data))

    def encode_matrix(self, rows: NDArray[Any], first_row: int = 0) -> NDArray[np.float64]:
        """Rows of numbers (m, features) in the order of the features to (m, p): themselves, where they are fit.
        first_row: number of the first, for messages."""
        if not len(rows) and rows.shape[1] != len(self._kinds):  # no row is there to be refused
            raise InvalidRequestError(f"expected {len(self._kinds)} columns, got an array of shape {rows.shape}")
        if self._plain and rows.shape[1] == len(self._kinds) and np.isfinite(rows).all():
            return rows.astype(np.float64, copy=False)
        return self._schema.encode_rows(rows.tolist(), CellErrors(first_row=first_row))

    def encode_matrix_tolerantly(self, rows: NDArray[Any], first_row: int = 0) -> DecodedRows:
        """The same without the rows that cannot be read. InvalidRequestError for another number of columns."""
        if rows.shape[1] != len(self._kinds):
            raise InvalidRequestError(f"expected {len(self._kinds)} columns, got an array of shape {rows.shape}")
        errors = CellErrors(first_row=first_row, tolerated=True)
        inputs = self._schema.encode_rows(rows.tolist(), errors)
        failed = errors.rows()
        kept = np.delete(inputs, failed, axis=0)
        return DecodedRows(inputs=kept, rows=len(rows), failed=failed, reason=errors.first())

    def encode_cells(self, rows: list[list[Any]]) -> NDArray[np.float64]:
        """Rows of JSON cells, in the order of the features, to (m, p)."""
        return self._schema.encode_rows(rows)

    def decode_columns(self, raw: msgspec.Raw | bytes) -> NDArray[np.float64]:
        """`{"a": [1, ..], "b": [2, ..]}` to (m, p)."""
        data = memoryview(raw)
        try:
            parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            check_duplicate_keys(data, len(parts), list(parts.values()), where="columns")
            cells = {name: self._columns.get(name, _ignored).decode(part) for name, part in parts.items()}
            if all(feature.name in cells for feature in self._schema.used):
                return self._schema.encode_columns(cells)
        except _REFUSALS:
            pass  # as above
        return self._columns_slowly(bytes(data))

    def decode_tolerantly(self, raw: msgspec.Raw | bytes, *, columns: bool) -> DecodedRows:
        """The same of rows or columns, without the rows that cannot be read; no list or object is refused still."""
        try:
            inputs = self.decode_columns(raw) if columns else self.decode_rows(raw)
            return DecodedRows(inputs=inputs, rows=len(inputs))
        except InvalidRequestError:
            pass  # looked at row by row
        found = decode_any(bytes(raw), where="columns" if columns else "rows")
        if columns:
            if not isinstance(found, dict):
                raise InvalidRequestError("columns: expected an object of lists of cells by column name")
            cells = {name: flatten_column(part) for name, part in found.items()}
            meant = self._schema.meaning(cells.keys())
            lists = [cells[meant[feature.name]] for feature in self._schema.used if feature.name in meant]
            if len(lists) == len(self._schema.used) and all(isinstance(part, list) for part in lists):
                return self._of_columns(lists, [None] * len(lists[0]))
            return DecodedRows.of(self._schema.encode_columns(cells))
        if not isinstance(found, list):
            raise InvalidRequestError("rows: expected a list of rows")
        rows: list[list[Any]] = []
        reasons: list[str | None] = []
        for place, row in enumerate(found):
            try:
                rows.append(self._cells_of(row, place))
                reasons.append(None)
            except InvalidRequestError as error:
                rows.append([None] * len(self._schema.used))
                reasons.append(error.message)
        return self._of_columns([list(part) for part in zip(*rows, strict=True)], reasons)

    def _cells_of(self, row: Any, place: int) -> list[Any]:
        """The cells of a row for each used feature; InvalidRequestError for a row that has not got them."""
        if isinstance(row, dict):
            meant = self._schema.meaning(row.keys())
            absent = [feature.name for feature in self._schema.used if feature.name not in meant]
            if absent:
                raise InvalidRequestError(f"row {place}: column missing: {absent[0]!r}")
            return [row[meant[feature.name]] for feature in self._schema.used]
        if not isinstance(row, list) or len(row) != len(self._kinds):
            raise InvalidRequestError(f"row {place}: expected {len(self._kinds)} cells, or an object of them by name")
        return [row[index] for index, feature in enumerate(self._schema.features) if feature.kind is not Kind.UNUSED]

    def _of_columns(self, columns: list[list[Any]], reasons: list[str | None]) -> DecodedRows:
        """Encode columns of the used features, but for rows with a reason and those with cells that cannot be read."""
        bad = np.array([reason is not None for reason in reasons], np.bool_)
        for column in columns:
            for place, cell in enumerate(column):
                if isinstance(cell, list | dict) or (type(cell) is int and is_too_large(cell)):
                    bad[place] = True
                    reasons[place] = reasons[place] or f"row {place}: a cell is no text, number or boolean"
        kept = np.flatnonzero(~bad)
        cells = {
            feature.name: [column[place] for place in kept.tolist()]
            for feature, column in zip(self._schema.used, columns, strict=True)
        }
        errors = CellErrors(tolerated=True)
        inputs = self._schema.encode_columns(cells, errors) if len(kept) else np.empty((0, self._schema.width))
        wrong = errors.rows()
        bad[kept[wrong]] = True
        first = next((reason for reason in reasons if reason is not None), None) or errors.first()
        return DecodedRows(
            inputs=np.delete(inputs, wrong, axis=0), rows=len(reasons), failed=np.flatnonzero(bad), reason=first
        )

    def _in_pieces(self, data: memoryview, objects: bool) -> NDArray[np.float64]:
        pieces = _pieces(data, _NEXT_OBJECT if objects else _NEXT_LIST)
        try:
            return np.concatenate([self._decoded(piece, objects) for piece in pieces])
        except InvalidRequestError:
            return self._rows_slowly(bytes(data))  # which counts rows from the first

    def _decoded(self, data: memoryview | bytes, objects: bool) -> NDArray[np.float64]:
        if objects:
            return self._matrix(self._objects.decode(data))
        return self._matrix(self._lists.decode(data))  # of scalars alone: there is no key to come twice

    def _matrix(self, rows: list[Any]) -> NDArray[np.float64]:
        if not (self._plain and rows):
            return self._schema.encode_rows(rows)
        try:
            flat = np.fromiter(chain.from_iterable(rows), np.float64, count=len(rows) * len(self._kinds))
        except TypeError:  # a null, which only models that integrate over it let through to here
            return self._schema.encode_rows(rows)
        return flat.reshape(len(rows), len(self._kinds))

    def _rows_slowly(self, data: bytes) -> NDArray[np.float64]:
        """The schema reads what the decoders do not, such as the text "1.5" for a number, or says what is wrong."""
        found = decode_any(data, where="rows", names=self._schema.names)
        if not isinstance(found, list):
            raise InvalidRequestError("rows: expected a list of rows")
        check_whole_numbers(found, "rows", self._schema.names)
        return self._schema.encode_rows(found)

    def _columns_slowly(self, data: bytes) -> NDArray[np.float64]:
        found = decode_any(data, where="columns")
        if not isinstance(found, dict):
            raise InvalidRequestError("columns: expected an object of lists of cells by column name")
        for name in self._schema.names:
            if not isinstance(found.get(name, []), list):
                raise InvalidRequestError(f"columns.{name}: expected a list of cells")
        check_whole_numbers(found, "columns")
        return self._schema.encode_columns({name: flatten_column(cells) for name, cells in found.items()})


def pieces_of_numbers(data: memoryview) -> Iterator[memoryview | bytes]:
    """A list of numbers as shorter lists of the same numbers; something else as pieces that are no lists of numbers."""
    if len(data) <= PIECE_BYTES:
        yield data
    else:
        start = bytes(data[:PIECE_BYTES]).find(b"[") + 1
        while (cut := _NEXT_NUMBER.search(data, start + PIECE_BYTES)) is not None:
            yield b"".join((b"[", data[start : cut.start()], b"]"))
            start = cut.end()
        yield b"[" + bytes(data[start:])


def _pieces(data: memoryview, between: re.Pattern[bytes]) -> Iterator[bytes]:
    """A list of rows as shorter lists of the same rows, cut where one row ends and another begins.

    A cut inside of a row or a text leaves two pieces that are no JSON, which the decoder refuses.
    """
    start = bytes(data[:PIECE_BYTES]).index(b"[") + 1
    while (cut := between.search(data, start + PIECE_BYTES)) is not None:
        yield b"".join((b"[", data[start : cut.end() - 1], b"]"))
        start = cut.end()
    rest = b"[" + bytes(data[start:])
    if rest.translate(None, _WHITE) == b"[]" and start > PIECE_BYTES:
        raise msgspec.DecodeError("a comma without a row after it")
    yield rest


def _cell_type(feature: Feature) -> Any:
    if feature.kind in (Kind.CATEGORY, Kind.DATE, Kind.BOOLEAN):
        return _Level
    if feature.kind is Kind.UNUSED:
        return IGNORED
    number = float if feature.offset is None else int | float  # msgspec rounds an integer that is to be a float
    return number | None if feature.takes_missing else number


def _list_of(kind: Any) -> Any:
    """`list[kind]` of a type that is made at run time."""
    return types.GenericAlias(list, (kind,))
