"""Training: from a table and a specification to a posterior and a report.

    1. hold some rows out for the report
    2. if asked: choose transforms of target and inputs (`core.train.transformed`)
       start: theta from a full GP on a few hundred random rows
    3. rounds (Keerthi & Chu 2005, sec. 4): choose a basis at theta, then move theta with the basis held fixed; the
       best pair is kept, and rounds end when it settles; on `core.train.run_rows.SEARCH_ROWS` where there are more
    4. if asked: choose a basis at the last theta, then move theta and the basis vectors together
    5. choose a basis at the last theta unless it has moved, fit, predict the held-out rows
    6. choose and fit with all rows: the model that is published
    7. calibrate its error bars (`core.train.calibrate`); where the rows left out for that are predicted no better than
       by the target's mean, 5 and 6 again with a model that says no more; score the held-out rows with a calibration
       that has not seen them
    8. if asked: a mean that rests on more rows than the basis, with error bars of its own (`core.train.mean_choice`)
    9. where effort and rows allow: a full process, computed after 2, beside which the search ends early where it is far
       behind; the better one is published (`core.train.full_choice`)
    10. if asked: a smaller form of it, to store, and a look whether float32 is enough to predict with it

A run can be cut off anywhere and go on from its last checkpoint with the same numbers: every random draw comes from a
generator of its own, seeded by the seed and the stage.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from core.arrays import IntArray
from core.data import Dataset
from core.numeric.shards import Compute
from core.predict.predictor import Moments, Predictor
from core.sparse.posterior import SparsePosterior, posterior
from core.sparse.scheme import Scheme, scheme
from core.spec import Effort, MeanRows, TrainSpec
from core.train.beyond import BeyondRows, with_rows_beyond
from core.train.calibrate import MOVED_ROWS, CalibrationResult, calibrate, calibrate_on
from core.train.fit import Fit, Solution
from core.train.full_choice import FarBehind, FullModel, full_model, is_compared
from core.train.held_out import grouped_rows, held_out_rows
from core.train.mean_choice import ServedMean, choose_mean, served_means
from core.train.others import full_results, moments_of, reads_of, sparse_results
from core.train.outcome import Outcome
from core.train.progress import Checkpoint, Journal, Listener, Phase
from core.train.report import Candidate, TrainResult
from core.train.results import Results
from core.train.run_rows import RunRows
from core.train.search import Search, Stage, random_of
from core.train.shares import Shares, share_searched
from core.train.spec_checks import check_spec
from core.train.transformed import transformed_table
from core.train.unlearnt import UnlearntRows
from core.train.warm import WarmStart

LEAST_HELD_OUT = 50
"""Held-out rows, after the report has its half, that can calibrate a basis that moved."""
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
    warm: WarmStart | None = None,
    beyond: BeyondRows | None = None,
) -> TrainResult:
    """Train a model on a table.

    Args:
        dataset: inputs (n, p) and targets (n,) in raw units.
        spec: what is asked.
        listen: hears progress and checkpoints.
        resume: checkpoint to go on from, with the same numbers.
        workers: threads for sums over rows; with more than one, hold BLAS to a single one (OPENBLAS_NUM_THREADS=1).
        compute: other processes that sum over rows where these are many (`core.numeric.shards`), and that solve for a
            mean on many rows where a pass is long (`core.numeric.partitions`); the same numbers.
        unlearnt: rows of the table that are only scored, in the same share as the others are held out.
        warm: another model to begin at, in place of a search for a start.
        beyond: more rows of the table, in files, which the posterior rests on too; `dataset` is then a sample of it,
            rows of equal inputs all or none (`core.train.beyond`). A basis is chosen from the sample, a mean on more
            rows is not compared, and `bounds` and a compact artefact are refused.

    Returns:
        The model, what is stored of it, its basis and the report.

    Cost O(rounds (n P^2 / 2 + 2..3.5 steps n d^2)) multiply-adds for `batch`; memory a few (d, n) arrays, or O(d^2 + n)
    where those would pass core.sparse.factors.KEPT_BYTES.

    Raises:
        InvalidSpecError: a field does not fit the table.
        InvalidDataError: the table cannot be learned from.
        NumericalError: the arithmetic broke down, NotPositiveDefiniteError included.
    """
    return _Run(
        dataset, spec, Journal(listen, _stages(spec), resume), resume, workers, compute, unlearnt, warm, beyond
    ).result()


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
        warm: WarmStart | None = None,
        beyond: BeyondRows | None = None,
    ) -> None:
        self.warm, dataset = warm, dataset.with_relative_weights()
        if len(dataset.weights):
            compute = None  # whose shards have no weights
        if beyond is not None:
            spec = with_rows_beyond(dataset, spec)
        self.raw_targets, self.beyond = dataset.targets, beyond
        check_spec(spec, dataset)
        dataset = grouped_rows(dataset)
        self.spec, self.journal, self.resume = spec, journal, resume
        self.row_groups = dataset.row_groups
        self.scheme: Scheme = scheme(spec.approximation, spec.power)
        held_out = held_out_rows(dataset, spec)
        rows_beyond = 0 if beyond is None else beyond.count
        self.shares = Shares.of(len(dataset.targets) + rows_beyond, spec)
        with journal.phase(Phase.STARTING, 0.0):
            journal.part(0.0, self.shares.choices)
            table = transformed_table(dataset, spec, held_out, beyond, workers=workers, tell=journal.tell)
        self.begin = self.shares.choices if table.compared else 0.0
        self.dataset, self.other_choices = table.dataset, table.others
        self.rows = RunRows(
            dataset=self.dataset, held_out=held_out, spec=spec, workers=workers, compute=compute, beyond=beyond
        )
        self.results = Results(
            spec=spec,
            dataset=self.dataset,
            raw_targets=dataset.targets,
            transform_choice=table.target,
            input_choice=table.inputs,
            held_out=held_out,
            journal=journal,
            unlearnt=unlearnt,
            rows_beyond=rows_beyond,
        )
        self.raw_others = dataset.others
        self.sparse_end = 1.0
        self.published: Outcome | FullModel | None = None
        self.reason, self.warnings = "", list[str]()
        self.sparse_read = CalibrationResult()
        self.other_reads: list[CalibrationResult] = []
        self.other_means: list[ServedMean] = []

    def result(self) -> TrainResult:
        with warnings.catch_warnings(record=True) as self.journal.caught:
            warnings.simplefilter("always", RuntimeWarning)
            search = Search(
                self.spec,
                self.scheme,
                self.rows.searched(),
                self.journal,
                self.resume,
                self.warm,
                self.rows.beyond_sums(self.results.transform, self.scheme),
                rounds=(self.shares.started, self.shares.searched),
            )
            full = self._full(search)
            far_behind = self._beside(full, search)
            found = search.solve()
            self._rebase(search.evaluation_seconds)
            if full is not None and far_behind is not None and far_behind.candidate is not None:
                self.journal.part(0.0, 1.0)
                return self._of_full(full, (far_behind.candidate,), "the sparse model is far behind")
            outcome = self._outcome(search, found)
            if self.spec.adaptation is not None and outcome.read.no_better_than_constant(outcome.fit.subset.rows):
                self.results.constant = True
                outcome = self._outcome(*search.constant())
            self.sparse_read = outcome.read
            if not (self.spec.fixed_mean or self.results.constant):
                outcome = self._with_mean(outcome)
            elif self.spec.mean_rows is not MeanRows.BASIS:
                self.journal.warn(CONSTANT_MEAN if self.results.constant else FIXED_MEAN)
            self.journal.part(0.0, 1.0)
            candidates = outcome.choice.candidates
            if full is not None:
                candidates = candidates or (self.results.sparse_candidate(outcome),)
                taken, reason = self.results.compare(full, outcome)
                if taken:
                    self.results.constant = False
                    return self._of_full(full, candidates, reason)
                candidates = (*candidates, replace(self.results.full_candidate(full), reason=reason))
            if self.results.constant:
                self.journal.warn(CONSTANT_MODEL)
            self.published = outcome = self._with_others(outcome)
            self.warnings = list(self.journal.warnings)
            return self.results.of_sparse(outcome, candidates)

    def of_others(self, unlearnt: Sequence[UnlearntRows | None]) -> list[TrainResult | None]:
        """Return the results of the other targets after that of the first; None for each that has to be trained by
        itself."""
        if self.results.constant or self.published is None:
            return [None] * len(unlearnt)
        with warnings.catch_warnings(record=True) as self.journal.caught:
            warnings.simplefilter("always", RuntimeWarning)
            others = [
                replace(
                    self.results,
                    dataset=self.dataset.of_other(place),
                    raw_targets=self.raw_others[:, place],
                    transform_choice=choice,
                    unlearnt=rows,
                    journal=self.journal.beside(self.warnings),
                )
                for place, (choice, rows) in enumerate(zip(self.other_choices, unlearnt, strict=True))
            ]
            if isinstance(self.published, Outcome):
                return sparse_results(self.published, self.other_reads, self.other_means, others)
            with self.journal.phase(Phase.FITTING, 1.0):
                seed, random = (self.spec.seed, Stage.FULL), random_of(self.spec, Stage.FULL)
                return full_results(self.published, others, self.spec, seed, random, self.reason, self.journal.tell)

    def _of_full(self, full: FullModel, candidates: tuple[Candidate, ...], reason: str) -> TrainResult:
        self.published, self.reason, self.warnings = full, reason, list(self.journal.warnings)
        return self.results.of_full(full, candidates, reason)

    def _with_others(self, outcome: Outcome) -> Outcome:
        """Calibrate the other targets; where the mean rests on more rows compute it for all in lockstep."""
        if not self.other_choices or self.results.constant:
            return outcome
        seed = (self.spec.seed, Stage.CALIBRATE)
        if outcome.choice.mean is None:
            with self.journal.phase(Phase.CALIBRATING, 0.96):
                self.other_reads = reads_of(outcome.fit, self.sparse_read, self.spec, seed)
            return outcome
        with self.journal.phase(Phase.FITTING, 0.97):
            first, *self.other_means = served_means(
                outcome.fit,
                self.sparse_read,
                self.spec,
                seed,
                held_out=self.results.held_out,
                count=len(outcome.choice.mean.places),
                tell=lambda share: self.journal.tell(0.97 + 0.02 * share),
            )
        predicted = self.results.with_mean(outcome.predicted, outcome.fit.subset, first)
        return replace(outcome, choice=replace(outcome.choice, mean=first), read=first.read, predicted=predicted)

    def _full(self, search: Search) -> FullModel | None:
        """Compute the full process where it is a candidate."""
        if not is_compared(self.spec, search.subset, len(self.raw_targets)):
            return None
        end = self.begin + self.shares.full * (1.0 - self.begin)
        self.journal.part(self.begin, end)
        with self.journal.phase(Phase.ADAPTING, 0.0):
            whole, seed = self.rows.whole(search.subset), (self.spec.seed, Stage.FULL)
            start = search.first_theta()
            full = full_model(whole, self.results.held_out, start, self.spec, seed, self.journal.tell)
        self.begin = end
        return full

    def _beside(self, full: FullModel | None, search: Search) -> FarBehind | None:
        """Tell the search of the full process, and the journal which part of the run the search is."""
        self.sparse_end = self.begin + self.shares.sparse * (1.0 - self.begin)
        self.journal.part(self.begin, self.sparse_end)
        if full is None:
            return None

        def clock() -> float:
            return sum(self.journal.seconds.values()) - full.seconds

        far_behind = FarBehind(full, search.subset, self.scheme, clock)
        search.beside(None if self.spec.effort is Effort.BEST else far_behind)
        return far_behind

    def _rebase(self, evaluation: float) -> None:
        """Tell the journal how much is done when the search has ended. evaluation: seconds of one of the objective."""
        rows, searched = len(self.raw_targets) + self.results.rows_beyond, self.shares.searched
        done = share_searched(rows, sum(self.journal.seconds.values()), evaluation)
        if done is not None:
            self.journal.part((done - searched) / (1.0 - searched) * self.sparse_end, self.sparse_end)

    def _outcome(self, search: Search, found: Solution) -> Outcome:
        """Held-out rows predicted, the model fitted on all rows and calibrated."""
        predicted, read, selection, shares = None, None, None, self.shares
        others: tuple[Moments, ...] = ()
        if len(self.results.held_out):
            with self.journal.phase(Phase.EVALUATING, shares.searched):
                rows, tell = self.rows.learning(search.subset), self._part(shares.searched, shares.evaluated)
                fit = search.fit(rows, found, Stage.EVALUATE, tell=tell)
            if found.moved is not None:
                read = self._calibrate_moved(fit)
            inputs, learnt = self.dataset.inputs[self.results.held_out], self._posterior(fit)
            predicted = Predictor(learnt).moments(inputs)
            others = moments_of(learnt, fit, inputs)
            selection = None if self.beyond is None else fit.selection  # another one is another pass over the files
            del rows, fit  # and its blocks, before the next one's are made
        with self.journal.phase(Phase.FITTING, shares.evaluated):
            rows, tell = self.rows.whole(search.subset), self._part(shares.evaluated, shares.fitted)
            fit = search.fit(rows, found, Stage.PUBLISH, selection, tell=tell)
            fitted = self._posterior(fit)
        if read is None:
            with self.journal.phase(Phase.CALIBRATING, shares.fitted):
                read = calibrate(fit, search.spec, (self.spec.seed, Stage.CALIBRATE), self._part(shares.fitted, 0.98))
        fit.subset.rows.workspace.clear()
        return Outcome(fit=fit, fitted=fitted, read=read, predicted=predicted, other_predicted=others)

    def _with_mean(self, outcome: Outcome) -> Outcome:
        """Compare, or take, a mean on more rows; held-out rows are then predicted by it, without their fold."""
        fit, took = outcome.fit, sum(self.journal.seconds.values())
        self.journal.part(self.sparse_end, 1.0)
        with self.journal.phase(Phase.FITTING, 0.0):
            choice = choose_mean(
                fit,
                outcome.read,
                self.spec,
                self.results.transform,
                self.raw_targets[fit.subset.numbers],
                (self.spec.seed, Stage.CALIBRATE),
                held_out=self.results.held_out,
                seconds=took,
                tell=lambda share: self.journal.tell(0.95 * share),
            )
        if choice.note is not None:
            self.journal.warn(choice.note)
        if choice.mean is None:
            return replace(outcome, choice=choice)
        predicted = self.results.with_mean(outcome.predicted, fit.subset, choice.mean)
        return replace(outcome, choice=choice, read=choice.mean.read, predicted=predicted)

    def _calibrate_moved(self, fit: Fit) -> CalibrationResult | None:
        """Calibrate by half of the held-out rows, which the report then does without; None where they are too few."""
        half = self._half(self.results.held_out)
        if self.spec.calibrate is None:
            return None
        if len(half) < LEAST_HELD_OUT:
            if len(self.raw_targets) > MOVED_ROWS:
                self.journal.warn(
                    f"{len(half)} held-out rows are too few to calibrate basis vectors that moved: "
                    "the error bars are probably too narrow"
                )
            return None
        self.results.held_out = np.setdiff1d(self.results.held_out, half)
        with self.journal.phase(Phase.CALIBRATING, self.shares.evaluated):
            return calibrate_on(fit, self.dataset, half, self.spec, (self.spec.seed, Stage.CALIBRATE))

    def _half(self, held_out: IntArray) -> IntArray:
        """Every second of some rows, or of their groups."""
        if self.row_groups.alone:
            return held_out[::2]
        return np.asarray(held_out[self.row_groups.take(held_out).group % 2 == 0])

    def _part(self, begin: float, end: float) -> Callable[[float], None]:
        """Return what hears the share of a step, which lies between these of the model's part."""
        return lambda share: self.journal.tell(begin + (end - begin) * share)

    def _posterior(self, fit: Fit) -> SparsePosterior:
        moved = fit.solution.moved
        basis = self.dataset.inputs[fit.selection.indices] if moved is None else moved
        return posterior(fit.factors, basis, self.dataset.groups, fit.subset.standardization)


def train_together(
    dataset: Dataset,
    spec: TrainSpec,
    unlearnt: Sequence[UnlearntRows | None],
    *,
    listen: Listener | None = None,
    resume: Checkpoint | None = None,
    workers: int = 1,
    compute: Compute | None = None,
    warm: WarmStart | None = None,
) -> list[TrainResult | None]:
    """Train models of all targets of a dataset at one theta, with one basis; None for a target that is predicted no
    better than by a constant so, and for all others where the first one is.

    unlearnt: rows of the table that are only scored, for each target. Args else, and what is raised, as in `train`.
    """
    run = _Run(dataset, spec, Journal(listen, _stages(spec), resume), resume, workers, compute, unlearnt[0], warm)
    first = run.result()
    return [first, *run.of_others(unlearnt[1:])]


def _stages(spec: TrainSpec) -> int:
    """Rounds, and one more if the basis moves."""
    return (0 if spec.adaptation is None else spec.adaptation.rounds) + (spec.refinement is not None)
