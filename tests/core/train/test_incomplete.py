"""core/train/incomplete.py and core/train/unlearnt.py: rows to learn from, and honest error bars of the others."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.arrays import BoolArray, FloatArray, IntArray
from core.data import Dataset
from core.predict.missing import IntegratedPredictor
from core.predict.mixture import PartlyMixed
from core.predict.model import ModelPredictor
from core.spec import Adaptation, TrainSpec
from core.train.incomplete import CompletedRows, choose_donors, complete_rows
from core.train.report import TrainResult
from core.train.run import train
from core.train.unlearnt import UnlearntRows

pytestmark = pytest.mark.usefixtures("short_search")

SPEC = TrainSpec(basis_size=40, adaptation=Adaptation(rounds=2, steps=12), noise="constant", calibrate="loo")  # type: ignore[arg-type]


def completed(inputs: FloatArray, targets: FloatArray, spec: TrainSpec = SPEC, **table: Any) -> CompletedRows:
    columns = inputs.shape[1]
    given: dict[str, Any] = {
        "starts": np.arange(columns + 1),
        "groups": np.arange(columns),
        "indicator": np.zeros(columns, dtype=bool),
    }
    return complete_rows(inputs, targets, spec=spec, **(given | table))


def fitted(
    inputs: FloatArray, targets: FloatArray, spec: TrainSpec = SPEC, **table: Any
) -> tuple[CompletedRows, TrainResult, UnlearntRows]:
    rows = completed(inputs, targets, spec, **table)
    kinds = {name: table[name] for name in ("groups", "indicator") if name in table}
    unlearnt = UnlearntRows(
        inputs=inputs[rows.left_out], targets=targets[rows.left_out], donors=rows.donors, shifted=rows.shifted
    )
    dataset = Dataset(inputs=rows.inputs, targets=targets[rows.places], **kinds)
    return rows, train(dataset, spec, unlearnt=unlearnt), unlearnt


def inside(predictor: IntegratedPredictor, inputs: FloatArray, targets: FloatArray) -> float:
    lower, upper = predictor.predict(inputs).interval(0.95)
    return float(np.mean((lower <= targets) & (targets <= upper)))


def without(inputs: FloatArray, rows: IntArray | BoolArray | slice, *columns: int) -> FloatArray:
    found = inputs.copy()
    found[rows, columns[0] : columns[-1] + 1] = np.nan
    return found


def correlated(rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Two columns of correlation .8; the target is sin of one and the other."""
    random = np.random.default_rng(seed)
    X = random.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], rows)
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=rows)


def levels(rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """A number and a category of three levels, as three columns."""
    random = np.random.default_rng(seed)
    level, a = random.choice(3, rows, p=[0.5, 0.3, 0.2]), random.uniform(-2.0, 2.0, rows)
    return np.column_stack([a, np.eye(3)[level]]), np.sin(a) + 3.0 * level + 0.3 * random.normal(size=rows)


LEVELS: dict[str, Any] = {
    "starts": np.array([0, 1, 4]),
    "groups": np.array([0, 1, 1, 1]),
    "indicator": np.array([False, True, True, True]),
}


def test_without_missing_cells_every_row_is_as_it_was() -> None:
    X, y = correlated(60, 0)
    found = completed(X, y)
    assert found.places.tolist() == list(range(60))
    assert found.inputs.tobytes() == X.tobytes()
    assert (len(found.left_out), found.marked, found.shifted) == (0, (), ())
    assert sorted(map(tuple, found.donors.rows)) == sorted(map(tuple, X))


def test_a_row_whose_missing_cell_matters_is_left_out_and_predicted_as_unknown() -> None:
    """One z of 200 is missing, and its target 500 is no news: the mean of all, give or take a uniform deviation."""
    random = np.random.default_rng(4)
    X = random.uniform(0.0, 1000.0, (200, 1))
    y = X[:, 0].copy()
    X[17], y[17] = np.nan, 500.0
    rows, result, unlearnt = fitted(X, y)
    assert rows.left_out.tolist() == [17]
    mean, variance = unlearnt.predictor(result.model).predict(X[17:18]).moments()
    assert mean[0] == pytest.approx(500.0, abs=60.0)  # the mean of 200 uniform numbers is known to 20
    assert np.sqrt(variance[0]) == pytest.approx(1000.0 / np.sqrt(12.0), rel=0.1)


def test_a_row_whose_missing_cell_hardly_matters_is_learnt_from() -> None:
    random = np.random.default_rng(1)
    X = random.uniform(-1.0, 1.0, (120, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.3 * random.normal(size=120)
    found = completed(without(X, slice(40), 1), y)
    assert len(found.left_out) == 0
    assert np.isfinite(found.inputs).all()
    np.testing.assert_array_equal(found.inputs[:, 0], X[:, 0])
    assert set(found.inputs[:40, 1].tolist()) <= set(X[:, 1].tolist()) | set(found.inputs[:40, 1].tolist())
    np.testing.assert_array_equal(found.inputs[40:, 1], X[40:, 1])


def test_few_rows_are_complete() -> None:
    """Of six columns each misses every fourth cell: no more than a sixth of the rows has none missing."""
    random = np.random.default_rng(2)

    def some(rows: int) -> tuple[FloatArray, FloatArray]:
        X = random.uniform(-1.0, 1.0, (rows, 6))
        y = 3.0 * X[:, 0] + X[:, 1] + 0.2 * random.normal(size=rows)
        X[random.uniform(size=X.shape) < 0.25] = np.nan
        return X, y

    X, y = some(150)
    rows, result, unlearnt = fitted(X, y)
    assert np.isfinite(rows.donors.rows).all()
    gone = np.isnan(X[rows.left_out])
    assert gone[:, 0].mean() > 0.8  # the column that matters most
    assert inside(unlearnt.predictor(result.model), *some(400)) == pytest.approx(0.95, abs=0.04)


@pytest.mark.parametrize("share", [*(pytest.param(share, marks=pytest.mark.slow) for share in (0, 1)), 30])
def test_fresh_rows_with_missing_cells_are_covered(share: int) -> None:
    """Over two columns that tell of each other, and over levels: 95% within 4 points, and 1.5 for 900 fresh rows."""
    shares = []
    for seed in range(3):
        X, y = correlated(150, seed)
        fresh, truth = correlated(300, 100 + seed)
        rows, result, unlearnt = fitted(without(X, slice(share), 1), y)
        shares.append(inside(unlearnt.predictor(result.model), without(fresh, slice(None), 1), truth))
        assert len(rows.left_out) == share
    assert np.mean(shares) == pytest.approx(0.95, abs=0.055)


def test_fresh_rows_without_their_level_or_anything_are_covered() -> None:
    shares = []
    for seed in range(2):
        X, y = levels(150, seed)
        fresh, truth = levels(300, 100 + seed)
        _, result, unlearnt = fitted(without(X, slice(30), 1, 3), y, **LEVELS)
        predictor = unlearnt.predictor(result.model)
        shares.append([inside(predictor, without(fresh, slice(None), *gone), truth) for gone in ((1, 3), (0, 3))])
    # three levels of .3 noise: what a mixture of them covers is known to some 2% of 150 rows
    np.testing.assert_allclose(np.mean(shares, axis=0), 0.95, atol=0.055)


def test_the_report_scores_held_out_rows_of_both_sorts() -> None:
    X, y = correlated(200, 7)
    rows, result, unlearnt = fitted(without(X, slice(60), 1), y, replace(SPEC, holdout=0.2))
    holdout = result.report.holdout
    assert holdout is not None
    assert len(rows.left_out) == 60
    assert holdout.rows == 28 + 12  # a fifth of 140 and of 60
    plain = train(Dataset(inputs=rows.inputs, targets=y[rows.places]), replace(SPEC, holdout=0.2)).report.holdout
    assert plain is not None
    assert plain.rows == 28
    assert holdout.mean_width["0.95"] > plain.mean_width["0.95"]
    alone = unlearnt.scores(result.model, np.random.default_rng(0))
    assert alone is not None
    assert alone.rows == 60
    assert alone.coverage["0.95"] == pytest.approx(0.95, abs=0.1)  # four standard errors of 60 rows are .11


def test_being_missing_that_says_something_is_told_apart() -> None:
    random = np.random.default_rng(3)
    X = random.uniform(-1.0, 1.0, (160, 2))
    gaps, y = without(X, slice(40), 1), X[:, 0] + 0.1 * random.normal(size=160)
    aside = np.where(np.arange(160) < 40, 5.0, 0.0)
    assert completed(gaps, y).marked == completed(gaps, y).shifted == ()
    assert completed(gaps, y + aside).marked == (1,)
    matters = completed(gaps, y + 5.0 * X[:, 1] + aside)
    assert (matters.marked, matters.shifted) == ((), (1,))
    assert matters.left_out.tolist() == list(range(40))


def test_shifts_are_those_of_the_rows_left_out() -> None:
    random = np.random.default_rng(5)
    X = random.uniform(-1.0, 1.0, (200, 2))
    y = X[:, 0] + 2.0 * X[:, 1] + 0.1 * random.normal(size=200) + np.where(np.arange(200) < 60, 7.0, 0.0)
    _, result, unlearnt = fitted(without(X, slice(60), 1), y)
    donors = unlearnt.donors_for(result.model)
    assert donors.shifts[0] == 0.0
    assert donors.shifts[1] == pytest.approx(7.0, abs=0.5)  # 60 rows of deviation 1.2
    plain = ModelPredictor(result.model).predict(X[60:63])
    both = unlearnt.predictor(result.model).predict(np.concatenate([X[60:63], without(X[60:63], slice(None), 1)]))
    assert isinstance(both, PartlyMixed)
    assert both.moments()[0][:3].tobytes() == plain.moments()[0].tobytes()
    np.testing.assert_allclose(both.moments()[0][3:], X[60:63, 0] + 7.0, atol=0.6)


def test_donors_are_the_rows_that_miss_least() -> None:
    X = np.random.default_rng(6).normal(size=(900, 3))
    gaps = without(X, slice(200), 2)
    found = choose_donors(gaps, starts=np.arange(4), fixed=np.zeros(3, dtype=bool), random=np.random.default_rng(0))
    assert len(found.rows) == 512
    assert set(found.rows[:, 2].tolist()) <= set(X[200:, 2].tolist())
    wide = np.random.default_rng(6).normal(size=(300, 1000))
    few = choose_donors(wide, starts=np.arange(1001), fixed=np.zeros(1000, dtype=bool), random=np.random.default_rng(0))
    assert few.rows.shape == (65, 1000)


def test_the_same_table_and_seed_give_the_same_rows() -> None:
    X, y = correlated(120, 8)
    gaps = without(X, slice(30), 1)
    one, two = completed(gaps, y), completed(gaps, y)
    assert one.inputs.tobytes() == two.inputs.tobytes()
    assert one.donors.rows.tobytes() == two.donors.rows.tobytes()
    assert one.left_out.tolist() == two.left_out.tolist()
