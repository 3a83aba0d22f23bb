"""Parquet and Arrow IPC to blocks of text: a number becomes its shortest text, which reads back to the same bits."""

import io
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.errors import Fault, InvalidRequestError, MalformedError
from app.tables.columns.cell_errors import list_names
from app.tables.columns.cells import TextChunk, to_numpy
from app.tables.columns.number_formats import MarkCounts
from app.tables.columns.types import as_type, is_text, type_name
from app.tables.read.limits import Limits
from app.tables.read.names import read_names
from app.tables.read.source import Source
from app.tables.read.text_blocks import Block, TextBlocks
from app.tables.read.unpacked_sizes import check_arrow, check_parquet

_ROWS = 16_384  # rows of a Parquet file in a block
_DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, EOFError, IndexError, struct.error)


def open_parquet(source: Source) -> TextBlocks:
    """A Parquet file. Raises MalformedError for a damaged one, InvalidRequestError for columns that hold no cells."""
    with refuse_damage("Parquet"):
        opened = _seekable(source)
        file = pq.ParquetFile(opened)
        source.limits.check_columns(file.metadata.num_columns)
        check_parquet(_buffer(opened), file.metadata, source.limits)
        schema = file.schema_arrow
        texts = [field.name for field in schema if is_text(field.type)]
        file = pq.ParquetFile(_seekable(source), read_dictionary=texts)
        source.limits.check_rows(file.metadata.num_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        with refuse_damage("Parquet"):
            yield from map(_checked, file.iter_batches(batch_size=_ROWS))

    return _text_blocks(schema, batches, source.limits, "Parquet")


def open_arrow(source: Source) -> TextBlocks:
    """An Arrow IPC file or stream."""
    with refuse_damage("Arrow"):
        opened = _seekable(source)
        is_file = source.head().startswith(b"ARROW1")
        check_arrow(_buffer(opened), source.limits, is_file=is_file)
        reader: Any
        reader = pa.ipc.open_file(opened) if is_file else pa.ipc.open_stream(opened)

    def batches() -> Iterator[pa.RecordBatch]:
        with refuse_damage("Arrow"):
            if isinstance(reader, pa.ipc.RecordBatchFileReader):
                for place in range(reader.num_record_batches):
                    yield _checked(reader.get_batch(place))
            else:
                for batch in reader:
                    yield _checked(batch)

    return _text_blocks(reader.schema, batches, source.limits, "Arrow")


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    return batch


def _seekable(source: Source) -> Any:
    """The bytes where a reader may jump about; what was compressed as a whole is unpacked first."""
    if source.compression() is None:
        origin = source.origin
        return pa.BufferReader(origin) if isinstance(origin, bytes) else pa.memory_map(str(origin))
    unpacked = io.BytesIO()
    with source.decompressed() as stream:
        while piece := stream.read(1 << 20):
            unpacked.write(piece)
    return pa.BufferReader(unpacked.getvalue())


def _buffer(opened: Any) -> Any:
    """Return all the bytes, without a copy; the reader is at its start again."""
    opened.seek(0)
    found = opened.read_buffer()
    opened.seek(0)
    return found


def _text_blocks(
    schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]], limits: Limits, what: str
) -> TextBlocks:
    columns = arrow_columns(schema, limits, what)
    return TextBlocks(
        names=columns.names,
        index=columns.index,
        blocks=_blocks(columns.names, batches, limits, what),
        header=f"the {what} file has columns",
        limits=limits,
        marks={name: MarkCounts() for name in columns.texts},
        tally=True,
        notes=columns.notes,
        types=columns.types,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowColumns:
    """Columns of a schema by the names that the table gives them. index: names of a data frame's index; kinds: types of
    the cells; stored: names in the schema."""

    names: tuple[str, ...]
    index: tuple[str, ...]
    kinds: Mapping[str, Any]
    stored: Mapping[str, str]

    @property
    def texts(self) -> list[str]:
        """Return the columns of text."""
        return [name for name, kind in self.kinds.items() if is_text(kind)]

    @property
    def types(self) -> dict[str, str]:
        """Return the types that a table keeps, see `app.tables.columns.types`."""
        return {name: known for name, kind in self.kinds.items() if (known := type_name(kind)) is not None}

    @property
    def notes(self) -> list[str]:
        """Return what a person should know of the reading."""
        durations = [name for name, kind in self.kinds.items() if pa.types.is_duration(kind)]
        return [f"{list_names(durations)}: a duration is read as days"] if durations else []


def arrow_columns(schema: pa.Schema, limits: Limits, what: str) -> ArrowColumns:
    """Return the columns of a file's schema. InvalidRequestError for one that holds no cells."""
    with refuse_damage(what):
        given = schema.names  # which need not be UTF-8
    named = read_names(given, limits)
    kinds = {name: _cell_type(field.type) for name, field in zip(named.names, schema, strict=True)}
    for name, field in zip(named.names, schema, strict=True):
        if not _is_cell(kinds[name]):
            _refuse_type(name, field.type)
    stored = dict(zip(named.names, given, strict=True))
    return ArrowColumns(names=named.names, index=named.index, kinds=kinds, stored=stored)


def cells_as_text(column: Any, name: str, row: int, cast: str | None = None) -> TextChunk:
    """Return the cells of a column as text, as CSV would have written them. row: number of the first, for refusals;
    cast: name of the type that they have in the table, see `as_type`."""
    return _valid_texts(_unwrap(column, name, row), name, row, cast)


def _refuse_type(name: str, kind: object, more: str = "") -> NoReturn:
    message = f"its type is {kind}{more}: expected numbers, text, booleans, dates, times or timestamps"
    raise InvalidRequestError(f"column {name!r}: {message}", [Fault(column=name, message=message)])


def _cell_type(kind: Any) -> Any:
    """The type of the cells inside dictionaries, runs, extension types and lists, which may be lists of one."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) or _is_list(kind):
        return _cell_type(kind.value_type)
    return _cell_type(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def _is_list(kind: Any) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _is_cell(kind: Any) -> bool:
    tests = (
        is_text, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
        pa.types.is_date, pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration, pa.types.is_null,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _blocks(
    names: tuple[str, ...], batches: Callable[[], Iterator[pa.RecordBatch]], limits: Limits, what: str
) -> Iterator[Block]:
    total = 0
    row = 0
    for batch in batches():
        limits.check_rows(row + batch.num_rows)  # before runs and nulls, which take no room in the file, are unpacked
        columns = []
        for name, stored in zip(names, batch.columns, strict=True):
            column = _unwrap(stored, name, row)
            total += _text_bytes(column, name, row, limits)
            limits.check_bytes(total)
            columns.append(column)
        with refuse_damage(what):
            block = [_valid_texts(column, name, row) for name, column in zip(names, columns, strict=True)]
        row += batch.num_rows
        yield block


def _unwrap(column: Any, name: str, row: int) -> Any:
    """The column without what its cells are wrapped in, dictionaries aside; row: its first, for the refusal of lists
    that are not of one cell.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _unwrap(column.storage, name, row)
    if pa.types.is_run_end_encoded(kind):
        return _unwrap(pc.call_function("run_end_decode", [column]), name, row)
    if not _is_list(kind):
        return column
    lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 1))
    wrong = np.flatnonzero(lengths != 1)
    if len(wrong):
        _refuse_type(name, kind, f", with {lengths[wrong[0]]} cells in row {row + int(wrong[0]):,}")
    return _unwrap(pc.list_element(column, 0), name, row)


def _text_bytes(column: Any, name: str, row: int, limits: Limits) -> int:
    """Return how long the column is as text, before it is unpacked: a short dictionary may stand for very much."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    texts: Any = _valid_texts(column.dictionary, name, row)
    lengths: Any = pc.binary_length(texts)
    longest = pc.max(lengths).as_py() or 0
    if longest > 4 * limits.cell:
        raise limits.cell_is_too_long(f"rows from {row:,}, column {name!r}", longest)
    found: Any = pc.fill_null(lengths.take(column.indices), 0)
    return int(pc.sum(found).as_py() or 0)


def _valid_texts(column: Any, name: str, row: int, cast: str | None = None) -> TextChunk:
    """Return `_texts`; InvalidRequestError naming the column where cells have none, such as bytes that are no UTF-8."""
    try:
        return _texts(column if cast is None else as_type(column, cast))
    except pa.ArrowException as error:
        reason = str(error).partition("\n")[0][:200]
        _refuse_type(name, column.type, f", whose cells from row {row:,} on cannot be read as text ({reason})")


def _texts(column: Any) -> TextChunk:
    """The cells as CSV would have written them."""
    kind = column.type
    result: Any
    if pa.types.is_dictionary(kind):
        return _texts(column.dictionary).take(column.indices)
    if pa.types.is_duration(kind):
        day: Any = pa.scalar(timedelta(days=1), pa.duration("us")).cast(kind)
        column = pc.divide(column.cast(pa.int64()).cast(pa.float64()), float(day.value))
    if pa.types.is_floating(column.type):
        values: Any = to_numpy(column.cast(pa.float64()))
        kept = [None if value != value else repr(value) for value in values.tolist()]  # noqa: PLR0124  NaN is missing
        result = pa.array(kept, pa.string())
    elif pa.types.is_timestamp(kind):
        plain: Any = pc.cast(column, pa.timestamp("us", tz=kind.tz), safe=False)
        result = pc.strftime(plain.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S")
    else:
        result = column.cast(pa.string())
    chunk: TextChunk = result
    return chunk


@contextmanager
def refuse_damage(what: str) -> Iterator[None]:
    """MalformedError for what Arrow finds damaged."""
    try:
        yield
    except (InvalidRequestError, MemoryError):  # memory: of the process that reads, which says so
        raise
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0][:200]
        raise MalformedError(f"the {what} file is damaged or uses what is not read here: {reason}") from error
