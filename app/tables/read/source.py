"""The bytes of an upload: decompressed within the limits, and as checked UTF-8 text where they are text.

Arrow and the `csv` module both read from here, so both see the same text and a refusal is the same whoever meets
it first. Memory is constant: a gzip or zstd bomb ends at the limit.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import pyarrow as pa

from app.errors import Fault, InvalidRequestError, MalformedError
from app.tables.read.edited_text import Comments, EditedText
from app.tables.read.limits import Limits
from app.tables.read.streams import FilterStream

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
UTF8, UTF16, WESTERN = "UTF-8", "UTF-16", "Windows-1252"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROL = bytes(sorted(set(range(32)) - set(b"\t\n\v\f\r")))
_DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error, OSError, pa.ArrowException)


class NotUtf8Error(MalformedError):
    """A byte that UTF-8 does not have; `western` if the text may be of an older encoding instead."""

    def __init__(self, message: str, *, western: bool) -> None:
        super().__init__(message)
        self.western = western


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file, on disk or in memory, that can be read again from its start. encoding: of its text, once known. hashes:
    whether lines begin with `#`; edits: lines that are to be read otherwise; comments: which others are to be skipped.
    """

    origin: Path | bytes = field(repr=False)
    limits: Limits = field(default_factory=Limits)
    encoding: str = UTF8
    hashes: bool = False
    edits: Mapping[int, str] = field(default_factory=dict)
    comments: Comments | None = None

    def decompressed(self) -> BinaryIO:
        """A stream of the bytes after decompression; reading it raises TooLargeError and MalformedError."""
        stored: BinaryIO = io.BytesIO(self.origin) if isinstance(self.origin, bytes) else self.origin.open("rb")
        start = stored.read(4)
        stored.seek(0)
        return cast(BinaryIO, io.BufferedReader(_Decompressed(stored, start, self.limits), 1 << 18))

    def compression(self) -> str | None:
        """Return the compression of the stored bytes."""
        if isinstance(self.origin, bytes):
            start = self.origin[:4]
        else:
            with self.origin.open("rb") as stored:
                start = stored.read(4)
        return _compression(start)

    def head(self) -> bytes:
        """The first bytes after decompression. Raises InvalidRequestError if there are none stored."""
        with self.decompressed() as stream:
            head = stream.read(16)
            if not head and self.compression() is None:
                raise InvalidRequestError("the file is empty: expected a header line and rows of data below it")
            return head

    def text(self) -> BinaryIO:
        """A stream of checked UTF-8 without byte order mark; reading it raises the refusals of `_CheckedText`."""
        checked = cast(BinaryIO, io.BufferedReader(_CheckedText(self.decompressed(), self.encoding), 1 << 18))
        return cast(BinaryIO, io.BufferedReader(self.edited(checked), 1 << 18)) if self.is_edited else checked

    @property
    def is_edited(self) -> bool:
        """Return whether lines of the text are left out or changed."""
        return bool(self.edits) or self.comments is not None

    def edited(self, checked: BinaryIO) -> EditedText:
        """A stream of checked text with its lines changed."""
        return EditedText(checked, self.edits, self.comments)


def _compression(start: bytes) -> str | None:
    return "gzip" if start.startswith(GZIP) else "zstd" if start.startswith(ZSTD) else None


class _Decompressed(FilterStream):
    """Decompressed bytes, counted."""

    def __init__(self, stored: BinaryIO, start: bytes, limits: Limits) -> None:
        super().__init__(stored)
        self._kind = _compression(start)
        self._limits = limits
        self._count = 0
        self._unpacked: Any = stored
        if self._kind == "gzip":
            self._unpacked = gzip.GzipFile(fileobj=stored, mode="rb")
        elif self._kind == "zstd":
            self._unpacked = pa.CompressedInputStream(pa.PythonFile(cast(Any, stored), mode="r"), "zstd")

    def _next(self, size: int) -> bytes:
        try:
            data: bytes = self._unpacked.read(size)
        except _DAMAGE as error:
            if self._kind is None:
                raise
            raise MalformedError(
                f"the {self._kind} file is damaged or cut short ({error}); compress it again"
            ) from error
        self._ended = not data
        self._count += len(data)
        self._limits.check_bytes(self._count)
        return data


class _CheckedText(FilterStream):
    """UTF-8 without NUL or byte order mark, other encodings written anew; refuses at the first wrong byte."""

    def __init__(self, plain: BinaryIO, encoding: str) -> None:
        super().__init__(plain)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._offset = 0
        self._lines = 1
        self._wide = False  # whether UTF-8 of more than one byte was seen

    def _next(self, size: int) -> bytes:
        data = self._inner.read(size)
        first = self._offset == 0
        if first and self._encoding == UTF8 and data.startswith(_UTF16_MARKS):
            self._encoding, self._decoder = UTF16, codecs.getincrementaldecoder(UTF16)()
        if self._encoding != UTF16 and ((first and len(data.translate(None, _CONTROL)) != len(data)) or b"\0" in data):
            self._refuse_control(data)
        text = self._decode(data)
        self._ended = not data
        self._offset += len(data)
        if self._encoding != UTF8:
            if "\0" in text:
                self._refuse_control(text.encode())
            self._lines += text.count("\n")
            return text.encode()
        self._lines += data.count(b"\n")
        if first and data.startswith(codecs.BOM_UTF8):
            self._wide = True
            return data[3:]
        return data

    def _refuse_control(self, data: bytes) -> NoReturn:
        """MalformedError naming the line of the first zero byte, or else of the first control character."""
        zero = data.find(b"\0")
        place = zero if zero >= 0 else next(at for at, byte in enumerate(data) if byte in _CONTROL)
        line = self._lines + data.count(b"\n", 0, place)
        message = "a zero byte (NUL)" if zero >= 0 else f"the control character 0x{data[place]:02x}"
        raise MalformedError(
            f"the file is not text: line {line:,} holds {message}; "
            "expected CSV or JSON Lines in UTF-8, UTF-16 or Windows-1252, Parquet, Arrow or Excel (.xlsx)",
            [Fault(line=line, message=message)],
        )

    def _decode(self, data: bytes) -> str:
        held = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            offset = self._offset - held + error.start
            line = self._lines + data.count(b"\n", 0, max(error.start - held, 0))
            cut = not data or error.reason == "unexpected end of data"
            western = self._encoding == UTF8 and not (self._wide or cut or not before.isascii())
            raise NotUtf8Error(
                f"the file is not {self._encoding}: byte 0x{error.object[error.start]:02x} at offset {offset:,} "
                f"(line {line:,}); save it as UTF-8 and send it again",
                western=western,
            ) from error
        self._wide = self._wide or not text.isascii()
        return text
