"""JSON rows and columns of a predict request to the design matrix of one model, as strict as they are fast.

msgspec decoders are made once for a model from its schema, so that a row is read and checked in one pass of C: its
length, a number where a number must be, nothing that is not finite. Only what they refuse is read a second time, by the
schema, whose refusal names rows, columns and values.
"""

from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidRequestError
from app.services.decoding import decode_any, explain
from app.tables import Feature, Kind, Schema

_WHITE = b" \t\r\n"
_Level = str | int | float | bool | None


class RowReader:
    """Reads the `rows` or `columns` of a request for one schema. Thread-safe; refuses with InvalidRequestError."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._width = len(schema.features)
        kinds = [_cell_type(feature) for feature in schema.features]
        places = {f"f{place}": feature.name for place, feature in enumerate(schema.features)}
        used = [feature.kind is not Kind.UNUSED for feature in schema.features]
        cells: list[Any] = [
            (field, kind) if needed else (field, kind, None)
            for field, kind, needed in zip(places, kinds, used, strict=True)
        ]
        columns: list[Any] = [
            (field, list[kind]) if needed else (field, Any, None)  # type: ignore[valid-type]  # made at run time
            for field, kind, needed in zip(places, kinds, used, strict=True)
        ]
        by_name = msgspec.defstruct("Row", cells, rename=places, kw_only=True, gc=False)
        table = msgspec.defstruct("Columns", columns, rename=places, kw_only=True)
        self._lists = msgspec.json.Decoder(list[tuple[tuple(kinds)]])  # type: ignore[misc]  # made at run time
        self._objects = msgspec.json.Decoder(list[by_name])  # type: ignore[valid-type]  # made at run time
        self._columns = msgspec.json.Decoder(table)

    def rows(self, raw: msgspec.Raw | bytes) -> NDArray[np.float64]:
        """`[[1, 2], ..]` in the order of the features, or `[{"a": 1, ..}, ..]`, to (m, p)."""
        data = memoryview(raw)
        objects = bytes(data[:64]).lstrip(_WHITE)[1:].lstrip(_WHITE).startswith(b"{")
        try:
            if objects:
                rows = [msgspec.structs.astuple(row) for row in self._objects.decode(data)]
            else:
                rows = self._lists.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found = decode_any(bytes(data), where="rows")
            if not isinstance(found, list):
                raise InvalidRequestError("rows: expected a list of rows") from error
            self._schema.encode_rows(found)
            _insist(error, bytes(data), "rows")
        if self._schema.plain and rows:
            flat = np.fromiter(chain.from_iterable(rows), np.float64, count=len(rows) * self._width)
            return flat.reshape(len(rows), self._width)
        return self._schema.encode_rows(rows)

    def columns(self, raw: msgspec.Raw | bytes) -> NDArray[np.float64]:
        """`{"a": [1, ..], "b": [2, ..]}` to (m, p)."""
        data = memoryview(raw)
        try:
            columns = self._columns.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found = decode_any(bytes(data), where="columns")
            if not isinstance(found, dict) or not all(isinstance(cells, list) for cells in found.values()):
                raise InvalidRequestError("columns: expected an object of lists of cells by column name") from error
            self._schema.encode_columns(found)
            _insist(error, bytes(data), "columns")
        values = msgspec.structs.astuple(columns)
        return self._schema.encode_columns(
            {
                feature.name: cells
                for feature, cells in zip(self._schema.features, values, strict=True)
                if feature.kind is not Kind.UNUSED
            }
        )


def _cell_type(feature: Feature) -> Any:
    if feature.kind is Kind.CATEGORY:
        return _Level
    if feature.kind is Kind.UNUSED:
        return Any
    return float if feature.fill is None else float | None


def _insist(error: Exception, data: bytes, where: str) -> None:
    """What the schema would take, such as the text "1.5" for a number, is still not what was asked for in JSON."""
    if isinstance(error, msgspec.DecodeError):
        explain(error, data, where=where)
    raise error
