"""What a run knows of its own errors: left-out rows, the calibration they give, scores and bounds.

Rows are left out in closed form, or by folds that choose the basis again (`core.crossfit`). Where rows are few for the
number of hyperparameters theta itself has fitted the noise, so there each fold moves theta again too. Basis vectors
that moved have seen every target, and moving them again for each fold would cost as much as the run: they are
calibrated on half of the rows held out for the report, which keeps the other half.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from core.adaptation import box, descend
from core.bounds import bounds_of
from core.calibration import Calibration, LeftOut, calibrate
from core.crossfit import FOLDS, farthest_variance, left_out_by_folds, left_out_in_closed_form, predicted
from core.data import Dataset
from core.factors import Factors, Rows, Scheme, factorise
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.likelihood import nlml
from core.model import log_noise
from core.noise import LearntNoise, varying_noise
from core.objective import objective_and_gradient
from core.predictive import Predictive
from core.report import BoundsReport
from core.sample import Fit
from core.selection.greedy import pool_size, select
from core.selection.pool import Pool
from core.selection.state import Selection
from core.spec import Approximation, Calibrate, Method, Noise, TrainSpec
from core.transforms import Transform

Seed = tuple[int, ...]
ROWS_FOR_EACH = 100
"""With fewer rows than this for each hyperparameter folds move theta again."""
WARM_STEPS = 20
MANY_ROWS = 50
"""From so many rows for each basis vector on, leave-one-out is as good as folds."""
FEW_FOLDS = 5
"""Where each fold has to choose a large basis step by step."""
DRAWS, SMALL_BASIS = 3, 100
"""A fold chooses among so many bases, if they are this small."""
RICHER = 1.5
"""The pool that folds share is so much larger than the run's own where that chose the best basis of its rounds: on
kin40k the folds' NMSE is then .057 (.061 without), the published model's .056; an 80% interval holds 80.3% (81.9%)."""
_NOISE, _POOL = 1_000, 1_001
"""Parts of the seeds of the second GP and of the pool that folds share, past every fold's number."""


CHECKED_LEVELS, LEAST_SHORT, SHORT_ERRORS = (0.8, 0.95), 0.03, 4.0
"""Coverage at these levels falls short where it is less by this, and by so many standard errors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibrated:
    """How error bars are read: the calibration, how the noise varies (None: it does not), by which left-out rows; and
    these themselves where they are rows of the fit's own sample."""

    calibration: Calibration = field(default_factory=Calibration)
    noise: LearntNoise | None = None
    by: str = "nothing"
    left_out: LeftOut | None = None

    def without(self, places: IntArray) -> "Calibrated":
        """As it would be had these rows not been left out, nor their errors seen."""
        if self.left_out is None:
            return self
        others = np.flatnonzero(~np.isin(self.left_out.places, places))
        return replace(self, calibration=calibrate(self.left_out.take(others), self.calibration.intervals))

    def says_nothing(self, targets: FloatArray) -> bool:
        """Whether the rows left out are predicted no better than by a constant: by the mean in squared error, and by
        the median in absolute error, each within one standard error (Breiman et al. 1984). False where none were.

        targets (n,): of the rows that `places` count in, standardized.
        """
        if self.left_out is None:
            return False
        error, y = self.left_out.error, targets[self.left_out.places]
        by_mean = np.square(y - targets.mean()) - np.square(error)  # both know the mean of all rows
        by_median = np.abs(y - np.median(targets)) - np.abs(error)
        return all(gain.mean() <= gain.std() / np.sqrt(len(gain)) for gain in (by_mean, by_median))

    def log_noise(self, dataset: Dataset, places: IntArray) -> FloatArray:
        """Of these rows of the dataset, each learnt without its own error where the row was left out."""
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


def calibrated(fit: Fit, spec: TrainSpec, seed: Seed, tell: Callable[[float], None] = lambda _: None) -> Calibrated:
    """By the rows of the fit's own sample. O(n d^2) in closed form; folds cost a fit and a choice each.

    tell: hears the share of the folds that is done.
    """
    asked = way(spec, len(fit.sample.rows), len(fit.selection.indices), same=_folds_are_the_same(spec, fit))
    if asked is None:
        return Calibrated()
    full_prior, moved = spec.approximation is not Approximation.SOR, fit.found.moved is not None
    if asked is Calibrate.LOO or moved:
        seen = not (moved or fit.selection.complete)  # where all rows are chosen none was preferred
        basis = fit.sample.places(fit.selection) if seen else np.empty(0, np.int64)
        moments = fit.leave_one_out(full_prior=full_prior)
        left_out = left_out_in_closed_form(fit.factors, moments, basis, full_prior=full_prior)
        return _read(fit.sample.dataset, left_out, spec, seed, "leave-one-out", fit.sample.rows.workers)
    folds = _Folds(fit, spec, seed)
    left_out = left_out_by_folds(
        fit.sample.rows,
        folds.fit,
        np.random.default_rng(seed),
        folds=folds.count,
        full_prior=full_prior,
        tell=tell,
    )
    read = _read(fit.sample.dataset, left_out, spec, seed, "cross-fitting", fit.sample.rows.workers)
    if _falls_short(fit, read, full_prior=full_prior):
        return calibrated(fit, replace(spec, calibrate=Calibrate.LOO), seed)
    return read


def _falls_short(fit: Fit, read: Calibrated, *, full_prior: bool) -> bool:
    """Whether intervals made by the folds hold less than they say even by leave-one-out of the fit itself.

    That flatters, since the basis saw the rows, so what falls short there is too narrow: the folds' fits were not like
    this one. A table of 600 rows, a fifth of them filled in, had folds with far larger latent variances, which shrank
    the fit's own: 95% intervals held 64% of fresh rows, and 94% by leave-one-out.
    """
    found = leave_one_out_predictive(fit, read, Transform(), full_prior=full_prior)
    targets = fit.sample.dataset.targets
    for level in CHECKED_LEVELS:
        lower, upper = found.interval(min(level, read.calibration.most_level))
        error = np.sqrt(level * (1.0 - level) / len(targets))
        if np.mean((lower <= targets) & (targets <= upper)) < level - max(LEAST_SHORT, SHORT_ERRORS * error):
            return True
    return False


def calibrated_by(fit: Fit, dataset: Dataset, unseen: IntArray, spec: TrainSpec, seed: Seed) -> Calibrated:
    """By rows of the dataset that the fit has never seen. O(m d^2)."""
    unit = fit.sample.standardization
    left_out = predicted(
        fit.factors,
        unit.inputs(dataset.inputs[unseen]),
        unit.targets(dataset.targets[unseen]),
        full_prior=spec.approximation is not Approximation.SOR,
    )
    left_out = replace(left_out, places=unseen)
    read = _read(dataset, left_out, spec, seed, "held-out rows", fit.sample.rows.workers)
    return replace(read, left_out=None)


def way(spec: TrainSpec, rows: int, basis_size: int, *, same: bool = False) -> Calibrate | None:
    """How rows are left out: what was asked, or for `auto` the cheapest that holds. same: folds would say no more."""
    if spec.calibrate is not Calibrate.AUTO:
        return spec.calibrate
    return Calibrate.LOO if same or rows >= MANY_ROWS * basis_size else Calibrate.CROSS_FIT


def _folds_are_the_same(spec: TrainSpec, fit: Fit) -> bool:
    """Whether nothing is chosen again in a fold: neither a basis, since all rows are in it, nor theta."""
    return fit.selection.complete and not _moves_theta(spec, fit)


def _moves_theta(spec: TrainSpec, fit: Fit) -> bool:
    """Whether rows are so few that folds move theta again."""
    few = len(fit.sample.rows) < ROWS_FOR_EACH * (len(fit.found.theta.lengthscales) + 3)
    return few and spec.adaptation is not None


def _read(dataset: Dataset, left_out: LeftOut, spec: TrainSpec, seed: Seed, by: str, workers: int) -> Calibrated:
    """dataset: the rows that `places` count in."""
    noise = None
    if spec.noise is not Noise.CONSTANT:
        random = np.random.default_rng([*seed, _NOISE])
        noise = varying_noise(dataset, left_out, random, workers=workers)
    read = left_out if noise is None else noise.left_out
    return Calibrated(calibration=calibrate(read, spec.intervals), noise=noise, by=by, left_out=read)


class _Folds:
    """Fits on some of a sample's rows, each basis chosen by these alone, as carefully as the run chose its own."""

    def __init__(self, fit: Fit, spec: TrainSpec, seed: Seed) -> None:
        rows, self._seed = fit.sample.rows, seed
        self._rows, self._theta, self._scheme = rows, fit.found.theta, fit.factors.scheme
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
        return FOLDS if cheap else FEW_FOLDS

    def fit(self, number: int, rest: IntArray) -> Factors:
        """On these rows; number: of the fold that is not among them. On one thread: many run at a time."""
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
        theta, _ = descend(objective, self._theta, box(rows), WARM_STEPS)
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


def leave_one_out_predictive(fit: Fit, read: Calibrated, transform: Transform, *, full_prior: bool) -> Predictive:
    """Of each training row given all the others, in the target's unit, (n,)."""
    mean, variance = fit.leave_one_out(full_prior=full_prior)
    unit, calibration = fit.sample.standardization, read.calibration
    s2 = fit.factors.hyperparameters.noise_variance
    noise = np.full(len(mean), s2)
    if read.noise is not None:
        noise = s2 * np.exp(log_noise(read.noise.noise, fit.sample.dataset.inputs))
    far = farthest_variance(fit.factors) if full_prior else np.inf
    return Predictive(
        centre=mean * unit.target_scale + unit.target_shift,
        variance=calibration.variance(np.maximum(variance - s2, 0.0), noise, far) * unit.target_scale**2,
        calibration=calibration,
        transform=transform,
    )


def bounds_report(fit: Fit, places: tuple[int, ...]) -> BoundsReport:
    """Both bounds of Theorem 1, and those of the error bars at some rows of the sample."""
    rows, unit = fit.sample.rows, fit.sample.standardization.target_scale
    inputs = rows.X[np.array(places, np.int64)]
    found, lower, upper = bounds_of(rows, fit.found.theta, fit.selection.indices, inputs)
    return BoundsReport(
        upper=found.upper,
        lower=found.lower,
        gap=found.gap,
        dual_size=found.dual_size,
        rows=places,
        std_lower=tuple((unit * np.sqrt(lower)).tolist()),
        std_upper=tuple((unit * np.sqrt(upper)).tolist()),
    )
