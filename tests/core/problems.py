"""Small regressions that the tests share, and the bridge from core's types to the oracles'."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters, KernelFamily
from core.process.rows import Rows
from core.process.theta import Theta
from core.sparse.factors import Factors, factorise
from core.sparse.scheme import scheme
from core.spec import Approximation
from tests.dense.kernel import Params, Sparse

POWER = 0.4
"""Power of power EP, wherever these tests use it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Standardized rows, their groups, hyperparameters and the rows chosen as basis."""

    X: FloatArray
    y: FloatArray
    groups: IntArray
    hyperparameters: Hyperparameters
    indices: IntArray
    workers: int = 1
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def Z(self) -> FloatArray:  # the papers' letter
        """Basis vectors (d, p)."""
        return np.asarray(self.X[self.indices])

    @property
    def rows(self) -> Rows:
        """Rows as `core.sparse.factors` takes them."""
        return Rows(X=self.X, y=self.y, groups=self.groups, workers=self.workers, weights=self.weights)

    def factors(self, approximation: Approximation) -> Factors:
        """Factors that core makes of it."""
        return factorise(self.rows, self.Z, self.hyperparameters, scheme(approximation, POWER))

    def sparse(self, approximation: Approximation, jitter: float = 0.0) -> Sparse:
        """Model that the oracles make of it."""
        params = oracle_params(self.hyperparameters, self.groups)
        return Sparse(approximation.value, params, self.X, self.y, self.Z, POWER, jitter)

    def weighted(self, seed: int = 0, spread: float = 1.0) -> Self:
        """The same with weights of mean one, of such a standard deviation of their logarithms."""
        weights = np.exp(spread * np.random.default_rng([7, seed]).normal(size=len(self.y)))
        return replace(self, weights=weights / weights.mean())

    def changed(self, **changes: Any) -> Self:
        """The same with some fields replaced."""
        return replace(self, **changes)

    def with_hyperparameters(self, **changes: Any) -> Self:
        """The same with some hyperparameters replaced."""
        old = self.hyperparameters
        values = {
            "lengthscales": old.lengthscales,
            "signal_variance": old.signal_variance,
            "bias_variance": old.bias_variance,
            "noise_variance": old.noise_variance,
            "kernel": old.kernel,
        }
        return replace(self, hyperparameters=hyperparameters(**{**values, **changes}))

    def at(self, theta: FloatArray) -> Self:
        """The same with the hyperparameters whose logarithms are theta."""
        values = np.exp(theta)
        return self.with_hyperparameters(
            lengthscales=np.sqrt(0.5 / values[:-3]),
            signal_variance=values[-3],
            bias_variance=values[-2],
            noise_variance=values[-1],
        )


def hyperparameters(lengthscales: Sequence[float] | FloatArray, **variances: Any) -> Hyperparameters:
    """Hyperparameters from any sequence of lengthscales."""
    return Hyperparameters(lengthscales=np.array(lengthscales, dtype=np.float64), **variances)


def to_log(values: Hyperparameters) -> FloatArray:
    """theta, written out here again: the order of its parts is part of what is tested."""
    variances = [values.signal_variance, values.bias_variance, values.noise_variance]
    return np.asarray(np.log(np.concatenate([1 / (2 * values.lengthscales**2), variances])))


def theta_of(values: Hyperparameters) -> FloatArray:
    """Core's theta, (g + 3,)."""
    return Theta.of(values).values


def hyperparameters_of(theta: FloatArray) -> Hyperparameters:
    """Core's hyperparameters of a Gaussian kernel at this theta."""
    return Theta(values=theta).hyperparameters(KernelFamily.GAUSSIAN)


THETAS: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "small noise": {"noise_variance": 1e-4},
    "large noise": {"noise_variance": 30.0},
    "almost no bias": {"bias_variance": 1e-7},
    "large bias": {"bias_variance": 25.0},
    "short lengthscales": {"lengthscales": [0.1, 0.2, 0.15]},
    "one irrelevant group": {"lengthscales": [1.0, 300.0, 1.2]},
    "large signal": {"signal_variance": 200.0},
    **{f"kernel {family}": {"kernel": family} for family in KernelFamily if family is not KernelFamily.GAUSSIAN},
}
"""Changes to an ordinary theta of three groups, for gradients."""


def oracle_params(hyperparameters: Hyperparameters, groups: IntArray) -> Params:
    """Weights by column from lengthscales by group, without core's help."""
    ell = np.array([hyperparameters.lengthscales[g] for g in groups])
    return Params(
        1.0 / (2.0 * ell**2),
        hyperparameters.signal_variance,
        hyperparameters.bias_variance,
        hyperparameters.noise_variance,
        hyperparameters.kernel.value,
    )


def problem(seed: int, *, n: int = 40, d: int = 7, groups: tuple[int, ...] = (0, 1, 1, 2)) -> Problem:
    """A smooth function with noise, a random theta of ordinary size and a random basis."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(groups)))
    y = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1] - 0.2 * X[:, 2] * X[:, 0] + 0.2 * rng.normal(size=n)
    return Problem(
        X=X,
        y=(y - y.mean()) / y.std(),
        groups=np.array(groups, dtype=np.int64),
        hyperparameters=Hyperparameters(
            lengthscales=rng.uniform(0.7, 2.5, size=max(groups) + 1),
            signal_variance=rng.uniform(0.5, 2.0),
            bias_variance=rng.uniform(0.1, 0.6),
            noise_variance=rng.uniform(0.03, 0.2),
        ),
        indices=rng.permutation(n)[:d],
    )
