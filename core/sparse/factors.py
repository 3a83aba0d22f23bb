"""The factors that every sparse approximation shares, made in one pass over blocks of rows.

    Kuu = L L',  V = L^-1 Kuf,  e = diag(Kff - V'V),  D = s2 / w + a e,  B = I + V D^-1 V' = LB LB'
    alpha = L^-T B^-1 V D^-1 y                                        (posterior mean at x: k(x)' alpha)

One number tells the approximations apart here, the power a of the diagonal correction: 0 for SoR, DTC (Keerthi &
Chu 2005, eq. 6; Seeger et al. 2003) and VFE (Titsias 2009), 1 for FITC (Snelson & Ghahramani 2006), between them for
power EP (Bui et al. 2017). A second one, the penalty, enters the objective only. With a = 0, L s2 B L' is
s2 Kuu + Kuf Kfu. w are the rows' weights, one each where they count the same: a row of weight w has the noise variance
s2 / w of a mean of w measurements.

Cost O(n d^2); memory O(d^2 + n) and, where it fits KEPT_BYTES, the kernel blocks for the gradient's second pass: here,
or in the processes that hold the rows.

A pass over all rows is a function of a module, (rows, blocks of them) -> sums or (factors, blocks) -> sums, so that
other processes can do it for the shards they hold (`core.numeric.shards`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import LowerSolver, add_gram, cholesky, jittered_cholesky, solve_vector
from core.numeric.shards import Part, tree_total
from core.numeric.threads import Partial, map_threads, split_evenly
from core.numeric.workspace import Workspace
from core.process.kernel import Kernel
from core.process.rows import Rows, over_rows
from core.sparse.scheme import Scheme

KEPT_BYTES = 1 << 29
"""Kernel blocks are kept between the passes up to this size, and made again past it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Some rows: their place, the kernel without bias K0 (d, m) and V (d, m). Both arrays are read-only by custom.

    Each is the top of an array with rows to spare, so that one matrix product can add outer products too.
    """

    rows: slice
    K0_and_two: FloatArray
    V_and_one: FloatArray

    @property
    def K0(self) -> FloatArray:
        """Kernel without bias, (d, m)."""
        return self.K0_and_two[:-2]

    @property
    def V(self) -> FloatArray:
        """V = L^-1 Kuf of these rows, (d, m)."""
        return self.V_and_one[:-1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Factors:
    """Everything of one (theta, Z) that prediction, objective and leave-one-out read.

    Z (d, p); among = Kuu without bias and jitter, L, LB lower, information = V D^-1 V' = B - I, all (d, d);
    lower: L made ready for solves; jitter as a share of the prior variance; e, D (n,); c = B^-1 V D^-1 y and
    alpha = L^-T c, (d,); other_c and other_alphas (d, k): the same of the rows' other targets.
    """

    hyperparameters: Hyperparameters
    scheme: Scheme
    rows: Rows
    Z: FloatArray
    among: FloatArray
    L: FloatArray
    lower: LowerSolver
    LB: FloatArray
    information: FloatArray
    jitter: float
    e: FloatArray
    D: FloatArray
    c: FloatArray
    alpha: FloatArray
    kept: tuple[tuple[Block, ...], ...]
    other_c: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    other_alphas: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def of_other(self, place: int) -> "Factors":
        """Return the factors with another of the targets, alone: O(n)."""
        nothing = np.empty((0, 0))
        return replace(
            self,
            rows=self.rows.of_other(place),
            c=self.other_c[:, place].copy(),
            alpha=self.other_alphas[:, place].copy(),
            other_c=nothing,
            other_alphas=nothing,
        )

    def every_c(self) -> FloatArray:
        """c of every target, one a column, the first one's first: (d, 1 + k)."""
        return np.column_stack((self.c, self.other_c)) if self.rows.several else self.c[:, None]

    @property
    def kernel(self) -> Kernel:
        """Kernel of these hyperparameters."""
        return Kernel.of(self.hyperparameters, self.rows.groups)

    def over_blocks(self, work: Callable[[Iterable[Block]], Partial]) -> list[Partial]:
        """work(run of blocks) on every thread, results in the order of the rows; blocks are kept or made again."""
        if self.kept:
            runs = [[block for run in runs for block in run] for runs in split_evenly(self.kept, self.rows.workers)]
            return map_threads(work, runs)
        return over_rows(self.rows, self.Z, lambda places: work(self._blocks(places)))

    def total(self, work: "Callable[[Factors, Iterable[Block]], Part]") -> Part:
        """The sum of work(factors, blocks) over all rows; `factors` has the rows, e and D that the blocks' places count
        in, those of a block from when it comes. where rows are remote, `work` must be a function of a module, or a
        functools.partial of one."""
        rows = self.rows
        if rows.remote is not None:
            return rows.total(partial(_filling, self._sent(), work), len(self.Z))
        if self.kept:
            return tree_total(lambda run: work(self, run), self.kept, rows.workers)
        return rows.total(lambda _, places: work(self, self._blocks(places)), len(self.Z))

    def left_out(self, block: Block, q: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Error y_i - f_-i and variance, noise included, of a block's rows each given all the others
        (`core.sparse.leave_one_out`).

        q_i = V_i' B^-1 V_i and r = y - mu, (m,) each. The variance of the full prior outside the basis is in it.
        """
        D, e = self.D[block.rows], self.e[block.rows]
        prior = self.hyperparameters.prior_variance - e + D  # no row left out is less certain
        precision = np.maximum((1.0 - q / D) / D, 1.0 / prior)
        return r / D / precision, 1.0 / precision + (1.0 - self.scheme.power) * e

    def release(self) -> None:
        """Gives the kept blocks to the rows' workspace: the end of these factors."""
        for block in (block for run in self.kept for block in run):
            self.rows.workspace.give(block.K0_and_two)
            self.rows.workspace.give(block.V_and_one)

    def _sent(self) -> "Factors":
        """Return the factors without rows and without what no pass reads, for every process that adds up."""
        rows, square, vector = self.rows.take(np.empty(0, np.int64)), np.empty((0, 0)), np.empty(0)
        return replace(
            self, rows=rows, among=square, L=square, LB=square, information=square, e=vector, D=vector, kept=()
        )

    def _blocks(self, places: Sequence[slice]) -> Iterator[Block]:
        return _blocks(self.rows, self.Z, self.hyperparameters, self.lower, places)


def factorise(
    rows: Rows,
    Z: FloatArray,
    hyperparameters: Hyperparameters,
    scheme: Scheme,
    *,
    keep: bool = True,
    beyond: "FirstSums | None" = None,
) -> Factors:
    """Return the factors of one (theta, Z), by one pass over the rows. O(n d^2) in matrix products.

    Args:
        rows: training rows, (n, p) and (n,), standardized.
        Z: basis vectors (d, p), standardized.
        hyperparameters: in standardized units.
        scheme: which approximation.
        keep: hold the blocks for a second pass where they fit KEPT_BYTES, in other processes for one pass.
        beyond: sums of more rows (`first_sums`), which the posterior then rests on too; passes over the factors do not
            come to them.

    Raises:
        NotPositiveDefiniteError: the hyperparameters are beyond double precision.
    """
    s2, a, size = hyperparameters.noise_variance, scheme.power, len(Z)
    kernel = Kernel.of(hyperparameters, rows.groups)
    among = kernel.stationary_gram(Z)
    L, jitter = jittered_cholesky(kernel.add_bias(among), "Kuu")
    lower = LowerSolver(L)
    keep = keep and 16 * size * len(rows) <= KEPT_BYTES
    first = partial(_first_pass, Z=Z, hyperparameters=hyperparameters, scheme=scheme, lower=lower, keep=keep)
    sums = rows.total(first, size)
    e = np.concatenate(sums.e)
    if beyond is not None:
        sums.add(beyond)
    information = sums.information
    LB = cholesky(information + np.eye(size), "B = I + V D^-1 V'")
    c = solve_vector(LB, solve_vector(LB, sums.b), transposed=True)
    others = [solve_vector(LB, solve_vector(LB, b), transposed=True) for b in sums.others.T]
    return Factors(
        hyperparameters=hyperparameters,
        scheme=scheme,
        rows=rows,
        Z=Z,
        among=among,
        L=L,
        lower=lower,
        LB=LB,
        information=information,
        jitter=jitter / hyperparameters.prior_variance,
        e=e,
        D=rows.noise(s2) + a * e,
        c=c,
        alpha=solve_vector(L, c, transposed=True),
        kept=tuple(sums.kept),
        other_c=np.transpose(others) if others else np.empty((0, 0)),
        other_alphas=np.transpose([solve_vector(L, other, transposed=True) for other in others])
        if others
        else np.empty((0, 0)),
    )


@dataclass(slots=True, eq=False)
class FirstSums:
    """Sums over rows that the factors are made of: V D^-1 V' (d, d), V D^-1 y (d,), e of each block, and the blocks of
    each run where they are kept; V D^-1 times the other targets, (d, k)."""

    information: FloatArray
    b: FloatArray
    e: list[FloatArray]
    kept: list[tuple[Block, ...]]
    others: FloatArray

    def add(self, other: "FirstSums") -> None:
        """The rows that come next."""
        self.information += other.information
        self.b += other.b
        self.others += other.others
        self.e += other.e
        self.kept += other.kept


def first_sums(rows: Rows, Z: FloatArray, hyperparameters: Hyperparameters, scheme: Scheme) -> FirstSums:
    """Return what rows add to the factors of one (theta, Z), without a number for each row. O(n d^2); memory O(d^2).

    Args as in `factorise`, which raises the same.
    """
    L, _ = jittered_cholesky(Kernel.of(hyperparameters, rows.groups).gram(Z), "Kuu")
    work = partial(_sums_alone, Z=Z, hyperparameters=hyperparameters, scheme=scheme, lower=LowerSolver(L))
    return rows.total(work, len(Z))


def _sums_alone(
    rows: Rows,
    places: Sequence[slice],
    *,
    Z: FloatArray,
    hyperparameters: Hyperparameters,
    scheme: Scheme,
    lower: LowerSolver,
) -> FirstSums:
    sums = _first_pass(rows, places, Z=Z, hyperparameters=hyperparameters, scheme=scheme, lower=lower, keep=False)
    sums.e.clear()
    return sums


def _first_pass(
    rows: Rows,
    places: Sequence[slice],
    *,
    Z: FloatArray,
    hyperparameters: Hyperparameters,
    scheme: Scheme,
    lower: LowerSolver,
    keep: bool,
) -> FirstSums:
    s2, a, size = hyperparameters.noise_variance, scheme.power, len(Z)
    information, b, e, kept = np.zeros((size, size)), np.zeros(size), [], []
    others = np.zeros((size, rows.others.shape[1]))
    work = rows.workspace.take(size, size)
    for block in _blocks(rows, Z, hyperparameters, lower, places, keep=keep):
        unexplained = _unexplained(block, hyperparameters)
        D = rows.noise(s2, block.rows) + a * unexplained
        if a > 0.0 or rows.weighted:
            with rows.workspace.borrow(*block.V.shape) as scaled:
                add_gram(information, np.multiply(block.V, 1.0 / np.sqrt(D), out=scaled), work)
        else:
            add_gram(information, block.V, work)
        b += block.V @ (rows.y[block.rows] / D)
        if rows.several:
            others += block.V @ (rows.others[block.rows] / D[:, None])
        e.append(unexplained)
        if keep:
            kept.append(block)
    rows.workspace.give(work)
    if a == 0.0 and not rows.weighted:
        information /= s2
    if keep and rows.handover is not None:
        _release(rows, rows.handover.leave(_made_of(Z, hyperparameters), list(zip(kept, e, strict=True))) or [])
        keep = False
    return FirstSums(information=information, b=b, e=e, kept=[tuple(kept)] if keep else [], others=others)


def _unexplained(block: Block, hyperparameters: Hyperparameters) -> FloatArray:
    """e of a block's rows, (m,), never below zero."""
    explained = np.einsum("km,km->m", block.V, block.V)
    np.subtract(hyperparameters.prior_variance, explained, out=explained)
    return np.asarray(np.maximum(explained, 0.0, out=explained))


def _made_of(Z: FloatArray, hyperparameters: Hyperparameters) -> tuple[object, ...]:
    """Return all that the blocks of a shard are made of but its rows."""
    variances = hyperparameters.signal_variance, hyperparameters.bias_variance
    return Z.tobytes(), hyperparameters.lengthscales.tobytes(), *variances, hyperparameters.kernel


def _release(rows: Rows, left: Iterable[tuple[Block, FloatArray]]) -> None:
    """Gives blocks that nobody reads any more to the rows' workspace."""
    for block, _ in left:
        rows.workspace.give(block.K0_and_two)
        rows.workspace.give(block.V_and_one)


def _filling(
    sent: Factors, work: Callable[[Factors, Iterable[Block]], Part], rows: Rows, places: Sequence[slice]
) -> Part:
    """`work` on a shard, with the blocks that the first pass has left or the same ones made again; e and D are there
    when their block comes."""
    factors = replace(sent, rows=rows, e=np.empty(len(rows)), D=np.empty(len(rows)))
    left = None if rows.handover is None else rows.handover.take(_made_of(sent.Z, sent.hyperparameters))

    def blocks() -> Iterator[Block]:
        made = _blocks(rows, factors.Z, factors.hyperparameters, factors.lower, places)
        for block, e in left or ((each, _unexplained(each, factors.hyperparameters)) for each in made):
            factors.e[block.rows] = e
            noise = rows.noise(factors.hyperparameters.noise_variance, block.rows)
            factors.D[block.rows] = noise + factors.scheme.power * e
            yield block

    found = work(factors, blocks())
    _release(rows, left or [])
    return found


def _blocks(
    rows: Rows,
    Z: FloatArray,
    hyperparameters: Hyperparameters,
    lower: LowerSolver,
    places: Iterable[slice],
    *,
    keep: bool = False,
) -> Iterator[Block]:
    """lower: of L. keep: each block stays as it is; otherwise only until the next one."""
    kernel, size = Kernel.of(hyperparameters, rows.groups), len(Z)
    basis = kernel.basis(Z)
    workspace = rows.workspace if keep else Workspace()  # of its own, and gone with the last block
    for place in places:
        count = place.stop - place.start
        block = Block(rows=place, K0_and_two=workspace.take(size + 2, count), V_and_one=workspace.take(size + 1, count))
        kernel.stationary(basis, kernel.rows(rows.X[place]), block.K0)
        lower.solve(kernel.add_bias(block.K0, block.V))
        yield block
        if not keep:
            workspace.give(block.K0_and_two)
            workspace.give(block.V_and_one)
