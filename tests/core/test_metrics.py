"""core/metrics.py against definitions written out row by row."""

import math

import numpy as np
import pytest

from core.metrics import LEVELS, interval_factor, scores


def test_scores_by_hand() -> None:
    targets, mean = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 2.0])
    variance = np.array([1.0, 0.25, 4.0])
    ours = scores(targets, mean, variance)
    assert ours.rows == 3
    squares = [0.25, 0.0, 4.0]
    spread = np.mean([(t - 7 / 3) ** 2 for t in targets])
    assert ours.nmse == pytest.approx(np.mean(squares) / spread, rel=1e-12)
    assert ours.rmse == pytest.approx(math.sqrt(4.25 / 3), rel=1e-12)
    density = [
        -math.log(math.exp(-s / (2 * v)) / math.sqrt(2 * math.pi * v)) for s, v in zip(squares, variance, strict=True)
    ]
    assert ours.nlpd == pytest.approx(np.mean(density), rel=1e-12)
    # |y - m| / sd = 0.5, 0, 1: the 50% interval (0.674) holds the first two, the others all
    assert ours.coverage == {"0.5": 2 / 3, "0.8": 1.0, "0.9": 1.0, "0.95": 1.0, "0.99": 1.0}


def test_interval_factor() -> None:
    """Values of any normal table."""
    for level, z in ((0.5, 0.6745), (0.8, 1.2816), (0.9, 1.6449), (0.95, 1.9600), (0.99, 2.5758)):
        assert interval_factor(level) == pytest.approx(z, abs=5e-5)


def test_coverage_of_true_normal_errors_is_the_level() -> None:
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.1, 3.0, size=200_000)
    mean = rng.normal(size=200_000)
    targets = mean + np.sqrt(variance) * rng.normal(size=200_000)
    ours = scores(targets, mean, variance)
    for level in LEVELS:
        assert ours.coverage[str(level)] == pytest.approx(level, abs=0.005)


def test_targets_that_do_not_vary_have_no_nmse() -> None:
    ours = scores(np.array([2.0, 2.0]), np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    assert ours.nmse is None
    assert ours.rmse == pytest.approx(math.sqrt(0.5))
    assert scores(np.array([2.0]), np.array([2.0]), np.array([1.0])).nmse is None
