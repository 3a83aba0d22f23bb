"""Fits without a fold of the rows, each as careful as the run's own.

A fold chooses its basis again. Where rows are few for the number of hyperparameters theta itself has fitted the noise,
so there each moves theta again too; and where basis vectors moved they move again.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from core.arrays import IntArray
from core.hyperparameters import Hyperparameters
from core.process.rows import Rows
from core.process.theta import Theta
from core.selection.greedy import pool_size, select
from core.selection.pool import Pool
from core.selection.state import Selection
from core.sparse.factors import Factors, factorise
from core.sparse.likelihood import nlml
from core.sparse.scheme import Scheme
from core.spec import Method, TrainSpec
from core.train.cross_fit import CROSS_FIT_FOLDS
from core.train.fit import Fit
from core.train.objective import objective_and_gradient
from core.train.optimise import box, descend, half_way, heuristic
from core.train.refine import refine

Seed = tuple[int, ...]
ROWS_FOR_EACH = 100
"""Rows for each hyperparameter below which folds move theta again."""
WARM_STEPS, FORGETTING_STEPS = 20, 30
"""Evaluations of a fold's descent; the second from half way back to where a search begins, where all rows are the
basis: from the end of the search theta hardly moves, though it has seen the fold."""
FEW_FOLDS = 5
"""Folds where each has to choose a large basis step by step."""
DRAWS, SMALL_BASIS = 3, 100
"""A fold chooses among so many bases, if they are this small."""
RICHER = 1.5
"""The pool that folds share is so much larger than the run's own where that chose the best basis of its rounds: the
folds' fits are then as good as the published one."""
_POOL = 1_001
"""Part of the seed of the pool that folds share, past every fold's number."""


class FoldFits:
    """Fits on some of a subset's rows, each basis chosen by these alone, as carefully as the run chose its own."""

    def __init__(self, fit: Fit, spec: TrainSpec, seed: Seed) -> None:
        rows, self._seed = fit.subset.rows, seed
        self._rows, self._theta, self._scheme = rows, fit.solution.theta, fit.factors.scheme
        size = len(fit.selection.indices)
        self._complete = fit.selection.complete
        self._fixed = not self._complete
        self._spec = replace(spec, basis_size=size) if self._fixed else replace(spec, max_basis_size=size)
        self._warm = moves_theta(spec, fit)
        self._pool = None
        self._moved = fit.solution.moved is not None
        drawn = spec.method is Method.BATCH and not (self._complete or self._moved)
        drawn = drawn and not fit.subset.dataset.row_groups.forward
        if drawn and not self._warm and self._spec.most_basis > SMALL_BASIS:
            order = np.random.default_rng([*seed, _POOL]).permutation(len(rows))
            rounds = 0 if spec.adaptation is None else spec.adaptation.rounds
            most = int((RICHER if rounds > 1 else 1.0) * pool_size(self._spec, self._spec.most_basis))
            self._pool = Pool(rows, order[:most], self._theta)

    @property
    def count(self) -> int:
        """Many where each is cheap."""
        if self._moved:
            return FEW_FOLDS
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
        spec = replace(self._spec, basis_size=min(self._spec.most_basis, len(rest))) if self._fixed else self._spec
        selection, factors = _best_of_draws(rows, self._theta, spec, self._scheme, random)
        if self._moved:
            return self._refined(rows, factors)
        if not self._warm:
            return factors
        objective = partial(objective_and_gradient, rows, factors.Z, scheme=self._scheme, complete=selection.complete)
        begin, steps = self._theta, WARM_STEPS
        if selection.complete:  # nothing else that saw the fold is forgotten
            begin, steps = half_way(begin, heuristic(rows, kernel=begin.kernel)), FORGETTING_STEPS
        theta, _ = descend(objective, begin, box(rows), steps)
        return _best_of_draws(rows, theta, spec, self._scheme, random)[1]

    def _refined(self, rows: Rows, factors: Factors) -> Factors:
        """Move theta and the basis together, as the run did, on the rows of the fold alone."""
        assert self._spec.refinement is not None
        steps = self._spec.refinement.steps
        Z, theta, _ = refine(rows, factors.Z, self._theta, self._scheme, box(rows), steps)
        return factorise(rows, Z, theta, self._scheme, keep=False)


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


def moves_theta(spec: TrainSpec, fit: Fit) -> bool:
    """Return whether rows are so few that folds move theta again."""
    few = len(fit.subset.rows) < ROWS_FOR_EACH * Theta.size(len(fit.solution.theta.lengthscales))
    return few and spec.adaptation is not None
