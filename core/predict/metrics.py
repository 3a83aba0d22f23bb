"""Scores of predictive distributions against truths, in the target's own unit.

NMSE = mean (y - m)^2 / var(y);  NLPD = -mean log p(y)                        (Keerthi & Chu 2005, sec. 5)
Coverage of level c is the share of truths inside the interval of that level; a share's standard error is
sqrt(c (1 - c) / m). The reliability table holds the same of quantiles: the share of truths below each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.predict.mixture import Distribution

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
RELIABILITY = (0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores on `rows` rows. nmse is None where the truths do not vary.

    coverage, mean_width: level as text -> share inside, width of the interval. reliability: probability as text ->
    share below that quantile. Standard errors of nlpd and crps are those of a mean of independent rows, or groups
    (`with_groups`); of coverage those at the level itself.
    """

    rows: int
    nmse: float | None
    rmse: float
    nlpd: float
    nlpd_standard_error: float
    crps: float
    crps_standard_error: float
    coverage: dict[str, float]
    coverage_standard_error: dict[str, float]
    mean_width: dict[str, float]
    reliability: dict[str, float]


def with_coverage(found: Scores, parts: Sequence[Scores]) -> Scores:
    """Return scores with the coverage and reliability of the same rows in parts, each of a distribution of its own."""
    weights = np.array([part.rows for part in parts]) / sum(part.rows for part in parts)

    def mean(name: str) -> dict[str, float]:
        return {
            level: float(weights @ [getattr(part, name)[level] for part in parts]) for level in getattr(found, name)
        }

    return replace(found, coverage=mean("coverage"), reliability=mean("reliability"))


def with_groups(found: Scores, rows_a_group: float) -> Scores:
    """Return scores of rows in groups of so many on average, whose rows share their fate: standard errors are those of
    the groups."""
    factor = rows_a_group**0.5
    return replace(
        found,
        nlpd_standard_error=factor * found.nlpd_standard_error,
        crps_standard_error=factor * found.crps_standard_error,
        coverage_standard_error={name: factor * error for name, error in found.coverage_standard_error.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowScores:
    """Terms that `scores` averages, of each row (m,). inside, width: (levels, m); below: (probabilities, m). weights:
    those of `scores`, empty where all count the same."""

    targets: FloatArray
    mean: FloatArray
    loss: FloatArray
    crps: FloatArray
    inside: BoolArray
    width: FloatArray
    below: BoolArray
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    def take(self, rows: IntArray | BoolArray) -> "RowScores":
        """Return those of some rows."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self)}
        return RowScores(**{name: array[..., rows] if array.size else array for name, array in arrays.items()})

    @classmethod
    def joined(cls, parts: Sequence["RowScores"]) -> "RowScores":
        """Return those of all parts, in order."""
        return cls(
            **{each.name: np.concatenate([getattr(part, each.name) for part in parts], axis=-1) for each in fields(cls)}
        )

    def summary(self) -> Scores:
        """Return the scores of these rows, at least one."""
        levels = [
            (float(np.mean(inside)), float(np.mean(width)))
            for inside, width in zip(self.inside, self.width, strict=True)
        ]
        below = [float(np.mean(each)) for each in self.below]
        weights = self.weights if len(self.weights) else None
        return _summary(self.targets, self.mean, self.loss, self.crps, levels, below, weights)


def row_scores(targets: FloatArray, predicted: Distribution, weights: FloatArray | None = None) -> RowScores:
    """Scores of each of `targets` (m,) under its predictive distribution. weights (m,): as `scores` takes them."""
    inside, width = zip(*(_interval(targets, predicted, level) for level in LEVELS), strict=True)
    return RowScores(
        targets=targets,
        mean=predicted.moments()[0],
        loss=-predicted.log_density(targets),
        crps=predicted.crps(targets),
        inside=np.array(inside),
        width=np.array(width),
        below=np.array([targets <= predicted.quantile(probability) for probability in RELIABILITY]),
        weights=np.empty(0) if weights is None else weights,
    )


def scores(targets: FloatArray, predicted: Distribution, weights: FloatArray | None = None) -> Scores:
    """Scores of predictive distributions of `targets` (m,), m >= 1. Memory of a few vectors, whatever the levels.

    weights (m,): of the rows, by which squared errors and var(y) are means, so that errors that are expected to be
    large do not stand for all; each row has a distribution of its own noise, and all else counts every row once.
    """
    levels: list[tuple[float, float]] = []
    for level in LEVELS:
        inside, width = _interval(targets, predicted, level)
        levels.append((float(inside.mean()), float(width.mean())))
    below = [float(np.mean(targets <= predicted.quantile(probability))) for probability in RELIABILITY]
    mean, loss = predicted.moments()[0], -predicted.log_density(targets)
    return _summary(targets, mean, loss, predicted.crps(targets), levels, below, weights)


def _interval(targets: FloatArray, predicted: Distribution, level: float) -> tuple[BoolArray, FloatArray]:
    """Return whether each target is inside the interval of this level, and its width, (m,) each."""
    lower, upper = predicted.interval(level)
    return (lower <= targets) & (targets <= upper), upper - lower


def _summary(
    targets: FloatArray,
    mean: FloatArray,
    loss: FloatArray,
    crps: FloatArray,
    levels: Sequence[tuple[float, float]],
    below: Sequence[float],
    weights: FloatArray | None = None,
) -> Scores:
    """levels: share inside and mean width at each of LEVELS; below: shares at each of RELIABILITY."""
    count = len(targets)
    squares, spread = np.square(targets - mean), float(np.var(targets))
    if weights is not None:
        weights = weights / weights.mean()
        squares = weights * squares
        spread = float(np.mean(weights * np.square(targets - np.mean(weights * targets))))
    coverage = {str(level): inside for level, (inside, _) in zip(LEVELS, levels, strict=True)}
    return Scores(
        rows=count,
        nmse=float(squares.mean()) / spread if spread > 0 else None,
        rmse=float(np.sqrt(squares.mean())),
        nlpd=float(loss.mean()),
        nlpd_standard_error=_standard_error(loss),
        crps=float(crps.mean()),
        crps_standard_error=_standard_error(crps),
        coverage=coverage,
        coverage_standard_error={name: (float(name) * (1.0 - float(name)) / count) ** 0.5 for name in coverage},
        mean_width={str(level): width for level, (_, width) in zip(LEVELS, levels, strict=True)},
        reliability={str(at): share for at, share in zip(RELIABILITY, below, strict=True)},
    )


def _standard_error(values: FloatArray) -> float:
    """Standard error of the mean; 0 for a single row, of which nothing is known."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
