"""Several targets predicted together: draws of all of them, and the error bar of their sum.

Each target has a posterior of its own, and R (t, t) is the correlation of their standardized errors of left-out rows.
The error of a prediction, of a row or of a total over rows, is a normal score u_t times its standard deviation s_t:

    corr(u_t, u_r) = R_tr,    variance of sum_t w_t y_t = (w s)' R (w s)

Assumed: R is the same for the function and for its noise, for all rows and for their totals. That is the separable
covariance (a a' R) x V, Kronecker, of targets whose rows have one covariance V but for a scale a_t each (intrinsic
coregionalization: Bonilla, Chai & Williams 2008, eq. 2), for which all here is exact. Targets with hyperparameters of
their own have correlations of rows of their own: there a total has R because it is assumed; draws of rows

    f_t = m_t + L_t sum_r R^(1/2)_tr z_r,    z_r ~ N(0, I)

have each target's covariance L_t L_t' exactly, and between targets no more than R.

A quantile of a sum is the sum of the medians, and as far from it as the targets' own quantiles q_t are from theirs:
sqrt(q'R q), which is exact for normal distributions, for a single target, and where R is 1 throughout. Where one of
the targets is transformed it is that of TOTAL_DRAWS draws of the scores, each mapped to its target's quantile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.special import ndtr

from core.arrays import FloatArray
from core.predict.distribution import PredictiveDistribution
from core.predict.joint import DRAWS_SEED, TOTAL_DRAWS, JointRows, Total
from core.spec import TargetTransform

_SCORES = np.linspace(-4.5, 4.5, 181)
"""Scores whose quantiles are computed; linear between them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetPart:
    """Predictions of one target, (m,) each: of rows, or one of a total. quantile: of new targets, by probability;
    linear: the target is learnt as it is."""

    mean: FloatArray
    std: FloatArray
    latent_std: FloatArray
    quantile: Callable[[float], FloatArray]
    linear: bool

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of what holds a new target with this probability."""
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    @classmethod
    def of_rows(cls, found: PredictiveDistribution) -> Self:
        """Return the rows of a predictive distribution."""
        linear = found.transform.kind is TargetTransform.NONE
        mean, std, latent_std = found.moments()[0], found.std(), found.latent_std()
        return cls(mean=mean, std=std, latent_std=latent_std, quantile=found.quantile, linear=linear)

    @classmethod
    def of_total(cls, found: Total) -> Self:
        """Return a total over rows."""
        mean, std, latent_std = (np.array([each]) for each in (found.mean, found.std, found.latent_std))
        return cls(
            mean=mean,
            std=std,
            latent_std=latent_std,
            quantile=lambda probability: np.array([found.quantile(probability)]),
            linear=found.method == "exact",
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumOfTargets:
    """A weighted sum over targets, (m,). drawn (TOTAL_DRAWS, m): sums of new targets, empty where `method` is
    `exact`."""

    parts: Sequence[TargetPart]
    weights: FloatArray
    correlation: FloatArray
    drawn: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def method(self) -> str:
        """Method by which quantiles were found; mean and standard deviations are in closed form."""
        return "samples" if len(self.drawn) else "exact"

    @property
    def mean(self) -> FloatArray:
        """Predictive mean."""
        return np.asarray(self.weights @ np.stack([part.mean for part in self.parts]))

    @property
    def std(self) -> FloatArray:
        """Standard deviation of a sum of new targets."""
        return self._together([part.std for part in self.parts])

    @property
    def latent_std(self) -> FloatArray:
        """Standard deviation of the sum of the functions, without noise."""
        return self._together([part.latent_std for part in self.parts])

    def quantile(self, probability: float) -> FloatArray:
        """Return a quantile of the sum of new targets."""
        if len(self.drawn):
            return np.asarray(np.quantile(self.drawn, probability, axis=0))
        medians = [part.quantile(0.5) for part in self.parts]
        away = [part.quantile(probability) - median for part, median in zip(self.parts, medians, strict=True)]
        return np.asarray(self.weights @ np.stack(medians) + np.copysign(self._together(away), probability - 0.5))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of what holds the sum of new targets with this probability."""
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def _together(self, deviations: Sequence[FloatArray]) -> FloatArray:
        weighted = self.weights[:, None] * np.stack(deviations)  # (t, m)
        return np.asarray(np.sqrt(np.maximum(np.einsum("tm,tr,rm->m", weighted, self.correlation, weighted), 0.0)))


def nearest_correlation(found: FloatArray) -> FloatArray:
    """Return a correlation matrix: the one that is given where it is one, else without its negative eigenvalues and
    scaled to a diagonal of ones. Correlations of pairs that come from different rows may have some."""
    values, vectors = np.linalg.eigh(found)
    if values[0] >= 0.0:
        return found
    whole = (vectors * np.maximum(values, 0.0)) @ vectors.T
    scale = 1.0 / np.sqrt(np.diag(whole))
    return np.asarray(whole * scale[:, None] * scale)


def sum_of_targets(parts: Sequence[TargetPart], correlation: FloatArray, weights: FloatArray) -> SumOfTargets:
    """Return the distribution of a weighted sum over targets.

    Args:
        parts: t of them, with the same rows.
        correlation: R (t, t), as `nearest_correlation` returns it.
        weights: (t,), not negative.
    """
    if all(part.linear for part in parts):
        return SumOfTargets(parts=parts, weights=weights, correlation=correlation)
    drawn = np.zeros((TOTAL_DRAWS, len(parts[0].mean)))
    scores = correlated_scores(correlation, (TOTAL_DRAWS,), np.random.default_rng(DRAWS_SEED))
    for part, weight, own in zip(parts, weights, scores, strict=True):
        table = np.stack([part.quantile(float(probability)) for probability in ndtr(_SCORES)])
        place = np.clip(np.interp(own, _SCORES, np.arange(len(_SCORES))), 0.0, len(_SCORES) - 1.001)
        below = place.astype(np.int64)
        share = (place - below)[:, None]
        drawn += weight * (table[below] * (1.0 - share) + table[below + 1] * share)
    return SumOfTargets(parts=parts, weights=weights, correlation=correlation, drawn=drawn)


def joint_draws(
    rows: Sequence[JointRows], correlation: FloatArray, count: int, random: np.random.Generator
) -> list[FloatArray]:
    """Return draws of the latent function of each target, (count, m), together."""
    scores = correlated_scores(correlation, (count, len(rows[0].factor)), random)
    return [each.drawn_at(own) for each, own in zip(rows, scores, strict=True)]


def total_draws(
    totals: Sequence[Total], correlation: FloatArray, count: int, random: np.random.Generator
) -> list[FloatArray]:
    """Return draws of the total without noise of each target, (count,), together."""
    scores = correlated_scores(correlation, (count,), random)
    return [each.latent_at(own) for each, own in zip(totals, scores, strict=True)]


def correlated_scores(correlation: FloatArray, shape: tuple[int, ...], random: np.random.Generator) -> FloatArray:
    """Return standard normal numbers (t, ..) that are correlated between targets and independent else."""
    values, vectors = np.linalg.eigh(correlation)  # a root of singular ones too: targets may be multiples
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(np.tensordot(root, random.standard_normal((len(root), *shape)), axes=1))
