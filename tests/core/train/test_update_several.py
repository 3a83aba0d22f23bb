"""core/train/update_several.py: each target of a model with new rows is a dense refit at the same theta and basis."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.errors import InvalidDataError
from core.predict.model import ModelPredictor
from core.process.rows import Rows
from core.sparse.factors import factorise
from core.sparse.scheme import scheme
from core.spec import Approximation, KernelChoice, MeanRows, Noise, TrainSpec, Variance
from core.train.report import TrainResult
from core.train.several import TargetTable, train_several
from core.train.state import NewRows
from core.train.update import Update
from core.train.update_several import TargetUpdate, update_several
from core.train.warm import WarmStart
from tests.core.problems import hyperparameters, oracle_params
from tests.dense.kernel import Sparse
from tests.dense.posterior import predict

pytestmark = pytest.mark.slow

ROWS, NEW = 80, 30
SPEC = TrainSpec(
    basis_size=12,
    adaptation=None,
    noise=Noise.CONSTANT,
    kernel=KernelChoice.GAUSSIAN,
    mean_rows=MeanRows.BASIS,
    variance=Variance.BASIS,
)

SCALES = [[0.9, 1.3], [0.8, 1.1], [1.2, 0.5]]
"""Lengthscales of each target, of which the first two have the first ones where they share."""


def table() -> tuple[FloatArray, list[FloatArray]]:
    """Two targets of one smoothness and one of another, which some rows lack."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.0, 1.0, (ROWS + NEW, 2))
    noise = 0.1 * random.standard_normal((3, len(X)))
    rough = np.sin(9.0 * X[:, 1]) + noise[2]
    rough[[3, 4, ROWS + 1, ROWS + 7]] = np.nan
    return X, [np.sin(2.0 * X[:, 0]) + noise[0], 5.0 * np.cos(2.0 * X[:, 0]) + noise[1], rough]


def there(y: FloatArray, rows: IntArray) -> IntArray:
    return rows[~np.isnan(y[rows])]


def trained(approximation: Approximation, share: bool = True) -> list[TrainResult]:
    X, targets = table()
    places = [there(y, np.arange(ROWS)) for y in targets]
    thetas = [hyperparameters(scales, signal_variance=1.4, bias_variance=0.3, noise_variance=0.07) for scales in SCALES]
    tables = [
        TargetTable(
            dataset=Dataset(inputs=X[own], targets=y[own]),
            rows=own,
            warm=WarmStart.of(theta, theta.lengthscales, np.empty((0, 2))),
        )
        for own, y, theta in zip(places, targets, thetas, strict=True)
    ]
    return list(train_several(tables, replace(SPEC, approximation=approximation), share=share).results)


def begun(results: Sequence[TrainResult], rows: IntArray, approximation: Approximation) -> list[TargetUpdate]:
    X, targets = table()
    found = []
    for result, y in zip(results, targets, strict=True):
        own, before = there(y, rows), there(y, np.arange(ROWS))
        assert result.state is not None
        found.append(
            TargetUpdate(
                model=result.model,
                state=result.state.numbered(before),
                new=NewRows(inputs=X[own], targets=y[own], numbers=own),
                spec=replace(SPEC, approximation=approximation),
            )
        )
    return found


def assert_is_a_refit(found: Update, y: FloatArray, places: IntArray, approximation: Approximation) -> None:
    """Assert mean and latent variance, uncalibrated, to 1e-8 of the target's spread."""
    X, _ = table()
    served = found.model.posterior
    unit, theta, groups = served.standardization, served.hyperparameters, served.groups.astype(np.int64)
    rows, Z = Rows(X=unit.inputs(X[places]), y=unit.targets(y[places]), groups=groups), unit.inputs(served.basis)
    jitter = factorise(rows, Z, theta, scheme(approximation, SPEC.power)).jitter
    oracle = Sparse(approximation.value, oracle_params(theta, groups), rows.X, rows.y, Z, SPEC.power, jitter)
    asked = np.random.default_rng(5).uniform(-1.2, 1.2, (40, 2))
    mean, variance = predict(oracle, unit.inputs(asked))
    moments = ModelPredictor(found.model).predictor.moments(asked)
    np.testing.assert_allclose(unit.targets(moments.mean), mean, atol=1e-8)
    np.testing.assert_allclose(moments.latent_variance / unit.target_scale**2, variance, atol=1e-8)


@pytest.mark.parametrize("approximation", [Approximation.DTC, Approximation.FITC, Approximation.PEP])
@pytest.mark.parametrize("share", [True, False])
def test_each_target_is_a_refit_of_its_rows(approximation: Approximation, share: bool) -> None:
    """With thetas in common and of their own; rows that lack a target are not among its rows."""
    _, targets = table()
    results = trained(approximation, share)
    first, second = (result.model.posterior for result in results[:2])
    assert np.array_equal(first.lengthscales, second.lengthscales) is share
    gone, new = np.array([0, 3, 17, 59]), np.arange(ROWS, ROWS + NEW)  # the rough one lacks row 3
    found = update_several(begun(results, new, approximation), forget=gone)
    everything = np.setdiff1d(np.arange(ROWS + NEW), gone)
    for one, y in zip(found, targets, strict=True):
        own = there(y, everything)
        np.testing.assert_array_equal(one.state.numbers, own)
        assert one.how == "sums"
        assert_is_a_refit(one, y, own, approximation)


def test_steps_end_where_all_rows_at_once_do() -> None:
    """Row by row, some without the last target, and forgotten along the way."""
    X, targets = table()
    step = begun(trained(Approximation.PEP), np.arange(ROWS, ROWS + 1), Approximation.PEP)
    for number in range(ROWS, ROWS + NEW):
        rows = np.array([number])
        here = [
            replace(one, new=NewRows(inputs=X[own], targets=y[own], numbers=own))
            for one, y in zip(step, targets, strict=True)
            for own in (there(y, rows),)
        ]
        found = update_several(here, forget=np.array([5, ROWS + 2]) if number == ROWS + 9 else None)
        step = [
            replace(one, model=updated.model, state=updated.state) for one, updated in zip(here, found, strict=True)
        ]
    left = np.setdiff1d(np.arange(ROWS + NEW), [5, ROWS + 2])
    for one, y in zip(found, targets, strict=True):
        assert_is_a_refit(one, y, there(y, left), Approximation.PEP)


def test_a_target_without_rows_stays_and_one_may_only_forget() -> None:
    _, targets = table()
    lacking = np.array([ROWS + 1, ROWS + 7])
    results = trained(Approximation.PEP)
    before = begun(results, lacking, Approximation.PEP)
    same = update_several(before)[2]
    assert (same.how, same.model, same.state) == ("unchanged", before[2].model, before[2].state)
    found = update_several(begun(results, lacking, Approximation.PEP), forget=np.array([10]))[2]
    assert found.drift.scores is None
    assert_is_a_refit(found, targets[2], there(targets[2], np.setdiff1d(np.arange(ROWS), [10])), Approximation.PEP)
    only_others = update_several(begun(results, lacking, Approximation.PEP), forget=np.array([3]))
    assert [one.how for one in only_others] == ["sums", "sums", "unchanged"]


def test_rows_that_no_target_has_cannot_be_forgotten() -> None:
    targets = begun(trained(Approximation.PEP), np.arange(ROWS, ROWS + 5), Approximation.PEP)
    with pytest.raises(InvalidDataError, match="forget: row 200 is not among the 80 rows of the model's targets"):
        update_several(targets, forget=np.array([3, 200]))
    with pytest.raises(InvalidDataError, match="every row once"):
        update_several(targets, forget=np.array([1, 1]))


def test_each_target_gets_basis_vectors_of_its_own_rows() -> None:
    _, targets = table()
    told: list[float] = []
    new = np.arange(ROWS, ROWS + NEW)
    found = update_several(begun(trained(Approximation.PEP), new, Approximation.PEP), extra_basis=3, tell=told.append)
    for one, y in zip(found, targets, strict=True):
        assert 0 < len(one.basis_numbers) <= 3
        assert set(one.basis_numbers.tolist()) <= set(there(y, new).tolist())
        assert_is_a_refit(one, y, there(y, np.arange(ROWS + NEW)), Approximation.PEP)
    assert told == sorted(told)
    assert told[-1] == 1.0
