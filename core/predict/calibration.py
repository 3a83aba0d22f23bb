"""Error bars made to hold, from predictions of rows by fits that had not seen them.

With error r_i, latent variance l_i and noise s_i of each such row (`core.sparse.leave_one_out`,
`core.train.cross_fit`), two corrections:

    scales      var = stretch(l) + b s with the (a, b) of the lowest predictive loss sum (r^2 / var + log var) / 2,
                stretch(l) = a l / (1 + (a - 1) l / far)
    quantiles   an interval of level c is m -+ H(c) sd, with H(c) the ceil(c (n + 1))-th smallest of |r| / sd

where far is the latent variance far from all data. Near the data, which is all that left-out rows know of, a latent
variance is multiplied by a; far away it stays what the prior says: a multiplies the odds of l / far.

Where rows have weights each noise s_i is the row's own, and ranks count every row once: its score is an error in units
of what its weight says of it, and these are exchangeable whatever the weights. A weight is a claim on a row's noise,
which scores can refute, and no share in the calibration.

The order statistic is that of split conformal prediction (Vovk et al. 2005; Lei et al. 2018): for exchangeable scores
a new one is below it with probability at least c, whatever their distribution. Of scores in groups, where a new
one will be of a new group, it is the ceil(c (K + 1) / K n)-th, K the groups where scores of one are all alike (Lee,
Barber & Willett 2024, for groups of even size), n where they are not, between by their intraclass correlation (Kish
1965). The ranks of n scores end at the level n / (n + 1), of K at K / (K + 1); beyond it, and where scores are fewer
than LEAST_SCORES, the tail is that of a t distribution fitted to them (`core.predict.tails`), and never narrower than
the last rank. Asymmetric intervals take each tail from the signed r / sd, for skewed residuals.

All are a handful of numbers: two scales, a table of quantiles (`core.predict.score_ranks`), between which they are
linear, and the tails. Beyond the median H is convex in c for every common distribution, so that the chord lies on the
safe side.

A variance follows the largest errors, an interval of 95% does not know of them: sd is scaled by `std_factor` to the std
that is told, so that 1.96 std is within STD_RANGE of the interval's half-width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtri, ndtr, ndtri

from core.arrays import FloatArray, IntArray, frozen
from core.errors import InvalidDataError
from core.predict.score_ranks import effective_count, signed_quantiles, size_quantiles
from core.predict.tails import Tail, fit_tail
from core.spec import Intervals

LEAST_SCORES = {Intervals.SYMMETRIC: 10, Intervals.ASYMMETRIC: 20}
"""Scores below which all quantiles are those of the fitted tail."""
STD_LEVEL, STD_RANGE = 0.95, (0.75, 1.35)
"""Range of the std over the half-width of an interval of this level, in units of the normal distribution's."""
_NORMAL_HALF = float(ndtri(0.5 + 0.5 * STD_LEVEL))
CONFIDENCE = 0.95
"""Confidence in the noise that rows of equal inputs have at least."""
MOST_SCALE = 20.0
"""Scales are no larger, and that of the noise no smaller than one over it."""
LEAST_LATENT_SCALE = 1e-4
"""Scale of the latent variance at least: what a few near rows leave unknown of a smooth function may be thousands of
times what all rows do."""
_UP = 1.0 + 1e-12
"""Levels that rounding takes past the last rank are of the ranks."""
MOST_TAIL_SCORES = 5_000
"""Scores that tails are fitted to, evenly spaced by rank where there are more."""
_PSEUDO = 200
"""Scores that stand for a table of quantiles of which nothing else was kept."""


class IntervalBasis(StrEnum):
    """Basis of an interval."""

    CONFORMAL = "conformal"
    """Ranks of left-out rows' scores."""
    TAIL = "tail"
    """A distribution fitted to the scores, since they are too few for the level."""
    NORMAL = "normal"
    """The model's own normal distribution, for it was not calibrated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """Rows predicted by fits that had not seen them, standardized: error y - m, latent variance, noise; (m,) each.

    places: which of the training rows they are. far_variance: the fit's latent variance far from all data, infinite
    where there is none (SoR). group (m,): rows that were left out together, or in one forward fold; empty where each
    was alone. noise_floor: what the noise is at least, on average, as rows of equal inputs say, of weight one. others
    (m, k): errors of more targets, left out by the same fits with the same variances; none by default. weights (m,): of
    the rows, whose noise is by these already; empty where all count the same.
    """

    places: IntArray
    error: FloatArray
    latent_variance: FloatArray
    noise_variance: FloatArray
    far_variance: FloatArray
    group: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    noise_floor: float = 0.0
    others: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    def of_other(self, place: int) -> Self:
        """Return the same rows with the errors of another target, alone."""
        return replace(self, error=self.others[:, place], others=np.empty((0, 0)))

    @classmethod
    def joined(cls, parts: "Sequence[LeftOut]") -> "LeftOut":
        """Return the rows of all parts, one after the other, without a floor of the noise."""
        return cls(
            places=np.concatenate([part.places for part in parts]),
            error=np.concatenate([part.error for part in parts]),
            latent_variance=np.concatenate([part.latent_variance for part in parts]),
            noise_variance=np.concatenate([part.noise_variance for part in parts]),
            far_variance=np.concatenate([part.far_variance for part in parts]),
            group=np.concatenate([part.group for part in parts]),
            others=np.concatenate([part.others for part in parts]),
            weights=np.concatenate([part.weights for part in parts]),
        )

    def take(self, which: IntArray) -> Self:
        """Some of the rows, in this order."""
        return replace(
            self,
            places=self.places[which],
            error=self.error[which],
            latent_variance=self.latent_variance[which],
            noise_variance=self.noise_variance[which],
            far_variance=self.far_variance[which],
            group=self.group[which] if len(self.group) else self.group,
            others=self.others[which] if self.others.shape[1] else self.others,
            weights=self.weights[which] if len(self.weights) else self.weights,
        )

    @property
    def typical_noise(self) -> float:
        """Mean noise variance, of rows of weight one."""
        return float((self.noise_variance * self.weights if len(self.weights) else self.noise_variance).mean())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Scales a of the latent variance and b of the noise, and quantiles of (y - m) / sd.

    probabilities, quantiles (k,), both increasing: of |y - m| / sd from (0, 0) on where intervals are symmetric, of
    (y - m) / sd where they are not; empty where the tail stands for all. tails: beyond the table, one for both sides,
    or below and above the median; none for a normal distribution, or where an earlier release kept only the table.
    rows: how many scores they come from. std_factor: of sd, which gives the std that is told.
    """

    latent_scale: float = 1.0
    noise_scale: float = 1.0
    intervals: Intervals = Intervals.SYMMETRIC
    probabilities: FloatArray = field(default_factory=lambda: np.empty(0))
    quantiles: FloatArray = field(default_factory=lambda: np.empty(0))
    rows: int = 0
    tails: tuple[Tail, ...] = ()
    std_factor: float = field(init=False, default=1.0)
    _tails: tuple[Tail, ...] = field(init=False, default=(), repr=False)

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
        if len(self.tails) > 2:
            raise InvalidDataError(f"calibration: expected at most two tails, got {len(self.tails)}")
        object.__setattr__(self, "_tails", self.tails or self._tails_of_table())
        below, above = self.interval(STD_LEVEL)
        half = 0.5 * (above - below) / _NORMAL_HALF
        object.__setattr__(self, "std_factor", float(np.clip(1.0, STD_RANGE[0] * half, STD_RANGE[1] * half)))

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text and lists."""
        found = asdict(self) | {
            "probabilities": self.probabilities.tolist(),
            "quantiles": self.quantiles.tolist(),
            "intervals": self.intervals.value,
        }
        del found["std_factor"], found["tails"], found["_tails"]
        return found | ({"tails": [asdict(tail) for tail in self.tails]} if self.tails else {})

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
            tails=tuple(map(Tail.from_json, document.get("tails", ()))),
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
        """The largest level of an interval that the ranks of the scores support: 0 where these are too few for any, 1
        where there is nothing but a normal distribution."""
        if not len(self.probabilities):
            return 0.0 if self.rows else 1.0
        last = float(self.probabilities[-1])
        return last if self.intervals is Intervals.SYMMETRIC else 2.0 * last - 1.0

    def basis(self, level: float) -> IntervalBasis:
        """Return the basis of an interval of this level."""
        if not self.rows and not len(self.probabilities):
            return IntervalBasis.NORMAL
        return IntervalBasis.CONFORMAL if level <= self.most_level * _UP else IntervalBasis.TAIL

    def quantile(self, probability: float) -> float:
        """Return a quantile of (y - m) / sd, 0 < probability < 1."""
        if self.intervals is Intervals.ASYMMETRIC and len(self.probabilities):
            return self._quantile_by_tail(probability)
        if not len(self.probabilities):
            return self._beyond(-1, probability)
        return float(np.copysign(self._size(abs(2.0 * probability - 1.0)), probability - 0.5))

    def interval(self, level: float) -> tuple[float, float]:
        """Return both ends of an interval of this level, in standard deviations from the mean."""
        if self.intervals is Intervals.ASYMMETRIC and len(self.probabilities):
            return self._quantile_by_tail(0.5 - 0.5 * level), self._quantile_by_tail(0.5 + 0.5 * level)
        half = self.quantile(0.5 + 0.5 * level)
        return -half, half

    def cdf(self, scores: FloatArray) -> FloatArray:
        """Return the probability of (y - m) / sd below each score, any shape: the inverse of `quantile`."""
        p, q = self.probabilities, self.quantiles
        if not len(p):
            return self._tails[-1].cdf(scores) if self._tails else np.asarray(ndtr(scores))
        if self.intervals is Intervals.ASYMMETRIC:
            found, centre = np.interp(scores, q, p), self._centre
            below, above = scores < q[0], scores > q[-1]
            found[below] = np.minimum(found[below], self._tails[0].cdf(scores[below] - centre))
            found[above] = np.maximum(found[above], self._tails[-1].cdf(scores[above] - centre))
            return np.asarray(found)
        sizes = np.abs(scores)
        found, beyond = 0.5 + 0.5 * np.interp(sizes, q, p), sizes > q[-1]
        found[beyond] = np.maximum(found[beyond], self._tails[-1].cdf(sizes[beyond]))
        return np.where(scores < 0.0, 1.0 - found, found)

    def log_density(self, error: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the log density of errors y - m (m,) of these variances, nats: of the scores' tails, or normal."""
        if not self.tails:
            return np.asarray(-0.5 * (np.square(error) / variance + np.log(2.0 * np.pi * variance)))
        sd = np.sqrt(variance)
        scores = error / sd - self._centre
        below, above = self.tails[0].log_density(scores), self.tails[-1].log_density(scores)
        return np.where(scores < 0.0, below, above) - np.log(sd)

    @property
    def _centre(self) -> float:
        """Where the tails begin."""
        return self._quantile_by_tail(0.5) if len(self._tails) == 2 else 0.0

    def _tails_of_table(self) -> tuple[Tail, ...]:
        """Tails of scores that are as the table says, up to its last level."""
        if not len(self.probabilities):
            return ()
        middles = (np.arange(_PSEUDO) + 0.5) / _PSEUDO * (self.probabilities[-1] - self.probabilities[0])
        return _tails(np.interp(self.probabilities[0] + middles, self.probabilities, self.quantiles), self.intervals)

    def _size(self, level: float) -> float:
        """Half-width of a symmetric interval, where there is a table."""
        if level <= self.probabilities[-1] * _UP:
            return float(np.interp(level, self.probabilities, self.quantiles))
        return max(self._beyond(-1, 0.5 + 0.5 * level), float(self.quantiles[-1]))

    def _quantile_by_tail(self, probability: float) -> float:
        """Quantile of each tail by itself."""
        p, q = self.probabilities, self.quantiles
        if p[0] <= probability * _UP and probability <= p[-1] * _UP:
            return float(np.interp(probability, p, q))
        below = probability < 0.5
        found = self._centre + self._beyond(0 if below else -1, probability)
        return min(found, float(q[0])) if below else max(found, float(q[-1]))

    def _beyond(self, side: int, probability: float) -> float:
        return self._tails[side].quantile(probability) if self._tails else float(ndtri(probability))


def fit_calibration(left_out: LeftOut, intervals: Intervals = Intervals.SYMMETRIC) -> Calibration:
    """Scales, then quantiles with those scales. O(m log m)."""
    latent_scale, noise_scale = scales(left_out)
    noise_scale = max(noise_scale, min(left_out.noise_floor / left_out.typical_noise, MOST_SCALE))
    scaled = Calibration(latent_scale=latent_scale, noise_scale=noise_scale)
    variance = scaled.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    scores = left_out.error / np.sqrt(variance)
    count = effective_count(scores, left_out.group) if len(left_out.group) else len(scores)
    scores = np.sort(scores)
    probabilities, quantiles = np.empty(0), np.empty(0)
    if count >= LEAST_SCORES[intervals]:
        probabilities, quantiles = (signed_quantiles if intervals is Intervals.ASYMMETRIC else size_quantiles)(
            scores, count
        )
    return Calibration(
        latent_scale=latent_scale,
        noise_scale=noise_scale,
        intervals=intervals,
        probabilities=probabilities,
        quantiles=quantiles,
        rows=len(scores),
        tails=_tails(scores, intervals if len(probabilities) else Intervals.SYMMETRIC, count),
    )


def replicate_noise(error: FloatArray, group: IntArray, weights: FloatArray | None = None) -> float:
    """Return what the noise is at least, with CONFIDENCE, as rows of equal inputs say: the lower confidence bound of
    the pooled variance of errors (m,) in groups (m,) whose predictions are the same. 0 without such rows.

    weights (m,): of the rows, by which squares and means within a group are: the noise is then that of weight one.
    """
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    freedom = len(error) - len(counts)
    if freedom < 1:
        return 0.0
    if weights is None or not len(weights):
        within = error - (np.bincount(place, error) / counts)[place]
    else:
        within = error - (np.bincount(place, weights * error) / np.bincount(place, weights))[place]
        within *= np.sqrt(weights)
    return float(np.square(within).sum() / chdtri(freedom, 1.0 - CONFIDENCE))


def _tails(scores: FloatArray, intervals: Intervals, count: int | None = None) -> tuple[Tail, ...]:
    """One tail for both sides, or one below and one above the median, of sorted scores that say as much as `count`."""
    if not len(scores):
        return ()
    most = min(MOST_TAIL_SCORES, len(scores) if count is None else count)
    if len(scores) > most:
        scores = scores[((np.arange(most) + 0.5) * len(scores) / most).astype(np.int64)]
    if intervals is Intervals.SYMMETRIC:
        return (fit_tail(np.abs(scores)),)
    from_centre = scores - np.median(scores)
    return fit_tail(-from_centre[from_centre <= 0.0]), fit_tail(from_centre[from_centre >= 0.0])


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

    most, least = float(np.log(MOST_SCALE)), float(np.log(LEAST_LATENT_SCALE))
    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(least, most), (-most, most)])
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
