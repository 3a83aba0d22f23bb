"""The smallest compact form of a posterior whose error bars stay within a tolerance on every training row.

With l_i = V_i, (u_k'l_i)^2 = P_ki, share_k = 1 / (1 + lam_k) in descending order and o_i the observation variance
(noise included), leaving the directions k >= r to c I changes o_i by a (t_i - c q_i), where

    t_i = sum_{k >= r} share_k P_ki,    q_i = sum_{k >= r} P_ki,    o_i = a (kss - l'l + sum_k share_k P_ki) + b s2

(SoR: without kss - l'l). Its deviation stays within a share tau of sqrt(o_i) exactly when c is in the interval

    a t_i - (1 - (1 - tau)^2) o_i <= c a q_i <= a t_i + ((1 + tau)^2 - 1) o_i

so one pass over the rows gives, for every r at once, the c that serve all rows; the smallest r with any is taken, and
the middle of its c. S = U_r diag(sqrt(share - c)) is then rounded to the fewest bits with which a second pass, through
the very posterior that will be served, measures an error within the tolerance.

Whatever x is, the latent variance changes by a l'El, E = B^-1 - c I - S S', and l'l <= kss. So the certified bounds are
a kss |E| for the latent variance, and for the observation variance as a share of itself, since that is at least
a l'B^-1 l + b s2 l'l / kss, the extreme eigenvalues of E relative to B^-1 + b s2 / (a kss) I.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas, eigh, eigvalsh

from core.compact import PRECISIONS, CompactPosterior, Stored, stored_bytes
from core.errors import InvalidDataError, NotPositiveDefiniteError
from core.factors import Block, Factors, information
from core.hyperparameters import FloatArray
from core.linalg import multiply
from core.posterior import SparsePosterior
from core.spec import Artefact

_ROUNDING = 0.98
"""Of the tolerance, what leaving directions out may use; the rest is for rounding the others."""


def compress(
    factors: Factors,
    posterior: SparsePosterior,
    tolerance: float,
    *,
    latent_scale: float = 1.0,
    noise_scale: float = 1.0,
) -> CompactPosterior:
    """The compact form of a posterior, its latent variance times a = latent_scale, its noise times b = noise_scale.

    posterior: that of `factors`, not scaled yet. tolerance: largest relative change of a training row's
    standard deviation, noise included, above 0 and below 1. O(n d^2) in two passes or three, and O(d^3).
    A tolerance below what rounding allows (some 1e-12 of the prior variance) is not kept: `largest_error` says so.
    Raises InvalidDataError for a posterior that is scaled already, or has no error bars.
    """
    full = _full(factors, posterior, latent_scale, noise_scale)
    rank, rest = _smallest(full, _ROUNDING * tolerance)
    exact = full.U[:, :rank] * np.sqrt(full.shares[:rank] - rest)
    for precision in PRECISIONS:
        found = _certified(full, _rounded(full, exact, rest, precision), rest, tolerance)
        try:
            found = replace(found, largest_error=_measured(full, found.expand()))
        except NotPositiveDefiniteError:  # rounded too far
            if precision == PRECISIONS[-1]:
                raise
        if found.largest_error <= tolerance:
            break
    return found


def kept(
    factors: Factors,
    posterior: SparsePosterior,
    artefact: Artefact,
    tolerance: float,
    *,
    latent_scale: float = 1.0,
    noise_scale: float = 1.0,
) -> tuple[Stored, str | None]:
    """What is stored of the posterior of these factors, its variances scaled, and a warning where that is not what was
    asked: the full one where a compact one would be no smaller. Arguments, cost and errors of `compress`."""
    full = posterior.scaled(latent_scale, noise_scale)
    match artefact:
        case Artefact.FULL:
            return full, None
        case Artefact.MEAN:
            return full.without_variance(), None
        case Artefact.COMPACT:
            compact = compress(factors, posterior, tolerance, latent_scale=latent_scale, noise_scale=noise_scale)
    if compact.largest_error <= tolerance and stored_bytes(compact) < stored_bytes(full):
        return compact, None
    return full, (
        f"the model is stored in full: with error bars within {tolerance:g} of the full one's a compact one would not "
        "be smaller; allow a larger tolerance"
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Full:
    """What is compared with. shares (d,), descending, and U (d, d): B^-1 = U diag(shares) U'. Scaled by a or b: base,
    the latent variance before l'l is taken off (0 for SoR); noise; kss, the prior variance. scale: a."""

    factors: Factors
    posterior: SparsePosterior
    mean: SparsePosterior
    shares: FloatArray
    U: FloatArray
    scale: float
    base: float
    noise: float
    kss: float


def _full(factors: Factors, posterior: SparsePosterior, latent_scale: float, noise_scale: float) -> _Full:
    if posterior.mean_only or posterior.noise_variance != factors.hyperparameters.noise_variance:
        raise InvalidDataError("posterior: expected that of the factors, with its error bars and before it is scaled")
    lam, U = eigh(information(factors))  # ascending, so that the shares descend
    kss = latent_scale * factors.hyperparameters.prior_variance
    base = 0.0 if posterior.variance_sign > 0 else kss
    noise = noise_scale * factors.hyperparameters.noise_variance
    return _Full(
        factors=factors,
        posterior=posterior,
        mean=replace(posterior.without_variance(), variance_base=base, noise_variance=noise),
        shares=1.0 / (1.0 + np.maximum(lam, 0.0)),
        U=U,
        scale=latent_scale,
        base=base,
        noise=noise,
        kss=kss,
    )


def _observed(full: _Full, squares: FloatArray) -> FloatArray:
    """Variance of each row, noise included, (m,), from P = (U'V)^2 (d, m)."""
    weights = full.shares if full.base == 0.0 else full.shares - 1.0
    return np.asarray(full.base + full.noise + full.scale * (weights @ squares))


def _smallest(full: _Full, tolerance: float) -> tuple[int, float]:
    """The smallest r and its c: directions 0 .. r - 1 and c I keep every training row within the tolerance."""
    d = len(full.shares)
    less, more = 1.0 - (1.0 - tolerance) ** 2, (1.0 + tolerance) ** 2 - 1.0

    def part(blocks: Iterable[Block]) -> tuple[FloatArray, FloatArray]:
        least, most = np.full(d, -np.inf), np.full(d, np.inf)
        for block in blocks:
            P = np.square(multiply(full.U.T, block.V))  # (d, m)
            observed = _observed(full, P) / full.scale
            t = np.cumsum((full.shares[:, None] * P)[::-1], axis=0)[::-1]
            q = np.maximum(np.cumsum(P[::-1], axis=0)[::-1], np.finfo(float).tiny)
            with np.errstate(over="ignore"):
                np.maximum(least, ((t - less * observed) / q).max(axis=1), out=least)
                np.minimum(most, ((t + more * observed) / q).min(axis=1), out=most)
        return least, most

    parts = full.factors.over_blocks(part)
    least = np.maximum(np.max([low for low, _ in parts], axis=0), 0.0)
    most = np.minimum(np.min([high for _, high in parts], axis=0), full.shares)  # S needs share >= c
    serve = np.flatnonzero(least <= most)
    if not len(serve):
        return d, 0.0
    rank = int(serve[0])
    return rank, float(0.5 * (least[rank] + most[rank]))


def _rounded(full: _Full, exact: FloatArray, rest: float, precision: np.dtype[Any]) -> FloatArray:
    """S in this precision, (d, r); a little shorter where rounding would make a variance negative."""
    S = exact.astype(precision)
    if full.base == 0.0 or not S.size:
        return S
    top = rest + float(np.linalg.norm(S.astype(np.float64), 2)) ** 2
    if top >= 1.0:
        S = (exact * (1.0 - np.finfo(precision).eps) / np.sqrt(top)).astype(precision)
    return S


def _certified(full: _Full, directions: FloatArray, rest: float, tolerance: float) -> CompactPosterior:
    """With its bounds, and no error measured yet. O(d^3)."""
    S = full.U.T @ directions.astype(np.float64)
    E = np.asarray(-(S @ S.T))  # in the basis of U, where B^-1 is diagonal
    E[np.diag_indices(len(E))] += full.shares - rest
    absolute = float(np.abs(eigvalsh(E)[[0, -1]]).max())
    floor = 1.0 / np.sqrt(full.shares + full.noise / full.kss)
    relative = eigvalsh(floor[:, None] * E * floor)
    rounding = (
        len(E) * np.finfo(float).eps / np.sqrt(full.factors.jitter)
    )  # of both variances, of kss: the solves with L
    slack = rounding * full.kss / full.noise
    lost, gained = max(float(relative[-1]), 0.0) + slack, max(-float(relative[0]), 0.0) + slack
    return CompactPosterior(
        mean=full.mean,
        directions=directions,
        rest=rest,
        jitter=full.factors.jitter,
        latent_scale=full.scale,
        tolerance=tolerance,
        largest_error=np.inf,
        variance_bound=full.kss * (absolute + rounding),
        std_bound=float(max(1.0 - np.sqrt(max(1.0 - lost, 0.0)), np.sqrt(1.0 + gained) - 1.0)),
    )


def _measured(full: _Full, served: SparsePosterior) -> float:
    """The largest relative error of a training row's standard deviation, by the factors R that are served. O(n d^2)."""
    bias = full.factors.hyperparameters.bias_variance
    ours, theirs = np.asfortranarray(served.R), np.asfortranarray(full.posterior.R)

    def part(blocks: Iterable[Block]) -> float:
        largest = 0.0
        for block in blocks:
            k = block.K0 + bias
            compact = served.variance_base + served.variance_sign * _norms(ours, k)
            exact = full.base + full.scale * served.variance_sign * _norms(theirs, k)
            ratio = (np.maximum(compact, 0.0) + full.noise) / (np.maximum(exact, 0.0) + full.noise)
            largest = max(largest, float(np.abs(np.sqrt(ratio) - 1.0).max()))
        return largest

    return max(full.factors.over_blocks(part))


def _norms(R: FloatArray, k: FloatArray) -> FloatArray:
    """|R k|^2 of each column of k (d, m), (m,)."""
    product = np.asarray(blas.dtrmm(1.0, R, k.T, side=1, trans_a=1)).T
    return np.asarray(np.einsum("km,km->m", product, product))
