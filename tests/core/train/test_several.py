"""Several targets: together where they agree, each as if it were trained alone where they do not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.errors import InvalidSpecError
from core.hyperparameters import Hyperparameters
from core.predict.model import Model, ModelPredictor
from core.process.exact import exact_nlml_and_gradient
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.pool import pursue
from core.sparse.factors import factorise
from core.sparse.leave_one_out import leave_one_out, leave_one_out_of_all
from core.sparse.likelihood import nlml, nlml_and_gradient
from core.sparse.scheme import scheme
from core.spec import Adaptation, Approximation, Effort, Gain, MeanRows, Noise, TargetTransform, TrainSpec, Variance
from core.train.progress import Checkpoint, Progress
from core.train.report import TrainResult
from core.train.run import train
from core.train.several import SeveralResult, TargetTable, train_several
from core.train.state import NewRows
from core.train.update import update
from core.train.warm import WarmStart

pytestmark = pytest.mark.usefixtures("short_search")

QUICK = TrainSpec(basis_size=25, adaptation=Adaptation(rounds=1, steps=8), noise=Noise.CONSTANT, pool_size=120)
COMPLETE = TrainSpec(adaptation=Adaptation(rounds=1, steps=8), noise=Noise.CONSTANT)


def inputs_of(rows: int) -> FloatArray:
    return np.random.default_rng(0).uniform(-1.0, 1.0, (rows, 2))


def targets_of(X: FloatArray) -> list[FloatArray]:
    noise = np.random.default_rng(1).standard_normal((2, len(X)))
    first = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.2 * noise[0]
    return [first, 10.0 * first, np.cos(3.0 * X[:, 0]) * X[:, 1] + 0.1 * noise[1]]


def tables_of(X: FloatArray, targets: Sequence[FloatArray]) -> list[TargetTable]:
    everything = np.arange(len(X))
    return [TargetTable(dataset=Dataset(inputs=X, targets=y), rows=everything) for y in targets]


def several(X: FloatArray, targets: Sequence[FloatArray], spec: TrainSpec, share: bool | None = True) -> SeveralResult:
    return train_several(tables_of(X, targets), spec, share=share)


def standardized(several: bool = True) -> Rows:
    X = inputs_of(120)
    Y = np.column_stack(targets_of(X)[::2])
    Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    return Rows(X=X, y=Y[:, 0], groups=np.arange(2), others=Y[:, 1:] if several else np.empty((0, 0)))


THETA = Hyperparameters(lengthscales=np.array([0.7, 1.1]), signal_variance=0.8, bias_variance=0.05, noise_variance=0.07)


@pytest.mark.parametrize("approximation", [Approximation.VFE, Approximation.PEP, Approximation.FITC])
def test_the_sparse_objective_is_the_mean_of_those_of_each(approximation: Approximation) -> None:
    rows = standardized()
    objective = partial(nlml_and_gradient, Z=rows.X[:20], hyperparameters=THETA, scheme=scheme(approximation, 0.7))
    value, gradient = objective(rows)
    each = [objective(standardized(several=False)), objective(rows.of_other(0))]
    assert value == pytest.approx(np.mean([one[0] for one in each]), rel=1e-12)
    np.testing.assert_allclose(gradient, np.mean([one[1] for one in each], axis=0), rtol=1e-9, atol=1e-9)
    factors = factorise(rows, rows.X[:20], THETA, scheme(approximation, 0.7))
    assert nlml(factors) == pytest.approx(value, rel=1e-12)


def test_the_exact_objective_is_the_mean_of_those_of_each() -> None:
    rows = standardized()
    value, gradient = exact_nlml_and_gradient(rows, THETA)
    each = [exact_nlml_and_gradient(one, THETA) for one in (standardized(several=False), rows.of_other(0))]
    assert value == pytest.approx(np.mean([one[0] for one in each]), rel=1e-12)
    np.testing.assert_allclose(gradient, np.mean([one[1] for one in each], axis=0), rtol=1e-9)


def test_factors_and_leave_one_out_of_another_target_are_those_of_it_alone() -> None:
    rows, pep = standardized(), scheme(Approximation.PEP, 0.7)
    factors = factorise(rows, rows.X[:20], THETA, pep)
    alone = factorise(rows.of_other(0), rows.X[:20], THETA, pep)
    np.testing.assert_allclose(factors.of_other(0).alpha, alone.alpha, rtol=1e-10)
    mean, variance = leave_one_out(alone)
    found = leave_one_out_of_all(factors)
    np.testing.assert_allclose(rows.others[:, 0] - found.other_errors[:, 0], mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-12)


@pytest.mark.parametrize("gain", [Gain.SB, Gain.VFE])
def test_a_basis_for_a_target_and_its_double_is_that_of_the_target(gain: Gain) -> None:
    rows = standardized(several=False)
    twice = replace(rows, others=np.column_stack((rows.y, -rows.y)))
    alone, together = (pursue(each, np.arange(100), THETA, 15, gain) for each in (rows, twice))
    np.testing.assert_array_equal(alone.indices, together.indices)
    np.testing.assert_allclose(alone.gains, together.gains, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [
        QUICK,
        COMPLETE,
        replace(QUICK, mean_rows=MeanRows.ALL),
        replace(QUICK, mean_rows=100),
        TrainSpec(
            basis_size=25, effort=Effort.NORMAL, mean_rows=MeanRows.ALL, adaptation=Adaptation(rounds=1, steps=5)
        ),
        TrainSpec(basis_size=25, effort=Effort.BEST, mean_rows=MeanRows.ALL, adaptation=Adaptation(rounds=1, steps=5)),
    ],
    ids=["basis", "complete", "all rows", "some rows", "full process", "best"],
)
def test_ten_times_the_target_has_ten_times_mean_and_error_bar(spec: TrainSpec) -> None:
    X = inputs_of(250)
    first, tenfold, other = (result.model for result in several(X, targets_of(X), spec).results)
    new = np.random.default_rng(2).uniform(-1.0, 1.0, (20, 2))
    (mean, std), (ten_mean, ten_std), (_, other_std) = (moments(model, new) for model in (first, tenfold, other))
    np.testing.assert_allclose(ten_mean, 10.0 * mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ten_std, 10.0 * std, rtol=1e-7)
    assert np.all(np.abs(other_std - std) > 1e-3)  # its own noise and calibration


def moments(model: Model, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    found = ModelPredictor(model).predict(inputs)
    return found.moments()[0], found.std()


def test_the_mean_of_each_target_is_that_of_a_dense_process_at_the_common_theta() -> None:
    X = inputs_of(150)
    targets = targets_of(X)[::2]
    new = np.random.default_rng(2).uniform(-1.0, 1.0, (20, 2))
    for y, result in zip(targets, several(X, targets, COMPLETE).results, strict=True):
        np.testing.assert_allclose(moments(result.model, new)[0], dense_mean(result, X, y, new), rtol=1e-5, atol=1e-6)


def dense_mean(result: TrainResult, X: FloatArray, y: FloatArray, new: FloatArray) -> FloatArray:
    """The full GP's mean by a solve with the whole matrix."""
    posterior = result.model.posterior
    unit, theta = posterior.standardization, posterior.hyperparameters
    kernel = Kernel.of(theta, np.arange(X.shape[1]))
    K = kernel.cross(unit.inputs(X), unit.inputs(X)) + theta.noise_variance * np.eye(len(X))
    k = kernel.cross(unit.inputs(X), unit.inputs(new))
    return np.asarray(k.T @ np.linalg.solve(K, unit.targets(y)) * unit.target_scale + unit.target_shift)


def test_targets_that_share_have_one_theta_and_one_basis() -> None:
    X = inputs_of(200)
    first, second = several(X, targets_of(X)[::2], QUICK).results
    np.testing.assert_array_equal(first.selection.indices, second.selection.indices)
    np.testing.assert_array_equal(first.model.posterior.lengthscales, second.model.posterior.lengthscales)
    assert first.model.calibration.noise_scale != second.model.calibration.noise_scale


def test_without_sharing_each_target_is_trained_as_if_alone() -> None:
    X = inputs_of(120)
    targets = targets_of(X)[::2]
    found = several(X, targets, QUICK, share=False)
    for y, result in zip(targets, found.results, strict=True):
        alone = train(Dataset(inputs=X, targets=y), QUICK)
        np.testing.assert_array_equal(result.model.posterior.alpha, alone.model.posterior.alpha)
    assert [each.theta_with for each in found.sharing] == [(0,), (1,)]


def test_targets_of_different_columns_keep_a_theta_of_their_own() -> None:
    X = inputs_of(400)
    noise = np.random.default_rng(3).standard_normal((3, 400))
    wave = np.sin(8.0 * X[:, 0]) + 0.1 * noise[0]
    found = several(X, [wave, np.sin(8.0 * X[:, 1]) + 0.1 * noise[1], 2.0 * wave], QUICK, share=None)
    assert found.sharing[1].theta_with == (1,)
    assert found.sharing[0].theta_with == found.sharing[2].theta_with == (0, 2)
    assert "nats a row" in found.sharing[1].reason
    _, second, _ = (result.model.posterior.lengthscales for result in found.results)
    assert second[0] > 3.0 * second[1]


def test_a_target_with_rows_of_its_own_keeps_them() -> None:
    X = inputs_of(160)
    first, _, third = targets_of(X)
    tables = tables_of(X, [first, 2.0 * first, third])
    rows = np.arange(20, 160)
    tables[2] = TargetTable(dataset=Dataset(inputs=X[rows], targets=third[rows]), rows=rows)
    found = train_several(tables, QUICK)
    assert [result.report.rows for result in found.results] == [160, 160, 140]
    assert found.sharing[2].theta_with == (2,)
    assert "same rows" in found.sharing[2].reason
    alone = train(tables[2].dataset, QUICK)
    np.testing.assert_array_equal(found.results[2].model.posterior.alpha, alone.model.posterior.alpha)
    assert np.isfinite(found.correlation).all()


def test_a_target_that_is_noise_is_a_constant_of_its_own() -> None:
    X = inputs_of(150)
    first = targets_of(X)[0]
    noise = np.random.default_rng(5).standard_normal(150)
    events: list[Progress | Checkpoint] = []
    tables = tables_of(X, [first, noise, 3.0 * first])
    found = train_several(tables, QUICK, share=True, listen=events.append)
    shares = [event.fraction for event in events if isinstance(event, Progress)]
    assert shares == sorted(shares)
    assert found.sharing[1].theta_with == (1,)
    assert found.sharing[0].theta_with == (0, 2)
    assert any("constant" in warning for warning in found.results[1].report.warnings)
    np.testing.assert_array_equal(
        found.results[1].model.posterior.alpha, train(Dataset(inputs=X, targets=noise), QUICK).model.posterior.alpha
    )


def test_errors_with_a_common_cause_are_correlated() -> None:
    X = inputs_of(300)
    common, own, other = 0.3 * np.random.default_rng(6).standard_normal((3, 300))
    targets = [np.sin(3.0 * X[:, 0]) + common, X[:, 1] - 2.0 * common + own, X[:, 0] + other]
    correlation = several(X, targets, QUICK).correlation
    assert correlation[0, 1] == pytest.approx(-2.0 / np.sqrt(5.0), abs=0.06)
    assert abs(correlation[0, 2]) < 0.15
    np.testing.assert_array_equal(correlation, correlation.T)


def test_progress_never_falls_and_a_run_goes_on_from_its_checkpoint() -> None:
    X = inputs_of(150)
    tables = tables_of(X, targets_of(X)[::2])
    events: list[Progress | Checkpoint] = []
    whole = train_several(tables, QUICK, share=True, listen=events.append)
    shares = [event.fraction for event in events if isinstance(event, Progress)]
    assert shares == sorted(shares)
    last = [event for event in events if isinstance(event, Checkpoint)][-1]
    resumed = train_several(tables, QUICK, share=True, resume=last)
    for one, two in zip(whole.results, resumed.results, strict=True):
        np.testing.assert_array_equal(one.model.posterior.alpha, two.model.posterior.alpha)


@pytest.mark.slow
def test_sharing_is_decided_on_targets_as_they_are_learnt() -> None:
    """Log-normal targets of one function share theta in logarithms, which is how they are learnt; as they are, the
    large values of one are another function."""
    X = inputs_of(900)
    noise = 0.1 * np.random.default_rng(4).standard_normal((2, 900))
    function = np.sin(3.0 * X[:, 0]) + X[:, 1]
    targets = [np.exp(0.3 * function + noise[0]), np.exp(2.0 * function + noise[1])]
    logs = several(X, targets, replace(QUICK, target_transform=TargetTransform.LOG), share=None)
    assert [each.theta_with for each in logs.sharing] == [(0, 1), (0, 1)]
    plain = several(X, targets, QUICK, share=None)
    assert [each.theta_with for each in plain.sharing] == [(0,), (1,)]


def test_sharing_of_full_processes_is_decided_too() -> None:
    """What only a full process may have, which a quick effort may not, is no hindrance."""
    X = inputs_of(60)
    spec = TrainSpec(
        effort=Effort.NORMAL,
        mean_rows=MeanRows.AUTO,
        variance=Variance.NEAR,
        target_transform=TargetTransform.AUTO,
        noise=Noise.CONSTANT,
        adaptation=QUICK.adaptation,
        max_basis_size=12,
    )
    found = several(X, targets_of(X)[::2], spec, share=None)
    assert all(result.report.artefact.variance is Variance.NEAR for result in found.results)


def test_the_state_of_a_shared_target_is_its_own() -> None:
    """Any of several targets can be updated: nothing of the others is in its state."""
    X = inputs_of(150)
    spec = QUICK
    for target, result in zip(targets_of(X), several(X, targets_of(X), spec).results, strict=True):
        assert result.state is not None
        assert result.state.left_out is not None
        assert not result.state.left_out.others.size
        fresh = NewRows(inputs=X[:10] + 0.01, targets=target[:10], numbers=150 + np.arange(10))
        assert update(result.model, result.state, fresh, spec).recalibrated


def test_what_cannot_be_shared_is_refused_by_name() -> None:
    X = inputs_of(60)
    wrong = replace(QUICK, calibrate=None)
    with pytest.raises(InvalidSpecError, match=r"share: .* not with calibrate off"):
        several(X, targets_of(X), wrong)
    assert len(several(X, targets_of(X)[:2], wrong, share=None).results) == 2


def test_targets_begin_at_other_models() -> None:
    """Those that share at the theta of the first of them, others at their own; basis vectors that are rows are kept."""
    X = inputs_of(150)
    targets = targets_of(X)
    fixed = replace(QUICK, adaptation=None)
    theta = Hyperparameters(
        lengthscales=np.array([0.9, 2.5]), signal_variance=1.3, bias_variance=0.2, noise_variance=0.05
    )
    other = replace(theta, lengthscales=np.array([0.6, 1.1]))
    warm = [WarmStart.of(one, one.lengthscales, X[:25]) for one in (theta, theta, other)]
    tables = [replace(table, warm=one) for table, one in zip(tables_of(X, targets), warm, strict=True)]
    together = train_several(tables[:2], fixed, share=True).results
    alone = train_several(tables, fixed, share=False).results
    for result, expected in zip((*together, *alone), (theta, theta, theta, theta, other), strict=True):
        np.testing.assert_allclose(result.report.hyperparameters.lengthscales, expected.lengthscales, rtol=1e-12)
    by_itself = train(tables[2].dataset, fixed, warm=warm[2])
    np.testing.assert_array_equal(alone[2].model.posterior.basis, by_itself.model.posterior.basis)
    begun = train(tables[0].dataset, replace(fixed, pool_size=26), warm=warm[0])
    kept = train_several(tables[:2], replace(fixed, pool_size=26), share=True).results[0]
    np.testing.assert_array_equal(kept.model.posterior.basis, begun.model.posterior.basis)
    np.testing.assert_allclose(kept.model.posterior.alpha, begun.model.posterior.alpha, rtol=1e-6, atol=1e-9)
