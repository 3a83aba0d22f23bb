"""kernel: "auto" of core/train: rough targets have a rough kernel, smooth ones the gaussian."""

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.hyperparameters import KernelFamily
from core.predict.predictor import Predictor
from core.spec import Adaptation, KernelChoice, TrainSpec
from core.train.run import train
from tests.core.problems import hyperparameters
from tests.core.runs import QUICK, assert_same_bits, assert_same_model, checkpoints_of, table


def drawn(rows: int, *, rough: bool, noise: float = 0.1) -> Dataset:
    """Two columns; rough: sums of kinks, else of waves."""
    random = np.random.default_rng(0)
    X = random.uniform(-2.0, 2.0, size=(rows, 2))
    f = np.abs(np.sin(3.0 * X[:, 0])) + np.abs(X[:, 1] - 0.3) if rough else np.sin(2.0 * X[:, 0]) + np.cos(X[:, 1])
    return Dataset(inputs=X, targets=f + noise * random.normal(size=rows))


def test_on_a_small_table_it_is_chosen_by_leave_one_out() -> None:
    spec = TrainSpec(kernel=KernelChoice.AUTO, adaptation=Adaptation(rounds=1, steps=6), calibrate=None)
    for rough in (True, False):
        report = train(drawn(250, rough=rough, noise=0.03), spec).report
        found = report.hyperparameters.kernel
        assert (found is KernelFamily.GAUSSIAN) is not rough
        (reason,) = (text for text in report.warnings if text.startswith(f"the kernel is {found}: "))
        assert not rough or f"{found} 0." in reason


def test_a_rough_target_is_predicted_better_by_the_kernel_that_folds_chose() -> None:
    """Squared errors of 300 rows that no training saw."""
    dataset, errors = drawn(700, rough=True, noise=0.03), []
    for kernel in (KernelChoice.AUTO, KernelChoice.GAUSSIAN):
        spec = TrainSpec(kernel=kernel, basis_size=60, adaptation=Adaptation(rounds=1, steps=8), calibrate=None)
        result = train(dataset.take(np.arange(400)), spec)
        new = dataset.take(np.arange(400, 700))
        errors.append(float(np.mean(np.square(Predictor(result.model.posterior).mean(new.inputs) - new.targets))))
        assert (result.report.hyperparameters.kernel is KernelFamily.GAUSSIAN) is (kernel is KernelChoice.GAUSSIAN)
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.usefixtures("short_search")
def test_where_it_stays_with_the_gaussian_nothing_else_changes() -> None:
    dataset = drawn(110, rough=False)
    auto, gaussian = (train(dataset, TrainSpec(kernel=kernel)) for kernel in ("auto", "gaussian"))  # type: ignore[arg-type]  # names of choices
    assert_same_model(auto.model, gaussian.model)
    assert auto.report.warnings == (
        "the kernel is gaussian: no other makes 99 rows likelier",
        *gaussian.report.warnings,
    )


def test_a_run_that_was_cut_off_keeps_the_kernel_it_had_chosen() -> None:
    dataset = drawn(250, rough=True, noise=0.03)
    spec = TrainSpec(kernel=KernelChoice.AUTO, calibrate=None, adaptation=Adaptation(rounds=2, steps=5))
    whole, saved = checkpoints_of(dataset, spec)
    assert {checkpoint.kernel for checkpoint in saved} == {whole.report.hyperparameters.kernel.value} != {"gaussian"}
    for checkpoint in saved:
        assert_same_bits(train(dataset, spec, resume=checkpoint), whole)  # the reason too


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("family", [KernelFamily.GAUSSIAN, KernelFamily.MATERN32])
def test_given_hyperparameters_keep_their_kernel(family: KernelFamily) -> None:
    start = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=0.07, kernel=family)
    result = train(table(), TrainSpec(kernel=KernelChoice.AUTO, start=start, **QUICK))
    assert result.report.hyperparameters.kernel is family
    assert f"the kernel is {family}: with hyperparameters given none is chosen" in result.report.warnings


@pytest.mark.usefixtures("short_search")
def test_a_constant_model_is_one_with_every_kernel() -> None:
    random = np.random.default_rng(2)
    noise: FloatArray = random.normal(size=60)
    dataset = Dataset(inputs=random.normal(size=(60, 3)), targets=noise)
    result = train(dataset, TrainSpec(kernel=KernelChoice.AUTO))
    assert np.ptp(Predictor(result.model.posterior).mean(dataset.inputs)) < 0.2 * np.ptp(noise)
