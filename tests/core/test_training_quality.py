"""What training must get right on data whose truth is known."""

from itertools import pairwise

import numpy as np
import pytest

from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.metrics import LEVELS, scores
from core.model import ModelPredictor
from core.prediction import predict
from core.spec import Adaptation, TrainSpec
from core.training import train
from tests.core.runs import START, table


def fast_sine(seed: int, rows: int = 1500) -> Dataset:
    random = np.random.default_rng(seed)
    x = random.uniform(-2.0, 2.0, rows)
    return Dataset(inputs=x[:, None], targets=np.sin(5.0 * x) + 0.1 * random.normal(size=rows))


@pytest.mark.parametrize("seed", [0, 2, 6])
def test_easy_data_are_learned_whatever_the_draw(seed: int) -> None:
    """A fast sine: rounds once led to ever smoother kernels and smaller bases, and published worse than the mean."""
    report = train(fast_sine(seed), TrainSpec(calibrate=None)).report
    assert report.leave_one_out.nmse is not None
    assert report.leave_one_out.nmse < 0.025
    assert 0.93 < report.leave_one_out.coverage["0.95"] < 0.97


@pytest.mark.parametrize("seed", [0, 2, 6])
def test_easy_data_have_error_bars_as_wide_as_their_errors(seed: int) -> None:
    """By default, on 20,000 fresh rows; and the calibration does not lose what the density had."""
    dataset = fast_sine(seed)
    fresh = fast_sine(seed + 100, rows=20_000)
    result = train(dataset, TrainSpec())
    assert 0.93 < result.report.leave_one_out.coverage["0.95"] < 0.97
    found = scores(fresh.targets, ModelPredictor(result.model).predict(fresh.inputs).target)
    for level in LEVELS:
        assert found.coverage[str(level)] == pytest.approx(
            level, abs=max(0.02, 3 * (level * (1 - level) / 1500) ** 0.5)
        )
    plain = ModelPredictor(train(dataset, TrainSpec(calibrate=None)).model).predict(fresh.inputs).target
    assert found.nlpd < scores(fresh.targets, plain).nlpd + 0.01


@pytest.mark.parametrize("seed", [1, 5])
def test_noise_free_data_have_honest_error_bars(seed: int) -> None:
    """The start once took a signal of 10,000 against a noise of 1e-6, beyond what a basis can follow."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(500, 2))
    new = random.normal(size=(1000, 2))
    dataset = Dataset(inputs=inputs, targets=np.sin(2.0 * inputs[:, 0]) * inputs[:, 1])
    found = predict(train(dataset, TrainSpec(seed=seed)).model.posterior, new)
    errors = found.mean - np.sin(2.0 * new[:, 0]) * new[:, 1]
    assert np.sqrt(np.mean(np.square(errors))) < 0.1
    assert np.mean(np.abs(errors) < 1.96 * np.sqrt(found.target_variance)) > 0.93


def test_rounds_never_make_the_objective_worse() -> None:
    dataset = fast_sine(6, rows=600)
    start = Hyperparameters(lengthscales=np.array([1.0]), signal_variance=1.0, bias_variance=1e-3, noise_variance=0.3)
    spec = TrainSpec(basis_size=20, adaptation=Adaptation(rounds=6, steps=3), start=start)
    objectives = train(dataset, spec).report.objectives
    assert len(objectives) > 2
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(objectives))


def test_what_there_is_too_little_of_is_said() -> None:
    few = train(table(n=30), TrainSpec(basis_size=40, adaptation=None, start=START)).report
    assert any("only" in text and "of the 40 basis vectors" in text for text in few.warnings)
    assert any("30 rows are few for 3 columns" in text for text in few.warnings)
    many = train(table(n=300), TrainSpec(basis_size=20, adaptation=None, start=START)).report
    assert many.warnings == ()
