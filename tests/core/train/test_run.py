"""core/train/run.py: the published model is what its report says, learnt from the rows it says."""

import json
import tracemalloc
import warnings
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.special import ndtri

import core.selection.greedy
import core.selection.pool
import core.sparse.factors
import core.train.run_rows
import core.train.search
from core.arrays import FloatArray
from core.data import Dataset
from core.errors import InvalidSpecError
from core.hyperparameters import KernelFamily
from core.numeric.linalg import JITTERS
from core.predict.compact import CompactPosterior, served, stored_bytes
from core.predict.metrics import LEVELS
from core.predict.model import ModelPredictor
from core.predict.predictor import Predictor, moments
from core.sparse.likelihood import nlml
from core.sparse.posterior import SparsePosterior
from core.spec import (
    Adaptation,
    Approximation,
    Artefact,
    Calibrate,
    KernelChoice,
    Method,
    Noise,
    Precision,
    Refinement,
    TrainSpec,
)
from core.train.report import TrainResult
from core.train.run import train
from tests.core.problems import hyperparameters, oracle_params
from tests.core.runs import QUICK, START, assert_same_bits, table
from tests.dense.kernel import Sparse
from tests.dense.loo import leave_one_out
from tests.dense.posterior import predict as oracle_predict

pytestmark = pytest.mark.usefixtures("short_search")


def oracle_of(dataset: Dataset, result: TrainResult, spec: TrainSpec) -> Sparse:
    """The model that the report describes, standardized here again and rebuilt from nothing."""
    X = (dataset.inputs - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0)
    y = (dataset.targets - dataset.targets.mean()) / dataset.targets.std()
    params = oracle_params(result.report.hyperparameters, dataset.groups)
    Z = X[result.selection.indices]
    return Sparse(spec.approximation.value, params, X, y, Z, spec.power, JITTERS[0])


@pytest.mark.parametrize(
    ("method", "approximation"),
    [
        *((method, Approximation.PEP) for method in Method),
        *((Method.BATCH, other) for other in Approximation if other is not Approximation.PEP),
        (Method.DMAX, Approximation.FITC),
    ],
)
def test_published_model_is_the_one_the_report_describes(method: Method, approximation: Approximation) -> None:
    """Predictions in raw units and leave-one-out scores, from the reported theta and row numbers alone."""
    dataset = table()
    spec = TrainSpec(method=method, approximation=approximation, power=0.3, calibrate=None, **QUICK)
    result = train(dataset, spec)
    oracle = oracle_of(dataset, result, spec)
    unit, shift = dataset.targets.std(), dataset.targets.mean()
    new = table(50).inputs
    ours = moments(result.model.posterior, new)
    mean, variance = oracle_predict(oracle, (new - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0))
    np.testing.assert_allclose(ours.mean, shift + unit * mean, rtol=1e-7)
    np.testing.assert_allclose(ours.latent_variance, unit**2 * variance, rtol=1e-5)
    np.testing.assert_array_equal(result.model.posterior.basis, dataset.inputs[result.selection.indices])
    loo_mean, loo_variance = leave_one_out(oracle)
    squares = (dataset.targets - shift - unit * loo_mean) ** 2
    loo_variance *= unit**2
    scores = result.report.leave_one_out
    assert scores.rows == 90
    assert scores.nmse == pytest.approx(squares.mean() / unit**2, rel=1e-5)
    assert scores.rmse == pytest.approx(np.sqrt(squares.mean()), rel=1e-5)
    density = 0.5 * np.mean(squares / loo_variance + np.log(2 * np.pi * loo_variance))
    assert scores.nlpd == pytest.approx(density, rel=1e-5)
    for level in LEVELS:
        inside = np.mean(np.sqrt(squares / loo_variance) <= ndtri(0.5 + level / 2))
        assert scores.coverage[str(level)] == pytest.approx(inside, abs=1.5 / 90)
    assert result.report.basis_size == len(result.selection.indices) == 10
    assert result.report.rows == 90


@pytest.mark.parametrize(
    ("family", "method", "noise"),
    [
        (family, method, noises[(row + column) % 2])
        for noises in [(Noise.CONSTANT, Noise.INPUT_DEPENDENT)]
        for row, family in enumerate(family for family in KernelFamily if family is not KernelFamily.GAUSSIAN)
        for column, method in enumerate((Method.BATCH, Method.DMAX, Method.NLML))
    ],
)
def test_a_model_of_every_kernel_is_the_dense_one(family: KernelFamily, method: Method, noise: Noise) -> None:
    dataset = table(3)
    spec = TrainSpec(
        kernel=KernelChoice(family), method=method, noise=noise, power=0.3, precision=Precision.FLOAT32, **QUICK
    )
    result = train(dataset, spec)
    oracle = oracle_of(dataset, result, spec)
    assert oracle.params.family == result.report.to_json()["kernel"] == family.value
    unit, shift = dataset.targets.std(), dataset.targets.mean()
    new = table(50).inputs
    ours = moments(result.model.posterior, new)
    mean, variance = oracle_predict(oracle, (new - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0))
    np.testing.assert_allclose(ours.mean, shift + unit * mean, rtol=1e-7)
    np.testing.assert_allclose(ours.latent_variance, unit**2 * variance, rtol=1e-5)


def test_moved_basis_vectors_of_the_roughest_kernel() -> None:
    """Each begins on a row, at the kink; they leave it, and everything stays finite."""
    spec = TrainSpec(
        kernel=KernelChoice.MATERN12, approximation=Approximation.VFE, refinement=Refinement(steps=8), **QUICK
    )
    result = train(table(), spec)
    assert result.moved
    assert np.abs(result.model.posterior.basis - table().inputs[result.selection.indices]).max() > 0.0
    assert np.isfinite(result.report.leave_one_out.nlpd)


# What is kept


@pytest.mark.parametrize("approximation", list(Approximation))
def test_a_compact_model_keeps_the_error_bars(approximation: Approximation) -> None:
    """Error bars as they are served: calibrated, and with noise that varies where that was learnt."""
    dataset = table(4)
    spec = TrainSpec(approximation=approximation, artefact=Artefact.COMPACT, tolerance=0.02, **QUICK)
    result = train(dataset, spec)
    assert isinstance(result.stored, CompactPosterior)
    compact = ModelPredictor(replace(result.model, posterior=served(result.stored))).predict(dataset.inputs)
    full = ModelPredictor(result.model).predict(dataset.inputs)
    np.testing.assert_array_equal(compact.centre, full.centre)
    largest = np.abs(np.sqrt(compact.variance / full.variance) - 1.0).max()
    told = result.report.artefact
    assert told.largest_std_error == pytest.approx(largest, rel=1e-5, abs=1e-9)
    assert told.largest_std_error is not None
    assert told.bound is not None
    assert largest <= told.largest_std_error * (1 + 1e-9) <= told.bound
    assert (told.kind, told.bytes, told.tolerance) == ("compact", stored_bytes(result.stored), 0.02)
    assert told.directions == result.stored.directions.shape[1]
    assert told.bits == 16
    assert told.bytes < stored_bytes(result.model.posterior)
    assert json.loads(json.dumps(result.report.to_json()))["artefact"] == asdict(told)


def test_where_compact_would_not_be_smaller_the_full_model_is_kept() -> None:
    spec = TrainSpec(artefact=Artefact.COMPACT, tolerance=1e-10, **QUICK)
    result = train(table(), spec)
    assert isinstance(result.stored, SparsePosterior)
    assert not result.stored.mean_only
    assert result.report.artefact.kind == "full"
    assert any("stored in full: with error bars within 1e-10" in words for words in result.report.warnings)


def test_a_mean_alone_is_the_same_mean() -> None:
    dataset = table(5)
    result = train(dataset, TrainSpec(artefact=Artefact.MEAN, **QUICK))
    mean = served(result.stored)
    assert mean.mean_only
    assert result.report.artefact.kind == "mean"
    assert result.report.artefact.directions is None
    np.testing.assert_array_equal(
        Predictor(mean).mean(dataset.inputs), moments(result.model.posterior, dataset.inputs).mean
    )


# Choice and theta


def test_same_seed_same_bits_other_seed_other_rows() -> None:
    dataset = table(8)
    first = train(dataset, TrainSpec(**QUICK))
    assert_same_bits(train(dataset, TrainSpec(**QUICK)), first)
    other = train(dataset, TrainSpec(**QUICK, seed=1))
    assert other.selection.indices.tolist() != first.selection.indices.tolist()


def test_without_adaptation_the_start_is_kept_exactly() -> None:
    result = train(table(), TrainSpec(basis_size=10, adaptation=None, start=START))
    np.testing.assert_array_equal(result.report.hyperparameters.lengthscales, START.lengthscales)
    assert result.report.hyperparameters.noise_variance == START.noise_variance
    assert result.report.objectives == ()


@pytest.mark.parametrize("approximation", list(Approximation))
def test_adaptation_lowers_its_objective(approximation: Approximation) -> None:
    """Against its own start, on the same number of rows."""
    dataset = table(9, n=150)
    bad = hyperparameters([9.0, 9.0, 9.0], signal_variance=0.5, bias_variance=0.1, noise_variance=0.8)
    spec = TrainSpec(
        approximation=approximation, basis_size=20, start=bad, adaptation=Adaptation(rounds=3, steps=15), calibrate=None
    )
    adapted = train(dataset, spec).report
    kept = train(dataset, replace(spec, adaptation=None)).report
    assert adapted.objectives[-1] < adapted.objectives[0] + 1.0
    assert adapted.leave_one_out.nlpd < kept.leave_one_out.nlpd - 0.1
    assert adapted.hyperparameters.noise_variance < 0.4


@pytest.mark.parametrize("method", list(Method))
def test_smaller_basis_is_the_start_of_a_larger_one(method: Method) -> None:
    dataset = table(10)
    spec = TrainSpec(
        method=method,
        adaptation=None,
        start=START,
        candidates=8,
        cache_size=20,
        pool_size=60,
        basis_size=25,
        calibrate=None,
    )
    long = train(dataset, spec).selection.indices
    for size in (1, 9):
        np.testing.assert_array_equal(train(dataset, replace(spec, basis_size=size)).selection.indices, long[:size])


def test_order_of_rows_does_not_matter_where_nothing_is_drawn() -> None:
    """All rows in the pool and theta given: the same rows are chosen and the same numbers predicted."""
    dataset = table(11)
    order = np.random.default_rng(0).permutation(90)
    spec = TrainSpec(basis_size=15, pool_size=90, adaptation=None, start=START, holdout=0.0, calibrate=None)
    before, after = train(dataset, spec), train(dataset.take(order), spec)
    np.testing.assert_array_equal(order[after.selection.indices], before.selection.indices)
    new = table(50).inputs
    ours, expected = moments(after.model.posterior, new), moments(before.model.posterior, new)
    np.testing.assert_allclose(ours.mean, expected.mean, rtol=1e-10)
    np.testing.assert_allclose(ours.latent_variance, expected.latent_variance, rtol=1e-7)


def test_chunks_and_threads_change_only_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = table(12, n=150)
    spec = TrainSpec(basis_size=15, pool_size=90, adaptation=None, start=START, calibrate=Calibrate.LOO)
    new = table(50).inputs
    whole = moments(train(dataset, spec).model.posterior, new)
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    monkeypatch.setattr(core.sparse.factors, "KEPT_BYTES", 0)
    for workers in (1, 3):
        ours = train(dataset, spec, workers=workers)
        np.testing.assert_allclose(moments(ours.model.posterior, new).mean, whole.mean, rtol=1e-10)
        assert_same_bits(train(dataset, spec, workers=workers), ours)


@pytest.mark.parametrize("approximation", [pytest.param(Approximation.DTC, marks=pytest.mark.slow), Approximation.FITC])
def test_memory_is_bounded_by_blocks(approximation: Approximation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a (P, n) nor a (d, n) array, past the size where blocks are kept: what lets a million rows train."""
    monkeypatch.setattr(core.sparse.factors, "KEPT_BYTES", 0)
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1 << 16)  # half a megabyte
    monkeypatch.setattr(core.selection.pool, "POOL_BLOCK", 64)
    dataset = table(13, n=40_000)
    spec = TrainSpec(
        approximation=approximation,
        basis_size=60,
        pool_size=300,
        start=START,
        adaptation=Adaptation(rounds=1, steps=2),
        noise=Noise.CONSTANT,  # the second GP adds 14 MB of its own, the same for any number of rows
    )
    tracemalloc.start()
    train(dataset, spec)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    vector = 8 * len(dataset.targets)
    assert peak < 54 * vector  # 17 MB: copies of the table, left-out rows; (d, n) alone would be 60, (P, n) 300


def test_theta_is_found_on_some_rows_and_the_model_fitted_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = table(14, n=600)
    spec = TrainSpec(basis_size=20, calibrate=None, adaptation=Adaptation(rounds=2, steps=5), seed=3)
    whole = train(dataset, spec)
    monkeypatch.setattr(core.train.run_rows, "SEARCH_ROWS", 200)
    some = train(dataset, spec)
    assert abs(some.report.objectives[-1]) < 0.6 * abs(whole.report.objectives[-1])  # nats of 200 rows, not of 540
    assert some.report.leave_one_out.rows == whole.report.leave_one_out.rows == 600
    assert some.report.leave_one_out.nmse == pytest.approx(whole.report.leave_one_out.nmse, rel=0.3)
    assert max(some.selection.indices) > 400  # candidates come from all rows
    assert_same_bits(train(dataset, spec), some)


def test_a_large_table_is_fitted_on_all_rows_whatever_some_of_them_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = table(16, n=900)
    spec = TrainSpec(basis_size=20, pool_size=60, calibrate=None, adaptation=Adaptation(rounds=2, steps=5))
    whole = train(dataset, spec)
    compared: list[int] = []

    def remembered(factors: core.sparse.factors.Factors) -> float:
        compared.append(len(factors.rows))
        return nlml(factors)

    monkeypatch.setattr(core.train.run_rows, "SEARCH_ROWS", 200)
    monkeypatch.setattr(core.selection.greedy, "SUMMED_ROWS", 300)
    monkeypatch.setattr(core.train.search, "COMPARED_ROWS", 250)
    monkeypatch.setattr(core.train.search, "nlml", remembered)
    some = train(dataset, spec)
    assert set(compared) == {250}
    assert some.report.leave_one_out.rows == 900
    assert some.report.leave_one_out.nmse == pytest.approx(whole.report.leave_one_out.nmse, rel=0.3)
    assert_same_bits(train(dataset, spec, workers=1), some)


def test_rows_that_theta_is_found_on_need_targets_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = table(15, n=300)
    targets = np.zeros(300)
    targets[:3] = [1.0, 2.0, 3.0]
    monkeypatch.setattr(core.train.run_rows, "SEARCH_ROWS", 2)
    spec = TrainSpec(basis_size=5, calibrate=None, holdout=0.0, adaptation=Adaptation(rounds=1, steps=2))
    found = train(Dataset(inputs=dataset.inputs, targets=targets, groups=dataset.groups), spec)
    assert found.report.rows == 300


@pytest.mark.parametrize("number", [1, 2, 4])
def test_start_needs_one_lengthscale_for_each_group(number: int) -> None:
    start = hyperparameters([1.0] * number, signal_variance=1.0, bias_variance=0.1, noise_variance=0.1)
    with pytest.raises(InvalidSpecError, match=f"expected 3.*got {number}") as caught:
        train(table(), TrainSpec(start=start))
    assert caught.value.field == "hyperparameters.lengthscales"


def test_auto_size_is_at_most_its_limit() -> None:
    result = train(table(), TrainSpec(max_basis_size=17, adaptation=Adaptation(rounds=1, steps=3)))
    assert 1 <= len(result.selection.indices) <= 17


def test_categories_share_a_lengthscale_and_matter() -> None:
    """Three levels with their own offsets, next to a number: found, and no level told from another by its order."""
    rng = np.random.default_rng(0)
    level, x = rng.integers(0, 3, size=400), rng.normal(size=400)
    block = np.eye(3)[level]
    y = np.array([0.0, 5.0, -3.0])[level] + np.sin(2 * x) + 0.1 * rng.normal(size=400)
    dataset = Dataset(
        inputs=np.column_stack([x, block]),
        targets=y,
        groups=np.array([0, 1, 1, 1]),
        indicator=np.array([False, True, True, True]),
    )
    result = train(dataset, TrainSpec(basis_size=40, calibrate=None))
    assert result.report.holdout is not None
    assert result.report.holdout.nmse is not None
    assert result.report.holdout.nmse < 0.01
    assert len(result.report.hyperparameters.lengthscales) == 2
    np.testing.assert_array_equal(result.model.posterior.input_scale[1:], 1.0)


def test_model_that_explains_nothing_says_so() -> None:
    rng = np.random.default_rng(0)
    noise = Dataset(inputs=rng.normal(size=(300, 3)), targets=rng.normal(size=300))
    spec = TrainSpec(basis_size=15, calibrate=None)
    assert any("explains almost nothing" in text for text in train(noise, spec).report.warnings)
    assert not any("explains almost nothing" in text for text in train(table(n=300), spec).report.warnings)


def test_training_changes_neither_its_data_nor_the_global_state() -> None:
    dataset = table()
    inputs: FloatArray = dataset.inputs.copy()
    state = np.random.get_state()[1].copy()  # type: ignore[index]  # the legacy tuple
    before = warnings.filters[:]
    train(dataset, TrainSpec(**QUICK))
    np.testing.assert_array_equal(dataset.inputs, inputs)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # type: ignore[index]  # as above
    assert warnings.filters[:] == before
