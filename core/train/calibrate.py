"""Calibration of a run by rows that its fit has not seen, leave-one-out predictions, and bounds.

Rows are left out in closed form, or by folds that choose the basis again (`core.train.cross_fit`,
`core.train.fold_fits`). Basis vectors that moved have seen every target, and moving them again for each fold costs as
much as the run: where there are rows enough they are calibrated on half of those held out for the report, which keeps
the other half. Rows that belong together (`core.row_groups`) are left out together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.numeric.shards import Compute
from core.predict.calibration import Calibration, LeftOut, fit_calibration, replicate_noise
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores, scores, with_coverage
from core.predict.model import log_noise
from core.predict.transforms import Transform
from core.process.rows import Rows, mean_by_weight
from core.row_groups import Grouping, RowGroups
from core.sparse.bounds import bounds_of
from core.spec import Calibrate, Noise, TrainSpec
from core.train.cross_fit import far_variance, left_out_by_folds, left_out_in_closed_form, predicted
from core.train.fit import Fit, Subset
from core.train.fold_fits import FoldFits, Seed, moves_theta
from core.train.local_coverage import LEVEL, LocalCoverage, local_coverage
from core.train.noise import LearntNoise, varying_noise
from core.train.report import BoundsReport

MOVED_ROWS = 2_000
"""Rows up to which basis vectors move again in every fold, where held-out rows are too few to calibrate them."""
MOSTLY_ALONE = 0.5
"""Share of rows without another of equal inputs from which these alone are left out one at a time."""
MANY_ROWS = 50
"""Rows for each basis vector from which leave-one-out is as good as folds."""
_NOISE = 1_000
"""Part of the seed of the second GP, past every fold's number."""
FEW_SCORED, SCORED_FOLDS = 100, 10
"""Rows up to which leave-one-out scores are by calibrations without a fold of so many."""
CHECKED_LEVELS, LEAST_SHORT, SHORT_ERRORS = (0.8, 0.95), 0.03, 4.0
"""Coverage at these levels falls short where it is less by this, and by so many standard errors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibrationResult:
    """Calibration of a fit, how its noise varies (None: it does not), by which left-out rows; and
    these themselves where they are rows of the fit's own subset, with the noise as it varies and (`plain`) without."""

    calibration: Calibration = field(default_factory=Calibration)
    noise: LearntNoise | None = None
    by: str = "nothing"
    left_out: LeftOut | None = None
    plain: LeftOut | None = None

    def without(self, places: IntArray) -> "CalibrationResult":
        """Return the calibration as it would be without the errors of these rows."""
        if self.left_out is None:
            return self
        others = np.flatnonzero(~np.isin(self.left_out.places, places))
        return replace(self, calibration=fit_calibration(self.left_out.take(others), self.calibration.intervals))

    def no_better_than_constant(self, rows: Rows) -> bool:
        """Return True where left-out rows are predicted no better than by a constant.

        By the mean in squared error, and by the median in absolute error, each within one standard error (Breiman et
        al. 1984), squared errors by weight. False where no rows were left out.

        rows: those that `places` count in.
        """
        if self.left_out is None:
            return False
        places, error, y = self.left_out.places, self.left_out.error, rows.y[self.left_out.places]
        centre = mean_by_weight(rows.y, rows.weights)
        by_mean = rows.by_weight(np.square(y - centre) - np.square(error), places)  # both know the mean of all rows
        by_median = np.abs(y - np.median(rows.y)) - np.abs(error)
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
    groups = fit.subset.dataset.row_groups
    asked = calibration_method(
        spec, len(fit.subset.rows), len(fit.selection.indices), groups, same=_folds_are_the_same(spec, fit)
    )
    if asked is None:
        return CalibrationResult()
    moved = fit.solution.moved is not None
    if asked is Calibrate.LOO or (moved and len(fit.subset.rows) > MOVED_ROWS):
        seen = not (moved or fit.selection.complete)  # where all rows are chosen none was preferred
        basis = fit.subset.places(fit.selection) if seen else np.empty(0, np.int64)
        moments = fit.leave_one_out()
        left_out = left_out_in_closed_form(fit.factors, moments, basis, fit.left_out().other_errors)
        if not groups.alone:
            left_out = left_out.take(np.flatnonzero(np.isin(left_out.places, groups.single())))
        rows = fit.subset.rows
        compute = rows.compute if rows.cuts else None
        return calibrate_by(fit.subset.dataset, left_out, spec, seed, "leave-one-out", rows.workers, compute)
    folds = FoldFits(fit, spec, seed)
    left_out = left_out_by_folds(
        fit.subset.rows,
        folds.fit,
        np.random.default_rng(seed),
        groups,
        folds=folds.count,
        tell=tell,
    )
    read = calibrate_by(fit.subset.dataset, left_out, spec, seed, "cross-fitting", fit.subset.rows.workers)
    if not _together(groups, len(fit.subset.rows)) and _falls_short(fit, read):
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
        weights=dataset.weights[unseen] if len(dataset.weights) else None,
    )
    left_out = replace(left_out, places=unseen)
    read = calibrate_by(dataset, left_out, spec, seed, "held-out rows", fit.subset.rows.workers)
    return replace(read, left_out=None)


def calibration_method(
    spec: TrainSpec, rows: int, basis_size: int, groups: RowGroups | None = None, *, same: bool = False
) -> Calibrate | None:
    """Return how rows are left out: what was asked, or for `auto` the cheapest that holds; by folds where they are left
    out in groups, unless most are alone. same: folds would say no more."""
    together = groups is not None and _together(groups, rows)
    if spec.calibrate is None or (spec.calibrate is not Calibrate.AUTO and not together):
        return spec.calibrate
    return Calibrate.LOO if not together and (same or rows >= MANY_ROWS * basis_size) else Calibrate.CROSS_FIT


def _together(groups: RowGroups, rows: int) -> bool:
    """Return whether rows are left out in groups, and not one at a time."""
    return not groups.alone and len(groups.single()) < MOSTLY_ALONE * rows


def _folds_are_the_same(spec: TrainSpec, fit: Fit) -> bool:
    """Return whether nothing is chosen again in a fold: neither a basis, since all rows are in it, nor theta."""
    return fit.selection.complete and not moves_theta(spec, fit)


def calibrate_by(
    dataset: Dataset,
    left_out: LeftOut,
    spec: TrainSpec,
    seed: Seed,
    by: str,
    workers: int,
    compute: Compute | None = None,
) -> CalibrationResult:
    """Return the calibration by rows that were left out somehow, with noise that varies where that predicts better.

    dataset: the rows that `left_out.places` count in. by: how they were left out, in words. workers: threads; compute:
    other processes that learn the noise instead.
    """
    plain = left_out
    left_out, noise = grouped(left_out, dataset), None
    if spec.noise is not Noise.CONSTANT:
        random = np.random.default_rng([*seed, _NOISE])
        noise = varying_noise(dataset, left_out, random, workers=workers, compute=compute)
    read = left_out if noise is None else noise.left_out
    calibration = fit_calibration(read, spec.intervals)
    return CalibrationResult(calibration=calibration, noise=noise, by=by, left_out=read, plain=plain)


def grouped(left_out: LeftOut, dataset: Dataset) -> LeftOut:
    """Return the rows with their weights and their group, where new rows will be of other groups; rows of equal inputs
    also say what the noise is at least. dataset: the rows that `left_out.places` count in."""
    groups = dataset.row_groups
    if len(dataset.weights):
        left_out = replace(left_out, weights=dataset.weights[left_out.places])
    if groups.by not in (Grouping.EQUAL, Grouping.GROUP):
        return left_out
    group = groups.group[left_out.places]
    floor = replicate_noise(left_out.error, group, left_out.weights) if groups.by is Grouping.EQUAL else 0.0
    return replace(left_out, group=group, noise_floor=floor)


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


def leave_one_out_predictive(fit: Fit, read: CalibrationResult, transform: Transform) -> PredictiveDistribution:
    """Return the distribution of each training row given all the others, in the target's unit, (n,)."""
    mean, variance = fit.leave_one_out()
    unit, calibration = fit.subset.standardization, read.calibration
    own = fit.subset.rows.noise(fit.factors.hyperparameters.noise_variance)
    noise = own * np.exp(read.log_noise(fit.subset.dataset, np.arange(len(mean))))
    far = far_variance(fit.factors)
    return PredictiveDistribution(
        centre=mean * unit.target_scale + unit.target_shift,
        variance=calibration.variance(np.maximum(variance - own, 0.0), noise, far) * unit.target_scale**2,
        calibration=calibration,
        transform=transform,
    )


def left_out_predictive(
    fit: Fit, read: CalibrationResult, transform: Transform
) -> tuple[IntArray | slice, PredictiveDistribution]:
    """Return left-out rows of the fit and their distribution, in the target's unit: each row given all the others, or
    those that were left out with their group."""
    if fit.subset.dataset.row_groups.alone or read.left_out is None:
        return slice(None), leave_one_out_predictive(fit, read, transform)
    left_out, unit = read.left_out.take(np.argsort(read.left_out.places)), fit.subset.standardization
    centre = fit.subset.rows.y[left_out.places] - left_out.error
    variance = read.calibration.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    return left_out.places, PredictiveDistribution(
        centre=centre * unit.target_scale + unit.target_shift,
        variance=variance * unit.target_scale**2,
        calibration=read.calibration,
        transform=transform,
    )


def leave_one_out_scores(
    targets: FloatArray,
    predicted: PredictiveDistribution,
    read: CalibrationResult,
    weights: FloatArray | None = None,
) -> Scores:
    """Score leave-one-out predictions (n,) of rows of these weights. Where rows are few for ranks to tell the level,
    coverage is that of a calibration which has not seen the row either, for a few folds of the rows."""
    found = scores(targets, predicted, weights)
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
    std, groups = np.sqrt(variance), subset.dataset.row_groups
    below, above = read.calibration.interval(LEVEL)
    return local_coverage(
        subset.dataset.inputs[places],
        (below * std <= error) & (error <= above * std),
        read.calibration.std_factor * std,
        subset.dataset,
        lengthscales,
        groups.group[places] if groups.by is Grouping.GROUP else None,
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
