"""core/train/mean_gain.py: when a mean on more rows pays, by densities or by squared errors."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.predict.calibration import Calibration, LeftOut
from core.train.calibrate import CalibrationResult
from core.train.mean_gain import LEAST_FALL, LEAST_GAIN, Gain, row_losses

ROWS = 400


def read(error: FloatArray, places: FloatArray | None = None, weights: FloatArray | None = None) -> CalibrationResult:
    """Rows with these errors, all with the density of a normal distribution of variance one."""
    count = len(error)
    left_out = LeftOut(
        places=np.arange(count) if places is None else places.astype(np.int64),
        error=error,
        latent_variance=np.full(count, 0.4),
        noise_variance=np.full(count, 0.6),
        far_variance=np.ones(count),
        weights=np.empty(0) if weights is None else weights,
    )
    return CalibrationResult(left_out=left_out, calibration=Calibration())


def test_losses_and_squares_are_those_of_the_same_rows() -> None:
    """The rows that only one of both left out do not count."""
    random = np.random.default_rng(0)
    error = random.normal(size=ROWS)
    basis, mean = read(2.0 * error), read(np.append(error[::-1], 1e3), np.append(np.arange(ROWS)[::-1], ROWS))
    gain = Gain.of(basis, mean)
    assert gain.loss == pytest.approx(1.5 * np.square(error).mean())
    assert gain.loss_doubt == pytest.approx(1.5 * np.square(error).std() / np.sqrt(ROWS))
    assert gain.fall == pytest.approx(0.75)
    assert gain.pays
    assert row_losses(basis).mean() - row_losses(mean)[:-1].mean() == pytest.approx(gain.loss)


def test_squared_errors_count_by_weight() -> None:
    error, weights = np.ones(ROWS), np.linspace(0.1, 1.9, ROWS)
    better = np.where(weights < 1.0, 0.5, 1.0)
    gain = Gain.of(read(error, weights=weights), read(better, weights=weights))
    assert gain.fall == pytest.approx(float(weights @ (1.0 - np.square(better)) / weights.sum()))


@pytest.mark.parametrize(
    ("loss", "loss_doubt", "fall", "fall_doubt", "pays", "told"),
    [
        (0.02, 0.005, 0.0, 0.01, True, "more than one standard error and 0.01"),
        (0.02, 0.03, 0.0, 0.01, False, "not a gain of more than one standard error and 0.01"),
        (0.005, 0.002, 0.03, 0.01, True, "squared errors are smaller by 3.0%"),
        (0.005, 0.002, 0.03, 0.04, False, "not a gain"),
        (0.005, 0.002, 0.01, 0.001, False, "not a gain"),
        (0.005, 0.008, 0.5, 0.01, False, "not a gain"),
        (-0.005, 0.001, 0.5, 0.01, False, "loses 0.0050 nats"),
    ],
)
def test_what_pays(loss: float, loss_doubt: float, fall: float, fall_doubt: float, pays: bool, told: str) -> None:
    gain = Gain(loss=loss, loss_doubt=loss_doubt, fall=fall, fall_doubt=fall_doubt)
    assert gain.pays is pays
    assert told in gain.reason


def test_thresholds_are_where_they_are_said_to_be() -> None:
    least = Gain(loss=LEAST_GAIN, loss_doubt=0.0, fall=LEAST_FALL, fall_doubt=0.0)
    assert not least.pays
    assert replace(least, loss=1.01 * LEAST_GAIN).pays
    assert replace(least, fall=1.01 * LEAST_FALL).pays
