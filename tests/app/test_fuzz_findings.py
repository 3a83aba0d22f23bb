"""Inputs that fuzzing found, the smallest of each kind: each was an error of a library once, and is a refusal now."""

import io
import struct
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from app.errors import InvalidRequestError, MalformedError, PursuitError
from app.services.decoding import decode_any
from app.services.predict.npy import read_npy
from app.tables import read_table
from tests.app.tables.files import arrow, workbook

COLUMNS = {"abcdefgh": [1.0, 2.0], "y": [0.5, 1.5]}


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def archive_that_begins_before_the_file() -> bytes:
    """The end of the archive says that its directory is 5,000 bytes further on than it is."""
    data = bytearray(workbook(COLUMNS))
    place = data.rindex(b"PK\x05\x06") + 16
    (offset,) = struct.unpack_from("<I", data, place)
    struct.pack_into("<I", data, place, offset + 5000)
    return bytes(data)


def workbook_of_another_type() -> bytes:
    """No part is of the type of a workbook."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook(COLUMNS))) as whole, zipfile.ZipFile(out, "w") as made:
        for name in whole.namelist():
            made.writestr(name, whole.read(name).replace(b"spreadsheetml.sheet.main", b"spreadsheetml.sheet.nope"))
    return out.getvalue()


FINDINGS: dict[str, tuple[Callable[[bytes], object], bytes, type[PursuitError]]] = {
    "a number out of range before broken JSON": (decode_any, b'{"x": 1e999, "y"]', InvalidRequestError),
    "the same in a list": (decode_any, b"[1e999, 2", InvalidRequestError),
    "an npy header that ends inside of a bracket": (read_npy, npy(b"{'descr': ("), MalformedError),
    "an npy header with a key that is no text": (read_npy, npy(b"{'descr': '<f8', 2: 3}"), MalformedError),
    "an npy header with a wrong indent": (read_npy, npy(b"{\n  1\n a\n  "), MalformedError),
    "an Arrow column whose name is no UTF-8": (
        read_table,
        arrow(COLUMNS, stream=True).replace(b"abcdefgh", b"\xffbcdefgh"),
        MalformedError,
    ),
    "a workbook whose archive begins before the file": (
        read_table,
        archive_that_begins_before_the_file(),
        MalformedError,
    ),
    "a workbook without a part that is one": (read_table, workbook_of_another_type(), MalformedError),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_it_is_refused(name: str) -> None:
    run, data, refusal = FINDINGS[name]
    with pytest.raises(refusal):
        run(data)


def test_a_file_that_is_cut_short_says_so() -> None:
    for whole in (arrow(COLUMNS, stream=False), workbook(COLUMNS)):
        with pytest.raises(MalformedError, match="cut short"):
            read_table(whole[:-30])


def test_what_they_were_made_from_is_read() -> None:
    out = io.BytesIO()
    np.save(out, np.ones((2, 2)))
    assert read_npy(out.getvalue()).shape == (2, 2)
    assert read_table(workbook(COLUMNS)).rows == read_table(arrow(COLUMNS, stream=True)).rows == 2
