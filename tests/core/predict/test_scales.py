"""core/predict/calibration.py: scales against a grid, and how a latent variance is bent back to the prior far from the
data."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import core.predict.calibration
from core.arrays import FloatArray
from core.predict.calibration import LEAST_LATENT_SCALE, MOST_SCALE, Calibration, LeftOut, loss_of, scales, stretch
from tests.core.leftout import random_rows, rows, stretched, variance_of
from tests.dense.objective import central_differences

SHARES = [None, 0.0, 0.1]
"""Shares of `random_rows`: no far_variance, one that no row reaches, one that some pass."""


def objective(left_out: LeftOut, logarithms: FloatArray) -> float:
    """Minus the log likelihood of all rows, and of one unit-normal draw of each logarithm; without constants."""
    a, b = np.exp(logarithms)
    total = 0.5 * float(logarithms[0] ** 2 + logarithms[1] ** 2)
    for r, variance in zip(left_out.error, variance_of(left_out, a, b), strict=True):
        total += 0.5 * float(r**2 / variance + np.log(variance))
    return total


# Far from the data

SCALES = st.floats(-3.0, 3.0).map(lambda value: float(np.exp(value)))


@settings(max_examples=200, deadline=None)
@given(share=st.floats(0.0, 1.0), far_variance=st.floats(1e-6, 1e6), a=SCALES)
def test_stretch_multiplies_the_odds_of_what_is_left(share: float, far_variance: float, a: float) -> None:
    latent = share * far_variance
    found = float(stretch(np.array([latent]), far_variance, a)[0])
    assert found == pytest.approx(stretched(latent, far_variance, a), rel=1e-9 * max(a, 1 / a), abs=1e-300)
    assert found <= far_variance * (1 + 1e-12)
    assert (found >= latent * (1 - 1e-12)) if a >= 1.0 else (found <= latent * (1 + 1e-12))
    back = float(stretch(np.array([found]), far_variance, 1.0 / a)[0])
    assert back == pytest.approx(latent, rel=1e-12 * max(a, 1 / a) ** 2, abs=1e-300)


@pytest.mark.parametrize("a", [1 / MOST_SCALE, 0.3, 1.0, 4.0, MOST_SCALE])
@pytest.mark.parametrize("far_variance", [1e-3, 1.0, 70.0])
def test_stretch_is_a_factor_at_the_data_and_none_far_away(a: float, far_variance: float) -> None:
    small = far_variance * np.array([0.0, 1e-12, 1e-9, 1e-6])
    np.testing.assert_allclose(stretch(small, far_variance, a), a * small, rtol=MOST_SCALE * 1e-6)
    assert stretch(np.array([far_variance]), far_variance, a)[0] == pytest.approx(far_variance, rel=1e-14)
    beyond = far_variance * np.array([1.0 + 1e-9, 1.5, 30.0])
    np.testing.assert_allclose(stretch(beyond, far_variance, a), beyond, rtol=1e-14)
    latent = far_variance * np.concatenate((np.linspace(0.0, 1.0, 401), np.linspace(1.001, 3.0, 50)))
    assert (np.diff(stretch(latent, far_variance, a)) > 0.0).all()
    slopes = np.diff(stretch(latent, far_variance, a)) / np.diff(latent)
    assert min(a, 1 / a) * (1 - 1e-9) <= slopes.min() <= slopes.max() <= max(a, 1 / a) * (1 + 1e-9)


@pytest.mark.parametrize("far_variance", [1e-3, 1.0, 70.0])
def test_the_least_scale_is_none_far_away_but_for_rounding(far_variance: float) -> None:
    """1 + (a - 1) there is a but for the last bit of 1, which is 1e-12 of the least."""
    latent = far_variance * np.array([1e-9, 1.0, 30.0])
    expected = latent * np.array([LEAST_LATENT_SCALE, 1.0, 1.0])
    np.testing.assert_allclose(stretch(latent, far_variance, LEAST_LATENT_SCALE), expected, rtol=1e-8 * 1.01)


@pytest.mark.parametrize("a", [0.05, 1.0, 20.0])
def test_where_there_is_no_farthest_stretch_is_a_factor(a: float) -> None:
    """SoR; and rows of folds, each with a far_variance of its own."""
    latent = np.array([0.0, 1e-9, 0.3, 1e9])
    np.testing.assert_array_equal(stretch(latent, np.inf, a), a * latent)
    several = np.array([np.inf, 2.0, 0.3, 1e10])
    expected = [stretched(v, far, a) for v, far in zip(latent, several, strict=True)]
    np.testing.assert_allclose(stretch(latent, several, a), expected, rtol=1e-12)


def test_variance_is_stretched_and_has_its_noise() -> None:
    left_out = random_rows(9, 80, share=0.1)
    parts = (left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    found = Calibration(latent_scale=0.2, noise_scale=3.0)
    np.testing.assert_allclose(found.variance(*parts), variance_of(left_out, 0.2, 3.0), rtol=1e-12)
    np.testing.assert_allclose(found.latent(parts[0], parts[2]), variance_of(left_out, 0.2, 0.0), rtol=1e-12)
    np.testing.assert_allclose(found.variance(parts[0], 0.7, 1.1)[:3], found.latent(parts[0], 1.1)[:3] + 2.1)


def test_some_rows_in_another_order() -> None:
    left_out, which = (
        replace(
            random_rows(10, 12, share=0.1), group=np.arange(12) // 2, noise_floor=0.3, weights=np.arange(1.0, 13.0)
        ),
        np.array([7, 0, 3]),
    )
    taken = left_out.take(which)
    for field in fields(LeftOut):
        if field.name not in {"noise_floor", "others"}:
            np.testing.assert_array_equal(getattr(taken, field.name), getattr(left_out, field.name)[which])
    assert taken.noise_floor == 0.3


# Scales


@pytest.mark.parametrize(("seed", "scale"), [(0, (1.0, 1.0)), (1, (0.2, 3.0)), (2, (6.0, 0.3)), (3, (2.0, 2.0))])
@pytest.mark.parametrize("share", SHARES)
def test_scales_are_the_lowest_of_a_grid(seed: int, scale: tuple[float, float], share: float | None) -> None:
    left_out = random_rows(seed, 60, scale, share=share)
    found = np.log(scales(left_out))
    grid = np.linspace(-2.95, 2.95, 16)
    values = np.array([[objective(left_out, np.array([a, b])) for b in grid] for a in grid])
    assert objective(left_out, found) <= values.min() + 1e-9
    near = [found + np.array([a, b]) for a in (-1e-3, 0.0, 1e-3) for b in (-1e-3, 0.0, 1e-3)]
    assert np.argmin([objective(left_out, point) for point in near]) == 4
    np.testing.assert_allclose(
        central_differences(lambda at: objective(left_out, at), found), 0.0, atol=1e-3 * len(left_out.error)
    )


@pytest.mark.parametrize("share", SHARES)
def test_gradient_of_the_scales_against_differences(share: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient that the optimiser is given, at points far from where it ends too; a mean over rows."""
    left_out, seen = random_rows(4, 40, share=share), []

    def minimize(loss: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(loss)
        return original(loss, *arguments, **options)

    original = core.predict.calibration.minimize  # type: ignore[attr-defined]  # imported there by name
    monkeypatch.setattr(core.predict.calibration, "minimize", minimize)
    scales(left_out)
    (loss,) = seen
    zero = objective(left_out, np.zeros(2)) / 40 - loss(np.zeros(2))[0]
    for point in np.random.default_rng(0).uniform(-3.0, 3.0, size=(20, 2)):
        value, gradient = loss(point)
        assert value + zero == pytest.approx(objective(left_out, point) / 40, rel=1e-10)
        differences = central_differences(lambda at: objective(left_out, at) / 40, point)
        np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("scale", [(1.0, 1.0), (0.25, 2.0), (3.0, 0.5)])
@pytest.mark.parametrize("share", [None, 0.01])
def test_scales_that_are_true_are_found(scale: tuple[float, float], share: float | None) -> None:
    np.testing.assert_allclose(scales(random_rows(5, 40_000, scale, share=share)), scale, rtol=0.06)


def test_a_latent_variance_may_be_a_thousand_times_too_large() -> None:
    """That of a few near rows of a smooth function is, which all rows predict far better."""
    random = np.random.default_rng(0)
    latent = np.exp(random.normal(size=4_000))
    a, _ = scales(rows(np.sqrt(1e-3 * latent) * random.normal(size=4_000), latent, 1e-9))
    assert a == pytest.approx(1e-3, rel=0.1)


def test_scales_stay_within_their_limits() -> None:
    """No error at all, errors beyond all measure, and a part that is always zero, which keeps its scale."""
    a, b = scales(rows(np.zeros(500), 1.0, 1.0))
    assert b == pytest.approx(1.0 / MOST_SCALE, rel=1e-6)
    assert a < b
    a, _ = scales(rows(np.zeros(500), 1.0, 0.0))
    assert a == pytest.approx(LEAST_LATENT_SCALE, rel=1e-6)
    a, b = scales(rows(np.full(500, 1e4), 1.0, 1.0))
    assert max(a, b) == pytest.approx(MOST_SCALE, rel=1e-6)
    a, b = scales(rows(3.0 * np.random.default_rng(0).normal(size=20_000), 0.0, 1.0))
    assert a == pytest.approx(1.0, abs=1e-6)
    assert b == pytest.approx(9.0, rel=0.05)
    a, b = scales(rows(3.0 * np.random.default_rng(0).normal(size=20_000), 1.0, 1.0, 1.0))
    assert a == pytest.approx(1.0, abs=1e-6)  # every row is far from the data, where a changes nothing
    assert b == pytest.approx(8.0, rel=0.05)


def test_one_row_moves_the_scales_little() -> None:
    """They are held to one by the weight of a row each: 1e6 in a single error is not a factor of 1e12."""
    a, b = scales(rows(np.array([3.0]), 0.5, 0.5))
    assert 1.0 < a < 3.0
    assert 1.0 < b < 3.0
    assert a == pytest.approx(b, rel=1e-6)


def test_loss_is_that_of_a_normal() -> None:
    left_out = random_rows(6, 50, share=0.1)
    sd = np.sqrt(variance_of(left_out, 0.3, 2.5))
    np.testing.assert_allclose(loss_of(left_out, 0.3, 2.5), -stats.norm.logpdf(left_out.error, scale=sd), rtol=1e-12)
