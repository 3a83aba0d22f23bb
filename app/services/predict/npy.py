"""A matrix as NumPy's own file: rows of numbers in the order of the model's features, or of an answer's columns."""

import io
import math
import struct
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidRequestError, MalformedError

NPY = b"\x93NUMPY"

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_V1_PREFIX = 10  # magic, version, two bytes of the header's length


def read_npy(body: bytes) -> NDArray[Any]:
    """Rows (m, p) of float64, or of 64-bit integers, which it would round; nothing in the file can run, and no more
    memory is taken than the file has.

    Raises MalformedError for bytes that are no npy file or not as long as it says, InvalidRequestError for one that
    holds no matrix of numbers.
    """
    found = _quickly(body)
    return _checked(body) if found is None else found


def write_npy(array: NDArray[np.float64]) -> bytes:
    """An array (m, k) in C order as a file."""
    return _header(array.shape) + array.astype("<f8", copy=False).tobytes()


def _checked(body: bytes) -> NDArray[Any]:
    """Any numbers in any order, or what is wrong with them."""
    file = io.BytesIO(body)
    try:
        read_header = _HEADERS[np.lib.format.read_magic(file)]
        shape, fortran, dtype = read_header(file)
    except (KeyError, ValueError, EOFError, OverflowError, RecursionError):
        raise MalformedError("this is no npy file, or its header is damaged") from None
    if dtype.hasobject:
        raise MalformedError("the npy file holds objects, which are never read: save numbers")
    if len(shape) != 2 or dtype.kind not in "iuf":
        raise InvalidRequestError(f"expected rows of numbers, of shape (rows, columns); got {dtype} of shape {shape}")
    start, expected = file.tell(), math.prod(shape) * dtype.itemsize
    there = len(body) - start
    if there != expected:
        raise MalformedError(
            f"the npy file is damaged: {dtype} of shape {shape} takes {expected:,} bytes, there are {there:,}"
        )
    found = np.frombuffer(body, dtype, offset=start).reshape(shape, order="F" if fortran else "C")
    kept = dtype.kind in "iu" and dtype.itemsize == 8
    return np.ascontiguousarray(found, dtype=None if kept else np.float64)


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
    except ValueError:
        return None
    fit = len(shape) == 2 and not fortran and dtype == np.dtype("<f8") and min(shape) >= 0
    return (int(shape[0]), int(shape[1])) if fit else None


@lru_cache(maxsize=256)
def _header(shape: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()
