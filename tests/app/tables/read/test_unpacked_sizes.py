"""Sizes that compressed files announce are known before anything is unpacked, also where the footer says otherwise."""

import io
import struct
import tracemalloc
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import MalformedError, TooLargeError
from app.tables import Limits, read_table
from app.tables.read.unpacked_sizes import check_arrow, check_parquet
from tests.app.tables.files import workbook

TEXTS = ["x" * 1_000, "y" * 2_000] * 50  # 150,000 bytes
SMALL, ENOUGH = Limits(bytes=140_000), Limits(bytes=200_000)


def arrow(codec: Any, *, stream: bool, dictionary: bool = False) -> bytes:
    texts: Any = pa.array(TEXTS)
    table = pa.table({"a": texts.dictionary_encode() if dictionary else texts, "b": [0.5] * len(TEXTS)})
    out = io.BytesIO()
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=30)
    return out.getvalue()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_arrow_batches_are_added_up(codec: str, stream: bool) -> None:
    data = pa.py_buffer(arrow(codec, stream=stream))
    with pytest.raises(TooLargeError, match="PURSUIT_MAX_TABLE_BYTES"):
        check_arrow(data, SMALL, is_file=not stream)
    check_arrow(data, ENOUGH, is_file=not stream)
    with pytest.raises(TooLargeError, match="PURSUIT_MAX_ROWS"):
        check_arrow(data, Limits(rows=99), is_file=not stream)
    check_arrow(data, Limits(rows=100), is_file=not stream)
    assert read_table(data.to_pybytes(), limits=ENOUGH).rows == 100


@pytest.mark.parametrize("stream", [True, False])
def test_dictionaries_count_and_what_is_not_compressed_does_not(stream: bool) -> None:
    with pytest.raises(TooLargeError):
        check_arrow(
            pa.py_buffer(arrow("zstd", stream=stream, dictionary=True)), Limits(bytes=2_900), is_file=not stream
        )
    check_arrow(pa.py_buffer(arrow(None, stream=stream)), Limits(bytes=1), is_file=not stream)


OPTIONS: list[dict[str, Any]] = [
    {"compression": "zstd"},
    {"compression": "gzip", "use_dictionary": False},
    {"compression": "snappy", "data_page_version": "2.0"},
    {"compression": "none", "use_dictionary": False, "write_statistics": False},
    {"compression": "zstd", "use_dictionary": False, "data_page_size": 1_000, "row_group_size": 30},
    {"compression": "zstd", "write_page_index": True, "write_page_checksum": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parquet_pages_are_added_up_as_the_footer_has_them(options: dict[str, Any]) -> None:
    """With all kinds of headers of pages; their sum is what an honest footer says, less the headers themselves."""
    out = io.BytesIO()
    pq.write_table(pa.table({"a": TEXTS, "b": [0.5 * place for place in range(100)]}), out, **options)
    data = pa.py_buffer(out.getvalue())
    metadata = pq.ParquetFile(io.BytesIO(out.getvalue())).metadata
    groups = range(metadata.num_row_groups)
    said = sum(metadata.row_group(group).column(place).total_uncompressed_size for group in groups for place in (0, 1))
    check_parquet(data, metadata, Limits(bytes=said))
    with pytest.raises(TooLargeError):
        check_parquet(data, metadata, Limits(bytes=said // 2))


def test_a_footer_that_lies_is_not_believed() -> None:
    """It says that a chunk of 40 MB unpacks to 63 bytes: the header of its page is what is read."""
    out = io.BytesIO()
    pq.write_table(pa.table({"a": ["x" * 40_000_000], "b": [1.0]}), out, compression="zstd", use_dictionary=False)
    data = bytearray(out.getvalue())
    said = pq.ParquetFile(io.BytesIO(out.getvalue())).metadata.row_group(0).column(0).total_uncompressed_size
    (length,) = struct.unpack("<i", data[-8:-4])
    place = data.index(varint(2 * said), len(data) - 8 - length)
    data[place : place + len(varint(2 * said))] = b"\xfe\x80\x80\x00"[: len(varint(2 * said))].ljust(1)
    lying = bytes(data)
    tracemalloc.start()
    with pytest.raises((TooLargeError, MalformedError)):
        read_table(lying, limits=Limits(bytes=30 << 20))
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_entities_of_a_workbook_are_not_expanded() -> None:
    """A billion laughs in the sheet's own XML."""
    laughs = b'<!DOCTYPE a [<!ENTITY a0 "ha">' + b"".join(
        b'<!ENTITY a%d "%s">' % (place, b"&a%d;" % (place - 1) * 10) for place in range(1, 10)
    )
    out = io.BytesIO()
    whole = zipfile.ZipFile(io.BytesIO(workbook({"a": [1.0], "y": [2.0]})))
    with zipfile.ZipFile(out, "w") as made:
        for name in whole.namelist():
            content = whole.read(name)
            if "sheet1" in name:
                content = (
                    laughs
                    + b"]>"
                    + content.replace(b"</sheetData>", b'<row r="3"><c t="str"><v>&a9;</v></c></row></sheetData>')
                )
            made.writestr(name, content)
    with pytest.raises(MalformedError):
        read_table(out.getvalue(), limits=Limits(bytes=10 << 20))
