"""Inputs of a prediction: checked, standardized, and padded to a multiple of rows."""

import numpy as np

from core.arrays import FloatArray
from core.data import Standardization
from core.errors import InvalidDataError

LARGEST_INPUT = 1e100
"""Standardized inputs are held within this, so that no square overflows; the kernel is zero long before."""


def checked_inputs(inputs: FloatArray, columns: int) -> FloatArray:
    """Return inputs (m, columns) as float64. InvalidDataError for another shape, or a number that is not finite."""
    inputs = np.asarray(inputs, dtype=np.float64)
    if inputs.ndim != 2 or inputs.shape[1] != columns:
        raise InvalidDataError(f"expected inputs of shape (m, {columns}), got {inputs.shape}")
    if not np.isfinite(inputs).all():
        row, column = np.argwhere(~np.isfinite(inputs))[0]
        raise InvalidDataError(f"row {row}, input column {column}: not a finite number")
    return inputs


def padded_inputs(inputs: FloatArray, standardization: Standardization, unit: int) -> FloatArray:
    """Return raw inputs (m, p) in standardized units, with rows of zeros up to a multiple of `unit`."""
    rows = len(inputs)
    padded = np.zeros((-(-rows // unit) * unit, inputs.shape[1]))
    with np.errstate(over="ignore"):
        standardized = standardization.inputs(inputs)
    np.minimum(np.maximum(standardized, -LARGEST_INPUT), LARGEST_INPUT, out=padded[:rows])  # np.clip is slow to call
    return padded
