"""The full Gaussian process as a candidate: theta by blocks of near rows, mean from all rows, variance from near ones.

    1. kernel: each family's theta moves on some blocks of near rows; the one under which other blocks are likeliest
    2. rounds: blocks in units of the lengthscales found, noise that varies learnt from rows left out of their blocks,
       theta moved on the block-composite likelihood with that noise (`core.process.near_blocks`); a table of
       EXACT_ROWS is one block
       where rows come in groups, and new ones will be of others, blocks have no two rows of one group
    3. (Kff + D) alpha = y with folds in lockstep, one of them the held-out rows, which theta has not seen
    4. variances of left-out rows from the nearest rows outside their fold; noise, scales and quantiles by the errors

Nothing of it needs a sparse model. O(n BLOCK_ROWS^2) for each evaluation of theta, O(n^2) for each iteration of the
mean, O(n) kernel values and NEAREST^3 / 6 for each row predicted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters, KernelFamily
from core.mean.closed import closed_form_mean, left_out_of_blocks
from core.mean.conjugate import Iteration, Stopping
from core.mean.folds import Folds, each_left_out, held_out_and_others
from core.mean.full import Mean, full_mean, square_product
from core.mean.near import NearRows
from core.mean.precondition import SparsePreconditioner, random_basis
from core.numeric.threads import map_in_order
from core.predict.calibration import LeftOut, loss_of
from core.predict.model import log_noise
from core.process.exact import exact_nlml_and_gradient
from core.process.kernel import Kernel
from core.process.near_blocks import blocks_nlml_and_gradient, near_blocks, random_blocks
from core.process.rows import Rows
from core.process.theta import Box
from core.row_groups import Grouping, RowGroups
from core.spec import Effort, KernelChoice, Noise, TrainSpec
from core.train.calibrate import CalibrationResult, calibrate_by, grouped, recalibrated
from core.train.fit import Subset
from core.train.fold_fits import Seed
from core.train.noise import varying_noise
from core.train.optimise import box, descend

EXACT_ROWS = 2_000
"""Rows up to which theta is found by the exact likelihood of all of them, and the mean in closed form."""
MOST_ROWS = 20_000
"""Rows above which a pass over all pairs takes longer than a sparse training."""
BLOCK_ROWS, RANDOM_BLOCKS = 400, 2
LEAST_BLOCK = 5
"""Rows of a block at least, where blocks have no two rows of one group."""
COMPARED_BLOCKS, MOST_UNSEEN = 6, 20
"""Blocks that kernels are fitted on, and others that they are compared on, at most."""
KERNEL_STEPS, ROUND_STEPS, EXACT_STEPS = 15, (12, 15), 20
"""Evaluations of theta for each kernel, in each round, and on all rows of a small table ..."""
BEST_STEPS = 2
"""... and how many times as many with the best effort."""
FIRST_STEP = 0.2
FOLDS = 10
TOLERANCE = 2e-2
MOST_FOLLOWED = 3.0
"""Scale of the noise above which the mean keeps the noise of theta: what is so much larger is not noise."""
LEAST_NOISE = 1e-12
"""Noise of a row, as a share of n times the prior variance: what rounding makes of K's eigenvalues, a thousandfold."""
NOISE_ROWS = 4_000
"""Rows that are enough to see how the noise varies while theta moves."""
MOST_RATIO = 5.0
"""log of the noise over s2 is held within this either way while theta moves."""
SCREENED_ROWS, POLISHED = 500, 2
"""Rows on which starts are compared, and how many of them go on with all."""
REACHES = (1.0, 0.5)
"""Lengthscales, over those of the start, from which the exact likelihood is climbed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FullProcess:
    """A full process on n rows. D (n,): their noise variances; mean: alpha and left-out predictions; latent_variance
    (n,): of each row without its fold; left: rows that are in one; read: the calibration by these. All standardized.
    exact: theta by the likelihood of all rows, mean in closed form."""

    theta: Hyperparameters
    D: FloatArray
    mean: Mean
    latent_variance: FloatArray
    left: IntArray
    read: CalibrationResult
    exact: bool


Tell = Callable[[float], None]


def block_theta(
    subset: Subset, learning: IntArray, start: Hyperparameters, spec: TrainSpec, random: np.random.Generator, tell: Tell
) -> Hyperparameters:
    """Return theta, s2 the noise of a row that has no more than the others.

    Args:
        subset: the rows, n of them.
        learning: places of those that theta may see, (m,).
        start: theta of a gaussian process on a few hundred of them.
        spec: kernel; whether noise may vary.
        random: draws blocks.
        tell: hears the share that is done; may raise to cancel.
    """
    rows, bounds = subset.rows.take(learning, workers=subset.rows.workers), box(subset.rows)
    asked = spec.kernel
    families = list(KernelFamily) if asked is KernelChoice.AUTO else [KernelFamily(asked)]
    times = BEST_STEPS if spec.effort is Effort.BEST else 1
    groups = subset.dataset.row_groups.take(learning)
    if groups.by is Grouping.GROUP:
        return _theta_of_groups(rows, groups, start, families, bounds, times, tell)
    if len(rows) <= EXACT_ROWS:
        theta = _exact_theta(rows, start, families, bounds, times, tell)
        whole = [np.arange(len(rows))]
        ratio = _noise_ratio(subset, learning, rows, whole, theta, spec, random)
        if ratio is None:
            return theta
        return _climbed(rows, whole, theta, ratio, bounds, times * EXACT_STEPS, tell, (0.6, 0.4))
    theta, ratio = _likeliest(rows, start, families, bounds, times * KERNEL_STEPS, random, tell), None
    for number, steps in enumerate(ROUND_STEPS):
        blocks = near_blocks(rows.X, theta.weights[rows.groups], BLOCK_ROWS)
        if number == 0:
            ratio = _noise_ratio(subset, learning, rows, blocks, theta, spec, random)
        blocks += random_blocks(len(rows), BLOCK_ROWS, RANDOM_BLOCKS, random)
        part = (0.3 + 0.35 * number, 0.35)
        theta = _climbed(rows, blocks, theta, ratio, bounds, times * steps, tell, part)
    return theta


def _theta_of_groups(
    rows: Rows,
    groups: RowGroups,
    start: Hyperparameters,
    families: Sequence[KernelFamily],
    bounds: Box,
    times: int,
    tell: Tell,
) -> Hyperparameters:
    """Theta by blocks without two rows of one group: what these share, and columns that tell them apart know by heart,
    is noise for a row of a new group."""
    blocks = [block for block in groups.blocks(BLOCK_ROWS) if len(block) >= LEAST_BLOCK]
    blocks = blocks or [np.arange(len(rows))]
    found: list[tuple[float, Hyperparameters]] = []
    for number, family in enumerate(families):
        objective = partial(blocks_nlml_and_gradient, rows, blocks)
        theta, value = descend(
            objective,
            replace(start, kernel=family),
            bounds,
            times * EXACT_STEPS,
            settled=1e-4 * len(rows),
            first_step=FIRST_STEP,
        )
        found.append((value, theta))
        tell((number + 1) / len(families))
    return min(found, key=lambda pair: pair[0])[1]


def _climbed(
    rows: Rows,
    blocks: Sequence[IntArray],
    theta: Hyperparameters,
    ratio: FloatArray | None,
    bounds: Box,
    steps: int,
    tell: Tell,
    part: tuple[float, float],
) -> Hyperparameters:
    done = 0

    def objective(candidate: Hyperparameters) -> tuple[float, FloatArray]:
        nonlocal done
        done += 1
        tell(part[0] + part[1] * min(done / steps, 1.0))
        return blocks_nlml_and_gradient(rows, blocks, candidate, ratio)

    return descend(objective, theta, bounds, steps, settled=1e-4 * len(rows), first_step=FIRST_STEP)[0]


def _likeliest(
    rows: Rows,
    start: Hyperparameters,
    families: Sequence[KernelFamily],
    bounds: Box,
    steps: int,
    random: np.random.Generator,
    tell: Tell,
) -> Hyperparameters:
    """Theta of the family under which blocks that it has not seen are likeliest."""
    cut = near_blocks(rows.X, start.weights[rows.groups], BLOCK_ROWS)
    order = random.permutation(len(cut))
    half = min(COMPARED_BLOCKS, len(cut) // 2)
    seen, unseen = [cut[place] for place in order[:half]], [cut[place] for place in order[half : half + MOST_UNSEEN]]
    seen += random_blocks(len(rows), BLOCK_ROWS, 1, random)
    best: tuple[float, Hyperparameters] | None = None
    for number, family in enumerate(families):
        theta, _ = descend(
            partial(blocks_nlml_and_gradient, rows, seen),
            replace(start, kernel=family),
            bounds,
            steps,
            settled=1e-4 * len(rows),
            first_step=FIRST_STEP,
        )
        if len(families) == 1:
            return theta
        value = blocks_nlml_and_gradient(rows, unseen, theta)[0]
        if best is None or value < best[0]:
            best = value, theta
        tell(0.3 * (number + 1) / len(families))
    assert best is not None
    return best[1]


def _exact_theta(
    rows: Rows, start: Hyperparameters, families: Sequence[KernelFamily], bounds: Box, times: int, tell: Tell
) -> Hyperparameters:
    """The likeliest theta: each family from several starts on some of the rows, the best of these on all."""
    starts = [
        replace(start, kernel=family, lengthscales=start.lengthscales * reach)
        for family in families
        for reach in REACHES
    ]
    everything = np.arange(len(rows))
    screened = _descents(
        rows, everything[:: -(-len(rows) // SCREENED_ROWS)], starts, bounds, times * KERNEL_STEPS, tell, 0.0
    )
    best = [theta for theta, _ in sorted(screened, key=lambda outcome: outcome[1])[:POLISHED]]
    return min(
        _descents(rows, everything, best, bounds, times * EXACT_STEPS, tell, 0.3), key=lambda outcome: outcome[1]
    )[0]


def _descents(
    rows: Rows,
    places: IntArray,
    starts: Sequence[Hyperparameters],
    bounds: Box,
    steps: int,
    tell: Tell,
    begin: float,
) -> list[tuple[Hyperparameters, float]]:
    """Theta and objective after a descent from each start on these rows, as many at a time as there are threads."""
    some = rows.take(places)

    def climbed(start: Hyperparameters) -> tuple[Hyperparameters, float]:
        objective = partial(exact_nlml_and_gradient, some)
        return descend(objective, start, bounds, steps, settled=1e-4 * len(some), first_step=FIRST_STEP)

    found: list[tuple[Hyperparameters, float]] = []
    for outcome in map_in_order(climbed, starts, rows.workers):
        found.append(outcome)
        tell(begin + 0.3 * len(found) / len(starts))
    return found


def _noise_ratio(
    subset: Subset,
    learning: IntArray,
    rows: Rows,
    blocks: Sequence[IntArray],
    theta: Hyperparameters,
    spec: TrainSpec,
    random: np.random.Generator,
) -> FloatArray | None:
    """Noise of each row over s2, (m,), as the rows left out of their blocks say; None where it does not vary."""
    if spec.noise is Noise.CONSTANT:
        return None
    some = list(blocks)
    while sum(map(len, some)) > NOISE_ROWS and len(some) > 1:
        some.pop(int(random.integers(len(some))))
    places = np.concatenate(some)
    found = left_out_of_blocks(rows, some, theta, subset.dataset.row_groups.take(learning))
    left_out = LeftOut(
        places=learning[places],
        error=found.error,
        latent_variance=found.latent_variance,
        noise_variance=np.full(len(places), theta.noise_variance),
        far_variance=np.full(len(places), theta.signal_variance),
    )
    learnt = varying_noise(subset.dataset, left_out, random, workers=rows.workers)
    if learnt is None:
        return None
    logarithm = log_noise(learnt.noise, subset.dataset.inputs[learning])
    return np.asarray(np.exp(np.clip(logarithm - logarithm.mean(), -MOST_RATIO, MOST_RATIO)))


def full_process(
    subset: Subset,
    held_out: IntArray,
    theta: Hyperparameters,
    spec: TrainSpec,
    seed: Seed,
    random: np.random.Generator,
    tell: Tell,
) -> FullProcess:
    """Return the process on all rows at theta, with its error bars.

    Args:
        subset: the rows, n of them.
        held_out: places of rows that are a fold of their own.
        theta: of the process.
        spec: noise, intervals.
        seed: of the noise model.
        random: draws folds and the preconditioner's rows.
        tell: hears the share that is done; may raise to cancel.
    """
    task = _Task(subset, held_out, theta, spec, seed, random, tell)
    first = task.at(np.full(len(subset.rows), theta.noise_variance), 0.0, 0.6, None)
    if first.read.noise is None or first.read.calibration.noise_scale > MOST_FOLLOWED:
        return first
    second = task.at(task.following(first.read), 0.6, 0.4, first)
    return second if task.loss(second) < task.loss(first) else first


class _Task:
    """The process at one theta, for any noise; the second faster than the first."""

    def __init__(
        self,
        subset: Subset,
        held_out: IntArray,
        theta: Hyperparameters,
        spec: TrainSpec,
        seed: Seed,
        random: np.random.Generator,
        tell: Tell,
    ) -> None:
        self._subset, self._rows, self._theta, self._spec = subset, subset.rows, theta, spec
        self._seed, self._tell, self._held_out = seed, tell, held_out
        self._kernel = Kernel.of(theta, subset.rows.groups)
        self._closed = len(subset.rows) <= EXACT_ROWS
        choose = each_left_out if self._closed else held_out_and_others
        self._folds: Folds = choose(len(subset.rows), held_out, FOLDS, random, subset.dataset.row_groups)
        self._Z = random_basis(subset.rows.X, random)
        self._preconditioner: SparsePreconditioner | None = None
        self._product = (
            None if self._closed else square_product(subset.rows, self._kernel, np.array([theta.noise_variance]))
        )

    def at(self, D: FloatArray, begin: float, share: float, before: FullProcess | None) -> FullProcess:
        """Return the process with this noise; `begin` and `share` are told.

        before: with other noise, whose mean is near, and whose noise model is kept.
        """
        rows, theta = self._rows, self._theta
        D = np.maximum(D, LEAST_NOISE * len(rows) * self._kernel.diagonal)
        mean = self._mean(D, begin, 0.8 * share, None if before is None else before.mean.unknowns)
        near = NearRows(self._kernel, rows.X, D, workers=rows.workers)
        latent = near.left_out_variance(rows.X, self._folds)
        self._tell(begin + 0.9 * share)
        left = self._folds.left
        left_out = LeftOut(
            places=left,
            error=(rows.y - mean.left_out)[left],
            latent_variance=latent[left],
            noise_variance=np.full(len(left), theta.noise_variance),
            far_variance=np.full(len(left), theta.signal_variance),
            group=self._folds.fold[left] if self._folds.forward else np.empty(0, np.int64),
        )
        if before is not None:
            read = recalibrated(before.read, grouped(left_out, self._subset.dataset.row_groups), self._spec)
        else:
            by = "leave-one-out" if self._closed and self._folds.count == len(rows) else "cross-fitting"
            read = calibrate_by(self._subset.dataset, left_out, self._spec, self._seed, by, rows.workers)
        return FullProcess(
            theta=theta, D=D, mean=mean, latent_variance=latent, left=left, read=read, exact=self._closed
        )

    def following(self, read: CalibrationResult) -> FloatArray:
        """Return the noise of each row as a calibration has learnt it, (n,)."""
        logarithm = read.log_noise(self._subset.dataset, np.arange(len(self._rows)))
        return np.asarray(read.calibration.noise_scale * self._theta.noise_variance * np.exp(logarithm))

    def loss(self, found: FullProcess) -> float:
        """Return the mean predictive loss of left-out rows by the calibration, nats; of the held-out ones where there
        are any, since theta has seen the others."""
        return float(losses(found.read, self._held_out).mean())

    def _mean(self, D: FloatArray, begin: float, share: float, resume: FloatArray | None) -> Mean:
        if self._closed:
            return closed_form_mean(self._rows, self._kernel, D, self._folds).mean

        def listen(iteration: Iteration) -> None:
            self._tell(begin + share * iteration.fraction)

        if self._preconditioner is None:
            kept = self._folds.kept
            self._preconditioner = SparsePreconditioner(
                self._kernel, self._rows.X, self._Z, D, kept, self._rows.workers
            )
        return full_mean(
            self._rows,
            self._kernel,
            D,
            self._preconditioner,
            self._folds,
            stopping=Stopping(tolerance=TOLERANCE),
            listen=listen,
            resume=resume,
            product=self._product,
        )


def losses(read: CalibrationResult, places: IntArray) -> FloatArray:
    """Return the predictive loss of each of these left-out rows, nats, by a calibration that has not seen them; of all
    left-out rows, by their own calibration, where `places` is empty: (m,)."""
    left_out = read.left_out
    assert left_out is not None
    if not len(places):
        return loss_of(left_out, read.calibration.latent_scale, read.calibration.noise_scale)
    calibration = read.without(places).calibration
    order = np.argsort(left_out.places)
    chosen = left_out.take(order[np.searchsorted(left_out.places[order], places)])
    return loss_of(chosen, calibration.latent_scale, calibration.noise_scale)
