"""Weights of rows whose truth is known, over the mean weight of the rows that a model was trained on.

Such a model says the noise of a row of mean weight, and a row of another weight has that noise over its own relative
weight. Without the column nothing tells a row's own error bar.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from app.storage.artefact import WEIGHTS
from app.tables import CellErrors, Schema, Table
from app.tables.columns.cells import Cell, describe_number, quote
from app.tables.read.names import match_names
from core.arrays import FloatArray
from core.data import LEAST_WEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedWeights:
    """The column of a model's weights, and their mean over the rows of the training."""

    column: str
    mean: float

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self | None:
        """Take them out of a report, or of what lists show of it; None where its rows all count the same, or it does
        not say."""
        try:
            column, mean = report[WEIGHTS]["column"], float(report[WEIGHTS]["mean"])
        except (KeyError, TypeError, ValueError):
            return None
        return cls(column=column, mean=mean) if isinstance(column, str) and 0.0 < mean < np.inf else None

    @property
    def bars(self) -> str:
        """Words for the error bars of predictions."""
        return f"error bars are those of a row of mean weight, {self.column!r} {self.mean:.6g}"

    def of_rows(self, schema: Schema, table: Table, cell_errors: CellErrors) -> FloatArray | None:
        """Return the relative weight of each row (m,), 0 where it does not count; None where the table lacks the
        column.

        cell_errors: takes missing cells, text, infinite and negative numbers and those that are nothing beside the
        mean, and where it tolerates them the numbers of their rows mean nothing; else InvalidRequestError.
        """
        name = match_names([self.column], table.names, (*schema.names, *schema.targets)).get(self.column)
        if name is None:
            return None
        column = schema.as_given(table).columns[name]
        numbers = column.numbers
        found = np.where(numbers.missing, np.nan, numbers.values)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            relative = found / self.mean
            little = (found > 0.0) & ~(relative >= LEAST_WEIGHT)
        for rows, describe in (
            (np.flatnonzero(numbers.missing), lambda cell: f"missing ({quote(cell)})"),
            (numbers.invalid, lambda cell: describe_number(cell, column.number_format)),
            (np.flatnonzero(found < 0.0), _negative),
            (np.flatnonzero(little), self._nothing),
            (np.flatnonzero(np.isinf(relative) & np.isfinite(found)), self._everything),
        ):
            cell_errors.add(name, rows, column.cell, describe)
        if cell_errors.total and not cell_errors.tolerated:
            cell_errors.refuse(
                "a weight is a number of at least 0; correct it, or leave the column out, for error bars of a row of "
                "mean weight"
            )
        return relative

    def _nothing(self, cell: Cell) -> str:
        return f"{quote(cell)} is nothing beside the mean weight of the training, {self.mean!r}; write 0"

    def _everything(self, cell: Cell) -> str:
        return f"{quote(cell)} is too large beside the mean weight of the training, {self.mean!r}"


def _negative(cell: Cell) -> str:
    return f"{quote(cell)} is negative"
