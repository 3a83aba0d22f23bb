"""Choice between the mean of the basis vectors and one that rests on many more rows.

    (Kff + D) alpha = y,    D_i = s2 b exp g(x_i) / w_i                 all rows, or M of them: `core.mean`

at the theta of the sparse fit, which also gives the error bars. Rows are left out by folds in lockstep with the whole
fit, or one at a time where there is a Cholesky factor; one fold are the rows held out for the report. From the errors
of these predictions, and the left-out variances of the sparse fit, noise, scales and quantiles are learnt as they are
for the sparse mean, then the noise once more with that D; of the two D the one that predicts left-out rows better is
kept. `auto` compares with the sparse mean on the same rows (`core.train.mean_gain`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

import numpy as np

from core.arrays import FloatArray, IntArray
from core.mean.closed import closed_form_mean
from core.mean.conjugate import Iteration, Stopping
from core.mean.folds import Folds, each_left_out, held_out_and_others
from core.mean.full import Mean, full_mean, full_means, sparse_preconditioner, square_product
from core.mean.precondition import random_basis
from core.mean.products import STORED_BYTES, SquareProduct, square_cuts
from core.mean.subset import subset_mean, subset_means
from core.predict.calibration import LeftOut
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores, scores
from core.predict.model import log_noise
from core.predict.transforms import Transform
from core.process.kernel import Kernel
from core.spec import MeanRows, TrainSpec, Variance
from core.train.calibrate import CalibrationResult, calibrate_by, grouped, recalibrated
from core.train.fit import Fit
from core.train.fold_fits import Seed
from core.train.mean_gain import Gain, row_losses
from core.train.report import Candidate

CLOSED_ROWS = 2_000
"""Rows up to which a Cholesky factor is as fast as iterations, and exact."""
FOLDS = 10
"""Folds of the rows, that of the held-out rows among them: each fit has nine tenths of the rows."""
TOLERANCE = 2e-2
PREPARED = 0.2
"""Share of the time of a mean that its preconditioner takes, before iterations say more."""
SECOND_SHARE, SECOND_SHARE_KEPT, READ_SHARE = 0.5, 0.3, 0.04
"""Shares of all that the second mean takes, without kernel values that are kept and with them, and what is read off the
first one before."""
LEAST_NOISE = 1e-12
"""Noise of a row, as a share of n times the prior variance, which is the trace of K: about a thousand times what
rounding makes of K's eigenvalues."""
SPARSE_THETA = "sparse"
"""Name of a theta that the rounds of the sparse search found."""
ALL_ROWS, CHOSEN_ROWS, MOST_ROWS = 20_000, 4_000, 100_000
"""For `auto`: all rows up to the first number; above it so many, and above the last one none but the basis: there the
iterations take longer than all the rest of a training."""


class Draw(IntEnum):
    """Part of the seed of each random draw."""

    FOLDS = 2_000
    PRECONDITIONER = 2_001
    CENTRES = 2_002


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedMean:
    """A mean on rows of its own. places (M,): which rows of the subset; alpha (M,): their weights; left_out (n,): each
    row of the subset predicted without its fold, standardized; read: the error bars, by those errors."""

    places: IntArray
    alpha: FloatArray
    left_out: FloatArray
    read: CalibrationResult


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanChoice:
    """The mean that is served, None for that of the basis; all that were compared; why there was no comparison."""

    mean: ServedMean | None = None
    candidates: tuple[Candidate, ...] = ()
    note: str | None = None


def compared_rows(spec: TrainSpec, rows: int) -> int:
    """Rows that a mean beside that of the basis rests on, in a table of so many rows; 0 where there is none."""
    asked = spec.mean_rows
    if spec.fixed_mean or (asked is MeanRows.AUTO and rows > MOST_ROWS):
        return 0
    if isinstance(asked, int):
        return min(asked, rows)
    return CHOSEN_ROWS if asked is MeanRows.AUTO and rows > ALL_ROWS else rows


def choose_mean(
    fit: Fit,
    read: CalibrationResult,
    spec: TrainSpec,
    transform: Transform,
    targets: FloatArray,
    seed: Seed,
    *,
    held_out: IntArray,
    seconds: float,
    tell: Callable[[float], None] = lambda _: None,
) -> MeanChoice:
    """Return the mean that is asked for, or for `auto` the one that predicts left-out rows better.

    Args:
        fit: sparse fit of all rows.
        read: its calibration.
        spec: of the run.
        transform: under which the target is learnt.
        targets: of the subset's rows in their own unit, (n,).
        seed: of the random draws.
        held_out: rows of the subset that are one fold.
        seconds: that the sparse model took.
        tell: hears the share that is done; may raise to cancel.

    Cost O(n^3 / 2) up to CLOSED_ROWS rows, else O(n^2) an iteration, some dozens of them; for M rows O(n M) and O(M^3).
    """
    n, automatic = len(fit.subset.rows), spec.mean_rows is MeanRows.AUTO
    count = compared_rows(spec, n)
    if read.left_out is None or (automatic and fit.selection.complete):
        return MeanChoice()
    if count == 0:
        note = f"the mean rests on the basis vectors: `mean_rows: auto` compares others up to {MOST_ROWS} rows"
        return MeanChoice(note=note)
    began = time.perf_counter()
    mean, settled = _served(_Task(fit, read, spec, seed, count, held_out, tell), read)
    took = time.perf_counter() - began
    gain = Gain.of(read, mean.read)
    taken = gain.pays or not automatic
    reason = gain.reason if automatic else f"asked for; {gain.told}"
    basis = _candidate(fit, MeanRows.BASIS, len(fit.selection.indices), _scores(fit, read, transform, targets), seconds)
    other = _candidate(
        fit,
        MeanRows.ALL if len(mean.places) == n else None,
        len(mean.places),
        _scores(fit, mean.read, transform, targets),
        took,
    )
    winner = other if taken else basis
    doubtful = (
        None if settled else "the iterations for the mean ended at their limit, before its predictions had settled"
    )
    return MeanChoice(
        mean=mean if taken else None,
        candidates=tuple(
            replace(each, taken=each is winner, reason=reason if each is winner else None) for each in (basis, other)
        ),
        note=doubtful if taken else None,
    )


def _candidate(fit: Fit, kind: MeanRows | None, size: int, found: Scores, seconds: float) -> Candidate:
    return Candidate(
        kernel=fit.factors.hyperparameters.kernel.value,
        mean="chosen" if kind is None else kind.value,
        mean_rows=size,
        variance=Variance.BASIS.value,
        theta=SPARSE_THETA,
        rows=found.rows,
        nmse=found.nmse,
        nlpd=found.nlpd,
        seconds=seconds,
        taken=False,
    )


class _Task:
    """Means of one fit for any noise, the second faster than the first."""

    def __init__(
        self,
        fit: Fit,
        read: CalibrationResult,
        spec: TrainSpec,
        seed: Seed,
        count: int,
        held_out: IntArray,
        tell: Callable[[float], None],
    ) -> None:
        self.fit, self.spec, self.seed, self._tell = fit, spec, seed, tell
        self.rows, self.s2 = fit.subset.rows, fit.factors.hyperparameters.noise_variance
        self.kernel = Kernel.of(fit.factors.hyperparameters, self.rows.groups)
        n = len(self.rows)
        self.closed = count == n <= CLOSED_ROWS
        choose, groups = each_left_out if self.closed else held_out_and_others, fit.subset.dataset.row_groups
        self.folds: Folds = choose(n, held_out, FOLDS, self._random(Draw.FOLDS), groups)
        self.places = np.arange(n) if count == n else self._centres(count)
        assert read.left_out is not None
        both = read.left_out.take(np.flatnonzero(self.folds.fold[read.left_out.places] >= 0))
        self.left_out = replace(both, noise_variance=self.rows.noises(self.s2)[both.places])
        self._product: SquareProduct | None = None
        numbers = sum((end - begin) * end for begin, end in pairwise(square_cuts(n)))
        self._keeps = count == n and 8 * numbers <= STORED_BYTES

    def noise(self, read: CalibrationResult, scale: float) -> FloatArray:
        """Return the noise variance of each row, (n,), as a calibration has learnt it, above what K rounds to."""
        logarithm = 0.0 if read.noise is None else log_noise(read.noise.noise, self.fit.subset.dataset.inputs)
        noise = scale * self.rows.noise(self.s2) * np.exp(np.zeros(len(self.rows)) + logarithm)
        return np.asarray(np.maximum(noise, LEAST_NOISE * len(self.rows) * self.kernel.diagonal))

    def mean(self, D: FloatArray, begin: float, share: float, resume: FloatArray | None) -> Mean:
        """Return the mean with this noise; `begin` and `share` are told."""
        pace = _Pace(lambda done: self._tell(begin + share * done))
        if self.closed:
            pace.prepared(1.0)
            return closed_form_mean(self.rows, self.kernel, D, self.folds).mean
        stopping = Stopping(tolerance=TOLERANCE)
        if len(self.places) < len(self.rows):
            return subset_mean(
                self.rows,
                self.kernel,
                D,
                self.places,
                self.folds,
                stopping=stopping,
                listen=pace.listen,
                resume=resume,
            )
        Z = random_basis(self.rows.X, self._random(Draw.PRECONDITIONER))
        return full_mean(
            self.rows,
            self.kernel,
            D,
            sparse_preconditioner(self.rows, self.kernel, Z, D, self.folds, tell=pace.prepared),
            self.folds,
            stopping=stopping,
            listen=pace.listen,
            resume=resume,
            product=self._kept_product(D),
        )

    @property
    def second_share(self) -> float:
        """Return the share of all that the second mean takes: less where kernel values are kept."""
        return SECOND_SHARE_KEPT if self._keeps else SECOND_SHARE

    def means(self, tasks: "Sequence[_Task]", D: Sequence[FloatArray], resume: list[FloatArray] | None) -> list[Mean]:
        """Return the mean of each task, which are of the same fit and other targets, each with its noise."""
        if self.closed:
            return [task.mean(noise, 0.0, 0.0, None) for task, noise in zip(tasks, D, strict=True)]
        targets, stopping = [task.rows.y for task in tasks], Stopping(tolerance=TOLERANCE)
        if len(self.places) < len(self.rows):
            joined = None if resume is None else np.hstack(resume)
            return subset_means(
                self.rows, self.kernel, targets, D, self.places, self.folds, stopping=stopping, resume=joined
            )
        Z, least = random_basis(self.rows.X, self._random(Draw.PRECONDITIONER)), np.min(D, axis=0)
        return full_means(
            targets,
            D,
            sparse_preconditioner(self.rows, self.kernel, Z, least, self.folds, len(tasks)),
            self.folds,
            stopping=stopping,
            resume=resume,
            product=self._kept_product(least, len(tasks))
            or square_product(self.rows, self.kernel, least, self.folds, len(tasks)),
        )

    def read(self, mean: Mean) -> CalibrationResult:
        """Return noise, scales and quantiles by the errors of a mean, with the sparse fit's left-out variances."""
        left_out = self._left_out_by(mean)
        by = "leave-one-out" if self.folds.count == len(self.rows) else "cross-fitting"
        return calibrate_by(self.fit.subset.dataset, left_out, self.spec, self.seed, by, self.rows.workers)

    def read_again(self, mean: Mean, before: CalibrationResult) -> CalibrationResult:
        """Return scales and quantiles by the errors of a mean, with the noise as it was learnt before."""
        left_out = grouped(self._left_out_by(mean), self.fit.subset.dataset)
        return recalibrated(before, left_out, self.spec)

    def _left_out_by(self, mean: Mean) -> LeftOut:
        return replace(self.left_out, error=(self.rows.y - mean.left_out)[self.left_out.places])

    def _kept_product(self, D: FloatArray, targets: int = 1) -> SquareProduct | None:
        """K(X, X) for both noises, where it is held in double precision and fits any."""
        if self._product is None and self._keeps:
            self._product = square_product(self.rows, self.kernel, D, self.folds, targets)
        return self._product

    def _centres(self, count: int) -> IntArray:
        """The basis rows, and as many others at random; sorted."""
        basis = self.fit.subset.places(self.fit.selection)[:count]
        others = np.setdiff1d(np.arange(len(self.rows)), basis)
        drawn = self._random(Draw.CENTRES).permutation(others)[: count - len(basis)]
        return np.sort(np.concatenate((basis, drawn)))

    def _random(self, draw: Draw) -> np.random.Generator:
        return np.random.default_rng([*self.seed, draw])


class _Pace:
    """What is told of a mean: of its preparation, then by the seconds that its iterations take."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell, self._began, self._first = tell, time.perf_counter(), 0.0

    def prepared(self, share: float) -> None:
        """Hear the share of the preparation that is done."""
        self._tell(PREPARED * share)

    def listen(self, iteration: Iteration) -> None:
        """Hear of an iteration; the first one's seconds are not told from those before it."""
        elapsed, done = time.perf_counter() - self._began, iteration.fraction
        if iteration.number == 1:
            self._first = elapsed
            self._tell(PREPARED + (1.0 - PREPARED) * done)
            return
        each = (elapsed - self._first) / (iteration.number - 1)
        remaining = each * iteration.number * (1.0 / done - 1.0)
        self._tell(elapsed / (elapsed + remaining))


def _served(task: _Task, sparse: CalibrationResult) -> tuple[ServedMean, bool]:
    """The mean with the sparse fit's noise, then with its own; the better of the two, and whether it had settled."""
    share = task.second_share
    first = task.mean(task.noise(sparse, 1.0), 0.0, 1.0 - share - READ_SHARE, None)
    first_read = task.read(first)
    D = task.noise(first_read, first_read.calibration.noise_scale)
    second = task.mean(D, 1.0 - share, share, None if task.closed else first.unknowns)
    second_read = task.read(second)
    better = row_losses(second_read).mean() < row_losses(first_read).mean()
    mean, read = (second, second_read) if better else (first, first_read)
    served = ServedMean(places=task.places, alpha=mean.alpha, left_out=mean.left_out, read=read)
    return served, mean.settled


def served_means(
    fit: Fit,
    read: CalibrationResult,
    spec: TrainSpec,
    seed: Seed,
    *,
    held_out: IntArray,
    count: int,
    tell: Callable[[float], None] = lambda _: None,
) -> list[ServedMean]:
    """Return the means of the fit's target and of its other ones, on `count` of the rows, in lockstep.

    Args:
        fit: sparse fit of all rows, with other targets.
        read: calibration of its own target, whose left-out rows are those of all.
        spec, seed, held_out, tell: as `choose_mean` has them.

    What `choose_mean` does for one target, at one pass of kernel values an iteration for all; the first noise is
    constant, and how it varies is learnt once for each target.
    """
    plain = read.plain
    assert plain is not None
    others = range(fit.subset.rows.others.shape[1])
    fits = [fit, *(fit.of_other(place) for place in others)]
    reads = [CalibrationResult(left_out=each) for each in (plain, *(plain.of_other(place) for place in others))]
    tasks = [
        _Task(each, own, spec, seed, count, held_out, lambda _: None) for each, own in zip(fits, reads, strict=True)
    ]
    first = tasks[0].means(tasks, [tasks[0].noise(reads[0], 1.0)] * len(tasks), None)
    tell(0.4)
    reads = [task.read(mean) for task, mean in zip(tasks, first, strict=True)]
    D = [task.noise(own, own.calibration.noise_scale) for task, own in zip(tasks, reads, strict=True)]
    second = tasks[0].means(tasks, D, [mean.unknowns for mean in first])
    tell(0.8)
    found = []
    for task, earlier, mean, own in zip(tasks, first, second, reads, strict=True):
        again = task.read_again(mean, own)
        best, kept = (mean, again) if row_losses(again).mean() < row_losses(own).mean() else (earlier, own)
        found.append(ServedMean(places=task.places, alpha=best.alpha, left_out=best.left_out, read=kept))
    tell(1.0)
    return found


def _scores(fit: Fit, read: CalibrationResult, transform: Transform, targets: FloatArray) -> Scores:
    """Scores of the left-out rows, in the target's unit."""
    left_out, unit = read.left_out, fit.subset.standardization
    assert left_out is not None
    variance = read.calibration.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    centre = (fit.subset.rows.y[left_out.places] - left_out.error) * unit.target_scale + unit.target_shift
    predicted = PredictiveDistribution(
        centre=centre, variance=variance * unit.target_scale**2, calibration=read.calibration, transform=transform
    )
    return scores(targets[left_out.places], predicted, left_out.weights if len(left_out.weights) else None)
