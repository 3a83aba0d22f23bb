"""core/train/transform_choice.py: targets made by a known map are learnt by it, others as they are."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.predict.model import ModelPredictor
from core.spec import Adaptation, Artefact, KernelChoice, TargetTransform, TrainSpec
from core.train.block_judge import BlockJudge, Judgement
from core.train.run import train
from core.train.transform_choice import (
    LEAST_ROWS,
    TransformChoice,
    better_kinds,
    choose_transform,
    transform_asked,
    values_of,
)
from tests.benchmarks.emulators import EMULATORS

MADE: dict[str, tuple[Callable[[FloatArray, np.random.Generator], FloatArray], set[TargetTransform]]] = {
    "normal": (lambda t, _: t, {TargetTransform.NONE}),
    "log-normal": (lambda t, _: np.exp(t), {TargetTransform.LOG}),
    "counts": (lambda t, random: random.poisson(np.exp(1.5 * t + 1.0)).astype(np.float64), {TargetTransform.LOG1P}),
    "two-sided": (lambda t, _: np.sinh(3.0 * t), {TargetTransform.RANK_NORMAL}),
}

AUTO = TrainSpec(target_transform=TargetTransform.AUTO)


def chosen(name: str, seed: int = 0) -> TransformChoice:
    random = np.random.default_rng(seed)
    x = random.uniform(0.0, 3.0, size=(200, 2))
    y = MADE[name][0](np.sin(2.0 * x[:, 0]) + 0.5 * random.normal(size=200), random)
    return choose_transform(BlockJudge(Dataset(inputs=x, targets=y), np.arange(200), AUTO, random))


@pytest.mark.parametrize("name", MADE)
def test_targets_are_learnt_by_the_map_that_made_them(name: str) -> None:
    found = chosen(name)
    assert found.transform.kind in MADE[name][1], found.reason
    told = f"learnt as {found.transform.kind}: gains over none on 200 left-out rows" in str(found.reason)
    assert told or (found.reason is None and name == "normal")  # nothing to compare


def test_a_transform_whose_means_are_worse_is_not_taken() -> None:
    """Most rows lie near one value: ranks spread these out, and means of the others suffer."""
    random = np.random.default_rng(0)
    x = random.uniform(0.0, 3.0, size=(300, 1))
    smooth = 1.0 - np.exp(np.exp(x[:, 0])) / np.exp(np.exp(3.0)) + 1e-3 * random.normal(size=300)
    found = choose_transform(BlockJudge(Dataset(inputs=x, targets=smooth), np.arange(300), AUTO, random))
    assert found.reason is not None
    assert "squared errors are larger" in found.reason
    assert found.transform.kind is TargetTransform.NONE


def test_of_better_kinds_none_has_larger_squared_errors_than_another() -> None:
    """Ranks may have the best density and means that suffer: the power is taken, whose means do not."""
    random = np.random.default_rng(0)
    noise, ones = 0.1 * random.normal(size=400), np.ones(400)
    standing = Judgement(density=np.zeros(400), squares=ones)
    power = Judgement(density=0.3 + noise, squares=0.7 * ones)
    ranks = Judgement(density=0.4 + noise, squares=0.95 * ones)
    worse = Judgement(density=-0.3 + noise, squares=0.5 * ones)  # not better than none, and no measure
    kinds = TargetTransform.YEO_JOHNSON, TargetTransform.RANK_NORMAL, TargetTransform.LOG
    found = dict(zip(kinds, (power, ranks, worse), strict=True))
    assert list(better_kinds(found, standing)) == [TargetTransform.YEO_JOHNSON]
    near = Judgement(density=ranks.density, squares=0.7 * ones)
    assert list(better_kinds({**found, TargetTransform.RANK_NORMAL: near}, standing)) == list(kinds[:2])


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [(KernelChoice.AUTO, TargetTransform.NONE), (KernelChoice.MATERN32, TargetTransform.YEO_JOHNSON)],
)
def test_a_transform_that_only_a_rough_kernel_prefers_is_taken_for_that_alone(
    kernel: KernelChoice, kind: TargetTransform
) -> None:
    """The flow through a borehole, whose tail a power draws in: a smooth kernel predicts it as it is with a third of
    the errors that the rough one leaves of the power."""
    table = EMULATORS["borehole"].draw(700, 0)
    dataset, spec = Dataset(inputs=table[:, :-1], targets=table[:, -1]), replace(AUTO, kernel=kernel)
    told: list[float] = []
    found = choose_transform(BlockJudge(dataset, np.arange(700), spec, np.random.default_rng(0)), told.append)
    assert found.transform.kind is kind
    assert told == sorted(told)
    assert told[-1] <= 1.0
    assert ("the gaussian kernel predicts better without" in str(found.reason)) == (kernel is KernelChoice.AUTO)


def test_logarithms_are_compared_where_they_make_targets_more_normal_than_a_power_does() -> None:
    random = np.random.default_rng(1)
    positive = np.exp(random.normal(size=400))
    few_zeros = np.where(random.uniform(size=400) < 0.05, 0.0, 50.0 * np.exp(0.8 * random.normal(size=400)))
    assert "log " in str(reason_of(positive))
    assert "yeo-johnson" in str(reason_of(few_zeros))
    assert "log1p" not in str(reason_of(few_zeros))


def test_ranks_are_not_compared_where_many_targets_are_equal() -> None:
    """The density of ranks at a value that 5% of the rows share is as high as its neighbours are near."""
    random = np.random.default_rng(2)
    y = random.standard_t(2, size=400)
    assert "rank-normal" in str(reason_of(y))
    y[:20] = 3.0
    assert "rank-normal" not in str(reason_of(y))


def test_auto_keeps_the_target_as_it_is_where_the_mean_alone_is_stored() -> None:
    random = np.random.default_rng(3)
    dataset = Dataset(inputs=random.normal(size=(100, 2)), targets=np.exp(random.normal(size=100)))
    found = transform_asked(BlockJudge(dataset, np.arange(100), replace(AUTO, artefact=Artefact.MEAN), random))
    assert (found.transform.kind, found.reason) == (TargetTransform.NONE, None)


def reason_of(y: FloatArray) -> str | None:
    """Why unrelated inputs and these targets are learnt as they are."""
    random = np.random.default_rng(4)
    dataset = Dataset(inputs=random.normal(size=(len(y), 1)), targets=y)
    return choose_transform(BlockJudge(dataset, np.arange(len(y)), AUTO, random)).reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "log-normal"])
def test_the_choice_does_not_hang_on_the_draw(name: str) -> None:
    assert sum(chosen(name, seed).transform.kind in MADE[name][1] for seed in range(10)) >= 9


@pytest.mark.parametrize(
    ("targets", "looks"),
    [
        ([0.0, 3.0, 17.0], "counts"),
        ([0.0, 0.25, 1.0], "shares from 0 to 1"),
        ([0.0, 3.5], "a quantity that is never negative"),
        ([-1.0, 3.0], "any number"),
    ],
)
def test_values_are_told_from_what_they_are(targets: list[float], looks: str) -> None:
    assert values_of(np.array(targets)) == looks


def test_few_rows_are_learnt_as_they_are() -> None:
    random = np.random.default_rng(0)
    y: FloatArray = np.exp(random.normal(size=60))
    dataset = Dataset(inputs=random.normal(size=(60, 1)), targets=y)
    found = choose_transform(BlockJudge(dataset, np.arange(LEAST_ROWS - 1), AUTO, random))
    assert (found.transform.kind, found.transform.lowest) == (TargetTransform.NONE, 0.0)
    assert "29 rows are too few" in str(found.reason)


def test_held_out_rows_are_not_looked_at() -> None:
    """Other targets in the rows held out change the transform's numbers and not the choice."""
    random = np.random.default_rng(1)
    x = random.uniform(0.0, 3.0, size=(150, 1))
    y = np.exp(x[:, 0] + random.normal(size=150))
    learning, others = np.arange(100), np.arange(100, 150)
    first = choose_transform(BlockJudge(Dataset(inputs=x, targets=y), learning, AUTO, np.random.default_rng(2)))
    y[others] = y[others[::-1]]
    second = choose_transform(BlockJudge(Dataset(inputs=x, targets=y), learning, AUTO, np.random.default_rng(2)))
    assert first.reason == second.reason


@pytest.mark.usefixtures("short_search")
def test_a_run_with_auto_is_the_run_with_what_it_chose() -> None:
    random = np.random.default_rng(3)
    x = random.uniform(0.0, 3.0, size=(90, 1))
    dataset = Dataset(inputs=x, targets=np.exp(np.sin(2.0 * x[:, 0]) + 0.5 * random.normal(size=90)))
    quick = {"basis_size": 10, "adaptation": Adaptation(rounds=1, steps=5)}
    auto = train(dataset, TrainSpec(**quick, target_transform=TargetTransform.AUTO))  # type: ignore[arg-type]
    log = train(dataset, TrainSpec(**quick, target_transform=TargetTransform.LOG))  # type: ignore[arg-type]
    assert auto.report.target_transform.kind == "log"
    assert auto.report.target_transform.reason in auto.report.warnings
    assert log.report.target_transform.reason is None
    ours, theirs = (ModelPredictor(each.model).predict(x).interval(0.9) for each in (auto, log))
    np.testing.assert_array_equal(ours, theirs)
