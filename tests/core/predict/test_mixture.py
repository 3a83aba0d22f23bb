"""core/predict/mixture.py against an oracle that takes a row at a time, and its limits."""

import numpy as np
import pytest

from core.predict.calibration import Calibration
from core.predict.distribution import PredictiveDistribution
from core.predict.mixture import Mixture, PartlyMixed, joined
from core.predict.tails import Tail
from core.predict.transforms import Transform
from core.spec import Intervals, TargetTransform
from tests.dense.mixture import mixture_moments, mixture_quantile

ROWS, SIZE = 5, 7
TABLE = Calibration(
    probabilities=np.array([0.0, 0.3, 0.8, 0.99, 0.999]),
    quantiles=np.array([0.0, 0.5, 1.7, 4.0, 400.0]),
    rows=999,
)
SKEWED = Calibration(
    intervals=Intervals.ASYMMETRIC,
    probabilities=np.array([0.001, 0.05, 0.3, 0.5, 0.95, 0.999]),
    quantiles=np.array([-400.0, -1.8, -0.5, 0.2, 4.0, 400.0]),
    rows=1999,
)


FEW = Calibration(rows=7, tails=(Tail(freedom=3.0, scale=0.8),))
CALIBRATIONS = [Calibration(), TABLE, SKEWED, FEW]
NAMES = ["normal", "symmetric", "asymmetric", "few"]


def components(calibration: Calibration, transform: Transform | None = None, seed: int = 0) -> PredictiveDistribution:
    chance = np.random.default_rng(seed)
    count = ROWS * SIZE
    return PredictiveDistribution(
        centre=chance.normal(size=count),
        variance=chance.uniform(0.05, 1.0, count),
        calibration=calibration,
        transform=transform or Transform(),
        latent_variance=chance.uniform(0.01, 0.04, count),
        support=chance.uniform(0.0, 1.0, count),
    )


@pytest.mark.parametrize("calibration", CALIBRATIONS[:3], ids=NAMES[:3])
@pytest.mark.parametrize("probability", [0.1, 0.25, 0.5, 0.77])
def test_quantiles_are_those_of_the_oracle_to_rounding(calibration: Calibration, probability: float) -> None:
    parts = components(calibration)
    found = Mixture(components=parts, size=SIZE).quantile(probability)
    table = (calibration.probabilities, calibration.quantiles, calibration.intervals is Intervals.SYMMETRIC)
    for row in range(ROWS):
        some = slice(SIZE * row, SIZE * (row + 1))
        expected = mixture_quantile(probability, parts.centre[some], np.sqrt(parts.variance[some]), table)
        # both end within a few units of rounding of the root; the density there is above .1
        assert found[row] == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_moments_are_those_of_the_oracle() -> None:
    parts = components(TABLE)
    mean, variance = Mixture(components=parts, size=SIZE).moments()
    for row in range(ROWS):
        some = slice(SIZE * row, SIZE * (row + 1))
        expected = mixture_moments(parts.centre[some], parts.variance[some])
        assert (mean[row], variance[row]) == pytest.approx(expected, rel=1e-12)
    assert (variance >= parts.variance.reshape(ROWS, SIZE).mean(axis=1)).all()


def test_stds_follow_the_law_of_total_variance() -> None:
    parts = components(TABLE)
    mixture = Mixture(components=parts, size=SIZE)
    for told, own in ((mixture.std(), parts.std()), (mixture.latent_std(), parts.latent_std())):
        pairs = zip(parts.centre.reshape(-1, SIZE), np.square(own).reshape(-1, SIZE), strict=True)
        expected = np.sqrt([mixture_moments(*pair)[1] for pair in pairs])
        np.testing.assert_allclose(told, expected, rtol=1e-12)
    assert (mixture.latent_std() < mixture.std()).all()


def test_densities_integrate_to_one_and_give_the_quantiles() -> None:
    parts = components(Calibration())
    mixture = Mixture(components=parts, size=SIZE)
    grid = np.linspace(-9.0, 9.0, 4001)
    step = grid[1] - grid[0]
    density = np.array([np.exp(mixture.log_density(np.full(ROWS, y))) for y in grid])
    # the trapezium rule on a smooth function that vanishes at both ends errs by far less than 1e-9
    np.testing.assert_allclose(density.sum(axis=0) * step, 1.0, rtol=1e-9)
    below = np.cumsum(density, axis=0) * step
    for row, value in enumerate(mixture.quantile(0.3)):
        assert np.interp(value, grid + 0.5 * step, below[:, row]) == pytest.approx(0.3, abs=1e-5)


def test_equal_components_are_one_of_them() -> None:
    one = PredictiveDistribution(centre=np.array([1.5]), variance=np.array([0.3]), calibration=TABLE)
    many = joined([one] * SIZE)
    mixture = Mixture(components=many, size=SIZE)
    for level in (0.1, 0.5, 0.9):
        for ours, own in zip(mixture.interval(level), one.interval(level), strict=True):
            np.testing.assert_allclose(ours, own, rtol=1e-14)
    np.testing.assert_allclose(mixture.moments(), one.moments(), rtol=1e-14)
    y = np.array([0.7])
    np.testing.assert_allclose(mixture.log_density(y), one.log_density(y), rtol=1e-14)
    np.testing.assert_allclose(mixture.crps(y), one.crps(y), rtol=1e-12)


def test_transforms_are_undone_after_mixing() -> None:
    log = Mixture(components=components(TABLE, Transform(kind=TargetTransform.LOG)), size=SIZE)
    plain = Mixture(components=components(TABLE), size=SIZE)
    np.testing.assert_allclose(log.quantile(0.4), np.exp(plain.quantile(0.4)), rtol=1e-14)
    mean, variance = log.components.moments()
    pairs = zip(mean.reshape(-1, SIZE), variance.reshape(-1, SIZE), strict=True)
    expected = np.array([mixture_moments(*pair) for pair in pairs])
    np.testing.assert_allclose(np.stack(log.moments(), axis=1), expected, rtol=1e-10)


@pytest.mark.parametrize("calibration", CALIBRATIONS, ids=NAMES)
def test_wider_levels_give_wider_intervals(calibration: Calibration) -> None:
    mixture = Mixture(components=components(calibration), size=SIZE)
    before = mixture.quantile(0.5), mixture.quantile(0.5)
    for level in (0.2, 0.5, 0.8, 0.95, 0.98):
        lower, upper = mixture.interval(level)
        assert (lower <= before[0]).all()
        assert (upper >= before[1]).all()
        before = lower, upper


@pytest.mark.parametrize("calibration", CALIBRATIONS, ids=NAMES)
def test_levels_beyond_the_ranks_are_between_those_of_the_components(calibration: Calibration) -> None:
    parts = components(calibration)
    mixture = Mixture(components=parts, size=SIZE)
    for probability in (1e-6, 1e-3, 0.999, 1.0 - 1e-6):
        each = parts.quantile(probability).reshape(ROWS, SIZE)
        found = mixture.quantile(probability)
        assert (each.min(axis=1) <= found).all()
        assert (found <= each.max(axis=1)).all()


@pytest.mark.parametrize("calibration", CALIBRATIONS, ids=NAMES)
def test_the_distribution_function_is_the_inverse_of_quantiles(calibration: Calibration) -> None:
    """To rounding where quantiles rise, past the table too, whose tails are those of the t distribution."""
    p = np.array([1e-6, 1e-3, 0.02, 0.1, 0.3, 0.45, 0.6, 0.9, 0.97, 1.0 - 1e-6])
    scores = np.array([calibration.quantile(float(each)) for each in p])
    found = calibration.cdf(scores)
    np.testing.assert_allclose(found, p, rtol=1e-9)
    grid = np.linspace(-50.0, 50.0, 1001)
    assert (np.diff(calibration.cdf(grid)) >= 0.0).all()
    np.testing.assert_array_equal(calibration.cdf(grid[:, None])[:, 0], calibration.cdf(grid))


def test_rows_that_are_no_mixtures_keep_their_bits() -> None:
    plain, parts = components(TABLE, seed=1), components(TABLE)
    mixture = Mixture(components=parts, size=SIZE)
    mixed = np.zeros(len(plain.centre) + ROWS, dtype=bool)
    mixed[[0, 4, 5, 20, 39]] = True
    both = PartlyMixed(plain=plain, mixtures=mixture, mixed=mixed)
    y = np.linspace(-1.0, 1.0, len(mixed))
    pairs = [
        (both.interval(0.9), plain.interval(0.9), mixture.interval(0.9)),
        (both.moments(), plain.moments(), mixture.moments()),
        ((both.std(),), (plain.std(),), (mixture.std(),)),
        ((both.latent_std(),), (plain.latent_std(),), (mixture.latent_std(),)),
        ((both.support,), (plain.support,), (mixture.support,)),
        ((both.log_density(y),), (plain.log_density(y[~mixed]),), (mixture.log_density(y[mixed]),)),
        ((both.crps(y),), (plain.crps(y[~mixed]),), (mixture.crps(y[mixed]),)),
    ]
    for all_rows, known, integrated in pairs:
        for one, two, three in zip(all_rows, known, integrated, strict=True):
            assert one[~mixed].tobytes() == two.tobytes()
            assert one[mixed].tobytes() == three.tobytes()


def test_a_row_has_the_same_bits_alone() -> None:
    parts = components(TABLE)
    whole = Mixture(components=parts, size=SIZE)
    alone = PredictiveDistribution(
        centre=parts.centre[SIZE : 2 * SIZE], variance=parts.variance[SIZE : 2 * SIZE], calibration=TABLE
    )
    one = Mixture(components=alone, size=SIZE)
    for probability in (0.05, 0.5, 0.8):
        assert whole.quantile(probability)[1] == one.quantile(probability)[0]
    assert [array[1] for array in whole.moments()] == [array[0] for array in one.moments()]
