"""Split of a CSV table into training rows and rows held back; both stay as the file was written.

One pass to choose, one to write: a large file never lies in memory.
"""

import codecs
import csv
import gzip
import io
import math
import random
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from app.cli.client import ClientError

BUNDLED = Path(__file__).with_name("flights.csv")
"""6,000 flights; see flights.md beside it."""

SEED = 7
_MAX_HELD_BACK = 1_000
_SHARE_HELD_BACK = 6  # one row in six of a small table
_MIN_ROWS = 12
_GZIP = b"\x1f\x8b"
_SNIFF_BYTES = 1 << 20  # bytes that tell the encoding
_MAX_NAMES = 12  # of columns that a message lists
_MAX_CELL_BYTES = 1 << 27  # csv's own limit of 128 KiB refuses long text cells; the server has limits of its own


class TableError(ClientError):
    """The file cannot be shown to the demo; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Split of a table.

    training: the file to upload. rows: those held back, without the target, under the names of `header`.

    truth: the targets of the rows held back.

    numbers: the row of each of them in the person's file, from 0, in the same order.
    """

    target: str
    training: Path
    training_rows: int
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    truth: tuple[float, ...]
    delimiter: str

    @property
    def held_back(self) -> bytes:
        """The rows held back as a CSV table, for /predict."""
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue().encode()

    def without(self, places: Container[int]) -> "Split":
        """Copy without the held-back rows at these positions, from 0."""
        kept = [place for place in range(len(self.rows)) if place not in places]
        return replace(
            self,
            rows=tuple(self.rows[place] for place in kept),
            numbers=tuple(self.numbers[place] for place in kept),
            truth=tuple(self.truth[place] for place in kept),
        )


def split(source: Path, folder: Path, *, target: str | None = None, seed: int = SEED) -> Split:
    """Hold back some of the rows that have a number as target: 1,000, or one in six of a small table.

    target: a name of the header, by default the last. The other rows are written into `folder`.
    Raises TableError.
    """
    with _rows(source) as (header, rows, delimiter):
        place = _place(source, header, target)
        names = [name.strip() for name in header]
        target = names[place] if names.count(names[place]) == 1 else header[place]
        usable, figures = [], [0] * len(header)
        for number, row in enumerate(rows, 1):
            if _number(row, place, delimiter) is not None:
                usable.append(number)
            if number <= _MIN_ROWS:  # enough to tell which columns are of numbers
                figures = [count + (_number(row, at, delimiter) is not None) for at, count in enumerate(figures)]
    count = min(_MAX_HELD_BACK, len(usable) // _SHARE_HELD_BACK)
    if len(usable) < _MIN_ROWS:
        others = [name for name, count in zip(names, figures, strict=True) if name and count > 0]
        raise TableError(
            f"{source.name} has {len(usable)} rows with a number in {target!r}; the demo needs at least {_MIN_ROWS}"
            + (f". Name another column with --target: {', '.join(others[:_MAX_NAMES])}" if others else "")
        )
    chosen = frozenset(random.Random(seed).sample(usable, count))
    return _write(source, folder, target, place, chosen)


def _place(source: Path, header: list[str], target: str | None) -> int:
    """Return where the target is: the last column with a name, or the one of that name, if need be without blanks."""
    if target is None:
        return max(place for place, name in enumerate(header) if name.strip())
    if target in header:
        return header.index(target)
    places = [place for place, name in enumerate(header) if name.strip() == target.strip()]
    if not places:
        known = ", ".join(name.strip() for name in header)
        raise TableError(f"{source.name} has no column {target!r}; its columns are {known}")
    if len(places) > 1:
        raise TableError(f"{source.name}: {target!r} may be any of {[header[place] for place in places]}")
    return places[0]


def _write(source: Path, folder: Path, target: str, place: int, chosen: frozenset[int]) -> Split:
    training = folder / f"{source.name.removesuffix('.gz').rpartition('.')[0] or 'table'}.csv"
    held_back: list[tuple[str, ...]] = []
    numbers: list[int] = []
    truth: list[float] = []
    written = 0
    with _rows(source) as (header, rows, delimiter), training.open("w", encoding="utf-8", newline="") as out:
        learn = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        learn.writerow(header)
        names = tuple(name for position, name in enumerate(header) if position != place)
        for number, row in enumerate(rows, 1):
            value = _number(row, place, delimiter)
            if number in chosen and value is not None:
                held_back.append(tuple(cell for position, cell in enumerate(row) if position != place))
                numbers.append(number - 1)
                truth.append(value)
            else:
                learn.writerow(row)
                written += 1
    return Split(
        target=target,
        training=training,
        training_rows=written,
        header=names,
        rows=tuple(held_back),
        numbers=tuple(numbers),
        truth=tuple(truth),
        delimiter=delimiter,
    )


@contextmanager
def _rows(source: Path) -> Iterator[tuple[list[str], Iterator[list[str]], str]]:
    """Open a CSV file; yield its header, its rows that have any cell, and the delimiter."""
    usual = csv.field_size_limit(_MAX_CELL_BYTES)  # the limit is the process's: put back at the end
    try:
        with _text(source) as text:
            first = text.readline()
            delimiter = max(",\t;|", key=first.count)
            text.seek(0)
            reader = csv.reader(text, delimiter=delimiter)
            header = next(reader, [])
            if not any(name.strip() for name in header):
                raise TableError(f"{source.name} is empty: a header line and rows are needed")
            yield header, (row for row in reader if row), delimiter
    except (UnicodeError, csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise TableError(f"{source.name} is not a CSV table: {error}") from None
    finally:
        csv.field_size_limit(usual)


@contextmanager
def _text(source: Path) -> Iterator[TextIO]:
    with source.open("rb") as raw:
        packed = raw.read(len(_GZIP)) == _GZIP
    with gzip.open(source) if packed else source.open("rb") as plain:
        start = plain.read(_SNIFF_BYTES)
        encoding = _encoding(start)
        if encoding != "utf-16" and (b"\0" in start or start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")):
            raise TableError(
                f"{source.name} is not a CSV table, and the demo reads no other; `pursuit train` reads JSON Lines, "
                "Parquet, Arrow and Excel too"
            )
        plain.seek(0)
        with io.TextIOWrapper(plain, encoding=encoding, newline="") as text:
            yield text


def _encoding(start: bytes) -> str:
    """UTF-16 by its mark, UTF-8, or where that does not fit the old encoding of Western Europe."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _number(row: list[str], place: int, delimiter: str) -> float | None:
    """A cell as a finite number, None where there is none; only beside commas is a comma no decimal mark."""
    try:
        cell = row[place]
        value = float(cell if delimiter == "," else cell.replace(",", "."))
    except (IndexError, ValueError):
        return None
    return value if math.isfinite(value) else None
