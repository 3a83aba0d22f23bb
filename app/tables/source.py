"""The bytes of an upload: decompressed within the limits, and as checked UTF-8 text where they are text.

Arrow and the `csv` module both read from here, so both see the same text and a refusal is the same whoever meets
it first. Memory is constant: a gzip or zstd bomb ends at the limit.
"""

import codecs
import gzip
import io
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from app.errors import InvalidRequestError, MalformedError, PursuitError
from app.tables.limits import Limits

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
    """A file, on disk or in memory, that can be read again from its start. encoding: of its text, once known."""

    origin: Path | bytes = field(repr=False)
    limits: Limits = field(default_factory=Limits)
    encoding: str = UTF8

    def plain(self) -> BinaryIO:
        """A stream of the bytes after decompression; reading it raises TooLargeError and MalformedError."""
        stored: BinaryIO = io.BytesIO(self.origin) if isinstance(self.origin, bytes) else self.origin.open("rb")
        start = stored.read(4)
        stored.seek(0)
        return cast(BinaryIO, io.BufferedReader(_Plain(stored, start, self.limits), 1 << 18))

    def compression(self) -> str | None:
        """What the stored bytes are compressed with."""
        if isinstance(self.origin, bytes):
            start = self.origin[:4]
        else:
            with self.origin.open("rb") as stored:
                start = stored.read(4)
        return _compression(start)

    def head(self) -> bytes:
        """The first bytes after decompression. Raises InvalidRequestError if there are none stored."""
        with self.plain() as stream:
            head = stream.read(16)
            if not head and self.compression() is None:
                raise InvalidRequestError("the file is empty: expected a header line and rows of data below it")
            return head

    def text(self) -> BinaryIO:
        """A stream of checked UTF-8 without byte order mark; reading it raises the refusals of `_Text`."""
        return cast(BinaryIO, io.BufferedReader(_Text(self.plain(), self.encoding), 1 << 18))


def _compression(start: bytes) -> str | None:
    return "gzip" if start.startswith(GZIP) else "zstd" if start.startswith(ZSTD) else None


class _Stream(io.RawIOBase):
    """Gives out what `_next` makes, and once it has failed fails again."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner = inner
        self._ready = memoryview(b"")
        self._ended = False
        self._failure: PursuitError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._failure is not None:
            raise self._failure
        try:
            while not self._ready and not self._ended:
                self._ready = memoryview(self._next(len(buffer)))
        except PursuitError as error:
            self._failure = error
            raise
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()

    def _next(self, size: int) -> bytes:
        """More bytes, or none yet; sets `_ended` at the end."""
        raise NotImplementedError


class _Plain(_Stream):
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


class _Text(_Stream):
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
            raise MalformedError(
                f"the file is not text (it holds control characters{'' if first else ' and zero bytes'}); "
                "expected CSV or JSON Lines in UTF-8, UTF-16 or Windows-1252, Parquet, Arrow or Excel (.xlsx)"
            )
        text = self._decode(data)
        self._ended = not data
        self._offset += len(data)
        self._lines += data.count(b"\n")
        if self._encoding != UTF8:
            if "\0" in text:
                raise MalformedError("the file is not text: it holds zero characters")
            return text.encode()
        if first and data.startswith(codecs.BOM_UTF8):
            self._wide = True
            return data[3:]
        return data

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
