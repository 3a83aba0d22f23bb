"""The gain of every candidate: one small function (fit, candidates) -> (c,) for each criterion, larger is chosen.

With S, h, e of `state` and `candidates`, K_ii the prior variance; -inf for a candidate that would add only rounding:

    post-backfitting   h^2 / (2 (s2 K_ii + k'k))                     Keerthi & Chu 2005, eq. 7 and 8
    sb                 h^2 / (2 S)                                   Smola & Bartlett 2001
    nlml               h^2 / (2 s2 S) - log(S / (s2 e)) / 2          Quinonero-Candela & Rasmussen 2005
    vfe                nlml + v'v / (2 s2)                           Titsias 2009
    info               the information gain of Seeger et al. 2003, eq. 3
    variance           e                                             pivoted Cholesky; Burt et al. 2020
    loo-cve, nlgpp, gpe    minus the leave-one-out measure after inclusion   Sundararajan et al., eq. 2 to 4
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from core.hyperparameters import BoolArray, FloatArray, IntArray
from core.selection.candidates import CandidateCache, Candidates, Needs
from core.selection.state import LEAST_SHARE, LEAST_SHARE_OF_EVIDENCE, LEAST_UNEXPLAINED, RIDGE, GrowingFit
from core.spec import Method

_RUN = 32
"""Candidates whose (c, n) temporaries are made at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCriterion:
    """A gain that reads kernel columns: `needs` says what else the cache must hold."""

    gains: Callable[[GrowingFit, CandidateCache], FloatArray]
    needs: Needs

    def score(self, fit: GrowingFit, candidates: Candidates) -> FloatArray:
        """The gain of every cached candidate, (c,)."""
        if not isinstance(candidates, CandidateCache):
            raise TypeError("this criterion reads kernel columns: it scores a cache")
        return self.gains(fit, candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCriterion:
    """A gain of O(1) for each of the given rows, from the fit alone."""

    gains: Callable[[GrowingFit, IntArray], FloatArray]

    def score(self, fit: GrowingFit, candidates: Candidates) -> FloatArray:
        """The gain of every candidate, (c,)."""
        return self.gains(fit, candidates.indices)


Criterion = CacheCriterion | RowCriterion


def post_backfitting(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """The decrease of pi when only the candidate's coefficient moves. O(1) each."""
    own = fit.hyperparameters.noise_variance * fit.hyperparameters.prior_variance + cache.lengths
    return np.asarray(np.square(cache.h) / (2.0 * own))


def pre_backfitting(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """The decrease of pi when all coefficients move. O(1) each."""
    S, out = _schur(cache)
    S += RIDGE * (fit.hyperparameters.noise_variance * fit.hyperparameters.prior_variance + cache.lengths)
    return np.asarray(np.where(out, -np.inf, np.square(cache.h) / (2.0 * S)))


def evidence(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """The decrease of the DTC objective. O(1) each."""
    s2 = fit.hyperparameters.noise_variance
    S, out = _schur(cache, LEAST_SHARE_OF_EVIDENCE)
    e, unheard = _unexplained(fit, cache)
    gain = np.square(cache.h) / (2.0 * s2 * S) - 0.5 * np.log(S / (s2 * e))
    return np.where(out | unheard, -np.inf, gain)


def variational(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """The decrease of the VFE objective: never negative. O(n) each."""
    e, _ = _unexplained(fit, cache)
    explained = np.einsum("cn,cn->c", cache.across, cache.across) / e
    return np.asarray(evidence(fit, cache) + explained / (2.0 * fit.hyperparameters.noise_variance))


def information(fit: GrowingFit, chosen: IntArray) -> FloatArray:
    """KL(new || old) when a row is included coupled to its own target only. O(1) each."""
    s2 = fit.hyperparameters.noise_variance
    least = LEAST_UNEXPLAINED * fit.hyperparameters.prior_variance
    e = fit.hyperparameters.prior_variance - fit.p[chosen]
    ratio = s2 / np.maximum(e, least)
    xi = 1.0 / (ratio + 1.0 - fit.q[chosen])
    kappa = xi * (1.0 + 2.0 * ratio)
    surprise = np.square(fit.residuals[chosen]) / s2
    gain = -0.5 * np.log(ratio) - 0.5 * (np.log(xi) + xi * (1.0 - kappa) * surprise - kappa + 2.0)
    return np.where(e > least, gain, -np.inf)


def conditional_variance(fit: GrowingFit, chosen: IntArray) -> FloatArray:
    """The prior variance that the basis leaves. Never looks at the targets. O(1) each."""
    e = fit.hyperparameters.prior_variance - fit.p[chosen]
    return np.where(e > LEAST_UNEXPLAINED * fit.hyperparameters.prior_variance, e, -np.inf)


def loo_cve(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """Minus the mean squared leave-one-out error. O(n) each."""
    gains = np.empty(len(cache.indices))
    for run, error, _ in _left_out(fit, cache):
        gains[run] = -np.mean(np.square(error), axis=1)
    return _without_useless(fit, cache, gains)


def nlgpp(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """Minus the mean of error^2 / variance + log variance, left out one by one. O(n) each."""
    gains = np.empty(len(cache.indices))
    for run, error, variance in _left_out(fit, cache):
        gains[run] = -np.mean(np.square(error) / variance + np.log(variance), axis=1)
    return _without_useless(fit, cache, gains)


def gpe(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """Minus the mean of error^2 + variance, left out one by one. O(n) each."""
    gains = np.empty(len(cache.indices))
    for run, error, variance in _left_out(fit, cache):
        gains[run] = -np.mean(np.square(error) + variance, axis=1)
    return _without_useless(fit, cache, gains)


def left_out_moments(
    residuals: FloatArray, q: FloatArray, p: FloatArray, prior: float, s2: float
) -> tuple[FloatArray, FloatArray]:
    """Leave-one-out error and variance of DTC (MATH): r / (1 - q), K_ii - p + s2 / (1 - q); shapes alike."""
    rest = np.maximum(1.0 - q, np.finfo(float).eps)
    return residuals / rest, np.maximum(prior - p, 0.0) + s2 / rest


def _left_out(fit: GrowingFit, cache: CandidateCache) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Error and variance (c, n) after inclusion, for some candidates at a time."""
    s2, prior = fit.hyperparameters.noise_variance, fit.hyperparameters.prior_variance
    S, _ = _schur(cache)
    e, _ = _unexplained(fit, cache)
    for start in range(0, len(cache.indices), _RUN):
        run = slice(start, start + _RUN)
        w = cache.toward[run] / np.sqrt(S[run])[:, None]
        residuals = fit.residuals - (cache.h[run] / np.sqrt(S[run]))[:, None] * w
        p = fit.p + np.square(cache.across[run]) / e[run][:, None] if cache.needs.across else fit.p
        error, variance = left_out_moments(residuals, fit.q + np.square(w), p, prior, s2)
        yield run, error, variance


def _schur(cache: CandidateCache, share: float = LEAST_SHARE) -> tuple[FloatArray, BoolArray]:
    """S held above its rounding, and where it is not above."""
    s2, prior = cache.fit.hyperparameters.noise_variance, cache.fit.hyperparameters.prior_variance
    least = share * (s2 * prior + cache.lengths)
    return np.maximum(cache.S, least), least >= cache.S


def _unexplained(fit: GrowingFit, cache: CandidateCache) -> tuple[FloatArray, BoolArray]:
    """e held above its rounding, and where it is not above."""
    prior = fit.hyperparameters.prior_variance
    least = LEAST_UNEXPLAINED * prior
    e = prior - fit.p[cache.indices]
    return np.maximum(e, least), e <= least


def _without_useless(fit: GrowingFit, cache: CandidateCache, gains: FloatArray) -> FloatArray:
    out = _schur(cache)[1]
    if cache.needs.explained:
        out = out | _unexplained(fit, cache)[1]
    return np.where(out, -np.inf, gains)


CRITERIA: dict[Method, Criterion] = {
    Method.KAPPA: CacheCriterion(gains=post_backfitting, needs=Needs()),
    Method.DMAX: CacheCriterion(gains=post_backfitting, needs=Needs()),
    Method.SB: CacheCriterion(gains=pre_backfitting, needs=Needs(schur=True)),
    Method.NLPP: CacheCriterion(gains=pre_backfitting, needs=Needs(schur=True)),
    Method.NLML: CacheCriterion(gains=evidence, needs=Needs(schur=True, explained=True)),
    Method.VFE: CacheCriterion(gains=variational, needs=Needs(schur=True, explained=True, across=True)),
    Method.LOO_CVE: CacheCriterion(gains=loo_cve, needs=Needs(schur=True, toward=True)),
    Method.NLGPP: CacheCriterion(gains=nlgpp, needs=Needs(schur=True, explained=True, toward=True, across=True)),
    Method.GPE: CacheCriterion(gains=gpe, needs=Needs(schur=True, explained=True, toward=True, across=True)),
    Method.INFO: RowCriterion(gains=information),
    Method.VARIANCE: RowCriterion(gains=conditional_variance),
}
"""Every method that chooses one row at a time."""
