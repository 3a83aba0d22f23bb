"""core/predict/metrics.py against definitions written out row by row."""

import math
from dataclasses import fields

import numpy as np
import pytest
from scipy import stats

from core.arrays import FloatArray
from core.predict.calibration import Calibration
from core.predict.distribution import CRPS_QUANTILES, PredictiveDistribution
from core.predict.metrics import LEVELS, RELIABILITY, RowScores, Scores, row_scores, scores
from core.predict.transforms import Transform
from core.spec import Intervals, TargetTransform


def normal(mean: FloatArray, variance: FloatArray, calibration: Calibration | None = None) -> PredictiveDistribution:
    """Normal predictions, read by a calibration if there is one."""
    return PredictiveDistribution(centre=mean, variance=variance, calibration=calibration or Calibration())


def test_scores_by_hand() -> None:
    targets, mean = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 2.0])
    variance = np.array([1.0, 0.25, 4.0])
    ours = scores(targets, normal(mean, variance))
    assert ours.rows == 3
    squares = [0.25, 0.0, 4.0]
    spread = np.mean([(t - 7 / 3) ** 2 for t in targets])
    assert ours.nmse == pytest.approx(np.mean(squares) / spread, rel=1e-12)
    assert ours.rmse == pytest.approx(math.sqrt(4.25 / 3), rel=1e-12)
    density = [
        -math.log(math.exp(-s / (2 * v)) / math.sqrt(2 * math.pi * v)) for s, v in zip(squares, variance, strict=True)
    ]
    assert ours.nlpd == pytest.approx(np.mean(density), rel=1e-12)
    off = [(value - np.mean(density)) ** 2 for value in density]
    assert ours.nlpd_standard_error == pytest.approx(math.sqrt(sum(off) / 2 / 3), rel=1e-12)
    # |y - m| / sd = 0.5, 0, 1: the 50% interval (0.674) holds the first two, the others all
    assert ours.coverage == {"0.5": 2 / 3, "0.8": 1.0, "0.9": 1.0, "0.95": 1.0, "0.99": 1.0}
    # (y - m) / sd = -0.5, 0, 1 are below the quantiles of 0.25 (-0.674) and 0.5 (0), of 0.75 (0.674), of 0.9 (1.28)
    assert [ours.reliability[str(p)] for p in RELIABILITY] == [0, 0, 0, 0, 2 / 3, 2 / 3, 1, 1, 1]


def test_widths_and_standard_errors_by_hand() -> None:
    """Values of any normal table; the mean of the standard deviations is 3.5 / 3."""
    ours = scores(np.array([1.0, 2.0, 4.0]), normal(np.zeros(3), np.array([1.0, 0.25, 4.0])))
    for level, z in ((0.5, 0.6745), (0.8, 1.2816), (0.9, 1.6449), (0.95, 1.9600), (0.99, 2.5758)):
        assert ours.mean_width[str(level)] == pytest.approx(2 * z * 3.5 / 3, abs=2e-4)
        assert ours.coverage_standard_error[str(level)] == pytest.approx(math.sqrt(level * (1 - level) / 3), rel=1e-12)


def test_crps_by_hand() -> None:
    """Twice the pinball loss, its mean over quantiles, and the standard error of the mean over rows."""
    targets, mean, sd = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 2.0]), np.array([1.0, 0.5, 2.0])
    each = []
    for t, m, s in zip(targets, mean, sd, strict=True):
        losses = []
        for k in range(CRPS_QUANTILES):
            p = (k + 0.5) / CRPS_QUANTILES
            q = stats.norm.ppf(p, m, s)
            losses.append(p * (t - q) if t >= q else (1 - p) * (q - t))
        each.append(2 * np.mean(losses))
    ours = scores(targets, normal(mean, sd**2))
    assert ours.crps == pytest.approx(np.mean(each), rel=1e-9)
    assert ours.crps_standard_error == pytest.approx(stats.sem(each), rel=1e-9)


def test_levels_of_the_tables_are_those_of_a_normal() -> None:
    assert LEVELS == (0.5, 0.8, 0.9, 0.95, 0.99)
    for level, z in ((0.5, 0.6745), (0.8, 1.2816), (0.9, 1.6449), (0.95, 1.9600), (0.99, 2.5758)):
        lower, upper = normal(np.zeros(1), np.ones(1)).interval(level)
        assert upper[0] == pytest.approx(z, abs=5e-5)
        assert lower[0] == -upper[0]


def test_coverage_of_true_normal_errors_is_the_level() -> None:
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.1, 3.0, size=200_000)
    mean = rng.normal(size=200_000)
    targets = mean + np.sqrt(variance) * rng.normal(size=200_000)
    ours = scores(targets, normal(mean, variance))
    for level in LEVELS:
        assert ours.coverage[str(level)] == pytest.approx(level, abs=4 * ours.coverage_standard_error[str(level)])
    for probability in RELIABILITY:
        assert ours.reliability[str(probability)] == pytest.approx(probability, abs=0.005)
    entropy = np.mean(0.5 * (np.log(2 * np.pi * variance) + 1.0))
    assert ours.nlpd == pytest.approx(entropy, abs=4 * ours.nlpd_standard_error)
    expected = np.mean(np.sqrt(variance)) / np.sqrt(np.pi)  # of a normal whose own draw is the truth
    assert ours.crps == pytest.approx(expected, abs=4 * ours.crps_standard_error)


def test_levels_beyond_the_ranks_are_scored_by_the_tail() -> None:
    symmetric = Calibration(probabilities=np.array([0.0, 0.94]), quantiles=np.array([0.0, 2.0]), rows=20)
    asymmetric = Calibration(
        intervals=Intervals.ASYMMETRIC,
        probabilities=np.array([0.05, 0.5, 0.95]),
        quantiles=np.array([-1.0, 0.0, 3.0]),
        rows=39,
    )
    for calibration in (symmetric, asymmetric):
        ours = scores(np.array([1.0, -3.0]), normal(np.zeros(2), np.ones(2), calibration))
        assert set(ours.coverage) == {"0.5", "0.8", "0.9", "0.95", "0.99"}
        assert set(ours.mean_width) == set(ours.coverage_standard_error) == set(ours.coverage)
        assert ours.mean_width["0.99"] > ours.mean_width["0.95"] > ours.mean_width["0.9"]
        assert len(ours.reliability) == 9
        assert ours.crps > 0.0
    ours = scores(np.array([1.0, -3.0]), normal(np.zeros(2), np.ones(2), asymmetric))
    assert ours.coverage["0.9"] == 0.5  # from -1 to 3
    assert ours.mean_width["0.9"] == pytest.approx(4.0, rel=1e-12)
    assert ours.reliability["0.05"] == 0.5


def test_scores_are_of_the_target_and_not_of_its_logarithm() -> None:
    """The squared error is from the mean of the log-normal, the density and the widths are in the target's unit."""
    rng = np.random.default_rng(1)
    centre, sd = rng.normal(size=50), rng.uniform(0.2, 0.8, size=50)
    targets = np.exp(centre + sd * rng.normal(size=50))
    ours = scores(
        targets, PredictiveDistribution(centre=centre, variance=sd**2, transform=Transform(kind=TargetTransform.LOG))
    )
    known = stats.lognorm(s=sd, scale=np.exp(centre))
    assert ours.rmse == pytest.approx(np.sqrt(np.mean((targets - known.mean()) ** 2)), rel=1e-9)
    assert ours.nlpd == pytest.approx(-np.mean(known.logpdf(targets)), rel=1e-9)
    lower, upper = known.interval(0.9)
    assert ours.mean_width["0.9"] == pytest.approx(np.mean(upper - lower), rel=1e-9)
    assert ours.coverage["0.9"] == np.mean((lower <= targets) & (targets <= upper))


def test_targets_that_do_not_vary_have_no_nmse() -> None:
    ours = scores(np.array([2.0, 2.0]), normal(np.array([1.0, 2.0]), np.array([1.0, 1.0])))
    assert ours.nmse is None
    assert ours.rmse == pytest.approx(math.sqrt(0.5))
    one = scores(np.array([2.0]), normal(np.array([2.0]), np.array([1.0])))
    assert one.nmse is None
    assert (one.nlpd_standard_error, one.crps_standard_error) == (0.0, 0.0)
    numbers = [getattr(one, field.name) for field in fields(Scores)]
    assert all(math.isfinite(value) for value in numbers if isinstance(value, float))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_parts_have_the_scores_of_all(weighted: bool) -> None:
    random = np.random.default_rng(5)
    targets, mean, variance, weights = (random.uniform(0.5, 2.0, 40) for _ in range(4))
    own = weights if weighted else None
    parts = [
        row_scores(targets[some], normal(mean[some], variance[some]), None if own is None else own[some])
        for some in (slice(0, 15), slice(15, 40))
    ]
    whole = RowScores.joined(parts)
    assert whole.summary() == scores(targets, normal(mean, variance), own)
    few = np.array([3, 1, 20])
    expected = scores(targets[few], normal(mean[few], variance[few]), None if own is None else own[few])
    assert whole.take(few).summary() == expected
