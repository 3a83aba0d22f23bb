"""Ranks of scores (y - m) / sd: the quantiles that a calibration keeps, and how many scores they count as.

The quantile of level c is the ceil(c (K + 1) / K n)-th of n scores that say as much as K independent ones
(`core.predict.calibration`); levels that fewer than one score is beyond are not supported.
"""

import numpy as np

from core.arrays import FloatArray, IntArray

LEVELS: FloatArray = np.append(np.linspace(0.01, 0.99, 99), (0.995, 0.998, 0.999, 0.9999))
"""Levels whose quantiles are kept."""


def size_quantiles(scores: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return levels, from 0, and the quantiles of the sizes of scores (n,) that say as much as `count` independent
    ones. O(n log n)."""
    sizes = np.sort(np.abs(scores))
    levels = _supported(LEVELS, count)
    ranks = np.ceil(levels * (count + 1) / count * len(scores) - 1e-9).astype(np.int64)
    return np.concatenate(([0.0], levels)), np.concatenate(([0.0], sizes[ranks - 1]))


def signed_quantiles(scores: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return probabilities and the quantiles of sorted scores (n,) that say as much as `count` independent ones: the
    lower tail rounds its ranks down, the upper up; the median is between. O(n)."""
    tails = 0.5 - 0.5 * _supported(LEVELS, count, 0.5)[::-1]
    upper_ranks = np.ceil((1.0 - tails) * (count + 1) / count * len(scores) - 1e-9).astype(np.int64)
    lower, upper = scores[len(scores) - upper_ranks], scores[upper_ranks - 1]
    return (
        np.concatenate((tails, [0.5], 1.0 - tails[::-1])),
        np.concatenate((lower, [np.median(scores)], upper[::-1])),
    )


def _supported(levels: FloatArray, count: int, share: float = 1.0) -> FloatArray:
    """Return the levels that `count` scores support, and the largest such: a tail of (1 - level) share holds at least
    one."""
    most = 1.0 - 1.0 / (share * (count + 1))
    return np.append(levels[levels < most - 1e-12], most)


def effective_count(scores: FloatArray, group: IntArray) -> int:
    """Return how many independent scores say as much as these (n,) in groups (n,): from the number of groups, where
    scores of one are alike in sign or in size, to n. One-way analysis of variance, O(n log n)."""
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    n, groups = len(scores), len(counts)
    if groups in (1, n):
        return groups
    size = (n - float(np.square(counts).sum()) / n) / (groups - 1)
    alike = max(_intraclass(each, place, counts, size) for each in (scores, np.abs(scores)))
    return int(np.clip(round(n / (1.0 + (size - 1.0) * alike)), groups, n))


def _intraclass(values: FloatArray, place: IntArray, counts: IntArray, size: float) -> float:
    """Intraclass correlation of values (n,), 0 to 1; size: of a group, on average."""
    centred = values - values.mean()
    means = np.bincount(place, centred) / counts
    within = float(np.square(centred - means[place]).sum()) / (len(values) - len(counts))
    between = max(float(counts @ np.square(means)) / (len(counts) - 1) - within, 0.0) / size
    return between / (between + within) if between + within > 0.0 else 1.0
