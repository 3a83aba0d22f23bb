"""core/predict/calibration.py: quantiles against order statistics counted in whole numbers, and the guarantee of split
conformal prediction by simulation."""

import json
from dataclasses import fields, replace
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core.arrays import FloatArray
from core.errors import InvalidDataError
from core.predict.calibration import (
    STD_RANGE,
    Calibration,
    IntervalBasis,
    LeftOut,
    fit_calibration,
    replicate_noise,
)
from core.predict.score_ranks import effective_count
from core.predict.tails import fit_tail
from core.spec import Intervals
from tests.core.leftout import random_rows, rows, variance_of

PERCENT = tuple(Fraction(percent, 100) for percent in range(1, 100))
KEPT = (*PERCENT, Fraction(995, 1000), Fraction(998, 1000), Fraction(999, 1000), Fraction(9999, 10_000))
"""Levels at which an order statistic is kept as it is."""


# The table of quantiles


def scores_of(left_out: LeftOut, found: Calibration) -> FloatArray:
    """Scores (y - m) / sd with the scales that were found, sorted."""
    variance = variance_of(left_out, found.latent_scale, found.noise_scale)
    return np.asarray(np.sort(left_out.error / np.sqrt(variance)))


counts = st.one_of(st.integers(40, 300), st.sampled_from([99, 199, 499, 998, 999, 1000, 9999, 12_000]))


@settings(max_examples=60, deadline=None)
@given(count=counts, seed=st.integers(0, 1000), level=st.sampled_from(KEPT))
def test_symmetric_quantile_is_the_order_statistic(count: int, seed: int, level: Fraction) -> None:
    """The ceil(c (n + 1))-th smallest |r| / sd, its rank counted in fractions; past it no narrower than the last."""
    left_out = random_rows(seed, count, share=0.05)
    found = fit_calibration(left_out)
    sizes = np.sort(np.abs(scores_of(left_out, found)))
    assert found.rows == count
    assert found.most_level == pytest.approx(count / (count + 1), rel=1e-14)
    rank = ceil(level * (count + 1))
    assert found.basis(float(level)) is (IntervalBasis.TAIL if rank > count else IntervalBasis.CONFORMAL)
    if rank > count:
        assert found.interval(float(level))[1] >= sizes[-1] * (1.0 - 1e-9)
        return
    below, above = found.interval(float(level))
    assert above == pytest.approx(sizes[rank - 1], rel=1e-9)
    assert below == -above
    assert found.quantile(0.5 + float(level) / 2) == above
    assert found.quantile(0.5 - float(level) / 2) == pytest.approx(below, rel=1e-9)
    assert found.interval(found.most_level)[1] == pytest.approx(sizes[-1], rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(count=counts, seed=st.integers(0, 1000), level=st.sampled_from(KEPT))
def test_asymmetric_tails_are_order_statistics(count: int, seed: int, level: Fraction) -> None:
    """Each tail by itself: floor(t (n + 1)) from below and ceil((1 - t) (n + 1)), t = (1 - c) / 2."""
    left_out = random_rows(seed, count)
    left_out = rows(np.expm1(left_out.error), left_out.latent_variance, left_out.noise_variance)
    found = fit_calibration(left_out, Intervals.ASYMMETRIC)
    scores, tail = scores_of(left_out, found), (1 - level) / 2
    assert found.most_level == pytest.approx(1 - 2 / (count + 1), rel=1e-12)
    assert found.quantile(0.5) == pytest.approx(np.median(scores), rel=1e-12)
    first, last = floor(tail * (count + 1)), ceil((1 - tail) * (count + 1))
    below, above = found.interval(float(level))
    assert found.basis(float(level)) is (IntervalBasis.CONFORMAL if first >= 1 else IntervalBasis.TAIL)
    if first < 1 or last > count:
        assert below <= scores[0] + 1e-9
        assert scores[-1] <= above + 1e-9
        return
    assert below == pytest.approx(scores[first - 1], rel=1e-9)
    assert above == pytest.approx(scores[last - 1], rel=1e-9)


@pytest.mark.parametrize("shape", list(Intervals))
@pytest.mark.parametrize("count", [40, 57, 400, 20_000])
def test_quantiles_rise_and_are_linear_between_levels(count: int, shape: Intervals) -> None:
    left_out = random_rows(count, count)
    found = fit_calibration(left_out, shape)
    most = found.most_level
    probabilities = np.linspace(0.5 - 0.5 * most, 0.5 + 0.5 * most, 501)
    values = np.array([found.quantile(float(p)) for p in probabilities])
    assert (np.diff(values) >= 0.0).all()
    scores = scores_of(left_out, found)
    for percent in (37, 71, 83):  # half way, and a quarter, between neighbouring percents; all within reach
        for share in (0.5, 0.25):
            ends = []
            for level in (Fraction(percent, 100), Fraction(percent + 1, 100)):
                if shape is Intervals.SYMMETRIC:
                    ends.append(np.sort(np.abs(scores))[ceil(level * (count + 1)) - 1])
                else:
                    ends.append(scores[ceil((1 + level) / 2 * (count + 1)) - 1])
            expected = ends[0] + share * (ends[1] - ends[0])
            assert found.interval((percent + share) / 100)[1] == pytest.approx(expected, rel=1e-9)


LEVELS = (0.001, 0.3, 0.5, 0.9, 0.949, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 130),
    seed=st.integers(0, 1000),
    shape=st.sampled_from(list(Intervals)),
    power=st.sampled_from([0.2, 1.0, 3.0]),
)
def test_every_level_has_an_interval_and_they_nest(count: int, seed: int, shape: Intervals, power: float) -> None:
    """Light tails and heavy ones, with ranks for some of the levels or for none."""
    left_out = random_rows(seed, count)
    error = np.copysign(np.abs(left_out.error) ** power, left_out.error)
    found = fit_calibration(rows(error, left_out.latent_variance, left_out.noise_variance), shape)
    ends = np.array([found.interval(level) for level in LEVELS])
    assert np.isfinite(ends).all()
    assert (np.diff(ends[:, 0]) <= 0.0).all()
    assert (np.diff(ends[:, 1]) >= 0.0).all()
    assert ends[-1, 1] > ends[4, 1]
    for level, (below, above) in zip(LEVELS, ends, strict=True):
        assert found.quantile(0.5 + level / 2) == pytest.approx(above, rel=1e-6)
        assert found.quantile(0.5 - level / 2) == pytest.approx(below, rel=1e-6)


@pytest.mark.parametrize("count", [6, 10, 20, 40])
def test_few_normal_scores_hold_levels_beyond_their_ranks(count: int) -> None:
    """New rows of 200 fits of a few errors each, whose variance is known from these alone: a normal distribution would
    hold 89 and 96% of them for 6 rows. A mean of 200 coverages has a standard error of .007 at 95%, .004 at 99%."""
    rng = np.random.default_rng(count)
    inside = dict.fromkeys((0.95, 0.99), 0.0)
    for _ in range(200):
        found = fit_calibration(rows(rng.normal(size=count)))
        sizes = np.abs(rng.normal(size=500)) / np.sqrt(found.noise_scale)
        for level in inside:
            inside[level] += float(np.mean(sizes <= found.interval(level)[1])) / 200
    assert inside[0.95] == pytest.approx(0.95, abs=0.02)
    assert inside[0.99] == pytest.approx(0.99, abs=0.012)


@pytest.mark.parametrize("freedom", [2.0, 4.0, 30.0])
def test_a_tail_is_the_t_distribution_of_its_scores(freedom: float) -> None:
    """20,000 scores tell 1 / nu to about .01, and a far quantile of t with that to a twentieth or so."""
    scores = 0.4 * stats.t.ppf((np.arange(20_000) + 0.5) / 20_000, freedom)
    found = fit_tail(np.abs(scores))
    assert 1 / found.freedom == pytest.approx(1 / freedom, abs=0.01)
    assert found.scale == pytest.approx(0.4, rel=0.02)
    assert found.quantile(0.999) == pytest.approx(0.4 * stats.t.ppf(0.999, freedom), rel=0.05)
    expected = stats.t.logpdf(scores, found.freedom, scale=found.scale)
    np.testing.assert_allclose(found.log_density(scores), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", list(Intervals))
@pytest.mark.parametrize("errors", ["normal", "mostly small", "heavy", "two sizes"])
def test_a_std_agrees_with_the_interval(errors: str, shape: Intervals) -> None:
    rng = np.random.default_rng(0)
    error = {
        "normal": rng.normal(size=300),
        "mostly small": np.where(rng.uniform(size=300) < 0.03, 1.0, 1e-3) * rng.normal(size=300),
        "heavy": rng.standard_t(1.5, size=300),
        "two sizes": rng.choice([-1.0, 1.0], size=300),
    }[errors]
    found = fit_calibration(rows(error), shape)
    below, above = found.interval(0.95)
    ratio = 2 * stats.norm.ppf(0.975) * found.std_factor / (above - below)
    assert STD_RANGE[0] - 1e-9 <= ratio <= STD_RANGE[1] + 1e-9
    assert (found.std_factor == 1.0) is (errors in ("normal", "heavy"))


@pytest.mark.parametrize(
    ("count", "level", "shape"),
    [
        ((49, 199)[(row + column) % 2], level, shape)  # in turn
        for row, level in enumerate((0.5, 0.9, 0.985))
        for column, shape in enumerate(Intervals)
    ],
)
def test_coverage_is_guaranteed_for_heavy_tails(count: int, level: float, shape: Intervals) -> None:
    """New rows of a t distribution of two degrees of freedom, each with a scale of its own: no moment that helps.

    Given n scores the coverage is Beta distributed, with mean k / (n + 1), k whole gaps between order statistics.
    """
    rng = np.random.default_rng(count)
    runs, new = 150, 200
    c, tail = Fraction(level).limit_denominator(1000), Fraction(1 - level).limit_denominator(1000) / 2
    if shape is Intervals.SYMMETRIC:
        gaps = ceil(c * (count + 1))
        supported = gaps <= count
    else:
        gaps = ceil((1 - tail) * (count + 1)) - floor(tail * (count + 1))
        supported = floor(tail * (count + 1)) >= 1
    inside = 0.0
    for _ in range(runs):
        noise = rng.gamma(1.0, 1.0, size=count + new)
        error = np.sqrt(noise) * rng.standard_t(2, size=count + new)
        found = fit_calibration(rows(error[:count], 0.0, noise[:count]), shape)
        assert found.basis(level) is (IntervalBasis.CONFORMAL if supported else IntervalBasis.TAIL)
        below, above = found.interval(level)
        scores = error[count:] / np.sqrt(found.noise_scale * noise[count:])
        inside += float(np.mean((below <= scores) & (scores <= above))) / runs
    if supported:
        truth = Fraction(gaps, count + 1)
        assert truth >= c
        doubt = np.sqrt(float(truth * (1 - truth)) * (1 / (runs * (count + 2)) + 1 / (runs * new)))
        assert inside >= level - 4 * doubt
        if c in PERCENT:  # an order statistic itself, nothing between two of them
            assert inside == pytest.approx(float(truth), abs=4 * doubt)


def test_skewed_residuals_have_tails_of_their_own() -> None:
    """Exponential errors, their mean taken out: 5% below and 5% above, which a symmetric interval cannot do."""
    rng = np.random.default_rng(0)
    found = fit_calibration(rows(rng.exponential(size=5000) - 1.0), Intervals.ASYMMETRIC)
    new = (rng.exponential(size=100_000) - 1.0) / np.sqrt(found.noise_scale)
    below, above = found.interval(0.9)
    assert np.mean(new < below) == pytest.approx(0.05, abs=0.01)
    assert np.mean(new > above) == pytest.approx(0.05, abs=0.01)
    below, above = fit_calibration(rows(rng.exponential(size=5000) - 1.0)).interval(0.9)
    assert np.mean(new < below) == 0.0
    assert np.mean(new > above) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("shape", list(Intervals))
def test_a_few_scores_are_all_tail(shape: Intervals) -> None:
    least = {Intervals.SYMMETRIC: 10, Intervals.ASYMMETRIC: 20}[shape]
    few, enough = fit_calibration(random_rows(0, least - 1), shape), fit_calibration(random_rows(0, least), shape)
    assert (few.rows, few.most_level, len(few.tails)) == (least - 1, 0.0, 1)
    tail = stats.t(few.tails[0].freedom, scale=few.tails[0].scale)
    for level in (0.5, 0.95, 0.9999):
        np.testing.assert_allclose(few.interval(level), tail.interval(level), rtol=1e-6)
        assert few.quantile(level) == pytest.approx(tail.ppf(level), rel=1e-6, abs=1e-9)
        assert few.basis(level) is IntervalBasis.TAIL
    assert 0.9 < enough.most_level < 0.95
    assert (enough.basis(0.5), enough.basis(0.99)) == (IntervalBasis.CONFORMAL, IntervalBasis.TAIL)
    assert Calibration().quantile(0.975) == pytest.approx(1.959964, abs=1e-6)
    assert Calibration().basis(0.5) is IntervalBasis.NORMAL


@pytest.mark.parametrize("shape", list(Intervals))
def test_a_table_of_an_earlier_release_has_tails_too(shape: Intervals) -> None:
    """It kept quantiles and no tails: those of its quantiles are close to those of the scores."""
    found = fit_calibration(random_rows(3, 400), shape)
    document = found.to_json()
    del document["tails"]
    old = Calibration.from_json(document)
    assert old.to_json() == document
    assert old.interval(0.9) == found.interval(0.9)
    for ours, theirs in zip(old.interval(0.9999), found.interval(0.9999), strict=True):
        assert ours == pytest.approx(theirs, rel=0.35)
    assert old.interval(0.9999)[1] >= old.interval(0.99)[1]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), shape=st.sampled_from(list(Intervals)))
def test_order_of_rows_does_not_matter(seed: int, shape: Intervals) -> None:
    left_out = random_rows(seed, 64)
    order = np.random.default_rng(seed).permutation(64)
    moved = rows(left_out.error[order], left_out.latent_variance[order], left_out.noise_variance[order])
    one, other = fit_calibration(left_out, shape), fit_calibration(moved, shape)
    np.testing.assert_allclose(other.quantiles, one.quantiles, rtol=1e-5)
    assert other.latent_scale == pytest.approx(one.latent_scale, rel=1e-4)


def test_what_is_no_calibration_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="increasing"):
        Calibration(probabilities=np.array([0.0, 0.5, 0.5]), quantiles=np.array([0.0, 1.0, 2.0]))
    with pytest.raises(InvalidDataError, match="increasing"):
        Calibration(probabilities=np.array([0.0, 0.5]), quantiles=np.array([0.0, -1.0]))
    with pytest.raises(InvalidDataError, match="one length"):
        Calibration(probabilities=np.array([0.0, 0.5]), quantiles=np.array([0.0]))
    with pytest.raises(InvalidDataError, match="finite"):
        Calibration(probabilities=np.array([0.0, 0.5]), quantiles=np.array([0.0, np.nan]))
    for scale in (0.0, -1.0, np.nan, np.inf):
        for name in ("latent_scale", "noise_scale"):
            with pytest.raises(InvalidDataError, match="above zero"):
                Calibration.from_json({**Calibration().to_json(), name: scale})


@pytest.mark.parametrize("count", [5, 120])
@pytest.mark.parametrize("shape", list(Intervals))
def test_json_gives_back_the_same_bits(count: int, shape: Intervals) -> None:
    found = fit_calibration(random_rows(7, count), shape)
    restored = Calibration.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    assert restored.tails == found.tails
    for field in fields(Calibration):
        if field.name in ("tails", "_tails"):
            continue
        np.testing.assert_array_equal(getattr(restored, field.name), getattr(found, field.name), err_msg=field.name)
    assert restored.intervals is found.intervals
    with pytest.raises(KeyError):
        Calibration.from_json({"latent_scale": 1.0})


# Groups of scores


def test_scores_of_a_group_that_are_all_alike_count_as_one() -> None:
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 10)
    level = np.repeat(random.normal(size=30), 10)
    assert effective_count(level, group) == 30
    assert effective_count(level + 0.01 * random.normal(size=300), group) < 33
    sizes = np.abs(level) * random.choice([-1.0, 1.0], 300)  # alike in size alone
    assert effective_count(sizes, group) == 30
    assert effective_count(random.normal(size=300), group) > 150
    assert effective_count(random.normal(size=300), np.arange(300)) == 300
    assert effective_count(random.normal(size=5), np.zeros(5, np.int64)) == 1


@pytest.mark.parametrize("shape", [Intervals.SYMMETRIC, Intervals.ASYMMETRIC])
def test_a_new_group_is_covered(shape: Intervals) -> None:
    """Levels of 40 groups are what is unknown: by rows alone intervals of 90% hold too few of a new group's rows."""
    held = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        level = random.normal(size=40)
        error = np.repeat(level, 8) + 0.1 * random.normal(size=320)
        left_out = replace(rows(error), group=np.repeat(np.arange(40), 8))
        found = fit_calibration(left_out, shape)
        lower, upper = found.interval(0.9)
        variance = found.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)[:1]
        new = random.normal(size=2000) / np.sqrt(variance)
        held.append(np.mean((lower <= new) & (new <= upper)))
    assert 0.89 < np.mean(held) < 0.94


def test_replicates_say_what_the_noise_is_at_least() -> None:
    """The lower bound of a pooled variance: below the truth in nineteen of twenty draws, and near it where rows are
    many."""
    below = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        group = np.repeat(np.arange(40), 4)
        error = np.repeat(random.normal(size=40), 4) + 0.5 * random.normal(size=160)
        below += replicate_noise(error, group) < 0.25
    assert 180 <= below <= 198
    random = np.random.default_rng(1)
    many = np.repeat(np.arange(5000), 2)
    assert replicate_noise(0.5 * random.normal(size=10_000), many) == pytest.approx(0.25, rel=0.05)
    assert replicate_noise(random.normal(size=5), np.arange(5)) == 0.0


def test_noise_is_not_below_what_replicates_say() -> None:
    left_out = rows(np.random.default_rng(0).normal(size=400), latent=1.0, noise=0.01)
    free, held = fit_calibration(left_out), fit_calibration(replace(left_out, noise_floor=0.09))
    assert free.noise_scale < 9.0
    assert held.noise_scale == pytest.approx(9.0)
