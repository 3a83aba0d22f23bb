"""The search for theta and the basis: a start, rounds of choosing and moving, a refinement if asked for.

Every random draw comes from a generator of its own, seeded by the seed and the stage, and what was found is saved after
each round, so that a search which was cut off goes on with the same numbers.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from functools import partial

import numpy as np

from core.adaptation import FIRST_STEP, Box, box, descend, heuristic, hyperparameters_of, theta_of
from core.exact import exact_nlml_and_gradient
from core.factors import Rows, Scheme, factorise
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.likelihood import nlml
from core.objective import exact_objective_and_gradient, objective_and_gradient
from core.parallel import each
from core.progress import Checkpoint, Journal, Phase
from core.refinement import refine
from core.sample import Fit, Found, Sample
from core.selection.greedy import select
from core.selection.size import every_row
from core.selection.state import Selection
from core.spec import TrainSpec

SCREEN_ROWS, SCREEN_STEPS, SCREEN_REACHES = 500, 30, (1.0, 0.5)
"""The start: so many rows, evaluations, and lengthscales (in sqrt(columns) standard deviations) to start from."""
POLISH_ROWS, POLISH_STEPS = 1000, 20
SETTLED, MISSES = 1e-3, 2
"""Rounds end when so many in a row lower the objective by less than this, nats a row."""
START_SETTLED = 1e-4
"""A descent of the start ends when its last two steps each lowered the objective by less than this, nats a row. Those
of the rounds do not: what follows a plateau counts (bank8FM, three seeds: NMSE .035; .038 if they did)."""
NEXT_STEP = 0.1
"""First step of a descent in later rounds, which begin near where the last one ended."""
SHORTER_ROUND, SHORTER = 1, 0.5
"""In this round a second descent begins from lengthscales so much shorter: a few hundred rows show no finer structure
than they can resolve, and on cal_housing every objective but FITC's then stayed there (NMSE .22 for .195)."""
COMPARED_ROWS = 200_000
"""Rows on which two bases are compared, where there are more."""
CLOSE = 0.01
"""Where it ends no more than this behind, nats a row, it goes on for another: it may be half way (cal_housing, with one
processor's rounding: .004 behind, and NMSE .219 where it stopped, .197 where it went on)."""
STARTED, SEARCHED = 0.1, 0.75
"""Shares of a run: where the rounds begin, and where the search has ended."""
_NOTHING = Selection(indices=np.empty(0, np.int64), gains=np.empty(0), reason="nothing chosen yet")


class Stage(IntEnum):
    """Where a random draw belongs; part of its seed."""

    HOLDOUT = 0
    START = 1
    EVALUATE = 2
    PUBLISH = 3
    REFINE = 4
    CALIBRATE = 5
    SHORTER = 6
    SEARCH = 7
    ROUND = 8
    SHORTER_ON = 1 << 20


class Search:
    """One search on `sample`, told to `journal`; goes on from `resume`."""

    def __init__(
        self, spec: TrainSpec, scheme: Scheme, sample: Sample, journal: Journal, resume: Checkpoint | None
    ) -> None:
        self._spec, self._scheme, self._sample, self._journal, self._resume = spec, scheme, sample, journal, resume
        self._rounds = 0 if spec.adaptation is None else spec.adaptation.rounds
        self._adapting = _share_of_rounds(spec) * (SEARCHED - STARTED)

    def found(self) -> Found:
        """Theta and basis, moved if that was asked for."""
        found = self._refine(self._adapt())
        self._sample.rows.scratch.clear()
        return found

    @property
    def spec(self) -> TrainSpec:
        """What is searched for."""
        return self._spec

    def flat(self) -> tuple["Search", Found]:
        """A model that says no more than the target's mean and variance: theta where every row is alike, a single basis
        vector; and the search whose end it is."""
        bounds = box(self._sample.rows)
        theta = bounds.lower.copy()  # the longest lengthscales, the smallest signal
        theta[-1] = np.log(np.mean(np.square(self._sample.rows.y)))
        start = hyperparameters_of(bounds.clip(theta))
        spec = replace(self._spec, start=start, adaptation=None, refinement=None, basis_size=1)
        search = Search(spec, self._scheme, self._sample, self._journal, None)
        return search, Found(theta=start, selection=_NOTHING)

    def fit(self, sample: Sample, found: Found, stage: int) -> Fit:
        """On any sample: a basis chosen at theta, or the one that has moved, and the factors on it."""
        if found.moved is not None:
            factors = factorise(sample.rows, sample.standardization.inputs(found.moved), found.theta, self._scheme)
            return Fit(sample=sample, found=found, selection=found.selection, factors=factors)
        selection = self._better_basis(sample, found, stage)
        factors = factorise(sample.rows, sample.basis(selection), found.theta, self._scheme)
        return Fit(sample=sample, found=found, selection=selection, factors=factors)

    def _adapt(self) -> Found:
        """The rounds."""
        bounds = box(self._sample.rows)
        if self._resume is not None:
            found = self._resumed(self._resume)
        else:
            with self._journal.phase(Phase.STARTING, 0.0):
                theta = self._start(self._sample.rows, bounds)
            found = self._save(Found(theta=theta, selection=_NOTHING))
        while self._journal.round < self._rounds:
            found = self._round(bounds, found)
            self._journal.round += 1
            found = self._save(found)
        return found

    def _round(self, bounds: Box, found: Found) -> Found:
        """Choose a basis at theta, then move theta with the basis held fixed; the second round does it twice or more.

        The pair of theta and basis with the lowest objective is kept: a new basis at a better theta may be a worse
        pair, and a random pool a lucky one.
        """
        number, share = self._journal.round, self._adapting / self._rounds
        begin = STARTED + share * number
        if number != SHORTER_ROUND:
            tried = [self._try(bounds, found, Stage.ROUND + number, begin, share)]
        else:
            part = share / 3.0
            shorter = replace(found.theta, lengthscales=found.theta.lengthscales * SHORTER)
            tried = [
                self._try(bounds, found, Stage.ROUND + number, begin, part),
                self._try(bounds, replace(found, theta=shorter), Stage.SHORTER, begin + part, part),
            ]
            behind = tried[1][0] - tried[0][0]
            if 0.0 < behind < CLOSE * len(self._sample.rows):
                tried.append(self._try(bounds, tried[1][1], Stage.SHORTER_ON, begin + 2.0 * part, part))
        value, best = min(tried, key=lambda outcome: outcome[0])
        better = not self._journal.objectives or value < self._journal.objectives[-1]
        self._journal.objectives.append(value if better else self._journal.objectives[-1])
        if self._settled(len(self._sample.rows)):
            self._journal.round = self._rounds - 1
        return best if better else found

    def _try(self, bounds: Box, found: Found, stage: int, begin: float, share: float) -> tuple[float, Found]:
        """The objective after one descent from found.theta, and where it ended."""
        sample, steps = self._sample, self._spec.adaptation.steps if self._spec.adaptation else 0
        with self._journal.phase(Phase.SELECTING, begin):
            selection = self._select(sample, found, stage)
            Z = sample.basis(selection)
        with self._journal.phase(Phase.ADAPTING, begin + 0.2 * share):
            count = self._counter(begin + 0.2 * share, 0.8 * share, steps)
            evaluate = partial(objective_and_gradient, sample.rows, Z, scheme=self._scheme, complete=selection.complete)

            def objective(candidate: Hyperparameters) -> tuple[float, FloatArray]:
                value, gradient = evaluate(candidate)
                count(value)
                return value, gradient

            theta, value = descend(
                objective,
                found.theta,
                bounds,
                steps,
                first_step=NEXT_STEP if self._journal.round else FIRST_STEP,
            )
        return value, Found(theta=theta, selection=selection)

    def _settled(self, rows: int) -> bool:
        """Whether the last MISSES rounds together lowered the objective by next to nothing."""
        objectives = self._journal.objectives
        return len(objectives) > MISSES and objectives[-1 - MISSES] - objectives[-1] < SETTLED * rows

    def _refine(self, found: Found) -> Found:
        """Move theta and the basis vectors together, if that was asked for and is not done yet."""
        if self._spec.refinement is None or found.moved is not None or self._journal.round > self._rounds:
            return found
        sample = self._sample
        begin, share, steps = STARTED + self._adapting, SEARCHED - STARTED - self._adapting, self._spec.refinement.steps
        with self._journal.phase(Phase.SELECTING, begin):
            selection = self._better_basis(sample, found, Stage.REFINE)
        if selection.complete:  # nothing to gain: no other basis says more than all rows
            self._journal.round += 1
            return self._save(replace(found, selection=selection))
        with self._journal.phase(Phase.REFINING, begin + 0.1 * share):
            Z = sample.basis(selection)
            count = self._counter(begin + 0.1 * share, 0.9 * share, steps)
            Z, theta, _ = refine(sample.rows, Z, found.theta, self._scheme, box(sample.rows), steps, count)
        self._journal.round += 1
        moved = sample.standardization.raw_inputs(Z)
        return self._save(Found(theta=theta, selection=selection, moved=moved))

    def _counter(self, begin: float, share: float, steps: int) -> Callable[[float], None]:
        """Hears the objective of each evaluation, and tells how far the phase is."""
        done = 0

        def count(objective: float) -> None:
            nonlocal done
            done += 1
            self._journal.tell(begin + share * min(done / (steps + 3), 1.0), objective)

        return count

    def _start(self, rows: Rows, bounds: Box) -> Hyperparameters:
        """The hyperparameters given, or those of a full GP on random rows: two starts, the better one polished."""
        if self._spec.start is not None:
            return self._spec.start
        small = every_row(rows, self._spec) is not None
        objective = exact_objective_and_gradient if small else exact_nlml_and_gradient
        order = random_of(self._spec, Stage.START).permutation(len(rows))
        screen, polish = _some(rows, order[:SCREEN_ROWS]), _some(rows, order[:POLISH_ROWS])

        def screened(reach: float) -> tuple[Hyperparameters, float]:
            start = heuristic(rows, reach=reach)
            return _exact(objective, screen, start, bounds, SCREEN_STEPS)

        tried = each(screened, SCREEN_REACHES)
        self._journal.tell(0.05)
        best = min(tried, key=lambda outcome: outcome[1])[0]
        return _exact(objective, polish, best, bounds, POLISH_STEPS)[0]

    def _select(self, sample: Sample, found: Found, stage: int) -> Selection:
        """A basis chosen at theta, with the last one among the candidates; indices are rows of the dataset."""
        last = sample.places(found.selection)
        selection = select(sample.rows, found.theta, self._spec, random_of(self._spec, stage), last)
        self._journal.basis_size = len(selection.indices)
        return replace(selection, indices=sample.numbers[selection.indices])

    def _better_basis(self, sample: Sample, found: Found, stage: int) -> Selection:
        """A basis chosen at theta, or the last one where the objective says that it is the better."""
        selection, last = self._select(sample, found, stage), found.selection
        if selection.complete or not len(last.indices):
            return selection
        sample.rows.scratch.clear()
        rows = sample.rows
        if len(rows) > COMPARED_ROWS:
            some = np.sort(random_of(self._spec, stage).permutation(len(rows))[-COMPARED_ROWS:])
            rows = rows.take(some, workers=rows.workers)
        before, now = (
            nlml(factorise(rows, sample.basis(each), found.theta, self._scheme)) for each in (last, selection)
        )
        rows.scratch.clear()
        if now <= before:
            return selection
        self._journal.basis_size = len(last.indices)
        return replace(last, reason="the basis of the best round is better than a new one", measures=np.empty(0))

    def _save(self, found: Found) -> Found:
        """A checkpoint; and what a run that goes on from it would have, to the last bit."""
        self._journal.hear()
        theta = theta_of(found.theta)
        self._journal.save(
            theta=tuple(theta.tolist()),
            indices=tuple(found.selection.indices.tolist()),
            gains=tuple(None if np.isnan(gain) else float(gain) for gain in found.selection.gains),
            basis=() if found.moved is None else tuple(map(tuple, found.moved.tolist())),
        )
        return replace(found, theta=self._exactly(self._journal.round, theta))

    def _resumed(self, saved: Checkpoint) -> Found:
        indices, gains = np.array(saved.indices, np.int64), np.array(saved.gains, np.float64)
        return Found(
            theta=self._exactly(saved.round, np.array(saved.theta)),
            selection=Selection(indices=indices, gains=gains, reason="as before the run was cut off"),
            moved=np.array(saved.basis) if saved.basis else None,
        )

    def _exactly(self, rounds: int, theta: FloatArray) -> Hyperparameters:
        """From a checkpoint's theta; those that were given are not moved by the detour over logarithms."""
        return self._spec.start if self._spec.start is not None and rounds == 0 else hyperparameters_of(theta)


def random_of(spec: TrainSpec, stage: int) -> np.random.Generator:
    """What one stage draws from."""
    return np.random.default_rng([spec.seed, stage])


def _exact(
    objective: Callable[[Rows, Hyperparameters], tuple[float, FloatArray]],
    rows: Rows,
    start: Hyperparameters,
    bounds: Box,
    steps: int,
) -> tuple[Hyperparameters, float]:
    """A descent of the full GP's objective."""
    settled = START_SETTLED * len(rows)
    return descend(partial(objective, rows), start, bounds, steps, settled=settled)


def _share_of_rounds(spec: TrainSpec) -> float:
    """How much of the work between start and evaluation the rounds are, against the refinement, by evaluations."""
    rounds = 0 if spec.adaptation is None else spec.adaptation.rounds * spec.adaptation.steps
    moves = 0 if spec.refinement is None else spec.refinement.steps
    return rounds / max(rounds + moves, 1)


def _some(rows: Rows, places: IntArray) -> Rows:
    return Rows(X=rows.X[places], y=rows.y[places], groups=rows.groups)
