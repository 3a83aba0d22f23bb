"""Types of arrays, and arrays that nobody changes."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def frozen(values: object) -> FloatArray:
    """Return `values` as a read-only float64 array: a copy, unless they are one that owns its numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array is values and array.base is None and not array.flags.writeable:
        return array
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array
