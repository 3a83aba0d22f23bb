"""The smallest compact form of a posterior whose error bars stay within a tolerance on every training row.

With l_i = V_i, (u_k'l_i)^2 = P_ki, share_k = 1 / (1 + lam_k) in descending order, leaving the directions k >= r to c I
changes the latent variance v_i of row i by -(t_i - c q_i), where

    t_i = sum_{k >= r} share_k P_ki,    q_i = sum_{k >= r} P_ki,    v_i = kss - l'l + sum_k share_k P_ki

(SoR: without kss - l'l). A row is observed with the variance o_i = f(v_i) + noise_i, f the calibration's `latent`; it
stays within a share tau of sqrt(o_i) exactly when v_i stays between the v of (1 -+ tau)^2 o_i, so when c q_i lies in an
interval. One pass over the rows gives, for every r at once, the c that serve all rows; the smallest r with any is
taken, and the middle of its c. S = U_r diag(sqrt(share - c)) is then rounded to the fewest bits with which a second
pass, through the very posterior that will be served, measures an error within the tolerance.

Whatever x is, the latent variance changes by l'El, E = B^-1 - c I - S S', and l'l <= kss: at most kss |E|. Its change
as a share of v + noise is at most the extreme eigenvalue of E relative to B^-1 + noise / kss I, with the least noise
there is (over a where f multiplies by a > 1). Where a < 1 f bends upwards: a change of the latent variance by delta
changes f by no more than a further share (1 - a) / a delta / far.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas, eigh, eigvalsh

from core.arrays import FloatArray
from core.errors import InvalidDataError, NotPositiveDefiniteError
from core.predict.calibration import Calibration, stretch
from core.predict.compact import PRECISIONS, CompactPosterior, Stored, stored_bytes
from core.sparse.factors import Block, Factors
from core.sparse.posterior import SparsePosterior
from core.spec import Artefact

_ROUNDING = 0.98
"""Share of the tolerance that leaving directions out may use; the rest is for rounding the others."""


def compress(
    factors: Factors,
    posterior: SparsePosterior,
    tolerance: float,
    *,
    calibration: Calibration | None = None,
    log_noise: FloatArray | None = None,
    lowest: float = 0.0,
) -> CompactPosterior:
    """The compact form of the posterior of these factors.

    tolerance: largest relative change of a training row's standard deviation, noise included, above 0 and below 1.
    calibration: how variances will be scaled. log_noise: of each training row (n,), as `VaryingNoise.logarithm` says,
    and its `lowest` anywhere.
    O(n d^2) in two passes or three, and O(d^3). A tolerance below what rounding allows (some 1e-12 of the prior
    variance) is not kept: `largest_error` says so. Raises InvalidDataError for a posterior without error bars.
    """
    full = _full(factors, posterior, calibration or Calibration(), log_noise, lowest)
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
    calibration: Calibration | None = None,
    log_noise: FloatArray | None = None,
    lowest: float = 0.0,
) -> tuple[Stored, str | None]:
    """Choose what is stored of the posterior of these factors, and a warning where that is not what was asked: the full
    one where a compact one would be no smaller. Arguments, cost and errors of `compress`."""
    match artefact:
        case Artefact.FULL:
            return posterior, None
        case Artefact.MEAN:
            return posterior.without_variance(), None
        case Artefact.COMPACT:
            compact = compress(
                factors, posterior, tolerance, calibration=calibration, log_noise=log_noise, lowest=lowest
            )
    if compact.largest_error <= tolerance and stored_bytes(compact) < stored_bytes(posterior):
        return compact, None
    return posterior, (
        f"the model is stored in full: with error bars within {tolerance:g} of the full one's a compact one would not "
        "be smaller; allow a larger tolerance"
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Full:
    """Posterior that compact forms are compared with. shares (d,), descending, and U (d, d): B^-1 = U diag(shares) U'.
    kss: the prior variance; base: the latent variance before l'l is taken off, kss or, for SoR, 0; far_variance: see
    core.predict.calibration; noise (n,): of each training row, scaled; least_noise: of any row there can be."""

    factors: Factors
    posterior: SparsePosterior
    calibration: Calibration
    shares: FloatArray
    U: FloatArray
    kss: float
    base: float
    far_variance: float
    noise: FloatArray
    least_noise: float

    def observed(self, latent: FloatArray, rows: slice) -> FloatArray:
        """Variance of these training rows with noise, (m,), from the latent one, calibrated."""
        return np.asarray(self.calibration.latent(latent, self.far_variance) + self.noise[rows])

    def latent(self, observed: FloatArray, rows: slice) -> FloatArray:
        """The inverse of `observed`, -inf where no latent variance is that small. Above `far_variance` none is
        changed."""
        without = observed - self.noise[rows]
        inside = np.clip(without, 0.0, self.far_variance)
        found = stretch(inside, self.far_variance, 1.0 / self.calibration.latent_scale)
        return np.where(without < 0.0, -np.inf, np.where(without >= self.far_variance, without, found))


def _full(
    factors: Factors,
    posterior: SparsePosterior,
    calibration: Calibration,
    log_noise: FloatArray | None,
    lowest: float,
) -> _Full:
    if posterior.mean_only:
        raise InvalidDataError("posterior: expected one with error bars")
    lam, U = eigh(factors.information)  # ascending, so that the shares descend
    kss, s2 = factors.hyperparameters.prior_variance, factors.hyperparameters.noise_variance
    varying = np.ones(len(factors.rows)) if log_noise is None else np.exp(log_noise)
    reduced = posterior.variance_sign > 0.0
    return _Full(
        factors=factors,
        posterior=posterior,
        calibration=calibration,
        shares=1.0 / (1.0 + np.maximum(lam, 0.0)),
        U=U,
        kss=kss,
        base=0.0 if reduced else kss,
        far_variance=posterior.far_variance if posterior.far_variance > 0.0 else np.inf,
        noise=calibration.noise_scale * s2 * varying,
        least_noise=calibration.noise_scale * s2 * min(float(np.exp(lowest)), float(varying.min())),
    )


def _smallest(full: _Full, tolerance: float) -> tuple[int, float]:
    """The smallest r and its c: directions 0 .. r - 1 and c I keep every training row within the tolerance."""
    d = len(full.shares)

    def part(blocks: Iterable[Block]) -> tuple[FloatArray, FloatArray]:
        least, most = np.full(d, -np.inf), np.full(d, np.inf)
        for block in blocks:
            P = np.square(full.U.T @ block.V)  # (d, m)
            weights = full.shares if full.base == 0.0 else full.shares - 1.0
            latent = np.maximum(full.base + weights @ P, 0.0)
            observed = full.observed(latent, block.rows)
            fall = latent - full.latent(observed * (1.0 - tolerance) ** 2, block.rows)
            rise = full.latent(observed * (1.0 + tolerance) ** 2, block.rows) - latent
            t = np.cumsum((full.shares[:, None] * P)[::-1], axis=0)[::-1]
            q = np.maximum(np.cumsum(P[::-1], axis=0)[::-1], np.finfo(float).tiny)
            with np.errstate(over="ignore"):
                np.maximum(least, ((t - fall) / q).max(axis=1), out=least)
                np.minimum(most, ((t + rise) / q).min(axis=1), out=most)
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
    """Return the compact form with its bounds, and no error measured yet. O(d^3)."""
    S = full.U.T @ directions.astype(np.float64)
    E = np.asarray(-(S @ S.T))  # in the basis of U, where B^-1 is diagonal
    E[np.diag_indices(len(E))] += full.shares - rest
    absolute = float(np.abs(eigvalsh(E)[[0, -1]]).max())
    a = full.calibration.latent_scale
    noise = full.least_noise / max(a, 1.0)
    floor = 1.0 / np.sqrt(full.shares + noise / full.kss)
    relative = eigvalsh(floor[:, None] * E * floor)
    # Of both variances, as a share of kss: the solves with L round.
    rounding = len(E) * np.finfo(float).eps / np.sqrt(full.factors.jitter)
    slack = rounding * full.kss / noise
    bent = max(1.0 - a, 0.0) / a * full.kss * (absolute + rounding) / full.far_variance
    lost = max(float(relative[-1]), 0.0) + slack
    gained = max(-float(relative[0]), 0.0) + slack
    lost, gained = lost + bent, gained + (1.0 + gained) * bent
    return CompactPosterior(
        mean=full.posterior.without_variance(),
        directions=directions,
        rest=rest,
        jitter=full.factors.jitter,
        tolerance=tolerance,
        largest_error=np.inf,
        variance_bound=full.kss * (absolute + rounding),
        std_bound=float(max(1.0 - np.sqrt(max(1.0 - lost, 0.0)), np.sqrt(1.0 + gained) - 1.0)),
    )


def _measured(full: _Full, served: SparsePosterior) -> float:
    """The largest relative error of a training row's standard deviation, by the factors R that are served. O(n d^2)."""
    kernel = full.factors.kernel
    ours, theirs = np.asfortranarray(served.R), np.asfortranarray(full.posterior.R)

    def part(blocks: Iterable[Block]) -> float:
        largest = 0.0
        for block in blocks:
            k = kernel.add_bias(block.K0)
            compact = np.maximum(served.variance_base + served.variance_sign * _norms(ours, k), 0.0)
            exact = np.maximum(full.base + served.variance_sign * _norms(theirs, k), 0.0)
            ratio = full.observed(compact, block.rows) / full.observed(exact, block.rows)
            largest = max(largest, float(np.abs(np.sqrt(ratio) - 1.0).max()))
        return largest

    return max(full.factors.over_blocks(part))


def _norms(R: FloatArray, k: FloatArray) -> FloatArray:
    """Return |R k|^2 of each column of k (d, m), (m,)."""
    product = np.asarray(blas.dtrmm(1.0, R, k.T, side=1, trans_a=1)).T
    return np.asarray(np.einsum("km,km->m", product, product))
