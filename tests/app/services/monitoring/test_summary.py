"""Profiles, counts and indexes against what they are made of."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from app.services.monitoring.monitoring import wilson
from app.services.monitoring.profile import MISSING, OTHERS, OUTSIDE, UNSEEN, Bins, TrainingProfile, training_profile
from app.services.monitoring.summary import Summary, drift, stability_index
from app.tables import Schema

SCHEMA = Schema.from_json(
    {
        "target": "y",
        "unseen": "prior",
        "features": [
            {"name": "x", "kind": "number", "levels": [], "fill": 0.0, "indicator": False, "integrate": True},
            {"name": "k", "kind": "category", "levels": ["a", "b"], "fill": None, "indicator": True},
            {"name": "t", "kind": "boolean", "levels": [], "fill": None, "indicator": False},
        ],
    }
)


def rows(x: list[float], levels: str, flags: list[float]) -> Any:
    """Rows of the design matrix; `-`: missing, `?`: unseen."""
    blocks = {"a": (1.0, 0.0, 0.0), "b": (0.0, 1.0, 0.0), "-": (0.0, 0.0, 1.0), "?": (1e6, 0.0, 0.0)}
    return np.array([[v, *blocks[level], flag] for v, level, flag in zip(x, levels, flags, strict=True)])


TRAINED = rows([float(i) for i in range(20)], "ab" * 9 + "-a", [0.0, 1.0] * 10)


def profile() -> TrainingProfile:
    found = TrainingProfile.from_json(SCHEMA, training_profile(SCHEMA, TRAINED, np.arange(20.0)))
    assert found is not None
    return found


def test_training_rows_are_their_own_profile() -> None:
    counts = profile().count(TRAINED)
    summary = Summary(rows=20, counted=20, columns=counts, means=[2] * 10)
    found = drift(summary, profile())
    assert [column["psi"] for column in found["columns"]] == pytest.approx([0.0] * 3, abs=1e-9)
    assert found["prediction_psi"] == pytest.approx(0.0)
    assert profile().variance == pytest.approx(np.var(np.arange(20.0)))


def test_what_is_missing_outside_or_unseen_is_counted() -> None:
    counts = profile().count(rows([np.nan, -1.0, 25.0, 3.0], "-??a", [0.0, 1.0, 1.0, 1.0]))
    assert (counts["x"][MISSING], counts["x"][OUTSIDE], sum(counts["x"][OTHERS:])) == (1, 2, 3)
    assert (counts["k"][MISSING], counts["k"][UNSEEN], counts["k"][OTHERS:]) == (1, 2, [1, 0])
    assert sum(counts["t"][OTHERS:]) == 4


def test_summaries_add_up_whatever_the_order() -> None:
    parts = [TRAINED[:7], TRAINED[7:9], TRAINED[9:]]
    together = Summary(rows=20, counted=20, columns=profile().count(TRAINED))
    for order in (parts, parts[::-1]):
        summary = Summary()
        for part in order:
            summary.add(Summary(rows=len(part), counted=len(part), columns=profile().count(part)))
        assert summary == together
        assert Summary.from_json(summary.to_json()) == summary


def test_the_index_is_its_formula() -> None:
    counts, expected = np.array([30.0, 70.0]), np.array([0.5, 0.5])
    by_hand = (0.3 - 0.5) * math.log(0.3 / 0.5) + (0.7 - 0.5) * math.log(0.7 / 0.5)
    assert stability_index(counts, expected) == pytest.approx(by_hand)
    assert stability_index(np.zeros(2), expected) == 0.0
    assert math.isfinite(stability_index(np.array([0.0, 9.0]), np.array([1.0, 0.0])))


def test_equal_numbers_make_fewer_bins() -> None:
    bins = Bins.of(np.array([1.0] * 50 + [2.0] * 50))
    assert bins.edges.tolist() == [1.0, 1.5, 2.0] or bins.edges.tolist() == [1.0, 2.0]
    assert bins.shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("successes", "count"), [(0, 1), (1, 1), (8, 10), (95, 100), (950, 1000)])
def test_wilsons_interval(successes: int, count: int) -> None:
    expected = binomtest(successes, count).proportion_ci(method="wilson")
    assert wilson(successes, count) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"columns": {}}, {"columns": {"x": 1}, "target": {}}, {"columns": {"x": {"missing": "much"}}}],
)
def test_a_profile_that_does_not_fit_is_none(document: object) -> None:
    assert TrainingProfile.from_json(SCHEMA, document) is None


def test_a_profile_of_other_levels_is_none() -> None:
    document = training_profile(SCHEMA, TRAINED, np.arange(20.0))
    document["columns"]["k"]["shares"] = [1.0]
    assert TrainingProfile.from_json(SCHEMA, document) is None
