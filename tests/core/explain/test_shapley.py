"""core/explain/shapley.py: against all subsets, and what Shapley values promise."""

import numpy as np
import pytest

from core.errors import InvalidDataError
from core.explain.product_mean import Marginal, ProductMean
from core.explain.shapley import shapley_values
from core.hyperparameters import KernelFamily
from core.predict.model import ModelPredictor
from tests.core.explain.means import example, inputs
from tests.dense import explain


@pytest.mark.parametrize("family", list(KernelFamily))
def test_parts_are_those_over_all_subsets(family: KernelFamily) -> None:
    found = example(family)
    X = inputs(found)
    values = shapley_values(found.form, X)
    expected = [explain.shapley(found.mean, found.features, x) for x in X]
    np.testing.assert_allclose(values.parts, expected, atol=1e-6 if family is KernelFamily.MATERN12 else 1e-7)
    assert values.baseline == pytest.approx(explain.worth(found.mean, found.features, X[0], ()), abs=1e-6)


@pytest.mark.parametrize(("features", "points"), [(1, 4), (2, 3), (4, 2), (5, 2)])
def test_any_number_of_features(features: int, points: int) -> None:
    found = example(widths=(1,) * features, points=(points,) * features, seed=features)
    X = inputs(found, 2)
    values = shapley_values(found.form, X)
    np.testing.assert_allclose(values.parts, [explain.shapley(found.mean, found.features, x) for x in X], atol=1e-11)


@pytest.mark.parametrize("family", list(KernelFamily))
@pytest.mark.parametrize("features", [3, 40, 90])
def test_parts_and_baseline_add_up_to_the_prediction(family: KernelFamily, features: int) -> None:
    found = example(family, widths=(1,) * features, points=(4,) * features, rows=60)
    X = inputs(found, 3)
    values = shapley_values(found.form, X)
    predicted = ModelPredictor(found.model).mean(X)
    np.testing.assert_allclose(values.mean, predicted, rtol=1e-12)
    np.testing.assert_allclose(values.baseline + values.parts.sum(axis=1), predicted, rtol=1e-12)
    assert values.remainder < 1e-6 * float(np.abs(found.form.alpha).sum())


def test_many_features_are_met_by_a_rule_of_few_nodes() -> None:
    """Against orders of the features drawn at random: the average of what each changes where it comes."""
    features = 60
    found = example(widths=(1,) * features, points=(2,) * features, rows=15)
    (R,) = list(found.form.squared_distances(inputs(found, 1)))
    a, m = np.exp(-R), found.form.expected(1.0)
    random, drawn = np.random.default_rng(0), []
    for _ in range(400):
        order, factors, changes = random.permutation(features), m.copy(), np.empty(features)
        before = float(found.form.alpha @ factors.prod(axis=0))
        for place in order:
            factors[place] = a[place]
            after = float(found.form.alpha @ factors.prod(axis=0))
            changes[place], before = after - before, after
        drawn.append(changes)
    parts = shapley_values(found.form, inputs(found, 1)).parts[0]
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.abs(parts - np.mean(drawn, axis=0)) < 5.0 * error + 1e-12).all()


def test_what_does_not_matter_has_no_part() -> None:
    found = example()
    (x,) = inputs(found, 1)
    alone = Marginal(points=x[found.features[1].columns][None], probabilities=np.ones(1))
    marginals = [Marginal(points=each.points, probabilities=each.probabilities) for each in found.features]
    starts = np.array([0, *(each.columns.stop for each in found.features)])
    form = ProductMean(found.model, starts, [marginals[0], alone, *marginals[2:]])
    assert shapley_values(form, x[None]).parts[0, 1] == pytest.approx(0.0, abs=1e-12)  # it is as it always is


def test_a_row_that_is_far_in_one_column_only() -> None:
    found = example()
    x = inputs(found, 1)
    x[0, 0] += 1e9
    values = shapley_values(found.form, x)
    assert values.mean[0] == pytest.approx(found.form.constant)
    np.testing.assert_allclose(values.parts[0], explain.shapley(found.mean, found.features, x[0]), atol=1e-11)


def test_features_that_are_not_the_models() -> None:
    found = example()
    marginal = Marginal(points=np.zeros((1, 1)), probabilities=np.ones(1))
    with pytest.raises(InvalidDataError, match="begin at 0 and end at 7"):
        ProductMean(found.model, np.array([0, 3]), [marginal])
    with pytest.raises(InvalidDataError, match="expected points of 7 columns"):
        ProductMean(found.model, np.array([0, 7]), [marginal])
    with pytest.raises(InvalidDataError, match="finite points"):
        Marginal(points=np.full((1, 1), np.nan), probabilities=np.ones(1))
    with pytest.raises(InvalidDataError, match="a probability of each"):
        Marginal(points=np.zeros((2, 1)), probabilities=np.ones(1))
