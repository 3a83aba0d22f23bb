"""basis_size "auto" on small tables: every distinct row is a basis vector, theta has a prior, error bars hold."""

from typing import Any

import numpy as np
import pytest

import core.train.fold_fits
from core.arrays import FloatArray
from core.data import Dataset
from core.predict.model import ModelPredictor
from core.selection.size import SMALL_TABLE, every_row
from core.sparse.scheme import scheme
from core.spec import Adaptation, Approximation, Calibrate, Method, Refinement, TrainSpec
from core.train.objective import NOISE_DEVIATION, NOISE_SHARE, exact_objective_and_gradient, objective_and_gradient
from core.train.progress import Checkpoint
from core.train.report import TrainResult
from core.train.run import train
from tests.core.problems import THETAS, hyperparameters, oracle_params, problem, to_log
from tests.dense.objective import central_differences, exact_objective

LEVELS = (0.5, 0.8, 0.95)


def kinds(noise: FloatArray) -> Dataset:
    """One categorical column of three levels, a third of the rows each, targets around 10, 20 and 30."""
    inputs = np.repeat(np.eye(3), len(noise) // 3, axis=0)
    targets = inputs @ [10.0, 20.0, 30.0] + noise
    return Dataset(inputs=inputs, targets=targets, groups=np.zeros(3, np.int64), indicator=np.ones(3, bool))


def curve(seed: int, rows: int = 30) -> Dataset:
    random = np.random.default_rng(seed)
    x = random.uniform(0.0, 6.0, rows)
    return Dataset(inputs=x[:, None], targets=np.cos(x) + 0.05 * random.normal(size=rows))


def mean_and_deviation(result: TrainResult, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, variance = ModelPredictor(result.model).predict(inputs).moments()
    return mean, np.sqrt(variance)


# Which rows


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("each", [8, 200])
def test_every_level_of_a_category_is_in_the_basis(each: int) -> None:
    """Targets one above and one below: means 10, 20, 30, and a new target's deviation is that of the level's mean and
    the noise. Two of the levels were in the basis once, and the third had a deviation of 4.3."""
    result = train(kinds(np.tile([1.0, -1.0], 3 * each // 2)), TrainSpec())
    assert result.report.basis_size == 3
    mean, deviation = mean_and_deviation(result, np.eye(3))
    np.testing.assert_allclose(mean, [10.0, 20.0, 30.0], atol=0.3)
    np.testing.assert_allclose(deviation, np.sqrt(1.0 + 1.0 / each), atol=0.15)


def test_a_curve_of_thirty_rows_is_a_full_process() -> None:
    """The error of the mean is that of a curve with some six free coefficients: .05 sqrt(6 / 30); of seven curves the
    worst was .032 (.055 with four basis vectors)."""
    x = np.linspace(0.3, 5.7, 50)
    for seed in range(3):
        result = train(curve(seed), TrainSpec())
        assert result.report.basis_size == 30
        mean, deviation = mean_and_deviation(result, x[:, None])
        assert np.sqrt(np.mean(np.square(mean - np.cos(x)))) < 0.04
        assert np.all((deviation > 0.03) & (deviation < 0.1))


@pytest.mark.usefixtures("short_search")
def test_copies_of_a_row_are_one_basis_vector() -> None:
    data = curve(1)
    thrice = Dataset(inputs=np.tile(data.inputs, (3, 1)), targets=np.tile(data.targets, 3))
    result = train(thrice, TrainSpec(holdout=0.0))
    assert result.selection.indices.tolist() == list(range(30))
    assert "all 30 distinct rows" in result.report.stop_reason


@pytest.mark.parametrize("method", list(Method))
def test_every_method_takes_all_rows_unless_it_may_not(method: Method) -> None:
    """Where there is room for all but one the method's own measure decides, as in a large table."""
    dataset, adaptation = curve(2), Adaptation(rounds=1, steps=3)
    everything = train(dataset, TrainSpec(method=method, adaptation=adaptation, calibrate=None, holdout=0.0))
    assert everything.selection.indices.tolist() == list(range(30))
    assert np.isnan(everything.selection.gains).all()
    some = TrainSpec(method=method, adaptation=adaptation, calibrate=None, holdout=0.0, max_basis_size=29)
    result = train(dataset, some)
    assert 1 <= result.report.basis_size <= 29
    assert "distinct rows" not in result.report.stop_reason


def test_a_table_of_more_distinct_rows_than_that_is_not_small() -> None:
    case = problem(3, n=SMALL_TABLE + 1)
    assert every_row(case.rows, TrainSpec()) is None
    fewer = case.changed(X=np.concatenate((case.X[:-1], case.X[:1])))
    selection = every_row(fewer.rows, TrainSpec(max_basis_size=4_000))
    assert selection is not None
    assert selection.complete
    assert selection.indices.tolist() == list(range(SMALL_TABLE))
    assert every_row(fewer.rows, TrainSpec(max_basis_size=SMALL_TABLE - 1)) is None
    assert every_row(fewer.rows, TrainSpec(basis_size=SMALL_TABLE)) is None
    many = case.changed(X=np.tile(case.X[:7], (900, 1)), y=np.zeros(6300))  # seven distinct rows
    selection = every_row(many.rows, TrainSpec())
    assert selection is not None
    assert selection.indices.tolist() == list(range(7))


@pytest.mark.usefixtures("short_search")
def test_rows_that_are_all_basis_vectors_do_not_move() -> None:
    """No other basis says more; and the calibration keeps its folds, where one that moved has seen every target."""
    spec: dict[str, Any] = {"adaptation": Adaptation(rounds=1, steps=5)}
    plain = train(curve(3), TrainSpec(**spec))
    saved: list[Any] = []
    refined = train(curve(3), TrainSpec(**spec, refinement=Refinement(steps=5)), listen=saved.append)
    assert not refined.moved
    assert refined.report.basis_size == 30
    assert refined.report.calibration.by == "cross-fitting"
    np.testing.assert_array_equal(
        mean_and_deviation(refined, np.ones((1, 1))), mean_and_deviation(plain, np.ones((1, 1)))
    )
    last = [told for told in saved if isinstance(told, Checkpoint)][-1]
    resumed = train(curve(3), TrainSpec(**spec, refinement=Refinement(steps=5)), resume=last)
    assert resumed.report.hyperparameters.noise_variance == refined.report.hyperparameters.noise_variance
    assert not resumed.moved


# What theta minimises


@pytest.mark.parametrize("name", THETAS)
def test_the_objective_with_its_prior_and_gradient(name: str) -> None:
    case = problem(13, n=25).with_hyperparameters(**THETAS[name])
    power = float(np.mean(np.square(case.y)))
    spread = np.sqrt([np.square(case.X[:, case.groups == group]).sum(axis=1).mean() for group in range(3)])
    spread /= np.sqrt(np.bincount(case.groups))

    def oracle(theta: FloatArray) -> float:
        now = case.at(theta).hyperparameters
        z = np.log(now.noise_variance / (NOISE_SHARE * power)) / NOISE_DEVIATION
        columns = 0.5 * np.log1p(np.square(30.0 * spread / now.lengthscales)).sum()
        prior = float(0.5 * z**2 + columns)
        return float(exact_objective(oracle_params(now, case.groups), case.X, case.y)) + prior

    theta = to_log(case.hyperparameters)
    numeric = central_differences(oracle, theta, step=2e-5)
    for value, gradient in (
        exact_objective_and_gradient(case.rows, case.hyperparameters),
        objective_and_gradient(case.rows, case.X, case.hyperparameters, scheme(Approximation.PEP), complete=True),
    ):
        np.testing.assert_allclose(value, oracle(theta), rtol=1e-9)
        np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("approximation", list(Approximation))
def test_with_many_copies_the_sparse_form_has_the_same_objective(approximation: Approximation) -> None:
    """Its jitter of 1e-8 is what differs."""
    case = problem(14, n=20)
    copies = case.changed(X=np.tile(case.X, (2, 1)), y=np.concatenate((case.y, -case.y[::-1])))
    found = objective_and_gradient(copies.rows, case.X, case.hyperparameters, scheme(approximation), complete=True)
    value, gradient = exact_objective_and_gradient(copies.rows, case.hyperparameters)
    np.testing.assert_allclose(found[0], value, atol=1e-4)
    np.testing.assert_allclose(found[1], gradient, atol=1e-3)


def test_few_rows_of_many_columns_do_not_end_without_noise() -> None:
    """Friedman's function, 50 rows, ten columns of which five matter: the likelihood alone ends at a noise of 1e-6 in
    three of these, which is the least allowed."""
    for seed in (7, 9, 11):
        random = np.random.default_rng([seed, 477])
        X = random.uniform(0.0, 1.0, (1050, 10))
        y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
        noisy = y + random.normal(size=1050)
        result = train(Dataset(inputs=X[:50], targets=noisy[:50]), TrainSpec(calibrate=None))
        assert result.report.hyperparameters.noise_variance > 1e-3


# Error bars


@pytest.mark.parametrize("table", ["kinds", pytest.param("curve", marks=pytest.mark.slow)])
def test_intervals_hold_what_they_say_of_new_rows(table: str) -> None:
    """Five tables of each, the mean coverage of 500 new rows: within four standard errors of a share of so many rows
    as the tables have together."""
    covered = []
    for seed in range(5):
        random = np.random.default_rng([seed, 5])
        if table == "kinds":
            data, fresh = kinds(random.normal(size=24)), kinds(random.normal(size=501))
        else:
            data, fresh = curve(seed), curve(seed + 1000, rows=500)
        found = ModelPredictor(train(data, TrainSpec(seed=seed)).model).predict(fresh.inputs)
        row = []
        for level in LEVELS:
            lower, upper = found.interval(min(level, found.calibration.most_level))
            row.append(np.mean((lower <= fresh.targets) & (fresh.targets <= upper)))
        covered.append(row)
    for level, mean in zip(LEVELS, np.mean(covered, axis=0), strict=True):
        assert abs(mean - level) < 4.0 * np.sqrt(level * (1.0 - level) / (5 * 24))


def test_closed_form_is_taken_where_folds_would_be_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows chosen and enough of them for theta to stay: leave-one-out is what a fold for each row would be."""
    monkeypatch.setattr(core.train.fold_fits, "ROWS_FOR_EACH", 20)
    data, adaptation = curve(5, rows=80), Adaptation(rounds=1, steps=5)
    report = train(data, TrainSpec(adaptation=adaptation)).report
    assert report.basis_size == 80
    assert report.calibration.by == "leave-one-out"
    assert report.calibration.rows == 80
    folds = train(data, TrainSpec(adaptation=adaptation, calibrate=Calibrate.CROSS_FIT)).report.calibration
    assert folds.by == "cross-fitting"
    assert folds.noise_scale == pytest.approx(report.calibration.noise_scale, rel=0.05)


def test_a_start_without_adaptation_is_left_alone() -> None:
    start = hyperparameters([1.0], signal_variance=1.0, bias_variance=0.1, noise_variance=0.01)
    report = train(curve(4), TrainSpec(start=start, adaptation=None)).report
    assert report.basis_size == 30
    assert report.hyperparameters.noise_variance == 0.01


def test_a_report_of_few_rows_scores_each_by_the_errors_of_others() -> None:
    """A calibration that has seen an outlier holds it in every wide interval; one of the other rows does not."""
    random = np.random.default_rng(0)
    x = np.linspace(0.0, 3.0, 20)[:, None]
    y = x[:, 0] + 0.1 * random.normal(size=20)
    y[9] += 3.0
    found = train(Dataset(inputs=x, targets=y), TrainSpec(holdout=0.0)).report
    assert found.leave_one_out.rows == 20
    assert found.leave_one_out.coverage["0.95"] <= 0.95
