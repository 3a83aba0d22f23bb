"""The joint distribution of several rows: draws of the latent function, and the error bar of their sum or mean.

    cov(f_i, f_j) = t_i t_j C_ij,    t_i^2 = v_i / C_ii

C is the posterior covariance (`core.predict.covariance`): of the basis, or of the full process given the training rows
that are nearest to the rows asked for. Calibration, and the variance from nearest rows, change a variance and say
nothing of correlations; so each row is scaled until its variance v_i is the one that is served, and correlations stay
those of the posterior. The noise of rows is independent, with the variance that is served less v_i. A total then has

    variance = w'T C T w + sum_i w_i^2 noise_i

exactly, where the target is learnt as it is. Its interval is as many standard deviations wide as that of a row, since
left-out rows say nothing of sums: it is on the safe side where noise has heavy tails, for those of sums are lighter.

Of a transformed target (logarithms and the like) the mean of a total is the sum of the means, which is exact; its
standard deviation and quantiles are those of TOTAL_DRAWS draws of the joint normal distribution, mapped back.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from core.arrays import FloatArray
from core.errors import InvalidDataError
from core.numeric.linalg import jittered_cholesky
from core.predict.calibration import Calibration
from core.predict.distribution import PredictiveDistribution
from core.predict.inputs import checked_inputs
from core.predict.model import ModelPredictor
from core.predict.transforms import Transform
from core.spec import TargetTransform

MOST_DRAWN_ROWS = 2_000
"""Rows of a joint draw, and of a total of a transformed target: their factor takes O(m^3 / 3)."""
MOST_TOTAL_ROWS = 10_000
"""Rows of an exact total, which takes O(m^2) kernel values."""
TOTAL_DRAWS = 4_000
"""Draws that the spread of a transformed total comes from: its std is known to about one percent."""
DRAWS_SEED = 0x70757273
"""Seed of these draws: the same rows have the same total."""
LEAST_VARIANCE = 1e-300
"""Variances to divide by are no smaller."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointRows:
    """Rows predicted together. factor (m, m): lower, of the covariance of the latent function of the learnt target, as
    it is served."""

    distribution: PredictiveDistribution
    factor: FloatArray

    def draws(self, count: int, random: np.random.Generator) -> FloatArray:
        """Return draws of the latent function, (count, m), in the target's unit. O(count m^2)."""
        return self.distribution.transform.inverse(self._learnt(count, random))

    def drawn_at(self, scores: FloatArray) -> FloatArray:
        """Return the draws that standard normal numbers (count, m) give."""
        return self.distribution.transform.inverse(self._learnt_at(scores))

    def observed(self, count: int, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return draws of the latent function, and of new targets of the same draws, (count, m) each."""
        learnt, found = self._learnt(count, random), self.distribution
        noise = np.sqrt(np.maximum(found.variance - found.latent_variance, 0.0))
        observed = learnt + noise * random.standard_normal(learnt.shape)
        return found.transform.inverse(learnt), found.transform.inverse(observed)

    def _learnt(self, count: int, random: np.random.Generator) -> FloatArray:
        return self._learnt_at(random.standard_normal((count, len(self.factor))))

    def _learnt_at(self, scores: FloatArray) -> FloatArray:
        return np.asarray(self.distribution.centre + scores @ self.factor.T)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Total:
    """A weighted sum over rows. mean; std of a sum of new targets, latent_std of the same without noise; spread: what
    intervals are multiples of; method: `exact` or `samples`; drawn: sorted totals of new targets, of the latter."""

    mean: float
    std: float
    latent_std: float
    spread: float
    calibration: Calibration
    lowest: float = -np.inf
    highest: float = np.inf
    drawn: FloatArray = field(default_factory=lambda: np.empty(0))
    latent_drawn: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def method(self) -> str:
        """Method by which std and interval were found."""
        return "samples" if len(self.drawn) else "exact"

    def interval(self, level: float) -> tuple[float, float]:
        """Lower and upper end of what holds the total of new targets with this probability."""
        below, above = self.calibration.interval(level)
        return self._at(below), self._at(above)

    def quantile(self, probability: float) -> float:
        """Return a quantile of the total of new targets."""
        return self._at(self.calibration.quantile(probability))

    def latent_draws(self, count: int, random: np.random.Generator) -> FloatArray:
        """Return draws of the total without noise, (count,)."""
        return self.latent_at(random.standard_normal(count))

    def latent_at(self, scores: FloatArray) -> FloatArray:
        """Return the totals without noise that standard normal numbers give, of the same shape."""
        if len(self.latent_drawn):
            return np.asarray(np.quantile(self.latent_drawn, ndtr(scores)))
        return self._within(self.mean + self.latent_std * scores)

    def _at(self, deviations: float) -> float:
        if len(self.drawn):
            return float(np.quantile(self.drawn, float(ndtr(deviations))))
        return float(self._within(np.array([self.mean + deviations * self.spread]))[0])

    def _within(self, totals: FloatArray) -> FloatArray:
        return np.clip(totals, self.lowest, self.highest)


def joint_rows(predictor: ModelPredictor, inputs: FloatArray) -> JointRows:
    """Return rows (m, p), in raw units, predicted together. O(m^2 d + m^3 / 3).

    Raises:
        InvalidDataError: more than MOST_DRAWN_ROWS rows, or as `ModelPredictor.predict`.
        MeanOnlyError: the model has no variance.
    """
    inputs = checked_inputs(inputs, predictor.columns)
    if len(inputs) > MOST_DRAWN_ROWS:
        raise InvalidDataError(f"joint draws are of at most {MOST_DRAWN_ROWS:,} rows, got {len(inputs):,}")
    distribution = predictor.predict(inputs)
    if not len(inputs):
        return JointRows(distribution=distribution, factor=np.zeros((0, 0)))
    covariance = predictor.predictor.covariance(inputs)
    rows = covariance.rows(inputs)
    scale = 1.0 / np.sqrt(rows.variance)
    factor, _ = jittered_cholesky(covariance.among(rows) * scale[:, None] * scale, "the joint correlation")
    served = np.sqrt(_drawn_variance(distribution) / np.einsum("ij,ij->i", factor, factor))
    return JointRows(distribution=distribution, factor=factor * served[:, None])


def total(predictor: ModelPredictor, inputs: FloatArray, weights: FloatArray) -> Total:
    """Return the distribution of a weighted sum over rows: exact under the posterior where the target is learnt as it
    is, by draws where it is transformed.

    Args:
        predictor: of the model.
        inputs: (m, p) in raw units, at least one row.
        weights: (m,), not negative: 1 for the sum, 1 / m for the mean.

    Raises:
        InvalidDataError: more than MOST_TOTAL_ROWS rows, or MOST_DRAWN_ROWS of a transformed target.
        MeanOnlyError: the model has no variance.
    """
    inputs = checked_inputs(inputs, predictor.columns)
    if predictor.transform.kind is not TargetTransform.NONE:
        return _drawn_total(joint_rows(predictor, inputs), weights)
    if len(inputs) > MOST_TOTAL_ROWS:
        raise InvalidDataError(f"a total is over at most {MOST_TOTAL_ROWS:,} rows, got {len(inputs):,}")
    found = predictor.predict(inputs)
    std, latent_std = found.std(), found.latent_std()
    told = np.stack((np.square(latent_std), found.latent_variance), axis=1)  # (m, 2)

    def weigh(place: slice, variance: FloatArray) -> FloatArray:
        scale = np.sqrt(told[place] / np.maximum(variance, LEAST_VARIANCE)[:, None])
        return weights[place, None] * scale

    latent = np.diag(predictor.predictor.covariance(inputs).of_sums(inputs, weigh))
    noise = np.stack((np.square(std), found.variance), axis=1) - told
    variance = np.maximum(latent, 0.0) + np.square(weights) @ np.maximum(noise, 0.0)
    bounds: Transform = found.transform
    return Total(
        mean=float(weights @ found.moments()[0]),
        std=float(np.sqrt(variance[0])),
        latent_std=float(np.sqrt(max(latent[0], 0.0))),
        spread=float(np.sqrt(variance[1])),
        calibration=found.calibration,
        lowest=bounds.lowest * float(weights.sum()),
        highest=bounds.highest * float(weights.sum()),
    )


def _drawn_total(rows: JointRows, weights: FloatArray) -> Total:
    random = np.random.default_rng(DRAWS_SEED)
    latent, observed = (each @ weights for each in rows.observed(TOTAL_DRAWS, random))
    return Total(
        mean=float(weights @ rows.distribution.moments()[0]),
        std=float(observed.std()),
        latent_std=min(float(latent.std()), float(observed.std())),
        spread=0.0,
        calibration=rows.distribution.calibration,
        drawn=np.sort(observed),
        latent_drawn=np.sort(latent),
    )


def _drawn_variance(found: PredictiveDistribution) -> FloatArray:
    """Variance of the function's draws: as it is served, or where it is mapped back, that of the learnt target."""
    if found.transform.kind is TargetTransform.NONE:
        return np.maximum(np.square(found.latent_std()), LEAST_VARIANCE)
    return np.maximum(found.latent_variance, LEAST_VARIANCE)
