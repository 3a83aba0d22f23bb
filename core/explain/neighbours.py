"""Rows of a model nearest to a row that is predicted, and what each adds to the mean.

Near is in the kernel's own metric, r^2 = sum_l (x_l - z_jl)^2 / ell_l^2 = 2 R: distances are in lengthscales. Row j
adds alpha_j k(R_j); near rows may add much of opposite sign, since weights correct each other.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.explain.product_mean import ProductMean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbours:
    """The nearest k of M rows to each of m rows, the nearest first.

    places (m, k): which they are; distances (m, k) in lengthscales; similarity (m, k): kernel over that of equal rows;
    added (m, k): to the mean of the learnt target, in its unit; rest (m,): what all other rows add; constant: the mean
    where no row is near. constant, added and rest add up to the mean.
    """

    places: IntArray
    distances: FloatArray
    similarity: FloatArray
    added: FloatArray
    rest: FloatArray
    constant: float


def neighbours(form: ProductMean, inputs: FloatArray, count: int, components: int = 1) -> Neighbours:
    """Return the nearest rows of inputs (m, p) in raw units. O(M p) each. Raises InvalidDataError as predictions do.

    components: each row is the average of so many, one after the other, of the (m components, p) that are given: what
    it adds is exact, and its squared distance the mean of theirs.
    """
    count = min(count, form.size)
    rows = len(inputs) // components
    found = Neighbours(
        places=np.empty((rows, count), np.int64),
        distances=np.empty((rows, count)),
        similarity=np.empty((rows, count)),
        added=np.empty((rows, count)),
        rest=np.empty(rows),
        constant=form.constant,
    )
    distances = form.squared_distances(inputs)
    for row in range(rows):
        R, k = np.zeros(form.size), np.zeros(form.size)
        for _ in range(components):
            each = next(distances).sum(axis=0)
            R += each / components
            k += form.kernel(each) / components
        near = np.argpartition(R, count - 1)[:count]
        near = near[np.argsort(R[near], kind="stable")]
        found.places[row] = near
        found.distances[row] = np.sqrt(2.0 * R[near])
        found.similarity[row] = k[near]
        found.added[row] = form.alpha[near] * k[near]
        others = np.ones(form.size, bool)
        others[near] = False
        found.rest[row] = form.alpha[others] @ k[others]
    return found
