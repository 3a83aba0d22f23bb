"""Result of a run: what is published, and the report on it, of a sparse model or of a full process."""

from dataclasses import dataclass, replace

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.predict.compact import Stored
from core.predict.distribution import PredictiveDistribution
from core.predict.float32 import kept_precision
from core.predict.metrics import Scores, scores, with_groups
from core.predict.model import Model
from core.predict.predictor import Moments
from core.predict.transforms import Transform
from core.process.rows import mean_by_weight, variance_by_weight
from core.row_groups import Grouping
from core.selection.state import Selection
from core.spec import MeanRows, TargetTransform, TrainSpec, Variance
from core.train.calibrate import (
    CalibrationResult,
    bounds_report,
    leave_one_out_scores,
    left_out_predictive,
    local_coverage_by,
    local_coverage_of,
)
from core.train.fit import Fit, Subset
from core.train.forward import forward_errors
from core.train.full_choice import CONSTANT_ERRORS, LEAST_GAIN, LEAST_ROWS, FullModel, Judged, prefers_full
from core.train.input_choice import InputTransformChoice
from core.train.local_coverage import LocalCoverage
from core.train.mean_choice import SPARSE_THETA, ServedMean
from core.train.outcome import Outcome
from core.train.predicted_rows import PredictedRows
from core.train.progress import Journal, Phase
from core.train.report import (
    ArtefactReport,
    BoundsReport,
    CalibrationReport,
    Candidate,
    LeftOutErrors,
    SplitsReport,
    TrainReport,
    TrainResult,
)
from core.train.search import Stage, random_of
from core.train.state import TrainingState
from core.train.transform_choice import TransformChoice
from core.train.unlearnt import UnlearntRows
from core.train.weight_check import weight_doubt

GROUPED_ERRORS = 1.0
"""Standard errors, of groups, by which a full process has to be better than a constant: a sparse model that learnt the
groups by heart is one for that reason, and not for want of a relation."""
LEAST_GROUPS = 5
"""Groups left out below which their differences have no standard error to speak of."""
FEW_ROWS = 10
"""Rows for each lengthscale below which a warning says that theta itself is uncertain."""
EXPLAINS_NOTHING = 0.95
"""A model whose training residuals keep this share of the target's variance has found only noise."""


@dataclass(slots=True, kw_only=True, eq=False)
class Results:
    """A run as its results need it: the dataset with the target as it is learnt, the raw targets (n,), the rows held
    out for the report, rows that are only scored, how many rows are beyond the dataset, and whether the model is a
    constant."""

    spec: TrainSpec
    dataset: Dataset
    raw_targets: FloatArray
    transform_choice: TransformChoice
    input_choice: InputTransformChoice
    held_out: IntArray
    journal: Journal
    unlearnt: UnlearntRows | None = None
    rows_beyond: int = 0
    constant: bool = False

    @property
    def transform(self) -> Transform:
        """Transform under which the target is learnt."""
        return self.transform_choice.transform

    def of_sparse(self, outcome: Outcome, candidates: tuple[Candidate, ...]) -> TrainResult:
        """Evaluate the sparse model, or the mean on more rows beside it, and report on it."""
        fit, read = outcome.fit, outcome.read
        with self.journal.phase(Phase.EVALUATING, 0.98):
            stored, note = outcome.stored(self.spec)
            model, doubt = outcome.model(stored, self.spec, self.dataset.inputs, self.transform)
            left_out, rows, errors = self._on_left_out(outcome)
            holdout = None
            if outcome.predicted is not None:
                holdout, rows = self._on_held_out(outcome.predicted, read, model)
            bounds = None if self.spec.bounds is None else bounds_report(fit, self.spec.bounds.rows)
            theta = fit.factors.hyperparameters
            splits = self._splits(fit.subset, theta)
        self._warn(fit.selection, note, doubt, weight_doubt(read))
        local = local_coverage_of(fit, read)
        report = self._report(
            model, stored, theta, fit.selection, read, holdout, left_out, local, splits, rows, bounds, candidates
        )
        moved, subset = fit.solution.moved is not None, fit.subset
        served = read if outcome.choice.mean is None else outcome.choice.mean.read
        state = TrainingState.of(
            subset.dataset.inputs,
            subset.dataset.targets,
            fit.factors,
            served.left_out,
            numbers=np.arange(len(self.raw_targets)),
            beyond=self.rows_beyond,
        )
        return TrainResult(
            model=model,
            stored=stored,
            selection=fit.selection,
            report=report,
            moved=moved,
            errors=errors,
            state=state,
        )

    def of_full(self, full: FullModel, others: tuple[Candidate, ...], reason: str) -> TrainResult:
        """Evaluate the full process and report on it. reason: why it was taken, and not one of the others."""
        read, selection = full.process.read, full.selection()
        with self.journal.phase(Phase.EVALUATING, 0.98):
            model = full.model(self.dataset.inputs, self.dataset.groups, self.transform)
            precision, doubt = kept_precision(model, self.dataset.inputs, self.spec.precision)
            model = replace(model, precision=precision)
            predicted = full.left_out(self.transform)
            left, holdout = full.process.left, None
            left_out = leave_one_out_scores(self.raw_targets[left], predicted, read, self._weights(left))
            left_out = self._by_groups(left_out, left)
            rows = PredictedRows.of(left, self.raw_targets, predicted, held_out=False)
            if len(self.held_out):
                holdout, rows = self._on_held_out(full.moments(self.held_out), read, model)
            assert read.left_out is not None  # a full process is always calibrated
            local = local_coverage_by(full.subset, full.process.theta.lengthscales, read, read.left_out)
            splits = self._splits(full.subset, full.process.theta)
        self._warn(selection, None, doubt, weight_doubt(read))
        own = replace(self.full_candidate(full), taken=True, reason=reason)
        candidates = (*(replace(each, taken=False) for each in others), own)
        stored, theta = model.posterior, full.process.theta
        report = self._report(
            model, stored, theta, selection, read, holdout, left_out, local, splits, rows, None, candidates
        )
        errors = LeftOutErrors.of(left, self.raw_targets[left], predicted)
        state = TrainingState.of(self.dataset.inputs, self.dataset.targets, None, read.left_out)
        return TrainResult(
            model=model,
            stored=stored,
            selection=selection,
            report=report,
            moved=False,
            errors=errors,
            state=state,
        )

    def on_held_out(self, predicted: Moments, read: CalibrationResult) -> PredictiveDistribution:
        """Distribution of rows that the fit behind `predicted` never saw, by a calibration that never saw their
        errors."""
        calibration = read.without(self.held_out).calibration
        constant = predicted.target_variance - predicted.latent_variance
        noise = constant * np.exp(read.log_noise(self.dataset, self.held_out))
        if (weights := self._weights(self.held_out)) is not None:
            noise = noise / weights
        variance = calibration.variance(predicted.latent_variance, noise, predicted.far_variance)
        return PredictiveDistribution(
            centre=predicted.mean, variance=variance, calibration=calibration, transform=self.transform
        )

    def left_out(self, outcome: Outcome) -> tuple[IntArray | slice, PredictiveDistribution]:
        """Rows of the fit that were left out, by themselves or with their group, and the distribution of each, in the
        target's unit."""
        fit, mean, unit = outcome.fit, outcome.choice.mean, outcome.fit.subset.standardization
        places, predicted = left_out_predictive(fit, outcome.read, self.transform)
        if mean is not None:
            predicted = replace(predicted, centre=mean.left_out[places] * unit.target_scale + unit.target_shift)
        return places, predicted

    def with_mean(self, predicted: Moments | None, subset: Subset, mean: ServedMean) -> Moments | None:
        """Return what is predicted for the held-out rows, if any, with a mean on rows of its own."""
        if predicted is None:
            return None
        unit = subset.standardization
        return replace(predicted, mean=mean.left_out[self.held_out] * unit.target_scale + unit.target_shift)

    def compare(self, full: FullModel, outcome: Outcome) -> tuple[bool, str]:
        """Return whether the full process is taken, and why."""
        if self.spec.variance is Variance.NEAR:
            return True, "asked for"
        group = self.dataset.row_groups.group
        grouped = self.dataset.row_groups.by is Grouping.GROUP
        held_out = len(np.unique(group[full.held_out])) if grouped else len(full.held_out)
        seen = outcome.predicted is None or held_out < LEAST_ROWS
        if seen and self.constant and not grouped:
            return False, "the rows held out are too few to tell its gain from noise"
        ours, theirs = left_out = self._judged_left_out(full, outcome)
        if outcome.predicted is not None and not seen:
            ours = self._judged(full.held_out, self.on_held_out(full.moments(full.held_out), full.process.read))
            theirs = self._judged(full.held_out, self.on_held_out(outcome.predicted, outcome.read))
        exact, constant = full.process.exact, self.constant
        if grouped and constant and len(ours.loss) < LEAST_GROUPS:
            return False, f"{len(ours.loss)} groups left out are too few to tell its gain over a constant from noise"
        errors = GROUPED_ERRORS if grouped else CONSTANT_ERRORS
        mean = outcome.choice.mean
        as_slow = mean is not None and len(mean.places) == len(self.raw_targets)
        return prefers_full(
            ours,
            theirs,
            left_out,
            exact=exact,
            constant=constant,
            constant_errors=errors,
            least=0.0 if as_slow else LEAST_GAIN,
        )

    def _judged(
        self, places: IntArray, predicted: PredictiveDistribution, which: IntArray | slice = slice(None)
    ) -> Judged:
        """Return the judgement of predictions of rows (m,), or of some of these: of each, or where new rows will be of
        other groups of each group."""
        targets, groups = self.raw_targets[places], self.dataset.row_groups
        found = Judged.of(targets, predicted, self._weights(places)).take(which)
        return found.by_group(groups.group[places[which]]) if groups.by is Grouping.GROUP else found

    def _judged_left_out(self, full: FullModel, outcome: Outcome) -> tuple[Judged, Judged]:
        """Return the judgement of the full process, and of the other, by the rows that both left out."""
        places, predicted = self.left_out(outcome)
        left, others = full.process.left, np.arange(len(self.raw_targets))[places]
        _, of_full, of_other = np.intersect1d(left, others, return_indices=True)
        ours = self._judged(left, full.left_out(self.transform), of_full)
        return ours, self._judged(others, predicted, of_other)

    def sparse_candidate(self, outcome: Outcome) -> Candidate:
        """The sparse model beside a full process, by the rows held out, or left out where there are none."""
        if outcome.predicted is not None:
            found = self._scores(self.held_out, self.on_held_out(outcome.predicted, outcome.read))
        else:
            found = self._scores(*self.left_out(outcome))
        return Candidate(
            kernel=outcome.fit.factors.hyperparameters.kernel.value,
            mean=MeanRows.BASIS.value,
            mean_rows=len(outcome.fit.selection.indices),
            variance=Variance.BASIS.value,
            theta=SPARSE_THETA,
            rows=found.rows,
            nmse=found.nmse,
            nlpd=found.nlpd,
            seconds=sum(self.journal.seconds.values()),
            taken=True,
        )

    def full_candidate(self, full: FullModel) -> Candidate:
        """The full process, by the rows held out, or left out where there are none."""
        if len(self.held_out):
            predicted = self.on_held_out(full.moments(self.held_out), full.process.read)
            found = self._scores(self.held_out, predicted)
        else:
            found = self._scores(full.process.left, full.left_out(self.transform))
        return full.candidate(found)

    def _weights(self, places: IntArray | slice) -> FloatArray | None:
        """Weights of some rows, None where all count the same."""
        return self.dataset.weights[places] if len(self.dataset.weights) else None

    def _scores(self, places: IntArray | slice, predicted: PredictiveDistribution) -> Scores:
        return scores(self.raw_targets[places], predicted, self._weights(places))

    def _on_held_out(self, moments: Moments, read: CalibrationResult, model: Model) -> tuple[Scores, PredictedRows]:
        """Score the held-out rows, and return some of them."""
        predicted = self.on_held_out(moments, read)
        rows = PredictedRows.of(self.held_out, self.raw_targets, predicted, held_out=True)
        return self._by_groups(self._holdout_scores(predicted, model), self.held_out), rows

    def _on_left_out(self, outcome: Outcome) -> tuple[Scores, PredictedRows, LeftOutErrors]:
        """Score the rows of the fit, each left out, and return some of them, and the errors of all."""
        places, predicted = self.left_out(outcome)
        numbers = outcome.fit.subset.numbers[places]
        errors = LeftOutErrors.of(numbers, self.raw_targets[numbers], predicted)
        rows = PredictedRows.of(outcome.fit.subset.numbers[places], self.raw_targets, predicted, held_out=False)
        found = self._left_out_scores(outcome.fit, places, predicted, outcome.read)
        return self._by_groups(found, places), rows, errors

    def _by_groups(self, found: Scores, places: IntArray | slice) -> Scores:
        """Scores of these rows, whose standard errors know which of them belong together."""
        groups = self.dataset.row_groups
        if groups.by not in (Grouping.EQUAL, Grouping.GROUP):
            return found
        group = groups.group[places]
        return with_groups(found, len(group) / len(np.unique(group)))

    def _holdout_scores(self, predicted: PredictiveDistribution, model: Model) -> Scores:
        """Score the held-out rows, and beside them as large a share of those that the model did not learn from."""
        targets = self.raw_targets[self.held_out]
        if self.unlearnt is None:
            return self._scores(self.held_out, predicted)
        random = random_of(self.spec, Stage.UNLEARNT)
        return self.unlearnt.scores_beside(targets, predicted, model, len(self.raw_targets), random)

    def _left_out_scores(
        self, fit: Fit, places: IntArray | slice, predicted: PredictiveDistribution, read: CalibrationResult
    ) -> Scores:
        targets = fit.subset.dataset.targets[places]
        weights = self.dataset.weights[places] if len(self.dataset.weights) else self.dataset.weights
        unexplained = mean_by_weight(np.square(targets - predicted.centre), weights)
        unexplained /= variance_by_weight(targets, weights)
        if unexplained > EXPLAINS_NOTHING and not self.constant:
            self.journal.warn(
                f"the model explains almost nothing of the target (it leaves {unexplained:.1%} of its variance): "
                "either the columns say nothing about it, or the adaptation found only noise; try another seed"
            )
        return leave_one_out_scores(self.raw_targets[places], predicted, read, self._weights(places))

    def _splits(self, subset: Subset, theta: Hyperparameters) -> SplitsReport:
        """Tell how rows were left out, and where they follow each other what a random split would have promised."""
        groups = self.dataset.row_groups
        count = None if groups.alone else groups.count
        if groups.by is Grouping.EQUAL:
            self.journal.warn(
                f"{len(groups.group) - len(groups.single()):,} of {len(groups.group):,} rows have inputs that come "
                "more than once: those are held out and left out together"
            )
        found = None
        if groups.forward:
            found = forward_errors(subset, self.held_out, theta, random_of(self.spec, Stage.FORWARD))
        if found is None:
            return SplitsReport(by=groups.by.value, groups=count)
        self.journal.warn(found.sentence)
        return SplitsReport(by=groups.by.value, groups=count, between_nmse=found.between, later_nmse=found.later)

    def _warn(self, selection: Selection, *others: str | None) -> None:
        """Warnings of the arithmetic, of what is little, and others, in this order."""
        self.journal.hear()
        asked, found = self.spec.basis_size, len(selection.indices)
        if asked is not None and found < asked and not self.constant:
            self.journal.warn(f"only {found} of the {asked} basis vectors asked for were chosen: {selection.reason}")
        rows, groups = len(self.raw_targets), int(self.dataset.groups.max()) + 1
        if rows < FEW_ROWS * (groups + 1):
            self.journal.warn(
                f"{rows} rows are few for {groups} column{'s' if groups > 1 else ''}: "
                "the error bars are probably too narrow"
            )
        changed = self.transform.kind is not TargetTransform.NONE, len(self.input_choice.transform.columns) > 0
        reasons = zip(changed, (self.transform_choice.reason, self.input_choice.reason), strict=True)
        for warning in (*(reason for is_changed, reason in reasons if is_changed), *others):
            if warning is not None:
                self.journal.warn(warning)

    def _report(
        self,
        model: Model,
        stored: Stored,
        theta: Hyperparameters,
        selection: Selection,
        read: CalibrationResult,
        holdout: Scores | None,
        left_out: Scores,
        local: LocalCoverage,
        splits: SplitsReport,
        rows: PredictedRows,
        bounds: BoundsReport | None,
        candidates: tuple[Candidate, ...],
    ) -> TrainReport:
        self.journal.tell(1.0)
        return TrainReport(
            rows=len(self.raw_targets) + self.rows_beyond,
            basis_size=len(selection.indices),
            hyperparameters=theta,
            objectives=tuple(self.journal.objectives),
            holdout=holdout,
            leave_one_out=left_out,
            calibration=CalibrationReport.of(
                read.by, read.calibration, None if read.noise is None else read.noise.gain
            ),
            target_transform=self.transform_choice.report(self.raw_targets),
            input_transform=self.input_choice.report(),
            local_coverage=local,
            splits=splits,
            predicted_rows=rows,
            stop_reason=selection.reason,
            measures=tuple(selection.measures.tolist()),
            bounds=bounds,
            artefact=ArtefactReport.of(stored, model),
            seconds=dict(self.journal.seconds),
            warnings=tuple(self.journal.warnings),
            candidates=candidates,
        )
