"""A regression with noise that differs from row to row, and its folds."""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import KernelFamily
from core.mean.folds import Folds
from core.process.kernel import Kernel
from core.process.rows import Rows
from tests.core.problems import Problem, oracle_params, problem
from tests.dense.kernel import Params

FAMILIES = list(KernelFamily)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Rows and theta, noise variances D (n,), folds."""

    problem: Problem
    D: FloatArray
    folds: Folds

    @property
    def kernel(self) -> Kernel:
        """Kernel of the problem."""
        return Kernel.of(self.problem.hyperparameters, self.problem.groups)

    @property
    def params(self) -> Params:
        """The same as the oracles take it."""
        return oracle_params(self.problem.hyperparameters, self.problem.groups)

    @property
    def rows(self) -> Rows:
        """Rows, summed on one thread."""
        return self.problem.rows

    @property
    def Z(self) -> FloatArray:  # the papers' letter
        """Basis of the preconditioner."""
        return self.problem.Z

    @property
    def fold(self) -> IntArray:
        """Fold of each row."""
        return self.folds.fold


def case(seed: int, *, n: int = 120, folds: int = 4, family: KernelFamily = KernelFamily.GAUSSIAN) -> Case:
    """A problem whose noise varies by a factor of about ten."""
    random = np.random.default_rng([seed, 1])
    made = problem(seed, n=n, d=15)
    made = made.with_hyperparameters(kernel=family) if family is not KernelFamily.GAUSSIAN else made
    D = made.hyperparameters.noise_variance * np.exp(0.8 * random.normal(size=n))
    return Case(problem=made, D=D, folds=Folds(fold=random.permutation(n) % folds, count=folds))
