"""From a table and a specification to a posterior and a report.

    1. hold some rows out for the report
    2. start: theta from a full GP on a few hundred random rows
    3. rounds (Keerthi & Chu 2005, sec. 4): choose a basis at theta, then move theta with the basis held fixed, until
       the leave-one-out loss settles
    4. choose a basis at the last theta, fit, score the held-out rows
    5. choose once more with all rows as candidates and fit on all of them: the model that is published

A run can be cut off anywhere and go on from its last checkpoint with the same numbers: every random draw comes from a
generator of its own, seeded by the seed and the stage.
"""

import warnings
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from core.adaptation import Box, box, descend, heuristic, hyperparameters_of, theta_of
from core.data import Dataset, Standardization, standardization
from core.errors import InvalidSpecError
from core.exact import exact_nlml_and_gradient
from core.factors import Factors, Rows, Scheme, factorise, scheme
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.likelihood import nlml_and_gradient
from core.loo import leave_one_out, leave_one_out_loss
from core.metrics import Scores, scores
from core.parallel import each
from core.posterior import SparsePosterior, posterior
from core.prediction import predict
from core.progress import Checkpoint, Journal, Listener, Phase, Progress
from core.selection.greedy import select
from core.selection.state import Selection
from core.spec import Approximation, TrainSpec

SCREEN_ROWS, SCREEN_STEPS, SCREEN_REACHES = 500, 30, (1.0, 0.5)
"""The start: so many rows, evaluations, and lengthscales (in sqrt(columns) standard deviations) to start from."""
POLISH_ROWS, POLISH_STEPS = 1000, 20
SETTLED = 1e-3
"""Rounds end when one changes the leave-one-out loss by less than this, nats a row."""
EXPLAINS_NOTHING = 0.98
"""A model whose training residuals keep this share of the target's variance has found only noise."""


class _Stage(IntEnum):
    """Where a random draw belongs; part of its seed."""

    HOLDOUT = 0
    START = 1
    EVALUATE = 2
    PUBLISH = 3
    ROUND = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainReport:
    """What a run found. hyperparameters in standardized units; objectives: phi per round, in nats.

    holdout: scores of rows that this theta and basis never saw, None where none were held out; leave_one_out: of the
    published model, closed form; seconds by phase; warnings in plain words.
    """

    rows: int
    basis_size: int
    hyperparameters: Hyperparameters
    objectives: tuple[float, ...]
    holdout: Scores | None
    leave_one_out: Scores
    stop_reason: str
    seconds: dict[str, float]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text, lists and dictionaries."""
        hyperparameters = self.hyperparameters
        return {
            "rows": self.rows,
            "basis_size": self.basis_size,
            "hyperparameters": {
                "lengthscales": hyperparameters.lengthscales.tolist(),
                "signal_variance": hyperparameters.signal_variance,
                "bias_variance": hyperparameters.bias_variance,
                "noise_variance": hyperparameters.noise_variance,
            },
            "objectives": list(self.objectives),
            "holdout": None if self.holdout is None else asdict(self.holdout),
            "leave_one_out": asdict(self.leave_one_out),
            "stop_reason": self.stop_reason,
            "seconds": dict(self.seconds),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainResult:
    """The published posterior, its basis (rows of the dataset, in the order chosen) and the report."""

    posterior: SparsePosterior
    selection: Selection
    report: TrainReport


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sample:
    """Some rows of the dataset, standardized by their own mean and spread. numbers: their row numbers (n,)."""

    numbers: IntArray
    rows: Rows
    standardization: Standardization


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
    return _Run(dataset, spec, Journal(listen, _rounds(spec), resume), resume, workers).result()


class _Run:
    """One training run: the steps of the module's docstring, in order."""

    def __init__(
        self, dataset: Dataset, spec: TrainSpec, journal: Journal, resume: Checkpoint | None, workers: int
    ) -> None:
        self.dataset = dataset
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
        self.rounds = _rounds(spec)
        self.scheme: Scheme = scheme(spec.approximation, spec.power)
        self.full_prior = spec.approximation is not Approximation.SOR

    def result(self) -> TrainResult:
        everything = np.arange(len(self.dataset.targets))
        held_out = self._held_out()
        learning = self._sample(np.setdiff1d(everything, held_out))
        with warnings.catch_warnings(record=True) as self.caught:
            warnings.simplefilter("always", RuntimeWarning)
            theta, previous = self._adapt(learning)
            holdout = self._holdout_scores(learning, theta, previous, held_out)
            whole = self._sample(everything) if len(held_out) else learning
            with self.journal.phase(Phase.FITTING, 0.95):
                selection, factors = self._fit(whole, theta, previous, _Stage.PUBLISH)
                fitted = self._posterior(whole, selection, factors)
            with self.journal.phase(Phase.EVALUATING, 0.98):
                left_out = self._leave_one_out_scores(whole, factors)
        self._hear_warnings()
        self.journal.tell(1.0)
        report = TrainReport(
            rows=len(everything),
            basis_size=len(selection.indices),
            hyperparameters=factors.hyperparameters,
            objectives=tuple(self.journal.objectives),
            holdout=holdout,
            leave_one_out=left_out,
            stop_reason=selection.reason,
            seconds=dict(self.journal.seconds),
            warnings=tuple(self.journal.warnings),
        )
        return TrainResult(posterior=fitted, selection=selection, report=report)

    def _held_out(self) -> IntArray:
        """Random rows for the report: none where fewer than two would be left on either side."""
        rows = len(self.dataset.targets)
        count = int(rows * self.spec.holdout)
        if count < 2 or rows - count < 2:
            return np.empty(0, np.int64)
        order = self._random(_Stage.HOLDOUT).permutation(rows)
        rest = self.dataset.targets[order[count:]]
        if rest.min() == rest.max():
            return np.empty(0, np.int64)
        return np.sort(order[:count])

    def _sample(self, numbers: IntArray) -> _Sample:
        dataset = self.dataset.take(numbers)
        unit = standardization(dataset, enabled=self.spec.standardize)
        rows = Rows(
            X=unit.inputs(dataset.inputs),
            y=unit.targets(dataset.targets),
            groups=dataset.groups,
            workers=self.workers,
        )
        return _Sample(numbers=numbers, rows=rows, standardization=unit)

    def _adapt(self, sample: _Sample) -> tuple[Hyperparameters, IntArray]:
        """The rounds; the last theta, and the last basis as row numbers of the dataset."""
        bounds = box(sample.rows)
        if self.resume is None:
            with self.journal.phase(Phase.STARTING, 0.0):
                hyperparameters = self._start(sample.rows, bounds)
            previous: IntArray = np.empty(0, np.int64)
            hyperparameters = self._save(hyperparameters, previous)
        else:
            hyperparameters = self._saved(self.resume.round, np.array(self.resume.theta))
            previous = np.array(self.resume.indices, np.int64)
        while self.journal.round < self.rounds:
            hyperparameters, previous = self._round(sample, bounds, hyperparameters, previous)
            self.journal.round += 1
            hyperparameters = self._save(hyperparameters, previous)
        return hyperparameters, previous

    def _round(
        self, sample: _Sample, bounds: Box, hyperparameters: Hyperparameters, previous: IntArray
    ) -> tuple[Hyperparameters, IntArray]:
        """Choose a basis at theta, then move theta with the basis held fixed.

        The leave-one-out loss judges the move: one that makes it worse is overfitting and is undone, and one that
        hardly changes it is the last.
        """
        number, steps = self.journal.round, self.spec.adaptation.steps if self.spec.adaptation else 0
        begin, share = 0.1 + 0.8 * number / self.rounds, 0.8 / self.rounds
        with self.journal.phase(Phase.SELECTING, begin):
            selection = self._select(sample, hyperparameters, previous, _Stage.ROUND + number)
            Z = sample.rows.X[selection.indices]
        with self.journal.phase(Phase.ADAPTING, begin + 0.2 * share):
            done = 0

            def objective(candidate: Hyperparameters) -> tuple[float, FloatArray]:
                nonlocal done
                done += 1
                value = nlml_and_gradient(sample.rows, Z, candidate, self.scheme)
                self.journal.tell(begin + share * (0.2 + 0.8 * min(done / (steps + 3), 1.0)), value[0])
                return value

            moved, value = descend(objective, hyperparameters, bounds, steps)
            before, after = self._loss(sample.rows, Z, hyperparameters), self._loss(sample.rows, Z, moved)
        if after < before:
            hyperparameters = moved
            self.journal.objectives.append(value)
        elif after > before + SETTLED:
            self.journal.warn(
                f"round {number + 1} of the adaptation was undone and ended it: its objective fell, but the "
                f"leave-one-out loss rose from {before:.3f} to {after:.3f} (overfitting)"
            )
        if after > before - SETTLED:
            self.journal.round = self.rounds - 1
        return hyperparameters, sample.numbers[selection.indices]

    def _loss(self, rows: Rows, Z: FloatArray, theta: Hyperparameters) -> float:
        factors = factorise(rows, Z, theta, self.scheme, keep=False)
        return leave_one_out_loss(factors, full_prior=self.full_prior)

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

    def _holdout_scores(
        self, sample: _Sample, theta: Hyperparameters, previous: IntArray, held_out: IntArray
    ) -> Scores | None:
        if not len(held_out):
            return None
        with self.journal.phase(Phase.EVALUATING, 0.9):
            selection, factors = self._fit(sample, theta, previous, _Stage.EVALUATE)
            found = predict(self._posterior(sample, selection, factors), self.dataset.inputs[held_out])
            return scores(self.dataset.targets[held_out], found.mean, found.target_variance)

    def _leave_one_out_scores(self, sample: _Sample, factors: Factors) -> Scores:
        mean, variance = leave_one_out(factors, full_prior=self.full_prior)
        unit, shift = sample.standardization.target_scale, sample.standardization.target_shift
        unexplained = float(np.mean(np.square(sample.rows.y - mean)) / np.var(sample.rows.y))
        if unexplained > EXPLAINS_NOTHING:
            self.journal.warn(
                f"the model explains almost nothing of the target (it leaves {unexplained:.1%} of its variance): "
                "either the columns say nothing about it, or the adaptation found only noise; try another seed"
            )
        return scores(self.dataset.targets[sample.numbers], mean * unit + shift, variance * unit**2)

    def _fit(
        self, sample: _Sample, theta: Hyperparameters, previous: IntArray, stage: int
    ) -> tuple[Selection, Factors]:
        """A basis chosen at theta and the factors on it. The selection's indices are rows of the dataset."""
        selection = self._select(sample, theta, previous, stage)
        factors = factorise(sample.rows, sample.rows.X[selection.indices], theta, self.scheme)
        numbers = sample.numbers[selection.indices]
        return Selection(indices=numbers, gains=selection.gains, reason=selection.reason), factors

    def _posterior(self, sample: _Sample, selection: Selection, factors: Factors) -> SparsePosterior:
        basis = self.dataset.inputs[selection.indices]
        groups = self.dataset.groups
        return posterior(factors, self.spec.approximation, basis, groups, sample.standardization)

    def _select(self, sample: _Sample, theta: Hyperparameters, previous: IntArray, stage: int) -> Selection:
        """Basis rows as places in the sample; the previous basis is given as row numbers of the dataset."""
        size = self.spec.max_basis_size if self.spec.basis_size is None else self.spec.basis_size
        places = np.searchsorted(sample.numbers, previous)
        selection = select(sample.rows, theta, self.spec, size, self._random(stage), places)
        self.journal.basis_size = len(selection.indices)
        return selection

    def _save(self, hyperparameters: Hyperparameters, previous: IntArray) -> Hyperparameters:
        """A checkpoint; the hyperparameters to the last bit as a run that goes on from it would have them."""
        self._hear_warnings()
        theta = theta_of(hyperparameters)
        self.journal.save(tuple(theta.tolist()), tuple(previous.tolist()))
        return self._saved(self.journal.round, theta)

    def _saved(self, rounds: int, theta: FloatArray) -> Hyperparameters:
        """From a checkpoint's theta; those that were given are not moved by the detour over logarithms."""
        return self.spec.start if self.spec.start is not None and rounds == 0 else hyperparameters_of(theta)

    def _random(self, stage: int) -> np.random.Generator:
        return np.random.default_rng([self.spec.seed, stage])

    def _hear_warnings(self) -> None:
        """Numerical warnings so far become sentences of the report, and of the checkpoint."""
        while self.caught:
            self.journal.warn(str(self.caught.pop(0).message))


def _rounds(spec: TrainSpec) -> int:
    return 0 if spec.adaptation is None else spec.adaptation.rounds


def _some(rows: Rows, places: IntArray) -> Rows:
    return Rows(X=rows.X[places], y=rows.y[places], groups=rows.groups)


__all__ = ["Checkpoint", "Phase", "Progress", "TrainReport", "TrainResult", "train"]
