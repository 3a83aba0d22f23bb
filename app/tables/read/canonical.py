"""The canonical form of every upload: one Parquet file with the cells as text, whatever the upload's own format was.

Text, because the cells stay as they came: how a column is read is decided when it is trained on, and may be decided
otherwise the next time (`02134` is a number or a category, never both lost). Equal uploads give equal bytes. Columns
are read one at a time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import MalformedError, UnavailableError
from app.tables.columns.number_formats import PLAIN, MarkCounts, NumberFormat, infer_formats
from app.tables.columns.read_options import AUTODETECT, ReadOptions
from app.tables.columns.table import Column, PartReader, Table
from app.tables.read.text_blocks import BlockChecker, TextBlocks

_FORMAT = "pursuit-table/1"
_KEY = b"pursuit"
_GROUP_BYTES, _GROUP_ROWS = 8 << 20, 1 << 16  # of text in a row group; of a large table each is read by itself
_KEPT_BYTES = 64 << 20  # a table with less text than this is kept in memory once read


def write_text_blocks(path: Path, text_blocks: TextBlocks, read_options: ReadOptions = AUTODETECT) -> None:
    """Write a file that is being read. read_options: how it was to be read. Memory: a row group."""
    checker = BlockChecker(text_blocks)
    schema = pa.schema([pa.field(name, pa.string()) for name in text_blocks.names])
    with _writer(path, schema) as writer:
        waiting: list[pa.RecordBatch] = []
        for block in checker.blocks():
            waiting.append(pa.record_batch(list(block), schema=schema))
            rows = sum(batch.num_rows for batch in waiting)
            whole = rows - rows % _GROUP_ROWS  # parts that are read by themselves end where groups do
            if sum(batch.nbytes for batch in waiting) >= _GROUP_BYTES:
                whole = rows
            if whole:
                text = pa.Table.from_batches(waiting, schema)
                writer.write_table(text.slice(0, whole), row_group_size=_GROUP_ROWS)
                waiting = text.slice(whole).to_batches()
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, schema))
        writer.add_key_value_metadata(_metadata(checker.rows, text_blocks, read_options))


def write_table(path: Path, table: Table) -> None:
    """Write a table in memory."""
    schema = pa.schema([pa.field(name, pa.string()) for name in table.names])
    texts = pa.Table.from_arrays([table.columns[name].texts for name in table.names], schema=schema)
    with _writer(path, schema) as writer:
        writer.write_table(texts, row_group_size=_GROUP_ROWS)
        writer.add_key_value_metadata(_metadata(table.rows, table, table.read_options))


def join_canonical(path: Path, first: Path, second: Path, meant: Mapping[str, str]) -> None:
    """Write the rows of two canonical files as one, with the names and options of the first. meant: what the second
    calls each of its columns. Memory: a row group. Raises as `open_canonical`.
    """
    table, more = open_canonical(first), open_canonical(second)
    schema = pa.schema([pa.field(name, pa.string()) for name in table.names])
    with _writer(path, schema) as writer:
        for source, names in ((first, table.names), (second, tuple(meant[name] for name in table.names))):
            with pq.ParquetFile(source) as file:
                for group in range(file.metadata.num_row_groups):
                    rows = file.read_row_group(group, columns=list(names))
                    columns = [rows.column(name) for name in names]
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        none = MarkCounts()
        marks = {name: table.marks.get(name, none) + more.marks.get(meant[name], none) for name in table.names}
        joined = replace(table, rows=table.rows + more.rows, marks=marks)
        writer.add_key_value_metadata(_metadata(joined.rows, joined, table.read_options))


def open_canonical(path: Path | BinaryIO) -> Table:
    """A table over the file; a column is read when it is asked for. Raises MalformedError if it is something else,
    UnavailableError if it may not be read.
    """
    try:
        file = pq.ParquetFile(path, memory_map=True)
        document = json.loads((file.metadata.metadata or {})[_KEY])
        if document["format"] != _FORMAT:
            raise MalformedError(f"the table has format {document['format']!r}, expected {_FORMAT!r}")
        marks, separator = _read_marks(document, file.schema_arrow.names)
        read_options = ReadOptions.from_json(document.get("said", {}))
        number_formats = infer_formats(marks, separator, decimal=read_options.decimal, thousands=read_options.thousands)
        columns = _Columns(file, number_formats)
        return Table(
            parts=None if file.metadata.num_row_groups < 2 else _part_reader(path, number_formats),
            names=tuple(columns),
            columns=columns,
            rows=int(document["rows"]),
            marks=marks,
            separator=separator,
            read_options=read_options,
            notes=tuple(str(note) for note in document["notes"]),
            index=tuple(str(name) for name in document.get("index", ())),
            types={str(name): str(kind) for name, kind in document.get("types", {}).items()},
        )
    except PermissionError as error:
        raise UnavailableError(f"the stored table cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise MalformedError(f"the stored table is damaged: {error}") from error


def canonical_parts(path: Path, names: Sequence[str], *, rows: int) -> Iterator[Table]:
    """Read these columns of the file a part of at most so many rows at a time, with the marks of the whole. Memory: a
    row group and a part. Raises as `open_canonical`.
    """
    whole = open_canonical(path)
    try:
        # Not mapped: pages of the file that were read would stay with the process.
        with pq.ParquetFile(path, buffer_size=1 << 16) as file:
            for batch in file.iter_batches(
                batch_size=rows, columns=list(names), use_threads=False
            ):  # by name: "a" also reads "a.b"
                columns = {name: Column(texts=pa.chunked_array([batch.column(name)])) for name in names}
                yield replace(whole, names=tuple(names), columns=columns, rows=batch.num_rows, parts=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MalformedError(f"the stored table is damaged: {error}") from error


def _part_reader(path: Path | BinaryIO, number_formats: Mapping[str, NumberFormat]) -> PartReader:
    """Return what reads the file by parts of a row group, or of several small ones. Memory: a part of the columns asked
    for."""

    def read(names: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        file = _opened(path)
        try:
            for groups in _parts(file.metadata, len(names)):
                part: Any = file.read_row_groups(groups, columns=list(names), use_threads=False)
                yield {
                    name: Column(texts=part.column(name), number_format=number_formats.get(name, PLAIN))
                    for name in names
                }
        except (pa.ArrowException, OSError, ValueError) as error:
            raise MalformedError(f"the stored table is damaged: {error}") from error

    return read


def _parts(metadata: Any, columns: int) -> Iterator[list[int]]:
    """Row groups to read together: up to _GROUP_ROWS rows, of so many columns up to _GROUP_BYTES."""
    groups, rows, size = list[int](), 0, 0.0
    for place in range(metadata.num_row_groups):
        group = metadata.row_group(place)
        own = group.total_byte_size * columns / metadata.num_columns
        if groups and (rows + group.num_rows > _GROUP_ROWS or size + own > _GROUP_BYTES):
            yield groups
            groups, rows, size = [], 0, 0.0
        groups, rows, size = [*groups, place], rows + group.num_rows, size + own
    yield groups


def canonical_rows(path: Path | BinaryIO, names: Sequence[str], rows: range) -> Table:
    """Read these columns of some rows, with the marks of the whole. Memory: their row groups. Raises as
    `open_canonical`."""
    whole, file = open_canonical(path), _opened(path)
    try:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        ends = list(accumulate(sizes))
        groups = [
            group
            for group, end in enumerate(ends)
            if end > rows.start and end - sizes[group] < rows.stop and sizes[group]
        ]
        first = ends[groups[0]] - sizes[groups[0]] if groups else 0
        read: Any = file.read_row_groups(groups, columns=list(names)).slice(rows.start - first, len(rows))
        columns = {name: Column(texts=read.column(name)) for name in names}
        return replace(whole, names=tuple(names), columns=columns, rows=read.num_rows, parts=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MalformedError(f"the stored table is damaged: {error}") from error


def _opened(path: Path | BinaryIO) -> pq.ParquetFile:
    """The file, not mapped: pages of it that were read would stay with the process."""
    try:
        return pq.ParquetFile(path, buffer_size=1 << 16)
    except PermissionError as error:
        raise UnavailableError(f"the stored table cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MalformedError(f"the stored table is damaged: {error}") from error


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1, write_statistics=False)


def _metadata(rows: int, read: TextBlocks | Table, read_options: ReadOptions) -> dict[str, str]:
    document: dict[str, Any] = {"format": _FORMAT, "rows": rows, "notes": list(read.notes)}
    document |= {"separator": read.separator, "marks": {name: tally.to_json() for name, tally in read.marks.items()}}
    document["said"] = read_options.to_json()
    if read.index:
        document["index"] = list(read.index)
    if read.types:
        document["types"] = dict(read.types)
    return {_KEY.decode(): json.dumps(document)}


def _read_marks(document: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, MarkCounts], str | None]:
    """The tallies and the separator; older files have one decimal mark for all columns."""
    if "marks" not in document:
        comma = document["decimal"] == ","
        marks = {name: MarkCounts(decimal_commas=int(comma), decimal_points=int(not comma)) for name in names}
    else:
        marks = {str(name): MarkCounts.from_json(tally) for name, tally in document["marks"].items()}
    return marks, document.get("separator")


class _Columns(Mapping[str, Column]):
    """Columns of the file. A small table is kept, of a large one the last column."""

    def __init__(self, file: pq.ParquetFile, number_formats: Mapping[str, NumberFormat]) -> None:
        self._file = file
        self._forms = number_formats
        self._names = dict.fromkeys(file.schema_arrow.names)
        self._read: dict[str, Column] = {}
        groups = range(file.metadata.num_row_groups)
        self._keep = sum(file.metadata.row_group(group).total_byte_size for group in groups) <= _KEPT_BYTES

    def __getitem__(self, name: str) -> Column:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            if not self._keep:
                self._read.clear()
            texts: Any = self._file.read([name]).column(name)  # by name: "a" also reads "a.b"
            self._read[name] = Column(texts=texts, number_format=self._forms.get(name, PLAIN))
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
