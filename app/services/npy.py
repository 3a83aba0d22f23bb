"""A matrix as NumPy's own file: rows of numbers in the order of the model's features."""

import io

import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidRequestError, MalformedError

NPY = b"\x93NUMPY"


def read_npy(body: bytes) -> NDArray[np.float64]:
    """Rows (m, p) of float64; nothing in the file can run. Raises MalformedError, InvalidRequestError."""
    try:
        found = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, OverflowError) as error:
        raise MalformedError(f"the npy file is damaged or holds objects: {error}") from error
    if found.ndim != 2 or found.dtype.kind not in "iuf":
        raise InvalidRequestError(f"expected rows of numbers, got {found.dtype} of shape {found.shape}")
    return found.astype(np.float64)
