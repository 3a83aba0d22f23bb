"""Batch pursuit: the greedy choice from a whole pool at the speed of matrix products.

For a pool J of P rows let G = K_J. K_.J, g = K_J. y and T = s2 K_JJ + G. Then the diagonal of T and g start as
S_i and h_i of every candidate, and choosing j updates them all (MATH, batch pursuit; it is Batch-OMP, Rubinstein et
al. 2008, on the negative log posterior pi of Keerthi & Chu 2005, eq. 4):

    row = (T[j] - R[:, j]'R) / sqrt(S_j),   h -= h_j / sqrt(S_j) row,   S -= row^2

a pivoted Cholesky factorisation of T whose pivot has the largest gain h^2 / (2 S), the exact decrease of pi when all
coefficients move (Smola & Bartlett 2001). One pass over the rows, O(n P^2 / 2); then O(P d^2 / 2).
"""

from collections.abc import Sequence

import numpy as np

from core.factors import Rows, over_rows
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.kernel import augmented_basis, augmented_rows, column_weights, gaussian_block, gram
from core.linalg import add_gram, mirror_lower
from core.selection.state import LEAST_SHARE, Selection


def pool_products(rows: Rows, pool: IntArray, hyperparameters: Hyperparameters) -> tuple[FloatArray, FloatArray]:
    """T = s2 K_JJ + K_J. K_.J (P, P) and g = K_J. y (P,), summed over blocks of rows."""
    weights = column_weights(hyperparameters, rows.groups)
    v0, vb = hyperparameters.signal_variance, hyperparameters.bias_variance
    candidates = augmented_basis(rows.X[pool], weights, v0)

    def part(places: Sequence[slice]) -> tuple[FloatArray, FloatArray]:
        G, g = np.zeros((len(pool), len(pool)), order="F"), np.zeros(len(pool))
        for place in places:
            K = gaussian_block(candidates, augmented_rows(rows.X[place], weights), v0)
            K += vb
            G = add_gram(G, K)
            g += K @ rows.y[place]
        return G, g

    parts = over_rows(rows, rows.X[pool], part)
    G, g = parts[0]
    for more_G, more_g in parts[1:]:
        G += more_G
        g += more_g
    T = mirror_lower(G)
    T += hyperparameters.noise_variance * (gram(rows.X[pool], hyperparameters, rows.groups) + vb)
    return np.ascontiguousarray(T), g


def pursue(rows: Rows, pool: IntArray, hyperparameters: Hyperparameters, size: int) -> Selection:
    """The `size` best rows of the pool, or fewer where the rest would add only rounding."""
    pool = distinct(rows.X, pool)
    T, h = pool_products(rows, pool, hyperparameters)
    S = np.diag(T).copy()
    least = LEAST_SHARE * S
    R = np.empty((min(size, len(pool)), len(pool)))
    chosen: list[int] = []
    gains: list[float] = []
    for step in range(len(R)):
        gain = np.where(least < S, np.square(h) / (2.0 * np.maximum(S, least)), -1.0)
        best = int(np.argmax(gain))
        if gain[best] < 0.0:
            break
        root = np.sqrt(S[best])
        row = R[step]
        np.subtract(T[best], R[:step, best] @ R[:step], out=row)
        row /= root
        h -= (h[best] / root) * row
        S -= np.square(row)
        S[best] = -np.inf
        chosen.append(best)
        gains.append(float(gain[best]))
    reason = "basis_size reached" if len(chosen) == size else "no row of the pool adds more than rounding"
    return Selection(indices=pool[chosen], gains=np.array(gains), reason=reason)


def distinct(X: FloatArray, indices: IntArray) -> IntArray:
    """The indices without those whose row is an exact copy of an earlier one; order kept."""
    _, first = np.unique(X[indices], axis=0, return_index=True)
    return np.asarray(indices[np.sort(first)])
