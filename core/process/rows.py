"""Training rows, and sums over blocks of them: on threads, or where other processes hold them.

A pass over all rows is a function of a module, (rows, blocks of them) -> sums, so that other processes can do it for
the shards they hold (`core.numeric.shards`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from core.arrays import FloatArray, IntArray
from core.numeric.linalg import ROW_UNIT
from core.numeric.shards import Compute, Part, ShardedRows, even_cuts, tree_total
from core.numeric.threads import LEAST_NUMBERS, Partial, map_threads, split_evenly
from core.numeric.workspace import Handover, Workspace

BLOCK_NUMBERS = 1 << 19
"""Numbers in one (d, m) block: 4 MiB, so that several stay in cache."""

_ALL = slice(None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Standardized training rows: X (n, p), y (n,), and the lengthscale group of each column (p,).

    workers: threads that sums over these rows may use. workspace: what these sums write into. cuts: where shards begin
    and end, () where the rows are few. remote: the same shards where other processes hold them, which then do the sums;
    compute: processes beside this one, however few the rows are; scatter: lets them read some of the rows, by their
    places, cut at `even_cuts`. handover: of a shard, what its passes leave for the next one.
    others (n, k): more targets, which an objective of theta and a choice by it are means over; none by default.
    weights (n,): how much each row counts, its noise variance being s2 over that; empty, the default, for one each.
    """

    X: FloatArray
    y: FloatArray
    groups: IntArray
    workers: int = 1
    workspace: Workspace = field(default_factory=Workspace)
    cuts: tuple[int, ...] = ()
    remote: ShardedRows | None = None
    scatter: Callable[[IntArray], ShardedRows] | None = None
    compute: Compute | None = None
    handover: Handover | None = None
    others: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.y)

    def take(self, places: IntArray, *, workers: int = 1) -> "Rows":
        """Some of the rows, summed here."""
        X, y = self.X[places], self.y[places]
        others = self.others[places] if self.several else self.others
        weights = self.weights[places] if self.weighted else self.weights
        return Rows(
            X=X, y=y, groups=self.groups, workers=workers, workspace=self.workspace, others=others, weights=weights
        )

    def sample(self, places: IntArray) -> "Rows":
        """Fewer than SHARDED_ROWS of the rows, summed as these are: on their threads, and of a very large table in
        shards, by other processes where these have all of the rows."""
        rows = self.take(places, workers=self.workers)
        if not self.cuts:
            return rows
        remote = None if self.scatter is None else self.scatter(places)
        return replace(rows, cuts=even_cuts(len(places)), remote=remote)

    @property
    def several(self) -> bool:
        """True where there are more targets than `y`."""
        return bool(self.others.shape[1])

    @property
    def weighted(self) -> bool:
        """True where rows do not all count the same."""
        return bool(len(self.weights))

    def by_weight(self, values: FloatArray, places: IntArray | slice = _ALL) -> FloatArray:
        """Return values of some rows (.., m), each times its row's weight: themselves where all count the same."""
        return values * self.weights[places] if self.weighted else values

    def noise(self, s2: float, places: IntArray | slice = _ALL) -> FloatArray | float:
        """Return the noise variance of some rows, (m,), or s2 for all where they count the same."""
        return np.asarray(s2 / self.weights[places]) if self.weighted else s2

    def noises(self, s2: float) -> FloatArray:
        """Return the noise variance of each row, (n,)."""
        return np.zeros(len(self)) + self.noise(s2)

    @property
    def mean_square(self) -> float:
        """Mean of y^2 by weight: of the target as a row of weight one has it."""
        return mean_by_weight(np.square(self.y), self.weights)

    def of_other(self, place: int) -> "Rows":
        """Return the same rows with another of the targets, alone."""
        return replace(self, y=self.others[:, place].copy(), others=np.empty((0, 0)))

    def every_target(self, places: IntArray | slice = _ALL) -> FloatArray:
        """Return all targets of some rows, one a column, `y` first: (m, 1 + k)."""
        return np.column_stack((self.y[places], self.others[places])) if self.several else self.y[places, None]

    def total(
        self,
        work: "Callable[[Rows, Sequence[slice]], Part]",
        size: int,
        least: int = 64,
        discard: Callable[[Part], None] = lambda _: None,
    ) -> Part:
        """The sum of work(rows, blocks of them) over all rows, by `remote` where there is one, else on threads.

        Blocks are as in `over_rows` for a basis of this size. discard: see `core.numeric.shards.tree_total`.
        """
        if self.remote is not None:
            return self.remote.total(work, size, least)
        return tree_total(lambda places: work(self, places), _runs(self, size, least), self.workers, discard)


def mean_by_weight(values: FloatArray, weights: FloatArray) -> float:
    """Return the mean of values (n,) by weights (n,), or the plain mean where these are empty."""
    return float(values @ weights / weights.sum()) if len(weights) else float(np.mean(values))


def variance_by_weight(values: FloatArray, weights: FloatArray) -> float:
    """Return the variance of values (n,) by weights (n,), or the plain one where these are empty."""
    if not len(weights):
        return float(np.var(values))
    return mean_by_weight(np.square(values - mean_by_weight(values, weights)), weights)


def over_rows(
    rows: Rows, basis: FloatArray, work: Callable[[Sequence[slice]], Partial], *, least: int = 64
) -> list[Partial]:
    """work(run of slices) on every thread: even slices, of about BLOCK_NUMBERS kernel values each, or of `least` rows
    where these are more; such that every thread has as many where that pays."""
    return map_threads(work, split_evenly(_even(len(rows), len(basis), least, rows.workers), rows.workers))


def on_shard(rows: Rows, work: Callable[[Rows, Sequence[slice]], Part], size: int, least: int) -> Part:
    """Return the share of one shard in `Rows.total`, computed where its rows are."""
    return work(rows, _even(len(rows), size, least))


def _runs(rows: Rows, size: int, least: int) -> list[Sequence[slice]]:
    """Blocks of each shard, or where there are none a run of blocks for each thread."""
    if not rows.cuts:
        return split_evenly(_even(len(rows), size, least, rows.workers), rows.workers)
    return [_even(end - begin, size, least, begin=begin) for begin, end in pairwise(rows.cuts) if end > begin]


def _even(rows: int, size: int, least: int, workers: int = 1, begin: int = 0) -> list[slice]:
    step = max(least, BLOCK_NUMBERS // size)
    count = -(-rows // step)
    if rows * size >= LEAST_NUMBERS:
        count = -(-count // workers) * workers
    step = -(-rows // (count * ROW_UNIT)) * ROW_UNIT
    return [slice(begin + start, begin + min(start + step, rows)) for start in range(0, rows, step)]
