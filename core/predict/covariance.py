"""The joint posterior of the latent function at any rows: a prior and a few features of each row.

    cov(x, x') = K(x, x') - F(x)'F(x')          SoR: F(x)'F(x') alone, for its prior ends where its basis does

with F(x) = R k(x) of a basis (d,), or L^-1 k(x) of m training rows, L L' = K + D. All of it is in the target's unit. No
(n, n) matrix is made where a sum over rows is asked for: w'K w by blocks of rows, |F w|^2 from d numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray
from core.data import Standardization
from core.predict.inputs import padded_inputs
from core.process.kernel import Kernel

BLOCK_ROWS = 1024
"""Rows of a block of kernel values."""
LEAST_VARIANCE = 1e-12
"""Share of the prior variance below which a variance is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class CovarianceRows:
    """Rows made ready for `LatentCovariance.between`. X (m, p): standardized; features (r, m); variance (m,): of the
    function, in the target's unit, above zero."""

    X: FloatArray
    features: FloatArray
    variance: FloatArray


class LatentCovariance:
    """Posterior covariance of the latent function, uncalibrated."""

    def __init__(
        self,
        kernel: Kernel,
        standardization: Standardization,
        features: Callable[[FloatArray], FloatArray],
        *,
        full_prior: bool = True,
    ) -> None:
        """Prepare.

        Args:
            kernel: bias included, of standardized inputs.
            standardization: between raw and standardized units.
            features: F of raw inputs (m, p), (r, m).
            full_prior: False for SoR.
        """
        self._kernel, self._standardization, self._features = kernel, standardization, features
        self._full_prior, self._scale = full_prior, standardization.target_scale**2

    def rows(self, inputs: FloatArray) -> CovarianceRows:
        """Make raw inputs (m, p) ready. O(m r^2 / 2)."""
        features = self._features(inputs)
        squares = np.einsum("rm,rm->m", features, features)
        variance = self._kernel.diagonal - squares if self._full_prior else squares
        least = LEAST_VARIANCE * self._kernel.diagonal
        return CovarianceRows(
            padded_inputs(inputs, self._standardization, 1), features, self._scale * np.maximum(variance, least)
        )

    def between(self, rows: CovarianceRows, others: CovarianceRows) -> FloatArray:
        """Return the covariance of rows with others, (m, k). O(m k (p + r))."""
        found = rows.features.T @ others.features
        if self._full_prior:
            np.subtract(self._kernel.cross(rows.X, others.X), found, out=found)
        found *= self._scale
        return np.asarray(found)

    def among(self, rows: CovarianceRows) -> FloatArray:
        """Return the covariance of rows, (m, m), symmetric, with `CovarianceRows.variance` on its diagonal."""
        found = self.between(rows, rows)
        found = 0.5 * (found + found.T)
        np.fill_diagonal(found, rows.variance)
        return np.asarray(found)

    def of_sums(self, inputs: FloatArray, weigh: Callable[[slice, FloatArray], FloatArray]) -> FloatArray:
        """Return the covariance of c weighted sums over rows, (c, c). O(m^2 p / 2 + m r^2 / 2), and no (m, m) matrix.

        Args:
            inputs: raw, (m, p).
            weigh: place of some rows and their variance -> their weights (b, c).
        """
        parts: list[tuple[FloatArray, FloatArray]] = []
        sums: FloatArray | None = None
        for place in _blocks(len(inputs)):
            rows = self.rows(inputs[place])
            weights = weigh(place, rows.variance)
            mapped = rows.features @ weights
            sums = mapped if sums is None else sums + mapped
            parts.append((rows.X, weights))
        if sums is None:
            return np.zeros((0, 0))
        found = sums.T @ sums
        if self._full_prior:
            found = self._prior_of_sums(parts) - found
        return np.asarray(self._scale * 0.5 * (found + found.T))

    def _prior_of_sums(self, parts: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
        """w'K w of the prior."""
        count = parts[0][1].shape[1]
        found = np.zeros((count, count))
        for number, (X, weights) in enumerate(parts):
            basis = self._kernel.basis(X)
            for other, (X_other, weights_other) in enumerate(parts[: number + 1]):
                block = self._kernel.block(basis, self._kernel.rows(X_other))
                product = weights.T @ (block @ weights_other)
                found += product if other == number else product + product.T
        return found


def _blocks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, rows))
