"""Shares of the mean's variance that features make, alone and with all others: Sobol' indices (Sobol' 1993; total ones
Homma & Saltelli 1996) under independent features.

With E(s) = E m(X) and V = Var m(X),

    first order  S_c = Var E(m | X_c) / V,        total  T_c = E Var(m | X_-c) / V

Main effects g_c(x) = E(m | X_c = x) are sums over rows with all other factors expected, O(Q M N), and so S_c is exact
for every kernel. For the Gaussian kernel the others are quadratic forms in closed form (Chen, Jin & Sudjianto 2005;
Oakley & O'Hagan 2004, for the mean alone),

    V = alpha' (prod_c V_c - prod_c m_c m_c') alpha,     T_c V = alpha' ((V_c - m_c m_c') o prod_{i /= c} V_i) alpha,
    V_c[j, k] = E exp(-R_jc(X_c) - R_kc(X_c))                                                        O(M^2 N f)

For other kernels, for many rows, or where rounding would show in these differences, by sampling (Jansen 1999),

    T_c V = 1/2 E (m(X) - m(X with another X_c))^2

with its standard error.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.explain.product_mean import ProductMean
from core.hyperparameters import KernelFamily

CLOSED_WORK = 100_000_000
"""Multiply-adds of the closed form, at most."""
SAMPLED_WORK = 50_000_000
"""Kernel values of the samples, at most, where that leaves LEAST_SAMPLES."""
LEAST_SAMPLES, MOST_SAMPLES = 64, 1024
BLOCK_NUMBERS = 1 << 20
TABLE_NUMBERS = 1 << 18
"""Squared distances between rows and points worked on at a time."""
ROUNDING = 1e-3
"""Largest share of the variance that rounding may make."""
SMALLEST_SHARE = 1e-12
"""Below this share of the squared sum of the weights' sizes there is no variance but rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SobolIndices:
    """Shares of the variance of the mean: first (f,) of each feature alone, total (f,) with all that it is part of.

    standard_error (f,): of the totals, 0 where they are in closed form. mean, deviation: of the learnt target's mean
    under independent features. effects: main effects at the points of each feature, (N,) each, in the target's unit.
    """

    first: FloatArray
    total: FloatArray
    standard_error: FloatArray
    mean: float
    deviation: float
    effects: tuple[FloatArray, ...]
    closed: bool


def sobol_indices(form: ProductMean) -> SobolIndices:
    """Return the indices of a mean; the same mean gives the same. All are 0 where it is constant.

    Squares are of weights over a power of two near the largest, which rounds nothing and overflows nowhere.
    """
    mean, effects = main_effects(form)
    unit = float(np.ldexp(1.0, int(np.frexp(np.abs(form.alpha).max(initial=0.0))[1]) - 1))
    weights = form.alpha / unit
    alone = np.array(
        [
            probabilities @ np.square((effect - mean) / unit)
            for probabilities, effect in zip(form.probabilities, effects, strict=True)
        ]
    )
    found = _closed(form, weights) if _has_closed_form(form) else None
    variance, total, error = found or _sampled(form, weights)
    variance = max(variance, float(alone.max(initial=0.0)))
    if variance <= (SMALLEST_SHARE * float(np.abs(weights).sum())) ** 2:
        zeros = np.zeros(form.features)
        return SobolIndices(
            first=zeros, total=zeros, standard_error=zeros, mean=mean, deviation=0.0, effects=effects, closed=True
        )
    total = np.maximum(total, alone)  # sampling may miss this
    return SobolIndices(
        first=alone / variance,
        total=np.minimum(total / variance, 1.0),
        standard_error=error / variance,
        mean=mean,
        deviation=unit * float(np.sqrt(variance)),
        effects=effects,
        closed=found is not None,
    )


def main_effects(form: ProductMean) -> tuple[float, tuple[FloatArray, ...]]:
    """Return the mean under independent features, and that given each feature's value at its points, (N,) each: the
    partial dependence of the learnt target. O(Q table_size)."""
    effects = [np.full(len(probabilities), form.constant) for probabilities in form.probabilities]
    mean = form.constant
    step = max(1, TABLE_NUMBERS * form.size // form.table_size)
    for start in range(0, form.size, step):
        block = form.block(slice(start, start + step))
        for rate, weight in zip(form.rates.tolist(), form.weights.tolist(), strict=True):
            values = [np.exp(-rate * R) for R, _, _ in block.tables]  # (M', N)
            expected = np.stack([(each @ p)[where] for each, (_, p, where) in zip(values, block.tables, strict=True)])
            mean += weight * float(block.alpha @ expected.prod(axis=0))
            for place, others in enumerate(_products_of_others(expected)):
                where = block.tables[place][2]
                sums = np.bincount(where, weights=block.alpha * others, minlength=len(values[place]))
                effects[place] += weight * (sums @ values[place])
    return mean, tuple(effects)


def _products_of_others(factors: FloatArray) -> FloatArray:
    """Products over all but one of the first axis, the shape of factors (f, ..)."""
    found = np.ones_like(factors)
    for place in range(1, len(factors)):
        np.multiply(found[place - 1], factors[place - 1], out=found[place])
    after = np.ones_like(factors[0])
    for place in range(len(factors) - 1, -1, -1):
        found[place] *= after
        after *= factors[place]
    return found


def _has_closed_form(form: ProductMean) -> bool:
    points = sum(map(len, form.probabilities))
    return form.family is KernelFamily.GAUSSIAN and form.size**2 * points <= CLOSED_WORK


def _closed(form: ProductMean, alpha: FloatArray) -> tuple[float, FloatArray, FloatArray] | None:
    """Variance with weights alpha (M,), totals times it, and nought for their errors; None where rounding shows."""
    tables = []
    for place, probabilities in enumerate(form.probabilities):
        distances, where = form.table(place)
        values = np.exp(-distances)
        tables.append(((values * probabilities) @ values.T, values @ probabilities, where))
    step = max(1, BLOCK_NUMBERS // (form.size * form.features))
    variance, totals = 0.0, np.zeros(form.features)
    for start in range(0, form.size, step):
        some = slice(start, start + step)
        V = np.stack([second[np.ix_(where[some], where)] for second, _, where in tables])  # (f, rows, M)
        m = np.stack([np.multiply.outer(first[where[some]], first[where]) for _, first, where in tables])
        left, right = alpha[some], alpha
        variance += float(left @ (V.prod(axis=0) - m.prod(axis=0)) @ right)
        totals += ((V - m) * _products_of_others(V) @ right) @ left
    rounding = 1e-16 * float(np.abs(alpha).sum()) ** 2
    return None if rounding > ROUNDING * variance else (variance, np.maximum(totals, 0.0), np.zeros(form.features))


def _sampled(form: ProductMean, alpha: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Variance with weights alpha (M,), totals times it, and their standard errors, by Jansen's estimator."""
    random = np.random.default_rng(0)
    work = form.size * (form.features + 1)
    samples = int(np.clip(SAMPLED_WORK // work, LEAST_SAMPLES, MOST_SAMPLES))
    drawn, other = _drawn(form, samples, random), _drawn(form, samples, random)
    means, changed = np.empty(samples), np.empty((form.features, samples))
    step = max(1, BLOCK_NUMBERS // form.size)
    tables = [form.table(place) for place in range(form.features)]
    for start in range(0, samples, step):
        some = slice(start, start + step)
        own = [_distances(table, points[some]) for table, points in zip(tables, drawn, strict=True)]
        R = np.sum(own, axis=0)
        means[some] = form.kernel(R) @ alpha
        for place, (table, points) in enumerate(zip(tables, other, strict=True)):
            moved = np.maximum(R - own[place] + _distances(table, points[some]), 0.0)
            changed[place, some] = form.kernel(moved) @ alpha
    halves = 0.5 * np.square(changed - means)
    return float(means.var()), halves.mean(axis=1), halves.std(axis=1) / np.sqrt(samples)


def _drawn(form: ProductMean, samples: int, random: np.random.Generator) -> list[IntArray]:
    return [random.choice(len(each), size=samples, p=each) for each in form.probabilities]


def _distances(table: tuple[FloatArray, IntArray], points: IntArray) -> FloatArray:
    """Squared distances of samples (k,) of one feature to all rows, (k, M)."""
    distances, where = table
    return np.take(np.ascontiguousarray(distances[:, points].T), where, axis=1)
