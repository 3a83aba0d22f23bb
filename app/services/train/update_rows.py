"""Rows with targets for a model that is there, read as it reads rows to predict."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from app.errors import MAX_FAULTS, Fault, InvalidRequestError
from app.tables import CellErrors, Column, Schema, Table
from app.tables.columns.cells import Cell, quote
from app.tables.read.names import match_names
from core.arrays import FloatArray, IntArray
from core.copies import copies
from core.data import SMALLEST
from core.predict.inputs import LARGEST_INPUT
from core.predict.model import Model
from core.predict.transforms import Transform
from core.train.state import TrainingState

LARGEST_DIFFERENCE = 1.0 / SMALLEST
"""New targets are less than this from those of the training, in their own unit and in deviations: squares of it, and
sums of them, are numbers. A training takes no wider spread either."""
_NO_SQUARE = "squares of 64-bit numbers do not hold the difference"
_ADVICE = "correct the rows, or leave them out"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadRows:
    """Rows to learn from: inputs (k, p), targets (k,), and their row numbers in the table (k,). incomplete: rows
    with a missing cell; left_out: JSON on those; copies: rows that were there already."""

    inputs: FloatArray
    targets: FloatArray
    rows: IntArray
    incomplete: int = 0
    left_out: dict[str, Any] = field(default_factory=dict)
    copies: int = 0


def read_rows(schema: Schema, table: Table, models: Sequence[Model]) -> list[ReadRows]:
    """Read a table for the model of each target; rows with a missing cell, where they predict such, are left out. Of
    several targets each has the rows with a value of it, which may be none; every row must have one.

    Raises InvalidRequestError naming rows, of a file lines, and columns, also for a target that is missing, is no
    number or cannot be learnt, and for numbers whose squares would overflow.
    """
    found = match_names([*schema.targets, *schema.names], table.names)
    for target in schema.targets:
        if target not in found:
            message = f"there is no column {target!r}, which the model predicts; there are "
            message += ", ".join(map(repr, table.names[:20]))
            raise InvalidRequestError(message, [Fault(message="missing column", column=target)])
    inputs = schema.encode_table(table, CellErrors(lines=table.lines))
    errors = CellErrors(lines=table.lines)
    read = table.read_as(schema.missing, table.number_formats(schema.read_options))
    columns = [read.columns[found[target]] for target in schema.targets]
    several = schema.other_targets is not None
    targets = [
        _targets(found[target], column, model, errors, may_miss=several)
        for target, column, model in zip(schema.targets, columns, models, strict=True)
    ]
    if several:
        nothing = np.logical_and.reduce([column.numbers.missing for column in columns])
        errors.add(found[schema.target], np.flatnonzero(nothing), columns[0].cell, lambda _: "no target has a value")
    for model in models:
        _check_inputs(schema, table, found, inputs, model, errors)
    if errors.total:
        errors.refuse(_ADVICE)
    complete = ~np.isnan(inputs).any(axis=1)
    if not complete.any():
        raise InvalidRequestError("there is no row without a missing cell to learn from")
    rows = [np.flatnonzero(complete & np.isfinite(values)) for values in targets]
    incomplete, left_out = int(np.count_nonzero(~complete)), _left_out(schema, table, inputs)
    return [
        ReadRows(inputs=inputs[own], targets=values[own], rows=own, incomplete=incomplete, left_out=left_out)
        for own, values in zip(rows, targets, strict=True)
    ]


def without_copies(read: ReadRows, state: TrainingState, transform: Transform) -> ReadRows:
    """Return the rows that are no exact copies, inputs and target, of earlier ones nor of those that the model has,
    where their state has them: a copy is no news (`core.copies`). transform: of the targets."""
    had = len(state.targets)
    targets = np.concatenate((state.targets, transform.forward(read.targets)))
    places = copies(np.vstack((state.inputs.reshape(had, read.inputs.shape[1]), read.inputs)), targets)
    again = places[places >= had] - had
    kept = np.setdiff1d(np.arange(len(read.rows)), again)
    return replace(read, inputs=read.inputs[kept], targets=read.targets[kept], rows=read.rows[kept], copies=len(again))


def _left_out(schema: Schema, table: Table, inputs: FloatArray) -> dict[str, Any]:
    """Return how many cells of each column are missing, and the first of their rows, of a file with their lines."""
    missing = np.isnan(inputs[:, schema.starts[:-1]])
    counts = missing.sum(axis=0).tolist()
    first = np.flatnonzero(missing.any(axis=1))[:MAX_FAULTS].tolist()
    lines = table.lines(first)
    return {
        "columns": {feature.name: cells for feature, cells in zip(schema.used, counts, strict=True) if cells},
        "rows": first,
        "lines": [lines[row] for row in first] if all(row in lines for row in first) else [],
    }


def _targets(name: str, column: Column, model: Model, errors: CellErrors, *, may_miss: bool) -> FloatArray:
    """Targets in their own unit, (k,); notes those that the model cannot learn."""
    targets = np.asarray(column.numbers.values)

    def describe(cell: Cell) -> str:
        empty = cell is None or not str(cell).strip()
        return "the target is missing" if empty else f"{quote(cell)} is not a number"

    there = np.isfinite(targets)
    wrong = ~there & ~column.numbers.missing if may_miss else ~there
    errors.add(name, np.flatnonzero(wrong), column.cell, describe)
    unit, kind = model.posterior.standardization, model.transform.kind
    centre = model.transform.inverse(np.array([unit.target_shift]))[0]
    with np.errstate(all="ignore"):  # looked for
        learnt = model.transform.forward(targets)
        difference = np.maximum(np.abs(targets - centre), np.abs(unit.targets(learnt)))
    unlearnt = there & ~np.isfinite(learnt)
    errors.add(name, np.flatnonzero(unlearnt), column.cell, lambda cell: f"{quote(cell)} cannot be learnt as {kind}")
    errors.add(
        name,
        np.flatnonzero(there & ~unlearnt & ~(difference < LARGEST_DIFFERENCE)),
        column.cell,
        lambda cell: f"{quote(cell)} is too far from the targets of the training: {_NO_SQUARE}",
    )
    return targets


def _check_inputs(
    schema: Schema, table: Table, found: dict[str, str], inputs: FloatArray, model: Model, errors: CellErrors
) -> None:
    """Note numbers that are further from those of the training than squares can tell."""
    with np.errstate(all="ignore"):  # looked for
        far = np.abs(model.posterior.standardization.inputs(inputs)) >= LARGEST_INPUT
    for feature, block in zip(schema.used, schema.blocks, strict=True):
        errors.add(
            feature.name,
            np.flatnonzero(far[:, block].any(axis=1)),
            table.columns[found.get(feature.name, feature.name)].cell,
            lambda cell: f"{quote(cell)} is too far from the values of the training: {_NO_SQUARE}",
        )
