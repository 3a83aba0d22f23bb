"""Choice of the inputs' transform for `input_transform: "auto"`.

On up to MOST_ROWS random rows a full process (`core.train.full_process`) is trained on the columns as they are, and one
on them with their long tails drawn in (`core.input_transform`). The columns stay as they are unless the log density of
left-out rows is higher by the other by more than DOUBTS standard errors of the paired differences, and LEAST_GAIN: two
trainings of the same columns differ by as much. Likelihoods do not choose: with constant noise they prefer inputs in
whose tails every row is far from all others, and so uncertain.

Nothing is trained where no column of numbers has a tail.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import IntArray
from core.data import Dataset
from core.errors import CoreError
from core.input_transform import InputTransform
from core.predict.transforms import Transform
from core.row_groups import Grouping
from core.sparse.scheme import scheme
from core.spec import Effort, InputTransforms, MeanRows, TrainSpec
from core.train.fit import Subset
from core.train.full_choice import FullModel, Judged, full_model
from core.train.input_powers import yeo_johnson
from core.train.progress import Journal
from core.train.report import InputTransformReport
from core.train.search import Search, Stage, random_of

MOST_ROWS = 4_000
"""Rows that both processes are trained on, at most."""
DOUBTS, LEAST_GAIN = 2.0, 0.02
"""Standard errors, and nats a row, by which a process on the columns drawn in must be better."""
LEAST_ROWS = 30
"""Rows below which left-out rows do not tell one from the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTransformChoice:
    """The transform of the inputs, and why it is this one; None where it was asked for, or nothing was to choose."""

    transform: InputTransform
    reason: str | None = None

    def report(self) -> InputTransformReport:
        """Return the report on it."""
        kind = InputTransforms.YEO_JOHNSON if len(self.transform.columns) else InputTransforms.NONE
        columns = self.transform.columns
        return InputTransformReport(
            kind=kind.value,
            columns=tuple(columns.tolist()),
            powers=tuple(self.transform.table[2, columns].tolist()),
            reason=self.reason,
        )


def input_transform_asked(
    dataset: Dataset,
    spec: TrainSpec,
    held_out: IntArray,
    *,
    workers: int = 1,
    tell: Callable[[float], None] = lambda _: None,
) -> InputTransformChoice:
    """Return the transform that is asked for, or the one that `auto` chooses without the held-out rows.

    Args:
        dataset: with targets as they are learnt.
        spec: of the run.
        held_out: rows that may not be looked at.
        workers: threads.
        tell: hears the share of the choice that is done; may raise to cancel.

    Cost O(n p log n), and with `auto` two full processes on MOST_ROWS rows where a column has a tail.
    """
    asked = spec.input_transform
    if asked is InputTransforms.NONE or (asked is InputTransforms.AUTO and not _may_choose(spec)):
        return InputTransformChoice(transform=InputTransform())
    learning = np.setdiff1d(np.arange(len(dataset.targets)), held_out)
    found = yeo_johnson(dataset.inputs[learning], dataset.numbers)
    if asked is InputTransforms.YEO_JOHNSON or not len(found.columns):
        return InputTransformChoice(transform=found)
    if len(learning) < LEAST_ROWS:
        return InputTransformChoice(transform=InputTransform())
    some = np.sort(random_of(spec, Stage.INPUTS).permutation(learning)[:MOST_ROWS])
    rows = replace(dataset.take(some), others=np.empty((0, 0)))
    if np.ptp(rows.targets) == 0.0:
        return InputTransformChoice(transform=InputTransform())
    plain = _trained(rows, spec, workers, lambda share: tell(0.5 * share))
    other = _trained(replace(rows, input_transform=found), spec, workers, lambda share: tell(0.5 + 0.5 * share))
    if plain is None or other is None:
        return InputTransformChoice(transform=InputTransform())
    ours, theirs = _judged(other, rows), _judged(plain, rows)
    better, worse = theirs.loss - ours.loss, ours.squares - theirs.squares
    gain, doubt = float(better.mean()), float(better.std() / np.sqrt(len(better)))
    larger = float(worse.mean()) > float(worse.std() / np.sqrt(len(worse)))
    taken = gain > max(DOUBTS * doubt, LEAST_GAIN) and not larger
    learnt = "drawn in by Yeo and Johnson's powers" if taken else "learnt as they are"
    reason = (
        f"columns with long tails, {len(found.columns)} of them, are {learnt}: drawn in they "
        f"{'gain' if gain > 0.0 else 'lose'} {abs(gain):.4f} nats a row on {len(better):,} left-out rows, standard "
        f"error {doubt:.4f}{'; squared errors are larger by more than theirs' if larger else ''}"
    )
    return InputTransformChoice(transform=found if taken else InputTransform(), reason=reason)


def _may_choose(spec: TrainSpec) -> bool:
    """Return whether units are the run's own: not where hyperparameters are given in them."""
    return spec.start is None and spec.standardize and spec.adaptation is not None


def _trained(rows: Dataset, spec: TrainSpec, workers: int, tell: Callable[[float], None]) -> FullModel | None:
    """Return a full process on these rows; None where it is no better than a constant, or the arithmetic breaks."""
    own = TrainSpec(kernel=spec.kernel, noise=spec.noise, effort=Effort.NORMAL, mean_rows=MeanRows.AUTO, seed=spec.seed)
    try:
        subset = Subset.of(rows, np.arange(len(rows.targets)), standardize=True, workers=workers)
        journal = Journal(None, 0, None)
        start = Search(own, scheme(own.approximation, own.power), subset, journal, None).first_theta()
        return full_model(subset, np.empty(0, np.int64), start, own, (spec.seed, Stage.INPUTS), tell)
    except CoreError:
        return None


def _judged(full: FullModel, rows: Dataset) -> Judged:
    left = full.process.left
    weights = rows.weights[left] if len(rows.weights) else None
    found = Judged.of(rows.targets[left], full.left_out(Transform()), weights)
    return found.by_group(rows.row_groups.group[left]) if rows.row_groups.by is Grouping.GROUP else found
