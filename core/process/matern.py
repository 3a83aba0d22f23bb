"""Matern kernels of smoothness 5/2, 3/2 and 1/2 as functions of the squared distance R = sum_l w_l (x_l - x'_l)^2.

    matern52   v0 (1 + c + c^2 / 3) e^-c,  c = sqrt(10 R),   -dk/dR = (5/3) v0 (1 + c) e^-c
    matern32   v0 (1 + c) e^-c,            c = sqrt(6 R),    -dk/dR = 3 v0 e^-c
    matern12   v0 e^-c,                    c = sqrt(2 R),    -dk/dR = v0 e^-c / c

Rasmussen & Williams 2006, eq. 4.14 to 4.17, with w_l = 1 / (2 ell_l^2), so that r^2 = 2 R. The slope of matern12 has no
limit at R = 0, where it always stands before (x_l - x'_l)^2 = 0: below SMALLEST_R it is taken for zero.

Each works in place on a block that holds -R, a run of it at a time, so that its several passes stay in the cache.
"""

from collections.abc import Callable

import numpy as np

from core.arrays import FloatArray
from core.process.kernel import Family

RUN = 1 << 14
"""Numbers worked on at a time: with one temporary array as large, 256 KiB."""
SMALLEST_R = 1e-12
"""Below it two inputs are the same to rounding."""

Shape = Callable[[FloatArray, FloatArray], None]
"""(c, exponential e^-c) -> the kernel over v0, written to the second."""


def _in_place(block: FloatArray, v0: float, least: float, scale: float, shape: Shape) -> None:
    flat = block.reshape(-1)
    if not np.shares_memory(flat, block):
        raise ValueError("a kernel block must be contiguous")
    work = np.empty(min(RUN, flat.size))
    for begin in range(0, flat.size, RUN):
        c = flat[begin : begin + RUN]
        exponential = work[: c.size]
        np.multiply(c, -scale, out=c)
        np.maximum(c, 0.0, out=c)
        np.sqrt(c, out=c)
        np.minimum(c, -least, out=c)
        np.negative(c, out=exponential)
        np.exp(exponential, out=exponential)
        shape(c, exponential)
        np.multiply(exponential, v0, out=c)


def _value52(c: FloatArray, exponential: FloatArray) -> None:
    c *= c / 3.0 + 1.0
    c += 1.0
    exponential *= c


def _one_plus(c: FloatArray, exponential: FloatArray) -> None:
    c += 1.0
    exponential *= c


def _alone(_: FloatArray, __: FloatArray) -> None:
    pass


def _over(c: FloatArray, exponential: FloatArray) -> None:
    same = np.square(c) < 2.0 * SMALLEST_R
    c[same] = 1.0
    exponential /= c
    exponential[same] = 0.0


def _family(scale: float, value: Shape, slope: Shape, factor: float) -> Family:
    return Family(
        value=lambda block, v0, least: _in_place(block, v0, least, scale, value),
        slope=lambda block, v0, least: _in_place(block, factor * v0, least, scale, slope),
        offset=lambda _: 0.0,
    )


MATERN52 = _family(10.0, _value52, _one_plus, 5.0 / 3.0)
MATERN32 = _family(6.0, _one_plus, _alone, 3.0)
MATERN12 = _family(2.0, _alone, _over, 1.0)
