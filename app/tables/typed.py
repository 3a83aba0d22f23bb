"""Parquet and Arrow IPC to blocks of text: a number becomes its shortest text, which reads back to the same bits."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.errors import Fault, InvalidRequestError, MalformedError
from app.tables.cells import TextChunk, to_numpy
from app.tables.incoming import Block, Incoming
from app.tables.limits import Limits
from app.tables.names import read_names
from app.tables.source import Source

_ROWS = 16_384  # rows of a Parquet file in a block
_DAMAGE = (pa.ArrowException, OSError, ValueError)


def open_parquet(source: Source) -> Incoming:
    """A Parquet file. Raises MalformedError for a damaged one, InvalidRequestError for columns that hold no cells."""
    with _said("Parquet"):
        file = pq.ParquetFile(_seekable(source))
        schema = file.schema_arrow
        texts = [field.name for field in schema if _is_text(field.type)]
        file = pq.ParquetFile(_seekable(source), read_dictionary=texts)
        source.limits.check_rows(file.metadata.num_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        with _said("Parquet"):
            yield from map(_checked, file.iter_batches(batch_size=_ROWS))

    return _incoming(schema, batches, source.limits, "Parquet")


def open_arrow(source: Source) -> Incoming:
    """An Arrow IPC file or stream."""
    with _said("Arrow"):
        opened = _seekable(source)
        reader: Any
        reader = pa.ipc.open_file(opened) if source.head().startswith(b"ARROW1") else pa.ipc.open_stream(opened)

    def batches() -> Iterator[pa.RecordBatch]:
        with _said("Arrow"):
            if isinstance(reader, pa.ipc.RecordBatchFileReader):
                for place in range(reader.num_record_batches):
                    yield _checked(reader.get_batch(place))
            else:
                for batch in reader:
                    yield _checked(batch)

    return _incoming(reader.schema, batches, source.limits, "Arrow")


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    return batch


def _seekable(source: Source) -> Any:
    """The bytes where a reader may jump about; what was compressed as a whole is unpacked first."""
    if source.compression() is None:
        origin = source.origin
        return pa.BufferReader(origin) if isinstance(origin, bytes) else pa.memory_map(str(origin))
    unpacked = io.BytesIO()
    with source.plain() as stream:
        while piece := stream.read(1 << 20):
            unpacked.write(piece)
    return pa.BufferReader(unpacked.getvalue())


def _incoming(
    schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]], limits: Limits, what: str
) -> Incoming:
    named = read_names(schema.names, limits)
    names = named.names
    for name, field in zip(names, schema, strict=True):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not _is_cell(kind):
            message = f"its type is {kind}: expected numbers, text, booleans, dates or timestamps"
            raise InvalidRequestError(f"column {name!r}: {message}", [Fault(column=name, message=message)])
    return Incoming(
        names=names,
        index=named.index,
        blocks=_blocks(names, batches, limits, what),
        header=f"the {what} file has columns",
        limits=limits,
    )


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_cell(kind: Any) -> bool:
    tests = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_string,
        pa.types.is_large_string, pa.types.is_date, pa.types.is_timestamp, pa.types.is_time, pa.types.is_null,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _blocks(
    names: tuple[str, ...], batches: Callable[[], Iterator[pa.RecordBatch]], limits: Limits, what: str
) -> Iterator[Block]:
    total = 0
    row = 0
    for batch in batches():
        for name, column in zip(names, batch.columns, strict=True):
            total += _text_bytes(column, name, row, limits)
            limits.check_bytes(total)
        row += batch.num_rows
        with _said(what):
            block = [_texts(column) for column in batch.columns]
        yield block


def _text_bytes(column: Any, name: str, row: int, limits: Limits) -> int:
    """How long the column is as text, before it is unpacked: a short dictionary may stand for very much."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths: Any = pc.binary_length(column.dictionary.cast(pa.string()))
    longest = pc.max(lengths).as_py() or 0
    if longest > 4 * limits.cell:
        raise limits.cell_is_too_long(f"rows from {row:,}, column {name!r}", longest)
    found: Any = pc.fill_null(lengths.take(column.indices), 0)
    return int(pc.sum(found).as_py() or 0)


def _texts(column: Any) -> TextChunk:
    """The cells as CSV would have written them."""
    kind = column.type
    result: Any
    if pa.types.is_dictionary(kind):
        return _texts(column.dictionary).take(column.indices)
    if pa.types.is_floating(kind):
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
def _said(what: str) -> Iterator[None]:
    """MalformedError for what Arrow finds damaged."""
    try:
        yield
    except InvalidRequestError:
        raise
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0][:200]
        raise MalformedError(f"the {what} file is damaged or uses what is not read here: {reason}") from error
