"""core/explain/neighbours.py: against the distances of all rows."""

import numpy as np
import pytest

from core.explain.neighbours import neighbours
from core.hyperparameters import KernelFamily
from core.predict.model import ModelPredictor
from tests.core.explain.means import example, inputs


@pytest.mark.parametrize("family", list(KernelFamily))
def test_the_nearest_rows_come_first_and_all_rows_add_up(family: KernelFamily) -> None:
    found = example(family)
    X, own = inputs(found), found.model.posterior
    near = neighbours(found.form, X, 5)
    ell = own.lengthscales[own.groups.astype(int)]
    unit = own.standardization
    r = np.sqrt((np.square(unit.inputs(X)[:, None] - unit.inputs(own.basis)) / ell**2).sum(axis=2))
    np.testing.assert_array_equal(near.places, np.argsort(r, axis=1)[:, :5])
    np.testing.assert_allclose(near.distances, np.sort(r, axis=1)[:, :5], rtol=1e-10)
    total = near.constant + near.added.sum(axis=1) + near.rest
    np.testing.assert_allclose(total, ModelPredictor(found.model).mean(X), rtol=1e-10)
    assert ((near.similarity > 0.0) & (near.similarity < 1.0)).all()


def test_a_row_of_the_model_is_at_no_distance() -> None:
    found = example()
    near = neighbours(found.form, found.model.posterior.basis[[7]], 3)
    assert near.places[0, 0] == 7
    assert near.distances[0, 0] == pytest.approx(0.0, abs=1e-7)
    assert near.similarity[0, 0] == pytest.approx(1.0)


def test_more_are_asked_for_than_there_are() -> None:
    found = example(rows=4)
    near = neighbours(found.form, inputs(found, 1), 10)
    assert sorted(near.places[0].tolist()) == [0, 1, 2, 3]
    assert near.rest[0] == 0.0


def test_a_row_of_several_components_adds_their_average() -> None:
    found = example()
    X = inputs(found, 6)
    near = neighbours(found.form, X, 2, components=3)
    means = ModelPredictor(found.model).mean(X).reshape(2, 3).mean(axis=1)
    np.testing.assert_allclose(near.constant + near.added.sum(axis=1) + near.rest, means, rtol=1e-10)
