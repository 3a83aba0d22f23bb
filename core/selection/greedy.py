"""The selection loop and the table of methods.

A method that scores candidates one step at a time gives a function (fit, cache) -> gains; the loop below is the only
one, with the candidate cache of Keerthi & Chu 2005, section 3: c candidate kernel rows, of which each step takes the
best and replaces it and the kappa - 1 worst by kappa fresh random rows. `kappa` has c = kappa, `dmax` c = d or more.
"""

from collections.abc import Callable

import numpy as np

from core.factors import Rows
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.selection.matching import CandidateCache, candidate_cache, post_backfitting
from core.selection.pool import distinct, pursue
from core.selection.state import GrowingFit, Selection
from core.spec import Method, TrainSpec

Criterion = Callable[[GrowingFit, CandidateCache], FloatArray]
CRITERIA: dict[Method, Criterion] = {Method.KAPPA: post_backfitting, Method.DMAX: post_backfitting}

LEAST_CACHE = 500
"""A cache that is mostly fresh each step forgets good candidates: kin40k, d = 100, eight seeds, mean NMSE .201 with a
cache of 100, .193 with 500 (standard error .003)."""

_NOBODY: IntArray = np.empty(0, np.int64)


def select(
    rows: Rows,
    hyperparameters: Hyperparameters,
    spec: TrainSpec,
    size: int,
    random: np.random.Generator,
    previous: IntArray = _NOBODY,
) -> Selection:
    """Chooses up to `size` basis rows at fixed hyperparameters.

    previous: the basis of an earlier round; its rows are candidates from the start (Keerthi & Chu 2005, sec. 4).
    No two chosen rows are equal. Cost: `rand` O(d), `batch` O(n P^2 / 2), `kappa` and `dmax` O(n d c).
    """
    size = min(size, len(rows))
    order = random.permutation(len(rows))
    match spec.method:
        case Method.RAND:
            indices = _first_distinct(rows.X, order, size)
            gains = np.full(len(indices), np.nan)
            return Selection(indices=indices, gains=gains, reason=_reason(len(indices), size))
        case Method.BATCH:
            pool_size = min(len(rows), spec.pool_size or max(4 * size, 1000))
            return pursue(rows, _seeded(order, previous)[:pool_size], hyperparameters, size)
        case _:
            cache_size = _cache_size(spec, size)
            supply = _Supply(_seeded(order, previous), random)
            return _greedy(rows, hyperparameters, CRITERIA[spec.method], supply, size, cache_size, spec.candidates)


def _greedy(
    rows: Rows,
    hyperparameters: Hyperparameters,
    criterion: Criterion,
    supply: "_Supply",
    size: int,
    cache_size: int,
    fresh: int,
) -> Selection:
    """The loop: score the cache, take the best, replace it and the worst."""
    fit = GrowingFit.empty(rows, hyperparameters, size)
    cache = candidate_cache(rows, supply.take(cache_size, _NOBODY), hyperparameters)
    gains: list[float] = []
    while fit.size < size and len(cache.indices):
        scores = criterion(fit, cache)
        ranking = np.argsort(-scores, kind="stable")
        best, index = int(ranking[0]), int(cache.indices[ranking[0]])
        supply.use_up(index)
        if not fit.holds(index) and fit.grow(index, cache.K[best]):
            gains.append(float(scores[best]))
        leaving = np.concatenate((ranking[:1], ranking[1:][::-1][: min(fresh, cache_size) - 1]))
        arriving = supply.take(len(leaving), cache.indices)
        cache.replace(leaving[: len(arriving)], arriving, rows, hyperparameters)
        if not len(arriving):
            cache.drop(leaving[:1])
    return Selection(indices=np.array(fit.indices, np.int64), gains=np.array(gains), reason=_reason(fit.size, size))


def _cache_size(spec: TrainSpec, size: int) -> int:
    """kappa for `kappa`. For `dmax` d as in the paper, but at least LEAST_CACHE."""
    if spec.method is Method.KAPPA:
        return spec.candidates
    return spec.cache_size or max(size, LEAST_CACHE)


class _Supply:
    """Fresh candidates at random: every row once, then again those that are neither used up nor in the cache."""

    def __init__(self, order: IntArray, random: np.random.Generator) -> None:
        self._queue = order
        self._random = random
        self._usable = np.ones(len(order), bool)

    def use_up(self, index: int) -> None:
        """The row is in the basis, or can never be."""
        self._usable[index] = False

    def take(self, count: int, cached: IntArray) -> IntArray:
        """Up to `count` rows, none of them in `cached`, none twice."""
        taken, self._queue = self._queue[:count], self._queue[count:]
        if len(taken) < count:
            again = self._usable.copy()
            again[cached] = False
            again[taken] = False
            self._queue = self._random.permutation(np.flatnonzero(again))
            rest, self._queue = self._queue[: count - len(taken)], self._queue[count - len(taken) :]
            taken = np.concatenate((taken, rest))
        return taken


def _seeded(order: IntArray, previous: IntArray) -> IntArray:
    """The permutation with the previous basis first."""
    if not len(previous):
        return order
    rest = order[~np.isin(order, previous)]
    return np.concatenate((previous, rest))


def _first_distinct(X: FloatArray, order: IntArray, size: int) -> IntArray:
    """The first `size` rows of the permutation that differ from each other; looks no further than needed."""
    look = size
    while True:
        found = distinct(X, order[:look])
        if len(found) >= size or look >= len(order):
            return found[:size]
        look = min(2 * look, len(order))


def _reason(found: int, size: int) -> str:
    return "basis_size reached" if found == size else "no other row adds more than rounding"
