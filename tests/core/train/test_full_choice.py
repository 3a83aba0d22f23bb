"""core/train/full_choice.py: which of two models is taken, by left-out rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.errors import NotPositiveDefiniteError
from core.hyperparameters import KernelFamily
from core.predict.transforms import Transform
from core.spec import Effort, KernelChoice, MeanRows, Noise, TrainSpec
from core.train import block_theta, full_choice, full_process
from core.train.block_theta import BlockTheta
from core.train.full_choice import FullModel, Judged, full_model, prefers_full
from core.train.optimise import heuristic
from tests.core.train.test_full_process import waves, whole

BEST = TrainSpec(effort=Effort.BEST, mean_rows=MeanRows.AUTO, kernel=KernelChoice.AUTO, noise=Noise.CONSTANT)


def judged(loss: FloatArray, squares: FloatArray | None = None) -> Judged:
    return Judged(loss=loss, squares=np.ones(len(loss)) if squares is None else squares)


def test_what_is_preferred() -> None:
    """Losses of 400 rows decide, whose differences have a standard error of .05."""
    random = np.random.default_rng(0)
    other, noise = random.normal(size=400), random.normal(size=400)
    noise -= noise.mean()
    for gain, small, large in ((0.2, True, True), (0.03, True, False), (-0.03, True, False), (-0.2, False, False)):
        full = judged(other - gain + noise)
        assert prefers_full(full, judged(other), exact=True)[0] is small
        assert prefers_full(full, judged(other))[0] is large
        assert prefers_full(full, judged(other), constant=True)[0] is (gain > 0.15)
    worse = judged(other - 0.2, squares=np.full(400, 1.1))
    taken, reason = prefers_full(worse, judged(other))
    assert not taken
    assert "squared errors are larger" in reason
    for gain, squares, smaller in ((0.03, 0.9, True), (-0.03, 0.9, True), (-0.08, 0.9, False), (-0.03, 0.99, False)):
        full = judged(other - gain + noise, squares=np.full(400, squares))
        taken, reason = prefers_full(full, judged(other))
        assert taken is smaller
        assert ("squared errors of 400 are smaller by 10.0%" in reason) is smaller
        assert not prefers_full(full, judged(other), constant=True)[0]
    alike = judged(other + noise)
    assert not prefers_full(alike, judged(other))[0]
    zeros = np.zeros(4_000)
    taken, reason = prefers_full(alike, judged(other), (judged(zeros, np.full(4_000, 0.9)), judged(zeros)))
    assert taken
    assert "squared errors of 4,000 are smaller by 10.0%" in reason


@pytest.mark.parametrize(
    ("held_out", "left_out", "squares", "taken"),
    [
        (0.0, 0.03, 1.0, True),
        (0.0, 0.03, 1.03, True),
        (0.0, 0.03, 1.08, False),  # squared errors of left-out rows are larger by more than MOST_RISE
        (0.0, 0.008, 1.0, False),  # a gain below LEAST_GAIN
        (-0.08, 0.03, 1.0, False),  # held-out rows speak against it
    ],
)
def test_left_out_rows_decide_where_those_held_out_do_not(
    held_out: float, left_out: float, squares: float, taken: bool
) -> None:
    random = np.random.default_rng(1)
    other, noise = random.normal(size=400), random.normal(size=400)
    noise -= noise.mean()
    more, more_noise = random.normal(size=20_000), 0.1 * random.normal(size=20_000)
    more_noise -= more_noise.mean()
    both = judged(more - left_out + more_noise, np.full(20_000, squares)), judged(more)
    found, reason = prefers_full(judged(other - held_out + noise), judged(other), both)
    assert found is taken
    assert ("gains 0.0300 nats a row on all 20,000" in reason) is taken
    if left_out == 0.008:
        assert prefers_full(judged(other - held_out + noise), judged(other), both, least=0.0)[0]
    assert not prefers_full(judged(other - held_out + noise), judged(other), both, constant=True)[0]


def test_a_gain_on_a_few_rows_that_many_lose_by_is_none() -> None:
    random = np.random.default_rng(2)
    noise = 0.1 * random.normal(size=20_000)
    noise -= noise.mean()
    few, many = (judged(np.full(400, -0.1)), judged(np.zeros(400))), judged(np.zeros(20_000))
    for loss, taken in ((0.01, False), (0.0, True)):
        found, reason = prefers_full(*few, (judged(loss + noise), many), least=0.0)
        assert found is taken
        assert ("it loses 0.0100 nats a row on all 20,000" in reason) is not taken


def test_larger_squared_errors_of_a_few_rows_are_doubted_where_those_of_many_are_not() -> None:
    other, full = np.zeros(400), judged(np.full(400, -0.2), squares=np.full(400, 1.1))
    many = np.zeros(4_000)
    assert not prefers_full(full, judged(other), (judged(many, np.full(4_000, 1.01)), judged(many)))[0]
    assert prefers_full(full, judged(other), (judged(many, np.full(4_000, 0.99)), judged(many)))[0]


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("exact_rows", [2_000, 0])
def test_best_effort_keeps_the_kernel_that_predicts_left_out_rows_best(
    exact_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for beginning at the roughest, which is not the best: those next to the one that it keeps, alone and
    with the same draws, predict left-out rows no better."""
    for module in (block_theta, full_process):
        monkeypatch.setattr(module, "EXACT_ROWS", exact_rows)
    monkeypatch.setattr(block_theta, "BLOCK_ROWS", 60)
    dataset, shares = waves(150, noise=0.2), list[float]()
    subset, held_out = whole(dataset), np.arange(0, 150, 10)

    def model(spec: TrainSpec) -> FullModel | None:
        start = heuristic(subset.rows, reach=0.3)
        return full_model(subset, held_out, start, spec, (0, 1), shares.append)

    theta: Callable[..., BlockTheta] = block_theta.block_theta

    def roughest(*given: Any) -> BlockTheta:
        *before, spec, random, tell = given
        auto = spec.kernel is KernelChoice.AUTO
        return theta(*before, replace(spec, kernel=KernelChoice.MATERN12) if auto else spec, random, tell)

    monkeypatch.setattr(full_choice, "block_theta", roughest)
    best = model(BEST)
    assert best is not None
    assert shares == sorted(shares)
    assert shares[-1] <= 1.0
    order = list(KernelFamily)
    place = order.index(best.process.theta.kernel)
    assert place < order.index(KernelFamily.MATERN12)
    others = [model(replace(BEST, kernel=KernelChoice(family))) for family in order[max(place - 1, 0) : place + 2]]
    beside = [other.judged() for other in others if other is not None]
    assert len(beside) > 1
    assert not any(other.gains_over(best.judged()) for other in beside)


@pytest.mark.usefixtures("short_search")
def test_a_kernel_that_breaks_down_is_not_taken_by_best_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs its seconds, and not the process that there is."""
    tried: list[KernelChoice] = []
    theta = block_theta.block_theta

    def breaks(*given: Any, **named: Any) -> BlockTheta:
        tried.append(given[3].kernel)
        if len(tried) > 1:
            raise NotPositiveDefiniteError("K + D", 80, 1e-10)
        return theta(*given, **named)

    monkeypatch.setattr(full_choice, "block_theta", breaks)
    subset = whole(waves(80))
    start = heuristic(subset.rows, reach=0.3)
    found = full_model(subset, np.arange(0, 80, 10), start, BEST, (0, 1), lambda _: None)
    assert found is not None
    assert len(tried) > 1
    assert KernelChoice(found.process.theta.kernel) not in tried[1:]


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("near", [True, False])
def test_normal_effort_tries_the_next_rougher_kernel_where_blocks_hold_it_for_near(
    near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kinked function, of which blocks are made to say that the smoothest kernel is best."""
    random = np.random.default_rng(3)
    inputs = random.uniform(-2.0, 2.0, (160, 1))
    targets = np.abs(np.mod(2.0 * inputs[:, 0], 2.0) - 1.0) + 0.02 * random.normal(size=160)
    tried: list[KernelChoice] = []
    theta: Callable[..., BlockTheta] = block_theta.block_theta

    def smoothest(*given: Any) -> BlockTheta:
        *before, spec, random, tell = given
        tried.append(spec.kernel)
        if spec.kernel is not KernelChoice.AUTO:
            return theta(*before, spec, random, tell)
        found = theta(*before, replace(spec, kernel=KernelChoice.GAUSSIAN), random, tell)
        return replace(found, rougher=KernelFamily.MATERN52 if near else None)

    monkeypatch.setattr(full_choice, "block_theta", smoothest)
    subset, shares = whole(Dataset(inputs=inputs, targets=targets)), list[float]()
    start, spec = heuristic(subset.rows, reach=0.3), replace(BEST, effort=Effort.NORMAL)
    found = full_model(subset, np.arange(0, 160, 10), start, spec, (0, 1), shares.append)
    assert found is not None
    assert tried == [KernelChoice.AUTO, *([KernelChoice.MATERN52] if near else [])]
    assert found.process.theta.kernel is (KernelFamily.MATERN52 if near else KernelFamily.GAUSSIAN)
    assert shares == sorted(shares)
    assert shares[-1] <= 1.0


def test_a_process_gains_that_loses_less_and_whose_squared_errors_are_no_larger() -> None:
    loss, squares = np.array([0.0, 1.0]), np.array([1.0, 3.0])
    one = judged(loss, squares)
    assert judged(loss - 0.1, squares).gains_over(one)
    assert not judged(loss - 0.1, 1.01 * squares).gains_over(one)
    assert not judged(loss, 0.5 * squares).gains_over(one)


@pytest.mark.usefixtures("short_search")
def test_squared_errors_of_a_process_are_by_weight() -> None:
    weights = np.tile([1.0, 4.0], 40)
    dataset = replace(waves(80), weights=weights / weights.mean())
    start, spec = heuristic(whole(dataset).rows, reach=0.3), replace(BEST, kernel=KernelChoice.GAUSSIAN)
    found = full_model(whole(dataset), np.arange(0, 80, 10), start, spec, (0, 1), lambda _: None)
    assert found is not None
    left = found.process.left
    errors = dataset.targets[left] - found.left_out(Transform()).centre
    np.testing.assert_allclose(found.judged().squares, dataset.weights[left] * np.square(errors), rtol=1e-6, atol=1e-12)
