"""app/services/background.py: points that stand for the training rows, and models of releases that kept none."""

from typing import Any

import numpy as np
import pytest

from app.services.background import POINTS, column_points, marginals, product_mean
from app.services.monitoring.profile import training_profile
from app.storage.artefact import load
from app.tables import Schema
from core.explain.shapley import shapley_values
from core.predict.model import ModelPredictor
from tests.app.storage.stored_models import FOLDER, SPECS

SCHEMA = Schema.from_json(
    {
        "target": "y",
        "unseen": "error",
        "features": [
            {"name": "x", "kind": "number", "levels": [], "fill": 0.0, "indicator": True},
            {"name": "k", "kind": "category", "levels": ["a", "b", "c"], "fill": None, "indicator": False},
            {"name": "g", "kind": "number", "levels": [], "fill": None, "indicator": True, "integrate": True},
        ],
    }
)


def rows(count: int = 400) -> Any:
    """Rows of which a fifth misses x and another fifth g."""
    random = np.random.default_rng(0)
    table = []
    for row in range(count):
        missing = row % 5
        table.append(
            {
                "x": None if missing == 0 else float(random.exponential()),
                "k": "aab"[row % 3],
                "g": None if missing == 1 else float(random.normal()),
            }
        )
    return SCHEMA.encode_rows(table)


def test_few_values_are_themselves() -> None:
    found = column_points(np.array([3.0, 1.0, 1.0, 1.0]))
    assert found == {"points": [1.0, 3.0], "weights": [0.75, 0.25]}


def test_many_values_keep_their_mean() -> None:
    values = np.random.default_rng(1).exponential(size=1003)
    found = column_points(values)
    assert len(found["points"]) == POINTS
    assert sum(found["weights"]) == pytest.approx(1.0)
    assert np.dot(found["points"], found["weights"]) == pytest.approx(values.mean(), rel=1e-8)
    spread = np.dot(np.square(np.array(found["points"]) - values.mean()), found["weights"])
    assert spread == pytest.approx(values.var(), rel=0.1)


def test_points_are_the_training_rows() -> None:
    inputs = rows()
    x, k, g = marginals(SCHEMA, training_profile(SCHEMA, inputs, inputs[:, 0]), inputs[:3])
    blocks = SCHEMA.blocks
    np.testing.assert_allclose(x.probabilities @ x.points, inputs[:, blocks[0]].mean(axis=0), rtol=1e-8)  # marks too
    np.testing.assert_array_equal(x.points[-1], [0.0, 1.0])
    assert k.points.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]  # no row has c
    assert k.probabilities == pytest.approx(inputs[:, blocks[1]].mean(axis=0)[:2])
    known = inputs[~np.isnan(inputs[:, blocks[2].start]), blocks[2].start]
    assert g.probabilities @ g.points[:, 0] == pytest.approx(known.mean(), rel=1e-6)


@pytest.mark.parametrize("profile", [None, 3, {}, {"columns": 1}, {"columns": {"x": {"missing": "none"}, "k": []}}])
def test_a_profile_that_says_nothing_leaves_the_models_rows(profile: Any) -> None:
    inputs = rows(30)
    known = inputs[~np.isnan(inputs).any(axis=1)]
    x, k, _ = marginals(SCHEMA, profile, known)
    np.testing.assert_allclose(x.probabilities @ x.points, known[:, SCHEMA.blocks[0]].mean(axis=0))
    np.testing.assert_allclose(k.probabilities @ k.points, known[:, SCHEMA.blocks[1]].mean(axis=0))


@pytest.mark.parametrize("name", SPECS)
def test_versions_of_earlier_releases_are_explained(name: str) -> None:
    stored = load((FOLDER / f"{name}.safetensors").read_bytes())
    if not stored.schema.get("features"):  # written without a service
        p = stored.posterior.basis.shape[1]
        features: list[dict[str, Any]] = [
            {"name": f"x{place}", "kind": "number", "levels": [], "fill": None, "indicator": False}
            for place in range(p)
        ]
        stored.schema.update({"target": "y", "unseen": "error", "features": features})
    model = stored.model()
    X = (model.mean or model.posterior).basis[:4] * 1.01
    values = shapley_values(product_mean(stored), X)
    predictor = ModelPredictor(model)
    centre = predictor.mean(X) if predictor.mean_only else predictor.predict(X).centre
    np.testing.assert_allclose(values.baseline + values.parts.sum(axis=1), centre, rtol=1e-6)
