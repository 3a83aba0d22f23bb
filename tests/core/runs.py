"""Training runs that several test files share: a raw table, a quick specification, runs and their checkpoints."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from core.data import Dataset
from core.predict.model import Model
from core.sparse.posterior import SparsePosterior
from core.spec import Adaptation, TrainSpec
from core.train.progress import Checkpoint, Progress
from core.train.report import TrainResult
from core.train.run import train
from tests.core.problems import hyperparameters, problem

START = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=0.07)
QUICK: dict[str, Any] = {"basis_size": 10, "adaptation": Adaptation(rounds=2, steps=6), "pool_size": 40}


def table(seed: int = 0, n: int = 90) -> Dataset:
    """Raw units: columns of very different size, a target far from nought."""
    case = problem(seed, n=n)
    inputs = case.X * [0.01, 1.0, 300.0, 5.0] + [5.0, -2.0, 1e4, 0.0]
    return Dataset(inputs=inputs, targets=1000.0 + 25.0 * case.y, groups=case.groups)


def assert_same_posterior(ours: SparsePosterior, other: SparsePosterior) -> None:
    """Assert equality to the last bit."""
    for name, array in ours.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)
    assert ours.scalars() == other.scalars()


def assert_same_model(ours: Model, other: Model) -> None:
    """Assert equality to the last bit, the second GP with its range and the calibration's table included."""
    assert_same_posterior(ours.posterior, other.posterior)
    assert (ours.noise is None) == (other.noise is None)
    if ours.noise is not None and other.noise is not None:
        assert_same_posterior(ours.noise.posterior, other.noise.posterior)
        assert (ours.noise.lowest, ours.noise.highest) == (other.noise.lowest, other.noise.highest)
    assert (ours.mean is None) == (other.mean is None)
    if ours.mean is not None and other.mean is not None:
        assert_same_posterior(ours.mean, other.mean)
    assert (ours.near is None) == (other.near is None)
    if ours.near is not None and other.near is not None:
        np.testing.assert_array_equal(ours.near, other.near)
    first, second = ours.calibration, other.calibration
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    np.testing.assert_array_equal(first.quantiles, second.quantiles)
    assert (first.latent_scale, first.noise_scale, first.intervals, first.rows) == (
        second.latent_scale,
        second.noise_scale,
        second.intervals,
        second.rows,
    )
    assert ours.transform == other.transform


def assert_same_bits(ours: TrainResult, other: TrainResult) -> None:
    """Assert equality to the last bit of all but the seconds."""
    assert_same_model(ours.model, other.model)
    np.testing.assert_array_equal(ours.selection.indices, other.selection.indices)
    np.testing.assert_array_equal(ours.selection.gains, other.selection.gains)
    first, second = ours.report.to_json(), other.report.to_json()
    for report in (first, second):
        del report["seconds"]
        for candidate in report["candidates"]:
            del candidate["seconds"]
    assert first == second


def checkpoints_of(dataset: Dataset, spec: TrainSpec) -> tuple[TrainResult, list[Checkpoint]]:
    """An uninterrupted run, and its checkpoints as they come back from a database."""
    checkpoints: list[Checkpoint] = []

    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Checkpoint):
            checkpoints.append(saved(event))

    return train(dataset, spec, listen=listen), checkpoints


def saved(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint as it comes back from a database."""
    return Checkpoint.from_json(json.loads(json.dumps(asdict(checkpoint), allow_nan=False)))
