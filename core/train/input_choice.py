"""Choice of the inputs' transform for `input_transform: "auto"`.

They stay as they are unless rows that are left out of blocks of near ones (`core.train.block_judge`) are predicted
better with long tails drawn in (`core.input_transform`), the target under the transform that is chosen for it.
Likelihoods do not choose: with constant noise they prefer inputs in whose tails every row is far from all others, and
so uncertain.

Nothing is compared where no column of numbers has a tail.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.input_transform import InputTransform
from core.predict.transforms import Transform
from core.spec import InputTransforms, TrainSpec
from core.train.block_judge import BlockJudge
from core.train.input_powers import yeo_johnson
from core.train.report import InputTransformReport

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
    judge: BlockJudge, target: Transform, tell: Callable[[float], None] = lambda _: None
) -> InputTransformChoice:
    """Return the transform that is asked for, or the one that `auto` chooses.

    Args:
        judge: of the table, with the first of its targets.
        target: transform of that.
        tell: hears the share of the choice that is done; may raise to cancel.

    Cost O(n p log n), and with `auto` two to four judgements where a column has a tail.
    """
    spec, dataset, learning = judge.spec, judge.dataset, judge.learning
    asked = spec.input_transform
    if asked is InputTransforms.NONE or (asked is InputTransforms.AUTO and not _may_choose(spec)):
        return InputTransformChoice(transform=InputTransform())
    found = yeo_johnson(dataset.inputs[learning], dataset.numbers)
    if asked is InputTransforms.YEO_JOHNSON or not len(found.columns):
        return InputTransformChoice(transform=found)
    if len(learning) < LEAST_ROWS or np.ptp(dataset.targets[learning]) == 0.0:
        return InputTransformChoice(transform=InputTransform())
    plain = judge.judge(target, InputTransform(), lambda share: tell(0.5 * share))
    other = judge.judge(target, found, lambda share: tell(0.5 + 0.5 * share))
    if plain is None or other is None:
        return InputTransformChoice(transform=InputTransform())
    gain, doubt = other.gain(plain)
    taken, against = other.is_better(plain), ""
    if taken:
        taken, against = judge.stands((target, found), (target, InputTransform()), lambda _: tell(1.0))
    learnt = "drawn in by Yeo and Johnson's powers" if taken else "learnt as they are"
    reason = (
        f"columns with long tails, {len(found.columns)} of them, are {learnt}: drawn in they "
        f"{'gain' if gain > 0.0 else 'lose'} {abs(gain):.4f} nats a row on {len(plain.density):,} left-out rows, "
        f"standard error {doubt:.4f}"
        f"{'; squared errors are larger by more than theirs' if other.has_larger_errors(plain) else ''}"
        f"{'' if taken or not against else f'; {against}'}"
    )
    return InputTransformChoice(transform=found if taken else InputTransform(), reason=reason)


def _may_choose(spec: TrainSpec) -> bool:
    """Return whether units are the run's own: not where hyperparameters are given in them."""
    return spec.start is None and spec.standardize and spec.adaptation is not None
