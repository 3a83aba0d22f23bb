"""core/train/learning_curve.py: noise that falls with the errors as rows are added."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters, KernelFamily
from core.predict.transforms import Transform
from core.row_groups import groups_of_equal_rows
from core.spec import Effort, Noise, TrainSpec
from core.train import full_process
from core.train.fit import Subset
from core.train.full_choice import FullModel
from core.train.learning_curve import LEAST_KEPT, LearningCurve

ROWS, LEFT = 1_000, 200


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


def test_growth_within_a_standard_error_is_none() -> None:
    """Errors of others that are a little larger by chance: |N(0, 1)| / .8 has a standard error of 5% of 200 rows."""
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


@pytest.mark.parametrize(("noise", "falls"), [(0.0, True), (1.0, False)])
def test_error_bars_of_new_rows_follow(noise: float, falls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a function without noise, whose theta takes what is missing for it, all rows are predicted better than those
    left out; noise stays what it is."""
    monkeypatch.setattr(full_process, "EXACT_ROWS", 0)
    inputs = np.random.default_rng(1).uniform(-1.7, 1.7, (600, 2))
    dataset = Dataset(inputs=inputs, targets=targets_of(inputs, noise))
    theta = Hyperparameters(
        lengthscales=np.full(2, 0.4),
        signal_variance=1.0,
        bias_variance=0.0,
        noise_variance=0.8 if noise else 0.01,
        kernel=KernelFamily.MATERN12,
    )

    def process(table: Dataset) -> FullModel:
        subset = Subset.of(table, np.arange(600), standardize=True, workers=1)
        spec, held_out = TrainSpec(effort=Effort.NORMAL, noise=Noise.CONSTANT), np.arange(0, 600, 10)
        found = full_process.full_process(
            subset, held_out, theta, spec, (0, 1), np.random.default_rng(1), lambda _: None
        )
        return FullModel(process=found, subset=subset, held_out=held_out, seconds=0.0)

    full = process(dataset)
    kept = full.process.noise_kept
    assert kept < 0.95 if falls else kept > 0.95
    model = full.model(inputs, dataset.groups, Transform())
    assert model.calibration.noise_scale == kept * full.process.read.calibration.noise_scale
    together = replace(dataset, inputs=np.repeat(inputs[:300], 2, axis=0))
    twice = replace(together, row_groups=groups_of_equal_rows(together.inputs))
    assert process(twice).process.noise_kept == 1.0
