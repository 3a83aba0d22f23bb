"""From a table and a specification to a posterior and a report.

    1. hold some rows out for the report
    2. start: theta from a full GP on a few hundred random rows
    3. rounds (Keerthi & Chu 2005, sec. 4): choose a basis at theta, then move theta with the basis held fixed; the
       best pair is kept, and rounds end when it settles
    4. if asked: choose a basis at the last theta, then move theta and the basis vectors together
    5. choose a basis at the last theta unless it has moved, fit, calibrate the error bars (`core.evaluation`), score
       the held-out rows
    6. choose and fit with all rows, with the same calibration: the model that is published
    7. if asked: a smaller form of it, to store

A run can be cut off anywhere and go on from its last checkpoint with the same numbers: every random draw comes from a
generator of its own, seeded by the seed and the stage.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum

import numpy as np

from core.adaptation import Box, box, descend, heuristic, hyperparameters_of, theta_of
from core.compact import Stored
from core.compression import kept
from core.data import Dataset
from core.errors import InvalidSpecError
from core.evaluation import Calibrated, Fit, bounds_report, calibrated, calibrated_by, leave_one_out_predictive
from core.exact import exact_nlml_and_gradient
from core.factors import Rows, Scheme, factorise, scheme
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.likelihood import nlml, nlml_and_gradient
from core.metrics import Scores, scores
from core.model import Model, log_noise
from core.parallel import each
from core.posterior import SparsePosterior, posterior
from core.prediction import Prediction, Predictor
from core.predictive import Predictive
from core.progress import Checkpoint, Journal, Listener, Phase, Progress
from core.refinement import refine
from core.report import ArtefactReport, CalibrationReport, TrainReport, TrainResult
from core.sample import Found, Sample
from core.selection.greedy import select
from core.selection.state import Selection
from core.spec import Approximation, TrainSpec
from core.transforms import transform_of

SCREEN_ROWS, SCREEN_STEPS, SCREEN_REACHES = 500, 30, (1.0, 0.5)
"""The start: so many rows, evaluations, and lengthscales (in sqrt(columns) standard deviations) to start from."""
POLISH_ROWS, POLISH_STEPS = 1000, 20
SETTLED, MISSES = 1e-3, 2
"""Rounds end when so many in a row lower the objective by less than this, nats a row."""
SHORTER_ROUND, SHORTER = 1, 0.5
"""In this round a second descent begins from lengthscales so much shorter: a few hundred rows show no finer structure
than they can resolve, and on cal_housing every objective but FITC's then stayed there (NMSE .22 for .195)."""
_STARTED, _ADAPTED = 0.1, 0.9
_NOTHING = Selection(indices=np.empty(0, np.int64), gains=np.empty(0), reason="nothing chosen yet")
FEW_ROWS = 10
"""With fewer rows than this for each lengthscale a warning says that theta itself is uncertain."""
LEAST_HELD_OUT = 50
"""Held-out rows, after the report has its half, that can calibrate a basis that moved."""
EXPLAINS_NOTHING = 0.95
"""A model whose training residuals keep this share of the target's variance has found only noise."""


class _Stage(IntEnum):
    """Where a random draw belongs; part of its seed."""

    HOLDOUT = 0
    START = 1
    EVALUATE = 2
    PUBLISH = 3
    REFINE = 4
    CALIBRATE = 5
    SHORTER = 6
    ROUND = 7


def train(
    dataset: Dataset,
    spec: TrainSpec,
    *,
    listen: Listener | None = None,
    resume: Checkpoint | None = None,
    workers: int = 1,
) -> TrainResult:
    """Trains on `dataset` as `spec` says; tells `listen` of progress and checkpoints; goes on from `resume`.

    workers: threads for sums over rows; with more than one, hold BLAS to a single thread (OPENBLAS_NUM_THREADS=1).

    Cost O(rounds (n P^2 / 2 + 2..3.5 steps n d^2)) multiply-adds for `batch`; memory a few (d, n) arrays, or O(d^2 + n)
    where those would pass core.factors.KEPT_BYTES.
    Raises InvalidSpecError, InvalidDataError, NotPositiveDefiniteError, NumericalError.
    """
    return _Run(dataset, spec, Journal(listen, _stages(spec), resume), resume, workers).result()


class _Run:
    """One training run: the steps of the module's docstring, in order."""

    def __init__(
        self, dataset: Dataset, spec: TrainSpec, journal: Journal, resume: Checkpoint | None, workers: int
    ) -> None:
        self.raw_targets = dataset.targets
        self.spec = spec
        self.journal = journal
        self.resume = resume
        self.workers = workers
        self.caught: list[warnings.WarningMessage] = []
        self.groups = int(dataset.groups.max()) + 1
        if spec.start is not None and len(spec.start.lengthscales) != self.groups:
            raise InvalidSpecError(
                "hyperparameters.lengthscales",
                f"expected {self.groups}, one for each feature, got {len(spec.start.lengthscales)}",
            )
        if spec.bounds is not None and any(not 0 <= row < len(dataset.targets) for row in spec.bounds.rows):
            raise InvalidSpecError("bounds.rows", f"expected rows from 0 to {len(dataset.targets) - 1}")
        self.rounds = 0 if spec.adaptation is None else spec.adaptation.rounds
        self.adapting = _share_of_rounds(spec) * (_ADAPTED - _STARTED)
        self.scheme: Scheme = scheme(spec.approximation, spec.power)
        self.full_prior = spec.approximation is not Approximation.SOR
        self.held_out = self._held_out()
        self.transform = transform_of(spec.target_transform, dataset.targets)
        self.dataset = replace(dataset, targets=self.transform.forward(dataset.targets))

    def result(self) -> TrainResult:
        everything = np.arange(len(self.raw_targets))
        learning = self._sample(np.setdiff1d(everything, self.held_out))
        whole = self._sample(everything) if len(self.held_out) else learning
        with warnings.catch_warnings(record=True) as self.caught:
            warnings.simplefilter("always", RuntimeWarning)
            found = self._refine(learning, self._adapt(learning))
            predicted, read = None, None
            if len(self.held_out):
                with self.journal.phase(Phase.EVALUATING, _ADAPTED):
                    fit = self._fit(learning, found, _Stage.EVALUATE)
                if found.moved is not None:
                    read = self._calibrate_moved(fit)
                predicted = Predictor(self._posterior(fit)).predict(self.dataset.inputs[self.held_out])
                del fit  # and its blocks, before the next one's are made
            with self.journal.phase(Phase.FITTING, 0.92):
                fit = self._fit(whole, found, _Stage.PUBLISH)
            if read is None:
                with self.journal.phase(Phase.CALIBRATING, 0.93):
                    read = calibrated(fit, self.spec, (self.spec.seed, _Stage.CALIBRATE))
            with self.journal.phase(Phase.EVALUATING, 0.98):
                model = self._model(fit, read)
                stored, note = self._stored(fit, read)
                holdout = None if predicted is None else self._holdout_scores(predicted, read)
                left_out = self._leave_one_out_scores(fit, read)
                bounds = None if self.spec.bounds is None else bounds_report(fit, self.spec.bounds.rows)
        self._hear_warnings()
        self._warn_of_little(fit.selection)
        if note is not None:
            self.journal.warn(note)
        self.journal.tell(1.0)
        report = TrainReport(
            rows=len(everything),
            basis_size=len(fit.selection.indices),
            hyperparameters=fit.factors.hyperparameters,
            objectives=tuple(self.journal.objectives),
            holdout=holdout,
            leave_one_out=left_out,
            calibration=CalibrationReport(
                by=read.by,
                rows=read.calibration.rows,
                latent_scale=read.calibration.latent_scale,
                noise_scale=read.calibration.noise_scale,
                most_level=read.calibration.most_level,
                noise_gain=None if read.noise is None else read.noise.gain,
            ),
            stop_reason=fit.selection.reason,
            measures=tuple(fit.selection.measures.tolist()),
            bounds=bounds,
            artefact=ArtefactReport.of(stored),
            seconds=dict(self.journal.seconds),
            warnings=tuple(self.journal.warnings),
        )
        return TrainResult(
            model=model, stored=stored, selection=fit.selection, report=report, moved=found.moved is not None
        )

    def _warn_of_little(self, selection: Selection) -> None:
        asked, found = self.spec.basis_size, len(selection.indices)
        if asked is not None and found < asked:
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
        order = self._random(_Stage.HOLDOUT).permutation(rows)
        rest = self.raw_targets[order[count:]]
        if rest.min() == rest.max():
            return np.empty(0, np.int64)
        return np.sort(order[:count])

    def _sample(self, numbers: IntArray) -> Sample:
        return Sample.of(self.dataset, numbers, standardize=self.spec.standardize, workers=self.workers)

    def _adapt(self, sample: Sample) -> Found:
        """The rounds."""
        bounds = box(sample.rows)
        if self.resume is not None:
            found = self._resumed(self.resume)
        else:
            with self.journal.phase(Phase.STARTING, 0.0):
                theta = self._start(sample.rows, bounds)
            found = self._save(Found(theta=theta, selection=_NOTHING))
        while self.journal.round < self.rounds:
            found = self._round(sample, bounds, found)
            self.journal.round += 1
            found = self._save(found)
        return found

    def _round(self, sample: Sample, bounds: Box, found: Found) -> Found:
        """Choose a basis at theta, then move theta with the basis held fixed; the second round does it twice.

        The pair of theta and basis with the lowest objective is kept: a new basis at a better theta may be a worse
        pair, and a random pool a lucky one.
        """
        number, share = self.journal.round, self.adapting / self.rounds
        begin = _STARTED + share * number
        if number != SHORTER_ROUND:
            tried = [self._try(sample, bounds, found, _Stage.ROUND + number, begin, share)]
        else:
            shorter = replace(found.theta, lengthscales=found.theta.lengthscales * SHORTER)
            tried = [
                self._try(sample, bounds, found, _Stage.ROUND + number, begin, 0.5 * share),
                self._try(
                    sample, bounds, replace(found, theta=shorter), _Stage.SHORTER, begin + 0.5 * share, 0.5 * share
                ),
            ]
        value, best = min(tried, key=lambda outcome: outcome[0])
        better = not self.journal.objectives or value < self.journal.objectives[-1]
        self.journal.objectives.append(value if better else self.journal.objectives[-1])
        if self._settled(len(sample.rows)):
            self.journal.round = self.rounds - 1
        return best if better else found

    def _try(
        self, sample: Sample, bounds: Box, found: Found, stage: int, begin: float, share: float
    ) -> tuple[float, Found]:
        """The objective after one descent from found.theta, and where it ended."""
        steps = self.spec.adaptation.steps if self.spec.adaptation else 0
        with self.journal.phase(Phase.SELECTING, begin):
            selection = self._select(sample, found, stage)
            Z = sample.basis(selection)
        with self.journal.phase(Phase.ADAPTING, begin + 0.2 * share):
            count = self._counter(begin + 0.2 * share, 0.8 * share, steps)

            def objective(candidate: Hyperparameters) -> tuple[float, FloatArray]:
                value, gradient = nlml_and_gradient(sample.rows, Z, candidate, self.scheme)
                count(value)
                return value, gradient

            theta, value = descend(objective, found.theta, bounds, steps)
        return value, Found(theta=theta, selection=selection)

    def _settled(self, rows: int) -> bool:
        """Whether the last MISSES rounds together lowered the objective by next to nothing."""
        objectives = self.journal.objectives
        return len(objectives) > MISSES and objectives[-1 - MISSES] - objectives[-1] < SETTLED * rows

    def _refine(self, sample: Sample, found: Found) -> Found:
        """Move theta and the basis vectors together, if that was asked for and is not done yet."""
        if self.spec.refinement is None or found.moved is not None:
            return found
        begin, share, steps = _STARTED + self.adapting, _ADAPTED - _STARTED - self.adapting, self.spec.refinement.steps
        with self.journal.phase(Phase.SELECTING, begin):
            selection = self._better_selection(sample, found, _Stage.REFINE)
        with self.journal.phase(Phase.REFINING, begin + 0.1 * share):
            Z = sample.basis(selection)
            count = self._counter(begin + 0.1 * share, 0.9 * share, steps)
            Z, theta, _ = refine(sample.rows, Z, found.theta, self.scheme, box(sample.rows), steps, count)
        self.journal.round += 1
        moved = sample.standardization.raw_inputs(Z)
        return self._save(Found(theta=theta, selection=selection, moved=moved))

    def _counter(self, begin: float, share: float, steps: int) -> Callable[[float], None]:
        """Hears the objective of each evaluation, and tells how far the phase is."""
        done = 0

        def count(objective: float) -> None:
            nonlocal done
            done += 1
            self.journal.tell(begin + share * min(done / (steps + 3), 1.0), objective)

        return count

    def _start(self, rows: Rows, bounds: Box) -> Hyperparameters:
        """The hyperparameters given, or those of a full GP on random rows: two starts, the better one polished."""
        if self.spec.start is not None:
            return self.spec.start
        order = self._random(_Stage.START).permutation(len(rows))
        screen, polish = _some(rows, order[:SCREEN_ROWS]), _some(rows, order[:POLISH_ROWS])

        def screened(reach: float) -> tuple[Hyperparameters, float]:
            start = heuristic(rows, reach=reach)
            return descend(lambda candidate: exact_nlml_and_gradient(screen, candidate), start, bounds, SCREEN_STEPS)

        tried = each(screened, SCREEN_REACHES)
        self.journal.tell(0.05)
        best = min(tried, key=lambda outcome: outcome[1])[0]
        return descend(lambda candidate: exact_nlml_and_gradient(polish, candidate), best, bounds, POLISH_STEPS)[0]

    def _calibrate_moved(self, fit: Fit) -> Calibrated | None:
        """By half of the held-out rows, which the report then does without; None where they are too few."""
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
        with self.journal.phase(Phase.CALIBRATING, _ADAPTED):
            return calibrated_by(fit, self.dataset.take(half), self.spec, (self.spec.seed, _Stage.CALIBRATE))

    def _holdout_scores(self, predicted: Prediction, read: Calibrated) -> Scores:
        """Of rows that the fit behind `predicted` never saw, by a calibration that never saw their errors."""
        calibration = read.without(self.held_out).calibration
        constant = predicted.target_variance - predicted.latent_variance
        noise = constant * np.exp(read.log_noise(self.dataset, self.held_out))
        variance = calibration.variance(predicted.latent_variance, noise, predicted.farthest)
        return scores(
            self.raw_targets[self.held_out],
            Predictive(centre=predicted.mean, variance=variance, calibration=calibration, transform=self.transform),
        )

    def _leave_one_out_scores(self, fit: Fit, read: Calibrated) -> Scores:
        predicted = leave_one_out_predictive(fit, read, self.transform, full_prior=self.full_prior)
        targets = fit.sample.dataset.targets
        unexplained = float(np.mean(np.square(targets - predicted.centre)) / np.var(targets))
        if unexplained > EXPLAINS_NOTHING:
            self.journal.warn(
                f"the model explains almost nothing of the target (it leaves {unexplained:.1%} of its variance): "
                "either the columns say nothing about it, or the adaptation found only noise; try another seed"
            )
        return scores(self.raw_targets[fit.sample.numbers], predicted)

    def _fit(self, sample: Sample, found: Found, stage: int) -> Fit:
        """A basis chosen at theta, or the one that has moved, and the factors on it."""
        if found.moved is not None:
            Z, selection = sample.standardization.inputs(found.moved), found.selection
        else:
            selection = self._better_selection(sample, found, stage)
            Z = sample.basis(selection)
        factors = factorise(sample.rows, Z, found.theta, self.scheme)
        return Fit(sample=sample, found=found, selection=selection, factors=factors)

    def _model(self, fit: Fit, read: Calibrated) -> Model:
        return Model(
            posterior=self._posterior(fit),
            noise=None if read.noise is None else read.noise.noise,
            calibration=read.calibration,
            transform=self.transform,
        )

    def _stored(self, fit: Fit, read: Calibrated) -> tuple[Stored, str | None]:
        """What is kept of the posterior, and a warning where it is not what was asked."""
        return kept(
            fit.factors,
            self._posterior(fit),
            self.spec.artefact,
            self.spec.tolerance,
            calibration=read.calibration,
            log_noise=None if read.noise is None else log_noise(read.noise.noise, fit.sample.dataset.inputs),
        )

    def _posterior(self, fit: Fit) -> SparsePosterior:
        moved = fit.found.moved
        basis = self.dataset.inputs[fit.selection.indices] if moved is None else moved
        return posterior(fit.factors, self.spec.approximation, basis, self.dataset.groups, fit.sample.standardization)

    def _select(self, sample: Sample, found: Found, stage: int) -> Selection:
        """A basis chosen at theta, with the last one among the candidates; indices are rows of the dataset."""
        last = sample.places(found.selection)
        selection = select(sample.rows, found.theta, self.spec, self._random(stage), last)
        self.journal.basis_size = len(selection.indices)
        return replace(selection, indices=sample.numbers[selection.indices])

    def _better_selection(self, sample: Sample, found: Found, stage: int) -> Selection:
        """The same, or the last basis where the objective says that it is the better one."""
        selection = self._select(sample, found, stage)
        last = found.selection
        if len(last.indices) and self._value(sample, found.theta, last) < self._value(sample, found.theta, selection):
            self.journal.basis_size = len(last.indices)
            return replace(last, reason="the basis of the best round is better than a new one", measures=np.empty(0))
        return selection

    def _value(self, sample: Sample, theta: Hyperparameters, selection: Selection) -> float:
        Z = sample.basis(selection)
        return nlml(factorise(sample.rows, Z, theta, self.scheme))

    def _save(self, found: Found) -> Found:
        """A checkpoint; and what a run that goes on from it would have, to the last bit."""
        self._hear_warnings()
        theta = theta_of(found.theta)
        self.journal.save(
            theta=tuple(theta.tolist()),
            indices=tuple(found.selection.indices.tolist()),
            gains=tuple(None if np.isnan(gain) else float(gain) for gain in found.selection.gains),
            basis=() if found.moved is None else tuple(map(tuple, found.moved.tolist())),
        )
        return replace(found, theta=self._exactly(self.journal.round, theta))

    def _resumed(self, saved: Checkpoint) -> Found:
        indices, gains = np.array(saved.indices, np.int64), np.array(saved.gains, np.float64)
        return Found(
            theta=self._exactly(saved.round, np.array(saved.theta)),
            selection=Selection(indices=indices, gains=gains, reason="as before the run was cut off"),
            moved=np.array(saved.basis) if saved.basis else None,
        )

    def _exactly(self, rounds: int, theta: FloatArray) -> Hyperparameters:
        """From a checkpoint's theta; those that were given are not moved by the detour over logarithms."""
        return self.spec.start if self.spec.start is not None and rounds == 0 else hyperparameters_of(theta)

    def _random(self, stage: int) -> np.random.Generator:
        return np.random.default_rng([self.spec.seed, stage])

    def _hear_warnings(self) -> None:
        """Numerical warnings so far become sentences of the report, and of the checkpoint."""
        while self.caught:
            self.journal.warn(str(self.caught.pop(0).message))


def _stages(spec: TrainSpec) -> int:
    """Rounds, and one more if the basis moves."""
    return (0 if spec.adaptation is None else spec.adaptation.rounds) + (spec.refinement is not None)


def _share_of_rounds(spec: TrainSpec) -> float:
    """How much of the work between start and evaluation the rounds are, against the refinement, by evaluations."""
    rounds = 0 if spec.adaptation is None else spec.adaptation.rounds * spec.adaptation.steps
    moves = 0 if spec.refinement is None else spec.refinement.steps
    return rounds / max(rounds + moves, 1)


def _some(rows: Rows, places: IntArray) -> Rows:
    return Rows(X=rows.X[places], y=rows.y[places], groups=rows.groups)


__all__ = ["Checkpoint", "Phase", "Progress", "TrainReport", "TrainResult", "train"]
