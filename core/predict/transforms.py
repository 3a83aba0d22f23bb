"""Transforms of the target, applied before it is learnt and undone in every prediction.

A transform g is increasing, so a quantile of g(y) is mapped back exactly: the median and every interval are those of
the target itself. The mean and the standard deviation of y = g^-1(t), t normal, are moments of the log-normal
distribution for the logarithms, and sums over QUADRATURE Gauss-Hermite nodes for Yeo and Johnson's family (2000):

    psi(u; c) = ((u + 1)^c - 1) / c,  u >= 0;     -((1 - u)^(2 - c) - 1) / (2 - c),  u < 0

with logarithms where the exponent is 0. u is the target in units of its own spread, so that the power does not depend
on the unit; c is where the profile likelihood of a normal distribution is highest. The map of ranks to normal scores
(`core.predict.ranks`) takes the same sums.

A target that was never below 0, or never outside of 0 to 1, in BOUNDED_ROWS rows or more is told within these bounds:
what is mapped back, and the mean, are held there.

The mean of y grows with the doubt about t as fast as g^-1 does: a row whose noise is taken for ten times what it is may
have a mean past all targets, where its intervals are only too wide. So the moments are those of a t no wider than
WIDEST times all that were learnt, and the mean is held within REACH of the targets.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize_scalar

from core.arrays import FloatArray, frozen
from core.errors import InvalidDataError
from core.predict.ranks import Knots, from_normal, log_slope_of_ranks, rank_knots, to_normal
from core.spec import TargetTransform

QUADRATURE = 48
RUN = 256
"""Rows whose sums are made at a time: their values at all nodes stay in the cache."""
POWERS = (0.0, 2.0)
"""Range of the power of Yeo and Johnson: outside of this the inverse ends somewhere, and means with it."""
LARGEST_TARGET = 1e150
"""Targets mapped back are held within this many of their own spreads, so that their squares are numbers."""
NO_POWER = 1e-8
"""An exponent this near zero is zero."""


BOUNDED_ROWS = 50
"""Rows that tell a bound of the target: a new one is past it with a probability of less than 1 / (e n), whatever the
distribution."""
WIDEST, REACH = 2.0, 0.5
"""Standard deviations of the learnt target that moments take one row to have at most, and the share of the targets'
range by which a mean is at most past its ends."""
LEAST_TARGET = {TargetTransform.LOG: 0.0, TargetTransform.LOG1P: -1.0}
"""Every target must be above this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """g of one target. power, shift and scale are read by Yeo and Johnson's alone: u = (y - shift) / scale; knots by
    `rank-normal`. lowest, highest: bounds of the target, infinite where there are none. least_mean, greatest_mean:
    those of means alone; widest: the largest standard deviation of g(y) that moments take; all of a model learnt before
    there were any are infinite."""

    kind: TargetTransform = TargetTransform.NONE
    power: float = 1.0
    shift: float = 0.0
    scale: float = 1.0
    knots: Knots = ((), ())
    lowest: float = -np.inf
    highest: float = np.inf
    least_mean: float = -np.inf
    greatest_mean: float = np.inf
    widest: float = np.inf

    def __post_init__(self) -> None:
        if self.kind is TargetTransform.AUTO or (self.kind is TargetTransform.RANK_NORMAL) is not bool(self.knots[0]):
            raise InvalidDataError(
                f"transform: {self.kind} has no knots of its own"
                if self.knots[0]
                else f"transform: expected one that was chosen, with its numbers, got {self.kind}"
            )
        t, y = map(np.array, self.knots)
        if t.shape != y.shape or not (np.isfinite(t).all() and np.isfinite(y).all()):
            raise InvalidDataError("transform: expected two lists of finite numbers of one length")
        if len(t) and (len(t) < 3 or (np.diff(t) <= 0.0).any() or (np.diff(y) <= 0.0).any()):
            raise InvalidDataError("transform: expected at least three knots, increasing")
        if not self.lowest < self.highest:
            raise InvalidDataError("transform: expected a lowest target below the highest")
        if not (self.least_mean < self.greatest_mean and self.widest > 0.0):
            raise InvalidDataError("transform: expected a least mean below the greatest, and a width above zero")
        if not (np.isfinite([self.power, self.shift]).all() and 0.0 < self.scale < np.inf):
            raise InvalidDataError("transform: expected finite numbers and a scale above zero")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore what `to_json` made of one. KeyError, TypeError, ValueError, InvalidDataError."""
        scores, values = document.get("knots", ((), ()))
        return cls(
            kind=TargetTransform(document["kind"]),
            power=float(document["power"]),
            shift=float(document["shift"]),
            scale=float(document["scale"]),
            knots=(tuple(map(float, scores)), tuple(map(float, values))),
            **{name: float(document.get(name, default)) for name, default in _INFINITE.items()},
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text and lists, without what is not there."""
        found = asdict(self)
        absent = {name: found[name] == default for name, default in _INFINITE.items()} | {"knots": not self.knots[0]}
        return {name: value for name, value in found.items() if not absent.get(name)}

    @property
    def bounded(self) -> bool:
        """True where the target has bounds."""
        return self.lowest > -np.inf or self.highest < np.inf

    def within(self, y: FloatArray) -> FloatArray:
        """Targets held within the bounds."""
        return np.clip(y, self.lowest, self.highest) if self.bounded else y

    def forward(self, y: FloatArray) -> FloatArray:
        """g(y), (m,)."""
        match self.kind:
            case TargetTransform.NONE:
                return y
            case TargetTransform.LOG:
                return np.log(y)
            case TargetTransform.LOG1P:
                return np.log1p(y)
            case TargetTransform.YEO_JOHNSON:
                return _psi((y - self.shift) / self.scale, self.power)
            case _:
                return to_normal(self.knots, y)

    def inverse(self, t: FloatArray) -> FloatArray:
        """The target with this g, (m,) or any shape, within its bounds; never past LARGEST_TARGET spreads."""
        return self.within(self._unbounded(t))

    def _unbounded(self, t: FloatArray) -> FloatArray:
        if self.kind is TargetTransform.NONE:
            return t
        with np.errstate(over="ignore"):
            match self.kind:
                case TargetTransform.LOG:
                    return np.minimum(np.exp(t), LARGEST_TARGET)
                case TargetTransform.LOG1P:
                    return np.minimum(np.expm1(t), LARGEST_TARGET)
                case TargetTransform.YEO_JOHNSON:
                    return _psi_inverse(t, self.power) * self.scale + self.shift
                case _:
                    return from_normal(self.knots, t)

    def log_slope(self, y: FloatArray) -> FloatArray:
        """log g'(y), (m,): what the density of y has more than that of g(y)."""
        match self.kind:
            case TargetTransform.NONE:
                return np.zeros_like(y)
            case TargetTransform.LOG:
                return -np.log(y)
            case TargetTransform.LOG1P:
                return -np.log1p(y)
            case TargetTransform.YEO_JOHNSON:
                u = (y - self.shift) / self.scale
                return np.asarray(np.sign(u) * (self.power - 1.0) * np.log1p(np.abs(u)) - np.log(self.scale))
            case _:
                return log_slope_of_ranks(self.knots, y)

    def moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (m,), within the bounds and those of means, and variance (m,) of the target where g of it is normal with
        these, and no wider than `widest`."""
        if self.kind is TargetTransform.NONE:
            return self.within(mean), variance
        level, spread = self._moments(mean, np.minimum(variance, self.widest**2))
        return self.within(np.clip(level, self.least_mean, self.greatest_mean)), spread

    def _moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(over="ignore"):
            match self.kind:
                case TargetTransform.LOG | TargetTransform.LOG1P:
                    level = np.minimum(np.exp(mean + 0.5 * variance), LARGEST_TARGET)
                    growth = variance + np.log(-np.expm1(-variance))  # log expm1(variance)
                    spread = np.minimum(np.exp(2.0 * mean + variance + growth), LARGEST_TARGET**2)
                    return (level if self.kind is TargetTransform.LOG else level - 1.0), spread
                case _:
                    level, spread = np.empty_like(mean), np.empty_like(mean)
                    for begin in range(0, len(mean), RUN):  # a row's sum is the same whatever its block
                        some = slice(begin, begin + RUN)
                        level[some], spread[some] = self._summed(mean[some], np.sqrt(variance[some]))
                    return level, spread

    def _summed(self, mean: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
        nodes, weights = _quadrature()
        values = self._unbounded(mean[:, None] + deviation[:, None] * nodes)
        level = np.einsum("mk,k->m", values, weights)
        values -= level[:, None]
        squares = np.square(values, out=values)  # one einsum of three would have other last bits than stored models'
        return level, np.einsum("mk,k->m", squares, weights)


_INFINITE = {"lowest": -np.inf, "highest": np.inf, "least_mean": -np.inf, "greatest_mean": np.inf, "widest": np.inf}
"""Numbers of a transform that are stored where they are finite."""


def bounds_of_targets(targets: FloatArray) -> tuple[float, float]:
    """Bounds that these targets (n,) tell: 0 and 1 of shares, 0 of what is never negative, else none."""
    if len(targets) < BOUNDED_ROWS or targets.min() < 0.0:
        return -np.inf, np.inf
    return 0.0, 1.0 if targets.max() <= 1.0 else np.inf


def transform_of(kind: TargetTransform, targets: FloatArray) -> Transform:
    """The transform for these targets (n,), with their bounds, and those of moments.

    Raises InvalidDataError naming the first target that has no logarithm.
    """
    lowest, highest = bounds_of_targets(targets)
    found = replace(_unbounded_transform(kind, targets), lowest=lowest, highest=highest)
    if kind is TargetTransform.NONE:
        return found
    least, greatest = float(targets.min()), float(targets.max())
    past, width = REACH * (greatest - least), WIDEST * float(np.std(found.forward(targets)))
    if not (past > 0.0 and width > 0.0):
        return found
    return replace(found, least_mean=least - past, greatest_mean=greatest + past, widest=width)


def _unbounded_transform(kind: TargetTransform, targets: FloatArray) -> Transform:
    if kind in (TargetTransform.LOG, TargetTransform.LOG1P):
        least = LEAST_TARGET[kind]
        bad = np.flatnonzero(targets <= least)
        if len(bad):
            raise InvalidDataError(
                f"target_transform: {kind} needs targets above {least:g}; row {bad[0]} has {targets[bad[0]]:g}"
                + (f", and {len(bad) - 1} more" if len(bad) > 1 else "")
            )
        return Transform(kind=kind)
    if kind is TargetTransform.NONE:
        return Transform()
    if kind is TargetTransform.RANK_NORMAL:
        return Transform(kind=kind, knots=rank_knots(targets))
    shift = float(np.median(targets))
    scale = float(np.sqrt(np.mean(np.square(targets - shift))))
    if not 1e-100 < scale < 1e100:
        raise InvalidDataError("the target: its spread is beyond what squares of doubles hold; give it in another unit")
    u = (targets - shift) / scale
    slope = float(np.mean(np.sign(u) * np.log1p(np.abs(u))))

    def loss(power: float) -> float:
        return float(0.5 * np.log(np.var(_psi(u, power))) - (power - 1.0) * slope)

    power = float(minimize_scalar(loss, bounds=POWERS, method="bounded").x)
    return Transform(kind=kind, power=power, shift=shift, scale=scale)


def _psi(u: FloatArray, power: float) -> FloatArray:
    above, below = _box_cox(np.maximum(u, 0.0), power), _box_cox(np.maximum(-u, 0.0), 2.0 - power)
    return np.where(u >= 0.0, above, -below)


@lru_cache(maxsize=1)
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of a standard normal distribution, (QUADRATURE,) each."""
    nodes, weights = hermegauss(QUADRATURE)
    return frozen(nodes), frozen(weights / weights.sum())


def _psi_inverse(t: FloatArray, power: float) -> FloatArray:
    if NO_POWER <= power <= 2.0 - NO_POWER:  # every t is reached: one pass for both sides, with the same bits
        exponent = np.where(t >= 0.0, power, 2.0 - power)
        logarithm = np.log1p(exponent * np.abs(t)) / exponent
        return np.asarray(np.copysign(np.minimum(np.expm1(logarithm), LARGEST_TARGET), t))
    above = _box_cox_inverse(np.maximum(t, 0.0), power)
    below = _box_cox_inverse(np.maximum(-t, 0.0), 2.0 - power)
    return np.where(t >= 0.0, above, -below)


def _box_cox(v: FloatArray, power: float) -> FloatArray:
    """Return ((v + 1)^power - 1) / power of v >= 0, to full precision near zero."""
    logarithm = np.log1p(v)
    return logarithm if abs(power) < NO_POWER else np.expm1(power * logarithm) / power


def _box_cox_inverse(t: FloatArray, power: float) -> FloatArray:
    """The v >= 0 with this value; LARGEST_TARGET where none has it, which a negative power makes possible."""
    if abs(power) < NO_POWER:
        return np.minimum(np.expm1(t), LARGEST_TARGET)
    base = power * t
    reached = base > -1.0
    logarithm = np.log1p(np.where(reached, base, 0.0)) / power
    return np.where(reached, np.minimum(np.expm1(logarithm), LARGEST_TARGET), LARGEST_TARGET)
