"""Many Parquet files as one table: their rows after each other, in the order of the files, read by ranges of rows.

What the names of their folders say (`month=6`) are columns too. Nothing is converted or copied: cells become text, as
those of an upload do (`arrow_files`), when a part of the rows is read, and nobody reads more than that. What stands for
the table is a small document with the files, what their columns are, and how numbers are written in columns of text.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import Any, BinaryIO, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.errors import Fault, InvalidRequestError, MalformedError
from app.file_version import FileVersion
from app.tables.columns.cell_errors import list_names
from app.tables.columns.cells import TextChunk
from app.tables.columns.number_formats import PLAIN, MarkCounts, NumberFormat, infer_formats
from app.tables.columns.table import Column, Table
from app.tables.columns.types import NOTHING, cast_name, common_type, meaning
from app.tables.read.arrow_files import ArrowColumns, arrow_columns, cells_as_text, refuse_damage
from app.tables.read.limits import Limits

FORMAT: Final = "pursuit-table-files/1"
_BATCH_ROWS = 1 << 14
PART_ROWS: Final = 1 << 16
"""Rows of a part, as a fit and a profile read it."""
MOST_GROUP_BYTES: Final = 1 << 30
"""Largest row group of a file, unpacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile(FileVersion):
    """A file of a table. groups: rows of each of its row groups; stored: its own names of the table's columns, after
    which come those of the partition."""

    groups: tuple[int, ...]
    stored: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Return how many rows it has."""
        return sum(self.groups)


Opener = Callable[[FileVersion], BinaryIO]
"""Opens a file of a table, which must be as it was found: ConflictError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSet:
    """Files of a table. location: folder that they lie in; names, index, types, notes and marks: as of a `Table`;
    casts: types of the columns that some files have by another one, where that makes other text of the same cells."""

    location: str
    files: tuple[TableFile, ...]
    names: tuple[str, ...]
    index: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    marks: Mapping[str, MarkCounts] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return how many rows the table has."""
        return sum(file.rows for file in self.files)

    def to_bytes(self) -> bytes:
        """Return a JSON document that `from_bytes` reads back."""
        document = {
            "format": FORMAT,
            "location": self.location,
            "files": [asdict(file) for file in self.files],
            "names": list(self.names),
            "index": list(self.index),
            "types": dict(self.types),
            "notes": list(self.notes),
            "marks": {name: tally.to_json() for name, tally in self.marks.items()},
            "casts": dict(self.casts),
        }
        return json.dumps(document, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "FileSet":
        """Read what `to_bytes` wrote. MalformedError for something else."""
        try:
            document = json.loads(data)
            if document["format"] != FORMAT:
                raise MalformedError(f"the files of a table have format {document['format']!r}, expected {FORMAT!r}")
            files = [
                TableFile(
                    address=str(file["address"]),
                    size=int(file["size"]),
                    version=str(file["version"]),
                    partition=tuple((str(name), _text(value)) for name, value in file.get("partition", ())),
                    groups=tuple(map(int, file["groups"])),
                    stored=tuple(map(str, file["stored"])),
                )
                for file in document["files"]
            ]
            return cls(
                location=str(document["location"]),
                files=tuple(files),
                names=tuple(map(str, document["names"])),
                index=tuple(map(str, document["index"])),
                types={str(name): str(kind) for name, kind in document["types"].items()},
                notes=tuple(map(str, document["notes"])),
                marks={str(name): MarkCounts.from_json(tally) for name, tally in document["marks"].items()},
                casts={str(name): str(kind) for name, kind in document.get("casts", {}).items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(f"these are not the files of a table: {error!r}") from error


def read_file_set(location: str, found: Sequence[FileVersion], opener: Opener, limits: Limits) -> FileSet:
    """Return the table of Parquet files by their footers, and how numbers are written in their columns of text, which
    alone are read. A column of the partition that the files have too is theirs. Raises InvalidRequestError naming file
    and column where the files do not agree, TooLargeError, MalformedError naming the file, and what `opener` does."""
    files, common, rows, size = list[TableFile](), None, 0, 0
    for each in found:
        with opener(each) as stream, _named(each), refuse_damage("Parquet"):
            footer = pq.ParquetFile(stream)
            columns, metadata = arrow_columns(footer.schema_arrow, limits, "Parquet"), footer.metadata
            groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        common = common or _CommonColumns(found[0], columns)
        stored = common.add(each, columns)
        for place, group in enumerate(groups):
            if group.total_byte_size > MOST_GROUP_BYTES:
                _refuse(
                    each,
                    None,
                    f"its row group {place} has {group.total_byte_size:,} bytes, more than {MOST_GROUP_BYTES:,}: write "
                    "it with smaller row groups, such as of 100,000 rows",
                )
        rows, size = rows + metadata.num_rows, size + sum(group.total_byte_size for group in groups)
        limits.check_rows(rows)
        limits.check_bytes(size)
        files.append(TableFile(**asdict(each), groups=tuple(group.num_rows for group in groups), stored=tuple(stored)))
    if common is None or not rows:
        raise InvalidRequestError(f"location: the Parquet files of {location} have no rows")
    first = common.columns
    partition = [name for name, _ in found[0].partition if name not in first.names]
    marks = {name: MarkCounts() for name in (*first.texts, *partition)}
    found_set = FileSet(
        location=location,
        files=tuple(files),
        names=(*first.names, *partition),
        index=first.index,
        types=first.types,
        notes=tuple(first.notes),
        marks=marks,
        casts=common.casts,
    )
    if marks:
        for block in _blocks(found_set, opener, list(marks), range(rows), limits):
            for name, texts in block.items():
                marks[name].add(texts)
    return found_set


def file_set_table(found: FileSet, opener: Opener) -> Table:
    """A table over the files; rows are read when they are asked for, a column of all of them as a whole only where
    someone asks for that. Raises as `opener`, and MalformedError."""
    formats = infer_formats(found.marks, None)

    def read(names: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        for first in range(0, found.rows, PART_ROWS):
            yield _columns(found, opener, names, range(first, min(first + PART_ROWS, found.rows)), formats)

    columns = _WholeColumns(found, opener, formats)
    return Table(
        names=found.names,
        columns=columns,
        rows=found.rows,
        marks=found.marks,
        notes=found.notes,
        index=found.index,
        types=found.types,
        parts=read,
    )


def file_set_rows(found: FileSet, opener: Opener, names: Sequence[str], rows: range) -> Table:
    """Read these columns of some rows. Memory: these, and pages of a row group. Raises as `file_set_table`."""
    columns = _columns(found, opener, names, rows, infer_formats(found.marks, None))
    return Table(names=tuple(names), columns=columns, rows=len(rows), marks=found.marks, types=found.types)


def file_set_parts(found: FileSet, opener: Opener, names: Sequence[str]) -> Iterator[Table]:
    """Read these columns of the files some rows at a time, _BATCH_ROWS at most. Memory: these, and pages of a row
    group. Raises as `file_set_table`."""
    for block in _blocks(found, opener, names, range(found.rows), None):
        columns = {name: Column(texts=pa.chunked_array([texts], pa.string())) for name, texts in block.items()}
        rows = len(next(iter(block.values())))
        yield Table(names=tuple(names), columns=columns, rows=rows, marks=found.marks, types=found.types)


def _columns(
    found: FileSet, opener: Opener, names: Sequence[str], rows: range, formats: Mapping[str, NumberFormat]
) -> dict[str, Column]:
    chunks: dict[str, list[TextChunk]] = {name: [] for name in names}
    for block in _blocks(found, opener, names, rows, None):
        for name, texts in block.items():
            chunks[name].append(texts)
    return {
        name: Column(texts=pa.chunked_array(texts, pa.string()), number_format=formats.get(name, PLAIN))
        for name, texts in chunks.items()
    }


def _blocks(
    found: FileSet, opener: Opener, names: Sequence[str], rows: range, limits: Limits | None
) -> Iterator[dict[str, TextChunk]]:
    """Iterate over the cells of these rows as text. limits: of their length, None where they were checked before."""
    places = {name: found.names.index(name) for name in names}
    start = 0
    for each in found.files:
        begin, end = max(rows.start - start, 0), min(rows.stop - start, each.rows)
        if begin < end:
            of_rows = {name: each.stored[place] for name, place in places.items() if place < len(each.stored)}
            values = dict(each.partition)
            with opener(each) as stream, _named(each), refuse_damage("Parquet"):
                for first, batch in _batches(stream, each, list(of_rows.values()), begin, end):
                    block = {
                        name: cells_as_text(batch.column(of_rows[name]), name, start + first, found.casts.get(name))
                        if name in of_rows
                        else pa.repeat(pa.scalar(values[name], pa.string()), batch.num_rows)
                        for name in names
                    }
                    if limits is not None:
                        _check_cells(block, start + first, limits)
                    yield block
        start += each.rows


def _batches(
    stream: BinaryIO, each: TableFile, stored: Sequence[str], begin: int, end: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Iterate over rows `begin` to `end` of a file, each batch with the number of its first."""
    ends = [*accumulate(each.groups)]
    starts = [last - rows for last, rows in zip(ends, each.groups, strict=True)]
    groups = [place for place, last in enumerate(ends) if starts[place] < min(end, last) and last > begin]
    row = starts[groups[0]]
    file = pq.ParquetFile(stream)
    for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(stored), use_threads=False):
        low, high = max(begin - row, 0), min(end - row, batch.num_rows)
        if low < high:
            kept = batch.slice(low, high - low)
            kept.validate(full=True)
            yield row + low, kept
        row += batch.num_rows
        if row >= end:
            return
    if row < end:
        raise MalformedError(f"it ends after {row:,} of {each.rows:,} rows")


def _check_cells(block: Mapping[str, TextChunk], row: int, limits: Limits) -> None:
    for name, texts in block.items():
        lengths: Any = pc.call_function("utf8_length", [texts])
        longest = pc.max(lengths).as_py() or 0
        if longest > limits.cell:
            raise limits.cell_is_too_long(f"rows from {row:,}, column {name!r}", longest)


class _CommonColumns:
    """Columns of the first file, by types that hold the cells of all files."""

    def __init__(self, file: FileVersion, columns: ArrowColumns) -> None:
        self._first, self.columns = file, columns
        self._mixed: set[str] = set()
        self._files = dict.fromkeys(columns.names, file)  # the first that has cells of a column

    @property
    def casts(self) -> dict[str, str]:
        """Return the types that columns are cast to, see `FileSet`."""
        return {name: cast for name in self._mixed if (cast := cast_name(self.columns.kinds[name])) is not None}

    def add(self, each: FileVersion, columns: ArrowColumns) -> list[str]:
        """Return what a file itself calls the columns. InvalidRequestError where it has others, or other cells."""
        self._check_names(each, columns)
        kinds = dict(self.columns.kinds)
        for name in self.columns.names:
            own, others = columns.kinds[name], kinds[name]
            common = common_type(others, own)
            if common is None:
                message = f"its column {name!r} has {meaning(own)}, and {meaning(others)} in {self._files[name].name!r}"
                _refuse(each, name, f"{message}: write it alike in all files")
            if meaning(others) == NOTHING:
                self._files[name] = each
            elif own != others and meaning(own) != NOTHING:
                self._mixed.add(name)
            kinds[name] = common
        self.columns = replace(self.columns, kinds=kinds)
        return [columns.stored[name] for name in self.columns.names]

    def _check_names(self, each: FileVersion, columns: ArrowColumns) -> None:
        names, first = self.columns.names, self._first
        folders, first_folders = [[name for name, _ in file.partition] for file in (each, first)]
        if folders != first_folders:
            has, others = (list_names(some) if some else "none" for some in (folders, first_folders))
            _refuse(each, None, f"its folders say values of {has}, and those of {first.name!r} of {others}")
        missing = [name for name in names if name not in columns.names]
        more = [name for name in columns.names if name not in names]
        if missing:
            _refuse(each, missing[0], f"it has no column {list_names(missing)}, which {first.name!r} has")
        if more:
            _refuse(each, more[0], f"{first.name!r} has no column {list_names(more)}, which it has")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _refuse(each: FileVersion, column: str | None, message: str) -> NoReturn:
    raise InvalidRequestError(
        f"location: file {each.name!r}: {message}", [Fault(column=column, value=each.name, message=message)]
    )


@contextmanager
def _named(each: FileVersion) -> Iterator[None]:
    """Add the name of a file to what is wrong with it."""
    try:
        yield
    except (MalformedError, InvalidRequestError) as error:
        raise type(error)(f"location: file {each.name!r}: {error.message}", error.faults, error.total) from error


class _WholeColumns(Mapping[str, Column]):
    """Columns of all rows. The last one asked for is kept."""

    def __init__(self, found: FileSet, opener: Opener, formats: Mapping[str, NumberFormat]) -> None:
        self._found, self._opener, self._formats = found, opener, formats
        self._last: tuple[str, Column] | None = None

    def __getitem__(self, name: str) -> Column:
        if name not in self._found.names:
            raise KeyError(name)
        if self._last is None or self._last[0] != name:
            rows = range(self._found.rows)
            self._last = name, _columns(self._found, self._opener, [name], rows, self._formats)[name]
        return self._last[1]

    def __contains__(self, name: object) -> bool:
        return name in self._found.names

    def __iter__(self) -> Iterator[str]:
        return iter(self._found.names)

    def __len__(self) -> int:
        return len(self._found.names)
