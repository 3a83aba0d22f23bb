"""theta, the vector that optimisers see: logarithms of the hyperparameters, and where each of them lies.

    theta = (log w_1 .. log w_g, log v0, log vb, log s2),    w = 1 / (2 ell^2)

Nothing else in the project knows the order of these slots.
"""

from dataclasses import dataclass, replace

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters, KernelFamily

_WEIGHTS, _SIGNAL, _BIAS, _NOISE = slice(None, -3), -3, -2, -1
_VARIANCES = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Theta:
    """One theta: values (g + 3,)."""

    values: FloatArray

    @staticmethod
    def size(groups: int) -> int:
        """Return how many numbers theta has for g lengthscales."""
        return groups + _VARIANCES

    @staticmethod
    def assemble(*, weights: FloatArray, signal: float, bias: float, noise: float) -> FloatArray:
        """Return one vector (g + 3,) of a number for each hyperparameter: a theta, a gradient or a bound."""
        return np.concatenate((weights, (signal, bias, noise)))

    @classmethod
    def of(cls, hyperparameters: Hyperparameters) -> "Theta":
        """Return the logarithms; a bias of zero becomes the smallest number."""
        natural = cls.assemble(
            weights=hyperparameters.weights,
            signal=hyperparameters.signal_variance,
            bias=max(hyperparameters.bias_variance, np.finfo(float).tiny),
            noise=hyperparameters.noise_variance,
        )
        return cls(values=np.log(natural))

    def hyperparameters(self, kernel: KernelFamily) -> Hyperparameters:
        """Return the hyperparameters of a kernel of this family: the inverse of `of`."""
        natural = np.exp(self.values)
        return Hyperparameters(
            lengthscales=np.sqrt(0.5 / natural[_WEIGHTS]),
            signal_variance=float(natural[_SIGNAL]),
            bias_variance=float(natural[_BIAS]),
            noise_variance=float(natural[_NOISE]),
            kernel=kernel,
        )

    def with_noise(self, noise_variance: float) -> "Theta":
        """Return the same theta with another noise variance."""
        values = self.values.copy()
        values[_NOISE] = np.log(noise_variance)
        return Theta(values=values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Box:
    """Bounds of a vector that begins with a theta, and may go on with other numbers: lower and upper, alike in
    shape."""

    lower: FloatArray
    upper: FloatArray

    def clip(self, values: FloatArray) -> FloatArray:
        """Return the nearest vector inside."""
        return np.asarray(np.clip(values, self.lower, self.upper))

    def with_noise_floor(self, noise_variance: float) -> "Box":
        """Return the same bounds of a theta with no noise below this variance."""
        lower = self.lower.copy()
        lower[_NOISE] = max(lower[_NOISE], np.log(noise_variance))
        return replace(self, lower=lower)

    def followed_by(self, count: int) -> "Box":
        """Return the same bounds for a vector with so many unbounded numbers behind theta."""
        anywhere = np.full(count, np.inf)
        return Box(lower=np.concatenate((self.lower, -anywhere)), upper=np.concatenate((self.upper, anywhere)))
