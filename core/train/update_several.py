"""New rows for a model of several targets: each target learns those that have a value of it, and forgets what it had.

Targets that share theta have basis and units of inputs in common, and each its own sums `V D^-1 y`
(`core.train.update`), so that each is as if it had been updated by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import IntArray
from core.errors import InvalidDataError
from core.predict.model import Model
from core.spec import TrainSpec
from core.train.drift import drift_of
from core.train.state import NewRows, TrainingState
from core.train.update import Tell, Update, update

UNCHANGED = "unchanged"
"""Way in which a target is updated that has no new rows and none to forget."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetUpdate:
    """What an update of a target begins with: its model, the state of its training, rows with a value of it, what was
    asked of its training, and what left-out rows lost then (`core.train.update.update`)."""

    model: Model
    state: TrainingState
    new: NewRows
    spec: TrainSpec
    expected_nlpd: float | None = None


def update_several(
    targets: Sequence[TargetUpdate],
    *,
    forget: IntArray | None = None,
    extra_basis: int = 0,
    workers: int = 1,
    tell: Tell = lambda _: None,
) -> list[Update]:
    """Return each target's model with its new rows, and without those to forget; as it was where it has neither.

    Args:
        targets: of one model.
        forget: numbers of rows to forget, each of at least one target.
        extra_basis: basis vectors to add to each target from its new rows.
        workers: threads.
        tell: hears the share that is done; may raise to cancel.

    Raises:
        As `core.train.update.update`.
    """
    forget = np.empty(0, np.int64) if forget is None else forget
    _check_forgotten(targets, forget)
    found: list[Update] = []
    for place, one in enumerate(targets):
        gone = forget[np.isin(forget, one.state.numbers)] if not one.state.beyond else forget
        if not len(gone) + len(one.new.targets):
            found.append(_unchanged(one))
            continue

        def hear(share: float, place: int = place) -> None:
            tell((place + share) / len(targets))

        found.append(
            update(
                one.model,
                one.state,
                one.new,
                one.spec,
                forget=gone,
                extra_basis=extra_basis,
                expected_nlpd=one.expected_nlpd,
                workers=workers,
                tell=hear,
            )
        )
    return found


def _unchanged(one: TargetUpdate) -> Update:
    drift = drift_of(one.model, one.state, one.new, one.expected_nlpd)
    return Update(
        model=one.model,
        state=one.state,
        drift=drift,
        how=UNCHANGED,
        basis_numbers=np.empty(0, np.int64),
        recalibrated=False,
    )


def _check_forgotten(targets: Sequence[TargetUpdate], forget: IntArray) -> None:
    if len(np.unique(forget)) < len(forget):
        raise InvalidDataError("forget: expected every row once")
    if any(one.state.beyond for one in targets):
        return  # `update` refuses to forget what has no number
    known = np.unique(np.concatenate([one.state.numbers for one in targets]))
    absent = forget[~np.isin(forget, known)]
    if len(absent):
        raise InvalidDataError(
            f"forget: row {absent[0]} is not among the {len(known):,} rows of the model's targets"
            + (f", nor are {len(absent) - 1} more" if len(absent) > 1 else "")
        )
