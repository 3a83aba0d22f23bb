"""Algorithm 1 of Smola & Bartlett 2001 by `core`: the greedy sets for Q and Q*, and the gap after every step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.process.rows import Rows
from core.selection.greedy import select
from core.sparse.bounds import DualGreedy, PosteriorBounds, posterior_bounds
from core.sparse.factors import Factors, factorise
from core.sparse.scheme import Penalty, Scheme
from core.spec import Method, TrainSpec
from tests.benchmarks.papers import smola_bartlett_published as published

ALL = 0
"""Number of candidates in place of kappa: every row."""
DTC = Scheme(power=0.0, penalty=Penalty.NONE)


def theta(columns: int, width: float, noise_variance: float) -> Hyperparameters:
    """2 omega^2 = width: v0 = 1, no bias."""
    return Hyperparameters(
        lengthscales=np.full(columns, np.sqrt(width / 2.0)),
        signal_variance=1.0,
        bias_variance=0.0,
        noise_variance=noise_variance,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Pursuit:
    """Algorithm 1 for so many steps: rows chosen for Q and for Q*, and both values after each step."""

    rows: Rows
    hyperparameters: Hyperparameters
    kappa: int
    steps: int
    seed: int

    @cached_property
    def chosen(self) -> FloatArray:
        """Rows of the primal set, in order, beside what each lowers Q by: (d, 2)."""
        if self.kappa == ALL:
            spec = TrainSpec(method=Method.BATCH, pool_size=len(self.rows), basis_size=self.steps)
        else:
            spec = TrainSpec(method=Method.SB, candidates=self.kappa, basis_size=self.steps)
        found = select(self.rows, self.hyperparameters, spec, np.random.default_rng([self.seed, 0]))
        return np.column_stack((found.indices, found.gains))

    @cached_property
    def bounds(self) -> list[PosteriorBounds]:
        """After 1, 2, .. steps."""
        random, everyone = np.random.default_rng([self.seed, 1]), np.arange(len(self.rows))
        dual, found = DualGreedy(self.rows, self.hyperparameters, len(self.chosen)), []
        for primal in (-np.cumsum(self.chosen[:, 1])).tolist():
            free = np.setdiff1d(everyone, dual.indices)
            some = free if self.kappa == ALL else random.choice(free, min(self.kappa, len(free)), replace=False)
            dual.grow(some)
            found.append(posterior_bounds(primal, dual, self.rows, self.hyperparameters))
        return found

    @property
    def gaps(self) -> FloatArray:
        """Gaps of the log posterior: the gap of section 3 after 1, 2, .. steps, (d,)."""
        return np.array([bounds.gap for bounds in self.bounds])

    @property
    def dual_gaps(self) -> FloatArray:
        """Gaps of y'(K + s2 I)^-1 y: the distance of the bounds on Q*, eq. 8, over their mean, (d,)."""
        half_power = 0.5 * float(self.rows.y @ self.rows.y)
        upper = np.array([-half_power - bounds.lower for bounds in self.bounds])  # s2 Q*
        lower = np.array([-half_power - bounds.upper for bounds in self.bounds])
        return np.asarray(2.0 * np.maximum(upper - lower, 0.0) / -(upper + lower))

    def factors(self, size: int) -> Factors:
        """DTC factors of the first `size` rows chosen."""
        basis = self.rows.X[self.chosen[:size, 0].astype(int)]
        return factorise(self.rows, basis, self.hyperparameters, DTC, keep=False)


def until(pursuit: Pursuit, most: int, gaps: Callable[[Pursuit], FloatArray]) -> tuple[Pursuit, int]:
    """Number of steps until the gap falls to the paper's tolerance; `most` where it takes more. The steps are doubled
    until it does: those of one seed begin with the same rows whatever their number is."""
    while True:
        found = gaps(pursuit)
        small = np.flatnonzero(found <= published.TOLERANCE)
        if len(small):
            return pursuit, int(small[0]) + 1
        if pursuit.steps >= most or len(found) < pursuit.steps:
            return pursuit, len(found)
        pursuit = replace(pursuit, steps=min(2 * pursuit.steps, most))
