"""Theta of a full Gaussian process on many rows, by blocks of them.

    1. kernel: each family's theta moves on some blocks of near rows; the one of the lowest predictive loss of the rows
       of other blocks, each without itself and with noise that varies
    2. rounds: blocks in units of the lengthscales found, noise that varies learnt from rows left out of their blocks,
       theta moved on the block-composite likelihood with that noise (`core.process.near_blocks`), at last on larger
       blocks where there is little noise

A table of EXACT_ROWS is one block. Where rows come in groups, and new ones will be of others, blocks have no two rows
of one group. O(n BLOCK_ROWS^2) for each evaluation.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters, KernelFamily
from core.numeric.threads import map_in_order
from core.predict.calibration import LeftOut, loss_of, scales
from core.predict.model import log_noise
from core.process.exact import exact_nlml_and_gradient
from core.process.near_blocks import blocks_nlml_and_gradient, near_blocks, random_blocks
from core.process.rows import Rows
from core.process.theta import Box
from core.row_groups import Grouping, RowGroups
from core.spec import Effort, KernelChoice, Noise, TrainSpec
from core.train.fit import Subset
from core.train.noise import left_out_in_blocks, varying_noise
from core.train.optimise import box, descend, heuristic, noisy

EXACT_ROWS = 2_000
"""Rows up to which theta is found by the exact likelihood of all of them, and the mean in closed form."""
BLOCK_ROWS, RANDOM_BLOCKS = 400, 2
LEAST_BLOCK, LEAST_ACROSS = 5, 200
"""Rows of a block at least, where blocks have no two rows of one group; rows in all of these blocks that are enough,
where they are not half of all rows."""
LARGE_ROWS, LARGE_BLOCKS = 1_000, 5
"""Rows of a block in the last round where there is little noise, and such blocks of near rows, at most, to which comes
a random one: what a function without noise does over long ranges shows in larger blocks ..."""
LITTLE_NOISE = 1e-3
"""... and what little is, as a share of the target's mean square."""
COMPARED_BLOCKS, COMPARED_ROWS = 6, 2_000
"""Blocks that kernels are fitted on, and rows of others that they are compared on, at most."""
KERNEL_STEPS, ROUND_STEPS, EXACT_STEPS = 15, (12, 15), 20
"""Evaluations of theta for each kernel, in each round, and on all rows of a small table ..."""
BEST_STEPS = 2
"""... and how many times as many with the best effort, which ends with twice as many larger blocks on any table."""
FAMILIES_SHARE, FAMILY_SHARE = 0.6, 0.3
"""Share of the time that the descents before the rounds take: of several kernels, and of one."""
FIRST_STEP = 0.2
NOISE_ROWS = 4_000
"""Rows that are enough to see how the noise varies while theta moves."""
MOST_RATIO = 5.0
"""log of the noise over s2 is held within this either way while theta moves."""
SCREENED_ROWS, POLISHED = 500, 2
"""Rows on which starts are compared, and how many of them go on with all."""
REACHES = (1.0, 0.5)
"""Lengthscales, over those of the start, from which the exact likelihood is climbed ..."""
BEST_SCREENED_ROWS, BEST_KERNEL_STEPS = 1_000, 60
"""... and with the best effort from such shares of sqrt(columns) standard deviations too, on more rows and for longer:
a few hundred rows of many columns may take noise for signal, and a climb from there stays there."""

NEAR_LOSS = 0.1
"""Nats a row by which a rougher kernel may be behind in blocks, and yet be the better one for all rows: these are
nearer to each other than those of a block, and kernels differ most in what they say of short distances."""

Tell = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockTheta:
    """theta, s2 the noise of a row that has no more than the others. rougher: the kernel a step rougher than its own,
    where blocks do not tell the two apart; none where theta is by all rows."""

    theta: Hyperparameters
    rougher: KernelFamily | None = None


def block_theta(
    subset: Subset, learning: IntArray, start: Hyperparameters, spec: TrainSpec, random: np.random.Generator, tell: Tell
) -> BlockTheta:
    """Return theta, and whether a rougher kernel was near.

    Args:
        subset: the rows, n of them.
        learning: places of those that theta may see, (m,).
        start: theta of a gaussian process on a few hundred of them.
        spec: kernel; whether noise may vary.
        random: draws blocks.
        tell: hears the share that is done; may raise to cancel.
    """
    rows, bounds = subset.rows.take(learning, workers=subset.rows.workers), box(subset.rows)
    start = noisy(start, rows)
    asked = spec.kernel
    families = list(KernelFamily) if asked is KernelChoice.AUTO else [KernelFamily(asked)]
    times = BEST_STEPS if spec.effort is Effort.BEST else 1
    groups = subset.dataset.row_groups.take(learning)
    if groups.by is Grouping.GROUP:
        return BlockTheta(theta=_theta_of_groups(rows, groups, start, families, bounds, times, tell))
    if len(rows) <= EXACT_ROWS:
        theta = _exact_theta(rows, start, families, bounds, times, tell)
        whole = [np.arange(len(rows))]
        ratio = _noise_ratio(subset, learning, rows, whole, theta, spec, random)
        if ratio is None:
            return BlockTheta(theta=theta)
        theta, _ = _climbed(rows, whole, theta, ratio, bounds, times * EXACT_STEPS, tell, (0.6, 0.4))
        return BlockTheta(theta=theta)
    (own,) = random.spawn(1)

    def judge(blocks: Sequence[IntArray], theta: Hyperparameters) -> float:
        draws = deepcopy(own)  # the same for every family
        left_out = _left_out_of(subset, learning, rows, blocks, theta, draws, COMPARED_ROWS)
        if spec.noise is not Noise.CONSTANT:
            learnt = varying_noise(subset.dataset, left_out, draws, workers=rows.workers)
            left_out = left_out if learnt is None else learnt.left_out
        return float(loss_of(left_out, *scales(left_out)).mean())

    families_share = FAMILIES_SHARE if len(families) > 1 else FAMILY_SHARE
    found = _best_family(
        rows, start, families, bounds, times * KERNEL_STEPS, random, judge, lambda done: tell(families_share * done)
    )
    theta = found.theta
    ratio = None
    for number, steps in enumerate(ROUND_STEPS):
        blocks = near_blocks(rows.X, theta.weights[rows.groups], BLOCK_ROWS)
        if number == 0:
            ratio = _noise_ratio(subset, learning, rows, blocks, theta, spec, random)
        elif spec.effort is Effort.BEST or theta.noise_variance < LITTLE_NOISE * rows.mean_square:
            blocks = _some(near_blocks(rows.X, theta.weights[rows.groups], LARGE_ROWS), times * LARGE_BLOCKS, random)
            blocks += random_blocks(len(rows), LARGE_ROWS, 1, random)
        blocks += random_blocks(len(rows), BLOCK_ROWS, RANDOM_BLOCKS, random)
        share = (1.0 - families_share) / len(ROUND_STEPS)
        part = (families_share + number * share, share)
        theta, _ = _climbed(rows, blocks, theta, ratio, bounds, times * steps, tell, part)
    return replace(found, theta=theta)


def _some(blocks: Sequence[IntArray], most: int, random: np.random.Generator) -> list[IntArray]:
    """Return so many of the blocks at most."""
    return [blocks[place] for place in np.sort(random.permutation(len(blocks))[:most])]


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
    blocks = blocks_of_groups(rows, groups, start)
    found: list[tuple[Hyperparameters, float]] = []
    for number, family in enumerate(families):
        part = (number / len(families), 1.0 / len(families))
        start_of = replace(start, kernel=family)
        found.append(_climbed(rows, blocks, start_of, None, bounds, times * EXACT_STEPS, tell, part))
    return min(found, key=lambda outcome: outcome[1])[0]


def blocks_of_groups(rows: Rows, groups: RowGroups, start: Hyperparameters) -> list[IntArray]:
    """Return blocks without two rows of one group, of at most BLOCK_ROWS rows; blocks of near rows where these would
    leave out most rows, for groups so few that no likelihood across them says anything."""
    blocks = [block for block in groups.blocks(BLOCK_ROWS) if len(block) >= LEAST_BLOCK]
    enough = min(len(rows) // 2, LEAST_ACROSS)
    return blocks if sum(map(len, blocks)) >= enough else near_blocks(rows.X, start.weights[rows.groups], BLOCK_ROWS)


def _climbed(
    rows: Rows,
    blocks: Sequence[IntArray],
    theta: Hyperparameters,
    ratio: FloatArray | None,
    bounds: Box,
    steps: int,
    tell: Tell,
    part: tuple[float, float],
) -> tuple[Hyperparameters, float]:
    done = 0

    def objective(candidate: Hyperparameters) -> tuple[float, FloatArray]:
        nonlocal done
        done += 1
        tell(part[0] + part[1] * min(done / steps, 1.0))
        return blocks_nlml_and_gradient(rows, blocks, candidate, ratio)

    return descend(objective, theta, bounds, steps, settled=1e-4 * len(rows), first_step=FIRST_STEP)


def _best_family(
    rows: Rows,
    start: Hyperparameters,
    families: Sequence[KernelFamily],
    bounds: Box,
    steps: int,
    random: np.random.Generator,
    judge: Callable[[Sequence[IntArray], Hyperparameters], float],
    tell: Tell,
) -> BlockTheta:
    """Theta of the family with the lowest predictive loss on blocks that it has not seen, as `judge` has it."""
    cut = near_blocks(rows.X, start.weights[rows.groups], BLOCK_ROWS)
    order = random.permutation(len(cut))
    half = min(COMPARED_BLOCKS, len(cut) // 2)
    seen, unseen = [cut[place] for place in order[:half]], [cut[place] for place in order[half:]]
    seen += random_blocks(len(rows), BLOCK_ROWS, 1, random)
    tried: list[tuple[float, Hyperparameters]] = []
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
            return BlockTheta(theta=theta)
        tried.append((judge(unseen, theta), theta))
        tell((number + 1) / len(families))
    losses = [loss for loss, _ in tried]
    best = int(np.argmin(losses))
    near = best + 1 < len(tried) and losses[best + 1] < losses[best] + NEAR_LOSS
    return BlockTheta(theta=tried[best][1], rougher=families[best + 1] if near else None)


def _exact_theta(
    rows: Rows, start: Hyperparameters, families: Sequence[KernelFamily], bounds: Box, times: int, tell: Tell
) -> Hyperparameters:
    """The likeliest theta: each family from several starts on some of the rows, the best of these on all."""
    starts = [
        replace(start, kernel=family, lengthscales=start.lengthscales * reach)
        for family in families
        for reach in REACHES
    ]
    most, steps = SCREENED_ROWS, KERNEL_STEPS
    if times > 1:
        starts += [heuristic(rows, reach=reach, kernel=family) for family in families for reach in REACHES]
        most, steps = BEST_SCREENED_ROWS, BEST_KERNEL_STEPS
    everything = np.arange(len(rows))
    screened = _descents(rows, everything[:: -(-len(rows) // most)], starts, bounds, steps, tell, 0.0)
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
    left_out = _left_out_of(subset, learning, rows, blocks, theta, random, NOISE_ROWS)
    learnt = varying_noise(subset.dataset, left_out, random, workers=rows.workers)
    if learnt is None:
        return None
    logarithm = log_noise(learnt.noise, subset.dataset.inputs[learning])
    return np.asarray(np.exp(np.clip(logarithm - logarithm.mean(), -MOST_RATIO, MOST_RATIO)))


def _left_out_of(
    subset: Subset,
    learning: IntArray,
    rows: Rows,
    blocks: Sequence[IntArray],
    theta: Hyperparameters,
    random: np.random.Generator,
    most: int,
) -> LeftOut:
    """Rows of so many blocks, each predicted by the others of its block, with the noise that they ask for."""
    some = list(blocks)
    while sum(map(len, some)) > most and len(some) > 1:
        some.pop(int(random.integers(len(some))))
    left_out = left_out_in_blocks(rows, some, theta, subset.dataset.row_groups.take(learning))
    return replace(left_out, places=learning[left_out.places])
