"""A matrix as NumPy's own file: rows of numbers in the order of the model's features, or of an answer's columns."""

import io
import math
import struct
import tokenize
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidRequestError, MalformedError

NPY = b"\x93NUMPY"

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGE = (
    *(KeyError, TypeError, ValueError, EOFError, OverflowError, RecursionError, MemoryError, SyntaxError),
    tokenize.TokenError,
)
"""Errors of NumPy for headers that are none: it reads old ones as text of Python."""
_V1_PREFIX = 10  # magic, version, two bytes of the header's length


def read_npy(body: bytes) -> NDArray[Any]:
    """Rows (m, p) of float64, or of 64-bit integers, which it would round; nothing in the file can run, and no more
    memory is taken than the file has.

    Raises MalformedError for bytes that are no npy file or not as long as it says, InvalidRequestError for one that
    holds no matrix of numbers.
    """
    found = _quickly(body)
    return _checked(body) if found is None else found


class NpyRows:
    """Rows (m, p) of a file, read some at a time. Raises as `read_npy`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self.shape, self._fortran, self._dtype = _read_header(file)
            self._start = file.tell()
        _check_size(self.shape, self._dtype, path.stat().st_size - self._start)

    def part(self, first: int, count: int) -> NDArray[Any]:
        """Return so many rows from a row on, as `read_npy` would."""
        rows, columns = self.shape
        count = min(count, rows - first)
        with self._path.open("rb") as file:
            if not self._fortran:
                return as_numbers(self._read(file, first * columns, count * columns).reshape(count, columns))
            parts = [self._read(file, column * rows + first, count) for column in range(columns)]
            return as_numbers(np.stack(parts, axis=1) if parts else np.empty((count, 0)))

    def _read(self, file: BinaryIO, place: int, count: int) -> NDArray[Any]:
        file.seek(self._start + place * self._dtype.itemsize)
        return np.frombuffer(file.read(count * self._dtype.itemsize), self._dtype)


def _checked(body: bytes) -> NDArray[Any]:
    """Any numbers in any order, or what is wrong with them."""
    file = io.BytesIO(body)
    shape, fortran, dtype = _read_header(file)
    start = file.tell()
    _check_size(shape, dtype, len(body) - start)
    found = np.frombuffer(body, dtype, offset=start).reshape(shape, order="F" if fortran else "C")
    return as_numbers(found)


def as_numbers(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows in C order as doubles, or as the 64-bit integers that they are."""
    kept = rows.dtype.kind in "iu" and rows.dtype.itemsize == 8
    return np.ascontiguousarray(rows, dtype=None if kept else np.float64)


def _read_header(file: BinaryIO) -> tuple[tuple[int, int], bool, np.dtype[Any]]:
    try:
        read_header = _HEADERS[np.lib.format.read_magic(file)]
        shape, fortran, dtype = read_header(file)
    except _DAMAGE:
        raise MalformedError("this is no npy file, or its header is damaged") from None
    if dtype.hasobject:
        raise MalformedError("the npy file holds objects, which are never read: save numbers")
    if len(shape) != 2 or dtype.kind not in "iuf":
        raise InvalidRequestError(f"expected rows of numbers, of shape (rows, columns); got {dtype} of shape {shape}")
    return shape, fortran, dtype


def _check_size(shape: tuple[int, int], dtype: np.dtype[Any], there: int) -> None:
    expected = math.prod(shape) * dtype.itemsize
    if there != expected:
        raise MalformedError(
            f"the npy file is damaged: {dtype} of shape {shape} takes {expected:,} bytes, there are {there:,}"
        )


def _quickly(body: bytes) -> NDArray[np.float64] | None:
    """A whole file of doubles in C order, without a copy; None for anything else."""
    if body[6:8] != b"\x01\x00":
        return None
    start = _V1_PREFIX + struct.unpack_from("<H", body, 8)[0] if len(body) >= _V1_PREFIX else len(body)
    shape = _shape(bytes(body[:start]))
    if shape is None or len(body) - start != 8 * shape[0] * shape[1]:
        return None
    return np.frombuffer(body, dtype="<f8", offset=start).reshape(shape)


@lru_cache(maxsize=256)
def _shape(header: bytes) -> tuple[int, int] | None:
    """Rows and columns, if these bytes announce doubles in C order and nothing else. Clients repeat their headers."""
    try:
        file = io.BytesIO(header)
        np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except _DAMAGE:
        return None
    fit = len(shape) == 2 and not fortran and dtype == np.dtype("<f8") and min(shape) >= 0
    return (int(shape[0]), int(shape[1])) if fit else None


@lru_cache(maxsize=256)
def npy_header(shape: tuple[int, int]) -> bytes:
    """Header of a file of doubles (m, k) in C order."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()
