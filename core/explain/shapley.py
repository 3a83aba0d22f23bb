"""Each feature's part of a prediction: exact Shapley values under independent features.

The worth of a set S of features whose values are known is the mean expected of the others (Strumbelj & Kononenko 2014;
with independent features the interventional and the conditional one are the same),

    v(S) = E m(x_S, X_-S) = constant + sum_j alpha_j sum_q c_q prod_{c in S} a_jc prod_{c not in S} m_jc

with a_jc = exp(-s_q R_jc(x)) and its expectation m_jc (`core.explain.product_mean`). The Shapley value (1953) is the
integral of the derivative of Owen's (1972) multilinear extension along its diagonal,

    phi_c = sum_jq alpha_j c_q integral_0^1 (a_jc - m_jc) prod_{i /= c} (m_ji + t (a_ji - m_ji)) dt

a polynomial of degree f - 1 in t, so that Gauss-Legendre's rule with f / 2 nodes has no error: O(M f^2) in all, as by
elementary symmetric polynomials (Mohammadi, Chau & Muandet 2025), and every term is a product of positive factors. With
more than 2 MOST_NODES features the rule is no longer exact: with 100 of them it errs by 1e-8 of the parts.

    baseline + sum_c phi_c = m(x),     baseline = v of no feature

What rounding and the sum of Gaussians leave of that is told as `remainder`, and given to the parts by their sizes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss

from core.arrays import FloatArray
from core.explain.product_mean import ProductMean

MOST_NODES = 16
"""Nodes of the rule, exact to 32 features."""
BLOCK_NUMBERS = 1 << 17
"""Factors worked on at a time: a megabyte, which stays in the cache."""
HELD_NUMBERS = 1 << 21
"""Squared distances held at a time."""
_LEAST = 1e-280
"""Factors below it are taken for it: they leave nothing of their products."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShapleyValues:
    """Parts (m, f) of the mean at m rows, which with the baseline add up to `mean` (m,); all of the learnt target.

    remainder: the most by which they missed it before they were made to.
    """

    baseline: float
    mean: FloatArray
    parts: FloatArray
    remainder: float


def row_work(form: ProductMean) -> int:
    """Return the factors that are computed for one row, about."""
    return len(form.rates) * form.size * form.features * (1 + _nodes(form.features))


def common_work(form: ProductMean) -> int:
    """Return the factors that are computed once, for any number of rows."""
    return len(form.rates) * form.table_size


def shapley_values(form: ProductMean, inputs: FloatArray) -> ShapleyValues:
    """Return each feature's part of the mean at inputs (m, p), m >= 1, in raw units. O(Q (M N f + m M f^2)).

    Raises InvalidDataError as predictions do.
    """
    scaled = form.scaled(inputs)
    t, lengths = leggauss(_nodes(form.features))
    t, lengths = 0.5 * (t + 1.0), 0.5 * lengths
    parts, mean = np.zeros((len(scaled), form.features)), np.full(len(scaled), form.constant)
    baseline = form.constant
    step = min(BLOCK_NUMBERS, HELD_NUMBERS // max(1, len(scaled))) // form.features
    for start in range(0, form.size, max(1, step)):
        block = form.block(slice(start, start + max(1, step)))
        distances = block.distances(scaled)  # (m, f, B)
        mean += form.kernel(distances.sum(axis=1)) @ block.alpha
        rows = max(1, BLOCK_NUMBERS // distances[0].size)
        for rate, weight in zip(form.rates.tolist(), form.weights.tolist(), strict=True):
            expected, alpha = block.expected(rate), weight * block.alpha
            baseline += float(alpha @ expected.prod(axis=0))
            for first in range(0, len(scaled), rows):
                some = slice(first, first + rows)
                parts[some] += _integrals(np.exp(-rate * distances[some]), expected, alpha, t, lengths)
    missed = mean - baseline - parts.sum(axis=1)
    sizes = np.abs(parts)
    total = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, total, out=np.full_like(sizes, 1.0 / form.features), where=total > 0.0)
    return ShapleyValues(
        baseline=baseline,
        mean=mean,
        parts=parts + shares * missed[:, None],
        remainder=float(np.abs(missed).max(initial=0.0)),
    )


def _integrals(
    factors: FloatArray, means: FloatArray, alpha: FloatArray, t: FloatArray, lengths: FloatArray
) -> FloatArray:
    """Sum over rows j of alpha_j and the integral of each feature, (m, f); factors (m, f, B), means (f, B)."""
    factors, means = np.maximum(factors, _LEAST), np.maximum(means, _LEAST)
    rise, between = factors - means, np.empty_like(factors)
    found = np.zeros(factors.shape[:2])
    for node, length in zip(t.tolist(), lengths.tolist(), strict=True):
        np.multiply(rise, node, out=between)
        np.add(between, means, out=between)
        weights = between.prod(axis=1)
        weights *= length * alpha
        np.divide(rise, between, out=between)
        found += np.matmul(between, weights[:, :, None])[:, :, 0]
    return found


def _nodes(features: int) -> int:
    return min(-(-features // 2), MOST_NODES)
