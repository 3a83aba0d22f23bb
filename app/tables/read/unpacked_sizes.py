"""Bytes that a compressed Arrow or Parquet file says it unpacks to, before any of it is unpacked.

Arrow's readers unpack a whole record batch, or a page, and nobody can look before they have: ten kilobytes become
gigabytes. Both formats say before each piece how large it will be, and the readers unpack no more than that. So the
pieces that they will go to are looked up here: of Arrow the buffers of each batch, whose first 8 bytes are the size
(Arrow's columnar format, RecordBatch and Buffer in Message.fbs); of Parquet the header of each page, in Thrift's
compact protocol (parquet.thrift, PageHeader). What the footer of a Parquet file says itself is not believed.
"""

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from app.tables.read.limits import Limits

_DICTIONARY, _BATCH = 2, 3  # types of Arrow's messages
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3  # fields of a RecordBatch
_BLOCK = 24  # bytes of a Block in the footer of an Arrow file
_MAX_NESTING = 8
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


def check_arrow(source: Any, limits: Limits, *, is_file: bool) -> None:
    """TooLargeError where the batches of an Arrow file or stream unpack to more. ValueError for a damaged one."""
    total = rows = 0
    for message in _file_messages(source) if is_file else _stream_messages(source):
        found, size = _batch_size(message)
        rows += found
        total += size
        limits.check_rows(rows)
        limits.check_bytes(total)


def check_parquet(source: Any, metadata: Any, limits: Limits) -> None:
    """TooLargeError where the pages of a Parquet file unpack to more. ValueError for a damaged one; O(pages)."""
    total = 0
    data = memoryview(source)
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(place)
            position = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < position:
                position = chunk.dictionary_page_offset
            end = position + chunk.total_compressed_size
            if not 0 <= position <= end <= len(data):
                raise ValueError("a column lies beyond the end of the file")
            while position < end:
                unpacked, packed, position = _page_sizes(data, position, end)
                position += packed
                total += unpacked
                limits.check_bytes(total)


def _stream_messages(source: Any) -> Iterator[Any]:
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _file_messages(source: Any) -> Iterator[Any]:
    """The batches that the footer names, wherever they lie."""
    data = memoryview(source)
    if bytes(data[-6:]) != b"ARROW1":
        raise ValueError("its end is missing, the file is cut short; send it again")
    (length,) = struct.unpack_from("<i", data, len(data) - 10)
    footer = bytes(data[len(data) - 10 - length : len(data) - 10])
    root = struct.unpack_from("<i", footer)[0]
    for field in (2, 3):
        vector = _field(footer, root, field)
        if vector is None:
            continue
        vector += struct.unpack_from("<i", footer, vector)[0]
        (count,) = struct.unpack_from("<i", footer, vector)
        for block in range(count):
            (offset,) = struct.unpack_from("<q", footer, vector + 4 + _BLOCK * block)
            if not 0 <= offset < len(data):
                raise ValueError("a batch lies beyond the end of the file")
            yield pa.ipc.read_message(pa.py_buffer(data[offset:]))


def _batch_size(message: Any) -> tuple[int, int]:
    """Rows of a batch, and the bytes that its compressed buffers unpack to; none for other messages."""
    table = message.metadata.to_pybytes()
    root = struct.unpack_from("<i", table)[0]
    kind_at, batch = _field(table, root, 1), _table(table, root, 2)
    kind = 0 if kind_at is None else table[kind_at]
    if kind == _DICTIONARY and batch is not None:
        batch = _table(table, batch, 1)
    if kind not in (_DICTIONARY, _BATCH) or batch is None:
        return 0, 0
    length_at = _field(table, batch, _LENGTH)
    rows = struct.unpack_from("<q", table, length_at)[0] if length_at is not None and kind == _BATCH else 0
    buffers = _field(table, batch, _BUFFERS)
    if _field(table, batch, _COMPRESSION) is None or buffers is None:
        return rows, 0
    buffers += struct.unpack_from("<i", table, buffers)[0]
    (count,) = struct.unpack_from("<i", table, buffers)
    body, size = memoryview(message.body), 0
    for place in range(count):
        offset, length = struct.unpack_from("<qq", table, buffers + 4 + 16 * place)
        if length:
            size += max(struct.unpack_from("<q", body, offset)[0], 0)  # -1: this one is not compressed
    return rows, size


def _field(table: bytes, position: int, field: int) -> int | None:
    """Return the place of a field of a FlatBuffers table; None if it is left out."""
    vtable = position - struct.unpack_from("<i", table, position)[0]
    entry = 4 + 2 * field
    if vtable < 0 or entry >= struct.unpack_from("<H", table, vtable)[0]:
        return None
    (offset,) = struct.unpack_from("<H", table, vtable + entry)
    return position + offset if offset else None


def _table(table: bytes, position: int, field: int) -> int | None:
    """Return the place of the table that a field refers to."""
    place = _field(table, position, field)
    return None if place is None else place + struct.unpack_from("<i", table, place)[0]


def _page_sizes(data: memoryview, position: int, end: int) -> tuple[int, int, int]:
    """Sizes of a page, unpacked and as it lies there, and where it begins behind its header."""
    sizes: dict[int, int] = {}
    reader = _Thrift(data, position, end)
    for field, kind in reader.fields():
        if field in (2, 3) and kind in (_I32, _I64):
            sizes[field] = reader.number()
        else:
            reader.skip(kind)
    if sizes.get(2, -1) < 0 or sizes.get(3, -1) < 0:
        raise ValueError("the header of a page is damaged")
    return sizes[2], sizes[3], reader.position


class _Thrift:
    """Reader of Thrift's compact protocol, as far as headers of pages need it."""

    def __init__(self, data: memoryview, position: int, end: int) -> None:
        self.position = position
        self._data, self._end = data, end

    def fields(self) -> Iterator[tuple[int, int]]:
        """Iterate over the fields of a struct, as number and type; who iterates reads or skips the value."""
        field = 0
        while (head := self._byte()) & 15 != _STOP:
            field = field + (head >> 4) if head >> 4 else self.number()
            yield field, head & 15

    def number(self) -> int:
        """Read a whole number."""
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Leave out a value."""
        if kind in (_TRUE, _FALSE):
            return
        if kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind == _STRUCT and depth < _MAX_NESTING:
            for _, inside in self.fields():
                self.skip(inside, depth + 1)
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            length = {_BYTE: 1, _DOUBLE: 8}.get(kind) or self._unsigned()  # which moves the position itself
            self.position += length
        else:
            raise ValueError("the header of a page is damaged")

    def _unsigned(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("the header of a page is damaged")
        return found | byte << shift

    def _byte(self) -> int:
        if self.position >= self._end:
            raise ValueError("the header of a page is damaged")
        self.position += 1
        return self._data[self.position - 1]
