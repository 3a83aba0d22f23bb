"""core/predict/distribution.py against scipy's distributions: quantiles, densities and scores of the target itself."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from core.arrays import FloatArray
from core.predict.calibration import Calibration, fit_calibration
from core.predict.distribution import CRPS_QUANTILES, PredictiveDistribution
from core.predict.transforms import Transform
from core.spec import Intervals, TargetTransform
from tests.core.leftout import random_rows, rows

CENTRE, SD = np.array([-1.2, 0.0, 0.4, 2.0]), np.array([0.05, 0.7, 1.3, 0.4])
LOG, LOG1P = Transform(kind=TargetTransform.LOG), Transform(kind=TargetTransform.LOG1P)
YEO_JOHNSON = Transform(kind=TargetTransform.YEO_JOHNSON, power=0.4, shift=3.0, scale=2.0)
EVERY = (Transform(), LOG, LOG1P, YEO_JOHNSON)
TABLE = Calibration(probabilities=np.array([0.0, 0.5, 0.9]), quantiles=np.array([0.0, 1.0, 3.0]), rows=9)
SKEWED = Calibration(
    intervals=Intervals.ASYMMETRIC,
    probabilities=np.array([0.05, 0.5, 0.95]),
    quantiles=np.array([-1.0, 0.5, 4.0]),
    rows=39,
)


def predictive(transform: Transform | None = None, calibration: Calibration | None = None) -> PredictiveDistribution:
    return PredictiveDistribution(
        centre=CENTRE,
        variance=SD**2,
        transform=transform or Transform(),
        calibration=calibration or Calibration(),
    )


def distribution(transform: Transform) -> tuple[Any, float]:
    """scipy's distribution of the target plus an offset, for those that have a name."""
    if transform.kind is TargetTransform.NONE:
        return stats.norm(CENTRE, SD), 0.0
    return stats.lognorm(s=SD, scale=np.exp(CENTRE)), float(transform.kind is TargetTransform.LOG1P)


NAMED = (Transform(), LOG, LOG1P)


@pytest.mark.parametrize("transform", NAMED)
@pytest.mark.parametrize("probability", [1e-4, 0.025, 0.31, 0.5, 0.9, 0.9999])
def test_quantiles_and_intervals_are_those_of_scipy(probability: float, transform: Transform) -> None:
    known, offset = distribution(transform)
    found = predictive(transform)
    np.testing.assert_allclose(found.quantile(probability) + offset, known.ppf(probability), rtol=1e-9, atol=1e-12)
    level = abs(2 * probability - 1)
    for ours, theirs in zip(found.interval(level), known.interval(level), strict=True):
        np.testing.assert_allclose(ours + offset, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("transform", NAMED)
def test_moments_and_densities_are_those_of_scipy(transform: Transform) -> None:
    known, offset = distribution(transform)
    found = predictive(transform)
    mean, variance = found.moments()
    np.testing.assert_allclose(mean + offset, known.mean(), rtol=1e-12)
    np.testing.assert_allclose(variance, known.var(), rtol=1e-9)
    for targets in (np.full(4, 0.3), np.full(4, 2.2), np.array([0.3, 1.0, 1.5, 7.0])):
        np.testing.assert_allclose(found.log_density(targets), known.logpdf(targets + offset), rtol=1e-10)


def normal_cdf(transform: Transform, row: int) -> Callable[[FloatArray], FloatArray]:
    """P(y <= .), from the forward map alone, which test_transforms compares with scipy's."""
    return lambda y: np.asarray(stats.norm.cdf(transform.forward(y), CENTRE[row], SD[row]))


@pytest.mark.parametrize("transform", EVERY)
def test_density_is_the_slope_of_the_distribution_and_integrates_to_one(transform: Transform) -> None:
    found = predictive(transform)
    for row in range(4):
        one = PredictiveDistribution(centre=CENTRE[[row]], variance=SD[[row]] ** 2, transform=transform)
        probabilities = np.array([0.001, 0.02, 0.2, 0.5, 0.7, 0.98, 0.999])
        y = np.array([one.quantile(float(p))[0] for p in probabilities])
        cdf = normal_cdf(transform, row)
        np.testing.assert_allclose(cdf(y), probabilities, rtol=1e-7)
        step = 1e-6 * (y[-1] - y[0])
        slope = (cdf(y + step) - cdf(y - step)) / (2 * step)
        density = np.array([np.exp(found.log_density(np.full(4, value))[row]) for value in y])
        np.testing.assert_allclose(density, slope, rtol=1e-4)
        edges = [one.quantile(p)[0] for p in (1e-12, 1e-6, 0.01, 0.5, 0.99, 1 - 1e-6, 1 - 1e-12)]
        total = sum(
            integrate.quad(lambda v, at=one: float(np.exp(at.log_density(np.array([v])))[0]), low, high)[0]
            for low, high in pairwise(edges)
        )
        assert total == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(transform=st.sampled_from(EVERY), calibration=st.sampled_from([Calibration(), TABLE, SKEWED]))
def test_quantiles_rise_and_intervals_are_nested(transform: Transform, calibration: Calibration) -> None:
    found = predictive(transform, calibration)
    values = np.array([found.quantile(float(p)) for p in np.linspace(0.06, 0.94, 45)])
    assert (np.diff(values, axis=0) >= 0.0).all()
    ends = [found.interval(level) for level in (0.1, 0.4, 0.8, 0.87)]
    for (low, high), (lower, higher) in pairwise(ends):
        assert (lower <= low).all()
        assert (high <= higher).all()


def test_the_calibrations_quantiles_take_the_place_of_the_normals() -> None:
    """Half way between the levels 0.5 and 0.9 of a table with 1 and 3: two standard deviations."""
    for transform, back in ((Transform(), lambda t: t), (LOG, np.exp), (LOG1P, lambda t: np.exp(t) - 1.0)):
        found = predictive(transform, TABLE)
        low, high = found.interval(0.7)
        np.testing.assert_allclose(low, back(CENTRE - 2.0 * SD), rtol=1e-12)
        np.testing.assert_allclose(high, back(CENTRE + 2.0 * SD), rtol=1e-12)
        np.testing.assert_allclose(found.quantile(0.75), back(CENTRE + 1.0 * SD), rtol=1e-12)
        np.testing.assert_allclose(found.quantile(0.5), back(CENTRE), rtol=1e-12)
        skewed = predictive(transform, SKEWED)
        low, high = skewed.interval(0.45)  # from 0.275, half way from 0.05 to 0.5, to 0.725
        np.testing.assert_allclose(low, back(CENTRE - 0.25 * SD), rtol=1e-9)
        np.testing.assert_allclose(high, back(CENTRE + 2.25 * SD), rtol=1e-9)
        np.testing.assert_allclose(skewed.quantile(0.5), back(CENTRE + 0.5 * SD), rtol=1e-12)


@pytest.mark.parametrize("transform", EVERY)
@pytest.mark.parametrize("shape", list(Intervals))
def test_stds_agree_with_intervals_whatever_is_learnt(transform: Transform, shape: Intervals) -> None:
    """Moments of a transformed target may be many times the half-width: sd 1.3 under a logarithm is one such."""
    calibration = fit_calibration(random_rows(1, 400), shape)
    found = replace(predictive(transform, calibration), latent_variance=0.5 * SD**2)
    lower, upper = found.interval(0.95)
    ratio = 2 * stats.norm.ppf(0.975) * found.std() / (upper - lower)
    assert (ratio >= 0.75 - 1e-9).all()
    assert (ratio <= 1.35 + 1e-9).all()
    if transform.kind is TargetTransform.NONE:
        np.testing.assert_allclose(found.std(), SD, rtol=1e-9)
    assert (found.latent_std() > 0.0).all()
    assert (found.latent_std() <= found.std()).all()


@pytest.mark.parametrize("shape", list(Intervals))
def test_the_density_is_that_of_the_scores(shape: Intervals) -> None:
    """It integrates to one, and tells heavy-tailed errors better than the normal distribution of their variance."""
    rng = np.random.default_rng(2)
    error, new = rng.standard_t(2, size=(2, 2000))
    found = fit_calibration(rows(error), shape)
    edges = [np.sinh(step) for step in np.linspace(-9.0, 9.0, 19)]
    sd = np.sqrt(found.noise_scale)

    def density(value: float) -> float:
        return float(np.exp(found.log_density(np.array([value]), np.array([sd**2])))[0])

    total = sum(integrate.quad(density, low, high)[0] for low, high in pairwise(edges))
    assert total == pytest.approx(1.0, abs=1e-3)
    ours = found.log_density(new, np.full(2000, sd**2)).mean()
    assert ours > stats.norm.logpdf(new, scale=sd).mean() + 0.1
    assert ours == pytest.approx(stats.t.logpdf(new, 2).mean(), abs=0.02)


# Continuous ranked probability score


def crps_of_normal(targets: FloatArray) -> FloatArray:
    """Gneiting & Raftery 2007, eq. 21."""
    z = (targets - CENTRE) / SD
    return np.asarray(SD * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)))


@pytest.mark.parametrize("deviations", [-3.0, -0.7, 0.0, 0.2, 1.5, 6.0])
def test_crps_of_a_normal(deviations: float) -> None:
    """The 100 quantiles are a midpoint rule: right to 0.3% of a standard deviation."""
    targets = CENTRE + deviations * SD
    difference = np.abs(predictive().crps(targets) - crps_of_normal(targets))
    assert (difference <= 3e-3 * SD).all()


@pytest.mark.parametrize("transform", EVERY)
def test_crps_is_the_integral_of_squared_differences(transform: Transform) -> None:
    """Squared differences of the distribution function from the step at the target."""
    z = np.linspace(-9.0, 9.0, 60_001)
    targets = transform.inverse(CENTRE + np.array([0.3, -1.0, 1.7, 0.0]) * SD)
    found = predictive(transform).crps(targets)
    for row in range(4):
        values = transform.inverse(CENTRE[row] + SD[row] * z)
        squares = (stats.norm.cdf(z) - (values >= targets[row])) ** 2
        expected = integrate.trapezoid(squares, values)
        assert found[row] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("calibration", [TABLE, SKEWED])
def test_crps_by_pinball_losses_written_out(calibration: Calibration) -> None:
    """Quantiles beyond the table are those of its tails, or of its last level where those are narrower."""
    targets = np.array([-1.0, 2.0, 0.4, 1.0])
    expected = np.zeros(4)
    for k in range(CRPS_QUANTILES):
        probability = (k + 0.5) / CRPS_QUANTILES
        within = abs(2 * probability - 1) <= 0.9
        if calibration is SKEWED:
            deviation = float(np.interp(probability, SKEWED.probabilities, SKEWED.quantiles))
        else:
            size = np.interp(abs(2 * probability - 1), TABLE.probabilities, TABLE.quantiles)
            deviation = float(np.sign(probability - 0.5) * size)
        if not within:
            assert abs(calibration.quantile(probability)) >= abs(deviation)
            deviation = calibration.quantile(probability)
        for row in range(4):
            miss = targets[row] - CENTRE[row] - deviation * SD[row]
            expected[row] += 2 * (probability * miss if miss >= 0 else (probability - 1) * miss) / CRPS_QUANTILES
    np.testing.assert_allclose(predictive(calibration=calibration).crps(targets), expected, rtol=1e-9)


def test_no_rows() -> None:
    none = PredictiveDistribution(centre=np.empty(0), variance=np.empty(0), transform=YEO_JOHNSON)
    for found in (*none.moments(), none.quantile(0.1), *none.interval(0.9), none.log_density(np.empty(0))):
        assert found.shape == (0,)


def test_an_interval_beyond_a_bound_has_a_width() -> None:
    """Of a mean far below the bound both ends used to be the bound itself."""
    found = PredictiveDistribution(
        centre=np.array([-9.0, -0.5, 2.0]), variance=np.ones(3), transform=Transform(lowest=0.0, highest=3.0)
    )
    lower, upper = found.interval(0.95)
    np.testing.assert_allclose(lower, [0.0, 0.0, 2.0 - 1.959964], atol=1e-6)
    np.testing.assert_allclose(upper, [1.959964, 1.959964, 3.0], atol=1e-6)
    ends = np.array([found.quantile(p) for p in (0.01, 0.3, 0.5, 0.7, 0.99)])
    assert (np.diff(ends, axis=0) >= 0.0).all()
