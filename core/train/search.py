"""The search for theta and the basis: a start, rounds of choosing and moving, a refinement if asked for.

Every random draw comes from a generator of its own, seeded by the seed and the stage, and what was found is saved after
each round, so that a search which was cut off goes on with the same numbers.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters, KernelFamily
from core.numeric.threads import map_threads
from core.process.exact import exact_nlml_and_gradient
from core.process.rows import Rows
from core.process.theta import Box, Theta
from core.selection.greedy import select
from core.selection.size import every_row
from core.selection.state import Selection
from core.sparse.factors import factorise
from core.sparse.likelihood import nlml
from core.sparse.scheme import Scheme
from core.spec import KernelChoice, TrainSpec, Variance
from core.train.beyond import BeyondSums
from core.train.fit import Fit, Solution, Subset
from core.train.kernel_choice import KERNEL_REASON, choose_kernel
from core.train.objective import (
    ExactObjective,
    descend_exactly,
    exact_objective_and_gradient,
    objective_and_gradient,
)
from core.train.optimise import FIRST_STEP, box, descend, heuristic
from core.train.progress import Checkpoint, Journal, Phase
from core.train.refine import refine
from core.train.warm import WarmStart

SCREEN_ROWS, SCREEN_STEPS, SCREEN_REACHES = 500, 30, (1.0, 0.5)
"""The start: so many rows, evaluations, and lengthscales (in sqrt(columns) standard deviations) to start from."""
POLISH_ROWS, POLISH_STEPS = 1000, 20
SETTLED, MISSES = 1e-3, 2
"""Rounds end when so many in a row lower the objective by less than this, nats a row."""
NEXT_STEP = 0.1
"""First step of a descent in later rounds, which begin near where the last one ended."""
SHORTER_ROUND, SHORTER, SHORTER_TRIES = 1, 0.5, 3
"""Round in which a second descent begins from lengthscales so much shorter, and its most descents: a few hundred
rows show no finer structure than they can resolve, and a descent may stay there."""
COMPARED_ROWS = 200_000
"""Rows on which two bases are compared, where there are more."""
CLOSE = 0.01
"""Distance behind, nats a row, within which it goes on for another descent: it may be half way."""
SELECTED, CHOSEN = 0.4, 0.55
"""Shares of a fit: where a basis is selected, and where it is compared with the last one."""
_NOTHING = Selection(indices=np.empty(0, np.int64), gains=np.empty(0), reason="nothing chosen yet")


class Stage(IntEnum):
    """Stage that a random draw belongs to; part of its seed."""

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
    KERNEL = 1 << 21
    UNLEARNT = 1 << 22
    TRANSFORM = 1 << 23
    FULL = 1 << 24
    FORWARD = 1 << 25


class Search:
    """One search on `subset`, told to `journal`; goes on from `resume`."""

    def __init__(
        self,
        spec: TrainSpec,
        scheme: Scheme,
        subset: Subset,
        journal: Journal,
        resume: Checkpoint | None,
        warm: WarmStart | None = None,
        beyond: BeyondSums | None = None,
        *,
        rounds: tuple[float, float],
    ) -> None:
        """Keep what it searches on. rounds: share of the run that is done when they begin, and when the search ends."""
        self._started, self._searched = rounds
        self.evaluation_seconds = 0.0  # of the last one of the objective
        self._warm, self._beyond = warm, beyond
        self.spec, self._scheme, self._subset, self._journal, self._resume = spec, scheme, subset, journal, resume
        self._rounds = 0 if spec.adaptation is None else spec.adaptation.rounds
        self._adapting = _share_of_rounds(spec) * (self._searched - self._started)
        self._first: Hyperparameters | None = None
        self._chooses_kernel = spec.kernel is KernelChoice.AUTO
        self._enough: Callable[[Solution], bool] | None = None

    def beside(self, enough: Callable[[Solution], bool] | None) -> None:
        """Search beside another candidate, which has the kernels: with the one that is asked for, or the gaussian.

        enough: asked after the first round; True ends the search.
        """
        self._chooses_kernel, self._enough = False, enough

    def first_theta(self) -> Hyperparameters:
        """Theta of a full process on random rows, where the search begins: of the kernel that is asked for, or of the
        gaussian. O(n^3) of POLISH_ROWS, once."""
        if self._first is None and self._warm is not None:
            self._first = self._warm.within(box(self._subset.rows))
            if self.spec.kernel is not KernelChoice.AUTO:
                self._first = replace(self._first, kernel=_family(self.spec))
        if self._first is None:
            self._first = self._screened(self._subset.rows, box(self._subset.rows))
        return self._first

    def solve(self) -> Solution:
        """Theta and basis, moved if that was asked for."""
        found = self._refine(self._adapt())
        self._subset.rows.workspace.clear()
        return found

    @property
    def subset(self) -> Subset:
        """Rows that are searched on."""
        return self._subset

    def constant(self) -> tuple["Search", Solution]:
        """A model that says no more than the target's mean and variance: theta where every row is alike, a single basis
        vector; and the search whose end it is. Why the kernel was chosen is told no longer."""
        self._journal.withdraw(KERNEL_REASON)
        bounds = box(self._subset.rows)
        longest = Theta(values=bounds.lower)  # lengthscales; and the smallest signal
        theta = longest.with_noise(self._subset.rows.mean_square)
        start = Theta(values=bounds.clip(theta.values)).hyperparameters(_family(self.spec))
        spec = replace(self.spec, start=start, adaptation=None, refinement=None, basis_size=1, variance=Variance.AUTO)
        rounds = self._started, self._searched
        search = Search(spec, self._scheme, self._subset, self._journal, None, beyond=self._beyond, rounds=rounds)
        return search, Solution(theta=start, selection=_NOTHING)

    def fit(
        self,
        subset: Subset,
        found: Solution,
        stage: int,
        selection: Selection | None = None,
        *,
        tell: Callable[[float], None] = lambda _: None,
    ) -> Fit:
        """Fit any subset: a basis chosen at theta, the one that is given, or the one that has moved, and the factors on
        it and on the rows beyond. tell: hears the share that is done."""
        if found.moved is not None:
            Z, selection = subset.standardization.inputs(found.moved), found.selection
        else:
            selection = selection or self._better_basis(subset, found, stage, tell)
            Z = subset.basis(selection)
        tell(CHOSEN)
        beyond = None if self._beyond is None else self._beyond(Z, found.theta)
        factors = factorise(subset.rows, Z, found.theta, self._scheme, beyond=beyond)
        return Fit(subset=subset, solution=found, selection=selection, factors=factors)

    def _adapt(self) -> Solution:
        """The rounds."""
        bounds = box(self._subset.rows)
        if self._resume is not None:
            found = self._resumed(self._resume)
        else:
            with self._journal.phase(Phase.STARTING, 0.0):
                theta = self._start(self._subset.rows, bounds)
            begun = _NOTHING if self._warm is None else self._warm.selection(self._subset)
            found = self._save(Solution(theta=theta, selection=begun))
        while self._journal.round < self._rounds:
            if self._journal.round == 1 and self._enough is not None and self._enough(found):
                return found
            found = self._round(bounds, found)
            self._journal.round += 1
            found = self._save(found)
        return found

    def _round(self, bounds: Box, found: Solution) -> Solution:
        """Choose a basis at theta, then move theta with the basis held fixed; the second round does it twice or more.

        The pair of theta and basis with the lowest objective is kept: a new basis at a better theta may be a worse
        pair, and a random pool a lucky one.
        """
        number = self._journal.round
        tries = [SHORTER_TRIES if each == SHORTER_ROUND else 1 for each in range(self._rounds)]
        share = self._adapting * tries[number] / sum(tries)
        begin = self._started + self._adapting * sum(tries[:number]) / sum(tries)
        if number != SHORTER_ROUND:
            tried = [self._try(bounds, found, Stage.ROUND + number, begin, share)]
        else:
            part = share / SHORTER_TRIES
            shorter = replace(found.theta, lengthscales=found.theta.lengthscales * SHORTER)
            tried = [
                self._try(bounds, found, Stage.ROUND + number, begin, part),
                self._try(bounds, replace(found, theta=shorter), Stage.SHORTER, begin + part, part),
            ]
            behind = tried[1][0] - tried[0][0]
            if 0.0 < behind < CLOSE * len(self._subset.rows):
                tried.append(self._try(bounds, tried[1][1], Stage.SHORTER_ON, begin + 2.0 * part, part))
        value, best = min(tried, key=lambda outcome: outcome[0])
        better = not self._journal.objectives or value < self._journal.objectives[-1]
        self._journal.objectives.append(value if better else self._journal.objectives[-1])
        if self._settled(len(self._subset.rows)):
            self._journal.round = self._rounds - 1
        return best if better else found

    def _try(self, bounds: Box, found: Solution, stage: int, begin: float, share: float) -> tuple[float, Solution]:
        """The objective after one descent from found.theta, and where it ended."""
        subset, steps = self._subset, self.spec.adaptation.steps if self.spec.adaptation else 0
        with self._journal.phase(Phase.SELECTING, begin):
            selection = self._select(subset, found, stage)
            Z = subset.basis(selection)
        with self._journal.phase(Phase.ADAPTING, begin + 0.2 * share):
            count = self._counter(begin + 0.2 * share, 0.8 * share, steps)
            evaluate = partial(objective_and_gradient, subset.rows, Z, scheme=self._scheme, complete=selection.complete)

            def objective(candidate: Hyperparameters) -> tuple[float, FloatArray]:
                begun = time.perf_counter()
                value, gradient = evaluate(candidate)
                self.evaluation_seconds = time.perf_counter() - begun
                count(value)
                return value, gradient

            theta, value = descend(
                objective,
                found.theta,
                bounds,
                steps,
                first_step=NEXT_STEP if self._journal.round else FIRST_STEP,
            )
        return value, Solution(theta=theta, selection=selection)

    def _settled(self, rows: int) -> bool:
        """Return True where the last MISSES rounds together lowered the objective by next to nothing."""
        objectives = self._journal.objectives
        return len(objectives) > MISSES and objectives[-1 - MISSES] - objectives[-1] < SETTLED * rows

    def _refine(self, found: Solution) -> Solution:
        """Move theta and the basis vectors together, if that was asked for and is not done yet."""
        if self.spec.refinement is None or found.moved is not None or self._journal.round > self._rounds:
            return found
        subset = self._subset
        begin, steps = self._started + self._adapting, self.spec.refinement.steps
        share = self._searched - begin
        with self._journal.phase(Phase.SELECTING, begin):
            selection = self._better_basis(subset, found, Stage.REFINE)
        if selection.complete:  # nothing to gain: no other basis says more than all rows
            self._journal.round += 1
            return self._save(replace(found, selection=selection))
        with self._journal.phase(Phase.REFINING, begin + 0.1 * share):
            Z = subset.basis(selection)
            count = self._counter(begin + 0.1 * share, 0.9 * share, steps)
            Z, theta, _ = refine(subset.rows, Z, found.theta, self._scheme, box(subset.rows), steps, count)
        self._journal.round += 1
        moved = subset.standardization.raw_inputs(Z)
        return self._save(Solution(theta=theta, selection=selection, moved=moved))

    def _counter(self, begin: float, share: float, steps: int) -> Callable[[float], None]:
        """Listener of the objective of each evaluation, which tells how far the phase is."""
        done = 0

        def count(objective: float) -> None:
            nonlocal done
            done += 1
            self._journal.tell(begin + share * min(done / (steps + 3), 1.0), objective)

        return count

    def _start(self, rows: Rows, bounds: Box) -> Hyperparameters:
        """The hyperparameters given, or those of a full GP on random rows: two starts, the better one polished."""
        if self.spec.start is not None:
            if self.spec.kernel is KernelChoice.AUTO:
                self._journal.warn(f"the kernel is {self.spec.start.kernel}: with hyperparameters given none is chosen")
            return self.spec.start
        polished = self.first_theta()
        if self._warm is not None or not self._chooses_kernel:
            return polished
        self._journal.tell(0.7 * self._started)
        objective, screen, _ = self._start_rows(rows)
        random = random_of(self.spec, Stage.KERNEL)
        groups = self._subset.dataset.row_groups
        chosen, reason = choose_kernel(
            rows, screen, polished, objective, bounds, self.spec, self._scheme, random, groups
        )
        self._journal.warn(reason)
        return chosen

    def _start_rows(self, rows: Rows) -> tuple[ExactObjective, Rows, Rows]:
        """The exact objective, and the rows that starts are screened and polished on."""
        small = every_row(rows, self.spec) is not None
        order = random_of(self.spec, Stage.START).permutation(len(rows))
        objective = exact_objective_and_gradient if small else exact_nlml_and_gradient
        return objective, _some(rows, order[:SCREEN_ROWS]), _some(rows, order[:POLISH_ROWS])

    def _screened(self, rows: Rows, bounds: Box) -> Hyperparameters:
        """Two starts on a few rows, the better one polished on more."""
        objective, screen, polish = self._start_rows(rows)

        def screened(reach: float) -> tuple[Hyperparameters, float]:
            start = heuristic(rows, reach=reach, kernel=_family(self.spec))
            return descend_exactly(objective, screen, start, bounds, SCREEN_STEPS)

        tried = map_threads(screened, SCREEN_REACHES)
        self._journal.tell(0.5 * self._started)
        best = min(tried, key=lambda outcome: outcome[1])[0]
        return descend_exactly(objective, polish, best, bounds, POLISH_STEPS)[0]

    def _select(self, subset: Subset, found: Solution, stage: int) -> Selection:
        """A basis chosen at theta, with the last one among the candidates; indices are rows of the dataset."""
        last = subset.places(found.selection)
        subset.rows.workspace.clear()  # of the descent before, whose blocks a choice has no use for
        selection = select(subset.rows, found.theta, self.spec, random_of(self.spec, stage), last)
        self._journal.basis_size = len(selection.indices)
        return replace(selection, indices=subset.numbers[selection.indices])

    def _better_basis(
        self, subset: Subset, found: Solution, stage: int, tell: Callable[[float], None] = lambda _: None
    ) -> Selection:
        """A basis chosen at theta, or the last one where the objective says that it is the better."""
        selection, last = self._select(subset, found, stage), found.selection
        if selection.complete or not len(last.indices):
            return selection
        subset.rows.workspace.clear()
        tell(SELECTED)
        rows = subset.rows
        if len(rows) > COMPARED_ROWS:
            some = np.sort(random_of(self.spec, stage).permutation(len(rows))[-COMPARED_ROWS:])
            rows = rows.sample(some)
        before, now = (
            nlml(factorise(rows, subset.basis(each), found.theta, self._scheme)) for each in (last, selection)
        )
        rows.workspace.clear()
        if now <= before:
            return selection
        self._journal.basis_size = len(last.indices)
        return replace(last, reason="the basis of the best round is better than a new one", measures=np.empty(0))

    def _save(self, found: Solution) -> Solution:
        """A checkpoint; and what a run that goes on from it would have, to the last bit."""
        self._journal.hear()
        theta = Theta.of(found.theta).values
        self._journal.save(
            theta=tuple(theta.tolist()),
            indices=tuple(found.selection.indices.tolist()),
            gains=tuple(None if np.isnan(gain) else float(gain) for gain in found.selection.gains),
            basis=() if found.moved is None else tuple(map(tuple, found.moved.tolist())),
            kernel=found.theta.kernel.value,
        )
        return replace(found, theta=self._exactly(self._journal.round, theta, found.theta.kernel))

    def _resumed(self, saved: Checkpoint) -> Solution:
        indices, gains = np.array(saved.indices, np.int64), np.array(saved.gains, np.float64)
        return Solution(
            theta=self._exactly(saved.round, np.array(saved.theta), KernelFamily(saved.kernel)),
            selection=Selection(indices=indices, gains=gains, reason="as before the run was cut off"),
            moved=np.array(saved.basis) if saved.basis else None,
        )

    def _exactly(self, rounds: int, theta: FloatArray, kernel: KernelFamily) -> Hyperparameters:
        """Restore hyperparameters from a checkpoint's theta; given ones are not moved by the detour over logarithms."""
        if self.spec.start is not None and rounds == 0:
            return self.spec.start
        return Theta(values=theta).hyperparameters(kernel)


def _family(spec: TrainSpec) -> KernelFamily:
    """Return the kernel that a search begins with."""
    return KernelFamily.GAUSSIAN if spec.kernel is KernelChoice.AUTO else KernelFamily(spec.kernel)


def random_of(spec: TrainSpec, stage: int) -> np.random.Generator:
    """Generator that one stage draws from."""
    return np.random.default_rng([spec.seed, stage])


def _share_of_rounds(spec: TrainSpec) -> float:
    """Share of the rounds in the work between start and evaluation, against the refinement, by evaluations."""
    rounds = 0 if spec.adaptation is None else spec.adaptation.rounds * spec.adaptation.steps
    moves = 0 if spec.refinement is None else spec.refinement.steps
    return rounds / max(rounds + moves, 1)


def _some(rows: Rows, places: IntArray) -> Rows:
    others = rows.others[places] if rows.several else rows.others
    weights = rows.weights[places] if rows.weighted else rows.weights
    return Rows(X=rows.X[places], y=rows.y[places], groups=rows.groups, others=others, weights=weights)
