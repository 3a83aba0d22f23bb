"""A table as it is learnt: targets and inputs under the transforms that are asked for, or chosen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from core.arrays import IntArray
from core.data import Dataset
from core.predict.transforms import transform_of
from core.spec import TargetTransform, TrainSpec
from core.train.beyond import BeyondRows, admits, check_asked, widened
from core.train.input_choice import InputTransformChoice, input_transform_asked
from core.train.search import Stage, random_of
from core.train.transform_choice import TransformChoice, as_learnt, judges_of

TARGET_SHARE = 0.6
"""Share of the choices' time that the target's takes, about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformedTable:
    """dataset: as it is learnt. target, others: transform of the first target and of each other one. inputs: theirs.
    compared: whether any was chosen by comparison, which takes time."""

    dataset: Dataset
    target: TransformChoice
    others: list[TransformChoice]
    inputs: InputTransformChoice
    compared: bool


def transformed_table(
    dataset: Dataset,
    spec: TrainSpec,
    held_out: IntArray,
    beyond: BeyondRows | None,
    *,
    workers: int,
    tell: Callable[[float], None],
) -> TransformedTable:
    """Return the table under the transforms that are asked for, or chosen without the held-out rows.

    Args:
        dataset: in its own units.
        spec: of the run.
        held_out: rows that may not be looked at.
        beyond: more rows, whose targets the transform has to admit.
        workers: threads.
        tell: hears the share that is done; may raise to cancel.

    Raises InvalidDataError for targets that the transform does not admit.
    """
    judges = judges_of(dataset, spec, held_out, partial(random_of, spec, Stage.TRANSFORM), workers=workers)
    learnt, (target, *others) = as_learnt(dataset, judges, lambda share: tell(TARGET_SHARE * share))
    if beyond is not None and not admits(target.transform, beyond):
        check_asked(spec.target_transform, beyond)
        learnt, target = dataset, TransformChoice(transform=transform_of(TargetTransform.NONE, dataset.targets))
    if beyond is not None:
        target = replace(target, transform=widened(target.transform, beyond))
    inputs = input_transform_asked(
        judges[0], target.transform, lambda share: tell(TARGET_SHARE + (1.0 - TARGET_SHARE) * share)
    )
    return TransformedTable(
        dataset=replace(learnt, input_transform=inputs.transform),
        target=target,
        others=others,
        inputs=inputs,
        compared=any(judge.has_judged for judge in judges),
    )
