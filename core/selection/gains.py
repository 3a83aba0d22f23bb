"""The gain of every candidate, larger is chosen; -inf for a candidate that would add only rounding.

With S, h, e of `state` and `candidates`, K_ii the prior variance, v = k - V'V[:, i]:

    post-backfitting   h^2 / (2 (s2 K_ii + k'k))                     Keerthi & Chu 2005, eq. 7 and 8
    sb                 h^2 / (2 S)                                   Smola & Bartlett 2001
    nlml               h^2 / (2 s2 S) - log(S / (s2 e)) / 2          Quinonero-Candela & Rasmussen 2005
    vfe                nlml + v'v / (2 s2 e)                         Titsias 2009
    variance           e                                             pivoted Cholesky; Burt et al. 2020
    info               the information gain of Seeger et al. 2003, eq. 3
    loo-cve, nlgpp, gpe    minus the leave-one-out measure after inclusion   Sundararajan et al., eq. 2 to 4

Where rows have weights the products k'r, k'k and v'v are by these, squared errors count by weight, and in `info`, as
in leave-one-out variances, a row has its own noise, s2 over its weight.

The first five are formulas over a few numbers of each candidate, which the cache of the loop and the pool of `batch`
both carry: each is one entry of GAINS. The others read whole rows of the fit. CRITERIA says which method chooses by
what, and what is known of its measure at the empty basis.

A new gain of `batch` is an entry of GAINS and a name in `core.spec.Gain`; a new method, one of CRITERIA and a name in
`core.spec.Method`. Their tests want the formula twice more: in plain numpy (`tests/dense/selection`) and in 60 digits
(`precise_selection` there).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.process.rows import Rows
from core.selection.candidates import CandidateCache, Candidates, Needs
from core.selection.state import LEAST_SHARE, LEAST_SHARE_OF_EVIDENCE, LEAST_UNEXPLAINED, RIDGE, GrowingFit
from core.spec import Gain, Method

_RUN = 32
"""Candidates whose (c, n) temporaries are made at once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantities:
    """Numbers of c candidates that gains are made of, (c,) each, S and e held above their rounding.

    noise_variance: s2. h = k'r - s2 mu_i, of the kernel column k and the residual r of the fit; S: the curvature that
    goes with it (`core.selection.candidates`). own: s2 K_ii + k'k. e: prior variance left. across: v'v. What a formula
    does not read may be empty.
    """

    noise_variance: float
    h: FloatArray
    S: FloatArray
    own: FloatArray
    e: FloatArray
    across: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A gain as a function of `Quantities`, O(1) a candidate, and which of them it reads.

    logarithm: it reads log S, which feels the rounding of S sooner.
    """

    value: Callable[[Quantities], FloatArray]
    schur: bool = False
    explained: bool = False
    across: bool = False
    logarithm: bool = False

    @property
    def least_share(self) -> float:
        """Share of `own` below which S is rounding."""
        return LEAST_SHARE_OF_EVIDENCE if self.logarithm else LEAST_SHARE


def post_backfitting(candidates: Quantities) -> FloatArray:
    """Return the decrease of pi when only the candidate's coefficient moves."""
    return np.asarray(np.square(candidates.h) / (2.0 * candidates.own))


def pre_backfitting(candidates: Quantities) -> FloatArray:
    """Return the decrease of pi when all coefficients move."""
    return np.asarray(np.square(candidates.h) / (2.0 * candidates.S))


def evidence(candidates: Quantities) -> FloatArray:
    """Return the decrease of the DTC objective."""
    s2, S = candidates.noise_variance, candidates.S
    return np.asarray(np.square(candidates.h) / (2.0 * s2 * S) - 0.5 * np.log(S / (s2 * candidates.e)))


def variational(candidates: Quantities) -> FloatArray:
    """Return the decrease of the VFE objective: never negative."""
    return evidence(candidates) + candidates.across / (2.0 * candidates.noise_variance * candidates.e)


def conditional_variance(candidates: Quantities) -> FloatArray:
    """Return the prior variance that the basis leaves, which never looks at the targets."""
    return candidates.e


GAINS: Mapping[Gain, Formula] = {
    Gain.POST_BACKFITTING: Formula(value=post_backfitting),
    Gain.SB: Formula(value=pre_backfitting, schur=True),
    Gain.NLML: Formula(value=evidence, schur=True, explained=True, logarithm=True),
    Gain.VFE: Formula(value=variational, schur=True, explained=True, across=True, logarithm=True),
    Gain.VARIANCE: Formula(value=conditional_variance, explained=True),
}
"""Gains that `batch` may choose by, and methods that choose one row at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A method's measure at the empty basis, from which it is followed.

    value: (the rows, prior variance, s2) -> measure. by_gains: each gain is taken off; otherwise a gain is minus the
    measure.
    """

    value: Callable[[Rows, float, float], float]
    by_gains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCriterion:
    """A gain that reads kernel columns: `needs` says what else the cache must hold; start: None follows no measure."""

    gains: Callable[[GrowingFit, CandidateCache], FloatArray]
    needs: Needs
    start: Start | None = None

    def score(self, fit: GrowingFit, candidates: Candidates) -> FloatArray:
        """Return the gain of every cached candidate, (c,)."""
        if not isinstance(candidates, CandidateCache):
            raise TypeError("this criterion reads kernel columns: it scores a cache")
        return self.gains(fit, candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCriterion:
    """A gain of O(1) for each of the given rows, from the fit alone."""

    gains: Callable[[GrowingFit, IntArray], FloatArray]
    start: Start | None = None

    def score(self, fit: GrowingFit, candidates: Candidates) -> FloatArray:
        """Return the gain of every candidate, (c,)."""
        return self.gains(fit, candidates.indices)


Criterion = CacheCriterion | RowCriterion


def _cached(gain: Gain, start: Start | None = None) -> CacheCriterion:
    """Criterion of a formula over the cache."""
    formula = GAINS[gain]

    def gains(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
        none = np.zeros(len(cache.indices), bool)
        S, rounding = _schur(cache, formula.least_share) if formula.schur else (cache.S, none)
        if gain is Gain.SB:
            S += RIDGE * _own(cache)
        e, explained = _unexplained(fit, cache.indices) if formula.explained else (cache.S, none)
        found = Quantities(
            noise_variance=fit.hyperparameters.noise_variance,
            h=cache.h,
            S=S,
            own=_own(cache),
            e=e,
            across=np.einsum("cn,cn->c", fit.rows.by_weight(cache.across), cache.across),
        )
        return np.where(rounding | explained, -np.inf, formula.value(found))

    needs = Needs(schur=formula.schur, explained=formula.explained, across=formula.across)
    return CacheCriterion(gains=gains, needs=needs, start=start)


def information(fit: GrowingFit, chosen: IntArray) -> FloatArray:
    """Return KL(new || old) when a row is included coupled to its own target only. O(1) each."""
    s2 = fit.rows.noise(fit.hyperparameters.noise_variance, chosen)
    least = LEAST_UNEXPLAINED * fit.hyperparameters.prior_variance
    e = fit.hyperparameters.prior_variance - fit.p[chosen]
    ratio = s2 / np.maximum(e, least)
    xi = 1.0 / (ratio + np.maximum(1.0 - fit.share[chosen], 0.0))  # q may round past 1 where there is hardly any noise
    kappa = xi * (1.0 + 2.0 * ratio)
    surprise = np.square(fit.residuals[chosen]) / s2
    gain = -0.5 * np.log(ratio) - 0.5 * (np.log(xi) + xi * (1.0 - kappa) * surprise - kappa + 2.0)
    return np.where(e > least, gain, -np.inf)


def variance_of_rows(fit: GrowingFit, chosen: IntArray) -> FloatArray:
    """Return the gain `variance` of these rows. O(1) each."""
    e, out = _unexplained(fit, chosen)
    return np.where(out, -np.inf, e)


def loo_cve(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """Return minus the mean squared leave-one-out error. O(n) each."""
    gains = np.empty(len(cache.indices))
    for run, error, _ in _left_out(fit, cache):
        gains[run] = -np.mean(fit.rows.by_weight(np.square(error)), axis=1)
    return _without_useless(fit, cache, gains)


def nlgpp(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """Return minus the mean of error^2 / variance + log variance, left out one by one. O(n) each."""
    gains = np.empty(len(cache.indices))
    for run, error, variance in _left_out(fit, cache):
        gains[run] = -np.mean(np.square(error) / variance + np.log(variance), axis=1)
    return _without_useless(fit, cache, gains)


def gpe(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
    """Return minus the mean of error^2 + variance, left out one by one. O(n) each."""
    gains = np.empty(len(cache.indices))
    for run, error, variance in _left_out(fit, cache):
        gains[run] = -np.mean(fit.rows.by_weight(np.square(error) + variance), axis=1)
    return _without_useless(fit, cache, gains)


def left_out_moments(
    residuals: FloatArray, q: FloatArray, p: FloatArray, prior: float, s2: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return the leave-one-out error and variance of DTC: r / (1 - q), K_ii - p + s2 / (1 - q); shapes alike.

    q: share of each row in its own prediction; s2: noise of each row, or of all.
    """
    rest = np.maximum(1.0 - q, np.finfo(float).eps)
    return residuals / rest, np.maximum(prior - p, 0.0) + s2 / rest


def _left_out(fit: GrowingFit, cache: CandidateCache) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield error and variance (c, n) after inclusion, for some candidates at a time."""
    s2, prior = fit.rows.noise(fit.hyperparameters.noise_variance), fit.hyperparameters.prior_variance
    S, _ = _schur(cache)
    e, _ = _unexplained(fit, cache.indices)
    for start in range(0, len(cache.indices), _RUN):
        run = slice(start, start + _RUN)
        w = cache.toward[run] / np.sqrt(S[run])[:, None]
        residuals = fit.residuals - (cache.h[run] / np.sqrt(S[run]))[:, None] * w
        p = fit.p + np.square(cache.across[run]) / e[run][:, None] if cache.needs.across else fit.p
        error, variance = left_out_moments(residuals, fit.rows.by_weight(fit.q + np.square(w)), p, prior, s2)
        yield run, error, variance


def _own(cache: CandidateCache) -> FloatArray:
    """Square of each candidate, s2 K_ii + k'k, (c,)."""
    hyperparameters = cache.fit.hyperparameters
    return np.asarray(hyperparameters.noise_variance * hyperparameters.prior_variance + cache.lengths)


def _schur(cache: CandidateCache, share: float = LEAST_SHARE) -> tuple[FloatArray, BoolArray]:
    """S held above its rounding, and where it is not above."""
    least = share * _own(cache)
    return np.maximum(cache.S, least), least >= cache.S


def _unexplained(fit: GrowingFit, indices: IntArray) -> tuple[FloatArray, BoolArray]:
    """Prior variance e of these rows held above its rounding, and where it is not above."""
    prior = fit.hyperparameters.prior_variance
    least = LEAST_UNEXPLAINED * prior
    e = prior - fit.p[indices]
    return np.maximum(e, least), e <= least


def _without_useless(fit: GrowingFit, cache: CandidateCache, gains: FloatArray) -> FloatArray:
    out = _schur(cache)[1]
    if cache.needs.explained:
        out = out | _unexplained(fit, cache.indices)[1]
    return np.where(out, -np.inf, gains)


def _power(rows: Rows) -> float:
    """y'y, by weight."""
    return float(rows.y @ rows.by_weight(rows.y))


def _objective_without_basis(rows: Rows, s2: float) -> float:
    """DTC objective of the empty basis: -log N(y; 0, s2 I)."""
    found = float(0.5 * (len(rows) * np.log(2.0 * np.pi * s2) + _power(rows) / s2))
    return found - 0.5 * float(np.log(rows.weights).sum()) if rows.weighted else found


def _trace_without_basis(rows: Rows, prior: float, s2: float) -> float:
    """VFE's trace term of the empty basis."""
    return float(rows.weights.sum() if rows.weighted else len(rows)) * prior / (2.0 * s2)


def _loss_without_basis(rows: Rows, prior: float, s2: float) -> float:
    """Mean of y^2 / variance + log variance."""
    if not rows.weighted:
        return _power(rows) / len(rows) / (prior + s2) + float(np.log(prior + s2))
    variance = prior + rows.noises(s2)
    return float(np.mean(np.square(rows.y) / variance + np.log(variance)))


def _errors_without_basis(rows: Rows, prior: float, s2: float) -> float:
    """Mean of y^2 + variance, by weight."""
    if not rows.weighted:
        return _power(rows) / len(rows) + prior + s2
    return float(np.mean(rows.by_weight(np.square(rows.y) + prior + rows.noises(s2))))


_POST_BACKFITTING, _SB = _cached(Gain.POST_BACKFITTING), _cached(Gain.SB)
_LEFT_OUT = Needs(schur=True, explained=True, toward=True, across=True)

CRITERIA: dict[Method, Criterion] = {
    Method.KAPPA: _POST_BACKFITTING,
    Method.DMAX: _POST_BACKFITTING,
    Method.SB: _SB,
    Method.NLPP: _SB,
    Method.NLML: _cached(
        Gain.NLML,
        Start(value=lambda rows, _, s2: _objective_without_basis(rows, s2), by_gains=True),
    ),
    Method.VFE: _cached(
        Gain.VFE,
        Start(
            value=lambda rows, prior, s2: _objective_without_basis(rows, s2) + _trace_without_basis(rows, prior, s2),
            by_gains=True,
        ),
    ),
    Method.LOO_CVE: CacheCriterion(
        gains=loo_cve,
        needs=Needs(schur=True, toward=True),
        start=Start(value=lambda rows, _prior, _s2: _power(rows) / len(rows)),
    ),
    Method.NLGPP: CacheCriterion(
        gains=nlgpp,
        needs=_LEFT_OUT,
        start=Start(value=_loss_without_basis),
    ),
    Method.GPE: CacheCriterion(gains=gpe, needs=_LEFT_OUT, start=Start(value=_errors_without_basis)),
    Method.INFO: RowCriterion(gains=information),
    Method.VARIANCE: RowCriterion(gains=variance_of_rows),
}
"""Every method that chooses one row at a time."""
