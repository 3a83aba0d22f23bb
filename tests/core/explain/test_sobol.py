"""core/explain/sobol.py: against sums over all combinations of points."""

import numpy as np
import pytest

from core.explain import sobol
from core.explain.sobol import main_effects, sobol_indices
from core.hyperparameters import KernelFamily
from tests.core.explain.means import example
from tests.dense import explain


def test_closed_forms_are_the_sums_over_all_points() -> None:
    found = example()
    indices, expected = sobol_indices(found.form), explain.sobol(found.mean, found.features, found.columns)
    assert indices.closed
    assert indices.deviation**2 == pytest.approx(expected.variance, rel=1e-9)
    np.testing.assert_allclose(indices.first, expected.first, rtol=1e-8)
    np.testing.assert_allclose(indices.total, expected.total, rtol=1e-8)
    assert not indices.standard_error.any()
    assert indices.first.sum() <= 1.0 <= indices.total.sum()


@pytest.mark.parametrize("family", [each for each in KernelFamily if each is not KernelFamily.GAUSSIAN])
def test_sampled_totals_are_within_their_error(family: KernelFamily) -> None:
    found = example(family)
    indices, expected = sobol_indices(found.form), explain.sobol(found.mean, found.features, found.columns)
    assert not indices.closed
    assert indices.deviation**2 == pytest.approx(expected.variance, rel=0.1)
    ratio = indices.deviation**2 / expected.variance  # the error told is of the totals, not of the variance
    np.testing.assert_allclose(indices.first * ratio, expected.first, rtol=1e-5)
    assert (np.abs(indices.total * ratio - expected.total) < 4.0 * indices.standard_error * ratio).all()
    assert (indices.standard_error < 0.05).all()


def test_sampling_meets_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    found = example(rows=200)
    closed = sobol_indices(found.form)
    monkeypatch.setattr(sobol, "CLOSED_WORK", 0)
    sampled = sobol_indices(found.form)
    assert (closed.closed, sampled.closed) == (True, False)
    np.testing.assert_allclose(sampled.total, closed.total, atol=0.12)
    np.testing.assert_allclose(sampled.first * sampled.deviation**2, closed.first * closed.deviation**2, rtol=1e-12)


@pytest.mark.parametrize("family", list(KernelFamily))
def test_main_effects_are_means_over_all_other_points(family: KernelFamily) -> None:
    found = example(family)
    mean, effects = main_effects(found.form)
    rows, probabilities = explain.grid(found.features, found.columns)
    assert mean == pytest.approx(float(probabilities @ found.mean(rows)), abs=1e-6)
    for feature, effect in zip(found.features, effects, strict=True):
        for point, value in zip(feature.points, effect, strict=True):
            fixed = rows.copy()
            fixed[:, feature.columns] = point
            assert value == pytest.approx(float(probabilities @ found.mean(fixed)), abs=1e-6)


def test_a_constant_mean_has_no_shares() -> None:
    found = example(points=(1, 1, 1, 1))
    indices = sobol_indices(found.form)
    assert indices.deviation == 0.0
    assert not indices.total.any()
    assert not indices.first.any()


@pytest.mark.parametrize("family", [KernelFamily.GAUSSIAN, KernelFamily.MATERN32])
def test_weights_without_a_square_have_the_same_shares(family: KernelFamily) -> None:
    """To the bit: powers of two round nothing."""
    plain, large, factor = example(family), example(family), 2.0**600
    large.form.alpha, large.form.constant = factor * large.form.alpha, factor * large.form.constant
    expected, found = sobol_indices(plain.form), sobol_indices(large.form)
    np.testing.assert_array_equal(found.total, expected.total)
    np.testing.assert_array_equal(found.first, expected.first)
    assert found.deviation == factor * expected.deviation
