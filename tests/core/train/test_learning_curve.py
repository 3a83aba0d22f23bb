"""core/train/learning_curve.py: noise that falls with the errors as rows are added."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters, KernelFamily
from core.predict.distribution import PredictiveDistribution
from core.predict.model import ModelPredictor
from core.predict.transforms import Transform
from core.row_groups import groups_of_equal_rows
from core.spec import Effort, Noise, TrainSpec
from core.train import full_process
from core.train.fit import Subset
from core.train.full_choice import FullModel
from core.train.learning_curve import LEAST_KEPT, LearningCurve
from core.train.other_processes import processes_of

ROWS, LEFT = 1_000, 200
SPEC = TrainSpec(effort=Effort.NORMAL, noise=Noise.CONSTANT)


def curve(times: float, *, latent: float = 0.0, latent_of_all: float = 0.0) -> LearningCurve:
    """Squared errors that are so many times as large without both folds; latent variances as shares of the variance."""
    random = np.random.default_rng(0)
    sd = np.exp(random.normal(size=LEFT))
    one = sd * random.normal(size=LEFT)
    return LearningCurve(
        one=one,
        both=np.sqrt(times) * one,
        variance=np.square(sd),
        latent=latent * np.square(sd),
        latent_of_all=latent_of_all * np.square(sd),
    )


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 2.0])
def test_a_power_of_the_number_of_rows_is_followed(power: float) -> None:
    found = curve((900.0 / 800.0) ** power)
    assert found.fall(ROWS) == pytest.approx((1_000.0 / 900.0) ** -power, rel=1e-9)
    assert found.noise_kept(ROWS) == pytest.approx(max((1_000.0 / 900.0) ** -power, LEAST_KEPT), rel=1e-9)


def test_errors_that_do_not_grow_leave_the_noise() -> None:
    assert curve(0.9).fall(ROWS) == 1.0
    assert curve(0.9).noise_kept(ROWS) == 1.0


def test_the_latent_variance_takes_its_own_fall() -> None:
    """Half of the variance is latent and falls by a fifth: of the whole a tenth, and the noise stays. Where it does not
    fall the noise alone has to."""
    times = (900.0 / 800.0) ** (np.log(0.9) / np.log(900.0 / 1_000.0))
    assert curve(times).fall(ROWS) == pytest.approx(0.9)
    assert curve(times, latent=0.5, latent_of_all=0.4).noise_kept(ROWS) == pytest.approx(1.0)
    assert curve(times, latent=0.5, latent_of_all=0.5).noise_kept(ROWS) == pytest.approx(0.8)
    assert curve(times, latent=0.5, latent_of_all=0.3).noise_kept(ROWS) == 1.0
    assert curve(4.0, latent=0.5, latent_of_all=0.5).noise_kept(ROWS) == LEAST_KEPT


def targets_of(inputs: FloatArray, noise: float) -> FloatArray:
    """Waves that 600 rows do not tell all of, and noise."""
    random = np.random.default_rng(2)
    return np.asarray(np.sin(2.5 * inputs).prod(axis=1) + noise * random.normal(size=len(inputs)))


def mean_size(targets: FloatArray, predicted: PredictiveDistribution) -> float:
    """Mean size of the errors over their standard deviations."""
    return float(np.mean(np.abs(targets - predicted.centre) / np.sqrt(predicted.variance)))


def test_growth_within_a_standard_error_is_none() -> None:
    """Errors that have nothing to do with each other: the ratio of their mean sizes is known to 7.5% from 200 rows."""
    random = np.random.default_rng(4)
    ones = np.ones(LEFT)
    one, both = random.normal(size=(2, LEFT))
    sizes = np.abs(one).mean() / np.abs(both).mean()
    for times, falls in ((1.05, False), (1.2, True)):
        found = LearningCurve(
            one=one, both=times * sizes * both, variance=ones, latent=0.0 * ones, latent_of_all=0.0 * ones
        )
        assert (found.fall(ROWS) < 1.0) is falls


def test_predictions_without_errors_keep_the_noise() -> None:
    nothing, ones = np.zeros(LEFT), np.ones(LEFT)
    for both in (nothing, ones):
        found = LearningCurve(one=nothing, both=both, variance=ones, latent=nothing, latent_of_all=nothing)
        assert found.noise_kept(ROWS) == 1.0
    assert (
        LearningCurve(one=ones, both=2.0 * ones, variance=ones, latent=ones, latent_of_all=ones).noise_kept(ROWS) == 1.0
    )


@pytest.fixture
def by_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means by conjugate gradients, with folds."""
    monkeypatch.setattr(full_process, "EXACT_ROWS", 0)


def table(noise: float) -> Dataset:
    inputs = np.random.default_rng(1).uniform(-1.7, 1.7, (600, 2))
    return Dataset(inputs=inputs, targets=targets_of(inputs, noise))


def full_of(dataset: Dataset, noise_variance: float) -> FullModel:
    """A full process whose theta takes what a kernel that is too rough does not tell for noise."""
    theta = Hyperparameters(
        lengthscales=np.full(2, 0.4),
        signal_variance=1.0,
        bias_variance=0.0,
        noise_variance=noise_variance,
        kernel=KernelFamily.MATERN12,
    )
    subset, held_out = Subset.of(dataset, np.arange(600), standardize=True, workers=1), np.arange(0, 600, 10)
    draws = np.random.default_rng(1)
    found = full_process.full_process(subset, held_out, theta, SPEC, (0, 1), draws, lambda _: None)
    return FullModel(process=found, subset=subset, held_out=held_out, seconds=0.0)


@pytest.mark.usefixtures("by_folds")
def test_error_bars_of_new_rows_follow_where_there_is_no_noise() -> None:
    """Errors of new rows over their error bars are nearer to those of left-out rows than with all of the noise."""
    dataset = table(0.0)
    full = full_of(dataset, 0.01)
    new = np.random.default_rng(3).uniform(-1.7, 1.7, (2_000, 2))
    left_out = mean_size(dataset.targets[full.process.left], full.left_out(Transform()))

    def size(kept: float) -> float:
        model = replace(full, process=replace(full.process, noise_kept=kept)).model(
            dataset.inputs, dataset.groups, Transform()
        )
        return mean_size(targets_of(new, 0.0), ModelPredictor(model).predict(new)) / left_out

    assert full.process.noise_kept < 0.95
    assert size(1.0) < 0.97
    assert abs(np.log(size(full.process.noise_kept))) < abs(np.log(size(1.0)))


@pytest.mark.usefixtures("by_folds")
def test_noise_stays() -> None:
    assert full_of(table(1.0), 0.8).process.noise_kept > 0.95


@pytest.mark.usefixtures("by_folds")
def test_another_target_has_a_learning_curve_of_its_own() -> None:
    full = full_of(table(0.0), 0.01)
    noisy = Subset.of(table(3.0), np.arange(600), standardize=True, workers=1)
    draws = np.random.default_rng(2)
    same, other = processes_of([full.subset, noisy], full.held_out, full.process, SPEC, (0, 1), draws, lambda _: None)
    assert same.noise_kept == pytest.approx(full.process.noise_kept, abs=0.02)  # the means to their tolerance
    assert other.noise_kept > 0.95


@pytest.mark.usefixtures("by_folds")
def test_rows_that_come_together_have_no_learning_curve() -> None:
    inputs = np.repeat(table(0.0).inputs[:300], 2, axis=0)
    twice = Dataset(inputs=inputs, targets=targets_of(inputs, 0.0), row_groups=groups_of_equal_rows(inputs))
    assert full_of(twice, 0.01).process.noise_kept == 1.0
