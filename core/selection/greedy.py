"""The selection loop.

Each step scores the candidates by the method's criterion and takes the best. Where a criterion reads kernel columns,
the candidates are a cache: each step replaces the one taken and the worst by up to kappa fresh random rows, so that
good candidates stay (Keerthi & Chu 2005, sec. 3; Sundararajan et al., sec. 3.4); with a cache of kappa every
candidate is fresh, as in Smola & Bartlett 2001. Criteria of O(1) a row see all rows.

`rand` needs no loop, and `batch` has its own form of it, in `core.selection.pool`.
"""

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.process.rows import Rows
from core.selection.candidates import AllRows, CandidateCache, Candidates, KernelColumns
from core.selection.fill import fill
from core.selection.gains import CRITERIA, CacheCriterion
from core.selection.pool import SUMMED_ROWS, pursue
from core.selection.size import Measure, cut, every_row
from core.selection.state import GrowingFit, Selection, distinct
from core.spec import Gain, Method, TrainSpec

LEAST_CACHE = 500
"""A cache that is mostly fresh each step forgets good candidates."""
NEGLIGIBLE_GAIN = 1e-3
"""Nats: a basis vector that gains less is not followed where the size is to be found."""
EXHAUSTED, SETTLED = "no other row adds more than rounding", "the measure has settled"

_NOBODY: IntArray = np.empty(0, np.int64)


def select(
    rows: Rows,
    hyperparameters: Hyperparameters,
    spec: TrainSpec,
    random: np.random.Generator,
    previous: IntArray = _NOBODY,
) -> Selection:
    """Choose basis rows at fixed hyperparameters: spec.basis_size of them, or as many as `core.selection.size` finds.

    Args:
        rows: training rows, (n, p) and (n,), standardized.
        hyperparameters: in standardized units.
        spec: method, gain, sizes of basis, cache and pool.
        random: draws candidates.
        previous: basis of an earlier round, (d,) row numbers: candidates from the start (Keerthi & Chu 2005, sec. 4).

    Returns:
        The rows in the order chosen; no two are equal. Cost in multiply-adds: `rand` none, `batch` n P^2 / 2 (n at most
        SUMMED_ROWS), `info` and `variance` n d^2, `kappa` and `dmax` n d (d + c), the others n d^2 kappa / 2.
    """
    everything = every_row(rows, spec)
    if everything is not None:
        return everything
    order = random.permutation(len(rows))
    size = spec.most_basis
    match spec.method:
        case Method.RAND:
            found = _random(rows, order, size)
        case Method.BATCH:
            pool, others = np.split(_seeded(order, previous), [pool_size(spec, size)])
            among = np.sort(others[:SUMMED_ROWS]) if len(others) > SUMMED_ROWS else None
            paying = spec.basis_size is None and spec.gain is Gain.SB
            least = NEGLIGIBLE_GAIN * hyperparameters.noise_variance if paying else -np.inf
            found = pursue(rows, pool, hyperparameters, size, spec.gain, among, least)
        case _:
            supply = _Supply(_seeded(order, previous), random)
            found = _greedy(rows, hyperparameters, spec, size, supply)
            if found.reason == EXHAUSTED and (spec.basis_size is not None or not len(found.measures)):
                found = fill(rows, hyperparameters, found, order[: pool_size(spec, size)], min(size, len(rows)))
    if spec.basis_size is not None:
        return found
    measured = np.sort(order[-SUMMED_ROWS:]) if len(order) > SUMMED_ROWS else None
    return cut(rows, hyperparameters, spec, found, measured)


def pool_size(spec: TrainSpec, size: int) -> int:
    """Rows of the pool of `batch` for a basis of this size."""
    return spec.pool_size or max(4 * size, 1000)


def _greedy(rows: Rows, hyperparameters: Hyperparameters, spec: TrainSpec, size: int, supply: "_Supply") -> Selection:
    criterion, most = CRITERIA[spec.method], min(size, len(rows))
    columns = KernelColumns(rows, hyperparameters)
    if isinstance(criterion, CacheCriterion):
        fit = GrowingFit.empty(rows, hyperparameters, most, explained=criterion.needs.explained)
        first = supply.take(cache_size(spec, size), _NOBODY)
        candidates: Candidates = CandidateCache.fill(fit, columns, criterion.needs, first)
    else:
        fit = GrowingFit.empty(rows, hyperparameters, most, explained=True)
        candidates = AllRows(fit=fit, columns=columns, indices=np.arange(len(rows)))
    measure = Measure(spec, rows, hyperparameters, most)
    gains: list[float] = []
    reason = EXHAUSTED
    while fit.size < most and len(candidates.indices):
        scores = criterion.score(fit, candidates)
        best = int(np.argmax(scores))
        useless = np.flatnonzero(np.isneginf(scores))
        if best not in useless:
            index = int(candidates.indices[best])
            step = None if fit.holds(index) else fit.grow(index, candidates.column(best))
            if step is not None:
                gains.append(float(scores[best]))
                measure.follow(fit, gains[-1])
                candidates.follow(step)
        gone = np.union1d(useless, best)
        supply.use_up(candidates.indices[gone])
        if isinstance(candidates, CandidateCache):
            _refresh(candidates, _leaving(scores, best, useless, spec.candidates), supply)
        else:
            candidates.drop(gone)
        if measure.settled():
            reason = SETTLED
            break
    return Selection(
        indices=np.array(fit.indices, np.int64),
        gains=np.array(gains),
        reason="basis_size reached" if fit.size == size else reason,
        measures=np.array(measure.values),
    )


def _leaving(scores: FloatArray, best: int, useless: IntArray, fresh: int) -> IntArray:
    """Places to replace: the best, then those that can never be chosen, then the worst; at least `fresh` in all."""
    worst = np.argsort(scores, kind="stable")
    ordered = np.concatenate(([best], useless[useless != best], worst[~np.isin(worst, [best, *useless])]))
    return np.asarray(ordered[: max(min(fresh, len(scores)), np.union1d(useless, best).size)])


def _refresh(cache: CandidateCache, leaving: IntArray, supply: "_Supply") -> None:
    """Fresh rows for those that leave; where there are too few, the taken and the useless are gone all the same."""
    arriving = supply.take(len(leaving), cache.indices)
    cache.replace(leaving[: len(arriving)], arriving)
    rest = leaving[len(arriving) :]
    cache.drop(rest[~supply.usable(cache.indices[rest])])


class _Supply:
    """Fresh candidates at random: every row once, then again those that are neither used up nor in the cache."""

    def __init__(self, order: IntArray, random: np.random.Generator) -> None:
        self._queue = order
        self._random = random
        self._usable = np.ones(len(order), bool)

    def usable(self, indices: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which of these rows may still be chosen."""
        return self._usable[indices]

    def use_up(self, indices: IntArray) -> None:
        """The rows are in the basis, or can never be."""
        self._usable[indices] = False

    def take(self, count: int, cached: IntArray) -> IntArray:
        """Return up to `count` rows, none of them in `cached`, none twice."""
        taken, self._queue = self._queue[:count], self._queue[count:]
        if len(taken) < count:
            again = self._usable.copy()
            again[cached] = False
            again[taken] = False
            self._queue = self._random.permutation(np.flatnonzero(again))
            rest, self._queue = self._queue[: count - len(taken)], self._queue[count - len(taken) :]
            taken = np.concatenate((taken, rest))
        return taken


def cache_size(spec: TrainSpec, size: int) -> int:
    """kappa, plus what is kept: by default nothing. For `dmax` d in all as in the paper, but at least LEAST_CACHE."""
    if spec.method is Method.DMAX:
        return spec.cache_size or max(size, LEAST_CACHE)
    if spec.method is Method.KAPPA:
        return spec.candidates
    return spec.candidates + (spec.cache_size or 0)


def _random(rows: Rows, order: IntArray, size: int) -> Selection:
    """The first `size` rows of the permutation that differ from each other; looks no further than needed."""
    look = size
    while True:
        found = distinct(rows.X, order[:look])[:size]
        if len(found) == size or look >= len(order):
            reason = "basis_size reached" if len(found) == size else EXHAUSTED
            return Selection(indices=found, gains=np.full(len(found), np.nan), reason=reason)
        look = min(2 * look, len(order))


def _seeded(order: IntArray, previous: IntArray) -> IntArray:
    """The permutation with the previous basis first."""
    if not len(previous):
        return order
    return np.concatenate((previous, order[~np.isin(order, previous)]))
