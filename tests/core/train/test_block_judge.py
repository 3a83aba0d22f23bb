"""core/train/block_judge.py: judgements of a table under transforms, against closed forms and by what was made."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.arrays import IntArray
from core.data import Dataset
from core.input_transform import InputTransform
from core.predict.calibration import LeftOut
from core.predict.transforms import Transform, transform_of
from core.row_groups import Grouping, RowGroups
from core.spec import Effort, Noise, TargetTransform, TrainSpec
from core.train import block_judge
from core.train.block_judge import BlockJudge, Judgement
from core.train.fit import Subset

PLAIN, NOTHING = Transform(), InputTransform()
SPEC = TrainSpec()


def table(rows: int = 300, seed: int = 0, **more: Any) -> Dataset:
    random = np.random.default_rng(seed)
    X = random.uniform(0.0, 3.0, size=(rows, 2))
    return Dataset(inputs=X, targets=np.exp(np.sin(2.0 * X[:, 0]) + 0.3 * random.normal(size=rows)), **more)


def judge_of(dataset: Dataset, spec: TrainSpec = SPEC, learning: IntArray | None = None) -> BlockJudge:
    everything = np.arange(len(dataset.targets)) if learning is None else learning
    return BlockJudge(dataset, everything, spec, np.random.default_rng(0))


def judged(judge: BlockJudge, transform: Transform = PLAIN) -> Judgement:
    found = judge.judge(transform, NOTHING)
    assert found is not None
    return found


def test_every_row_of_a_small_table_is_judged_in_its_own_unit() -> None:
    dataset = table()
    judge, log = judge_of(dataset), transform_of(TargetTransform.LOG, table().targets)
    plain, other = judged(judge), judged(judge, log)
    assert plain.density.shape == other.density.shape == (300,)
    error = np.log(dataset.targets) - np.sin(2.0 * dataset.inputs[:, 0])
    truth = -0.5 * np.log(2.0 * np.pi * 0.3**2) - 0.5 * np.square(error / 0.3) - np.log(dataset.targets)
    assert truth.mean() - 0.1 < other.density.mean() < truth.mean() + 0.02
    assert other.is_better(plain)
    assert not plain.is_better(other)


def test_judgements_hang_neither_on_what_was_judged_before_nor_on_threads() -> None:
    dataset = table(700)
    log = transform_of(TargetTransform.LOG, dataset.targets)
    spec = TrainSpec(effort=Effort.NORMAL)
    alone = judged(judge_of(dataset, spec), log)
    judge = BlockJudge(dataset, np.arange(700), spec, np.random.default_rng(0), workers=2)
    judged(judge)
    np.testing.assert_array_equal(judged(judge, log).density, alone.density)


def test_rows_that_may_not_be_looked_at_are_not() -> None:
    dataset = table()
    learning = np.arange(200)
    first = judged(judge_of(dataset, learning=learning)).density
    other = Dataset(inputs=dataset.inputs, targets=np.r_[dataset.targets[:200], np.full(100, 7.0)])
    np.testing.assert_array_equal(first, judged(judge_of(other, learning=learning)).density)


def test_groups_count_once_and_are_left_out_whole() -> None:
    """Two copies of each row: by itself a row knows its copy's target, without its group it does not."""
    one = table(150)
    twice = Dataset(inputs=np.repeat(one.inputs, 2, axis=0), targets=np.repeat(one.targets, 2))
    groups = RowGroups(by=Grouping.GROUP, group=np.repeat(np.arange(150), 2))
    knowing = judged(judge_of(twice))
    honest = judged(judge_of(replace(twice, row_groups=groups)))
    assert (len(knowing.density), len(honest.density)) == (300, 150)
    assert honest.squares.mean() > 1.3 * knowing.squares.mean()


def test_noise_that_varies_is_learnt_but_with_effort_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def count(*_: object, **__: object) -> None:
        asked.append(1)

    monkeypatch.setattr(block_judge, "varying_noise", count)
    for effort, noise in ((Effort.QUICK, Noise.AUTO), (Effort.NORMAL, Noise.CONSTANT), (Effort.NORMAL, Noise.AUTO)):
        judged(judge_of(table(), TrainSpec(effort=effort, noise=noise)))
    assert len(asked) == 1


def test_the_squared_errors_of_means_count() -> None:
    """A gain in density that costs a tenth of the squared errors is not taken, nor one by chance."""
    random = np.random.default_rng(1)
    density, squares = random.normal(size=1_000), random.uniform(size=1_000)
    standing = Judgement(density=density, squares=squares)
    higher = density + 0.1 + 0.05 * random.normal(size=1_000)
    assert Judgement(density=higher, squares=squares).is_better(standing)
    assert not Judgement(density=higher, squares=1.2 * squares).is_better(standing)
    assert not Judgement(density=density + 0.01, squares=squares).is_better(standing)
    unsure = density + 0.1 + 3.0 * random.normal(size=1_000)
    assert not Judgement(density=unsure, squares=squares).is_better(standing)
    assert Judgement(density=density, squares=np.full(1_000, np.nan)).has_larger_errors(standing)


@pytest.mark.parametrize(
    ("gain", "worse", "larger"),
    [(0.16, 0.012, False), (0.16, 0.018, True), (0.4, 0.018, False), (0.4, 0.022, True), (-0.1, 1e-3, True)],
)
def test_a_little_more_of_squared_errors_is_paid_for_by_density(gain: float, worse: float, larger: bool) -> None:
    """They are larger in every row, so that a standard error doubts nothing."""
    ones = np.ones(500)
    found = Judgement(density=gain * ones, squares=(1.0 + worse) * ones)
    standing = Judgement(density=0.0 * ones, squares=ones)
    assert found.has_larger_errors(standing) is larger
    assert found.is_better(standing) is (gain > 0.0 and not larger)


def test_a_judgement_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Transform] = []
    judgement = block_judge._judgement

    def count(left_out: LeftOut, subset: Subset, rows: Dataset, transform: Transform) -> Judgement:
        made.append(transform)
        return judgement(left_out, subset, rows, transform)

    monkeypatch.setattr(block_judge, "_judgement", count)
    judge, log = judge_of(table()), transform_of(TargetTransform.LOG, table().targets)
    assert not judge.has_judged
    first = judged(judge)
    assert judge.has_judged
    assert judged(judge, log) is judged(judge, log)
    assert judged(judge) is first
    assert made == [PLAIN, log]


def test_what_breaks_the_arithmetic_is_not_judged() -> None:
    """A training then says what is wrong by name, or does without."""
    dataset = table()
    assert judge_of(dataset).judge(Transform(kind=TargetTransform.YEO_JOHNSON, scale=1e-300), NOTHING) is None
    beyond = Dataset(inputs=dataset.inputs, targets=1e200 * dataset.targets)
    assert judge_of(beyond).judge(PLAIN, NOTHING) is None
