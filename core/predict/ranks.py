"""Rank to normal: the increasing map that takes a target's quantiles to those of a normal distribution.

    y_k = the quantile Phi(t_k) of the training targets,  t_k evenly spaced over the normal scores of n rows

with the monotone cubic of Fritsch & Carlson (1980) through the knots (t_k, y_k) as g^-1, so that it has a continuous
slope; beyond the first and the last knot a line, with the slope to the knot TAIL_KNOTS further in where the curve stays
monotone with it, so that a normal tail stays one, of the spread that the last rows have. g itself is solved for by
bisection.
"""

from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator
from scipy.special import ndtr, ndtri

from core.arrays import FloatArray
from core.errors import InvalidDataError

ROWS_PER_KNOT, KNOTS = 12, (5, 33)
"""Rows for each knot, and the fewest and most knots."""
TAIL_KNOTS = 2
LEAST_SLOPE = 1e-3
"""Least slope of g^-1 between knots, in spreads of the target: where targets are tied its density ends."""
FARTHEST = 1e100
"""Normal scores past the last knot are held within this, so that squares of what they map to are numbers."""
_HALVINGS = 52

Knots = tuple[tuple[float, ...], tuple[float, ...]]
"""Normal scores t_k and targets y_k, both increasing."""


def rank_knots(targets: FloatArray) -> Knots:
    """Return knots for these targets (n,). InvalidDataError where they do not vary. O(n log n)."""
    y, n = np.sort(targets), len(targets)
    spread = float(y[-1] - y[0])
    if not 0.0 < spread < np.inf:
        raise InvalidDataError("target_transform: rank-normal needs targets that vary, in a unit that doubles hold")
    most = float(ndtri(1.0 - 0.5 / n))
    t = np.linspace(-most, most, int(np.clip(n // ROWS_PER_KNOT, *KNOTS)))
    values = np.interp(ndtr(t) * n - 0.5, np.arange(n), y)
    steps = np.maximum(np.diff(values), LEAST_SLOPE * spread * np.diff(t))
    values = values[0] + np.concatenate(([0.0], np.cumsum(steps)))
    return tuple(t.tolist()), tuple(values.tolist())


def from_normal(knots: Knots, t: FloatArray) -> FloatArray:
    """g^-1(t), of any shape."""
    curve, low, high = rank_curve(knots)
    first, last = knots[0][0], knots[0][-1]
    inside = curve(np.clip(t, first, last))
    beyond = np.clip(np.minimum(t - first, 0.0) + np.maximum(t - last, 0.0), -FARTHEST, FARTHEST)
    return np.asarray(inside + np.where(beyond < 0.0, low, high) * beyond)


def to_normal(knots: Knots, y: FloatArray) -> FloatArray:
    """g(y), (m,)."""
    curve, low, high = rank_curve(knots)
    bottom, top = knots[1][0], knots[1][-1]
    scores, values = np.array(knots[0]), np.array(knots[1])
    inside = np.clip(y, bottom, top)
    place = np.clip(np.searchsorted(values, inside, side="right") - 1, 0, len(values) - 2)
    lower, upper = scores[place], scores[place + 1]
    for _ in range(_HALVINGS):
        middle = 0.5 * (lower + upper)
        above = curve(middle) > inside
        lower, upper = np.where(above, lower, middle), np.where(above, middle, upper)
    t = np.where(y <= bottom, scores[0], np.where(y >= top, scores[-1], 0.5 * (lower + upper)))
    return np.asarray(t + np.minimum(y - bottom, 0.0) / low + np.maximum(y - top, 0.0) / high)


def log_slope_of_ranks(knots: Knots, y: FloatArray) -> FloatArray:
    """log g'(y), (m,)."""
    curve, low, high = rank_curve(knots)
    (first, *_, last), (bottom, *_, top) = knots
    slope = curve.derivative()(np.clip(to_normal(knots, y), first, last))
    slope = np.where(y < bottom, low, np.where(y > top, high, slope))
    return np.asarray(-np.log(np.maximum(slope, LEAST_SLOPE**2 * (top - bottom))))


@lru_cache(maxsize=256)
def rank_curve(knots: Knots) -> tuple[CubicHermiteSpline, float, float]:
    """Return g^-1 between the knots, and its slopes at both ends."""
    t, y = np.array(knots[0]), np.array(knots[1])
    slopes = PchipInterpolator(t, y).derivative()(t)
    for end, inner, step in ((0, TAIL_KNOTS, 1), (-1, -1 - TAIL_KNOTS, -2)):
        nearest = (y[step] - y[end]) / (t[step] - t[end])
        slopes[end] = np.clip((y[inner] - y[end]) / (t[inner] - t[end]), 0.3 * nearest, 3.0 * nearest)
    return CubicHermiteSpline(t, y, slopes), float(slopes[0]), float(slopes[-1])
