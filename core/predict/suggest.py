"""Choice of the rows to measure next: those that say most of a region, or those that may beat the best so far.

    variance      gain(c) = mean_t cov(t, c)^2 / (var(c) + noise(c))
                  integrated variance reduction, "ALC" (Cohn et al. 1996; Seo et al. 2000)
    improvement   gain(c) = E max(f(c) - best, 0) = (m - best) Phi(z) + s phi(z),   z = (m - best) / s
                  (Jones et al. 1998)

Both are greedy: after each pick all covariances are those with the pick measured, which needs no target:

    cov(a, b) -= cov(a, c) cov(c, b) / (var(c) + noise(c))

For `improvement` the pick is believed to be measured at its mean, so that means stay and `best` follows (the kriging
believer, Ginsbourger et al. 2010). Variances are those that are served, correlations those of the posterior
(`core.predict.joint`); all on the scale that the target is learnt in.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from core.arrays import FloatArray, IntArray
from core.errors import InvalidDataError
from core.predict.covariance import CovarianceRows, LatentCovariance
from core.predict.distribution import PredictiveDistribution
from core.predict.inputs import checked_inputs
from core.predict.model import ModelPredictor

MOST_CANDIDATES = 5_000
MOST_REGION = 5_000
MOST_SUGGESTED = 100
_LEAST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Suggestions:
    """Rows to measure, in order. places (k,): which of the candidates; gains (k,): what the criterion said of each;
    before, after: mean variance of the function over the region, or nothing of it; best: what the first had to beat."""

    places: IntArray
    gains: FloatArray
    before: float | None = None
    after: float | None = None
    best: float | None = None


class _Fantasies:
    """Covariances of some rows, as they are with the picks measured."""

    def __init__(self, predictor: ModelPredictor, inputs: FloatArray) -> None:
        self.found: PredictiveDistribution = predictor.predict(inputs)
        self._covariance: LatentCovariance = predictor.predictor.covariance(inputs)
        self.rows: CovarianceRows = self._covariance.rows(inputs)
        self.scale = np.sqrt(self.found.latent_variance / np.maximum(self.rows.variance, _LEAST))
        self.noise = np.maximum(self.found.variance - self.found.latent_variance, 0.0)
        self.variance = self.found.latent_variance.copy()
        self._R = np.zeros((0, len(inputs)))

    def covariance_of(self, some: slice, others: slice) -> FloatArray:
        """Return the covariance of some rows with others, before any pick."""
        found = self._covariance.between(_take(self.rows, some), _take(self.rows, others))
        return np.asarray(found * self.scale[some, None] * self.scale[others])

    def measure(self, place: int) -> FloatArray:
        """Take a row as measured; return its covariance with all rows over the deviation of its observation, (m,)."""
        one, every = slice(place, place + 1), slice(0, len(self.scale))
        row = self.covariance_of(one, every)[0]
        row[place] = self.found.latent_variance[place]
        row -= self._R[:, place] @ self._R
        row /= np.sqrt(max(row[place] + self.noise[place], _LEAST))
        self._R = np.vstack((self._R, row))
        self.variance = np.maximum(self.variance - np.square(row), 0.0)
        return np.asarray(row)


def reduce_variance(predictor: ModelPredictor, candidates: FloatArray, region: FloatArray, count: int) -> Suggestions:
    """Return the rows whose measurement leaves the least variance over a region, greedily.

    Args:
        predictor: of the model.
        candidates: (c, p), raw.
        region: (t, p), raw: where the function is to be known.
        count: how many, each candidate once.

    O(c t (d + count)). Raises InvalidDataError for too many rows, MeanOnlyError.
    """
    candidates, region = checked_inputs(candidates, predictor.columns), checked_inputs(region, predictor.columns)
    _check(len(candidates), count)
    if not 1 <= len(region) <= MOST_REGION:
        raise InvalidDataError(f"region: expected 1 to {MOST_REGION:,} rows, got {len(region):,}")
    c, every = len(candidates), len(candidates) + len(region)
    rows = _Fantasies(predictor, np.concatenate((candidates, region)))
    crossed = rows.covariance_of(slice(0, c), slice(c, every))  # (c, t)
    left = np.ones(c, dtype=bool)
    places, gains, before = [], [], float(rows.variance[c:].mean())
    for _ in range(min(count, c)):
        observed = np.maximum(rows.variance[:c] + rows.noise[:c], _LEAST)
        gain = np.where(left, np.square(crossed).mean(axis=1) / observed, -1.0)
        best = int(np.argmax(gain))
        places.append(best)
        gains.append(float(gain[best]))
        left[best] = False
        row = rows.measure(best)
        crossed -= row[:c, None] * row[c:]
    after = float(rows.variance[c:].mean())
    return Suggestions(places=np.array(places, np.int64), gains=np.array(gains), before=before, after=after)


def improve(
    predictor: ModelPredictor, candidates: FloatArray, count: int, *, best: float, largest: bool
) -> Suggestions:
    """Return the rows whose value may be beyond the best one, by expected improvement.

    Args:
        predictor: of the model.
        candidates: (c, p), raw.
        count: how many, each candidate once.
        best: value to beat, of the learnt target.
        largest: whether larger is better.

    O(c (d + count)) for each. Raises InvalidDataError for too many rows, MeanOnlyError.
    """
    candidates = checked_inputs(candidates, predictor.columns)
    _check(len(candidates), count)
    rows = _Fantasies(predictor, candidates)
    sign = 1.0 if largest else -1.0
    mean, incumbent = sign * rows.found.centre, sign * best
    left = np.ones(len(candidates), dtype=bool)
    places, gains = [], []
    for _ in range(min(count, len(candidates))):
        gain = np.where(left, expected_improvement(mean, np.sqrt(rows.variance), incumbent), -1.0)
        place = int(np.argmax(gain))
        places.append(place)
        gains.append(float(gain[place]))
        left[place] = False
        rows.measure(place)
        incumbent = max(incumbent, float(mean[place]))
    return Suggestions(places=np.array(places, np.int64), gains=np.array(gains), best=best)


def expected_improvement(mean: FloatArray, deviation: FloatArray, best: float) -> FloatArray:
    """Return E max(f - best, 0) of normal f, (c,); what is certain where the deviation is nothing."""
    safe = np.maximum(deviation, np.sqrt(_LEAST))
    z = (mean - best) / safe
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)
    return np.asarray(np.maximum((mean - best) * ndtr(z) + safe * density, 0.0))


def _check(candidates: int, count: int) -> None:
    if not 1 <= candidates <= MOST_CANDIDATES:
        raise InvalidDataError(f"rows: expected 1 to {MOST_CANDIDATES:,} candidates, got {candidates:,}")
    if not 1 <= count <= MOST_SUGGESTED:
        raise InvalidDataError(f"count: expected 1 to {MOST_SUGGESTED}, got {count}")


def _take(rows: CovarianceRows, some: slice) -> CovarianceRows:
    return CovarianceRows(rows.X[some], rows.features[:, some], rows.variance[some])
