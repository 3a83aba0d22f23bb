"""The demo's scores against the same formulas in numpy and scipy."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from app.demo.scores import score, standard_error


def test_scores() -> None:
    rng = np.random.default_rng(3)
    truth, mean, std = rng.normal(5, 3, 50), rng.normal(5, 3, 50), rng.uniform(0.5, 2, 50)
    got = score(*(a.tolist() for a in (truth, mean, std, mean - std, mean + std)))
    assert got.nmse == pytest.approx(np.mean((truth - mean) ** 2) / np.var(truth), rel=1e-12)
    assert got.nlpd == pytest.approx(-np.mean(norm.logpdf(truth, mean, std)), rel=1e-12)
    assert got.coverage == np.mean(np.abs(truth - mean) <= std)


def test_standard_error_of_a_share() -> None:
    inside = np.random.default_rng(0).random((20_000, 400)) < 0.95
    assert standard_error(0.95, 400) == pytest.approx(inside.mean(axis=1).std(), rel=0.02)


def test_a_truth_that_does_not_vary_has_no_nmse() -> None:
    assert math.isnan(score([1.0], [2.0], [1.0], [0.0], [3.0]).nmse)
