"""Calibration of a run by rows that its fit has not seen, leave-one-out predictions, and bounds.

Rows are left out in closed form, or by folds that choose the basis again (`core.train.cross_fit`). Where rows are few
for the number of hyperparameters theta itself has fitted the noise, so there each fold moves theta again too. Basis
vectors that moved have seen every target, and moving them again for each fold would cost as much as the run: they are
calibrated on half of the rows held out for the report, which keeps the other half.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.predict.calibration import Calibration, LeftOut, fit_calibration
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores, scores, with_coverage
from core.predict.model import log_noise
from core.predict.transforms import Transform
from core.process.rows import Rows
from core.process.theta import Theta
from core.selection.greedy import pool_size, select
from core.selection.pool import Pool
from core.selection.state import Selection
from core.sparse.bounds import bounds_of
from core.sparse.factors import Factors, factorise
from core.sparse.likelihood import nlml
from core.sparse.scheme import Scheme
from core.spec import Calibrate, Method, Noise, TrainSpec
from core.train.cross_fit import CROSS_FIT_FOLDS, far_variance, left_out_by_folds, left_out_in_closed_form, predicted
from core.train.fit import Fit, Subset
from core.train.local_coverage import LEVEL, LocalCoverage, local_coverage
from core.train.noise import LearntNoise, varying_noise
from core.train.objective import objective_and_gradient
from core.train.optimise import box, descend, half_way, heuristic
from core.train.report import BoundsReport

Seed = tuple[int, ...]
ROWS_FOR_EACH = 100
"""Rows for each hyperparameter below which folds move theta again."""
WARM_STEPS, FORGETTING_STEPS = 20, 30
"""Evaluations of a fold's descent; the second from half way back to where a search begins, where all rows are the
basis: from the end of the search theta hardly moves, though it has seen the fold."""
MANY_ROWS = 50
"""Rows for each basis vector from which leave-one-out is as good as folds."""
FEW_FOLDS = 5
"""Folds where each has to choose a large basis step by step."""
DRAWS, SMALL_BASIS = 3, 100
"""A fold chooses among so many bases, if they are this small."""
RICHER = 1.5
"""The pool that folds share is so much larger than the run's own where that chose the best basis of its rounds: the
folds' fits are then as good as the published one."""
_NOISE, _POOL = 1_000, 1_001
"""Parts of the seeds of the second GP and of the pool that folds share, past every fold's number."""


FEW_SCORED, SCORED_FOLDS = 100, 10
"""Rows up to which leave-one-out scores are by calibrations without a fold of so many."""
CHECKED_LEVELS, LEAST_SHORT, SHORT_ERRORS = (0.8, 0.95), 0.03, 4.0
"""Coverage at these levels falls short where it is less by this, and by so many standard errors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibrationResult:
    """Calibration of a fit, how its noise varies (None: it does not), by which left-out rows; and
    these themselves where they are rows of the fit's own subset."""

    calibration: Calibration = field(default_factory=Calibration)
    noise: LearntNoise | None = None
    by: str = "nothing"
    left_out: LeftOut | None = None

    def without(self, places: IntArray) -> "CalibrationResult":
        """Return the calibration as it would be without the errors of these rows."""
        if self.left_out is None:
            return self
        others = np.flatnonzero(~np.isin(self.left_out.places, places))
        return replace(self, calibration=fit_calibration(self.left_out.take(others), self.calibration.intervals))

    def no_better_than_constant(self, targets: FloatArray) -> bool:
        """Return True where left-out rows are predicted no better than by a constant.

        By the mean in squared error, and by the median in absolute error, each within one standard error (Breiman et
        al. 1984). False where no rows were left out.

        targets (n,): of the rows that `places` count in, standardized.
        """
        if self.left_out is None:
            return False
        error, y = self.left_out.error, targets[self.left_out.places]
        by_mean = np.square(y - targets.mean()) - np.square(error)  # both know the mean of all rows
        by_median = np.abs(y - np.median(targets)) - np.abs(error)
        return all(gain.mean() <= gain.std() / np.sqrt(len(gain)) for gain in (by_mean, by_median))

    def log_noise(self, dataset: Dataset, places: IntArray) -> FloatArray:
        """Return log noise of these rows of the dataset, each learnt without its own error where the row was left
        out."""
        if self.noise is None:
            return np.zeros(len(places))
        found = log_noise(self.noise.noise, dataset.inputs[places])
        if self.left_out is None:
            return found
        order = np.argsort(self.left_out.places)
        at = np.minimum(np.searchsorted(self.left_out.places, places, sorter=order), len(order) - 1)
        known = self.left_out.places[order[at]] == places
        found[known] = self.noise.logarithm[order[at[known]]]
        return found


def calibrate(
    fit: Fit, spec: TrainSpec, seed: Seed, tell: Callable[[float], None] = lambda _: None
) -> CalibrationResult:
    """Calibrate a fit by left-out rows of its own subset. O(n d^2) in closed form; folds cost a fit and a choice each.

    tell: hears the share of the folds that is done.
    """
    asked = calibration_method(
        spec, len(fit.subset.rows), len(fit.selection.indices), same=_folds_are_the_same(spec, fit)
    )
    if asked is None:
        return CalibrationResult()
    moved = fit.solution.moved is not None
    if asked is Calibrate.LOO or moved:
        seen = not (moved or fit.selection.complete)  # where all rows are chosen none was preferred
        basis = fit.subset.places(fit.selection) if seen else np.empty(0, np.int64)
        moments = fit.leave_one_out()
        left_out = left_out_in_closed_form(fit.factors, moments, basis)
        return calibrate_by(fit.subset.dataset, left_out, spec, seed, "leave-one-out", fit.subset.rows.workers)
    folds = _Folds(fit, spec, seed)
    left_out = left_out_by_folds(
        fit.subset.rows,
        folds.fit,
        np.random.default_rng(seed),
        folds=folds.count,
        tell=tell,
    )
    read = calibrate_by(fit.subset.dataset, left_out, spec, seed, "cross-fitting", fit.subset.rows.workers)
    if _falls_short(fit, read):
        return calibrate(fit, replace(spec, calibrate=Calibrate.LOO), seed)
    return read


def _falls_short(fit: Fit, read: CalibrationResult) -> bool:
    """Return True where intervals made by the folds cover less than they claim even by leave-one-out of the fit itself.

    That flatters, since the basis saw the rows, so what falls short there is too narrow: the folds' fits, of
    much larger latent variances, were not like this one.
    """
    found = leave_one_out_predictive(fit, read, Transform())
    targets = fit.subset.dataset.targets
    for level in CHECKED_LEVELS:
        lower, upper = found.interval(level)
        error = np.sqrt(level * (1.0 - level) / len(targets))
        if np.mean((lower <= targets) & (targets <= upper)) < level - max(LEAST_SHORT, SHORT_ERRORS * error):
            return True
    return False


def calibrate_on(fit: Fit, dataset: Dataset, unseen: IntArray, spec: TrainSpec, seed: Seed) -> CalibrationResult:
    """Calibrate a fit by rows of the dataset that it has never seen. O(m d^2)."""
    unit = fit.subset.standardization
    left_out = predicted(
        fit.factors,
        unit.inputs(dataset.inputs[unseen]),
        unit.targets(dataset.targets[unseen]),
    )
    left_out = replace(left_out, places=unseen)
    read = calibrate_by(dataset, left_out, spec, seed, "held-out rows", fit.subset.rows.workers)
    return replace(read, left_out=None)


def calibration_method(spec: TrainSpec, rows: int, basis_size: int, *, same: bool = False) -> Calibrate | None:
    """Return how rows are left out: what was asked, or for `auto` the cheapest that holds. same: folds would say no
    more."""
    if spec.calibrate is not Calibrate.AUTO:
        return spec.calibrate
    return Calibrate.LOO if same or rows >= MANY_ROWS * basis_size else Calibrate.CROSS_FIT


def _folds_are_the_same(spec: TrainSpec, fit: Fit) -> bool:
    """Return whether nothing is chosen again in a fold: neither a basis, since all rows are in it, nor theta."""
    return fit.selection.complete and not _moves_theta(spec, fit)


def _moves_theta(spec: TrainSpec, fit: Fit) -> bool:
    """Return whether rows are so few that folds move theta again."""
    few = len(fit.subset.rows) < ROWS_FOR_EACH * Theta.size(len(fit.solution.theta.lengthscales))
    return few and spec.adaptation is not None


def calibrate_by(
    dataset: Dataset, left_out: LeftOut, spec: TrainSpec, seed: Seed, by: str, workers: int
) -> CalibrationResult:
    """Return the calibration by rows that were left out somehow, with noise that varies where that predicts better.

    dataset: the rows that `left_out.places` count in. by: how they were left out, in words.
    """
    noise = None
    if spec.noise is not Noise.CONSTANT:
        random = np.random.default_rng([*seed, _NOISE])
        noise = varying_noise(dataset, left_out, random, workers=workers)
    read = left_out if noise is None else noise.left_out
    return CalibrationResult(calibration=fit_calibration(read, spec.intervals), noise=noise, by=by, left_out=read)


def recalibrated(before: CalibrationResult, left_out: LeftOut, spec: TrainSpec) -> CalibrationResult:
    """Return scales and quantiles by other errors of the same rows, with the noise as it was learnt before.

    left_out: with constant noise; `before.noise` was learnt from rows in the same places.
    """
    if before.noise is None or before.left_out is None:
        return replace(before, calibration=fit_calibration(left_out, spec.intervals), left_out=left_out)
    order = np.argsort(left_out.places)
    varied = left_out.take(order[np.searchsorted(left_out.places[order], before.left_out.places)])
    varied = replace(varied, noise_variance=varied.noise_variance * np.exp(before.noise.logarithm))
    return replace(before, calibration=fit_calibration(varied, spec.intervals), left_out=varied)


class _Folds:
    """Fits on some of a subset's rows, each basis chosen by these alone, as carefully as the run chose its own."""

    def __init__(self, fit: Fit, spec: TrainSpec, seed: Seed) -> None:
        rows, self._seed = fit.subset.rows, seed
        self._rows, self._theta, self._scheme = rows, fit.solution.theta, fit.factors.scheme
        size = len(fit.selection.indices)
        self._complete = fit.selection.complete
        self._spec = replace(spec, max_basis_size=size) if self._complete else replace(spec, basis_size=size)
        self._warm = _moves_theta(spec, fit)
        self._pool = None
        drawn = spec.method is Method.BATCH and not self._complete
        if drawn and not self._warm and self._spec.most_basis > SMALL_BASIS:
            order = np.random.default_rng([*seed, _POOL]).permutation(len(rows))
            rounds = 0 if spec.adaptation is None else spec.adaptation.rounds
            most = int((RICHER if rounds > 1 else 1.0) * pool_size(self._spec, self._spec.most_basis))
            self._pool = Pool(rows, order[:most], self._theta)

    @property
    def count(self) -> int:
        """Many where each is cheap."""
        cheap = self._pool is not None or self._spec.method is Method.RAND or self._spec.most_basis <= SMALL_BASIS
        return CROSS_FIT_FOLDS if cheap else FEW_FOLDS

    def fit(self, number: int, rest: IntArray) -> Factors:
        """Fit these rows; number: of the fold that is not among them. On one thread: many run at a time."""
        rows = self._rows.take(rest)
        if self._pool is not None:
            fold = np.setdiff1d(np.arange(len(self._rows)), rest)
            chosen = self._pool.pursue_without(fold, self._spec.most_basis, self._spec.gain)
            return factorise(rows, self._rows.X[chosen.indices], self._theta, self._scheme, keep=False)
        random = np.random.default_rng([*self._seed, number])
        selection, factors = _best_of_draws(rows, self._theta, self._spec, self._scheme, random)
        if not self._warm:
            return factors
        objective = partial(objective_and_gradient, rows, factors.Z, scheme=self._scheme, complete=selection.complete)
        begin, steps = self._theta, WARM_STEPS
        if selection.complete:  # nothing else that saw the fold is forgotten
            begin, steps = half_way(begin, heuristic(rows, kernel=begin.kernel)), FORGETTING_STEPS
        theta, _ = descend(objective, begin, box(rows), steps)
        return _best_of_draws(rows, theta, self._spec, self._scheme, random)[1]


def _best_of_draws(
    rows: Rows, theta: Hyperparameters, spec: TrainSpec, scheme: Scheme, random: np.random.Generator
) -> tuple[Selection, Factors]:
    """The run keeps the best basis of its rounds; where bases are small one draw may be far worse than that."""
    selection, best = select(rows, theta, spec, random), None
    for draw in range(DRAWS if spec.most_basis <= SMALL_BASIS and not selection.complete else 1):
        if draw:
            selection = select(rows, theta, spec, random, selection.indices)
        factors = factorise(rows, rows.X[selection.indices], theta, scheme, keep=False)
        if best is None or nlml(factors) < nlml(best[1]):
            best = selection, factors
    return (selection, factors) if best is None else best


def leave_one_out_predictive(fit: Fit, read: CalibrationResult, transform: Transform) -> PredictiveDistribution:
    """Return the distribution of each training row given all the others, in the target's unit, (n,)."""
    mean, variance = fit.leave_one_out()
    unit, calibration = fit.subset.standardization, read.calibration
    s2 = fit.factors.hyperparameters.noise_variance
    noise = s2 * np.exp(read.log_noise(fit.subset.dataset, np.arange(len(mean))))
    far = far_variance(fit.factors)
    return PredictiveDistribution(
        centre=mean * unit.target_scale + unit.target_shift,
        variance=calibration.variance(np.maximum(variance - s2, 0.0), noise, far) * unit.target_scale**2,
        calibration=calibration,
        transform=transform,
    )


def leave_one_out_scores(targets: FloatArray, predicted: PredictiveDistribution, read: CalibrationResult) -> Scores:
    """Score leave-one-out predictions (n,). Where rows are few for ranks to tell the level, coverage is that of a
    calibration which has not seen the row either, for a few folds of the rows."""
    found = scores(targets, predicted)
    if read.left_out is None or len(read.left_out.places) < len(targets) or len(targets) > FEW_SCORED:
        return found
    parts = []
    for fold in np.array_split(np.arange(len(targets)), min(SCORED_FOLDS, len(targets))):
        others, old = read.without(fold).calibration, read.calibration
        if not others.rows:
            return found
        ratio = others.variance(*_parts_of(read, fold)) / old.variance(*_parts_of(read, fold))
        variance = predicted.variance[fold] * ratio
        parts.append(
            scores(
                targets[fold],
                replace(predicted, centre=predicted.centre[fold], variance=variance, calibration=others),
            )
        )
    return with_coverage(found, parts)


def _parts_of(read: CalibrationResult, places: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Latent variance, noise and far variance of these rows, in the order of the places."""
    assert read.left_out is not None
    order = np.argsort(read.left_out.places)
    some = read.left_out.take(order[np.searchsorted(read.left_out.places, places, sorter=order)])
    return some.latent_variance, some.noise_variance, some.far_variance


def local_coverage_of(fit: Fit, read: CalibrationResult) -> LocalCoverage:
    """Return coverage by part of the rows that were left out for the calibration, or by leave-one-out without those."""
    subset, lengthscales = fit.subset, fit.factors.hyperparameters.lengthscales
    if read.left_out is not None:
        return local_coverage_by(subset, lengthscales, read, read.left_out)
    found = leave_one_out_predictive(fit, read, Transform())
    everything, error = np.arange(len(subset.rows)), subset.dataset.targets - found.centre
    return _local_coverage(subset, lengthscales, read, everything, error, found.variance)


def local_coverage_by(
    subset: Subset, lengthscales: FloatArray, read: CalibrationResult, left_out: LeftOut
) -> LocalCoverage:
    """Return coverage by part of left-out rows of the subset. lengthscales: standardized, (g,)."""
    scale = subset.standardization.target_scale
    variance = read.calibration.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    return _local_coverage(subset, lengthscales, read, left_out.places, left_out.error * scale, scale**2 * variance)


def _local_coverage(
    subset: Subset,
    lengthscales: FloatArray,
    read: CalibrationResult,
    places: IntArray,
    error: FloatArray,
    variance: FloatArray,
) -> LocalCoverage:
    std = np.sqrt(variance)
    below, above = read.calibration.interval(LEVEL)
    return local_coverage(
        subset.dataset.inputs[places],
        (below * std <= error) & (error <= above * std),
        read.calibration.std_factor * std,
        subset.dataset,
        lengthscales,
    )


def bounds_report(fit: Fit, places: tuple[int, ...]) -> BoundsReport:
    """Both bounds of Theorem 1, and those of the error bars at some rows of the subset."""
    rows, unit = fit.subset.rows, fit.subset.standardization.target_scale
    inputs = rows.X[np.array(places, np.int64)]
    found, lower, upper = bounds_of(rows, fit.solution.theta, fit.selection.indices, inputs)
    return BoundsReport(
        upper=found.upper,
        lower=found.lower,
        gap=found.gap,
        dual_size=found.dual_size,
        rows=places,
        std_lower=tuple((unit * np.sqrt(lower)).tolist()),
        std_upper=tuple((unit * np.sqrt(upper)).tolist()),
    )
