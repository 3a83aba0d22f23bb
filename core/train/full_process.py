"""The full Gaussian process as a candidate: theta by blocks of near rows, mean from all rows, variance from near ones.

    1. theta by blocks of near rows (`core.train.block_theta`)
    2. (Kff + D) alpha = y with folds in lockstep, one of them the held-out rows, which theta has not seen
    3. variances of left-out rows from the nearest rows outside their fold; noise, scales and quantiles by the errors
    4. the noise that is left of it when no row is left out (`core.train.learning_curve`)

Nothing of it needs a sparse model. O(n^2) for each iteration of the mean, O(n) kernel values and NEAREST^3 / 6
for each row predicted.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.mean.closed import closed_form_mean
from core.mean.conjugate import Iteration, Stopping
from core.mean.folds import Folds, each_left_out, held_out_and_others
from core.mean.full import Mean, compute_for, full_mean, sparse_preconditioner, square_product
from core.mean.near import NearRows
from core.mean.precondition import SparsePreconditioner, random_basis
from core.mean.products import SquareProduct
from core.predict.calibration import LeftOut, loss_of
from core.process.kernel import Kernel
from core.spec import Effort, TrainSpec
from core.train.block_theta import EXACT_ROWS, Tell
from core.train.calibrate import CalibrationResult, calibrate_by, grouped, recalibrated
from core.train.fit import Subset
from core.train.fold_fits import Seed
from core.train.learning_curve import LearningCurve
from core.train.noise import MOST_FOLLOWED, noise_share

MOST_ROWS = 20_000
"""Rows above which a pass over all pairs takes longer than a sparse training."""
FOLDS = 10
TOLERANCE = 2e-2
LEAST_RAISED = 1.5
"""Times that noise is raised at least, where it is."""
LESS_NOISE = (0.25, 0.06, 0.015)
"""Shares of the noise that the best effort, and an update, try the mean with, each while left-out rows gain: theta and
the learnt noise count as noise what the mean of more rows than a block explains."""
MORE_NOISE = 30.0
"""Times the noise with which a mean is tried again whose iterations have come to their limit: theta has too little."""
LEAST_NOISE = 1e-12
"""Noise of a row, as a share of n times the prior variance: what rounding makes of K's eigenvalues, a thousandfold."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FullProcess:
    """A full process on n rows. D (n,): their noise variances, as error bars have them; mean: alpha and left-out
    predictions; latent_variance (n,): of each row without its fold; left: rows that are in one; read: the calibration
    by these. All standardized. exact: theta by the likelihood of all rows, mean in closed form. folds: that rows were
    left out by. noise_kept: share of the noise of `read` that rows have which are predicted by all."""

    theta: Hyperparameters
    D: FloatArray
    mean: Mean
    latent_variance: FloatArray
    left: IntArray
    read: CalibrationResult
    exact: bool
    folds: Folds
    noise_kept: float = 1.0


def full_process(
    subset: Subset,
    held_out: IntArray,
    theta: Hyperparameters,
    spec: TrainSpec,
    seed: Seed,
    random: np.random.Generator,
    tell: Tell,
    *,
    start: FloatArray | None = None,
) -> FullProcess:
    """Return the process on all rows at theta, with its error bars.

    Args:
        subset: the rows, n of them.
        held_out: places of rows that are a fold of their own.
        theta: of the process.
        spec: noise, intervals.
        seed: of the noise model.
        random: draws folds and the preconditioner's rows.
        tell: hears the share that is done; may raise to cancel.
        start: weights that are near those of the mean, (n,), for conjugate gradients to begin at: of the process that
            had theta before, whose noise may be what error bars asked for, and more than its mean had.
    """
    task = ProcessTask(subset, held_out, theta, spec, seed, random, tell, start=start)
    lessens = spec.effort is Effort.BEST or start is not None
    most = 0.5 if lessens else 1.0
    first = found = task.at(subset.rows.noises(theta.noise_variance), 0.0, 0.6 * most, None)
    if first.read.noise is not None and first.read.calibration.noise_scale <= MOST_FOLLOWED:
        second = task.at(task.following(first.read), 0.6 * most, 0.4 * most, first)
        found = min((first, second, task.half_way(first, second, most)), key=task.loss)
    return task.by_all_rows(task.with_less_noise(found, most) if lessens else found)


class ProcessTask:
    """The process at one theta, for any noise; the second faster than the first."""

    def __init__(
        self,
        subset: Subset,
        held_out: IntArray,
        theta: Hyperparameters,
        spec: TrainSpec,
        seed: Seed,
        random: np.random.Generator,
        tell: Tell,
        folds: Folds | None = None,
        start: FloatArray | None = None,
        product: SquareProduct | None = None,
    ) -> None:
        self._start = start
        self._subset, self._rows, self._theta, self._spec = subset, subset.rows, theta, spec
        self._seed, self._tell, self._held_out = seed, tell, held_out
        self._kernel = Kernel.of(theta, subset.rows.groups)
        self._closed = len(subset.rows) <= EXACT_ROWS
        choose = each_left_out if self._closed else held_out_and_others
        groups = subset.dataset.row_groups
        chosen = folds or choose(len(subset.rows), held_out, FOLDS, random, groups)
        self._folds: Folds = chosen if self._closed or not groups.alone else chosen.with_joint()
        self._Z = random_basis(subset.rows.X, random)
        self._preconditioner: SparsePreconditioner | None = None
        self._preconditioned: FloatArray | None = None
        self._least_noise = LEAST_NOISE * len(self._rows) * self._kernel.diagonal
        self._product = product
        if folds is None and not self._closed:
            noises = subset.rows.noises(theta.noise_variance)
            self._product = square_product(subset.rows, self._kernel, noises, self._folds)

    def half_way(self, first: FullProcess, second: FullProcess, begin: float) -> FullProcess:
        """Return the second with a mean of noise half way, in logarithms, between that of both: learnt noise that is
        wrong in places draws the mean less, and error bars keep it."""
        return self._again(second, np.sqrt(first.D / second.D), begin, 0.0)

    def with_less_noise(self, found: FullProcess, begin: float) -> FullProcess:
        """Return the process with the mean of the smallest noise of LESS_NOISE before which left-out rows gain."""
        part = (1.0 - begin) / len(LESS_NOISE)
        for number, less in enumerate(LESS_NOISE):
            tried = self._again(found, less, begin + number * part, part)
            if not self.loss(tried) < self.loss(found):
                break
            found = tried
        return found

    def _again(self, found: FullProcess, less: float | FloatArray, begin: float, share: float) -> FullProcess:
        """A process with the mean of this share of its noise, one for all rows or one for each (n,)."""
        mean = self._mean(self.floored(less * found.D), begin, share, found.mean.unknowns)
        return self.with_mean(found, mean)

    def at(self, D: FloatArray, begin: float, share: float, before: FullProcess | None) -> FullProcess:
        """Return the process with this noise; `begin` and `share` are told.

        before: with other noise, whose mean is near, and whose noise model is kept.
        """
        D = self.floored(D)
        mean = self._mean(D, begin, 0.8 * share, None if before is None else before.mean.unknowns)
        D, mean = self.settled(D, mean, begin + 0.8 * share)
        latent = self.latent_variance(D)
        self._tell(begin + 0.9 * share)
        return self.calibrated(D, mean, latent, before)

    def settled(self, D: FloatArray, mean: Mean, told: float) -> tuple[FloatArray, Mean]:
        """Return noise and mean; where the mean's iterations have come to their limit, with more noise for as long as
        left-out rows gain. What is tried afterwards then has as much at least. told: the share that is done."""
        gains = not mean.settled
        while gains:
            more = MORE_NOISE * D
            self._preconditioner = None
            tried = self._mean(more, told, 0.0, mean.unknowns)
            gains = self._squares(tried) < self._squares(mean)
            if gains:
                D, mean, self._least_noise = more, tried, float(more.min())
        return D, mean

    def _squares(self, mean: Mean) -> float:
        """Mean square of the errors of left-out rows, by their weights."""
        left = self._folds.left
        return float(self._rows.by_weight(np.square((self._rows.y - mean.left_out)[left]), left).mean())

    def floored(self, D: FloatArray) -> FloatArray:
        """Return noise that is no smaller than what K rounds to, and than what a mean has settled with."""
        return np.asarray(np.maximum(D, self._least_noise))

    def latent_variance(self, D: FloatArray) -> FloatArray:
        """Return the variance of each row without its fold, (n,)."""
        return self._latent_variance(D, self._folds, np.arange(len(self._rows)))

    def _latent_variance(self, D: FloatArray, folds: Folds, places: IntArray) -> FloatArray:
        rows = self._rows
        near = NearRows(self._kernel, rows.X, D, workers=rows.workers)
        compute = None if self._closed else compute_for(rows, len(rows), self._folds)
        return near.left_out_variance(rows.X[places], folds, compute, places)

    def calibrated(self, D: FloatArray, mean: Mean, latent: FloatArray, before: FullProcess | None) -> FullProcess:
        """Return the process with this mean and these variances."""
        rows, theta, left = self._rows, self._theta, self._folds.left
        left_out = LeftOut(
            places=left,
            error=(rows.y - mean.left_out)[left],
            latent_variance=latent[left],
            noise_variance=rows.noises(theta.noise_variance)[left],
            far_variance=np.full(len(left), theta.signal_variance),
            group=self._folds.fold[left] if self._folds.forward else np.empty(0, np.int64),
        )
        if before is not None:
            read = recalibrated(before.read, grouped(left_out, self._subset.dataset), self._spec)
        else:
            read = self._calibrated(left_out)
            theta = self._theta
        exact, folds = self._closed, self._folds
        return FullProcess(
            theta=theta, D=D, mean=mean, latent_variance=latent, left=left, read=read, exact=exact, folds=folds
        )

    def with_mean(self, found: FullProcess, mean: Mean) -> FullProcess:
        """Return a process with another mean, and the same variances before calibration."""
        return self.calibrated(found.D, mean, found.latent_variance, found)

    def by_all_rows(self, found: FullProcess) -> FullProcess:
        """Return the process with the share of its noise that is left when no row is left out."""
        places, rows = self._folds.jointly_left, self._rows
        if not len(places):
            return found
        calibration, far = found.read.calibration, self._theta.signal_variance
        latent = calibration.latent(found.latent_variance[places], far)
        alone = self._latent_variance(found.D, Folds.each_alone(len(rows)), places)
        curve = LearningCurve(
            one=(rows.y - found.mean.left_out)[places],
            both=rows.y[places] - found.mean.jointly_left_out,
            variance=latent + self.following(found.read)[places],
            latent=latent,
            latent_of_all=calibration.latent(alone, far),
        )
        return replace(found, noise_kept=curve.noise_kept(len(rows)))

    def _calibrated(self, left_out: LeftOut) -> CalibrationResult:
        """Calibrate by left-out rows; where noise is far less than a share of their errors, so that little could vary,
        also by as much, if that predicts them better or theirs asks for much more. Theta has this noise then."""
        by = "leave-one-out" if self._closed and self._folds.count == len(self._rows) else "cross-fitting"
        calibrated_by = partial(calibrate_by, self._subset.dataset, workers=self._rows.workers)
        read = calibrated_by(left_out, self._spec, self._seed, by)
        times = noise_share(left_out)
        if times < LEAST_RAISED:
            return read
        more = replace(left_out, noise_variance=times * left_out.noise_variance)
        raised = calibrated_by(more, self._spec, self._seed, by)
        if read.calibration.noise_scale <= MOST_FOLLOWED and not self._loss_of(raised) < self._loss_of(read):
            return read
        self._theta = replace(self._theta, noise_variance=times * self._theta.noise_variance)
        return raised

    def following(self, read: CalibrationResult) -> FloatArray:
        """Return the noise of each row as a calibration has learnt it, (n,)."""
        logarithm = read.log_noise(self._subset.dataset, np.arange(len(self._rows)))
        own = self._rows.noise(self._theta.noise_variance)
        return np.asarray(read.calibration.noise_scale * own * np.exp(logarithm))

    def loss(self, found: FullProcess) -> float:
        """Return the mean predictive loss of left-out rows by the calibration, nats; of the held-out ones where there
        are any, since theta has seen the others."""
        return self._loss_of(found.read)

    def _loss_of(self, read: CalibrationResult) -> float:
        return float(losses(read, self._held_out).mean())

    def _mean(self, D: FloatArray, begin: float, share: float, resume: FloatArray | None) -> Mean:
        if self._closed:
            return closed_form_mean(self._rows, self._kernel, D, self._folds).mean

        if self._preconditioner is None and resume is None and self._start is not None:
            resume = np.where(self._folds.kept, self._start[:, None], 0.0)
        mean = self._iterated(D, begin, share, resume)
        if not mean.settled and self._preconditioned is not D:
            self._preconditioner = None
            mean = self._iterated(D, begin + share, 0.0, mean.unknowns)
        return mean

    def _iterated(self, D: FloatArray, begin: float, share: float, resume: FloatArray | None) -> Mean:
        """The mean by the preconditioner that is there, which may be of other noise, or else one of this."""

        def listen(iteration: Iteration) -> None:
            self._tell(begin + share * iteration.fraction)

        if self._preconditioner is None:
            self._preconditioner = sparse_preconditioner(self._rows, self._kernel, self._Z, D, self._folds)
            self._preconditioned = D
        return full_mean(
            self._rows,
            self._kernel,
            D,
            self._preconditioner,
            self._folds,
            stopping=Stopping(tolerance=TOLERANCE),
            listen=listen,
            resume=resume,
            product=self._product,
        )


def losses(read: CalibrationResult, places: IntArray) -> FloatArray:
    """Return the predictive loss of each of these left-out rows, nats, by a calibration that has not seen them; of all
    left-out rows, by their own calibration, where `places` is empty: (m,)."""
    left_out = read.left_out
    assert left_out is not None
    if not len(places):
        return loss_of(left_out, read.calibration.latent_scale, read.calibration.noise_scale)
    calibration = read.without(places).calibration
    order = np.argsort(left_out.places)
    chosen = left_out.take(order[np.searchsorted(left_out.places[order], places)])
    return loss_of(chosen, calibration.latent_scale, calibration.noise_scale)
