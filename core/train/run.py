"""Training: from a table and a specification to a posterior and a report.

    1. hold some rows out for the report
    2. if asked: choose the target's transform (`core.train.transform_choice`)
       start: theta from a full GP on a few hundred random rows
    3. rounds (Keerthi & Chu 2005, sec. 4): choose a basis at theta, then move theta with the basis held fixed; the
       best pair is kept, and rounds end when it settles; on SEARCH_ROWS of the rows where there are more
    4. if asked: choose a basis at the last theta, then move theta and the basis vectors together
    5. choose a basis at the last theta unless it has moved, fit, predict the held-out rows
    6. choose and fit with all rows: the model that is published
    7. calibrate its error bars (`core.train.calibrate`); where the rows left out for that are predicted no better than
       by the target's mean, 5 and 6 again with a model that says no more; score the held-out rows with a calibration
       that has not seen them
    8. if asked: a mean that rests on more rows than the basis, with error bars of its own (`core.train.mean_choice`)
    9. if asked: a smaller form of it, to store, and a look whether float32 is enough to predict with it

A run can be cut off anywhere and go on from its last checkpoint with the same numbers: every random draw comes from a
generator of its own, seeded by the seed and the stage.
"""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from core.arrays import IntArray
from core.data import Dataset
from core.errors import InvalidSpecError
from core.numeric.shards import Compute
from core.predict.compact import Stored, served
from core.predict.distribution import PredictiveDistribution
from core.predict.float32 import kept_precision
from core.predict.metrics import Scores, scores
from core.predict.model import Model, log_noise
from core.predict.predictor import Moments, Predictor
from core.selection.state import Selection
from core.sparse.posterior import SparsePosterior, posterior
from core.sparse.scheme import Scheme, scheme
from core.spec import Artefact, MeanRows, TrainSpec
from core.train.calibrate import (
    CalibrationResult,
    bounds_report,
    calibrate,
    calibrate_on,
    leave_one_out_predictive,
    leave_one_out_scores,
    local_coverage_of,
)
from core.train.compress import kept
from core.train.fit import Fit, Solution, Subset
from core.train.mean_choice import MeanChoice, choose_mean
from core.train.progress import Checkpoint, Journal, Listener, Phase
from core.train.report import ArtefactReport, CalibrationReport, TrainReport, TrainResult
from core.train.search import SEARCHED, Search, Stage, random_of
from core.train.transform_choice import transform_asked
from core.train.unlearnt import UnlearntRows

SEARCH_ROWS = 50_000
"""Theta is a few numbers and moves with fifty thousand rows as with millions; the model is fitted on all of them."""
FEW_ROWS = 10
"""Rows for each lengthscale below which a warning says that theta itself is uncertain."""
LEAST_HELD_OUT = 50
"""Held-out rows, after the report has its half, that can calibrate a basis that moved."""
SPARSE_SHARE = 0.6
"""Share of a run that has a mean on more rows too which the sparse model takes, about."""
EXPLAINS_NOTHING = 0.95
"""A model whose training residuals keep this share of the target's variance has found only noise."""
CONSTANT_MODEL = (
    "predictions are no better than the target mean on left-out rows, so the model is constant, with error bars: "
    "either the columns are unrelated to the target, or there are too few rows to tell"
)
CONSTANT_MEAN = "the mean rests on the basis vectors whatever `mean_rows` asks, for the model is constant"
FIXED_MEAN = (
    "the mean rests on the basis vectors: `mean_rows: auto` compares no others with `refine`, with a compact artefact "
    "or without calibration"
)


def train(
    dataset: Dataset,
    spec: TrainSpec,
    *,
    listen: Listener | None = None,
    resume: Checkpoint | None = None,
    workers: int = 1,
    compute: Compute | None = None,
    unlearnt: UnlearntRows | None = None,
) -> TrainResult:
    """Train a model on a table.

    Args:
        dataset: inputs (n, p) and targets (n,) in raw units.
        spec: what is asked.
        listen: hears progress and checkpoints.
        resume: checkpoint to go on from, with the same numbers.
        workers: threads for sums over rows; with more than one, hold BLAS to a single one (OPENBLAS_NUM_THREADS=1).
        compute: other processes that sum over rows where these are many (`core.numeric.shards`); the same numbers.
        unlearnt: rows of the table that are only scored, in the same share as the others are held out.

    Returns:
        The model, what is stored of it, its basis and the report.

    Cost O(rounds (n P^2 / 2 + 2..3.5 steps n d^2)) multiply-adds for `batch`; memory a few (d, n) arrays, or O(d^2 + n)
    where those would pass core.sparse.factors.KEPT_BYTES.

    Raises:
        InvalidSpecError: a field does not fit the table.
        InvalidDataError: the table cannot be learned from.
        NumericalError: the arithmetic broke down, NotPositiveDefiniteError included.
    """
    return _Run(dataset, spec, Journal(listen, _stages(spec), resume), resume, workers, compute, unlearnt).result()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Outcome:
    """Outcome of a search: the fit on all rows, its posterior, how it is calibrated, the held-out rows predicted
    by a fit on the others; the mean, where it is not that of the posterior."""

    fit: Fit
    fitted: SparsePosterior
    read: CalibrationResult
    predicted: Moments | None
    choice: MeanChoice = field(default_factory=MeanChoice)


class _Run:
    """One training run: the steps of the module's docstring, in order."""

    def __init__(
        self,
        dataset: Dataset,
        spec: TrainSpec,
        journal: Journal,
        resume: Checkpoint | None,
        workers: int,
        compute: Compute | None,
        unlearnt: UnlearntRows | None,
    ) -> None:
        self.unlearnt = unlearnt
        self.raw_targets = dataset.targets
        self.spec = spec
        self.journal = journal
        self.resume = resume
        self.workers = workers
        self.compute = compute
        self.groups = int(dataset.groups.max()) + 1
        if spec.start is not None and len(spec.start.lengthscales) != self.groups:
            raise InvalidSpecError(
                "hyperparameters.lengthscales",
                f"expected {self.groups}, one for each feature, got {len(spec.start.lengthscales)}",
            )
        if spec.bounds is not None and any(not 0 <= row < len(dataset.targets) for row in spec.bounds.rows):
            raise InvalidSpecError("bounds.rows", f"expected rows from 0 to {len(dataset.targets) - 1}")
        self.scheme: Scheme = scheme(spec.approximation, spec.power)
        self._check_mean_rows(len(dataset.targets))
        self.held_out = self._held_out()
        self.constant = False
        with self.journal.phase(Phase.STARTING, 0.0):
            random = random_of(spec, Stage.TRANSFORM)
            self.transform_choice = transform_asked(dataset, spec.target_transform, self.held_out, random)
        self.transform = self.transform_choice.transform
        self.dataset = replace(dataset, targets=self.transform.forward(dataset.targets))

    def result(self) -> TrainResult:
        everything = np.arange(len(self.raw_targets))
        learning = self._subset(np.setdiff1d(everything, self.held_out))
        whole = self._subset(everything) if len(self.held_out) else learning
        with warnings.catch_warnings(record=True) as self.journal.caught:
            warnings.simplefilter("always", RuntimeWarning)
            self.journal.share = 1.0 if self.spec.fixed_mean else SPARSE_SHARE
            search = Search(self.spec, self.scheme, self._searched(learning), self.journal, self.resume)
            outcome = self._outcome(search, search.solve(), learning, whole)
            if self.spec.adaptation is not None and outcome.read.no_better_than_constant(whole.rows.y):
                self.constant = True
                self.journal.warn(CONSTANT_MODEL)
                outcome = self._outcome(*search.constant(), learning, whole)
            if not (self.spec.fixed_mean or self.constant):
                outcome = self._with_mean(outcome)
            elif self.spec.mean_rows is not MeanRows.BASIS:
                self.journal.warn(CONSTANT_MEAN if self.constant else FIXED_MEAN)
            self.journal.share = 1.0
            fit, fitted, read, predicted = outcome.fit, outcome.fitted, outcome.read, outcome.predicted
            with self.journal.phase(Phase.EVALUATING, 0.98):
                stored, note = self._stored(fitted, fit, read)
                model, doubt = self._model(outcome, stored)
                holdout = None if predicted is None else self._holdout_scores(predicted, read, model)
                left_out = self._leave_one_out_scores(outcome)
                bounds = None if self.spec.bounds is None else bounds_report(fit, self.spec.bounds.rows)
        self.journal.hear()
        self._warn_of_little(fit.selection)
        for warning in (self.transform_choice.reason, note, doubt):
            if warning is not None:
                self.journal.warn(warning)
        self.journal.tell(1.0)
        report = TrainReport(
            rows=len(everything),
            basis_size=len(fit.selection.indices),
            hyperparameters=fit.factors.hyperparameters,
            objectives=tuple(self.journal.objectives),
            holdout=holdout,
            leave_one_out=left_out,
            calibration=CalibrationReport.of(
                read.by, read.calibration, None if read.noise is None else read.noise.gain
            ),
            target_transform=self.transform_choice.report(self.raw_targets),
            local_coverage=local_coverage_of(fit, read),
            stop_reason=fit.selection.reason,
            measures=tuple(fit.selection.measures.tolist()),
            bounds=bounds,
            artefact=ArtefactReport.of(stored, model),
            seconds=dict(self.journal.seconds),
            warnings=tuple(self.journal.warnings),
            candidates=outcome.choice.candidates,
        )
        return TrainResult(
            model=model,
            stored=stored,
            selection=fit.selection,
            report=report,
            moved=fit.solution.moved is not None,
        )

    def _outcome(self, search: Search, found: Solution, learning: Subset, whole: Subset) -> "_Outcome":
        """Held-out rows predicted, the model fitted on all rows and calibrated."""
        predicted, read = None, None
        if len(self.held_out):
            with self.journal.phase(Phase.EVALUATING, SEARCHED):
                fit = search.fit(learning, found, Stage.EVALUATE)
            if found.moved is not None:
                read = self._calibrate_moved(fit)
            predicted = Predictor(self._posterior(fit)).moments(self.dataset.inputs[self.held_out])
            del fit  # and its blocks, before the next one's are made
        with self.journal.phase(Phase.FITTING, 0.78):
            fit = search.fit(whole, found, Stage.PUBLISH)
            fitted = self._posterior(fit)
        if read is None:
            with self.journal.phase(Phase.CALIBRATING, 0.8):
                read = calibrate(fit, search.spec, (self.spec.seed, Stage.CALIBRATE), self._tell_of_folds)
        whole.rows.workspace.clear()
        return _Outcome(fit=fit, fitted=fitted, read=read, predicted=predicted)

    def _check_mean_rows(self, rows: int) -> None:
        asked = self.spec.mean_rows
        if isinstance(asked, int) and asked > rows:
            raise InvalidSpecError("mean_rows", f"expected at most the {rows} rows that are used, got {asked}")

    def _with_mean(self, outcome: _Outcome) -> _Outcome:
        """Compare, or take, a mean on more rows; held-out rows are then predicted by it, without their fold."""
        fit, took = outcome.fit, sum(self.journal.seconds.values())
        self.journal.share = 1.0
        with self.journal.phase(Phase.FITTING, SPARSE_SHARE):
            choice = choose_mean(
                fit,
                outcome.read,
                self.spec,
                self.transform,
                self.raw_targets[fit.subset.numbers],
                (self.spec.seed, Stage.CALIBRATE),
                held_out=self.held_out,
                seconds=took,
                tell=lambda share: self.journal.tell(SPARSE_SHARE + (0.98 - SPARSE_SHARE) * share),
            )
        if choice.note is not None:
            self.journal.warn(choice.note)
        if choice.mean is None:
            return replace(outcome, choice=choice)
        predicted, unit = outcome.predicted, fit.subset.standardization
        if predicted is not None:
            mean = choice.mean.left_out[self.held_out] * unit.target_scale + unit.target_shift
            predicted = replace(predicted, mean=mean)
        return replace(outcome, choice=choice, read=choice.mean.read, predicted=predicted)

    def _warn_of_little(self, selection: Selection) -> None:
        asked, found = self.spec.basis_size, len(selection.indices)
        if asked is not None and found < asked and not self.constant:
            self.journal.warn(f"only {found} of the {asked} basis vectors asked for were chosen: {selection.reason}")
        rows = len(self.dataset.targets)
        if rows < FEW_ROWS * (self.groups + 1):
            self.journal.warn(
                f"{rows} rows are few for {self.groups} column{'s' if self.groups > 1 else ''}: "
                "the error bars are probably too narrow"
            )

    def _held_out(self) -> IntArray:
        """Random rows for the report: none where fewer than two would be left on either side."""
        rows = len(self.raw_targets)
        count = int(rows * self.spec.holdout)
        if count < 2 or rows - count < 2:
            return np.empty(0, np.int64)
        order = random_of(self.spec, Stage.HOLDOUT).permutation(rows)
        rest = self.raw_targets[order[count:]]
        if rest.min() == rest.max():
            return np.empty(0, np.int64)
        return np.sort(order[:count])

    def _searched(self, learning: Subset) -> Subset:
        """Return the rows that theta is found on: all, or as many at random as are enough."""
        rows = len(learning.numbers)
        if rows <= SEARCH_ROWS:
            return learning
        some = random_of(self.spec, Stage.SEARCH).permutation(rows)[:SEARCH_ROWS]
        targets = learning.rows.y[some]
        return learning if targets.min() == targets.max() else self._subset(np.sort(learning.numbers[some]))

    def _subset(self, numbers: IntArray) -> Subset:
        return Subset.of(
            self.dataset, numbers, standardize=self.spec.standardize, workers=self.workers, compute=self.compute
        )

    def _calibrate_moved(self, fit: Fit) -> CalibrationResult | None:
        """Calibrate by half of the held-out rows, which the report then does without; None where they are too few."""
        half = self.held_out[::2]
        if self.spec.calibrate is None:
            return None
        if len(half) < LEAST_HELD_OUT:
            self.journal.warn(
                f"{len(half)} held-out rows are too few to calibrate basis vectors that moved: "
                "the error bars are probably too narrow"
            )
            return None
        self.held_out = self.held_out[1::2]
        with self.journal.phase(Phase.CALIBRATING, SEARCHED):
            return calibrate_on(fit, self.dataset, half, self.spec, (self.spec.seed, Stage.CALIBRATE))

    def _holdout_scores(self, predicted: Moments, read: CalibrationResult, model: Model) -> Scores:
        """Score rows that the fit behind `predicted` never saw, by a calibration that never saw their errors."""
        calibration = read.without(self.held_out).calibration
        constant = predicted.target_variance - predicted.latent_variance
        noise = constant * np.exp(read.log_noise(self.dataset, self.held_out))
        variance = calibration.variance(predicted.latent_variance, noise, predicted.far_variance)
        targets = self.raw_targets[self.held_out]
        held_out = PredictiveDistribution(
            centre=predicted.mean, variance=variance, calibration=calibration, transform=self.transform
        )
        if self.unlearnt is None:
            return scores(targets, held_out)
        random = random_of(self.spec, Stage.UNLEARNT)
        return self.unlearnt.scores_beside(targets, held_out, model, len(self.raw_targets), random)

    def _leave_one_out_scores(self, outcome: _Outcome) -> Scores:
        fit, mean, unit = outcome.fit, outcome.choice.mean, outcome.fit.subset.standardization
        predicted = leave_one_out_predictive(fit, outcome.read, self.transform)
        if mean is not None:
            predicted = replace(predicted, centre=mean.left_out * unit.target_scale + unit.target_shift)
        targets = fit.subset.dataset.targets
        unexplained = float(np.mean(np.square(targets - predicted.centre)) / np.var(targets))
        if unexplained > EXPLAINS_NOTHING and not self.constant:
            self.journal.warn(
                f"the model explains almost nothing of the target (it leaves {unexplained:.1%} of its variance): "
                "either the columns say nothing about it, or the adaptation found only noise; try another seed"
            )
        return leave_one_out_scores(self.raw_targets[fit.subset.numbers], predicted, outcome.read)

    def _tell_of_folds(self, share: float) -> None:
        self.journal.tell(0.8 + 0.15 * share)

    def _model(self, outcome: _Outcome, stored: Stored) -> tuple[Model, str | None]:
        """Return the model, and a warning where it will not predict in the precision that was asked."""
        fit, read, mean = outcome.fit, outcome.read, outcome.choice.mean
        model = Model(
            posterior=outcome.fitted,
            mean=None
            if mean is None
            else replace(
                outcome.fitted.without_variance(),
                basis=self.dataset.inputs[fit.subset.numbers[mean.places]],
                alpha=mean.alpha,
            ),
            noise=None if read.noise is None else read.noise.noise,
            calibration=read.calibration,
            transform=self.transform,
        )
        seen = model if self.spec.artefact is not Artefact.COMPACT else replace(model, posterior=served(stored))
        precision, doubt = kept_precision(seen, fit.subset.dataset.inputs, self.spec.precision)
        return replace(model, precision=precision), doubt

    def _stored(self, fitted: SparsePosterior, fit: Fit, read: CalibrationResult) -> tuple[Stored, str | None]:
        """Return the stored posterior, and a warning where it is not what was asked."""
        noise = None if read.noise is None or self.spec.artefact is not Artefact.COMPACT else read.noise.noise
        return kept(
            fit.factors,
            fitted,
            self.spec.artefact,
            self.spec.tolerance,
            calibration=read.calibration,
            log_noise=None if noise is None else log_noise(noise, fit.subset.dataset.inputs),
            lowest=0.0 if noise is None else noise.lowest,
        )

    def _posterior(self, fit: Fit) -> SparsePosterior:
        moved = fit.solution.moved
        basis = self.dataset.inputs[fit.selection.indices] if moved is None else moved
        return posterior(fit.factors, basis, self.dataset.groups, fit.subset.standardization)


def _stages(spec: TrainSpec) -> int:
    """Rounds, and one more if the basis moves."""
    return (0 if spec.adaptation is None else spec.adaptation.rounds) + (spec.refinement is not None)
