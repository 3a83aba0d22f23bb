"""core/train/update.py and core/train/state.py: a model with new rows is a dense refit at the same theta and basis."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.arrays import FloatArray, IntArray
from core.data import Dataset, standardization
from core.errors import InvalidDataError
from core.mean.full import full_mean
from core.predict.calibration import LeftOut, fit_calibration
from core.predict.model import Model, ModelPredictor
from core.predict.transforms import Transform
from core.process.rows import Rows
from core.sparse.factors import factorise
from core.sparse.posterior import posterior
from core.sparse.scheme import scheme
from core.spec import Adaptation, Approximation, Effort, KernelChoice, MeanRows, TargetTransform, TrainSpec, Variance
from core.train.run import train
from core.train.state import NewRows, TrainingState
from core.train.update import Update, update
from tests.core.predict.test_predictor import BASIS, HP
from tests.core.problems import POWER, oracle_params
from tests.core.runs import QUICK, table
from tests.dense.kernel import Sparse
from tests.dense.mean import conditional_variance, full_weights, nearest
from tests.dense.posterior import predict

EVERY = list(Approximation)
ROWS = 60


def spec_of(approximation: Approximation, **more: Any) -> TrainSpec:
    return TrainSpec(approximation=approximation, power=POWER, **more)


def start(dataset: Dataset, approximation: Approximation) -> tuple[Model, TrainingState, FloatArray]:
    """A sparse model of the first ROWS rows with its state, and the errors that its calibration comes from."""
    first = dataset.take(np.arange(ROWS))
    units = standardization(first)
    rows = Rows(X=units.inputs(first.inputs), y=units.targets(first.targets), groups=first.groups)
    factors = factorise(rows, rows.X[BASIS], HP, scheme(approximation, POWER))
    served = posterior(factors, first.inputs[BASIS], first.groups, units)
    error = np.random.default_rng(3).normal(size=ROWS)
    left_out = LeftOut(
        places=np.arange(ROWS),
        error=error,
        latent_variance=np.full(ROWS, 0.2),
        noise_variance=np.full(ROWS, 0.07),
        far_variance=np.full(ROWS, 1.5),
    )
    model = Model(posterior=served, calibration=fit_calibration(left_out))
    return model, TrainingState.of(first.inputs, first.targets, factors, left_out), error


def near_spec() -> TrainSpec:
    return TrainSpec(
        kernel=KernelChoice.GAUSSIAN,
        max_basis_size=20,
        variance=Variance.NEAR,
        effort=Effort.NORMAL,
        mean_rows=MeanRows.AUTO,
        adaptation=Adaptation(rounds=1, steps=3),
    )


def rows_of(dataset: Dataset, places: IntArray) -> NewRows:
    return NewRows(inputs=dataset.inputs[places], targets=dataset.targets[places], numbers=places)


def refit(model: Model, dataset: Dataset, places: IntArray, approximation: Approximation, basis: FloatArray) -> Sparse:
    """The dense model of these rows, with the units, theta and basis vectors of another."""
    unit = model.posterior.standardization
    X, y = unit.inputs(dataset.inputs[places]), unit.targets(dataset.targets[places])
    Z = unit.inputs(basis)
    jitter = factorise(Rows(X=X, y=y, groups=dataset.groups), Z, HP, scheme(approximation, POWER)).jitter
    return Sparse(approximation.value, oracle_params(HP, dataset.groups), X, y, Z, POWER, jitter)


def assert_predicts(found: Update, oracle: Sparse, inputs: FloatArray) -> None:
    """Assert mean and latent variance, uncalibrated, to 1e-8 of the target's spread."""
    unit = found.model.posterior.standardization
    mean, variance = predict(oracle, unit.inputs(inputs))
    moments = ModelPredictor(found.model).predictor.moments(inputs)
    np.testing.assert_allclose(unit.targets(moments.mean), mean, atol=1e-8)
    np.testing.assert_allclose(moments.latent_variance / unit.target_scale**2, variance, atol=1e-8)


@pytest.mark.parametrize("approximation", EVERY)
def test_new_rows_are_a_refit_of_all(approximation: Approximation) -> None:
    """By sums alone: the rows before are not looked at."""
    dataset, places = table(0, n=90), np.arange(ROWS, 90)
    model, state, _ = start(dataset, approximation)
    blind = replace(state, inputs=state.inputs[:0], targets=state.targets[:0])
    for each in (state, blind):
        found = update(model, each, rows_of(dataset, places), spec_of(approximation))
        oracle = refit(model, dataset, np.arange(90), approximation, model.posterior.basis)
        assert_predicts(found, oracle, table(5).inputs)
        assert (found.how, len(found.basis_numbers)) == ("sums", 0)
        assert len(found.state.numbers) == 90
        assert (found.state.trained, found.state.added) == (ROWS, 30)
        assert found.state.has_rows is (each is state)


@pytest.mark.parametrize("approximation", EVERY)
def test_rows_are_forgotten(approximation: Approximation) -> None:
    """And an update of an update, one row at a time, ends where all rows at once do."""
    dataset = table(0, n=90)
    model, state, _ = start(dataset, approximation)
    gone = np.array([0, 3, 17, 59])  # two of them basis vectors, which stay
    left = np.setdiff1d(np.arange(90), gone)
    oracle = refit(model, dataset, left, approximation, model.posterior.basis)
    spec = spec_of(approximation)
    once = update(model, state, rows_of(dataset, np.arange(ROWS, 90)), spec, forget=gone)
    assert_predicts(once, oracle, table(5).inputs)
    np.testing.assert_array_equal(once.state.numbers, left)
    np.testing.assert_array_equal(once.state.inputs, dataset.inputs[left])
    step = update(model, state, rows_of(dataset, np.arange(ROWS, 61)), spec, forget=gone[:1])
    for number in range(61, 90):
        forget = gone[1:] if number == 70 else None
        step = update(step.model, step.state, rows_of(dataset, np.array([number])), spec, forget=forget)
    assert_predicts(step, oracle, table(5).inputs)
    later = update(once.model, once.state, rows_of(dataset, np.array([0])), spec, forget=np.array([75]))
    assert 75 not in later.state.numbers


@pytest.mark.parametrize("approximation", EVERY)
def test_rows_are_forgotten_without_new_ones(approximation: Approximation) -> None:
    dataset = table(0, n=90)
    model, state, _ = start(dataset, approximation)
    gone, nothing = np.array([0, 3, 17, 59]), np.empty(0, np.int64)
    found = update(model, state, rows_of(dataset, nothing), spec_of(approximation), forget=gone)
    oracle = refit(model, dataset, np.setdiff1d(np.arange(ROWS), gone), approximation, model.posterior.basis)
    assert_predicts(found, oracle, table(5).inputs)
    assert (found.drift.scores, found.drift.far_rows, found.drift.reasons) == (None, 0, ())
    assert found.state.left_out is not None
    np.testing.assert_array_equal(found.state.left_out.places, np.arange(ROWS - 4))
    with pytest.raises(InvalidDataError, match="no rows to learn and none to forget"):
        update(model, state, rows_of(dataset, nothing), spec_of(approximation))


@pytest.mark.parametrize("approximation", [Approximation.DTC, Approximation.FITC, Approximation.PEP])
def test_new_rows_become_basis_vectors(approximation: Approximation) -> None:
    """Those that the basis explains least, greedily; the rest is a refit with them."""
    dataset, places = table(0, n=90), np.arange(ROWS, 90)
    model, state, _ = start(dataset, approximation)
    found = update(model, state, rows_of(dataset, places), spec_of(approximation), extra_basis=4)
    basis = np.concatenate((model.posterior.basis, dataset.inputs[found.basis_numbers]))
    np.testing.assert_array_equal(found.model.posterior.basis, basis)
    assert found.how == "basis"
    oracle = refit(model, dataset, np.arange(90), approximation, basis)
    assert_predicts(found, oracle, table(5).inputs)
    X = model.posterior.standardization.inputs(dataset.inputs)
    Z = oracle.Z[: len(BASIS)]
    for number in found.basis_numbers:
        left = [prior_variance(oracle, Z, X[place]) for place in places]
        assert prior_variance(oracle, Z, X[number]) == pytest.approx(max(left), rel=1e-5)
        Z = np.concatenate((Z, X[number : number + 1]))


def prior_variance(oracle: Sparse, Z: FloatArray, x: FloatArray) -> float:
    return conditional_variance(oracle.params, Z, np.full(len(Z), oracle.jitter * 1.7), x)


def test_the_calibration_has_the_new_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new row as the model predicted it before; without the errors of rows that are forgotten."""
    dataset, places = table(0, n=90), np.arange(ROWS, 90)
    model, state, error = start(dataset, Approximation.FITC)
    new = rows_of(dataset, places)
    found = update(model, state, new, spec_of(Approximation.FITC), forget=np.arange(10))
    left_out = found.state.left_out
    assert left_out is not None
    np.testing.assert_array_equal(left_out.places, np.arange(80))
    moments = ModelPredictor(model).predictor.moments(new.inputs)
    unit = model.posterior.target_scale
    np.testing.assert_allclose(left_out.error[:50], error[10:])
    np.testing.assert_allclose(left_out.error[50:], (new.targets - moments.mean) / unit, rtol=1e-9)
    np.testing.assert_allclose(left_out.latent_variance[50:], moments.latent_variance / unit**2, rtol=1e-9)
    assert found.model.calibration.to_json() == fit_calibration(left_out).to_json()
    assert found.model.calibration.rows == 80
    bare = update(model, replace(state, left_out=None), new, spec_of(Approximation.FITC))
    assert not bare.recalibrated
    assert bare.model.calibration is model.calibration
    monkeypatch.setattr("core.train.state.MOST_LEFT_OUT", 40)
    few = update(model, state, new, spec_of(Approximation.FITC)).state.left_out
    assert few is not None
    assert len(few.places) == 40


def test_a_full_process_is_solved_again() -> None:
    """Mean of all rows at the same theta, with the noise it settles on; variances from the nearest of all rows."""
    dataset, places = table(2, n=90), np.arange(ROWS, 90)
    spec = near_spec()
    trained = train(dataset.take(np.arange(ROWS)), spec)
    assert trained.state is not None
    found = update(trained.model, trained.state, rows_of(dataset, places), spec, forget=np.array([4]))
    model, unit, left = found.model, trained.model.posterior.standardization, np.setdiff1d(np.arange(90), [4])
    assert (found.how, model.mean_rows) == ("full", 89)
    assert model.near is not None
    np.testing.assert_array_equal(model.posterior.basis, dataset.inputs[left])
    params = oracle_params(trained.model.posterior.hyperparameters, dataset.groups)
    X, y = unit.inputs(dataset.inputs[left]), unit.targets(dataset.targets[left])
    np.testing.assert_allclose(model.posterior.alpha, full_weights(params, X, y, model.near), rtol=1e-7, atol=1e-9)
    new = table(5).inputs[:20]
    latent = ModelPredictor(model).predictor.moments(new).latent_variance / unit.target_scale**2
    for x, variance in zip(unit.inputs(new), latent, strict=True):
        near = nearest(params, X, x, 32)
        assert variance == pytest.approx(conditional_variance(params, X[near], model.near[near], x), rel=1e-7)
    with pytest.raises(InvalidDataError, match="extra_basis: a full process"):
        update(model, found.state, rows_of(dataset, places[:1]), spec, extra_basis=1)


def test_conjugate_gradients_begin_at_the_old_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same mean as from nothing, to the tolerance of both, in fewer iterations."""
    dataset = table(2, n=130)
    spec = near_spec()
    trained = train(dataset.take(np.arange(120)), spec)
    assert trained.state is not None
    monkeypatch.setattr("core.train.full_process.EXACT_ROWS", 50)
    counted: list[int] = []
    solve = full_mean

    def counting(*args: Any, **named: Any) -> Any:
        found = solve(*args, **named)
        counted.append(found.iterations)
        return found

    monkeypatch.setattr("core.train.full_process.full_mean", counting)
    new = rows_of(dataset, np.arange(120, 130))
    warm = update(trained.model, trained.state, new, spec)
    first = counted[0]
    cold_model = replace(
        trained.model, posterior=replace(trained.model.posterior, alpha=np.zeros(len(trained.model.posterior.alpha)))
    )
    counted.clear()
    cold = update(cold_model, trained.state, new, spec)
    assert first <= counted[0]
    inputs = table(5).inputs
    means = [ModelPredictor(each.model).mean(inputs) for each in (warm, cold)]
    assert np.sqrt(np.mean(np.square(means[0] - means[1]))) < 0.05 * dataset.targets.std()


@pytest.mark.usefixtures("short_search")
def test_a_mean_on_all_rows_is_fitted_again() -> None:
    """Beside a sparse posterior that is a refit."""
    dataset, places = table(0, n=90), np.arange(ROWS, 90)
    spec = TrainSpec(**QUICK, mean_rows=MeanRows.ALL, variance=Variance.BASIS, approximation=Approximation.FITC)
    trained = train(dataset.take(np.arange(ROWS)), spec)
    assert trained.model.mean is not None
    assert trained.state is not None
    found = update(trained.model, trained.state, rows_of(dataset, places), spec)
    assert found.how == "mean"
    assert found.model.mean is not None
    assert found.model.mean_rows == 90
    oracle_theta = found.model.posterior.hyperparameters
    unit = found.model.posterior.standardization
    X, y = unit.inputs(dataset.inputs), unit.targets(dataset.targets)
    Z = unit.inputs(trained.model.posterior.basis)
    jitter = factorise(Rows(X=X, y=y, groups=dataset.groups), Z, oracle_theta, scheme(Approximation.FITC)).jitter
    oracle = Sparse("fitc", oracle_params(oracle_theta, dataset.groups), X, y, Z, 1.0, jitter)
    new = table(5).inputs
    latent = ModelPredictor(found.model).predictor.moments(new).latent_variance / unit.target_scale**2
    np.testing.assert_allclose(latent, predict(oracle, unit.inputs(new))[1], atol=1e-8)
    before, after = (
        float(np.sqrt(np.mean(np.square(ModelPredictor(model).mean(dataset.inputs) - dataset.targets))))
        for model in (trained.model, found.model)
    )
    assert after < before


def test_drift_is_told() -> None:
    """Rows like those before say nothing; a shifted target, far rows and many of them do."""
    dataset = table(0, n=160)
    model, state, _ = start(dataset, Approximation.FITC)
    moments = ModelPredictor(model).predict(dataset.inputs[ROWS:])
    random = np.random.default_rng(0)
    drawn = moments.centre + np.sqrt(moments.variance) * random.normal(size=100)
    state = replace(state, trained=10_000)
    honest = NewRows(inputs=dataset.inputs[ROWS:], targets=drawn, numbers=np.arange(ROWS, 160))
    spec = spec_of(Approximation.FITC)
    expected = float(-moments.log_density(drawn).mean())
    found = update(model, state, honest, spec, expected_nlpd=expected).drift
    assert (found.reasons, found.added_share) == ((), 0.01)
    assert found.far_rows < 10
    assert found.scores is not None
    assert found.scores.rows == 100
    shifted = update(model, state, replace(honest, targets=drawn + 200.0), spec, expected_nlpd=expected).drift
    assert [reason.split()[0] for reason in shifted.reasons] == ["intervals", "new"]
    away = replace(honest, inputs=dataset.inputs[ROWS:] + 100.0 * dataset.inputs.std(axis=0))
    far = update(model, state, away, spec).drift
    assert far.far_rows == 100
    assert "100 of 100 new rows are far" in far.reasons[-1]
    grown = update(model, replace(state, trained=ROWS, added=10), rows_of(dataset, np.arange(60, 80)), spec).drift
    assert "30 rows came since the last full training, which had 60" in grown.reasons[-1]


def test_what_cannot_be_done_is_said() -> None:
    dataset, places = table(0, n=90), np.arange(ROWS, 90)
    model, state, _ = start(dataset, Approximation.FITC)
    new, spec = rows_of(dataset, places), spec_of(Approximation.FITC)
    with pytest.raises(InvalidDataError, match="forget: row 75 is not among the 60 rows of the model, nor are 1 more"):
        update(model, state, new, spec, forget=np.array([1, 75, 76]))
    with pytest.raises(InvalidDataError, match="every row once"):
        update(model, state, new, spec, forget=np.array([1, 1]))
    with pytest.raises(InvalidDataError, match="at least 2 rows must be left"):
        update(model, state, rows_of(dataset, places[:1]), spec, forget=np.arange(ROWS))
    blind = replace(state, inputs=state.inputs[:0], targets=state.targets[:0])
    for more in ({"forget": np.array([1])}, {"extra_basis": 2}):
        with pytest.raises(InvalidDataError, match="sums over its 60 rows and not the rows themselves"):
            update(model, blind, new, spec, **more)
    logarithm = replace(model, transform=Transform(kind=TargetTransform.LOG))
    bad = replace(new, targets=np.where(np.arange(30) == 7, -1.0, new.targets))
    with pytest.raises(InvalidDataError, match="row 7: the target -1 cannot be learnt as log"):
        update(logarithm, state, bad, spec)
