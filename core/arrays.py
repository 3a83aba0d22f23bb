"""Types of arrays, and arrays that nobody changes."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def frozen(values: object) -> FloatArray:
    """Read-only float64 copy of `values`."""
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array
