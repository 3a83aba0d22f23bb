"""Rows with targets for a model that is there, read as it reads rows to predict."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.errors import MAX_FAULTS, Fault, InvalidRequestError
from app.tables import CellErrors, Schema, Table
from app.tables.columns.cells import Cell, quote
from app.tables.read.names import match_names
from core.arrays import FloatArray, IntArray
from core.data import SMALLEST
from core.predict.inputs import LARGEST_INPUT
from core.predict.model import Model

LARGEST_DIFFERENCE = 1.0 / SMALLEST
"""New targets are less than this from those of the training, in their own unit and in deviations: squares of it, and
sums of them, are numbers. A training takes no wider spread either."""
_NO_SQUARE = "squares of 64-bit numbers do not hold the difference"
_ADVICE = "correct the rows, or leave them out"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadRows:
    """Rows to learn from: inputs (k, p), targets (k,), and their row numbers in the table (k,). left_out: JSON on those
    with a missing cell."""

    inputs: FloatArray
    targets: FloatArray
    rows: IntArray
    left_out: dict[str, Any] = field(default_factory=dict)


def read_rows(schema: Schema, table: Table, model: Model) -> ReadRows:
    """Read a table for a model; rows with a missing cell, where it predicts such, are left out.

    Raises InvalidRequestError naming rows, of a file lines, and columns, also for a target that is missing, is no
    number or cannot be learnt, and for numbers whose squares would overflow.
    """
    found = match_names([schema.target, *schema.names], table.names)
    if schema.target not in found:
        message = f"there is no column {schema.target!r}, which the model predicts; there are "
        message += ", ".join(map(repr, table.names[:20]))
        raise InvalidRequestError(message, [Fault(message="missing column", column=schema.target)])
    inputs = schema.encode_table(table, CellErrors(lines=table.lines))
    errors = CellErrors(lines=table.lines)
    targets = _targets(schema, table, found[schema.target], model, errors)
    _check_inputs(schema, table, found, inputs, model, errors)
    if errors.total:
        errors.refuse(_ADVICE)
    rows = np.flatnonzero(~np.isnan(inputs).any(axis=1))
    if not len(rows):
        raise InvalidRequestError("there is no row without a missing cell to learn from")
    return ReadRows(inputs=inputs[rows], targets=targets[rows], rows=rows, left_out=_left_out(schema, table, inputs))


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


def _targets(schema: Schema, table: Table, name: str, model: Model, errors: CellErrors) -> FloatArray:
    """Targets in their own unit, (k,); notes those that the model cannot learn."""
    table = table.read_as(schema.missing, table.number_formats(schema.read_options))
    column = table.columns[name]
    targets = np.asarray(column.numbers.values)

    def describe(cell: Cell) -> str:
        empty = cell is None or not str(cell).strip()
        return "the target is missing" if empty else f"{quote(cell)} is not a number"

    there = np.isfinite(targets)
    errors.add(name, np.flatnonzero(~there), column.cell, describe)
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
