"""The full process beside the sparse model: computed first, so that the search for the other may end early.

They are compared on the rows held out for the report, which neither theta has seen, each with error bars that have not
seen them either, and where these do not tell on all left-out rows, which are many more. The full process is taken

    where held-out rows lose less by it, by more than a standard error of the paired differences and LEAST_GAIN, and
    left-out rows no more than chance has it;
    where they lose no more than chance has it, and left-out rows lose less by as much, with squared errors that are
    larger by MOST_RISE at most, or have squared errors that are smaller by more than their standard error and
    LEAST_FALL of them;
    where it is exact and costs next to nothing, unless held-out rows lose more by a standard error.

Never where its squared errors are larger on both kinds of rows, on those held out by more than a standard error.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import FloatArray, IntArray
from core.errors import CoreError
from core.hyperparameters import Hyperparameters, KernelFamily
from core.predict.calibration import loss_of, scales
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores
from core.predict.model import Model
from core.predict.predictor import Moments
from core.predict.transforms import Transform
from core.process.rows import mean_by_weight, variance_by_weight
from core.row_groups import Grouping, mean_by_group
from core.selection.size import every_row
from core.selection.state import Selection
from core.sparse.factors import factorise
from core.sparse.posterior import SparsePosterior
from core.sparse.scheme import Scheme
from core.spec import Effort, KernelChoice, MeanRows, TrainSpec, Variance
from core.train.block_theta import BlockTheta, block_theta
from core.train.cross_fit import predicted
from core.train.fit import Solution, Subset
from core.train.fold_fits import Seed
from core.train.full_process import MOST_ROWS, FullProcess, full_process, losses
from core.train.mean_choice import SPARSE_THETA
from core.train.report import Candidate

LEAST_GAIN = 0.01
"""Nats a row below which a full process is not worth its slower predictions."""
LEAST_FALL, MOST_RISE = 0.02, 0.05
"""Share of the other model's squared errors that a full process takes off at least where no densities tell, and that it
may add where those of left-out rows do."""
CONSTANT_ERRORS = 3.0
"""Standard errors by which a full process has to be better than a constant."""
STOP_BEHIND, STOP_ERRORS = 0.25, 3.0
"""The search for a sparse model ends after its first round where this loses more by so many nats a row, and so many
standard errors: later rounds gain less."""
FIRST_SHARE, THETA_SHARE, CHOSEN_SHARE = 0.4, 0.4, 0.28
"""Share of the progress that the first kernel is where others may follow, of each that its theta is, and of all that
the first one's is with a choice of kernels."""
LEAST_ROWS = 20
"""Held-out rows below which all left-out rows are compared."""


def is_compared(spec: TrainSpec, learning: Subset, rows: int) -> bool:
    """Return whether a full process on so many rows is a candidate: beside a sparse model with every row as its basis
    only where rows come in groups, of which the theta of that knows nothing."""
    if not spec.compares_full or rows > MOST_ROWS:
        return False
    return learning.dataset.row_groups.by is Grouping.GROUP or every_row(learning.rows, spec) is None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Left-out rows as one model predicts them: negative log density, nats, and squared error in units of the learnt
    target, times the row's weight, (m,) each."""

    loss: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, targets: FloatArray, predicted: PredictiveDistribution, weights: FloatArray | None = None) -> "Judged":
        """Judge predictions of targets (m,), in the target's unit, of rows of these weights."""
        squares = np.square(predicted.transform.forward(targets) - predicted.centre)
        return cls(loss=-predicted.log_density(targets), squares=squares if weights is None else weights * squares)

    def gains_over(self, other: "Judged") -> bool:
        """Return whether the same rows lose less, and their squared errors are no larger."""
        return bool(self.loss.mean() < other.loss.mean() and self.squares.mean() <= other.squares.mean())

    def take(self, places: IntArray | slice) -> "Judged":
        """Return the judgement of some of the rows."""
        return Judged(loss=self.loss[places], squares=self.squares[places])

    def by_group(self, group: IntArray) -> "Judged":
        """Return the mean of each group (m,), which alone are independent."""
        return Judged(loss=mean_by_group(self.loss, group), squares=mean_by_group(self.squares, group))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FullModel:
    """A full process on all rows of a subset; held_out: places of those that its theta has not seen; seconds: that it
    took."""

    process: FullProcess
    subset: Subset
    held_out: IntArray
    seconds: float

    def moments(self, places: IntArray) -> Moments:
        """Return what it predicts for these rows without their fold, in the target's unit, uncalibrated, and with the
        noise of a row of weight one."""
        unit, theta = self.subset.standardization, self.process.theta
        latent = self.process.latent_variance[places] * unit.target_scale**2
        return Moments(
            mean=self.process.mean.left_out[places] * unit.target_scale + unit.target_shift,
            latent_variance=latent,
            target_variance=latent + theta.noise_variance * unit.target_scale**2,
            far_variance=theta.signal_variance * unit.target_scale**2,
        )

    def model(self, inputs: FloatArray, groups: IntArray, transform: Transform) -> Model:
        """Return all that predicts. inputs: of the subset's rows in raw units (n, p); groups: of its columns."""
        theta, unit, read = self.process.theta, self.subset.standardization, self.process.read
        posterior = SparsePosterior(
            basis=inputs,
            lengthscales=theta.lengthscales,
            groups=groups.astype(np.float64),
            alpha=self.process.mean.alpha,
            R=np.empty((0, 0)),
            input_shift=unit.input_shift,
            input_scale=unit.input_scale,
            target_shift=unit.target_shift,
            target_scale=unit.target_scale,
            signal_variance=theta.signal_variance,
            bias_variance=theta.bias_variance,
            noise_variance=theta.noise_variance,
            variance_base=theta.prior_variance,
            variance_sign=-1.0,
            far_variance=theta.signal_variance,
            kernel=theta.kernel,
            input_transform=unit.input_transform,
        )
        return Model(
            posterior=posterior,
            near=self.process.D,
            noise=None if read.noise is None else read.noise.noise,
            calibration=replace(read.calibration, noise_scale=self.process.noise_kept * read.calibration.noise_scale),
            transform=transform,
        )

    def left_out(self, transform: Transform) -> PredictiveDistribution:
        """Distribution of each row that is in a fold without it, in the target's unit, calibrated on all of them."""
        read, left = self.process.read, self.process.left
        found = self.moments(left)
        noise = found.target_variance - found.latent_variance
        noise = noise * np.exp(read.log_noise(self.subset.dataset, left)) * self.subset.rows.noise(1.0, left)
        return PredictiveDistribution(
            centre=found.mean,
            variance=read.calibration.variance(found.latent_variance, noise, found.far_variance),
            calibration=read.calibration,
            transform=transform,
        )

    def judged(self) -> Judged:
        """Return left-out rows as it predicts them, in the unit of the learnt target."""
        unit, left = self.subset.standardization, self.process.left
        targets = unit.target_shift + unit.target_scale * self.subset.rows.y[left]
        weights = self.subset.dataset.weights
        return Judged.of(targets, self.left_out(Transform()), weights[left] if len(weights) else None)

    def candidate(self, found: Scores) -> Candidate:
        """Describe it by its scores."""
        rows = len(self.subset.rows)
        return Candidate(
            kernel=self.process.theta.kernel.value,
            mean=MeanRows.ALL.value,
            mean_rows=rows,
            variance=Variance.NEAR.value,
            theta="exact" if self.process.exact else "blocks",
            rows=found.rows,
            nmse=found.nmse,
            nlpd=found.nlpd,
            seconds=self.seconds,
            taken=False,
        )

    def selection(self) -> Selection:
        """Return every row as a basis vector."""
        count = len(self.subset.rows)
        return Selection(
            indices=self.subset.numbers,
            gains=np.full(count, np.nan),
            reason=f"a full process on all {count} rows",
            complete=True,
        )


def full_model(
    subset: Subset,
    held_out: IntArray,
    start: Hyperparameters,
    spec: TrainSpec,
    seed: Seed,
    tell: Callable[[float], None],
) -> FullModel | None:
    """Compute a full process. None where it predicts left-out rows no better than a constant.

    With any kernel, those next to the one that is chosen are tried on all rows as long as left-out rows gain: blocks of
    a table do not say which kernel is best for as many rows as it has. The normal effort tries the next rougher one
    where blocks hold it for near, the best one whichever there are.

    Args:
        subset: all rows.
        held_out: places of rows that theta may not see.
        start: theta of a process on a few hundred of the others.
        spec: of the run.
        seed: of every draw.
        tell: hears the share that is done; may raise to cancel.
    """
    began, parts = time.perf_counter(), _Parts(tell)
    learning = np.setdiff1d(np.arange(len(subset.rows)), held_out)

    def theta_of(kernel: KernelChoice, share: float) -> BlockTheta:
        random, _ = np.random.default_rng(seed).spawn(2)  # the same blocks for every kernel, and the same folds
        return block_theta(subset, learning, start, replace(spec, kernel=kernel), random, parts.following(share))

    def process(theta: Hyperparameters, share: float) -> FullModel | None:
        _, random = np.random.default_rng(seed).spawn(2)
        found = full_process(subset, held_out, theta, spec, seed, random, parts.following(share))
        if found.read.no_better_than_constant(subset.rows):
            return None
        return FullModel(process=found, subset=subset, held_out=held_out, seconds=time.perf_counter() - began)

    found = theta_of(spec.kernel, CHOSEN_SHARE if spec.kernel is KernelChoice.AUTO else THETA_SHARE)
    ways = _ways(found, spec)
    others = sum(map(len, ways))
    first = process(found.theta, max(FIRST_SHARE, 1.0 / (1.0 + others)) - parts.told)
    if first is None:
        return None
    best, share = first, (1.0 - parts.told) / max(others, 1)

    def model(family: KernelFamily) -> FullModel | None:
        return process(theta_of(KernelChoice(family), THETA_SHARE * share).theta, (1.0 - THETA_SHARE) * share)

    for families in ways:
        best = _while_it_gains(first, families, model)
        if best is not first:
            break
    return replace(best, seconds=time.perf_counter() - began)


class _Parts:
    """What is told of a task, part after part; told: the share of all parts so far."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell, self.told = tell, 0.0

    def following(self, share: float) -> Callable[[float], None]:
        """Return what hears of the next part, of so much of the whole."""
        begin, self.told = self.told, self.told + share
        return lambda done: self._tell(begin + share * done)


def _ways(found: BlockTheta, spec: TrainSpec) -> list[Sequence[KernelFamily]]:
    """Return kernels to try beside the one that was found, in two directions or one, nearest first."""
    if spec.kernel is not KernelChoice.AUTO:
        return []
    if spec.effort is not Effort.BEST:
        return [] if found.rougher is None else [[found.rougher]]
    order = list(KernelFamily)
    place = order.index(found.theta.kernel)
    return [order[place + 1 :], order[:place][::-1]]


def _while_it_gains(
    best: FullModel, families: Sequence[KernelFamily], model: Callable[[KernelFamily], FullModel | None]
) -> FullModel:
    judged = best.judged()
    for family in families:
        try:
            other = model(family)
        except CoreError:  # arithmetic that broke down: there is a process without it
            break
        if other is None or not (its := other.judged()).gains_over(judged):
            break
        best, judged = other, its
    return best


class FarBehind:
    """Whether a sparse model that is still searched for is so far behind a full process that the search can end.

    Called with theta and basis of a round. O(n d^2). candidate: the sparse model as it was then, None before.
    """

    def __init__(self, full: FullModel, learning: Subset, scheme: Scheme, clock: Callable[[], float]) -> None:
        """Prepare. learning: the rows that are searched on. clock: seconds of the run so far."""
        self._full, self._learning, self._scheme, self._clock = full, learning, scheme, clock
        self.candidate: Candidate | None = None

    def __call__(self, found: Solution) -> bool:
        """Return whether it is. Its error bars are scaled on the very rows that are held out, which flatters it."""
        full, unit = self._full, self._learning.standardization
        if len(full.held_out) < LEAST_ROWS:
            return False
        rows = full.subset.dataset.take(full.held_out)
        Z = self._learning.basis(found.selection)
        factors = factorise(self._learning.rows, Z, found.theta, self._scheme, keep=False)
        weights = rows.weights if len(rows.weights) else None
        left_out = predicted(factors, unit.inputs(rows.inputs), unit.targets(rows.targets), weights=weights)
        fall = loss_of(left_out, *scales(left_out)) - losses(full.process.read, full.held_out)
        own = (full.subset.rows.y - full.process.mean.left_out)[full.held_out]
        squares = full.subset.rows.by_weight(np.square(left_out.error) - np.square(own), full.held_out)
        behind, doubt = float(fall.mean()), float(fall.std() / np.sqrt(len(fall)))
        if behind <= max(STOP_BEHIND, STOP_ERRORS * doubt) or float(squares.mean()) <= 0.0:
            return False
        targets = unit.targets(rows.targets)
        self.candidate = Candidate(
            kernel=found.theta.kernel.value,
            mean=MeanRows.BASIS.value,
            mean_rows=len(found.selection.indices),
            variance=Variance.BASIS.value,
            theta=SPARSE_THETA,
            rows=len(fall),
            nmse=mean_by_weight(np.square(left_out.error), rows.weights) / variance_by_weight(targets, rows.weights),
            nlpd=float(loss_of(left_out, *scales(left_out)).mean()) + float(np.log(unit.target_scale)),
            seconds=self._clock(),
            taken=False,
            reason=f"{behind:.2f} nats a row behind the full process after a round: its search ended",
        )
        return True


def prefers_full(
    full: Judged,
    other: Judged,
    left_out: tuple[Judged, Judged] | None = None,
    *,
    exact: bool = False,
    constant: bool = False,
    constant_errors: float = CONSTANT_ERRORS,
    least: float = LEAST_GAIN,
) -> tuple[bool, str]:
    """Return whether the full process is taken, and why.

    left_out: both on more rows that were left out, which decide where the others do not; None: those are all there are.
    exact: it costs next to nothing, and need only lose no more than chance has it. constant: the other model is a
    constant, so that a gain by chance would be one for noise; constant_errors: standard errors that it has to be then.
    least: nats a row that it has to gain at least.
    """
    (gain, doubt), (fall, fall_doubt) = _gains(full, other)
    own, others = left_out or (full, other)
    (more_gain, more_doubt), (more_fall, more_fall_doubt) = _gains(own, others)
    told = f"the full process {_told(gain)} on {len(full.loss):,} left-out rows, standard error {doubt:.4f}"
    if -fall > fall_doubt and more_fall < 0.0:
        return False, f"{told}; its squared errors are larger by more than their standard error"
    if exact and not constant:
        taken = gain > -doubt
        return taken, f"{told}: {'no more' if taken else 'more'} than one standard error is lost"
    on_all = f"{told}; it {_told(more_gain)} on all {len(own.loss):,}, standard error {more_doubt:.4f}"
    if more_gain < -more_doubt:
        return False, on_all
    errors = constant_errors if constant else 1.0
    taken = gain > max(errors * doubt, least)
    if not taken and not constant and gain > -doubt:
        level = float(others.squares.mean())
        if more_gain > max(more_doubt, least) and -more_fall <= MOST_RISE * level:
            return True, on_all
        if more_fall > max(more_fall_doubt, LEAST_FALL * level):
            return True, f"{told}; the squared errors of {len(own.loss):,} are smaller by {more_fall / level:.1%}"
    told_least = f"{errors:g} standard error{'s' if errors > 1.0 else ''}" + (f" and {least:g}" if least else "")
    return taken, f"{told}: {'more' if taken else 'not a gain of more'} than {told_least}"


def _gains(full: Judged, other: Judged) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return how much less the same rows lose by the first, nats a row, how much smaller their squared errors are, and
    the standard error of each."""
    both = other.loss - full.loss, other.squares - full.squares
    loss, squares = ((float(each.mean()), float(each.std() / np.sqrt(len(each)))) for each in both)
    return loss, squares


def _told(gain: float) -> str:
    return f"{'gains' if gain > 0.0 else 'loses'} {abs(gain):.4f} nats a row"
