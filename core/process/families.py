"""Kernels as functions of the squared distance R = sum_l w_l (x_l - x'_l)^2: value k(R) and slope.

    gaussian   v0 e^-R,                                      -dk/dR = v0 e^-R
    matern52   v0 (1 + c + c^2 / 3) e^-c,  c = sqrt(10 R),   -dk/dR = (5/3) v0 (1 + c) e^-c
    matern32   v0 (1 + c) e^-c,            c = sqrt(6 R),    -dk/dR = 3 v0 e^-c
    matern12   v0 e^-c,                    c = sqrt(2 R),    -dk/dR = v0 e^-c / c

Rasmussen & Williams 2006, eq. 4.9 and 4.14 to 4.17, with w_l = 1 / (2 ell_l^2), so that r^2 = 2 R. matern12 has a
kink at R = 0: its value would feel the square root of R's rounding between equal inputs, and its slope has no limit,
where it always stands before (x_l - x'_l)^2 = 0. So R below SMALLEST_R is taken for zero there, and so is the slope.

A family is one entry of FAMILIES, a name in `core.hyperparameters.KernelFamily`, which also makes it one that `auto`
may choose, and the same name in `core.spec.KernelChoice`. It falls so fast that far rows are nothing (1e-290): batches
and float32 rest on that. Each works in place on a block; the Matern kernels on a run of it at a time, so that their
several passes stay in the cache. Tests want its value twice more: `tests/dense/kernel` and `precise`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.arrays import FloatArray
from core.hyperparameters import KernelFamily

LEAST_EXPONENT = -700.0
"""Smallest exponent: exp(-700) is 1e-304, nothing, and still a normal number."""
LEAST_EXPONENT_FLOAT32 = -87.0
"""The same in single precision: exp(-87) is 1e-38."""
RUN = 1 << 14
"""Numbers worked on at a time: with one temporary array as large, 256 KiB."""
SMALLEST_R = 1e-12
"""Below it two inputs are the same to rounding."""


Values = FloatArray | NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kernel as a function of R, in place over a block (d, m) that holds c - R, in double or single precision.

    value: (block, v0, least exponent) -> k(R), never subnormal. slope: (block, v0, least exponent) -> -dk/dR; None
    where that is the value itself. offset: v0 -> c. Rounding may leave R a little below zero: both take it for zero.
    """

    value: Callable[[Values, float, float], None]
    slope: Callable[[Values, float, float], None] | None
    offset: Callable[[float], float]


def _gaussian(block: Values, v0: float, least: float) -> None:
    """v0 exp(-R), whose slope is minus itself; c = log v0 saves a pass over the block."""
    np.clip(block, least, float(np.log(v0)), out=block)
    np.exp(block, out=block)


Shape = Callable[[Values, Values], None]
"""(c, exponential e^-c) -> the kernel over v0, written to the second."""


def _in_place(block: Values, v0: float, least: float, scale: float, shape: Shape, nearest: float) -> None:
    flat = block.reshape(-1)
    if not np.shares_memory(flat, block):
        raise ValueError("a kernel block must be contiguous")
    most = max(-least + min(float(np.log(v0)), 0.0), 0.0)
    work = np.empty(min(RUN, flat.size), block.dtype)
    for begin in range(0, flat.size, RUN):
        c = flat[begin : begin + RUN]
        exponential = work[: c.size]
        np.multiply(c, -scale, out=c)
        np.maximum(c, 0.0, out=c)
        if nearest > 0.0:
            np.multiply(c, c >= scale * nearest, out=c)
        np.sqrt(c, out=c)
        np.minimum(c, most, out=c)
        np.negative(c, out=exponential)
        np.exp(exponential, out=exponential)
        shape(c, exponential)
        np.multiply(exponential, v0, out=c)


def _value52(c: Values, exponential: Values) -> None:
    c *= c / 3.0 + 1.0
    c += 1.0
    exponential *= c


def _one_plus(c: Values, exponential: Values) -> None:
    c += 1.0
    exponential *= c


def _alone(_: Values, __: Values) -> None:
    pass


def _over(c: Values, exponential: Values) -> None:
    same = c == 0.0
    c[same] = 1.0
    exponential /= c
    exponential[same] = 0.0


def _family(scale: float, value: Shape, slope: Shape, factor: float, nearest: float = 0.0) -> Family:
    return Family(
        value=lambda block, v0, least: _in_place(block, v0, least, scale, value, nearest),
        slope=lambda block, v0, least: _in_place(block, factor * v0, least, scale, slope, nearest),
        offset=lambda _: 0.0,
    )


FAMILIES: Mapping[KernelFamily, Family] = {
    KernelFamily.GAUSSIAN: Family(value=_gaussian, slope=None, offset=lambda v0: float(np.log(v0))),
    KernelFamily.MATERN52: _family(10.0, _value52, _one_plus, 5.0 / 3.0),
    KernelFamily.MATERN32: _family(6.0, _one_plus, _alone, 3.0),
    KernelFamily.MATERN12: _family(2.0, _alone, _over, 1.0, SMALLEST_R),
}
