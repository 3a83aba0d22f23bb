"""core/train/noise.py: noise that varies is found and helps; noise that does not is left alone."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.predict.calibration import LeftOut, fit_calibration
from core.predict.metrics import LEVELS
from core.predict.model import ModelPredictor, log_noise
from core.spec import Calibrate, Noise, TrainSpec
from core.train.noise import LEAST_ROWS, LearntNoise, varying_noise
from core.train.run import train
from tests.core.problems import hyperparameters
from tests.core.runs import assert_same_posterior

START = hyperparameters([6.0, 0.7], signal_variance=1.0, bias_variance=0.1, noise_variance=0.35)
REGIONS = ((-2.0, -1.0), (-1.0, 0.0), (0.0, 1.0), (1.0, 2.0))


def deviation(inputs: FloatArray) -> FloatArray:
    """The noise's standard deviation: from 0.1 to 1 as the first column goes from -2 to 2."""
    return np.asarray(0.1 * 10.0 ** ((inputs[:, 0] + 2.0) / 4.0))


def left_out(seed: int, rows: int, *, varies: bool) -> tuple[Dataset, LeftOut, FloatArray]:
    """Rows, errors whose variance the first GP takes for the mean one, and their true standard deviations."""
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-2.0, 2.0, size=(rows, 2))
    sd = deviation(inputs) if varies else np.full(rows, 0.4)
    error, mean = sd * rng.normal(size=rows), float(np.mean(sd**2))
    return (
        Dataset(inputs=inputs, targets=rng.normal(size=rows)),
        LeftOut(
            places=np.arange(rows),
            error=error,
            latent_variance=np.full(rows, 0.02 * mean),
            noise_variance=np.full(rows, 0.98 * mean),
            far_variance=np.full(rows, mean),
        ),
        sd,
    )


@cache
def found(seed: int, rows: int, *, varies: bool) -> LearntNoise | None:
    dataset, seen, _ = left_out(seed, rows, varies=varies)
    return varying_noise(dataset, seen, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_noise_that_varies_tenfold_is_found(seed: int) -> None:
    """Noise as a function of the inputs, on rows it never saw, and worth what knowing it would be worth."""
    dataset, seen, sd = left_out(seed, 1000, varies=True)
    noise = varying_noise(dataset, seen, np.random.default_rng(seed))
    assert noise is not None
    inputs = np.random.default_rng(seed + 100).uniform(-2.0, 2.0, size=(500, 2))
    truth = np.log(deviation(inputs) ** 2 / np.mean(sd**2))
    missed = log_noise(noise.noise, inputs) - truth
    assert np.sqrt(np.mean(missed**2)) < 0.25
    most = float(np.mean(0.5 * np.log(np.mean(sd**2)) - np.log(sd)))  # nats a row, with both distributions known
    assert 0.8 * most < noise.gain < 1.1 * most
    ratio, sd = np.log(noise.left_out.noise_variance / seen.noise_variance[0]), sd[noise.left_out.places]
    assert np.sqrt(np.mean((ratio - np.log(sd**2 / np.mean(sd**2))) ** 2)) < 0.25
    np.testing.assert_array_equal(np.sort(noise.left_out.places), np.arange(1000))
    told = seen.take(noise.left_out.places)
    for name in ("places", "error", "latent_variance", "far_variance"):
        np.testing.assert_array_equal(getattr(noise.left_out, name), getattr(told, name))
    np.testing.assert_allclose(np.exp(noise.logarithm), noise.left_out.noise_variance / told.noise_variance)
    assert (noise.noise.lowest, noise.noise.highest) == (noise.logarithm.min(), noise.logarithm.max())


@pytest.mark.slow
def test_constant_noise_is_left_alone_for_most_draws() -> None:
    kept = sum(found(seed, 400, varies=False) is not None for seed in range(12))
    assert kept <= 3


def test_same_draw_same_bits() -> None:
    one, other = found(0, LEAST_ROWS, varies=True), found.__wrapped__(0, LEAST_ROWS, varies=True)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.left_out.noise_variance, other.left_out.noise_variance)
    assert_same_posterior(one.noise.posterior, other.noise.posterior)


def test_targets_are_not_read() -> None:
    dataset, seen, _ = left_out(0, LEAST_ROWS, varies=True)
    other = Dataset(inputs=dataset.inputs, targets=dataset.targets[::-1])
    one, two = found(0, LEAST_ROWS, varies=True), varying_noise(other, seen, np.random.default_rng(0))
    assert one is not None
    assert two is not None
    np.testing.assert_array_equal(one.left_out.noise_variance, two.left_out.noise_variance)


def test_rows_beyond_the_limit_are_left_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second GP learns from some of the rows, at random; those alone are told of, each with its noise."""
    monkeypatch.setattr("core.train.noise.MOST_ROWS", 300)
    dataset, seen, sd = left_out(3, 900, varies=True)
    noise = varying_noise(dataset, seen, np.random.default_rng(0))
    assert noise is not None
    places = noise.left_out.places
    assert len(places) == len(noise.logarithm) == len(set(places.tolist())) == 300
    assert places.max() > 800
    assert places.min() < 100
    np.testing.assert_array_equal(noise.left_out.error, seen.error[places])
    ratio = np.log(noise.left_out.noise_variance / seen.noise_variance[places])
    assert np.corrcoef(ratio, np.log(sd[places]))[0, 1] > 0.9


def test_too_little_says_nothing() -> None:
    assert found(0, LEAST_ROWS - 1, varies=True) is None
    assert found(0, LEAST_ROWS, varies=True) is not None
    dataset, seen, _ = left_out(0, 300, varies=True)
    same = replace(seen, error=np.full(300, 0.3))
    assert varying_noise(dataset, same, np.random.default_rng(0)) is None


def test_exact_hits_are_numbers() -> None:
    dataset, seen, _ = left_out(0, 300, varies=True)
    error = seen.error.copy()
    error[::3] = 0.0
    noise = varying_noise(dataset, replace(seen, error=error), np.random.default_rng(0))
    if noise is not None:
        assert np.isfinite(noise.left_out.noise_variance).all()
        assert np.isfinite(noise.gain)


# In a run


@pytest.mark.parametrize(
    ("seed", "calibrate"),
    [
        (1, Calibrate.LOO),
        pytest.param(0, Calibrate.LOO, marks=pytest.mark.slow),
        pytest.param(2, Calibrate.CROSS_FIT, marks=pytest.mark.slow),
        pytest.param(3, Calibrate.CROSS_FIT, marks=pytest.mark.slow),
    ],
)
def test_coverage_by_region_improves(seed: int, calibrate: Calibrate) -> None:
    """90% intervals on 8,000 fresh rows, by quarters: constant noise is too wide in the quiet ones and too narrow in
    the loud ones, by 8 to 11 points on average; varying noise is 1 to 2 off."""
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-2.0, 2.0, size=(8700, 2))
    targets = np.sin(2.0 * inputs[:, 1]) + deviation(inputs) * rng.normal(size=8700)
    dataset = Dataset(inputs=inputs[:700], targets=targets[:700])
    fresh, truths = inputs[700:], targets[700:]
    off, loss = {}, {}
    for noise in (Noise.CONSTANT, Noise.AUTO if seed % 2 else Noise.INPUT_DEPENDENT):
        spec = TrainSpec(
            basis_size=20, noise=noise, calibrate=calibrate, seed=seed, start=START, adaptation=None, holdout=0.0
        )
        result = train(dataset, spec)
        kept = result.report.calibration.noise_gain
        assert (kept is not None) == (result.model.noise is not None) == (noise is not Noise.CONSTANT)
        target = ModelPredictor(result.model).predict(fresh)
        lower, upper = target.interval(0.9)
        inside = (lower <= truths) & (truths <= upper)
        shares = [inside[(fresh[:, 0] >= low) & (fresh[:, 0] < high)].mean() for low, high in REGIONS]
        off[noise] = np.mean([abs(share - 0.9) for share in shares])
        loss[noise] = -target.log_density(truths).mean()
        for level in LEVELS:
            below, above = target.interval(level)
            doubt = np.sqrt(level * (1.0 - level) / 700)  # of the rows that it was calibrated on
            assert np.mean((below <= truths) & (truths <= above)) == pytest.approx(level, abs=4 * doubt)
    assert off[Noise.CONSTANT] > 0.06
    assert off[noise] < 0.03
    assert loss[noise] < loss[Noise.CONSTANT] - 0.2


@pytest.mark.slow
def test_a_run_on_constant_noise_keeps_one_number() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-2.0, 2.0, size=(500, 2))
    dataset = Dataset(inputs=inputs, targets=np.sin(2.0 * inputs[:, 1]) + 0.3 * rng.normal(size=500))
    kept = []
    for seed in range(4):
        spec = TrainSpec(
            basis_size=20, noise=Noise.INPUT_DEPENDENT, calibrate=Calibrate.LOO, seed=seed, start=START, adaptation=None
        )
        result = train(dataset, spec)
        kept.append(result.model.noise is not None)
        assert (result.report.calibration.noise_gain is not None) == kept[-1]
    assert sum(kept) <= 1


def halves(draw: int) -> FloatArray:
    """Coverage at 95% on either side of where the noise jumps from .1 to 1, with 300 left-out rows to learn from."""
    rng = np.random.default_rng(draw)
    x, fresh = rng.uniform(0.0, 10.0, size=(300, 1)), rng.uniform(0.0, 10.0, size=(2000, 1))
    error, new = (np.where(at[:, 0] < 5.0, 0.1, 1.0) * rng.normal(size=len(at)) for at in (x, fresh))
    seen = LeftOut(
        places=np.arange(300),
        error=error,
        latent_variance=np.full(300, 1e-3),
        noise_variance=np.full(300, 0.5),
        far_variance=np.full(300, 1.0),
    )
    noise = varying_noise(Dataset(inputs=x, targets=error), seen, rng)
    assert noise is not None
    calibration = fit_calibration(noise.left_out)
    variance = calibration.variance(np.full(2000, 1e-3), 0.5 * np.exp(log_noise(noise.noise, fresh)), 1.0)
    inside = np.abs(new) <= calibration.interval(0.95)[1] * np.sqrt(variance)
    return np.array([np.mean(inside[fresh[:, 0] < 5.0]), np.mean(inside[fresh[:, 0] >= 5.0])])


@pytest.mark.slow
def test_noise_that_jumps_is_covered_on_both_sides() -> None:
    """Four draws; a draw's coverage has a standard deviation of about .025, their mean of half that."""
    below, above = np.mean([halves(draw) for draw in range(4)], axis=0)
    assert 0.92 <= below <= 0.985
    assert 0.915 <= above <= 0.98
