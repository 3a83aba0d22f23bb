"""Mixtures of predictive distributions, for rows of which not every input is known.

    F(y) = sum_k F_k(y) / K,     mean = sum_k m_k / K,     variance = sum_k (v_k + (m_k - mean)^2) / K

The last is the law of total variance; the std that is told follows it too, from those of the components. F_k is the
calibrated distribution of the row with its k-th values: its scores (y - m) / sd have the distribution function
`Calibration.cdf`. A quantile of the mixture lies between the least and the largest of its components' and is found
there by regula falsi, to rounding: a row's answer has the same bits whatever rows are beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp

from core.arrays import BoolArray, FloatArray, IntArray
from core.predict.distribution import CRPS_QUANTILES, PredictiveDistribution

MOST_STEPS = 200
"""Steps to a quantile: 15 are usual, and a third of them are halvings, of which some 55 leave neighbouring doubles."""
CLOSE = 4e-16
"""A probability is met to this: the rounding of a mean of distribution functions."""


class Distribution(Protocol):
    """Distributions of a new target at each of m rows, as `PredictiveDistribution` has them."""

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance, (m,) each."""

    def quantile(self, probability: float) -> FloatArray:
        """Return a quantile of each row, (m,)."""

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end, (m,) each."""

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Return the log density at these targets, (m,), in nats."""

    def crps(self, targets: FloatArray) -> FloatArray:
        """Continuous ranked probability score, (m,)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture:
    """Mixtures of `size` components of equal weight, those of a row one after the other: (m size,) rows."""

    components: PredictiveDistribution
    size: int

    @property
    def support(self) -> FloatArray:
        """Mean of the components' support, (m,)."""
        return np.asarray(self._rows(self.components.support).mean(axis=1))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean (m,) and variance (m,) of a new target, by the law of total variance."""
        means, variances = map(self._rows, self.components.moments())
        mean = means.mean(axis=1)
        return mean, variances.mean(axis=1) + np.square(means - mean[:, None]).mean(axis=1)

    def std(self) -> FloatArray:
        """Standard deviation (m,) of a new target: of the components' own, by the law of total variance."""
        return self._total(self.components.std())

    def latent_std(self) -> FloatArray:
        """Standard deviation (m,) of the function without noise: what is not known of the inputs is in it."""
        return self._total(self.components.latent_std())

    def quantile(self, probability: float) -> FloatArray:
        """Return a quantile of each row, (m,).

        O(m size) for each of some 15 steps.
        """
        parts = self.components
        centre, deviation = self._rows(parts.centre), self._rows(np.sqrt(parts.variance))
        each = centre + parts.calibration.quantile(probability) * deviation

        def excess(values: FloatArray, rows: IntArray) -> FloatArray:
            scores = (values[:, None] - centre[rows]) / deviation[rows]
            return np.asarray(parts.calibration.cdf(scores).mean(axis=1) - probability)

        return np.asarray(parts.transform.inverse(_roots(excess, each.min(axis=1), each.max(axis=1))))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end (m,), with as much probability below as above."""
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Return the log density at these targets, (m,), in nats."""
        each = self._rows(self.components.log_density(np.repeat(targets, self.size)))
        return np.asarray(logsumexp(each, axis=1) - np.log(self.size))

    def crps(self, targets: FloatArray) -> FloatArray:
        """Continuous ranked probability score (m,), as `PredictiveDistribution.crps`, from the mixture's quantiles
        among those of its components: to 1 / (size CRPS_QUANTILES) of their probabilities. O(m size)."""
        probabilities = (np.arange(CRPS_QUANTILES) + 0.5) / CRPS_QUANTILES
        each = np.stack([self._rows(self.components.quantile(float(one))) for one in probabilities], axis=2)
        loss = np.empty(len(targets))
        for row, target in enumerate(targets.tolist()):
            atoms = np.sort(each[row], axis=None)
            miss = target - atoms[(probabilities * len(atoms)).astype(np.int64)]
            loss[row] = np.where(miss >= 0.0, probabilities * miss, (probabilities - 1.0) * miss).mean()
        return 2.0 * loss

    def _total(self, deviations: FloatArray) -> FloatArray:
        means = self._rows(self.components.moments()[0])
        between = np.square(means - means.mean(axis=1)[:, None]).mean(axis=1)
        return np.asarray(np.sqrt(between + self._rows(np.square(deviations)).mean(axis=1)))

    def _rows(self, each: FloatArray) -> FloatArray:
        return each.reshape(-1, self.size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartlyMixed:
    """Rows of which some are mixtures. mixed (m,): which they are, in the order of `mixtures`; the others are those of
    `plain`, to the bits of a table without mixtures."""

    plain: PredictiveDistribution
    mixtures: Mixture
    mixed: BoolArray

    @property
    def support(self) -> FloatArray:
        """Share of the prior's variance that is left, (m,)."""
        return self._joined(self.plain.support, self.mixtures.support)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean (m,) and variance (m,) of a new target."""
        (mean, variance), (mixed_mean, mixed_variance) = self.plain.moments(), self.mixtures.moments()
        return self._joined(mean, mixed_mean), self._joined(variance, mixed_variance)

    def std(self) -> FloatArray:
        """Standard deviation (m,) of a new target."""
        return self._joined(self.plain.std(), self.mixtures.std())

    def latent_std(self) -> FloatArray:
        """Standard deviation (m,) of the function without noise."""
        return self._joined(self.plain.latent_std(), self.mixtures.latent_std())

    def quantile(self, probability: float) -> FloatArray:
        """Return a quantile of each row, (m,)."""
        return self._joined(self.plain.quantile(probability), self.mixtures.quantile(probability))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end (m,) of what holds a new target with this probability."""
        (lower, upper), (mixed_lower, mixed_upper) = self.plain.interval(level), self.mixtures.interval(level)
        return self._joined(lower, mixed_lower), self._joined(upper, mixed_upper)

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Return the log density at these targets, (m,), in nats."""
        return self._joined(
            self.plain.log_density(targets[~self.mixed]), self.mixtures.log_density(targets[self.mixed])
        )

    def crps(self, targets: FloatArray) -> FloatArray:
        """Continuous ranked probability score, (m,)."""
        return self._joined(self.plain.crps(targets[~self.mixed]), self.mixtures.crps(targets[self.mixed]))

    def _joined(self, plain: FloatArray, mixed: FloatArray) -> FloatArray:
        found = np.empty(len(self.mixed))
        found[~self.mixed], found[self.mixed] = plain, mixed
        return found


def joined(parts: Sequence[PredictiveDistribution]) -> PredictiveDistribution:
    """Rows of predictions of one model, one after the other; at least one part."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {}
    for name in (each.name for each in fields(PredictiveDistribution) if each.init):
        values = [getattr(part, name) for part in parts]
        found[name] = np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
    return PredictiveDistribution(**found)


def _roots(excess: Callable[[FloatArray, IntArray], FloatArray], lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Root of a function of each row that does not fall, in its bracket, (m,): regula falsi, by Dowell & Jarratt (1971)
    where an end stays, and every third step a halving. Each row by itself, until rounding leaves nothing to find.

    excess: of values (r,) for the rows with these numbers (r,).
    """
    rows = np.arange(len(lower))
    below, above, found = excess(lower, rows), excess(upper, rows), upper.copy()
    found[below >= 0.0] = lower[below >= 0.0]
    open_rows = rows[(below < 0.0) & (above > 0.0)]
    stayed = np.zeros(len(rows), np.int8)  # 1: the upper end, -1: the lower end stayed
    for step in range(MOST_STEPS):
        if not len(open_rows):
            break
        low, high, f_low, f_high = lower[open_rows], upper[open_rows], below[open_rows], above[open_rows]
        share = 0.5 if step % 3 == 2 else f_low / (f_low - f_high)
        middle = np.minimum(np.maximum(low + share * (high - low), low), high)
        value = excess(middle, open_rows)
        rises, was = value < 0.0, stayed[open_rows]
        weight = np.where(rises & (was == 1), 0.5 * f_high, f_high), np.where(~rises & (was == -1), 0.5 * f_low, f_low)
        lower[open_rows], upper[open_rows] = np.where(rises, middle, low), np.where(rises, high, middle)
        below[open_rows], above[open_rows] = np.where(rises, value, weight[1]), np.where(rises, weight[0], value)
        stayed[open_rows] = np.where(rises, 1, -1)
        found[open_rows] = middle
        done = (np.abs(value) <= CLOSE) | (np.nextafter(lower[open_rows], upper[open_rows]) >= upper[open_rows])
        open_rows = open_rows[~done]
    return found
