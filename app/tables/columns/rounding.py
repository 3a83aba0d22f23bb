"""Refusal of integers that 64-bit numbers would round, where that matters."""

import numpy as np

from app.tables.columns.cell_errors import CellErrors
from app.tables.columns.cells import Cell, FloatArray, quote
from app.tables.columns.integers import MAX_EXACT, find_collision
from app.tables.columns.sums import ColumnSums
from app.tables.columns.table import Table

_MAX_COMPARED = 200_000  # different cells
_LEAST = 1e-6  # of a target's standard deviation: less is no news to anyone
_ADVICE = (
    'if such cells name something, say in "columns" that it is a category or to be ignored; if others far from them '
    'stand for a missing cell, list these in "missing_values"'
)


def choose_offset(table: Table, name: str, column: ColumnSums, whole: ColumnSums) -> int | None:
    """The integer that a feature's numbers are read as differences from, None if they are exact without.

    column: of the rows that are trained on, of all rows `whole`. InvalidRequestError naming the cell where different
    ones stay one number even so, since others lie too far from them.
    """
    offset = column.numbers.offset
    if not exceeds_exact(column):
        return offset
    ends = column.ends(offset)
    if ends.high - ends.low >= MAX_EXACT:
        number_format = next(column.parts()).number_format
        pair = find_collision(list(column.levels.counts)[:_MAX_COMPARED], offset, number_format)
        if pair is not None:
            found = _first_row(whole, pair[1])
            message = f"{quote(pair[1])} and {quote(pair[0])} are one 64-bit number beside the others of the column"
            _refuse(table, name, found, message, _ADVICE)
    return offset


def _first_row(column: ColumnSums, text: str) -> tuple[int, Cell]:
    """The first row with this text, and its cell."""
    for first, part in column.numbered():
        code = part.levels.names.index(text).as_py()
        for place in np.flatnonzero(part.levels.codes == code)[:1].tolist() if code >= 0 else ():
            return first + place, part.cell(place)
    return 0, text


def exceeds_exact(column: ColumnSums) -> bool:
    """Return whether a number of the column is past the integers that 64-bit numbers hold."""
    ends = column.numbers.ends
    return bool(max(-ends.low, ends.high) >= MAX_EXACT)


def check_target(table: Table, name: str, column: ColumnSums) -> None:
    """InvalidRequestError naming the cell of a target that would be rounded by more than its spread allows."""
    offset = column.numbers.offset
    if not column.numbers.usable or not exceeds_exact(column) or offset is None:
        return
    worst: tuple[float, int, Cell, float] = (-1.0, 0, None, 0.0)
    moments = _Moments()
    for first, part in column.numbered():
        exact = part.minus(offset)
        moments.add(exact)
        errors = np.nan_to_num(np.abs(exact - (part.numbers.values - float(offset))))
        place = int(errors.argmax())
        if errors[place] > worst[0]:
            worst = float(errors[place]), first + place, part.cell(place), float(part.numbers.values[place])
    error, row, cell, read = worst
    if error > _LEAST * moments.deviation:
        message = f"{quote(cell)} is past the integers that 64-bit numbers hold, and would be read as {read:.0f}"
        _refuse(table, name, (row, cell), message, f"subtract a constant from the target, such as {offset}")


class _Moments:
    """Mean and sum of squares about it over parts (Chan, Golub and LeVeque 1983, eq. 2.1)."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, values: FloatArray) -> None:
        present = values[~np.isnan(values)]
        if not len(present):
            return
        mean, both = float(present.mean()), self.count + len(present)
        step = mean - self.mean
        self.squares += float(np.square(present - mean).sum()) + step * step * self.count * len(present) / both
        self.mean += step * len(present) / both
        self.count = both

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0


def _refuse(table: Table, name: str, found: tuple[int, Cell], message: str, advice: str) -> None:
    cell_errors = CellErrors(lines=table.lines)
    cell_errors.add_first(name, 1, [found], lambda _: message)
    cell_errors.refuse(advice)
