"""core/train/calibrate.py: what it is for. Intervals hold what they promise on rows that no fit has seen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import core.train.calibrate
import core.train.fold_fits
import core.train.run
from core.data import Dataset
from core.predict.calibration import Calibration
from core.predict.metrics import LEVELS
from core.predict.model import ModelPredictor
from core.spec import (
    Adaptation,
    Calibrate,
    Intervals,
    TargetTransform,
    TrainSpec,
)
from core.train.report import TrainResult
from core.train.run import train
from tests.core.problems import hyperparameters


def coverage(result: TrainResult, inputs: Any, targets: Any, level: float) -> float:
    lower, upper = ModelPredictor(result.model).predict(inputs).interval(level)
    return float(np.mean((lower <= targets) & (targets <= upper)))


@pytest.mark.slow
def test_few_rows_and_many_columns_get_wider_bars() -> None:
    """150 rows, 30 columns of which two matter, noise of half the variance: six draws, 95% intervals on 2,000 fresh
    rows each. Theta has fitted the noise, which plain error bars and leave-one-out do not see. Tolerance of the mean:
    4.5 points, of which 1.7 are its standard error: a fold's theta starts from one that has seen the fold. The gains
    are paired, on the same draws; the prior on theta of a small table has taken half of what there was to gain."""
    found: dict[Calibrate | None, list[float]] = {None: [], Calibrate.LOO: [], Calibrate.AUTO: []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(2150, 30))
        targets = np.sin(inputs[:, 0]) + 0.5 * inputs[:, 1] + rng.normal(size=2150)
        dataset = Dataset(inputs=inputs[:150], targets=targets[:150])
        for asked, shares in found.items():
            spec = TrainSpec(basis_size=40, calibrate=asked, seed=seed, adaptation=Adaptation(rounds=1, steps=20))
            shares.append(coverage(train(dataset, spec), inputs[150:], targets[150:], 0.95))
    plain, loo, auto = (float(np.mean(shares)) for shares in found.values())
    assert auto > plain + 0.01
    assert auto > loo + 0.01
    assert auto == pytest.approx(0.95, abs=0.045)


@pytest.mark.parametrize(
    ("intervals", "calibrate"),
    [
        (Intervals.SYMMETRIC, Calibrate.LOO),
        (Intervals.ASYMMETRIC, Calibrate.CROSS_FIT),
        pytest.param(Intervals.SYMMETRIC, Calibrate.CROSS_FIT, marks=pytest.mark.slow),
        pytest.param(Intervals.ASYMMETRIC, Calibrate.LOO, marks=pytest.mark.slow),
    ],
)
def test_heavy_tails_are_covered_at_every_level(intervals: Intervals, calibrate: Calibrate) -> None:
    """Noise of a t distribution with three degrees of freedom, theta right: a normal is too wide in the middle and too
    narrow outside; every level holds within three errors of the 600 rows that it was calibrated on."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-2.0, 2.0, size=(10_600, 1))
    targets = np.sin(2.0 * inputs[:, 0]) + 0.3 * rng.standard_t(3, size=10_600)
    dataset, fresh, truths = Dataset(inputs=inputs[:600], targets=targets[:600]), inputs[600:], targets[600:]
    theta = hyperparameters([0.8], signal_variance=0.5, bias_variance=0.1, noise_variance=0.35)
    spec = TrainSpec(basis_size=20, intervals=intervals, calibrate=calibrate, holdout=0.0, start=theta, adaptation=None)
    result = train(dataset, spec)
    for level in LEVELS:
        doubt = np.sqrt(level * (1.0 - level) / 600)
        assert coverage(result, fresh, truths, level) == pytest.approx(level, abs=3 * doubt)
    plain = train(dataset, replace(spec, calibrate=None, intervals=Intervals.SYMMETRIC))
    assert coverage(plain, fresh, truths, 0.5) > 0.6
    assert coverage(plain, fresh, truths, 0.99) < 0.985


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TargetTransform.LOG, TargetTransform.YEO_JOHNSON])
def test_skewed_targets_are_learnt_and_covered_in_their_own_unit(kind: TargetTransform) -> None:
    """A square, so that Yeo and Johnson's power is between its ends, and a log-normal for the logarithm."""
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-2.0, 2.0, size=(4500, 2))
    t = np.sin(2.0 * inputs[:, 0]) + 0.4 * rng.normal(size=4500)
    targets = np.exp(t) if kind is TargetTransform.LOG else np.square(t + 4.0)
    dataset = Dataset(inputs=inputs[:500], targets=targets[:500])
    spec = TrainSpec(basis_size=30, target_transform=kind)
    result = train(dataset, spec)
    for level in (0.5, 0.8, 0.95):
        doubt = np.sqrt(level * (1.0 - level) / 450)
        assert coverage(result, inputs[500:], targets[500:], level) == pytest.approx(level, abs=3.5 * doubt)
    target = ModelPredictor(result.model).predict(inputs[500:])
    assert result.report.holdout is not None
    assert result.report.holdout.rmse == pytest.approx(
        np.sqrt(np.mean((targets[500:] - target.moments()[0]) ** 2)), rel=0.3
    )
    assert abs(np.mean(targets[500:] - target.moments()[0])) < 0.05 * targets.std()
    assert (target.interval(0.95)[0] > 0.0).all()
    assert isinstance(result.model.calibration, Calibration)


def filled_in(random: np.random.Generator, rows: int) -> Dataset:
    """A tenth of either column's cells are zero and marked: noise of two sizes."""
    x = random.normal(size=(rows, 2))
    targets = np.sin(2.0 * x[:, 0]) + x[:, 1] + 0.1 * random.normal(size=rows)
    gone = random.random((rows, 2)) < 0.1
    x[gone] = 0.0
    inputs = np.column_stack((x[:, 0], gone[:, 0], x[:, 1], gone[:, 1])).astype(np.float64)
    return Dataset(inputs=inputs, targets=targets, indicator=np.array([False, True, False, True]))


@pytest.mark.slow
def test_folds_unlike_the_fit_do_not_make_it_too_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds with latent variances far above the fit's once shrank the fit's own."""
    spec = TrainSpec(basis_size=15, seed=3, calibrate=Calibrate.CROSS_FIT)
    dataset, fresh = filled_in(np.random.default_rng(0), 600), filled_in(np.random.default_rng(1), 5000)
    found = train(dataset, spec)
    assert found.report.calibration.by == "leave-one-out"
    assert coverage(found, fresh.inputs, fresh.targets, 0.95) > 0.92
    monkeypatch.setattr(core.train.calibrate, "CHECKED_LEVELS", ())
    misled = train(dataset, spec)
    assert misled.report.calibration.by == "cross-fitting"
    assert coverage(misled, fresh.inputs, fresh.targets, 0.95) < 0.9
