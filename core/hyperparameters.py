"""Hyperparameters of the kernel and the noise.

    K(x, x') = k(R) + vb,    R = sum_l w_l (x_l - x'_l)^2,    w_l = 1 / (2 ell_l^2),    k(0) = v0
    y = f(x) + noise of variance s2

with k(R) = v0 exp(-R) in Keerthi & Chu 2005, sec. 5; `core.process.families` has the others.

People see lengthscales and variances; optimisers see their logarithms (`core.process.theta`).
A lengthscale belongs to a *group* of columns: one numeric column, or the block of 0/1 columns of a category.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from core.arrays import FloatArray, frozen
from core.errors import InvalidSpecError


class KernelFamily(StrEnum):
    """Kernels there are (`core.process.families`), from the smoothest to the roughest."""

    GAUSSIAN = "gaussian"
    MATERN52 = "matern52"
    MATERN32 = "matern32"
    MATERN12 = "matern12"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hyperparameters:
    """Hyperparameters in natural units, for standardized inputs and target.

    lengthscales: (g,), one for each group of columns, positive.
    signal_variance: v0, positive. bias_variance: vb, not negative. noise_variance: s2, positive.
    Raises InvalidSpecError naming the field.
    """

    lengthscales: FloatArray
    signal_variance: float
    bias_variance: float
    noise_variance: float
    kernel: KernelFamily = KernelFamily.GAUSSIAN

    def __post_init__(self) -> None:
        lengthscales = frozen(self.lengthscales)
        if lengthscales.ndim != 1:
            raise InvalidSpecError("lengthscales", f"expected one dimension, got {lengthscales.ndim}")
        object.__setattr__(self, "lengthscales", lengthscales)
        if not (np.all(np.isfinite(lengthscales)) and np.all(lengthscales > 0)):
            raise InvalidSpecError("lengthscales", "every lengthscale must be a positive finite number")
        for name, least in (("signal_variance", 0.0), ("noise_variance", 0.0), ("bias_variance", -1.0)):
            value = float(getattr(self, name))
            object.__setattr__(self, name, value)
            if not (np.isfinite(value) and value > least and value >= 0):
                wanted = "a finite number, zero or more" if least < 0 else "a positive finite number"
                raise InvalidSpecError(name, f"expected {wanted}, got {value!r}")

    @property
    def weights(self) -> FloatArray:
        """ARD weights w = 1 / (2 ell^2), (g,)."""
        return 0.5 / np.square(self.lengthscales)

    @property
    def prior_variance(self) -> float:
        """kss = v0 + vb, the variance of the latent function before any data."""
        return self.signal_variance + self.bias_variance
