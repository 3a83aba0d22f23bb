"""The definitions of `tests.dense.selection` in 60-digit decimals: what a gain is where float64 has no digits left."""

from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.dense.kernel import FloatArray, Params
from tests.dense.precise import KERNELS

Decimals = NDArray[Any]
"""An array of Decimal."""

DIGITS = 60


class Exact(NamedTuple):
    """Gains by the method's name, rounded to float64 at the very end, and how many digits a Schur complement loses.

    own_over_schur: A_jj over what is left of it when the basis vectors before j are taken out, the largest of all j,
    the candidate last; candidate_over_schur: the candidate's alone. prior_over_e: the same largest, in Kuu.
    left: the least 1 - q_i after inclusion.
    """

    gains: dict[str, float]
    own_over_schur: float
    candidate_over_schur: float
    prior_over_e: float
    left: float


def _decimals(values: FloatArray) -> Decimals:
    return np.asarray(np.vectorize(lambda value: Decimal(float(value)), otypes=[object])(values))


def _kernel(params: Params, X: FloatArray) -> Decimals:
    rows, w = _decimals(X), _decimals(params.w)
    K = np.empty((len(X), len(X)), object)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            K[i, j] = Decimal(params.v0) * KERNELS[params.family](((a - b) ** 2 * w).sum()) + Decimal(params.vb)
    return K


def _eliminate(A: Decimals, B: Decimals) -> tuple[Decimals, list[Decimal]]:
    """A^-1 B of a positive definite A, by Gaussian elimination, and its pivots: Schur complements in turn."""
    size = len(A)
    rows = np.concatenate([A, B], axis=1)
    pivots = []
    for k in range(size):
        pivots.append(Decimal(rows[k, k]))
        rows[k] = rows[k] / rows[k, k]
        for i in range(size):
            if i != k:
                rows[i] = rows[i] - rows[i, k] * rows[k]
    return rows[:, size:], pivots


def _log(pivots: list[Decimal]) -> Decimal:
    """log det."""
    return sum((pivot.ln() for pivot in pivots), Decimal(0))


def _zero(*shape: int) -> Decimals:
    return np.full(shape, Decimal(0))


def _unit(size: int) -> Decimals:
    one = _zero(size, size)
    one[np.diag_indices(size)] = Decimal(1)
    return one


def _product(A: Decimals, B: Decimals) -> Decimals:
    """A @ B; the sum of nothing is 0."""
    return A @ B if A.shape[-1] else _zero(*A.shape[:-1], *B.shape[1:])


class _Rows:
    """One problem: K of all rows, y, s2."""

    def __init__(self, params: Params, X: FloatArray, y: FloatArray) -> None:
        self.K, self.y, self.s2 = _kernel(params, X), _decimals(y)[:, None], Decimal(params.s2)
        self.prior = self.K[0, 0]
        self.n = len(X)

    def hessian(self, basis: list[int], rows: list[int]) -> tuple[Decimals, Decimals]:
        """A and Kuf y of some of the rows."""
        Kuf = self.K[np.ix_(basis, rows)]
        return self.s2 * self.K[np.ix_(basis, basis)] + _product(Kuf, Kuf.T), _product(Kuf, self.y[rows])

    def weights(self, basis: list[int], rows: list[int]) -> Decimals:
        A, b = self.hessian(basis, rows)
        return _eliminate(A, b)[0]

    def least_pi(self, basis: list[int]) -> Decimal:
        everyone = list(range(self.n))
        _, b = self.hessian(basis, everyone)
        return Decimal(-_product(b.T, self.weights(basis, everyone))[0, 0] / 2)

    def post_backfitting(self, basis: list[int], candidate: int) -> Decimal:
        everyone = list(range(self.n))
        A, b = self.hessian([*basis, candidate], everyone)
        slope = b[-1, 0] - _product(A[-1:, :-1], self.weights(basis, everyone))[0, 0]
        return Decimal(slope * slope / (2 * A[-1, -1]))

    def explained(self, basis: list[int]) -> Decimals:
        """Q (n, n)."""
        Kuf = self.K[basis]
        return _product(Kuf.T, _eliminate(self.K[np.ix_(basis, basis)], Kuf)[0])

    def objectives(self, basis: list[int]) -> tuple[Decimal, Decimal]:
        """DTC and VFE, without the constant."""
        Q = self.explained(basis)
        solved, pivots = _eliminate(Q + self.s2 * _unit(self.n), self.y)
        dtc = (_log(pivots) + (self.y.T @ solved)[0, 0]) / 2
        return dtc, dtc + (np.diag(self.K) - np.diag(Q)).sum() / (2 * self.s2)

    def information(self, basis: list[int], candidate: int) -> Decimal:
        joint = [*basis, candidate]
        prior = _eliminate(self.K[np.ix_(joint, joint)], _unit(len(joint)))[0]
        sites = _zero(self.n, len(joint))
        sites[:, :-1] = _eliminate(self.K[np.ix_(basis, basis)], self.K[basis])[0].T
        own = sites.copy()
        own[candidate] = _unit(len(joint))[-1]
        P, Pnew = (prior + design.T @ design / self.s2 for design in (sites, own))
        old, before = _eliminate(P, sites.T @ self.y / self.s2)
        new, after = _eliminate(Pnew, own.T @ self.y / self.s2)
        trace = np.trace(_eliminate(Pnew, P)[0]) - len(joint)
        return Decimal((trace + ((new - old).T @ P @ (new - old))[0, 0] + _log(after) - _log(before)) / 2)

    def left_out(self, basis: list[int]) -> tuple[Decimal, Decimal, Decimal]:
        """loo-cve, nlgpp and gpe by n deletions."""
        cve, nlgpp, gpe = Decimal(0), Decimal(0), Decimal(0)
        e = np.diag(self.K) - np.diag(self.explained(basis))
        for i in range(self.n):
            rest = [j for j in range(self.n) if j != i]
            A, b = self.hessian(basis, rest)
            k = self.K[np.ix_(basis, [i])]
            solved = _eliminate(A, np.concatenate([b, k], axis=1))[0]
            mean, spread = _product(k.T, solved)[0]
            square = (self.y[i, 0] - mean) ** 2
            variance = e[i] + self.s2 * spread + self.s2
            cve += square
            nlgpp += square / variance + variance.ln()
            gpe += square + variance
        return cve / self.n, nlgpp / self.n, gpe / self.n


def exact(params: Params, X: FloatArray, y: FloatArray, basis: list[int], candidate: int) -> Exact:
    """Every gain of one candidate; computed once for all methods that ask for one."""
    numbers = params.w.tobytes(), float(params.v0), float(params.vb), float(params.s2), params.family
    return _exact(_Table(numbers, X.shape, X.tobytes(), y.tobytes()), tuple(basis), candidate)


class _Table(NamedTuple):
    """One problem by value: weights, v0, vb, s2 and family; X (n, p) and y (n,)."""

    numbers: tuple[bytes, float, float, float, str]
    shape: tuple[int, ...]
    X: bytes
    y: bytes


@lru_cache(maxsize=4)
def _rows_of(table: _Table) -> _Rows:
    w, v0, vb, s2, family = table.numbers
    X = np.frombuffer(table.X).reshape(table.shape)
    return _Rows(Params(np.frombuffer(w), v0, vb, s2, family), X, np.frombuffer(table.y))


@lru_cache(maxsize=1000)
def _exact(table: _Table, chosen: tuple[int, ...], candidate: int) -> Exact:
    basis = list(chosen)
    with localcontext() as context:
        context.prec = DIGITS
        rows = _rows_of(table)
        after = [*basis, candidate]
        (dtc, vfe), (dtc_after, vfe_after) = rows.objectives(basis), rows.objectives(after)
        cve, nlgpp, gpe = rows.left_out(after)
        e = rows.prior - rows.explained(basis)[candidate, candidate]
        sb, post = rows.least_pi(basis) - rows.least_pi(after), rows.post_backfitting(basis, candidate)
        gains = {
            "sb": sb,
            "post-backfitting": post,
            "nlml": dtc - dtc_after,
            "vfe": vfe - vfe_after,
            "info": rows.information(basis, candidate),
            "variance": e,
            "loo-cve": -cve,
            "nlgpp": -nlgpp,
            "gpe": -gpe,
        }
        for other, name in (("kappa", "post-backfitting"), ("dmax", "post-backfitting"), ("nlpp", "sb")):
            gains[other] = gains[name]
        A, _ = rows.hessian(after, list(range(rows.n)))
        solved, schur = _eliminate(A, rows.K[after])
        shares = np.diag(A) / np.array(schur)
        unexplained = _eliminate(rows.K[np.ix_(after, after)], _unit(len(after)))[1]
        return Exact(
            gains={name: float(value) for name, value in gains.items()},
            own_over_schur=float(max(shares)),
            candidate_over_schur=float(shares[-1]),
            prior_over_e=float(rows.prior / min(unexplained)),
            left=float(1 - max(np.diag(rows.K[after].T @ solved))),
        )
