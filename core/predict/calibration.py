"""Error bars made to hold, from predictions of rows by fits that had not seen them.

With error r_i, latent variance l_i and noise s_i of each such row (`core.sparse.leave_one_out`,
`core.train.cross_fit`), two corrections:

    scales      var = stretch(l) + b s with the (a, b) of the lowest predictive loss sum (r^2 / var + log var) / 2,
                stretch(l) = a l / (1 + (a - 1) l / far)
    quantiles   an interval of level c is m -+ H(c) sd, with H(c) the ceil(c (n + 1))-th smallest of |r| / sd

where far is the latent variance far from all data. Near the data, which is all that left-out rows know of, a latent
variance is multiplied by a; far away it stays what the prior says: a multiplies the odds of l / far.

The order statistic is that of split conformal prediction (Vovk et al. 2005; Lei et al. 2018): for exchangeable scores
a new one is below it with probability at least c, whatever their distribution. n scores say nothing of levels
above n / (n + 1), which are refused. Asymmetric intervals take each tail from the signed r / sd, for skewed residuals.

Both are a handful of numbers: two scales, and a table of at most `_GRID` points, between which quantiles are linear.
Beyond the median H is convex in c for every common distribution, so that the chord lies on the safe side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from core.arrays import FloatArray, IntArray, frozen
from core.errors import InvalidDataError, UnsupportedLevelError
from core.spec import Intervals

LEAST_SCORES = {Intervals.SYMMETRIC: 20, Intervals.ASYMMETRIC: 40}
"""Scores below which quantiles of a normal distribution stand for their own: these support a level of 95%."""
MOST_SCALE = 20.0
"""Scales stay between this and one over it."""
_GRID: FloatArray = np.append(np.linspace(0.01, 0.99, 99), (0.995, 0.998, 0.999, 0.9999))
"""Levels whose quantiles are kept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """Rows predicted by fits that had not seen them, standardized: error y - m, latent variance, noise; (m,) each.

    places: which of the training rows they are. far_variance: the fit's latent variance far from all data, infinite
    where there is none (SoR).
    """

    places: IntArray
    error: FloatArray
    latent_variance: FloatArray
    noise_variance: FloatArray
    far_variance: FloatArray

    @classmethod
    def joined(cls, parts: "Sequence[LeftOut]") -> "LeftOut":
        """Return the rows of all parts, one after the other."""
        names = (name.name for name in fields(cls))
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def take(self, which: IntArray) -> Self:
        """Some of the rows, in this order."""
        return replace(
            self,
            places=self.places[which],
            error=self.error[which],
            latent_variance=self.latent_variance[which],
            noise_variance=self.noise_variance[which],
            far_variance=self.far_variance[which],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Scales a of the latent variance and b of the noise, and quantiles of (y - m) / sd.

    probabilities, quantiles (k,), both increasing: of |y - m| / sd from (0, 0) on where intervals are symmetric, of
    (y - m) / sd where they are not; empty for a normal distribution. rows: how many scores they come from.
    """

    latent_scale: float = 1.0
    noise_scale: float = 1.0
    intervals: Intervals = Intervals.SYMMETRIC
    probabilities: FloatArray = field(default_factory=lambda: np.empty(0))
    quantiles: FloatArray = field(default_factory=lambda: np.empty(0))
    rows: int = 0

    def __post_init__(self) -> None:
        for name in ("probabilities", "quantiles"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        p, q = self.probabilities, self.quantiles
        if not (np.isfinite(p).all() and np.isfinite(q).all()):
            raise InvalidDataError("calibration: not a finite number")
        if p.ndim != 1 or p.shape != q.shape or (np.diff(p) <= 0.0).any() or (np.diff(q) < 0.0).any():
            raise InvalidDataError("calibration: expected two lists of one length, increasing")
        if not (0.0 < self.latent_scale < np.inf and 0.0 < self.noise_scale < np.inf):
            raise InvalidDataError("calibration: scales must be above zero")

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text and lists."""
        return asdict(self) | {
            "probabilities": self.probabilities.tolist(),
            "quantiles": self.quantiles.tolist(),
            "intervals": self.intervals.value,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore what `to_json` made of one, bit for bit. KeyError, TypeError, ValueError, InvalidDataError."""
        return cls(
            latent_scale=float(document["latent_scale"]),
            noise_scale=float(document["noise_scale"]),
            intervals=Intervals(document["intervals"]),
            probabilities=np.array(document["probabilities"], np.float64),
            quantiles=np.array(document["quantiles"], np.float64),
            rows=int(document["rows"]),
        )

    def variance(self, latent: FloatArray, noise: FloatArray | float, far_variance: FloatArray | float) -> FloatArray:
        """Return the variance of a new target, (m,), from the parts that the Gaussian processes say. far_variance: see
        LeftOut."""
        return np.asarray(self.latent(latent, far_variance) + self.noise_scale * noise)

    def latent(self, latent: FloatArray, far_variance: FloatArray | float) -> FloatArray:
        """Return the calibrated variance of the function alone, (m,)."""
        return stretch(latent, far_variance, self.latent_scale)

    @property
    def most_level(self) -> float:
        """The largest level of an interval that the scores support."""
        if not len(self.probabilities):
            return 1.0
        last = float(self.probabilities[-1])
        return last if self.intervals is Intervals.SYMMETRIC else 2.0 * last - 1.0

    def quantile(self, probability: float) -> float:
        """Return a quantile of (y - m) / sd, 0 < probability < 1. UnsupportedLevelError beyond what the scores say."""
        if not len(self.probabilities):
            return float(ndtri(probability))
        level = abs(2.0 * probability - 1.0)
        self._check(level, quantile=probability)
        if self.intervals is Intervals.ASYMMETRIC:
            return float(np.interp(probability, self.probabilities, self.quantiles))
        return float(np.copysign(np.interp(level, self.probabilities, self.quantiles), probability - 0.5))

    def interval(self, level: float) -> tuple[float, float]:
        """Return both ends of an interval of this level, in standard deviations from the mean."""
        self._check(level)
        if self.intervals is Intervals.ASYMMETRIC:
            return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)
        half = self.quantile(0.5 + 0.5 * level)
        return -half, half

    def _check(self, level: float, quantile: float | None = None) -> None:
        if level > self.most_level * (1.0 + 1e-12):
            raise UnsupportedLevelError(level, self.most_level, self.rows, quantile=quantile)


def fit_calibration(left_out: LeftOut, intervals: Intervals = Intervals.SYMMETRIC) -> Calibration:
    """Scales, then quantiles with those scales. O(m log m)."""
    latent_scale, noise_scale = scales(left_out)
    scaled = Calibration(latent_scale=latent_scale, noise_scale=noise_scale)
    variance = scaled.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    scores = np.sort(left_out.error / np.sqrt(variance))
    if len(scores) < LEAST_SCORES[intervals]:
        return Calibration(latent_scale=latent_scale, noise_scale=noise_scale, rows=len(scores))
    table = _signed if intervals is Intervals.ASYMMETRIC else _absolute
    probabilities, quantiles = table(scores)
    return Calibration(
        latent_scale=latent_scale,
        noise_scale=noise_scale,
        intervals=intervals,
        probabilities=probabilities,
        quantiles=quantiles,
        rows=len(scores),
    )


def scales(left_out: LeftOut) -> tuple[float, float]:
    """Return the (a, b) of the lowest predictive loss, held to (1, 1) by the weight of one row each."""
    count, squares = len(left_out.error), np.square(left_out.error)
    latent, noise, share = (
        left_out.latent_variance,
        left_out.noise_variance,
        _share(left_out.latent_variance, left_out.far_variance),
    )

    def loss(logarithms: FloatArray) -> tuple[float, FloatArray]:
        a, b = np.exp(logarithms)
        bent = 1.0 + (a - 1.0) * share
        variance = a * latent / bent + b * noise
        value = 0.5 * np.sum(squares / variance + np.log(variance)) + 0.5 * logarithms @ logarithms
        slope = 0.5 * (1.0 - squares / variance) / variance
        by_logarithm = np.array([slope @ (a * latent * (1.0 - share) / np.square(bent)), slope @ (b * noise)])
        return float(value) / count, (by_logarithm + logarithms) / count

    most = float(np.log(MOST_SCALE))
    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-most, most)] * 2)
    latent_scale, noise_scale = np.exp(found.x).tolist()
    return latent_scale, noise_scale


def loss_of(left_out: LeftOut, latent_scale: float, noise_scale: float) -> FloatArray:
    """Negative log predictive density of each row, (m,), nats."""
    scaled = Calibration(latent_scale=latent_scale, noise_scale=noise_scale)
    variance = scaled.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    return np.asarray(0.5 * (np.square(left_out.error) / variance + np.log(2.0 * np.pi * variance)))


def stretch(latent: FloatArray, far_variance: FloatArray | float, scale: float) -> FloatArray:
    """a l / (1 + (a - 1) l / far), (m,): a l near the data, l far from it; rises with l."""
    return np.asarray(scale * latent / (1.0 + (scale - 1.0) * _share(latent, far_variance)))


def _share(latent: FloatArray, far_variance: FloatArray | float) -> FloatArray:
    return np.minimum(latent / far_variance, 1.0)


def _absolute(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    sizes = np.sort(np.abs(scores))
    levels = _supported(_GRID, len(scores))
    ranks = np.ceil(levels * (len(scores) + 1) - 1e-9).astype(np.int64)
    return np.concatenate(([0.0], levels)), np.concatenate(([0.0], sizes[ranks - 1]))


def _signed(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lower tail rounds its ranks down, the upper up; the median is between."""
    count = len(scores)
    tails = 0.5 - 0.5 * _supported(_GRID, count, 0.5)[::-1]
    lower = scores[np.floor(tails * (count + 1) + 1e-9).astype(np.int64) - 1]
    upper = scores[np.ceil((1.0 - tails) * (count + 1) - 1e-9).astype(np.int64) - 1]
    return (
        np.concatenate((tails, [0.5], 1.0 - tails[::-1])),
        np.concatenate((lower, [np.median(scores)], upper[::-1])),
    )


def _supported(levels: FloatArray, count: int, share: float = 1.0) -> FloatArray:
    """Return the levels that `count` scores support, and the largest such: a tail of (1 - level) share holds at least
    one."""
    most = 1.0 - 1.0 / (share * (count + 1))
    return np.append(levels[levels < most - 1e-12], most)
