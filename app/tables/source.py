"""The bytes of an uploaded file as checked text: gunzipped, without its byte order mark, UTF-8, within the limits.

Arrow and the `csv` module both read from here, so both see the same text and a refusal is the same whoever meets
it first. Memory is constant: a gzip bomb ends at the limit.
"""

import codecs
import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from app.errors import InvalidRequestError, MalformedError, PursuitError, TooLargeError, UnsupportedMediaError

_GZIP = b"\x1f\x8b"
_OTHER_FORMATS = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"%PDF": "PDF",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROL = bytes(sorted(set(range(32)) - set(b"\t\n\v\f\r")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest table that is read. bytes counts after decompression."""

    bytes: int = 2 << 30
    rows: int = 5_000_000
    columns: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """A file, on disk or in memory, that can be read again from its start."""

    origin: Path | bytes = field(repr=False)
    limits: Limits = field(default_factory=Limits)

    def open(self) -> BinaryIO:
        """A stream of checked UTF-8 bytes; reading it raises the refusals of `_CheckedText`."""
        plain = io.BytesIO(self.origin) if isinstance(self.origin, bytes) else self.origin.open("rb")
        start = plain.read(8)
        plain.seek(0)
        if not start:
            plain.close()
            raise InvalidRequestError("the file is empty: expected a header line and rows of data below it")
        for magic, name in _OTHER_FORMATS.items():
            if start.startswith(magic):
                plain.close()
                raise UnsupportedMediaError(f"the file is {name}; expected CSV text, plain or gzip")
        inner = gzip.GzipFile(fileobj=plain, mode="rb") if start.startswith(_GZIP) else plain
        return io.BufferedReader(_CheckedText(inner, plain, self.limits.bytes), 1 << 18)

    def records(self, delimiter: str) -> Iterator["Record"]:
        """Every record that is not a blank line, header first; the slow, exact reader behind error messages.

        Raises MalformedError where a cell is longer than the `csv` module takes.
        """
        with io.TextIOWrapper(self.open(), encoding="utf-8", newline="") as lines:
            yield from records(lines, delimiter)


class Record(NamedTuple):
    """One record: the 1-based line it starts on, its cells, and whether its last quotation mark is closed."""

    line: int
    cells: list[str]
    closed: bool = True


def records(lines: Iterator[str], delimiter: str) -> Iterator[Record]:
    """Records of `lines`, blank lines skipped; a quoted cell may span lines."""
    # A last line of our own tells an open quotation mark: only then does it end up inside a record.
    end = "\0end of file"
    reader = csv.reader(itertools.chain(lines, [end]), delimiter=delimiter)
    line = 1
    try:
        for cells in reader:
            if cells == [end]:
                return
            if cells:
                yield Record(line, cells, not cells[-1].endswith(end))
            line = reader.line_num + 1
    except csv.Error as error:
        raise MalformedError(
            f"line {line}: a cell is longer than {csv.field_size_limit():,} characters; is a quotation mark not closed?"
        ) from error


class _CheckedText(io.RawIOBase):
    """UTF-8 without NUL or byte order mark, at most `limit` bytes; refuses at the first wrong byte."""

    def __init__(self, inner: Any, plain: BinaryIO, limit: int) -> None:
        super().__init__()
        self._inner = inner
        self._plain = plain
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._offset = 0
        self._lines = 1
        self._failure: PursuitError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._failure is not None:
            raise self._failure
        try:
            data = self._next(len(buffer))
        except PursuitError as error:
            self._failure = error
            raise
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
            self._plain.close()
        super().close()

    def _next(self, size: int) -> bytes:
        try:
            data: bytes = self._inner.read(size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise MalformedError(f"the gzip file is damaged or cut short ({error}); compress it again") from error
        first = self._offset == 0
        if first and data.startswith(_UTF16):
            raise MalformedError('the file is UTF-16 text; save it as UTF-8 (in Excel: "CSV UTF-8")')
        if (first and len(data.translate(None, _CONTROL)) != len(data)) or b"\0" in data:
            raise MalformedError(
                f"the file is not text (it holds control characters{'' if first else ' and zero bytes'}); "
                "expected CSV in UTF-8, plain or gzip"
            )
        self._decode(data)
        self._offset += len(data)
        self._lines += data.count(b"\n")
        if self._offset > self._limit:
            raise TooLargeError(f"the table is larger than {self._limit:,} bytes after decompression (max_bytes)")
        if first and data.startswith(codecs.BOM_UTF8):
            return data[3:]
        return data

    def _decode(self, data: bytes) -> None:
        held = len(self._decoder.getstate()[0])
        try:
            self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            offset = self._offset - held + error.start
            line = self._lines + data.count(b"\n", 0, max(error.start - held, 0))
            raise MalformedError(
                f"the file is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {offset:,} (line {line:,}); "
                "save it as UTF-8 and send it again"
            ) from error
