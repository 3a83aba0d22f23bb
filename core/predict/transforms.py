"""Transforms of the target, applied before it is learnt and undone in every prediction.

A transform g is increasing, so a quantile of g(y) is mapped back exactly: the median and every interval are those of
the target itself. The mean and the standard deviation of y = g^-1(t), t normal, are moments of the log-normal
distribution for the logarithms, and sums over QUADRATURE Gauss-Hermite nodes for Yeo and Johnson's family (2000):

    psi(u; c) = ((u + 1)^c - 1) / c,  u >= 0;     -((1 - u)^(2 - c) - 1) / (2 - c),  u < 0

with logarithms where the exponent is 0. u is the target in units of its own spread, so that the power does not depend
on the unit; c is where the profile likelihood of a normal distribution is highest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize_scalar

from core.arrays import FloatArray
from core.errors import InvalidDataError
from core.spec import TargetTransform

QUADRATURE = 48
POWERS = (0.0, 2.0)
"""Range of the power of Yeo and Johnson: outside of this the inverse ends somewhere, and means with it."""
LARGEST_TARGET = 1e150
"""Targets mapped back are held within this many of their own spreads, so that their squares are numbers."""
_NO_POWER = 1e-8
"""An exponent this near zero is zero."""


LEAST_TARGET = {TargetTransform.LOG: 0.0, TargetTransform.LOG1P: -1.0}
"""Every target must be above this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """g of one target. power, shift and scale are read by Yeo and Johnson's alone: u = (y - shift) / scale."""

    kind: TargetTransform = TargetTransform.NONE
    power: float = 1.0
    shift: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite([self.power, self.shift]).all() and 0.0 < self.scale < np.inf):
            raise InvalidDataError("transform: expected finite numbers and a scale above zero")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore what `dataclasses.asdict` and a JSON round trip made of one. KeyError, TypeError, ValueError."""
        return cls(
            kind=TargetTransform(document["kind"]),
            power=float(document["power"]),
            shift=float(document["shift"]),
            scale=float(document["scale"]),
        )

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

    def inverse(self, t: FloatArray) -> FloatArray:
        """The target with this g, (m,) or any shape; never past LARGEST_TARGET spreads."""
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

    def moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (m,) and variance (m,) of the target where g of it is normal with these."""
        if self.kind is TargetTransform.NONE:
            return mean, variance
        with np.errstate(over="ignore"):
            match self.kind:
                case TargetTransform.LOG | TargetTransform.LOG1P:
                    level = np.minimum(np.exp(mean + 0.5 * variance), LARGEST_TARGET)
                    growth = variance + np.log(-np.expm1(-variance))  # log expm1(variance)
                    spread = np.minimum(np.exp(2.0 * mean + variance + growth), LARGEST_TARGET**2)
                    return (level if self.kind is TargetTransform.LOG else level - 1.0), spread
                case TargetTransform.YEO_JOHNSON:
                    nodes, weights = hermegauss(QUADRATURE)
                    weights = weights / weights.sum()
                    values = self.inverse(mean[:, None] + np.sqrt(variance)[:, None] * nodes)
                    level = np.einsum("mk,k->m", values, weights)  # a row's sum is the same whatever its block
                    return level, np.einsum("mk,k->m", np.square(values - level[:, None]), weights)


def transform_of(kind: TargetTransform, targets: FloatArray) -> Transform:
    """The transform for these targets (n,). InvalidDataError naming the first target that has no logarithm."""
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


def _psi_inverse(t: FloatArray, power: float) -> FloatArray:
    above = _box_cox_inverse(np.maximum(t, 0.0), power)
    below = _box_cox_inverse(np.maximum(-t, 0.0), 2.0 - power)
    return np.where(t >= 0.0, above, -below)


def _box_cox(v: FloatArray, power: float) -> FloatArray:
    """Return ((v + 1)^power - 1) / power of v >= 0, to full precision near zero."""
    logarithm = np.log1p(v)
    return logarithm if abs(power) < _NO_POWER else np.expm1(power * logarithm) / power


def _box_cox_inverse(t: FloatArray, power: float) -> FloatArray:
    """The v >= 0 with this value; LARGEST_TARGET where none has it, which a negative power makes possible."""
    if abs(power) < _NO_POWER:
        return np.minimum(np.expm1(t), LARGEST_TARGET)
    base = power * t
    reached = base > -1.0
    logarithm = np.log1p(np.where(reached, base, 0.0)) / power
    return np.where(reached, np.minimum(np.expm1(logarithm), LARGEST_TARGET), LARGEST_TARGET)
