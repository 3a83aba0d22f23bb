"""Training of several targets of one table: together where they agree, each by itself where it does not.

1. targets that have the same rows may share; of those, with `share` left open, the ones whose own theta predicts
   left-out rows no better (`core.train.sharing`)
2. a run for those that share: theta by the mean of their objectives, one basis, and the candidate that the target
   predicted best takes; each with a mean, noise and calibration of its own (`core.train.others`)
3. a run for each of the rest, and for those that the shared theta predicts no better than a constant
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.errors import InvalidSpecError
from core.numeric.shards import Compute
from core.spec import TrainSpec
from core.train.held_out import grouped_rows, held_out_rows
from core.train.progress import Checkpoint, Listener, Progress
from core.train.report import TrainResult
from core.train.run import train, train_together
from core.train.search import Stage, random_of
from core.train.sharing import Sharing, choose_sharing, shared_groups, unshared_reason
from core.train.transform_choice import as_learnt, judges_of
from core.train.unlearnt import UnlearntRows
from core.train.warm import WarmStart

SHARING_STAGE = 1 << 26
"""Part of the seed of the rows that sharing is decided on."""
SHARED_PART = 0.9
"""Share of what is left of the progress that the last common run has: one of its targets may need a run of its own."""
LEAST_COMMON = 20
"""Rows that two targets must have in common for a correlation of their errors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetTable:
    """Rows of one target: their dataset, which rows of the table they are (n,), increasing, and rows that are only
    scored; warm: another model to begin at, where it is trained by itself or leads those that share."""

    dataset: Dataset
    rows: IntArray
    unlearnt: UnlearntRows | None = None
    warm: WarmStart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSharing:
    """Way in which a target was trained: `theta_with`, places of the targets that have the same theta, itself among
    them, and why."""

    theta_with: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeveralResult:
    """Results in the order of the targets, how each was trained, and the correlation of the errors of left-out rows
    (t, t), NaN where two targets have too few rows in common."""

    results: tuple[TrainResult, ...]
    sharing: tuple[TargetSharing, ...]
    correlation: FloatArray


def train_several(
    tables: Sequence[TargetTable],
    spec: TrainSpec,
    *,
    share: bool | None = None,
    listen: Listener | None = None,
    resume: Checkpoint | None = None,
    workers: int = 1,
    compute: Compute | None = None,
) -> SeveralResult:
    """Train a model for each of several targets.

    Args:
        tables: rows of each target, with the same input columns.
        spec: what is asked of every one.
        share: theta of targets with the same rows: True common, False each its own, None as left-out rows say.
        listen: hears progress, and checkpoints of the first run.
        resume: checkpoint to go on from, with the same numbers.
        workers: threads.
        compute: other processes, see `core.train.run.train`; they add up for targets that are trained by themselves.

    Raises:
        InvalidSpecError: `share` is True and something is asked that no two targets can share.
        And as `core.train.run.train` does.
    """
    unshared = unshared_reason(spec)
    if share and unshared is not None:
        raise InvalidSpecError("share", unshared)
    sharing: list[TargetSharing | None] = [None] * len(tables)
    runs: list[list[int]] = []
    for places in _same_rows(tables):
        runs += _runs(tables, places, spec, False if unshared is not None else share, sharing, workers)
    results: list[TrainResult | None] = [None] * len(tables)
    done, reached = 0, 0.0
    while done < len(runs):
        places = runs[done]
        end = reached + (1.0 - reached) / (len(runs) - done)
        if len(places) > 1 and done == len(runs) - 1:
            end = reached + SHARED_PART * (end - reached)
        hear = None if listen is None else _part(listen, reached, end, done == 0)
        reached = end
        start = resume if done == 0 else None
        first = tables[places[0]]
        if len(places) == 1:
            results[places[0]] = train(
                first.dataset,
                spec,
                listen=hear,
                resume=start,
                workers=workers,
                compute=compute,
                unlearnt=first.unlearnt,
                warm=first.warm,
            )
        else:
            unlearnt = [tables[place].unlearnt for place in places]
            joined = _joined(tables, places)
            found = train_together(
                joined, spec, unlearnt, listen=hear, resume=start, workers=workers, compute=compute, warm=first.warm
            )
            for place, result in zip(places, found, strict=True):
                results[place] = result
                if result is None:
                    reason = "at a theta common with others it is predicted no better than by a constant"
                    sharing[place] = TargetSharing(theta_with=(place,), reason=reason)
                    runs.append([place])
            kept = tuple(sorted(place for place in places if results[place] is not None))
            for place in kept:
                told = sharing[place]
                assert told is not None
                sharing[place] = replace(told, theta_with=kept)
        done += 1
    made = tuple(result for result in results if result is not None)
    how = tuple(each for each in sharing if each is not None)
    return SeveralResult(results=made, sharing=how, correlation=_correlation(tables, made))


def _same_rows(tables: Sequence[TargetTable]) -> list[list[int]]:
    """Places of the targets that have the same rows, in their order."""
    found: list[list[int]] = []
    for place, table in enumerate(tables):
        for places in found:
            other = tables[places[0]]
            same = np.array_equal(other.rows, table.rows) and np.array_equal(other.dataset.inputs, table.dataset.inputs)
            if same:
                places.append(place)
                break
        else:
            found.append([place])
    return found


def _runs(
    tables: Sequence[TargetTable],
    places: list[int],
    spec: TrainSpec,
    share: bool | None,
    sharing: list[TargetSharing | None],
    workers: int,
) -> list[list[int]]:
    """Targets of each run, the one that leads first; fills in how each is trained."""
    if len(places) == 1:
        alone = "no other target has the same rows" if len(tables) > 1 else "the only target"
        sharing[places[0]] = TargetSharing(theta_with=(places[0],), reason=alone)
        return [places]
    if share is None:
        joined = grouped_rows(_joined(tables, places))
        held_out = held_out_rows(joined, spec)
        learning = np.setdiff1d(np.arange(len(joined.targets)), held_out)
        random = random_of(spec, SHARING_STAGE)
        draws = partial(random_of, spec, Stage.TRANSFORM)
        # quick, since each run judges its own targets again, by more rows
        learnt, _ = as_learnt(joined, judges_of(joined, spec, held_out, draws, quick=True, workers=workers))
        found = choose_sharing(learnt, learning, random, workers=workers)
    elif share:
        found = [Sharing(group=0, reason="asked for")] * len(places)
    else:
        found = [Sharing(group=place, reason="not asked for") for place in places]
    runs = [[places[each] for each in group] for group in shared_groups(found)]
    for run in runs:
        for place in run:
            sharing[place] = TargetSharing(theta_with=tuple(sorted(run)), reason=found[places.index(place)].reason)
    return runs


def _joined(tables: Sequence[TargetTable], places: Sequence[int]) -> Dataset:
    """The rows with the targets of all these places, the first one's first."""
    others = np.column_stack([tables[place].dataset.targets for place in places[1:]])
    return replace(tables[places[0]].dataset, others=others)


def _part(listen: Listener, begin: float, end: float, first: bool) -> Listener:
    """Tell a run's progress as a part of the whole; checkpoints of the first run alone."""

    def hear(event: Progress | Checkpoint) -> None:
        if isinstance(event, Progress):
            listen(replace(event, fraction=begin + (end - begin) * event.fraction))
        elif first:
            listen(event)

    return hear


def _correlation(tables: Sequence[TargetTable], results: Sequence[TrainResult]) -> FloatArray:
    """Correlation of standardized errors of left-out rows, over the rows that two targets have in common."""
    rows = [table.rows[result.errors.rows] for table, result in zip(tables, results, strict=True)]
    found = np.eye(len(results))
    for i, first in enumerate(results):
        for j, second in enumerate(results[:i]):
            _, ours, theirs = np.intersect1d(rows[i], rows[j], return_indices=True)
            value = np.nan
            if len(ours) >= LEAST_COMMON:
                pair = first.errors.standardized[ours], second.errors.standardized[theirs]
                value = float(np.clip(np.corrcoef(*pair)[0, 1], -1.0, 1.0)) if min(map(np.ptp, pair)) > 0.0 else np.nan
            found[i, j] = found[j, i] = value
    return found
