"""Comparison of what a full process makes of a table under several transforms, on the same left-out rows.

Blocks of near rows (`core.process.near_blocks`) of all rows, so that a row has the neighbours that it has in the table:
theta moves on some of them, each row is predicted by the others of its block, in closed form, and gets error bars as
published ones are, with noise that varies. What is decided so holds for as many rows as there are; a few hundred random
rows say what is best for as few.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.errors import CoreError
from core.hyperparameters import Hyperparameters, KernelFamily
from core.input_transform import InputTransform
from core.predict.calibration import LeftOut, fit_calibration
from core.predict.distribution import PredictiveDistribution
from core.predict.transforms import Transform
from core.process.near_blocks import blocks_nlml_and_gradient, near_blocks, random_blocks
from core.row_groups import Grouping, mean_by_group
from core.spec import Effort, KernelChoice, Noise, TrainSpec
from core.train.fit import Subset
from core.train.noise import left_out_in_blocks, varying_noise
from core.train.objective import exact_objective_and_gradient
from core.train.optimise import box, descend, heuristic, noisy

MOST_ROWS = 20_000
"""Rows that blocks are made of, at most."""
BLOCK_ROWS, FITTED_BLOCKS, JUDGED_BLOCKS, JUDGED_SHARE = 400, 3, 10, 0.4
"""Rows of a block, blocks that theta moves on, beside a random one, and blocks that rows are left out of, at least and
as a share of all: theta takes most of the time, and blocks differ by more than their rows say ..."""
QUICK_BLOCKS = 2
"""... and both of quick judgements, for which the noise is constant too."""
DOUBTS, LEAST_GAIN, MOST_WORSE = 2.0, 0.02, 0.1
"""Standard errors, and nats a row, by which what is not plain must be better, and the share by which the squared errors
of its means may be larger by chance."""
LITTLE_WORSE, WORSE_PRICE = 0.02, 10.0
"""Share by which they may be larger beyond chance, and nats a row that have to be gained for each such share."""
START_ROWS, START_STEPS, STEPS, FIRST_STEP = 300, 25, 20, 0.2

Choice = tuple[Transform, InputTransform]
"""Transform of the target, and of the inputs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """Left-out rows under one choice, or groups of them: log density in the target's unit, nats, and squared error of
    the mean over the target's variance, times the row's weight, (m,) each."""

    density: FloatArray
    squares: FloatArray

    def gain(self, other: "Judgement") -> tuple[float, float]:
        """Return how much higher the density is than under another choice, nats a row, and the standard error."""
        return _difference(self.density, other.density)

    def has_larger_errors(self, other: "Judgement") -> bool:
        """Return whether the squared errors are larger by more than their standard error, or by MOST_WORSE.

        Up to LITTLE_WORSE does not count where the density gains WORSE_PRICE times as much: theta of another fit
        differs by as much, and error bars that know a long tail are worth more.
        """
        worse, doubt = _difference(self.squares, other.squares)
        level, (gain, _) = float(other.squares.mean()), self.gain(other)
        little = min(LITTLE_WORSE, gain / WORSE_PRICE)
        return not worse <= max(min(doubt, MOST_WORSE * level), little * level)

    def is_better(self, other: "Judgement") -> bool:
        """Return whether the density is higher by more than DOUBTS standard errors, and LEAST_GAIN, and squared errors
        are no larger."""
        gain, doubt = self.gain(other)
        return gain > max(DOUBTS * doubt, LEAST_GAIN) and not self.has_larger_errors(other)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Blocks:
    """rows: that blocks are made of, with targets in their own unit. few: places that a start is found on. judged,
    fitted: blocks that rows are left out of, and that theta moves on. seed: of the noise models."""

    rows: Dataset
    few: IntArray
    judged: list[IntArray]
    fitted: list[IntArray]
    seed: int


class BlockJudge:
    """Judges transforms of a table by the same rows, left out of their blocks, which are made when it is first asked.

    dataset: with targets in their own unit. learning: rows that may be looked at, (m,). spec: of the run. quick: by few
    rows and constant noise, as it is with the effort `quick`.
    """

    def __init__(
        self,
        dataset: Dataset,
        learning: IntArray,
        spec: TrainSpec,
        random: np.random.Generator,
        *,
        quick: bool = False,
        workers: int = 1,
    ) -> None:
        """Keep what it judges. random: draws the rows. workers: threads."""
        self.dataset, self.learning, self.spec = dataset, learning, spec
        self._random, self._workers = random, workers
        self._quick = quick or spec.effort is Effort.QUICK
        self._family = KernelFamily.MATERN32 if spec.kernel is KernelChoice.AUTO else KernelFamily(spec.kernel)
        self._known: dict[tuple[Transform, bytes, KernelFamily], Judgement | None] = {}

    @property
    def has_judged(self) -> bool:
        """Return whether anything was judged."""
        return bool(self._known)

    def judge(
        self,
        transform: Transform,
        inputs: InputTransform,
        tell: Callable[[float], None] = lambda _: None,
        *,
        family: KernelFamily | None = None,
    ) -> Judgement | None:
        """Return what comes of the rows under these transforms; None where the arithmetic breaks down.

        tell: hears the share that is done; may raise to cancel. family: of the kernel, if not that of all judgements.

        O((START_STEPS START_ROWS^3 + STEPS FITTED_BLOCKS BLOCK_ROWS^3) / 2), and a model of the noise; of the same
        transforms and kernel once.
        """
        key = transform, inputs.table.tobytes(), family or self._family
        if key not in self._known:
            try:
                self._known[key] = self._judged(transform, inputs, tell, key[-1])
            except CoreError:
                self._known[key] = None
        return self._known[key]

    def stands(self, chosen: Choice, plain: Choice, tell: Callable[[float], None] = lambda _: None) -> tuple[bool, str]:
        """Return whether a choice that was better stands, and why not.

        Where the kernel is free and the gaussian predicts the plain rows better than the kernel of the judgements does,
        the choice has to be better than that, by whichever of both predicts it better: a transform may make up for
        roughness that a smooth function does not have. One judgement, or two.
        """
        if self.spec.kernel is not KernelChoice.AUTO:
            return True, ""
        rough, smooth = self.judge(*plain), self.judge(*plain, tell, family=KernelFamily.GAUSSIAN)
        if rough is None or smooth is None or not smooth.density.mean() > rough.density.mean():
            return True, ""
        both = self.judge(*chosen), self.judge(*chosen, tell, family=KernelFamily.GAUSSIAN)
        found = max((one for one in both if one is not None), key=lambda one: float(one.density.mean()))
        gain, doubt = found.gain(smooth)
        told = (
            f"the gaussian kernel predicts better without, against which it {'gains' if gain > 0.0 else 'loses'} "
            f"{abs(gain):.4f} (standard error {doubt:.4f})"
        )
        return found.is_better(smooth), told

    @cached_property
    def _blocks(self) -> _Blocks:
        random = self._random
        some = np.sort(random.permutation(self.learning)[:MOST_ROWS])
        rows = replace(self.dataset.take(some), others=np.empty((0, 0)))
        few = np.sort(random.permutation(len(some))[:START_ROWS])
        subset = self._subset(rows, Transform(), InputTransform())
        blocks = near_blocks(
            subset.rows.X, self._start(subset, few, self._family).weights[subset.rows.groups], BLOCK_ROWS
        )
        chosen = [blocks[place] for place in random.permutation(len(blocks))]
        fitted = chosen[: QUICK_BLOCKS if self._quick else FITTED_BLOCKS]
        if len(blocks) > 1 and not self._quick:
            fitted += random_blocks(len(some), BLOCK_ROWS, 1, random)
        return _Blocks(
            rows=rows,
            few=few,
            judged=chosen[: QUICK_BLOCKS if self._quick else max(JUDGED_BLOCKS, int(JUDGED_SHARE * len(blocks)))],
            fitted=fitted,
            seed=int(random.integers(2**32)),
        )

    def _judged(
        self, transform: Transform, inputs: InputTransform, tell: Callable[[float], None], family: KernelFamily
    ) -> Judgement:
        blocks = self._blocks
        subset, random = self._subset(blocks.rows, transform, inputs), np.random.default_rng(blocks.seed)
        rows, start = subset.rows, self._start(subset, blocks.few, family)
        tell(0.2)
        objective = partial(blocks_nlml_and_gradient, rows, blocks.fitted)
        theta, _ = descend(objective, start, box(rows), STEPS, settled=1e-4 * len(rows), first_step=FIRST_STEP)
        tell(0.7)
        left_out = left_out_in_blocks(rows, blocks.judged, theta, blocks.rows.row_groups)
        if self.spec.noise is not Noise.CONSTANT and not self._quick:
            learnt = varying_noise(subset.dataset, left_out, random, workers=self._workers)
            left_out = left_out if learnt is None else learnt.left_out
        return _judgement(left_out, subset, blocks.rows, transform)

    def _subset(self, rows: Dataset, transform: Transform, inputs: InputTransform) -> Subset:
        learnt = replace(rows, targets=transform.forward(rows.targets), input_transform=inputs)
        return Subset.of(learnt, np.arange(len(learnt.targets)), standardize=True, workers=self._workers)

    def _start(self, subset: Subset, few: IntArray, family: KernelFamily) -> Hyperparameters:
        some = subset.rows.take(few)
        theta, _ = descend(
            partial(exact_objective_and_gradient, some),
            heuristic(some, kernel=family),
            box(some),
            START_STEPS,
            settled=1e-4 * len(some),
        )
        return noisy(theta, subset.rows)


def _judgement(left_out: LeftOut, subset: Subset, table: Dataset, transform: Transform) -> Judgement:
    calibration, unit, places = fit_calibration(left_out), subset.standardization, left_out.places
    variance = calibration.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    predicted = PredictiveDistribution(
        centre=unit.target_shift + unit.target_scale * (subset.rows.y[places] - left_out.error),
        variance=unit.target_scale**2 * variance,
        calibration=calibration,
        transform=transform,
    )
    order = np.argsort(places, kind="stable")  # the same for all judgements, whatever order a noise model drew
    targets = table.targets[places]
    squares = np.square(targets - predicted.moments()[0]) / np.var(table.targets)
    if len(table.weights):
        squares = table.weights[places] * squares
    density, squares = predicted.log_density(targets)[order], squares[order]
    if table.row_groups.by is Grouping.GROUP:
        group = table.row_groups.group[places[order]]
        density, squares = mean_by_group(density, group), mean_by_group(squares, group)
    return Judgement(density=density, squares=squares)


def _difference(ours: FloatArray, theirs: FloatArray) -> tuple[float, float]:
    """Mean and standard error of the paired differences."""
    gains = ours - theirs
    return float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
