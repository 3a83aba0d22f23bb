"""Sparse prediction in 60-digit decimals: the answer where the float64 oracles have no digits left."""

from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np

from tests.dense.kernel import FloatArray, Params, Sparse

Matrix = list[list[Decimal]]
DIGITS = 60


def _matern(R: Decimal, factor: int, *coefficients: Decimal) -> Decimal:
    """(1 + coefficients[0] c + coefficients[1] c^2 + ..) e^-c, c^2 = factor R."""
    c = (factor * R).sqrt()
    return sum((a * c**k for k, a in enumerate(coefficients, 1)), Decimal(1)) * (-c).exp()


KERNELS: dict[str, Callable[[Decimal], Decimal]] = {
    "gaussian": lambda R: (-R).exp(),
    "matern52": lambda R: _matern(R, 10, Decimal(1), 1 / Decimal(3)),
    "matern32": lambda R: _matern(R, 6, Decimal(1)),
    "matern12": lambda R: _matern(R, 2),
}
"""value / v0 of each family, as `tests.dense.kernel` has them; in the precision of the context."""


def _kernel(params: Params, A: FloatArray, B: FloatArray) -> Matrix:
    w = [Decimal(float(v)) for v in params.w]
    v0, vb = Decimal(params.v0), Decimal(params.vb)
    left = [[Decimal(float(v)) for v in row] for row in A]
    right = [[Decimal(float(v)) for v in row] for row in B]

    def entry(a: list[Decimal], b: list[Decimal]) -> Decimal:
        distance = sum((c * (s - t) ** 2 for c, s, t in zip(w, a, b, strict=True)), Decimal(0))
        return v0 * KERNELS[params.family](distance) + vb

    return [[entry(a, b) for b in right] for a in left]


def _solve(A: Matrix, B: Matrix) -> Matrix:
    """A^-1 B by Gaussian elimination with row exchange."""
    size = len(A)
    rows = [[*a, *b] for a, b in zip(A, B, strict=True)]
    for k in range(size):
        pivot = max(range(k, size), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(size):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [s - factor * t for s, t in zip(rows[i], rows[k], strict=True)]
    return [[value / rows[i][i] for value in rows[i][size:]] for i in range(size)]


def _product(A: Matrix, B: Matrix) -> Matrix:
    columns = list(zip(*B, strict=True))
    return [[sum((s * t for s, t in zip(a, b, strict=True)), Decimal(0)) for b in columns] for a in A]


def _transpose(A: Matrix) -> Matrix:
    return [list(column) for column in zip(*A, strict=True)]


def predict(model: Sparse, Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and latent variance at Xs, each (m,), rounded to float64 at the very end.

    The weight-space form, d x d: with B = Kuu + Kuf Lambda^-1 Kfu, mean = k'B^-1 Kuf Lambda^-1 y and
    variance = prior - k'Kuu^-1 k + k'B^-1 k (prior - k'Kuu^-1 k is 0 for SoR).
    """
    with localcontext() as context:
        context.prec = DIGITS
        approximation, params, X, y, Z, power, jitter = model
        s2 = Decimal(params.s2)
        kss = Decimal(params.v0) + Decimal(params.vb)
        Kuu, Kuf, Kus = _kernel(params, Z, Z), _kernel(params, Z, X), _kernel(params, Z, Xs)
        for place, row in enumerate(Kuu):
            row[place] += Decimal(jitter) * kss
        share = Decimal({"fitc": 1.0, "pep": power}.get(approximation, 0.0))
        solved = _transpose(_solve(Kuu, Kuf))  # (n, d)
        lam = [
            s2 + share * (kss - sum((s * t for s, t in zip(k, h, strict=True)), Decimal(0)))
            for k, h in zip(_transpose(Kuf), solved, strict=True)
        ]
        weighted = [[value / v for value, v in zip(row, lam, strict=True)] for row in Kuf]
        gram = _product(weighted, _transpose(Kuf))
        B = [[s + t for s, t in zip(a, b, strict=True)] for a, b in zip(Kuu, gram, strict=True)]
        rhs = _product(weighted, [[Decimal(float(v))] for v in y])
        alpha = _solve(B, rhs)
        mean = _product(_transpose(Kus), alpha)
        prior_part, posterior_part = _transpose(_solve(Kuu, Kus)), _transpose(_solve(B, Kus))
        variance = []
        for k, h, g in zip(_transpose(Kus), prior_part, posterior_part, strict=True):
            explained = sum((s * t for s, t in zip(k, h, strict=True)), Decimal(0))
            left = sum((s * t for s, t in zip(k, g, strict=True)), Decimal(0))
            variance.append((Decimal(0) if approximation == "sor" else kss - explained) + left)
        return np.array([float(m[0]) for m in mean]), np.array([float(v) for v in variance])
