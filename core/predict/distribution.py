"""The distribution of new targets: from a normal one of the learnt target to quantiles, moments and densities of the
target itself, calibrated.

    quantile p = g^-1(m + Q(p) sd)      Q of `core.predict.calibration`, g of `core.predict.transforms`, sd with noise
    mean       = that of g^-1(t), t ~ N(m, sd^2)
    std        = that of the same, held to STD_RANGE of that of a normal distribution with the same 95% interval
    density    = that of the scores' fitted distribution, with the slope of g

One type for rows that a model predicts, for scores and for left-out rows.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from core.arrays import FloatArray
from core.predict.calibration import STD_LEVEL, STD_RANGE, Calibration
from core.predict.transforms import Transform
from core.spec import TargetTransform

CRPS_QUANTILES = 100
LEAST_STD = 0.05
"""The std is not scaled to less of itself where an interval ends at a bound of the target."""


_UNCALIBRATED = Calibration()
_UNTRANSFORMED = Transform()
_NO_VARIANCE = np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictiveDistribution:
    """Distributions of a new target at each of m rows.

    centre, variance: (m,), of the learnt target, noise included. latent_variance: (m,), of the function without noise.
    support: (m,), the share of the prior's variance that is left, 0 at the data and 1 far from all of them; 0
    everywhere for SoR, whose prior has none outside the span of its basis. The last two are there for the rows that a
    model predicts, not for left-out ones.
    """

    centre: FloatArray
    variance: FloatArray
    calibration: Calibration = _UNCALIBRATED
    transform: Transform = _UNTRANSFORMED
    latent_variance: FloatArray = field(default_factory=lambda: _NO_VARIANCE)
    support: FloatArray = field(default_factory=lambda: _NO_VARIANCE)
    _found: list[tuple[FloatArray, FloatArray]] = field(init=False, repr=False, default_factory=list)

    @property
    def latent(self) -> "PredictiveDistribution":
        """Distribution of the function without noise, uncalibrated."""
        return PredictiveDistribution(centre=self.centre, variance=self.latent_variance, transform=self.transform)

    @property
    def _plain(self) -> bool:
        """True where intervals are as wide as the std says in all rows."""
        return self.transform.kind is TargetTransform.NONE and not self.transform.bounded

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean (m,) and variance (m,) of a new target."""
        if not self._found:  # sums over nodes are made once, for the mean and for the std
            self._found.append(self.transform.moments(self.centre, self.variance))
        return self._found[0]

    def std(self) -> FloatArray:
        """Standard deviation (m,) of a new target, agreeing with the interval."""
        if self._plain:
            return np.asarray(self.calibration.std_factor * np.sqrt(self.variance))
        raw, (lower, upper) = np.sqrt(self.moments()[1]), self.interval(STD_LEVEL)
        normal = np.maximum(0.5 * (upper - lower) / float(ndtri(0.5 + 0.5 * STD_LEVEL)), LEAST_STD * raw)
        return np.clip(raw, STD_RANGE[0] * normal, STD_RANGE[1] * normal)

    def latent_std(self) -> FloatArray:
        """Standard deviation (m,) of the function without noise, never above `std`."""
        if self._plain:
            return np.asarray(self.calibration.std_factor * np.sqrt(self.latent_variance))
        return np.minimum(np.sqrt(self.latent.moments()[1]), self.std())

    def quantile(self, probability: float) -> FloatArray:
        """Return a quantile of each row, (m,), 0 < probability < 1."""
        return self._at(self.calibration.quantile(probability))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end (m,) of what holds a new target with this probability."""
        below, above = self.calibration.interval(level)
        return self._at(below), self._at(above)

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Return the log density at these targets, (m,), in nats."""
        error = self.transform.forward(targets) - self.centre
        return np.asarray(self.transform.log_slope(targets) + self.calibration.log_density(error, self.variance))

    def crps(self, targets: FloatArray) -> FloatArray:
        """Continuous ranked probability score (m,), in the target's unit: twice the pinball loss, the mean over
        CRPS_QUANTILES quantiles (Gneiting & Raftery 2007)."""
        total = np.zeros_like(targets)
        for probability in (np.arange(CRPS_QUANTILES) + 0.5) / CRPS_QUANTILES:
            miss = targets - self.quantile(float(probability))
            total += np.where(miss >= 0.0, probability * miss, (probability - 1.0) * miss)
        return total * (2.0 / CRPS_QUANTILES)

    def _at(self, deviations: float) -> FloatArray:
        """So many standard deviations from the centre; from the bound where that is beyond it, since an interval that
        lies outside whole would have no width."""
        centre = self.transform.within(self.centre) if self.transform.kind is TargetTransform.NONE else self.centre
        return self.transform.inverse(centre + deviations * np.sqrt(self.variance))
