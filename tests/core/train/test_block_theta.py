"""core/train/block_theta.py: theta of a full process where noise is taken for roughness, and roughness for noise."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters, KernelFamily
from core.process.near_blocks import blocks_nlml_and_gradient
from core.process.rows import Rows
from core.row_groups import RowGroups
from core.spec import Effort, KernelChoice, Noise, TrainSpec
from core.train import block_theta, full_process
from core.train.fit import Subset
from core.train.noise import LEAST_SHARE, left_out_in_blocks
from core.train.optimise import heuristic
from core.train.other_processes import processes_of

ROWS = 900


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_theta, "EXACT_ROWS", 0)
    monkeypatch.setattr(block_theta, "BLOCK_ROWS", 100)


def subset_of(seed: int, *, quiet: float, loud: float, quickly: float = 2.0) -> Subset:
    """Waves of the first column; in a third of the second, the noise is another."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2.0, 2.0, size=(ROWS, 2))
    noise = np.where(X[:, 1] > 0.7, loud, quiet) * random.normal(size=ROWS)
    dataset = Dataset(inputs=X, targets=np.sin(quickly * X[:, 0]) + noise)
    return Subset.of(dataset, np.arange(ROWS), standardize=True, workers=1)


def found_by(subset: Subset, start: Hyperparameters, **spec: Any) -> block_theta.BlockTheta:
    asked = TrainSpec(**{"effort": Effort.NORMAL, "kernel": KernelChoice.AUTO, **spec})
    random = np.random.default_rng(0)
    return block_theta.block_theta(subset, np.arange(ROWS), start, asked, random, lambda _: None)


def theta_of(subset: Subset, start: Hyperparameters, **spec: Any) -> Hyperparameters:
    return found_by(subset, start, **spec).theta


@pytest.mark.parametrize("way", ["exact", "blocks"])
def test_a_rough_kernel_that_starts_without_noise_finds_it(way: str, request: pytest.FixtureRequest) -> None:
    """A start on a few rows may have none; there the likelihood does not feel the noise, and a climb stayed."""
    if way == "blocks":
        request.getfixturevalue("by_blocks")
    subset = subset_of(1, quiet=0.3, loud=0.3, quickly=1.0)
    start = replace(heuristic(subset.rows, reach=0.07), noise_variance=1e-8)
    found = theta_of(subset, start, kernel=KernelChoice.MATERN12, noise=Noise.CONSTANT)
    share = 0.3**2 / (0.5 + 0.3**2)
    assert found.kernel is KernelFamily.MATERN12
    assert 0.5 * share < found.noise_variance < 1.5 * share


@pytest.mark.slow
@pytest.mark.usefixtures("by_blocks")
def test_noise_that_varies_is_no_roughness() -> None:
    """The likelihood with constant noise prefers a rough kernel for this function, which is as smooth as any."""
    subset = subset_of(0, quiet=0.05, loud=2.0)
    assert theta_of(subset, heuristic(subset.rows)).kernel is KernelFamily.GAUSSIAN


@pytest.mark.usefixtures("by_blocks")
def test_noise_that_is_constant_is_asked_for_where_kernels_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a model of the noise was asked for")

    monkeypatch.setattr(block_theta, "varying_noise", refuse)
    subset = subset_of(1, quiet=0.1, loud=0.1)
    theta_of(subset, heuristic(subset.rows), noise=Noise.CONSTANT)
    with pytest.raises(AssertionError, match="model of the noise"):
        theta_of(subset, heuristic(subset.rows), noise=Noise.AUTO)


@pytest.mark.parametrize("signal", [1e-3, 1.0])
def test_noise_is_taken_for_a_share_of_the_errors_where_they_ask_for_more(signal: float) -> None:
    """A function too flat for its target leaves errors that its noise, next to nothing, does not explain."""
    subset = subset_of(0, quiet=0.3, loud=0.3)
    theta = replace(heuristic(subset.rows), signal_variance=signal, noise_variance=1e-8 if signal < 1.0 else 0.2)
    found = left_out_in_blocks(subset.rows, [np.arange(400), np.arange(400, ROWS)], theta, RowGroups())
    noise = LEAST_SHARE * np.mean(np.square(found.error)) if signal < 1.0 else 0.2
    np.testing.assert_allclose(found.noise_variance, noise, rtol=1e-9)


def test_a_process_of_almost_no_noise_has_error_bars_that_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A theta that takes all noise for roughness leaves nothing that could vary, and one width for all rows."""
    subset = subset_of(2, quiet=0.05, loud=1.0)
    rough = replace(heuristic(subset.rows, kernel=KernelFamily.MATERN12), signal_variance=0.02, noise_variance=1e-6)
    spec, nothing = TrainSpec(effort=Effort.NORMAL), np.empty(0, np.int64)

    def losses() -> float:
        random = np.random.default_rng(0)
        found = full_process.full_process(subset, nothing, rough, spec, (0, 0), random, lambda _: None)
        return float(full_process.losses(found.read, nothing).mean())

    ours = losses()
    monkeypatch.setattr(full_process, "noise_share", lambda _: 1.0)
    assert ours < losses() - 0.1


def test_noise_that_theta_takes_for_roughness_is_noise_for_error_bars() -> None:
    """A rough kernel with next to no noise: left-out errors that vary are predicted better by noise that does, though
    the latent variance is about as large as they are."""
    random = np.random.default_rng(5)
    inputs = random.uniform(-2.0, 2.0, (400, 1))
    noise = np.where(inputs[:, 0] < 0.0, 0.02, 0.6) * random.normal(size=400)
    dataset = Dataset(inputs=inputs, targets=np.sin(2.0 * inputs[:, 0]) + noise)
    subset = Subset.of(dataset, np.arange(400), standardize=True, workers=1)
    theta = Hyperparameters(
        lengthscales=np.full(1, 0.02),
        signal_variance=1.0,
        bias_variance=0.0,
        noise_variance=1e-7,
        kernel=KernelFamily.MATERN12,
    )
    held_out = np.arange(0, 400, 10)

    def process(spec: TrainSpec) -> full_process.FullProcess:
        draws = np.random.default_rng(1)
        return full_process.full_process(subset, held_out, theta, spec, (0, 1), draws, lambda _: None)

    varying = process(TrainSpec(effort=Effort.NORMAL))
    constant = process(TrainSpec(effort=Effort.NORMAL, noise=Noise.CONSTANT))
    assert varying.read.noise is not None
    assert varying.theta.noise_variance > 1e3 * theta.noise_variance
    losses = [full_process.losses(found.read, held_out).mean() for found in (varying, constant)]
    assert losses[0] < losses[1] - 0.1


@pytest.mark.usefixtures("by_blocks")
def test_the_next_rougher_kernel_is_named_where_blocks_hold_it_for_near(monkeypatch: pytest.MonkeyPatch) -> None:
    subset = subset_of(0, quiet=0.1, loud=0.1)
    start, order = heuristic(subset.rows), list(KernelFamily)
    for within, named in ((np.inf, True), (0.0, False)):
        monkeypatch.setattr(block_theta, "NEAR_LOSS", within)
        found = found_by(subset, start, noise=Noise.CONSTANT)
        place = order.index(found.theta.kernel)
        assert place + 1 < len(order)
        assert found.rougher is (order[place + 1] if named else None)
    assert found_by(subset, start, kernel=KernelChoice.GAUSSIAN, noise=Noise.CONSTANT).rougher is None


@pytest.mark.usefixtures("by_blocks")
def test_best_effort_and_little_noise_end_with_larger_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_theta, "LARGE_ROWS", 300)
    monkeypatch.setattr(block_theta, "LARGE_BLOCKS", 1)
    sizes: list[list[int]] = []
    evaluated = blocks_nlml_and_gradient

    def noted(rows: Rows, blocks: Sequence[IntArray], *others: Any) -> tuple[float, FloatArray]:
        sizes.append(sorted(map(len, blocks))[::-1])
        return evaluated(rows, blocks, *others)

    monkeypatch.setattr(block_theta, "blocks_nlml_and_gradient", noted)
    for effort, noise, largest in (
        (Effort.NORMAL, 0.1, [100, 100]),
        (Effort.NORMAL, 0.0, [300, 300, 100]),
        (Effort.BEST, 0.1, [300, 300, 300, 100]),
    ):
        sizes.clear()
        subset = subset_of(0, quiet=noise, loud=noise)
        found_by(subset, heuristic(subset.rows), effort=effort, kernel=KernelChoice.GAUSSIAN, noise=Noise.CONSTANT)
        assert sizes[-1][: len(largest)] == largest


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "reach", "kink", "squares"), [(4, 1.5, 3.0, 0.012), (6, 2.0, 1.0, 0.03)])
def test_a_mean_whose_iterations_do_not_end_is_tried_with_more_noise(
    columns: int, reach: float, kink: float, squares: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smooth kernel with next to no noise for a target with a kink, as large blocks may learn it. Noise is raised
    until left-out rows no longer gain, and preconditioners with it."""
    random = np.random.default_rng(0)
    inputs = random.uniform(-1.0, 1.0, (ROWS, columns))
    dataset = Dataset(inputs=inputs, targets=kink * np.abs(inputs[:, 0] - inputs[:, 1]) + np.sin(inputs[:, 2]))
    subset = Subset.of(dataset, np.arange(ROWS), standardize=True, workers=1)
    theta = replace(heuristic(subset.rows), lengthscales=np.full(columns, reach), noise_variance=1e-9)
    monkeypatch.setattr(full_process, "EXACT_ROWS", 0)
    asked = (TrainSpec(effort=Effort.NORMAL), (0, 1), random, lambda _: None)
    found = full_process.full_process(subset, np.arange(0, ROWS, 10), theta, *asked)
    (one_of_many,) = processes_of([subset], np.arange(0, ROWS, 10), replace(found, theta=theta), *asked)
    for process in (found, one_of_many):
        assert process.mean.settled
        assert np.mean(np.square(subset.rows.y - process.mean.left_out)) < squares
