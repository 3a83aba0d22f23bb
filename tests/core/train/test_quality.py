"""Truths that training must get right on data whose truth is known."""

from itertools import pairwise

import numpy as np
import pytest

from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.predict.metrics import LEVELS, scores
from core.predict.model import ModelPredictor, log_noise
from core.predict.predictor import moments
from core.spec import Adaptation, Approximation, Calibrate, TrainSpec
from core.train.run import train
from tests.core.runs import START, table


def fast_sine(seed: int, rows: int) -> Dataset:
    random = np.random.default_rng(seed)
    x = random.uniform(-2.0, 2.0, rows)
    return Dataset(inputs=x[:, None], targets=np.sin(5.0 * x) + 0.1 * random.normal(size=rows))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 6])
def test_easy_data_are_learned_whatever_the_draw(seed: int) -> None:
    """A fast sine: rounds once led to ever smoother kernels and smaller bases, and published worse than the mean.

    By default error bars are as wide as their errors on 20,000 fresh rows; and the calibration does not lose what the
    density had.
    """
    dataset = fast_sine(seed, rows=1000)
    fresh = fast_sine(seed + 100, rows=20_000)
    result = train(dataset, TrainSpec())
    assert 0.93 < result.report.leave_one_out.coverage["0.95"] < 0.97
    found = scores(fresh.targets, ModelPredictor(result.model).predict(fresh.inputs))
    for level in LEVELS:
        assert found.coverage[str(level)] == pytest.approx(
            level, abs=max(0.02, 3 * (level * (1 - level) / 1000) ** 0.5)
        )
    uncalibrated = train(dataset, TrainSpec(calibrate=None))
    assert uncalibrated.report.leave_one_out.nmse is not None
    assert uncalibrated.report.leave_one_out.nmse < 0.025
    assert 0.93 < uncalibrated.report.leave_one_out.coverage["0.95"] < 0.97
    plain = ModelPredictor(uncalibrated.model).predict(fresh.inputs)
    assert found.nlpd < scores(fresh.targets, plain).nlpd + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 5])
def test_noise_free_data_have_honest_error_bars(seed: int) -> None:
    """The start once took a signal of 10,000 against a noise of 1e-6, beyond what a basis can follow."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(500, 2))
    new = random.normal(size=(1000, 2))
    dataset = Dataset(inputs=inputs, targets=np.sin(2.0 * inputs[:, 0]) * inputs[:, 1])
    found = moments(train(dataset, TrainSpec(seed=seed)).model.posterior, new)
    errors = found.mean - np.sin(2.0 * new[:, 0]) * new[:, 1]
    assert np.sqrt(np.mean(np.square(errors))) < 0.1
    assert np.mean(np.abs(errors) < 1.96 * np.sqrt(found.target_variance)) > 0.93


@pytest.mark.parametrize("seed", [1, 8])
def test_shorter_lengthscales_of_round_two_find_finer_structure(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave on a slow one, begun from lengthscales for the slow one: every descent then takes the wave for noise."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2.0, 2.0, 400)
    dataset = Dataset(inputs=x[:, None], targets=np.sin(x) + 0.5 * np.sin(9.0 * x) + 0.1 * random.normal(size=400))
    start = Hyperparameters(lengthscales=np.array([1.0]), signal_variance=1.0, bias_variance=0.1, noise_variance=0.3)
    spec = TrainSpec(basis_size=40, start=start, adaptation=Adaptation(rounds=3), calibrate=None, seed=seed)
    with_it = train(dataset, spec).report
    monkeypatch.setattr("core.train.search.SHORTER", 1.0)
    without = train(dataset, spec).report
    assert with_it.objectives[0] == without.objectives[0]  # the first round is the same
    assert with_it.objectives[1] < without.objectives[1] - 100.0
    assert with_it.leave_one_out.nmse is not None
    assert without.leave_one_out.nmse is not None
    assert with_it.leave_one_out.nmse < 0.03
    assert without.leave_one_out.nmse > 0.1


def test_shorter_lengthscales_that_are_half_way_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weaker wave and few steps a round: the second descent ends .5 nats behind the first, and .2 before it if it
    goes on."""
    random = np.random.default_rng(0)
    x = random.uniform(-2.0, 2.0, 400)
    dataset = Dataset(inputs=x[:, None], targets=np.sin(x) + 0.15 * np.sin(9.0 * x) + 0.1 * random.normal(size=400))
    start = Hyperparameters(lengthscales=np.array([1.0]), signal_variance=1.0, bias_variance=0.1, noise_variance=0.3)
    spec = TrainSpec(basis_size=40, start=start, adaptation=Adaptation(rounds=2, steps=8), calibrate=None)
    going_on = train(dataset, spec).report
    monkeypatch.setattr("core.train.search.CLOSE", 0.0)
    stopped = train(dataset, spec).report
    assert going_on.objectives[0] == stopped.objectives[0]
    assert going_on.objectives[1] < stopped.objectives[1] - 0.05


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_what_a_search_finds_does_not_hang_on_rounding(seed: int) -> None:
    """The same wave, a unit that changes the last bits of every input, lengthscales so long that most rows of the pool
    are alike to twelve digits: choosing among these by rounding once led to objectives 400 nats apart."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2.0, 2.0, 400)
    targets = np.sin(x) + 0.5 * np.sin(9.0 * x) + 0.1 * random.normal(size=400)
    start = Hyperparameters(lengthscales=np.array([1.0]), signal_variance=1.0, bias_variance=0.1, noise_variance=0.3)
    spec = TrainSpec(basis_size=40, start=start, adaptation=Adaptation(rounds=2, steps=8), calibrate=None, seed=seed)
    first, second = (
        train(Dataset(inputs=inputs[:, None], targets=targets), spec).report for inputs in (x, 1.8 * x + 32.0)
    )
    np.testing.assert_allclose(first.objectives, second.objectives, atol=0.1)


@pytest.mark.parametrize("approximation", [a for a in Approximation if a is not Approximation.SOR])
def test_far_from_all_data_error_bars_are_the_priors(approximation: Approximation) -> None:
    """A prior far too rough and too large for these data: the calibration takes half of the latent variance off, which
    it must not where nothing is known."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(400, 2))
    targets = np.sin(inputs[:, 0]) * inputs[:, 1] + 0.2 * random.normal(size=400)
    rough = Hyperparameters(lengthscales=np.full(2, 0.6), signal_variance=9.0, bias_variance=0.1, noise_variance=0.08)
    spec = TrainSpec(approximation=approximation, basis_size=150, start=rough, adaptation=None, calibrate=Calibrate.LOO)
    result = train(Dataset(inputs=inputs, targets=targets), spec)
    report, unit = result.report, result.model.posterior.target_scale
    assert report.calibration.latent_scale < 0.6
    far = np.array([[1e4, 0.0], [-1e7, 1e7], [0.0, 1e200]])
    found = ModelPredictor(result.model).predict(far)
    theta = report.hyperparameters
    g = np.zeros(3) if result.model.noise is None else log_noise(result.model.noise, far)
    noise = report.calibration.noise_scale * theta.noise_variance * np.exp(g)
    assert (np.sqrt(found.variance) >= unit * np.sqrt(theta.signal_variance + noise) * (1 - 1e-9)).all()
    assert (found.latent.variance <= unit**2 * theta.prior_variance * (1 + 1e-9)).all()
    np.testing.assert_allclose(found.support, 1.0, rtol=1e-9)
    near = ModelPredictor(result.model).predict(inputs)
    assert np.median(near.support) < 0.1
    assert ((near.support >= 0.0) & (near.support <= 1.0)).all()
    assert np.median(near.latent.variance) < 0.1 * found.latent.variance.min()


def test_rounds_never_make_the_objective_worse() -> None:
    dataset = fast_sine(6, rows=300)
    start = Hyperparameters(lengthscales=np.array([1.0]), signal_variance=1.0, bias_variance=1e-3, noise_variance=0.3)
    spec = TrainSpec(basis_size=20, adaptation=Adaptation(rounds=6, steps=3), start=start, calibrate=None)
    objectives = train(dataset, spec).report.objectives
    assert len(objectives) > 2
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(objectives))


@pytest.mark.usefixtures("short_search")
def test_what_there_is_too_little_of_is_said() -> None:
    few = train(table(n=30), TrainSpec(basis_size=40, adaptation=None, start=START)).report
    assert any("only" in text and "of the 40 basis vectors" in text for text in few.warnings)
    assert any("30 rows are few for 3 columns" in text for text in few.warnings)
    many = train(table(n=300), TrainSpec(basis_size=20, adaptation=None, start=START)).report
    assert many.warnings == ()


def heavy_noise(seed: int, slope: float, rows: int = 300) -> Dataset:
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, 5))
    return Dataset(inputs=inputs, targets=slope * inputs[:, 0] + random.standard_t(2.0, size=rows))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 5])
def test_columns_that_say_nothing_give_the_mean_with_error_bars_that_hold(seed: int) -> None:
    """Evidence that follows a few outliers once led to hundreds of basis vectors, and ten times the mean's error."""
    dataset, fresh = heavy_noise(seed, 0.0), heavy_noise(seed + 100, 0.0, rows=5000)
    result = train(dataset, TrainSpec())
    assert any("no better than the target mean" in text for text in result.report.warnings)
    assert not any("basis vectors asked for" in text for text in result.report.warnings)
    assert len(result.selection.indices) == 1
    found = ModelPredictor(result.model).predict(fresh.inputs)
    np.testing.assert_allclose(found.moments()[0], dataset.targets.mean(), atol=0.01 * dataset.targets.std())
    covered = scores(fresh.targets, found).coverage
    assert covered["0.9"] == pytest.approx(0.9, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_weak_signal_is_kept(seed: int) -> None:
    dataset, fresh = heavy_noise(seed, 1.0), heavy_noise(seed + 100, 1.0, rows=5000)
    result = train(dataset, TrainSpec())
    assert not any("no better than the target mean" in text for text in result.report.warnings)
    mean = ModelPredictor(result.model).predict(fresh.inputs).moments()[0]
    assert np.corrcoef(mean, fresh.inputs[:, 0])[0, 1] > 0.9


@pytest.mark.usefixtures("short_search")
def test_given_hyperparameters_and_uncalibrated_models_are_left_alone() -> None:
    dataset = heavy_noise(1, 0.0)
    few = Adaptation(rounds=1, steps=5)
    for spec in (TrainSpec(basis_size=20, adaptation=None), TrainSpec(basis_size=20, calibrate=None, adaptation=few)):
        result = train(dataset, spec)
        assert len(result.selection.indices) == 20
        assert not any("no better than the target mean" in text for text in result.report.warnings)
