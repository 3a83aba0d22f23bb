"""A preconditioner for K + D from a sparse basis, for the whole and for every fold of the rows.

    P = V'V + D,  V = L^-1 K(Z, X),  L L' = K(Z, Z)
    P^-1 r = D^-1 (r - V' B^-1 V D^-1 r),  B = I + V D^-1 V'                              (Woodbury)

A column without a fold of the rows has B without their part, B - V_f D_f^-1 V_f', and lives on the other rows: with the
rows in the order of their folds each part is one sum, and that of all rows the sum of the parts. All of them take
O(n d^2 / 2) together, and a factorisation each. V stays where it was made, by runs of rows (`core.numeric.partitions`).
(The use of a low-rank approximation as preconditioner of a kernel matrix: Cutajar et al. 2016; Gardner et al. 2018.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from core.arrays import FloatArray, IntArray
from core.mean.folds import Folds
from core.mean.products import RUNS
from core.numeric.linalg import ROW_UNIT, LowerSolver, cholesky, jittered_cholesky, solve_vector
from core.numeric.partitions import Concatenation, VectorSum, partitioned
from core.numeric.shards import Compute
from core.numeric.threads import split_evenly
from core.process.kernel import Kernel

BLOCK_ROWS = 512
RANK = 15.0
"""Rows that a basis takes for each square root of n: 1,500 of 10,000. With fewer of them iterations are many, with more
its own factors cost as much as they save."""

FACTORISED = 0.8
"""Share of the time after which there are sums to factorise."""
SENT_SIZE = 4_000
"""Basis vectors from which other processes factorise: of fewer, d^3 / 6 multiply-adds take no longer than to send d^2
numbers there and back."""


def random_basis(X: FloatArray, random: np.random.Generator) -> FloatArray:
    """Return basis vectors for a preconditioner: random rows of X (n, p), about RANK sqrt(n) of them, (d, p).

    As good as vectors chosen by any gain at this theta, or for a sparse model, which take longer to choose than they
    save in iterations.
    """
    count = min(len(X), int(RANK * np.sqrt(len(X))))
    return np.asarray(X[np.sort(random.permutation(len(X))[:count])])


class SparsePreconditioner:
    """P of every column, ready to be solved: V (d, n), and d^2 numbers for each column."""

    def __init__(
        self,
        kernel: Kernel,
        X: FloatArray,
        Z: FloatArray,
        D: FloatArray,
        folds: Folds,
        workers: int = 1,
        compute: Compute | None = None,
        tell: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Factorise. O(n d^2 + r d^3 / 3).

        Args:
            kernel: bias included.
            X: standardized rows (n, p).
            Z: standardized basis vectors (d, p).
            D: noise variances (n,).
            folds: of the rows, each of which one of the columns (r,) has not.
            workers: threads.
            compute: other processes that hold V and do the work instead.
            tell: hears the share that is done, twice; may raise to cancel.

        Raises:
            NotPositiveDefiniteError: hyperparameters beyond double precision.
        """
        self._D, self._kept = D, folds.kept
        L, _ = jittered_cholesky(kernel.gram(Z), "Kuu")
        self._order = np.argsort(folds.fold, kind="stable")
        blocks = _blocks(folds.fold[self._order])
        runs = [_Run.of(run, X, D, self._order) for run in split_evenly(blocks, RUNS)]
        self._places = [slice(run.begin, run.begin + len(run.X)) for run in runs]
        self._runs = partitioned(_Basis(kernel, Z, L), runs, workers, compute, float(len(X)) * len(Z))
        information = _Information(self._runs.total(_grams).by_fold, folds)
        tell(FACTORISED)
        columns = range(self.columns)
        elsewhere = compute if len(Z) >= SENT_SIZE else None
        factors = partitioned(None, columns, workers, elsewhere, float(len(Z)) ** 3)
        self._factors = factors.total(_factor, None, information).pieces
        tell(1.0)

    @property
    def columns(self) -> int:
        """r, the number of columns."""
        return int(self._kept.shape[1])

    def solve(self, residuals: FloatArray) -> FloatArray:
        """Return P^-1 R, (n, r), each column on its own rows; of t targets (n, t r). O(n d r)."""
        kept = np.tile(self._kept, residuals.shape[1] // self.columns)
        weighted = np.ascontiguousarray(np.where(kept, residuals / self._D[:, None], 0.0)[self._order].T)  # (r, n)
        own = [np.ascontiguousarray(weighted[:, place]) for place in self._places]
        inner = self._runs.total(_project, None, own).values
        for column in range(len(inner)):
            factor = self._factors[column % self.columns]
            inner[column] = solve_vector(factor, solve_vector(factor, inner[column]), transposed=True)
        expanded = self._runs.total(_expand, inner).joined(axis=1)
        solved = np.empty_like(residuals)
        solved[self._order] = (weighted - expanded / self._D[self._order]).T
        return np.where(kept, solved, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Rows from `begin` to `end` in the order of their folds, all of one."""

    begin: int
    end: int
    fold: int


def _blocks(fold: IntArray) -> list[_Block]:
    """Return blocks of rows whose folds are these, increasing, (n,)."""
    ends = [0, *(np.flatnonzero(np.diff(fold)) + 1).tolist(), len(fold)]
    return [
        _Block(begin=at, end=min(at + BLOCK_ROWS, end), fold=int(fold[begin]))
        for begin, end in pairwise(ends)
        for at in range(begin, end, BLOCK_ROWS)
    ]


class _Basis:
    """What all runs have in common: the kernel, basis vectors (d, p), and L (d, d)."""

    def __init__(self, kernel: Kernel, Z: FloatArray, L: FloatArray) -> None:
        self.kernel, self.Z, self._L = kernel, Z, L

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process makes L ready for solves by itself."""
        return _Basis, (self.kernel, self.Z, self._L)

    def __len__(self) -> int:
        return len(self.Z)

    @cached_property
    def lower(self) -> LowerSolver:
        """L, ready for solves."""
        return LowerSolver(self._L)


@dataclass(slots=True, eq=False)
class _Run:
    """Rows from `begin` on: X (m, p), their noise (m,), the blocks that they are in, and V' (m, d) once it is made."""

    begin: int
    X: FloatArray
    D: FloatArray
    blocks: Sequence[_Block]
    V: FloatArray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, blocks: Sequence[_Block], X: FloatArray, D: FloatArray, order: IntArray) -> "_Run":
        """Return the run of some blocks."""
        some = order[blocks[0].begin : blocks[-1].end]
        return cls(blocks[0].begin, X[some], D[some], blocks)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process begins without V."""
        return _Run, (self.begin, self.X, self.D, self.blocks)

    def made(self, basis: _Basis) -> FloatArray:
        """Return V', (m, d), made the first time that it is asked for. O(m d^2 / 2)."""
        if self.V is None:
            V, Z = np.empty((len(self.X), len(basis))), basis.kernel.basis(basis.Z)
            for place in map(self.place, self.blocks):
                rows = basis.kernel.rows(self.X[place])
                V[place] = basis.lower.solve(_padded(basis.kernel, Z, rows))[:, : len(rows)].T
            self.V = V
        return self.V

    def place(self, block: _Block) -> slice:
        """Return the place of a block in the run."""
        return slice(block.begin - self.begin, block.end - self.begin)


@dataclass(slots=True, eq=False)
class _Grams:
    """V_f D_f^-1 V_f', (d, d), of each fold."""

    by_fold: dict[int, FloatArray]

    def add(self, other: "_Grams") -> None:
        """Add those of other rows, or take them over."""
        for fold, gram in other.by_fold.items():
            if fold in self.by_fold:
                self.by_fold[fold] += gram
            else:
                self.by_fold[fold] = gram


def _grams(basis: _Basis, run: _Run, _: None, __: None) -> _Grams:
    """Return the part of a run. O(m d^2 / 2)."""
    V, found = run.made(basis), _Grams({})
    for block in run.blocks:
        place = run.place(block)
        scaled = V[place] / np.sqrt(run.D[place, None])
        found.add(_Grams({block.fold: scaled.T @ scaled}))
    return found


def _project(basis: _Basis, run: _Run, _: None, weighted: FloatArray) -> VectorSum:
    """Return the part of V D^-1 R, (r, d), of weighted residuals (r, m) of a run."""
    V, total = run.made(basis), np.zeros((len(weighted), len(basis)))
    for place in map(run.place, run.blocks):
        total += np.ascontiguousarray(weighted[:, place]) @ V[place]
    return VectorSum(total)


def _expand(basis: _Basis, run: _Run, inner: FloatArray, _: None) -> Concatenation:
    """Return V' times vectors (r, d), (r, m)."""
    V = run.made(basis)
    return Concatenation([np.hstack([inner @ V[place].T for place in map(run.place, run.blocks)])])


class _Information(Sequence[FloatArray]):
    """B of each column, made when it is asked for."""

    def __init__(self, by_fold: dict[int, FloatArray], folds: Folds) -> None:
        self._by_fold, self._folds = by_fold, folds

    def __len__(self) -> int:
        return self._folds.columns

    def __getitem__(self, column: Any) -> Any:
        if isinstance(column, slice):
            return [self[each] for each in range(*column.indices(len(self)))]
        if column == 0:
            return self._everything
        if self._folds.forward:  # the rows before the fold
            return self._sum([fold for fold in self._by_fold if fold < column - 1])
        if column > self._folds.count:  # the joint one
            return self._sum([fold for fold in self._by_fold if fold < self._folds.count - 2])
        without = self._by_fold.get(column - 1)
        return self._everything if without is None else self._everything - without

    @cached_property
    def _everything(self) -> FloatArray:
        return self._sum(list(self._by_fold))

    def _sum(self, some: Sequence[int]) -> FloatArray:
        size = len(next(iter(self._by_fold.values())))
        total = np.eye(size)
        for fold in sorted(some):
            total += self._by_fold[fold]
        return total


def _factor(_: None, __: int, ___: None, information: FloatArray) -> Concatenation:
    """Return the lower factor of B."""
    return Concatenation([cholesky(information, "B = I + V D^-1 V'")])


def _padded(kernel: Kernel, basis: FloatArray, rows: FloatArray) -> FloatArray:
    """Kernel values (d, m) with m padded to a multiple of ROW_UNIT."""
    count = -(-len(rows) // ROW_UNIT) * ROW_UNIT
    if count > len(rows):
        rows = np.asfortranarray(np.vstack((rows, np.repeat(rows[-1:], count - len(rows), axis=0))))
    return kernel.block(basis, rows)
