"""`SparseGPRegressor`: scikit-learn's own checks, its tools, error bars, and the artefact that it leaves."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from pursuit import InvalidError, SparseGPRegressor, load
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

Numbers = NDArray[np.float64]
QUICK: dict[str, Any] = {"adapt": False, "basis_size": 20, "method": "rand"}
MEAN: dict[str, Any] = {**QUICK, "calibrate": False, "holdout": 0}
"""Where error bars do not matter: their calibration takes most of the time of a quick fit."""


def table(rows: int, seed: int = 20) -> tuple[Numbers, Numbers]:
    """Inputs of two columns, and a noisy target of one of them."""
    random = np.random.default_rng(seed)
    inputs = random.uniform(-3, 3, (rows, 2))
    return inputs, np.sin(inputs[:, 0]) + random.normal(0, 0.2, rows)


@cache
def fitted() -> SparseGPRegressor:
    """An estimator as it is by default, on 300 rows."""
    return SparseGPRegressor().fit(*table(300))


@parametrize_with_checks([SparseGPRegressor(**MEAN)])  # type: ignore[untyped-decorator]
def test_scikit_learns_checks(estimator: SparseGPRegressor, check: Callable[[Any], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks([SparseGPRegressor()])  # type: ignore[untyped-decorator]
def test_scikit_learns_checks_by_default(estimator: SparseGPRegressor, check: Callable[[Any], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.slow
def test_standard_deviations_intervals_and_quantiles_cover_new_rows() -> None:
    inputs, targets = table(2_000, seed=1)
    mean, std = fitted().predict(inputs, return_std=True)
    assert np.mean((targets - mean) ** 2) < 0.06
    assert np.mean(std) == pytest.approx(0.2, rel=0.25)
    for level in (0.5, 0.95):
        lower, upper = fitted().predict_interval(inputs, level=level).T
        assert np.mean((lower <= targets) & (targets <= upper)) == pytest.approx(level, abs=0.05)
    quantiles = fitted().predict_quantiles(inputs, [0.025, 0.5, 0.975])
    np.testing.assert_array_equal(quantiles[:, ::2], fitted().predict_interval(inputs))
    assert np.mean(targets < quantiles[:, 1]) == pytest.approx(0.5, abs=0.08)


def test_the_artefact_predicts_the_same_to_the_bit_and_tells_its_columns(tmp_path: Any) -> None:
    inputs, targets = table(120)
    frame = pd.DataFrame(inputs, columns=["wind", "sun"])
    estimator = SparseGPRegressor(**QUICK).fit(frame, pd.Series(targets, name="power"))
    model = load(estimator.save(tmp_path / "power.safetensors"))
    assert (model.target, model.columns) == ("power", ("wind", "sun"))
    predicted = model.predict(frame[["sun", "wind"]])
    mean, std = estimator.predict(frame, return_std=True)
    np.testing.assert_array_equal(predicted["mean"], mean)
    np.testing.assert_array_equal(predicted["std"], std)
    assert model.report["rows"] == estimator.report_["rows"] == 120
    assert model.spec["basis_size"] == 20


def test_in_a_pipeline_with_columns_of_text_under_a_grid_search() -> None:
    inputs, targets = table(120)
    frame = pd.DataFrame({"x": inputs[:, 0], "kind": np.where(inputs[:, 1] > 0, "high", "low")})
    targets = targets + 2.0 * (frame["kind"] == "high")
    columns = ColumnTransformer([("number", StandardScaler(), ["x"]), ("text", OneHotEncoder(), ["kind"])])
    search = GridSearchCV(
        make_pipeline(columns, SparseGPRegressor(effort="quick", adapt=False, calibrate=False, holdout=0)),
        {"sparsegpregressor__kernel": ["matern12", "gaussian"], "sparsegpregressor__basis_size": np.array([2, 30])},
        cv=2,
    )
    search.fit(frame, targets)
    assert search.best_params_ == {"sparsegpregressor__kernel": "gaussian", "sparsegpregressor__basis_size": 30}
    assert search.best_score_ > 0.9
    assert search.score(frame, targets) > 0.9


def test_under_cross_validation() -> None:
    scores = cross_val_score(SparseGPRegressor(**MEAN), *table(150), cv=3)
    assert scores.min() > 0.7


def test_with_mapie() -> None:
    mapie = pytest.importorskip("mapie.regression")
    inputs, targets = table(300)
    conformal = mapie.SplitConformalRegressor(SparseGPRegressor(**MEAN), confidence_level=0.9, prefit=False)
    conformal.fit(inputs[:200], targets[:200]).conformalize(inputs[200:], targets[200:])
    new, truth = table(1_000, seed=3)
    _, intervals = conformal.predict_interval(new)
    covered = (intervals[:, 0, 0] <= truth) & (truth <= intervals[:, 1, 0])
    assert np.mean(covered) == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "periodic"}, "spec.kernel: expected one of auto, gaussian"),
        ({"basis_size": 0}, "spec.basis_size: expected"),
        ({"holdout": 2}, "spec.holdout: expected"),
        ({"variance": "near", "effort": "quick"}, "variance: near is of a full process"),
        ({"n_jobs": 0}, "n_jobs: expected a number other than 0"),
    ],
)
def test_parameters_that_are_wrong(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        SparseGPRegressor(**parameters).fit(*table(30))
    assert isinstance(caught.value, InvalidError)


def test_tables_that_cannot_be_learned_from_and_options_that_are_none() -> None:
    inputs, targets = table(30)
    with pytest.raises(InvalidError, match=r"the target is 1\.0 in every row"):
        SparseGPRegressor().fit(inputs, np.ones(30))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SparseGPRegressor().fit(np.where(inputs > 2, np.nan, inputs), targets)
    with pytest.raises(InvalidError, match=r"interval: expected a probability above 0 and below 1, got 95\.0"):
        fitted().predict_interval(inputs, level=95)
    with pytest.raises(InvalidError, match="quantiles: every level once"):
        fitted().predict_quantiles(inputs, [0.5, 0.5])
    with pytest.raises(NotFittedError):
        SparseGPRegressor().save("nowhere")


def test_copies_of_rows_are_counted_once_and_threads_change_nothing_that_matters() -> None:
    inputs, targets = table(60)
    once = SparseGPRegressor(adapt=False).fit(inputs, targets)
    twice = SparseGPRegressor(adapt=False, n_jobs=-1).fit(np.tile(inputs, (2, 1)), np.tile(targets, 2))
    np.testing.assert_allclose(once.predict(inputs), twice.predict(inputs), rtol=1e-9, atol=1e-9)
    assert "60 of 120 rows are exact copies" in twice.report_["warnings"][0]


def test_random_state_decides_what_is_random() -> None:
    inputs, targets = table(100)

    def predicted(state: Any) -> Numbers:
        return SparseGPRegressor(**MEAN, random_state=state).fit(inputs, targets).predict(inputs)

    np.testing.assert_array_equal(predicted(np.random.RandomState(1)), predicted(np.random.RandomState(1)))
    assert not np.array_equal(predicted(1), predicted(2))
    assert not np.array_equal(predicted(None), predicted(None))


def measured(rows: int) -> tuple[Numbers, Numbers, Numbers]:
    """Inputs, means of 1 or 50 measurements of noise 1 by turns, and how many they are."""
    random = np.random.default_rng(5)
    inputs, times = random.uniform(-3, 3, (rows, 1)), np.where(np.arange(rows) % 2, 50.0, 1.0)
    return inputs, np.sin(inputs[:, 0]) + random.normal(size=rows) / np.sqrt(times), times


def test_weights_say_how_precise_a_row_is() -> None:
    inputs, targets, times = measured(150)
    new = np.linspace(-2.8, 2.8, 40)[:, None]
    weighted = SparseGPRegressor(**QUICK).fit(inputs, targets, weights=times)
    plain = SparseGPRegressor(**QUICK).fit(inputs, targets)
    errors = [np.sqrt(np.mean((each.predict(new) - np.sin(new[:, 0])) ** 2)) for each in (weighted, plain)]
    assert errors[0] < 0.7 * errors[1]
    assert weighted.report_["weights"]["mean"] == 25.5
    scaled = SparseGPRegressor(**QUICK).fit(inputs, targets, weights=(1024 * times).tolist())
    np.testing.assert_array_equal(scaled.predict(new, return_std=True), weighted.predict(new, return_std=True))
    equal = SparseGPRegressor(**QUICK).fit(inputs, targets, weights=np.full(150, 7.0))
    np.testing.assert_array_equal(equal.predict(new, return_std=True), plain.predict(new, return_std=True))
    nought = SparseGPRegressor(**QUICK).fit(inputs, targets, weights=np.where(times > 1, times, 0.0))
    rest = SparseGPRegressor(**QUICK).fit(inputs[1::2], targets[1::2])
    np.testing.assert_array_equal(nought.predict(new), rest.predict(new))
    assert "75 of 150 rows have a weight of 0" in nought.report_["warnings"][0]


def test_weights_go_through_pipelines_and_searches() -> None:
    inputs, targets, times = measured(80)
    pipeline = make_pipeline(StandardScaler(), SparseGPRegressor(**MEAN))
    pipeline.fit(inputs, targets, sparsegpregressor__weights=times)
    assert pipeline[-1].report_["weights"]["greatest"] == 50.0
    search = GridSearchCV(SparseGPRegressor(**MEAN), {"kernel": ["gaussian"]}, cv=2).fit(inputs, targets, weights=times)
    assert search.best_estimator_.report_["weights"]["greatest"] == 50.0


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"weights: expected one for each of the 30 rows, got shape \(2,\)"),
        ([-1.0] + 29 * [1.0], r"weights: row 0: expected a number of at least 0, got -1\.0"),
        (29 * [1.0] + [np.nan], "weights: row 29: expected a number of at least 0, got nan"),
        (29 * [0.0] + [1.0], "weights: at least 2 rows have to count for more than 0"),
        (29 * [1.0] + [1e-14], "weights: the smallest is 1e-14"),
    ],
)
def test_weights_that_are_wrong(weights: list[float], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        SparseGPRegressor(**QUICK).fit(*table(30), weights=weights)


def test_weights_are_of_a_single_target() -> None:
    inputs, targets = table(30)
    with pytest.raises(InvalidError, match="weights: rows of several targets"):
        SparseGPRegressor(**QUICK).fit(inputs, np.column_stack((targets, inputs[:, 0])), weights=np.ones(30))
