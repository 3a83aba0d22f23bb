"""The truth of predicted rows, of one target or of each of several: read, held against the predictions, and counted.

Of several targets a truth is an object of lists by the target's name, and so are the counts; a target whose truth is
not known yet may be left out.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from app.errors import Fault, InvalidRequestError, MalformedError
from app.services.decoding import decode, decode_any
from app.services.monitoring.kept_predictions import RowNumbers
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.row_weights import TrainedWeights
from app.storage.artefact import TARGET_NAMES
from app.storage.monitoring import Truth
from app.tables.columns.cell_errors import json_type
from app.tables.read.strict_json import TOO_LARGE
from core.arrays import BoolArray, FloatArray

_PLACE = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Names of a model's targets. several: the model is one of several targets, which may be one. weights: of the rows
    that it was trained on."""

    names: tuple[str, ...]
    several: bool
    weights: TrainedWeights | None = None

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> "Targets":
        """Take them out of what lists show of a version."""
        names = summary.get(TARGET_NAMES)
        own = (str(summary.get("target")),) if names is None else tuple(names)
        return cls(names=own, several=names is not None, weights=TrainedWeights.of(summary))

    @property
    def places(self) -> tuple[int | None, ...]:
        """Place of each target's counts in the store: None in a model of one."""
        return tuple(range(len(self.names))) if self.several else (None,)

    def by_name(self, values: Sequence[Any]) -> Any:
        """Return an object of a value for each target, or the only value of a model of one."""
        return dict(zip(self.names, values, strict=True)) if self.several else values[0]


def targets_of(model: LoadedModel) -> Targets:
    """Return the targets of a model."""
    names = tuple(each.schema.target for each in model.every_target)
    return Targets(names=names, several=model.others is not None, weights=model.weights)


def read_truth(truth: msgspec.Raw, targets: Targets, rows: int) -> FloatArray:
    """Return the truth of the rows of each target (t, m), NaN where it is not known, of a list of JSON or an object of
    lists. InvalidRequestError naming the target and the row."""
    if bytes(memoryview(truth)[:1]) != b"{":
        if len(targets.names) > 1:
            raise _wrong(
                f"truth: expected an object of lists by target ({_list(targets.names)}), "
                f"got {json_type(decode_any(truth, where='truth'))}"
            )
        return _numbers(truth, targets.names[0], rows)[None]
    found = np.full((len(targets.names), rows), np.nan)
    for name, numbers in decode(truth, dict[str, msgspec.Raw], where="truth").items():
        if name not in targets.names:
            raise _wrong(
                f"truth of {name[:80]!r}: the model has no such target; it predicts {_list(targets.names)}", name
            )
        found[targets.names.index(name)] = _numbers(numbers, name, rows)
    return found


def count_truth(truth: FloatArray, numbers: RowNumbers, taken: BoolArray, targets: Targets) -> list[Truth]:
    """Hold the chosen rows of each target (t, m) against their truth. InvalidRequestError for a number too large."""
    day = datetime.now(UTC).date().isoformat()
    found = []
    for place, name in enumerate(targets.names):
        rows = taken[place]
        told, mean, lower, upper = (each[place][rows] for each in (truth, numbers.mean, numbers.lower, numbers.upper))
        with np.errstate(over="ignore"):
            squares = np.square(told - mean)
            squared = float(squares.sum())
        if not math.isfinite(squared):
            row = int(np.flatnonzero(rows)[np.argmax(squares)])
            raise _wrong_cell(name, row, "the number is so large that its error has no square", truth[place][row])
        found.append(
            Truth(
                day=day,
                rows=len(told),
                with_interval=int(np.count_nonzero(~np.isnan(lower))),
                covered=int(np.count_nonzero((told >= lower) & (told <= upper))),
                squared_error=squared,
            )
        )
    return found


def counts_json(
    model: str, version: int, found: Sequence[Truth], waiting: Sequence[int], targets: Targets
) -> dict[str, Any]:
    """Return the answer to a truth."""
    covered = [one.covered if one.with_interval or not one.rows else None for one in found]
    return {
        "model": model,
        "version": version,
        "rows": targets.by_name([one.rows for one in found]),
        "covered": targets.by_name(covered),
        "waiting": targets.by_name(waiting),
        **(
            {"message": _of_mean_weight(targets.weights)}
            if targets.weights is not None and any(one.with_interval for one in found)
            else {}
        ),
    }


def _of_mean_weight(weights: TrainedWeights) -> str:
    return (
        f"{weights.bars}, whatever the weights of these rows, and `covered` is of these: an evaluation of a table with "
        "the column holds each row against its own"
    )


def _numbers(given: msgspec.Raw, name: str, rows: int) -> FloatArray:
    """Return the truth of one target (m,)."""
    try:
        values = decode_any(given, where="truth")
    except (InvalidRequestError, MalformedError) as error:
        place = _PLACE.search(error.message.partition(":")[0])
        if place is None or not error.faults:
            raise
        raise _wrong_cell(name, int(place[1]), error.faults[0].message) from error
    if not isinstance(values, list):
        raise _wrong(f"truth of {name!r}: expected a list of numbers, got {json_type(values)}", name)
    if len(values) != rows:
        raise _wrong(f"truth of {name!r}: expected {rows} numbers, one for each row; got {len(values)}", name)
    for row, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise _wrong_cell(name, row, f"expected a number or null, got {json_type(value)}", value)
    numbers = np.array([math.nan if value is None else _float(value) for value in values])
    if (large := np.flatnonzero(np.isinf(numbers))).size:
        raise _wrong_cell(name, int(large[0]), TOO_LARGE)
    return numbers


def _float(value: float) -> float:
    """Return a number of JSON, infinity where it is a whole one that no float holds."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _wrong(message: str, column: str = "truth") -> InvalidRequestError:
    return InvalidRequestError(message, [Fault(message=message, column=column)])


def _wrong_cell(name: str, row: int, message: str, value: object = None) -> InvalidRequestError:
    shown = None if value is None else str(value)[:80]
    return InvalidRequestError(
        f"truth of {name!r}, row {row}: {message}", [Fault(message=message, row=row, column=name, value=shown)]
    )
