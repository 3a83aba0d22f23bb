"""core/predict/transforms.py against scipy's log-normal and Yeo-Johnson, and moments against a fine grid."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import inv_boxcox1p

from core.arrays import FloatArray
from core.data import Dataset
from core.errors import InvalidDataError
from core.predict.model import ModelPredictor
from core.predict.transforms import BOUNDED_ROWS, Transform, _box_cox_inverse, _psi_inverse, transform_of
from core.spec import Adaptation, TargetTransform, TrainSpec
from core.train.run import train

LOGARITHMS = (TargetTransform.LOG, TargetTransform.LOG1P)
POWERS = (-0.5, 0.0, 0.4, 1.0, 1.6, 2.0, 2.5)


def yeo_johnson(power: float, shift: float = 0.0, scale: float = 1.0) -> Transform:
    return Transform(kind=TargetTransform.YEO_JOHNSON, power=power, shift=shift, scale=scale)


RANKS = transform_of(TargetTransform.RANK_NORMAL, np.expm1(np.random.default_rng(0).normal(size=300)))
PLAIN = (TargetTransform.NONE, *LOGARITHMS)

transforms = st.one_of(
    st.sampled_from(PLAIN).map(lambda kind: Transform(kind=kind)),
    st.just(RANKS),
    st.builds(yeo_johnson, st.floats(-0.5, 2.5), st.floats(-10.0, 10.0), st.floats(0.01, 100.0)),
    st.sampled_from([yeo_johnson(power, 3.0, 2.0) for power in POWERS]),
)


def targets_of(transform: Transform, deviations: FloatArray) -> FloatArray:
    """Some targets that the transform takes, u in its own spreads."""
    if transform.kind in LOGARITHMS:
        return np.asarray(np.exp(deviations) - (transform.kind is TargetTransform.LOG1P))
    return np.asarray(deviations * transform.scale + transform.shift)


def inverse(transform: Transform, t: FloatArray) -> FloatArray:
    """The target with this transform, by scipy's inverse of Box and Cox."""
    match transform.kind:
        case TargetTransform.LOG:
            return np.asarray(np.exp(t))
        case TargetTransform.LOG1P:
            return np.asarray(np.exp(t) - 1.0)
        case TargetTransform.YEO_JOHNSON:
            above = inv_boxcox1p(np.maximum(t, 0.0), transform.power)
            below = inv_boxcox1p(np.maximum(-t, 0.0), 2.0 - transform.power)
            return np.asarray(np.where(t >= 0.0, above, -below) * transform.scale + transform.shift)
    return t


@settings(max_examples=200, deadline=None)
@given(transform=transforms, seed=st.integers(0, 1000))
def test_there_and_back(transform: Transform, seed: int) -> None:
    y = targets_of(transform, np.sort(np.random.default_rng(seed).uniform(-15.0, 15.0, size=40)))
    t = transform.forward(y)
    assert (np.diff(t) > 0.0).all()
    np.testing.assert_allclose(transform.inverse(t), y, rtol=1e-9, atol=1e-9 * transform.scale)
    np.testing.assert_allclose(transform.forward(transform.inverse(t)), t, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(transform.inverse(t.reshape(8, 5)), y.reshape(8, 5), rtol=1e-9, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(power=st.floats(-2.0, 4.0), seed=st.integers(0, 1000))
@example(power=0.0, seed=0)
@example(power=2.0, seed=0)
@example(power=1e-12, seed=0)
@example(power=1e-7, seed=0)
@example(power=2.0 - 1e-7, seed=0)
def test_yeo_johnson_is_that_of_scipy(power: float, seed: int) -> None:
    u = np.random.default_rng(seed).normal(size=50) * 3.0
    transform = yeo_johnson(power, 5.0, 0.25)
    expected = stats.yeojohnson(u, lmbda=power)
    np.testing.assert_allclose(transform.forward(5.0 + 0.25 * u), expected, rtol=1e-6, atol=1e-12)


def test_logarithms_are_logarithms() -> None:
    y = np.array([1e-300, 1e-3, 1.0, 7.0, 1e300])
    np.testing.assert_array_equal(Transform(kind=TargetTransform.LOG).forward(y), np.log(y))
    small = np.array([-0.999, -1e-12, 0.0, 1e-12, 5.0])
    np.testing.assert_allclose(Transform(kind=TargetTransform.LOG1P).forward(small), np.log1p(small), rtol=1e-14)
    np.testing.assert_array_equal(Transform().forward(small), small)
    np.testing.assert_array_equal(Transform().inverse(small), small)


@settings(max_examples=100, deadline=None)
@given(transform=transforms, seed=st.integers(0, 1000))
def test_slope_against_differences(transform: Transform, seed: int) -> None:
    y = targets_of(transform, np.random.default_rng(seed).uniform(-5.0, 5.0, size=30))
    unit = np.abs(y) + (transform.kind is TargetTransform.LOG1P) if transform.kind in LOGARITHMS else transform.scale
    step = 1e-5 * np.minimum(unit, np.abs(1.0 + y) if transform.kind is TargetTransform.LOG1P else np.inf)
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    # the curvature of ranks jumps at their knots: beside one, a difference is off by the step times the jump
    atol = 1e-3 if transform is RANKS else 2e-5
    np.testing.assert_allclose(transform.log_slope(y), np.log(slope), atol=atol)


# Moments

MEANS, DEVIATIONS = (-2.0, -0.3, 0.0, 0.5, 2.0), (0.01, 0.3, 1.0)


@pytest.mark.parametrize("kind", LOGARITHMS)
def test_moments_of_a_log_normal(kind: TargetTransform) -> None:
    for mean in MEANS:
        for sd in DEVIATIONS:
            found = Transform(kind=kind).moments(np.array([mean]), np.array([sd**2]))
            known = stats.lognorm(s=sd, scale=np.exp(mean))
            assert found[0][0] + (kind is TargetTransform.LOG1P) == pytest.approx(known.mean(), rel=1e-12)
            assert found[1][0] == pytest.approx(known.var(), rel=1e-9)


def test_moments_without_a_transform_are_those_given() -> None:
    mean, variance = np.array([1.0, -3.0]), np.array([0.5, 2.0])
    found = Transform().moments(mean, variance)
    np.testing.assert_array_equal(found[0], mean)
    np.testing.assert_array_equal(found[1], variance)


@pytest.mark.parametrize("power", [0.0, 0.3, 0.8, 1.0, 1.4, 2.0])
def test_moments_of_yeo_johnson_by_a_fine_grid(power: float) -> None:
    """14 standard deviations to either side in 200,000 steps. Around nought psi has a kink in its second derivative,
    which costs quadrature its last digits."""
    transform = yeo_johnson(power, -4.0, 3.0)
    z = np.linspace(-14.0, 14.0, 200_001)
    weights = stats.norm.pdf(z) * (z[1] - z[0])
    for mean in MEANS:
        for sd in DEVIATIONS:
            values = inverse(transform, mean + sd * z)
            level = values @ weights
            spread = (values - level) ** 2 @ weights
            found = transform.moments(np.array([mean]), np.array([sd**2]))
            assert found[0][0] == pytest.approx(level, abs=1e-4 * np.sqrt(spread))
            assert found[1][0] == pytest.approx(spread, rel=1e-3)


def test_moments_by_many_draws() -> None:
    draws = 0.4 + 0.6 * np.random.default_rng(0).normal(size=400_000)
    for transform in (yeo_johnson(0.5, 1.0, 2.0), yeo_johnson(1.5, 1.0, 2.0), Transform(kind=TargetTransform.LOG1P)):
        values = inverse(transform, draws)
        mean, variance = transform.moments(np.array([0.4]), np.array([0.36]))
        assert mean[0] == pytest.approx(values.mean(), abs=4 * values.std() / np.sqrt(len(draws)))
        assert variance[0] == pytest.approx(values.var(), rel=0.03)


# The power


@pytest.mark.parametrize("kind", ["gamma", "normal", "skewed to the left", "exponential"])
@pytest.mark.parametrize("seed", [0, 1])
def test_power_is_that_of_scipy(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    y = {
        "gamma": rng.gamma(4.0, size=300),
        "normal": rng.normal(size=300),
        "skewed to the left": -rng.gamma(6.0, size=300),
        "exponential": np.sqrt(rng.exponential(size=300)),
    }[kind]
    found = transform_of(TargetTransform.YEO_JOHNSON, y)
    u = (y - np.median(y)) / np.sqrt(np.mean((y - np.median(y)) ** 2))
    assert found.shift == pytest.approx(np.median(y), rel=1e-12)
    assert found.scale == pytest.approx(np.sqrt(np.mean((y - np.median(y)) ** 2)), rel=1e-12)
    best = float(stats.yeojohnson_normmax(u))
    assert 0.0 < best < 2.0  # where the inverse has no end
    assert found.power == pytest.approx(best, abs=1e-3)
    assert stats.yeojohnson_llf(found.power, u) >= stats.yeojohnson_llf(best, u) - 1e-6
    assert abs(stats.skew(found.forward(y))) < max(0.15, 0.5 * abs(stats.skew(y)))


def test_power_does_not_depend_on_the_unit() -> None:
    y = np.random.default_rng(2).gamma(3.0, size=200)
    other = 1e6 * y - 5e6
    plain, moved = transform_of(TargetTransform.YEO_JOHNSON, y), transform_of(TargetTransform.YEO_JOHNSON, other)
    assert moved.power == pytest.approx(plain.power, abs=1e-4)
    np.testing.assert_allclose(moved.forward(other), plain.forward(y), atol=1e-3)


# What cannot be, and what is far


@pytest.mark.parametrize(
    ("kind", "bad", "least"), [(TargetTransform.LOG, 0.0, "0"), (TargetTransform.LOG1P, -1.0, "-1")]
)
def test_a_target_without_a_logarithm_is_refused_by_its_row(kind: TargetTransform, bad: float, least: str) -> None:
    y = np.linspace(1.0, 2.0, 9)
    transform_of(kind, y)
    transform_of(kind, np.append(y, bad + 1e-12))
    y[3] = bad
    with pytest.raises(InvalidDataError, match=f"target_transform: {kind} needs targets above {least}; row 3") as one:
        transform_of(kind, y)
    assert "more" not in str(one.value)
    y[[5, 7]] = bad - 2.5
    with pytest.raises(InvalidDataError, match=f"row 3 has {bad:g}, and 2 more"):
        transform_of(kind, y)
    with pytest.raises(InvalidDataError, match="row 3"):
        train(Dataset(inputs=np.arange(9.0)[:, None], targets=y), TrainSpec(target_transform=kind))


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_a_spread_beyond_doubles_is_refused(unit: float) -> None:
    with pytest.raises(InvalidDataError, match="another unit"):
        transform_of(TargetTransform.YEO_JOHNSON, unit * np.arange(9.0))


@settings(max_examples=200, deadline=None)
@given(transform=transforms, t=st.floats(-1e308, 1e308))
@example(transform=Transform(kind=TargetTransform.LOG), t=1e308)
@example(transform=yeo_johnson(-0.5), t=2.0)
@example(transform=yeo_johnson(2.5), t=-2.0)
def test_extreme_values_map_back_to_numbers(transform: Transform, t: float) -> None:
    """They map back in order: nothing that is further out comes back further in."""
    shares = np.array([0.1, 0.999, 1.0, 1.001, 1.7])
    found = transform.inverse(np.sort(t * shares))
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0.0).all()


@settings(max_examples=200, deadline=None)
@given(transform=transforms, mean=st.floats(-1e4, 1e4), sd=st.floats(1e-8, 20.0))
def test_moments_are_numbers(transform: Transform, mean: float, sd: float) -> None:
    found = transform.moments(np.array([mean]), np.array([sd**2]))
    assert np.isfinite(found[0]).all()
    assert np.isfinite(found[1]).all()
    assert (found[1] >= 0.0).all()


def test_log_normal_variance_is_a_number_where_its_mean_underflows() -> None:
    mean, variance = Transform(kind=TargetTransform.LOG).moments(np.array([-2000.0]), np.array([1000.0]))
    assert mean[0] >= 0.0
    assert variance[0] >= 0.0


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("shape", ["log-normal", pytest.param("Pareto", marks=pytest.mark.slow)])
def test_heavy_tails_have_a_mean_near_their_targets(shape: str) -> None:
    """A power below 0 maps no finite t beyond -1 / power back: every prediction's mean is then made of FARTHEST."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 2))
    noise = {"log-normal": np.exp(0.5 * rng.normal(size=300)), "Pareto": 1.0 + rng.pareto(1.5, size=300)}[shape]
    targets = np.exp(inputs[:, 0]) * noise
    spec = TrainSpec(
        basis_size=20, target_transform=TargetTransform.YEO_JOHNSON, adaptation=Adaptation(rounds=1, steps=10)
    )
    result = train(Dataset(inputs=inputs, targets=targets), spec)
    found = ModelPredictor(result.model).predict(inputs)
    assert found.moments()[0].max() < 10.0 * targets.max()
    assert result.report.leave_one_out.rmse < 2.0 * targets.std()
    assert found.interval(0.95)[1].max() < 1e3 * targets.max()


@given(
    kind=st.sampled_from([*LOGARITHMS, TargetTransform.YEO_JOHNSON, TargetTransform.RANK_NORMAL]),
    mean=st.floats(-1e3, 1e3),
    sd=st.floats(1e-3, 1e3),
)
def test_a_mean_is_within_reach_of_targets_whatever_the_doubt(kind: TargetTransform, mean: float, sd: float) -> None:
    """A noise taken for thirty times what it is makes the mean of a logarithm e^450 times the median."""
    targets = np.exp(np.random.default_rng(0).normal(size=300))
    level, spread = transform_of(kind, targets).moments(np.array([mean]), np.array([sd**2]))
    assert 0.0 <= level[0] <= targets.max() + 0.5 * np.ptp(targets)
    assert np.isfinite(spread[0])


@pytest.mark.parametrize("kind", [*LOGARITHMS, TargetTransform.YEO_JOHNSON, TargetTransform.RANK_NORMAL])
def test_a_few_rows_of_great_doubt_do_not_make_the_mean_worse_than_a_constant(kind: TargetTransform) -> None:
    """One row in a thousand whose standard deviation is taken for twenty times what it is."""
    random = np.random.default_rng(1)
    centre, sd = random.normal(size=20_000), np.full(20_000, 0.5)
    targets = np.exp(centre + sd * random.normal(size=20_000))
    transform = transform_of(kind, targets)
    scale = np.std(transform.forward(targets)) / np.std(np.log(targets))
    learnt, doubt = (transform.forward(np.exp(centre)), scale * sd)
    doubt[::1000] *= 20.0
    mean, _ = transform.moments(learnt, np.square(doubt))
    assert np.mean(np.square(targets - mean)) < 0.8 * np.var(targets)


def test_moments_of_rows_no_wider_than_the_targets_are_as_they_were() -> None:
    targets = np.exp(np.random.default_rng(0).normal(size=300))
    transform = transform_of(TargetTransform.LOG, targets)
    mean, variance = np.linspace(-2.0, 2.0, 50), np.linspace(0.01, 1.0, 50)
    before = Transform(kind=TargetTransform.LOG).moments(mean, variance)
    np.testing.assert_array_equal(transform.moments(mean, variance), before)


@pytest.mark.parametrize(
    "transform",
    [
        Transform(),
        Transform(kind=TargetTransform.LOG),
        Transform(lowest=0.0, highest=1.0),
        yeo_johnson(1.0 / 3.0, 0.1, 1e-7),
        RANKS,
        transform_of(TargetTransform.YEO_JOHNSON, np.random.default_rng(1).standard_t(2.0, size=60)),
    ],
)
def test_json_gives_back_the_same_bits(transform: Transform) -> None:
    document: dict[str, Any] = json.loads(json.dumps(transform.to_json(), allow_nan=False))
    assert Transform.from_json(document) == transform


# Ranks to normal


def test_ranks_become_normal_and_go_on_as_a_normal_tail() -> None:
    """Half the fresh targets below the median's score and so on: 20,000 of them tell a share to .004."""
    rng = np.random.default_rng(1)
    y, fresh = (np.exp(rng.normal(size=size)) + 3.0 * (rng.uniform(size=size) < 0.3) for size in (4000, 20_000))
    found = transform_of(TargetTransform.RANK_NORMAL, y)
    for score in (-2.0, -1.0, 0.0, 0.7, 1.6):
        assert np.mean(found.forward(fresh) < score) == pytest.approx(stats.norm.cdf(score), abs=0.025)
    far = np.array([5.0, 6.0, 7.0])
    above, below = found.inverse(far), found.inverse(-far)
    np.testing.assert_allclose(np.diff(above, 2), 0.0, atol=1e-9 * above[-1])
    assert (np.diff(above) > 0.0).all()
    assert (below == 0.0).all()  # its bound
    free = replace(found, lowest=-np.inf).inverse(-far)
    assert (np.diff(free) < 0.0).all()


@pytest.mark.parametrize("ties", [0.3, 0.95])
def test_ranks_of_tied_targets_are_still_a_map(ties: float) -> None:
    rng = np.random.default_rng(2)
    y = np.where(rng.uniform(size=200) < ties, 0.0, rng.normal(size=200))
    found = transform_of(TargetTransform.RANK_NORMAL, y)
    places = np.linspace(-3.0, 3.0, 500)
    assert (np.diff(found.forward(places)) > 0.0).all()
    np.testing.assert_allclose(found.inverse(found.forward(places)), places, atol=1e-6)
    assert np.isfinite(found.log_slope(places)).all()


# Bounds of the target


@pytest.mark.parametrize("kind", [kind for kind in TargetTransform if kind is not TargetTransform.AUTO])
def test_a_target_that_is_never_negative_is_told_so(kind: TargetTransform) -> None:
    y = np.random.default_rng(3).gamma(1.0, 2.0, size=200)
    found = transform_of(kind, y)
    assert (found.lowest, found.highest) == (0.0, np.inf)
    centre, sd = np.linspace(-3.0, 3.0, 7), np.full(7, 2.0)
    assert (found.inverse(centre - 2.0 * sd) >= 0.0).all()
    assert (found.moments(centre, sd**2)[0] >= 0.0).all()
    shares = transform_of(kind, y / y.max())
    assert (shares.lowest, shares.highest) == (0.0, 1.0)
    assert (shares.inverse(centre + 5.0 * sd) <= 1.0).all()
    assert (shares.moments(centre, sd**2)[0] <= 1.0).all()


def test_few_targets_or_a_negative_one_tell_no_bound() -> None:
    y = np.random.default_rng(4).gamma(1.0, 2.0, size=200)
    assert not transform_of(TargetTransform.NONE, y[: BOUNDED_ROWS - 1]).bounded
    assert transform_of(TargetTransform.NONE, y[:BOUNDED_ROWS]).bounded
    assert not transform_of(TargetTransform.NONE, np.append(y, -1e-9)).bounded


def test_what_is_no_transform_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="chosen"):
        Transform(kind=TargetTransform.AUTO)
    with pytest.raises(InvalidDataError, match="numbers"):
        Transform(kind=TargetTransform.RANK_NORMAL)
    with pytest.raises(InvalidDataError, match="knots"):
        Transform(knots=((0.0, 1.0, 2.0), (0.0, 1.0, 2.0)))
    with pytest.raises(InvalidDataError, match="increasing"):
        Transform(kind=TargetTransform.RANK_NORMAL, knots=((0.0, 1.0, 2.0), (0.0, 1.0, 1.0)))
    with pytest.raises(InvalidDataError, match="lowest"):
        Transform(lowest=1.0, highest=0.0)


@pytest.mark.parametrize("kind", [TargetTransform.YEO_JOHNSON, TargetTransform.RANK_NORMAL])
def test_moments_of_a_row_are_the_same_in_a_batch_of_any_size(kind: TargetTransform) -> None:
    random = np.random.default_rng(5)
    transform = transform_of(kind, np.exp(random.normal(size=400)))
    mean, variance = random.normal(size=700), random.uniform(0.1, 1.0, size=700)
    level, spread = transform.moments(mean, variance)
    for row in (0, 255, 256, 699):
        one = slice(row, row + 1)
        alone = transform.moments(mean[one], variance[one])
        np.testing.assert_array_equal(alone, (level[one], spread[one]))


@pytest.mark.parametrize("power", [1e-7, 0.3, 1.0, 1.7, 2.0 - 1e-7])
def test_both_sides_of_the_power_are_undone_at_once_as_one_at_a_time(power: float) -> None:
    t = np.linspace(-4.0, 4.0, 801)
    u = _psi_inverse(t, power)
    above, below = _box_cox_inverse(np.maximum(t, 0.0), power), _box_cox_inverse(np.maximum(-t, 0.0), 2.0 - power)
    np.testing.assert_array_equal(u, np.where(t >= 0.0, above, -below))
