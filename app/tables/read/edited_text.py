"""Text without the lines that are no records: those at its head that are known, and comments wherever they are.

A line is blanked and its end stays, so that readers skip it and every other line keeps its number.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from app.tables.read.streams import FilterStream

_MAX_LENGTH = 1 << 20  # a longer line is given out in pieces, and is no comment
_HASH = re.compile(rb"(?:(?<=[\r\n])|\A)#")
_LINE_END = re.compile(rb"[\r\n]")
_SPREADSHEET_ERRORS = ("#N/A", "#NAME?", "#DIV/0!", "#REF!", "#VALUE!", "#NUM!", "#NULL!")


@dataclass(frozen=True, slots=True)
class Comments:
    """A line that begins with `#` is a comment if it has not as many cells as the names."""

    delimiter: str
    width: int

    def matches(self, line: str) -> bool:
        """Return whether a line without its end is a comment."""
        if not line.startswith("#") or line.startswith(_SPREADSHEET_ERRORS):
            return False
        return len(next(csv.reader([line], delimiter=self.delimiter))) != self.width


class EditedText(FilterStream):
    """UTF-8 with some lines changed. skipped: the numbers of the comments so far."""

    def __init__(self, inner: BinaryIO, edits: Mapping[int, str], comments: Comments | None) -> None:
        super().__init__(inner)
        self.skipped: list[int] = []
        self._edits = dict(edits)
        self._comments = comments
        self._held = b""
        self._line = 1
        self._open = False  # inside of quotation marks
        self._within = False  # in the middle of a line

    def _next(self, size: int) -> bytes:
        data = self._inner.read(size)
        self._ended = not data
        if not self._edits and self._comments is None:
            data, self._held = self._held + data, b""
            return data
        data = self._held + data
        cut = len(data) if self._ended else _whole_lines(data)
        if cut == 0 and len(data) > _MAX_LENGTH:
            cut = len(data) - 1  # a line feed may follow
            whole = False
        else:
            whole = True
        self._held, data = data[cut:], data[:cut]
        return self._changed(data, whole) if data else b""

    def _changed(self, data: bytes, whole: bool) -> bytes:
        within, self._within = self._within, not whole
        if self._edits:
            return b"".join(
                self._change(line, middle=within and place == 0)
                for place, line in enumerate(data.splitlines(keepends=True))
            )
        parts: list[bytes] = []
        start = 0
        for hit in _HASH.finditer(data):
            if hit.start() < start or (hit.start() == 0 and within):
                continue
            self._pass(data[start : hit.start()])
            parts.append(data[start : hit.start()])
            end = _LINE_END.search(data, hit.start())
            stop = len(data) if end is None else end.start()
            parts.append(self._change(data[hit.start() : stop], middle=False))
            start = stop
        self._pass(data[start:])
        parts.append(data[start:])
        return b"".join(parts)

    def _pass(self, data: bytes) -> None:
        self._line += _line_ends(data)
        self._open ^= bool(data.count(b'"') & 1)

    def _change(self, line: bytes, *, middle: bool) -> bytes:
        """Return one line, or what takes its place."""
        text = line.rstrip(b"\r\n")
        number, inside = self._line, self._open
        if not middle and number in self._edits:
            changed = self._edits.pop(number).encode()
            self._line += _line_ends(line)
            self._open ^= bool(changed.count(b'"') & 1)
            return changed + line[len(text) :]
        if not (middle or inside) and self._comments is not None and self._comments.matches(text.decode()):
            self.skipped.append(number)
            self._line += _line_ends(line)
            return line[len(text) :]
        self._pass(line)
        return line


def _whole_lines(data: bytes) -> int:
    """Return how many bytes are lines with their whole ends: a carriage return may go on with a line feed."""
    last = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(0, len(data) - 1)))
    return last + 1


def _line_ends(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
