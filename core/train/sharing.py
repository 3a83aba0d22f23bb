"""Choice of the targets that share theta, before anything is trained.

    1. theta of all targets together by the mean of their exact likelihoods on some of the rows, then of each by its own
       from there
    2. other rows, each left out, as both predict them, with scales of its own as published error bars have them: a
       target leaves the others where its own theta gains more than DOUBTS standard errors of the paired differences,
       and LEAST_GAIN
    3. those that left, likewise by the thetas of each other

So two functions of the same columns agree, whatever the others are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.predict.calibration import LeftOut, loss_of, scales
from core.process.rows import Rows
from core.row_groups import RowGroups, mean_by_group
from core.spec import TrainSpec
from core.train.exactly_left_out import exactly_left_out
from core.train.fit import Subset
from core.train.objective import exact_objective_and_gradient
from core.train.optimise import box, descend, heuristic

SOME_ROWS, STEPS, OWN_STEPS = 400, 25, 15
"""Rows that theta is found on, and as many others that are left out; evaluations of both descents."""
REACHES = (1.0, 0.5)
"""Lengthscales to start from, in sqrt(columns) standard deviations."""
LEAST_ROWS = 40
"""Rows of each half below which nothing tells thetas apart."""
DOUBTS, LEAST_GAIN = 2.0, 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Targets that share theta with this one, those of the same `group`, and why; unexplained: share of its variance
    that left-out rows do not know."""

    group: int
    reason: str
    unexplained: float = 1.0


def choose_sharing(
    dataset: Dataset, learning: IntArray, random: np.random.Generator, *, workers: int = 1
) -> list[Sharing]:
    """Return for the first target and each of the others with which of them it shares theta.

    Args:
        dataset: the rows with several targets, as they are learnt.
        learning: rows that may be looked at: not those held out for the report.
        random: draws the rows.
        workers: threads.

    O(STEPS + t OWN_STEPS) exact likelihoods of SOME_ROWS rows for t targets.
    """
    count = 1 + dataset.others.shape[1]
    size = min(SOME_ROWS, len(learning) // 2)
    if size < LEAST_ROWS:
        reason = f"{len(learning)} rows are too few to tell whether a theta of its own is better"
        return [Sharing(group=0, reason=reason)] * count
    order = random.permutation(learning)
    chosen = np.sort(order[: 2 * size])
    if any(np.ptp(y[chosen]) == 0.0 for y in (dataset.targets, *dataset.others.T)):
        return [Sharing(group=0, reason="one of the targets hardly varies: nothing was compared")] * count
    some = Subset.of(dataset, chosen, standardize=True, workers=workers)
    first = np.isin(chosen, order[:size])
    seen, unseen = some.rows.take(np.flatnonzero(first)), some.rows.take(np.flatnonzero(~first))
    groups = some.dataset.row_groups.take(np.flatnonzero(~first))
    objective = partial(exact_objective_and_gradient, seen)
    starts = [heuristic(seen, reach=reach) for reach in REACHES]
    tried = [descend(objective, start, box(seen), STEPS, settled=1e-4 * size) for start in starts]
    together = min(tried, key=lambda outcome: outcome[1])[0]
    judged = [_Judged(seen, unseen, groups, together, place) for place in range(-1, count - 1)]
    found: list[Sharing] = []
    leaders: list[int] = []
    for place, target in enumerate(judged):
        taken, told = target.accepts(together)
        group = 0
        if not taken:
            agreeing = (leader for leader in leaders if target.accepts(judged[leader].own)[0])
            leader = next(agreeing, place)
            leaders += [place] if leader == place else []
            group = 1 + leader
        found.append(Sharing(group=group, reason=told, unexplained=target.unexplained))
    return found


class _Judged:
    """A target, that of this place among the others or for -1 the first one, with a theta of its own."""

    def __init__(self, seen: Rows, unseen: Rows, groups: RowGroups, together: Hyperparameters, place: int) -> None:
        ours, self._rows = (rows.of_other(place) if place >= 0 else _alone(rows) for rows in (seen, unseen))
        self._groups = groups
        objective = partial(exact_objective_and_gradient, ours)
        self.own, _ = descend(objective, together, box(ours), OWN_STEPS, settled=1e-4 * len(ours), first_step=0.2)
        left_out = exactly_left_out(self._rows, self.own, groups)
        self._loss, self._places = _loss(left_out), left_out.places
        power = float(np.mean(np.square(self._rows.y[left_out.places])))
        self.unexplained = float(np.mean(np.square(left_out.error))) / power

    def accepts(self, theta: Hyperparameters) -> tuple[bool, str]:
        """Return whether its own theta is hardly better than this one, and by how much it is."""
        gains = _loss(exactly_left_out(self._rows, theta, self._groups)) - self._loss
        rows = len(gains)
        if not self._groups.alone:
            gains = mean_by_group(gains, self._groups.group[self._places])
        gain, doubt = float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
        told = f"a theta of its own {'gains' if gain > 0.0 else 'loses'} {abs(gain):.4f} nats a row over a common one "
        told += f"on {rows:,} rows left out, standard error {doubt:.4f}"
        return gain <= max(DOUBTS * doubt, LEAST_GAIN), told


def _alone(rows: Rows) -> Rows:
    return Rows(X=rows.X, y=rows.y, groups=rows.groups, workers=rows.workers)


def _loss(left_out: LeftOut) -> FloatArray:
    return np.asarray(loss_of(left_out, *scales(left_out)))


def unshared_reason(spec: TrainSpec) -> str | None:
    """Return why no two targets can share theta under a specification, None where they can."""
    if spec.calibrate is None:
        return "targets that share theta have their amplitude and noise from left-out rows: not with calibrate off"
    if spec.refinement is not None:
        return "basis vectors move for one target: not with refine"
    if spec.bounds is not None:
        return "the bounds are of one target: not with bounds"
    return None


def shared_groups(found: Sequence[Sharing]) -> list[list[int]]:
    """Return the places of the targets of each group, that with the least unexplained first."""
    order = sorted(range(len(found)), key=lambda place: found[place].unexplained)
    groups = sorted({each.group for each in found})
    return [[place for place in order if found[place].group == group] for group in groups]
