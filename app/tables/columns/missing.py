"""Values that stand for a missing cell beside the usual: `-200`, `unknown`. The same in training and prediction."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.tables.columns.cells import BLANKS, Cell, CellKind, Levels, Numbers, cell_text, parse_number
from app.tables.columns.number_formats import PLAIN, NumberFormat


@dataclass(frozen=True, slots=True)
class MissingValues:
    """Numbers, which match a cell of the same value however it is written, and texts, which match the trimmed cell."""

    values: tuple[float | str, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return those that are numbers, and what single precision makes of them."""
        found = [value for kind, value in map(parse_number, self.values) if kind is CellKind.NUMBER]
        with np.errstate(over="ignore", under="ignore"):
            rounded = [float(np.float32(value)) for value in found]
        return tuple({value: None for value in (*found, *rounded) if math.isfinite(value)})

    @property
    def texts(self) -> frozenset[str]:
        """Return all as texts."""
        return frozenset(str(cell_text(value)).strip(BLANKS) for value in self.values)

    def matches(self, cell: Cell, number_format: NumberFormat = PLAIN) -> bool:
        """Return whether a cell stands for a missing one."""
        kind, value = parse_number(cell, number_format)
        if kind is CellKind.NUMBER and value in self.numbers:
            return True
        text = cell_text(cell)
        return text is not None and text.strip(BLANKS) in self.texts

    def mask(self, numbers: Numbers, cell: Callable[[int], Cell]) -> Numbers:
        """The numbers without these. O(n), and slower for the cells that are no numbers."""
        missing = numbers.missing | np.isin(numbers.values, self.numbers)
        texts = self.texts
        gone = [row for row in numbers.invalid.tolist() if str(cell_text(cell(row))).strip(BLANKS) in texts]
        missing[gone] = True
        if len(gone) == 0:
            bad, meant = numbers.invalid, numbers.unusable
        else:
            bad = np.setdiff1d(numbers.invalid, gone)
            lost = sum(parse_number(cell(row))[0] is not CellKind.TEXT for row in gone)
            meant = max(0, numbers.unusable - lost)
        values = numbers.values.copy()
        values[missing] = np.nan
        return Numbers(values=values, missing=missing, invalid=bad, unusable=meant)

    def mask_levels(self, levels: Levels, number_format: NumberFormat) -> Levels:
        """The levels without these."""
        names: Any = levels.names
        gone = [code for code, name in enumerate(names.to_pylist()) if self.matches(name, number_format)]
        if not gone:
            return levels
        codes = levels.codes.copy()
        codes[np.isin(codes, gone)] = -1
        return replace(levels, codes=codes)


def missing_values(values: Sequence[float | str] | None) -> MissingValues | None:
    """Return the values as MissingValues, None for none."""
    return MissingValues(tuple(values)) if values else None
