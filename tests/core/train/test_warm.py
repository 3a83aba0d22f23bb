"""core/train/warm.py: a search that begins at another model."""

from dataclasses import replace

import numpy as np
import pytest

from core.hyperparameters import KernelFamily
from core.spec import Adaptation, KernelChoice, TrainSpec
from core.train.fit import Subset
from core.train.progress import Checkpoint, Progress
from core.train.run import train
from core.train.warm import WarmStart
from tests.core.problems import hyperparameters
from tests.core.runs import QUICK, table

pytestmark = pytest.mark.usefixtures("short_search")

HP = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=0.07)


def test_theta_is_where_it_was() -> None:
    """Without adaptation; with it the search begins there, and ends no worse than one without a start."""
    dataset = table(0, n=90)
    fixed = replace(TrainSpec(**QUICK), adaptation=None)
    warm = WarmStart.of(HP, HP.lengthscales, np.empty((0, 4)))
    found = train(dataset, fixed, warm=warm).report.hyperparameters
    np.testing.assert_allclose(found.lengthscales, HP.lengthscales, rtol=1e-12)
    assert found.noise_variance == pytest.approx(HP.noise_variance, rel=1e-12)
    first = train(dataset, TrainSpec(**QUICK))
    begun = WarmStart.of(first.report.hyperparameters, first.report.hyperparameters.lengthscales, np.empty((0, 4)))
    again = train(dataset, TrainSpec(**QUICK), warm=begun)
    assert again.report.objectives[-1] <= first.report.objectives[-1] + 1e-6


def test_basis_vectors_are_found_among_the_rows() -> None:
    """By value, in their order, those that are there; with other columns none."""
    dataset = table(0, n=90)
    subset = Subset.of(dataset, np.arange(10, 90), standardize=True, workers=1)
    basis = np.concatenate((dataset.inputs[[50, 12, 3, 77]], np.full((1, 4), 1e3)))
    found = WarmStart.of(HP, HP.lengthscales, basis).selection(subset)
    assert found.indices.tolist() == [50, 12, 77]
    assert not len(WarmStart.of(HP, HP.lengthscales, basis[:, :3]).selection(subset).indices)


def test_a_basis_that_is_better_is_kept() -> None:
    """A pool that is drawn at random at a fixed theta is no better than what was chosen from all rows."""
    dataset = table(1, n=90)
    spec = replace(TrainSpec(**(QUICK | {"pool_size": 90})), adaptation=None)
    good = train(dataset, spec, warm=WarmStart.of(HP, HP.lengthscales, np.empty((0, 4))))
    poor = replace(spec, pool_size=11, holdout=0.0)
    warm = WarmStart.of(HP, HP.lengthscales, good.model.posterior.basis)
    found = train(dataset, poor, warm=warm)
    assert set(found.selection.indices) >= set(good.selection.indices) or "better" in found.selection.reason


def test_columns_that_are_not_known_are_as_the_others() -> None:
    start = WarmStart.of(HP, np.array([0.5, np.nan, 4.0]), np.empty((0, 4)))
    np.testing.assert_allclose(start.theta.lengthscales, [0.5, 2.25, 4.0])
    nothing = WarmStart.of(HP, np.full(2, np.nan), np.empty((0, 4)))
    np.testing.assert_allclose(nothing.theta.lengthscales, 1.6)


def test_the_kernel_is_the_models_unless_it_is_asked_for() -> None:
    dataset, rough = table(0, n=90), replace(HP, kernel=KernelFamily.MATERN32)
    warm = WarmStart.of(rough, HP.lengthscales, np.empty((0, 4)))
    spec = replace(TrainSpec(**QUICK), adaptation=Adaptation(rounds=1, steps=2))
    same = train(dataset, replace(spec, kernel=KernelChoice.AUTO), warm=warm)
    other = train(dataset, replace(spec, kernel=KernelChoice.GAUSSIAN), warm=warm)
    assert same.report.hyperparameters.kernel is KernelFamily.MATERN32
    assert other.report.hyperparameters.kernel is KernelFamily.GAUSSIAN


def test_a_broken_run_goes_on_with_the_same_numbers() -> None:
    dataset, checkpoints = table(0, n=90), []
    warm = WarmStart.of(HP, HP.lengthscales, dataset.inputs[:5])

    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Checkpoint):
            checkpoints.append(event)

    spec = TrainSpec(**QUICK)
    whole = train(dataset, spec, warm=warm, listen=listen)
    for checkpoint in checkpoints[:2]:
        again = train(dataset, spec, warm=warm, resume=checkpoint)
        np.testing.assert_array_equal(again.model.posterior.alpha, whole.model.posterior.alpha)
