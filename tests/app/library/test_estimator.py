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


def table(rows: int, seed: int = 20) -> tuple[Numbers, Numbers]:
    """Inputs of two columns, and a noisy target of one of them."""
    random = np.random.default_rng(seed)
    inputs = random.uniform(-3, 3, (rows, 2))
    return inputs, np.sin(inputs[:, 0]) + random.normal(0, 0.2, rows)


@cache
def fitted() -> SparseGPRegressor:
    """An estimator as it is by default, on 300 rows."""
    return SparseGPRegressor().fit(*table(300))


@parametrize_with_checks([SparseGPRegressor(**QUICK)])  # type: ignore[untyped-decorator]
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
        make_pipeline(columns, SparseGPRegressor(effort="quick", adapt=False)),
        {"sparsegpregressor__kernel": ["matern12", "gaussian"], "sparsegpregressor__basis_size": np.array([2, 30])},
        cv=2,
    )
    search.fit(frame, targets)
    assert search.best_params_ == {"sparsegpregressor__kernel": "gaussian", "sparsegpregressor__basis_size": 30}
    assert search.best_score_ > 0.9
    assert search.score(frame, targets) > 0.9


def test_under_cross_validation() -> None:
    scores = cross_val_score(SparseGPRegressor(**QUICK), *table(150), cv=3)
    assert scores.min() > 0.7


def test_with_mapie() -> None:
    mapie = pytest.importorskip("mapie.regression")
    inputs, targets = table(300)
    conformal = mapie.SplitConformalRegressor(SparseGPRegressor(**QUICK), confidence_level=0.9, prefit=False)
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
        return SparseGPRegressor(**QUICK, random_state=state).fit(inputs, targets).predict(inputs)

    np.testing.assert_array_equal(predicted(np.random.RandomState(1)), predicted(np.random.RandomState(1)))
    assert not np.array_equal(predicted(1), predicted(2))
    assert not np.array_equal(predicted(None), predicted(None))
