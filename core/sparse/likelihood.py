"""The objective for theta and its gradient, for every approximation at once.

    phi = -log N(y; 0, V'V + D) + penalty,   D = s2 / w + a e,   e = diag(Kff - V'V)

With Sigma = V'V + D, beta = Sigma^-1 y = (y - mu) / D, g = diag(Sigma^-1 - beta beta') / 2 and
t = dphi/de = a g + dpenalty/de, everything that theta moves is reached through two matrices (the pattern of
Seeger et al. 2003, appendix A.2):

    dphi/dKuf = L^-T B^-1 V D^-1 - alpha beta' - 2 L^-T V diag(t)
    dphi/dKuu = -1/2 L^-T (I - B^-1) L^-1 + 1/2 alpha alpha' + L^-T V diag(t) V' L^-1
    dphi/ds2  = sum g / w + dpenalty/ds2

Everything else follows from the kernel's slope: with P = dphi/dK o (-dk/dR) every ARD weight and basis vector costs
two products with blocks already held, never an (n, d, p) array. With a = 0, and rows of one weight,
D and t are constants and dphi/dKuf is a single product; cost 2 n d^2 multiply-adds then. Otherwise (FITC, power EP;
rows that do not count the same)

    2 t = (1 - a s) / D,   s = (q + r^2) / D,   q_i = V_i' B^-1 V_i,   r = y - mu
    V diag(t) V' = (V D^-1 V' - a V diag(s / D) V') / 2                          (DTC, SoR: t = 0)

where V D^-1 V' is there already and the rest is a sum of squares; cost 3 n d^2 then.

Of several targets that share theta and Z phi is the mean: beta beta', r^2, alpha beta' and alpha alpha' are means over
the targets then, and all else is as for one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from core.arrays import FloatArray
from core.errors import NumericalError
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import add_gram, inverse_from_cholesky
from core.numeric.threads import map_threads, split_evenly
from core.process.kernel import DistanceSums
from core.process.rows import Rows
from core.process.theta import Theta
from core.sparse.factors import Block, Factors, factorise
from core.sparse.scheme import Penalty, Scheme


@dataclass(slots=True, eq=False)
class _Sums:
    """Sums of the second pass over blocks of rows."""

    distances: DistanceSums
    """of P = dphi/dKuf o (-dk/dR)"""
    signal: float = 0.0
    """sum dphi/dKuf o K0"""
    bias: float = 0.0
    """sum dphi/dKuf"""
    fit: float = 0.0
    """sum r^2 / D"""
    noise: float = 0.0
    """sum g / w"""
    unexplained: float = 0.0
    """sum t"""
    left_out: float = 0.0
    """negative log predictive density of every row given all the others"""
    squares: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    """V diag(s / D) V', where D differs from row to row"""

    def add(self, other: "_Sums") -> None:
        """The rows that come next."""
        self.distances.add(other.distances)
        self.signal += other.signal
        self.bias += other.bias
        self.fit += other.fit
        self.noise += other.noise
        self.unexplained += other.unexplained
        self.left_out += other.left_out
        self.squares += other.squares


@dataclass(slots=True, eq=False)
class _Fit:
    """sum r^2 / D"""

    value: float

    def add(self, other: "_Fit") -> None:
        """The rows that come next."""
        self.value += other.value


def _fit(factors: Factors, blocks: Iterable[Block]) -> _Fit:
    return _Fit(sum(_square(_residuals(factors, block), factors.D[block.rows]) for block in blocks))


def _residuals(factors: Factors, block: Block) -> list[FloatArray]:
    """r = y - mu of a block's rows, (m,) for each target."""
    return _subtracted(factors, block, _means(factors, block))


def _means(factors: Factors, block: Block) -> list[FloatArray]:
    """mu of a block's rows, (m,) for each target."""
    first = factors.c @ block.V
    return [first, *(factors.other_c.T @ block.V)] if factors.rows.several else [first]


def _subtracted(factors: Factors, block: Block, means: list[FloatArray]) -> list[FloatArray]:
    targets = [factors.rows.y[block.rows]]
    if factors.rows.several:
        targets += list(factors.rows.others[block.rows].T)
    return [y - mu for y, mu in zip(targets, means, strict=True)]


def _square(residuals: list[FloatArray], D: FloatArray | float) -> float:
    """r' D^-1 r, the mean over the targets."""
    return sum(float(r @ (r / D)) for r in residuals) / len(residuals)


def nlml(factors: Factors) -> float:
    """Return phi alone, in nats, of factors that are there already. O(n d) where their blocks are kept.

    Raises:
        NumericalError: it is not a finite number.
    """
    value = _value(factors, factors.total(_fit).value)
    if not np.isfinite(value):
        raise NumericalError("the objective is not a finite number")
    return value


def nlml_and_gradient(
    rows: Rows, Z: FloatArray, hyperparameters: Hyperparameters, scheme: Scheme
) -> tuple[float, FloatArray]:
    """Return the objective and its gradient in theta for a fixed basis. O(n d^2).

    Args:
        rows: training rows, (n, p) and (n,), standardized.
        Z: basis vectors (d, p), standardized.
        hyperparameters: in standardized units.
        scheme: which approximation.

    Returns:
        phi in nats for all n rows, and dphi/dtheta (g + 3,) in the layout of `core.process.theta`.

    Raises:
        NotPositiveDefiniteError: the hyperparameters are beyond double precision.
        NumericalError: a result is not a finite number.
    """
    found = nlml_and_gradients(rows, Z, hyperparameters, scheme)
    return found.value, found.by_theta


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """phi, dphi/dtheta (g + 3,), dphi/dZ (d, p), and the mean leave-one-out NLPD; that is None where D is constant,
    since the gradient then does not need what it is made of."""

    value: float
    by_theta: FloatArray
    by_basis: FloatArray
    left_out_loss: float | None


def nlml_and_gradients(rows: Rows, Z: FloatArray, hyperparameters: Hyperparameters, scheme: Scheme) -> Evaluation:
    """Return phi, both gradients and the leave-one-out loss: `nlml_and_gradient` and what costs next to nothing
    more."""
    factors = factorise(rows, Z, hyperparameters, scheme)
    second_pass = _second_pass_constant if scheme.power == 0.0 and not rows.weighted else _second_pass
    sums, dKuu = second_pass(factors)
    factors.release()
    value = _value(factors, sums.fit)
    by_theta, by_basis = _chain(factors, sums, dKuu)
    if not (np.isfinite(value) and np.isfinite(by_theta).all() and np.isfinite(by_basis).all()):
        raise NumericalError("the objective or its gradient is not a finite number")
    loss = sums.left_out / len(rows) if scheme.power > 0.0 else None
    return Evaluation(value=value, by_theta=by_theta, by_basis=by_basis, left_out_loss=loss)


def _value(factors: Factors, fit: float) -> float:
    """phi, given fit = sum r^2/D: y' Sigma^-1 y = fit + alpha' Kuu alpha, a sum of squares, where y'D^-1 y - ..
    would cancel."""
    log_determinant = 2.0 * np.log(np.diag(factors.LB)).sum() + np.log(factors.D).sum()
    explained = sum(c @ c for c in factors.every_c().T) / factors.every_c().shape[1]
    likelihood = log_determinant + fit + explained + len(factors.rows) * np.log(2.0 * np.pi)
    return float(0.5 * likelihood + _penalty(factors)[0])


def _penalty(factors: Factors) -> tuple[float, float]:
    """The penalty, and its derivative by s2."""
    s2, a, e, rows = factors.hyperparameters.noise_variance, factors.scheme.power, factors.e, factors.rows
    match factors.scheme.penalty:
        case Penalty.NONE:
            return 0.0, 0.0
        case Penalty.TRACE:
            total = float(rows.by_weight(e).sum())
            return total / (2.0 * s2), -total / (2.0 * s2 * s2)
        case Penalty.POWER:
            share = (1.0 - a) / (2.0 * a)
            by_noise = -share * float((a * e / (s2 * factors.D)).sum())
            return share * float(np.log1p(a * e / rows.noise(s2)).sum()), by_noise


def _sees_unexplained(scheme: Scheme) -> bool:
    """Return whether the objective has a term for e, as all but those of DTC and SoR do."""
    return scheme.power > 0.0 or scheme.penalty is not Penalty.NONE


def _second_pass_constant(factors: Factors) -> tuple[_Sums, FloatArray]:
    """D = s2 and t the same for every row: dphi/dKuf = E Kuf - alpha beta', E = L^-T (B^-1/s2 - 2 t I) L^-1."""
    rows, s2, vb = factors.rows, factors.hyperparameters.noise_variance, factors.hyperparameters.bias_variance
    t = 1.0 / (2.0 * s2) if _sees_unexplained(factors.scheme) else 0.0
    n, size = len(rows), len(factors.Z)
    B_inverse = inverse_from_cholesky(factors.LB, rows.workers)
    inner = [_add_to_diagonal(B_inverse / s2, -2.0 * t), _add_to_diagonal(0.5 * B_inverse, -0.5)]
    if t > 0.0:
        inner[1] += (t * s2) * factors.information
    solved = map_threads(lambda some: [factors.lower.between(each) for each in some], split_evenly(inner, rows.workers))
    E, dKuu = (each for some in solved for each in some)
    count = 1 + factors.rows.others.shape[1]
    matrix = np.column_stack((E, vb * E.sum(axis=1), -factors.alpha / count))
    sums = factors.total(partial(_constant_part, matrix=matrix))
    sums.noise = 0.5 * (n - size + float(np.trace(B_inverse)) - sums.fit) / s2
    sums.unexplained = n * t
    return sums, dKuu + _outer(factors)


def _add_to_diagonal(matrix: FloatArray, value: float) -> FloatArray:
    """The matrix (d, d) with a number added to its diagonal, in place."""
    matrix.reshape(-1)[:: len(matrix) + 1] += value
    return matrix


def _outer(factors: Factors) -> FloatArray:
    """alpha alpha' / 2, the mean over the targets."""
    alphas = np.column_stack((factors.alpha, factors.other_alphas)) if factors.rows.several else factors.alpha[:, None]
    return np.asarray(alphas @ (alphas.T / (2.0 * alphas.shape[1])))


def _constant_part(factors: Factors, blocks: Iterable[Block], *, matrix: FloatArray) -> _Sums:
    """matrix: E, vb E 1, -alpha over the number of targets, (d, d + 2)."""
    rows, s2 = factors.rows, factors.hyperparameters.noise_variance
    sums = _Sums(distances=DistanceSums.zero(*factors.Z.shape))
    for block in blocks:
        r, *others = residuals = _residuals(factors, block)
        sums.fit += _square(residuals, 1.0) / s2
        block.K0_and_two[-2] = 1.0
        block.K0_and_two[-1] = r / s2
        with rows.workspace.borrow(*block.K0.shape) as work:
            np.matmul(matrix, block.K0_and_two, out=work)
            if others:
                np.subtract(work, factors.other_alphas @ (np.array(others) / (s2 * len(residuals))), out=work)
            _collect(factors, sums, block, work, np.ones_like(r))
    return sums


def _second_pass(factors: Factors) -> tuple[_Sums, FloatArray]:
    """D and t differ from row to row: L' dphi/dKuf D = B^-1 V - c r' - V diag(1 - a s), the last where t is not 0."""
    a = factors.scheme.power
    B_inverse = inverse_from_cholesky(factors.LB, factors.rows.workers)
    count = 1 + factors.rows.others.shape[1]
    sums = factors.total(partial(_varying_part, matrix=np.column_stack((B_inverse, -factors.c / count))))
    inner = _add_to_diagonal(B_inverse, -1.0)
    if _sees_unexplained(factors.scheme):
        inner += factors.information
        inner -= a * sums.squares
    inner *= 0.5
    return sums, factors.lower.between(inner, factors.rows.workers) + _outer(factors)


def _varying_part(factors: Factors, blocks: Iterable[Block], *, matrix: FloatArray) -> _Sums:
    """matrix: B^-1, -c over the number of targets, (d, d + 1)."""
    rows, size, a, sees = factors.rows, len(factors.Z), factors.scheme.power, _sees_unexplained(factors.scheme)
    sums = _Sums(distances=DistanceSums.zero(*factors.Z.shape), squares=np.zeros((size, size)))
    for block in blocks:
        D, means = factors.D[block.rows], _means(factors, block)
        r, *others = residuals = _subtracted(factors, block, means)
        mu_r, r_r = means[0] * r, np.square(r)
        if others:
            mu_r, r_r = np.mean(np.multiply(means, residuals), axis=0), np.mean(np.square(residuals), axis=0)
        block.V_and_one[-1] = r
        with (
            rows.workspace.borrow(*block.V.shape) as inner,
            rows.workspace.borrow(*block.V.shape) as scaled,
            rows.workspace.borrow(size, size) as product,
        ):
            np.matmul(matrix, block.V_and_one, out=inner)
            if others:
                np.subtract(inner, factors.other_c @ (np.array(others) / len(residuals)), out=inner)
            q = np.maximum(np.einsum("km,km->m", block.V, inner) + mu_r, 0.0)
            s = (q + r_r) / D
            if a > 0.0:
                add_gram(sums.squares, np.multiply(block.V, np.sqrt(s / D), out=scaled), product)
            if sees:
                np.subtract(inner, np.multiply(block.V, 1.0 - a * s, out=scaled), out=inner)
            _collect(factors, sums, block, factors.lower.solve_transposed(inner), 1.0 / D)
        sums.fit += _square(residuals, D)
        error, variance = factors.left_out(block, q, r)
        sums.left_out += 0.5 * float((np.square(error) / variance + np.log(2.0 * np.pi * variance)).sum())
        sums.noise += 0.5 * float((rows.noise(1.0, block.rows) * ((1.0 - s) / D)).sum())
        if sees:
            sums.unexplained += 0.5 * float(((1.0 - a * s) / D).sum())
    return sums


def _collect(factors: Factors, sums: _Sums, block: Block, dKuf: FloatArray, scale: FloatArray) -> None:
    """Add one block of dphi/dKuf = dKuf diag(scale), which is overwritten by P = dKuf o (-dk/dR)."""
    X, K0 = factors.rows.X[block.rows], block.K0
    sums.bias += float(dKuf.sum(axis=0) @ scale)
    with factors.rows.workspace.borrow(*K0.shape) as work:
        slope = factors.kernel.slope(K0, factors.Z, X, work)
        if slope is not K0:
            sums.signal += float(np.einsum("km,km->m", dKuf, K0) @ scale)
        dKuf *= slope
    distances = DistanceSums.of(dKuf, X, scale)
    if slope is K0:
        sums.signal += float(distances.rows.sum())
    sums.distances.add(distances)


def _chain(factors: Factors, sums: _Sums, dKuu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Chain rule from dphi/dKuf, dphi/dKuu, t and g to dphi/dtheta (g + 3,) and dphi/dZ (d, p) (Snelson & Ghahramani
    2006).

    Jitter is a share of v0 + vb, so it moves with them.
    """
    hyperparameters, kernel, Z = factors.hyperparameters, factors.kernel, factors.Z
    among = DistanceSums.of(dKuu * kernel.slope_gram(factors.among, Z), Z)
    by_prior = sums.unexplained + factors.jitter * float(np.trace(dKuu))
    by_weights = np.zeros(len(hyperparameters.lengthscales))
    np.add.at(by_weights, factors.rows.groups, -kernel.weights * (sums.distances.moments(Z) + among.moments(Z)))
    by_theta = Theta.assemble(
        weights=by_weights,
        signal=sums.signal + float((dKuu * factors.among).sum()) + kernel.signal_variance * by_prior,
        bias=kernel.bias_variance * (sums.bias + float(dKuu.sum()) + by_prior),
        noise=hyperparameters.noise_variance * (sums.noise + _penalty(factors)[1]),
    )
    by_basis = 2.0 * kernel.weights * (sums.distances.pulls(Z) + 2.0 * among.pulls(Z))
    return by_theta, by_basis
