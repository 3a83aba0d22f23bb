"""The post-backfitting gain of matching pursuit, and the cache of kernel rows it is scored from.

    gain_i = h_i^2 / (2 (s2 K_ii + k_i'k_i)),  h_i = k_i'r - s2 mu_i          (Keerthi & Chu 2005, eq. 7 and 8)

is the decrease of the full GP's negative log posterior pi when only the coefficient of candidate i moves: O(n) each.
"""

from dataclasses import dataclass

import numpy as np

from core.factors import Rows
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.kernel import cross
from core.selection.state import GrowingFit


@dataclass(slots=True, eq=False)
class CandidateCache:
    """indices (c,), their kernel columns K (c, n) and squared lengths k'k (c,)."""

    indices: IntArray
    K: FloatArray
    lengths: FloatArray

    def replace(self, places: IntArray, indices: IntArray, rows: Rows, hyperparameters: Hyperparameters) -> None:
        """Fresh candidates in the given places. O(n p) kernel values each."""
        if len(indices):
            self.K[places] = kernel_columns(rows, indices, hyperparameters)
            self.lengths[places] = np.einsum("cn,cn->c", self.K[places], self.K[places])
            self.indices[places] = indices

    def drop(self, places: IntArray) -> None:
        """Fewer candidates, where there are no fresh ones left."""
        keep = np.setdiff1d(np.arange(len(self.indices)), places)
        self.indices, self.K, self.lengths = self.indices[keep], self.K[keep], self.lengths[keep]


def kernel_columns(rows: Rows, indices: IntArray, hyperparameters: Hyperparameters) -> FloatArray:
    """K(X, x_i) with bias for each index: (c, n)."""
    columns = cross(rows.X[indices], rows.X, hyperparameters, rows.groups)
    columns += hyperparameters.bias_variance
    return columns


def candidate_cache(rows: Rows, indices: IntArray, hyperparameters: Hyperparameters) -> CandidateCache:
    """A cache that holds these candidates."""
    K = kernel_columns(rows, indices, hyperparameters)
    return CandidateCache(indices=indices.copy(), K=K, lengths=np.einsum("cn,cn->c", K, K))


def post_backfitting(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """The gain of every cached candidate, (c,). O(c n)."""
    s2 = fit.hyperparameters.noise_variance
    h = cache.K @ fit.residuals - s2 * fit.mu[cache.indices]
    return np.asarray(np.square(h) / (2.0 * (s2 * fit.hyperparameters.prior_variance + cache.lengths)))
