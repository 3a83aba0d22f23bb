"""Rows of any kind as bodies that the service reads, and predictions as the caller's kind.

pandas, polars, pyarrow, ..   an Arrow stream; a frame of the same kind, with the caller's index
a dict of columns             the same; a dict of arrays
a matrix of numpy             numpy's own file, in the order of the model's columns; an array with named fields
a list of dicts or lists      JSON; a list of dicts
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import orjson
import pyarrow as pa
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from app.services.predict.answer_files import kept_names

from .errors import ArgumentError, InvalidError

ARROW = "application/vnd.apache.arrow.stream"
NPY = "application/x-npy"
JSON = "application/json"
JSON_LINES = "application/x-ndjson"

PIECE_BYTES = 16 << 20
"""Bytes of one request, about: a server takes 64 MiB unless it is told otherwise."""
PIECE_ROWS = 100_000

Arrays = Mapping[str, NDArray[np.float64]]


class Rows(Protocol):
    """Rows to predict. A body of JSON is the list of rows alone."""

    @property
    def media_type(self) -> str:
        """Content type of a body."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def row_bytes(self) -> float:
        """Bytes of a row, about."""

    def body(self, start: int, stop: int) -> bytes:
        """Return some rows as the service reads them."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the columns, in order; none where rows have none."""

    def restore(self, arrays: Arrays, kept: Sequence[str] = ()) -> Any:
        """Return arrays (m,) of all rows as the caller's kind, columns of the caller's that are kept before them."""


def rows_of(data: Any) -> Rows:
    """Return the rows of a frame, a dict of columns, a matrix or a list. ArgumentError for anything else, InvalidError
    for a bad one."""
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise InvalidError(f"expected a matrix (rows, columns), got an array of shape {data.shape}")
        if data.dtype.kind in "biuf":
            numbers = data.astype(np.uint8) if data.dtype.kind == "b" else data
            return _Matrix(matrix=numbers.astype(np.float64) if numbers.dtype == np.float16 else numbers)
        return _List(rows=data.tolist(), fields=True)
    if isinstance(data, list | tuple):
        return _List(rows=data, fields=False)
    table, frame = _table(data)
    return (_Columns if isinstance(data, Mapping) else _Frame)(table=table, frame=frame)


def json_rows(data: Any) -> list[bytes]:
    """Return the rows of a frame, a matrix or a list, each as JSON. TypeError, InvalidError as `rows_of`."""
    if isinstance(data, np.ndarray):
        cells: Sequence[Any] = data.tolist()
    elif isinstance(data, list | tuple):
        cells = data
    else:
        _, frame = _table(data)
        cells = [{str(name): cell for name, cell in row.items()} for row in frame.rows(named=True)]
    return [_json(row) for row in cells]


def frame_columns(data: Any) -> dict[str, list[Any]]:
    """Return the cells of a data frame by the names of its columns, None where one is missing. TypeError, InvalidError
    as `rows_of`."""
    table, _ = _table(data)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def table_file(data: Any) -> tuple[str, io.BytesIO]:
    """Return a file to train on, and a name that tells its kind."""
    if isinstance(data, np.ndarray):
        raise ArgumentError("an array has no names of columns: make a data frame of it, and name the target")
    if isinstance(data, list | tuple):
        if not data or not all(isinstance(row, Mapping) for row in data):
            raise ArgumentError("expected a list of dicts, one a row, by name of column")
        return "model.jsonl", io.BytesIO(b"\n".join(_json(row) for row in data) + b"\n")
    table, _ = _table(data)
    return "model.arrow", io.BytesIO(_stream(table))


def pieces(rows: Rows) -> Iterator[tuple[int, int]]:
    """Yield the first and one past the last row of each request; of no rows one request."""
    step = max(1, min(PIECE_ROWS, int(PIECE_BYTES / max(1.0, rows.row_bytes))))
    for start in range(0, max(1, rows.count), step):
        yield start, min(start + step, rows.count)


def _table(data: Any) -> tuple[pa.Table, "nw.DataFrame[Any]"]:
    """Return a frame as an Arrow table, without its index, and itself; of a dict of columns the table twice."""
    if isinstance(data, Mapping):
        table = _of_columns(data)
        return table, nw.from_native(table, eager_only=True)
    try:
        frame = nw.from_native(data, eager_only=True)
    except DuplicateError as error:
        names = [str(name) for name in getattr(data, "columns", ())]
        twice = sorted({name for name in names if names.count(name) > 1})
        which = f"the column {twice[0]!r} is there {names.count(twice[0])} times" if twice else str(error)
        raise InvalidError(f"{which}: every column needs a name of its own") from None
    except TypeError:
        kind = f"{type(data).__module__}.{type(data).__qualname__}"
        lazy = "; collect it first" if "Lazy" in kind else ""
        raise ArgumentError(
            "expected a data frame (pandas, polars, pyarrow), a dict of columns, a matrix or a list of dicts, "
            f"got {kind}{lazy}"
        ) from None
    several = next((name for name in frame.columns if isinstance(name, tuple)), None)
    if several is not None:
        raise InvalidError(
            f"the names of the columns have several levels (a MultiIndex), such as {several!r}: make one text of each, "
            "as in `df.columns = ['_'.join(map(str, name)) for name in df.columns]`"
        )
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidError(f"the column {twice[0]!r} is there twice")
    columns = [_column(series, name) for series, name in zip(frame.iter_columns(), names, strict=True)]
    return pa.table(dict(zip(names, columns, strict=True))), frame


def _of_columns(data: Mapping[Any, Any]) -> pa.Table:
    """Return a dict of columns, each a list or an array of one dimension, as an Arrow table."""
    if not data:
        raise InvalidError("the dict has no columns")
    single = [name for name, cells in data.items() if isinstance(cells, str | bytes) or not hasattr(cells, "__len__")]
    if len(single) == len(data):
        raise ArgumentError("expected rows, got one dict: put it in a list, or make each of its values a list of cells")
    if single:
        raise ArgumentError(
            f"column {str(single[0])!r}: expected a list or an array of cells, got {type(data[single[0]]).__name__}"
        )
    names = [str(name) for name in data]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidError(f"the column {twice[0]!r} is there twice")
    for name, cells in zip(names, data.values(), strict=True):
        if getattr(cells, "ndim", 1) != 1:
            raise InvalidError(f"column {name!r}: expected one cell for each row, got an array of shape {cells.shape}")
        if len(cells) != (rows := len(next(iter(data.values())))):
            raise InvalidError(f"column {name!r} has {len(cells):,} cells, and column {names[0]!r} has {rows:,}")
    return pa.table({name: _cells(cells, name) for name, cells in zip(names, data.values(), strict=True)})


def _cells(cells: Any, name: str) -> "pa.Array[Any] | pa.ChunkedArray[Any]":
    try:
        found: pa.Array[Any] | pa.ChunkedArray[Any] = pa.array(cells, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidError(f"column {name!r} cannot be sent: {error}; make it one of numbers, text or dates") from None
    return found


def _column(series: "nw.Series[Any]", name: str) -> "pa.ChunkedArray[Any]":
    try:
        return pa.chunked_array([series.to_arrow()])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidError(f"column {name!r} cannot be sent: {error}; make it one of numbers, text or dates") from None


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _json(value: object) -> bytes:
    """JSON of a value; what is not a number (NaN) is null, a missing cell."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS, default=_plain)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidError(f"the rows cannot be written as JSON: {error}") from None


def _plain(value: object) -> object:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"a cell is of type {type(value).__name__}")


@dataclass(slots=True, kw_only=True, eq=False)
class _Frame:
    table: pa.Table
    frame: "nw.DataFrame[Any]"

    @property
    def media_type(self) -> str:
        return ARROW if self.count else JSON  # a file without rows would be taken for a damaged one

    @property
    def count(self) -> int:
        return len(self.frame)

    @property
    def row_bytes(self) -> float:
        return self.table.nbytes / max(1, self.count)

    def body(self, start: int, stop: int) -> bytes:
        return _stream(self.table.slice(start, stop - start)) if self.count else b"[]"

    @property
    def names(self) -> Sequence[str]:
        return self.table.column_names

    def restore(self, arrays: Arrays, kept: Sequence[str] = ()) -> Any:
        made = nw.from_dict(dict(arrays), backend=self.frame.implementation).to_native()
        index = nw.maybe_get_index(self.frame)
        if index is not None:
            made.index = index
        if not kept:
            return made
        own = dict(zip(self.names, self.frame.columns, strict=True))  # pandas' names may be other than texts
        beside = self.frame.select([own[name] for name in kept]).rename(
            {own[name]: new for name, new in kept_names(dict.fromkeys(kept), arrays).items() if own[name] != new}
        )
        return nw.concat([beside, nw.from_native(made, eager_only=True)], how="horizontal").to_native()


@dataclass(slots=True, kw_only=True, eq=False)
class _Columns(_Frame):
    def restore(self, arrays: Arrays, kept: Sequence[str] = ()) -> Any:
        names = kept_names(dict.fromkeys(kept), arrays)
        own = {new: self.table.column(name).to_numpy(zero_copy_only=False) for name, new in names.items()}
        return own | dict(arrays)


@dataclass(slots=True, kw_only=True, eq=False)
class _Matrix:
    matrix: NDArray[Any]
    media_type: str = NPY

    @property
    def count(self) -> int:
        return len(self.matrix)

    @property
    def row_bytes(self) -> float:
        return float(self.matrix.itemsize * self.matrix.shape[1])

    def body(self, start: int, stop: int) -> bytes:
        file = io.BytesIO()
        np.save(file, np.ascontiguousarray(self.matrix[start:stop]), allow_pickle=False)
        return file.getvalue()

    @property
    def names(self) -> Sequence[str]:
        return ()

    def restore(self, arrays: Arrays, kept: Sequence[str] = ()) -> Any:
        del kept  # there are none
        return _with_fields(arrays, self.count)


@dataclass(slots=True, kw_only=True, eq=False)
class _List:
    rows: Sequence[Any]
    fields: bool
    media_type: str = JSON

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def row_bytes(self) -> float:
        some = self.rows[:100]
        return len(_json(list(some))) / max(1, len(some))

    def body(self, start: int, stop: int) -> bytes:
        return _json(list(self.rows[start:stop]))

    @property
    def names(self) -> Sequence[str]:
        return list(dict.fromkeys(str(name) for row in self.rows if isinstance(row, Mapping) for name in row))

    def restore(self, arrays: Arrays, kept: Sequence[str] = ()) -> Any:
        if self.fields:
            return _with_fields(arrays, self.count)
        columns = [array.tolist() for array in arrays.values()]
        made = [dict(zip(arrays, cells, strict=True)) for cells in zip(*columns, strict=True)]
        if not kept:
            return made
        names = kept_names(dict.fromkeys(kept), arrays)
        return [
            {new: row.get(name) for name, new in names.items()} | predicted
            for row, predicted in zip(self.rows, made, strict=True)
        ]


def _with_fields(arrays: Arrays, count: int) -> NDArray[Any]:
    made = np.empty(count, dtype=[(name, np.float64) for name in arrays])
    for name, array in arrays.items():
        made[name] = array
    return made
