"""Limits: tables that are too large, and garbage, are refused soon."""

import gzip
import random
import string
import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import InvalidRequestError, MalformedError, TooLargeError
from app.tables import Limits, read_table
from tests.app.tables.files import zstd


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(rows=2), "the table has more than 2 rows, the most that are read (PURSUIT_MAX_ROWS)"),
        (Limits(columns=2), "the table has 3 columns; at most 2 are read (PURSUIT_MAX_COLUMNS)"),
        (Limits(bytes=20), "the table is larger than 20 bytes after decompression (PURSUIT_MAX_TABLE_BYTES)"),
    ],
)
def test_limits_are_named(limits: Limits, message: str) -> None:
    data = b"a,b,c\n1,2,3\n4,5,6\n7,8,9\n"
    for source in (data, gzip.compress(data)):
        with pytest.raises(TooLargeError) as caught:
            read_table(source, limits=limits)
        assert caught.value.message == message
    exact = Limits(rows=3, columns=3, bytes=len(data))
    assert read_table(data, limits=exact).rows == 3


def test_a_gzip_bomb_ends_at_the_limit() -> None:
    bomb = gzip.compress(b"1,2\n" * 5_000_000, 1)
    started = time.monotonic()
    with pytest.raises(TooLargeError):
        read_table(bomb, limits=Limits(bytes=1_000_000))
    assert time.monotonic() - started < 1


def test_a_zstd_bomb_ends_at_the_limit() -> None:
    bomb = zstd(b"1,2\n" * 5_000_000)
    with pytest.raises(TooLargeError):
        read_table(bomb, limits=Limits(bytes=1_000_000))


def test_a_dictionary_that_stands_for_much_ends_at_the_limit() -> None:
    """A kilobyte of Parquet that would be a gigabyte of text."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 10_000]))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": words, "y": pa.array(range(100_000))}), sink)
    with pytest.raises(TooLargeError, match="PURSUIT_MAX_TABLE_BYTES"):
        read_table(sink.getvalue().to_pybytes(), limits=Limits(bytes=10_000_000))
    with pytest.raises(TooLargeError, match="PURSUIT_MAX_CELL_CHARS"):
        read_table(sink.getvalue().to_pybytes(), limits=Limits(cell=1_000))


def letters() -> bytes:
    return "".join(random.Random(1).choices(string.ascii_letters + ', \n;\t"', k=1_000_000)).encode() * 50


GARBAGE: dict[str, Callable[[], bytes]] = {
    "random bytes": lambda: random.Random(1).randbytes(1_000_000) * 50,
    "zeros": lambda: bytes(50_000_000),
    "random letters": letters,
    "one line": lambda: b"x," * 25_000_000,
    "blank lines": lambda: b"\n" * 50_000_000,
    "Latin-1 at the end": lambda: b"a,b\n" + b"1,22222\n" * 6_250_000 + b"\xe9",
    "open quotation mark": lambda: b'a,b\n1,"' + b"x\n" * 25_000_000,
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_50_mb_of_garbage_is_refused_within_two_seconds(kind: str) -> None:
    data = GARBAGE[kind]()
    started = time.monotonic()
    with pytest.raises((MalformedError, InvalidRequestError, TooLargeError)):
        read_table(data)
    assert time.monotonic() - started < 2
