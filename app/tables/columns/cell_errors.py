"""Collection of the wrong cells of a table, refused all in one sentence with their places."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from app.errors import MAX_FAULTS, Fault, InvalidRequestError
from app.tables.columns.cells import Cell, IntArray, cell_text, shorten

_NAMED = 10  # columns or levels that a sentence lists
_SHOWN = 200  # characters of a cell that an error repeats


@dataclass(slots=True, kw_only=True)
class CellErrors:
    """Wrong cells so far.

    lines: finds the lines of the file for row numbers; nothing for JSON. first_row: number of the first row of this
    part of the table. tolerated: who reads the cells leaves out the rows instead of refusing them.
    """

    lines: Callable[[Iterable[int]], dict[int, int]] = lambda _: {}
    first_row: int = 0
    tolerated: bool = False
    total: int = 0
    _found: list[Fault] = field(default_factory=list)
    _rows: list[IntArray] = field(default_factory=list)

    def add(self, column: str, rows: IntArray, cell: Callable[[int], Cell], describe: Callable[[Cell], str]) -> None:
        """Wrong cells of one column; only the first few are looked at."""
        if self.tolerated and len(rows):
            self._rows.append(np.asarray(rows))
        self.add_first(column, len(rows), [(row, cell(row)) for row in rows[:MAX_FAULTS].tolist()], describe)

    def add_first(
        self, column: str, total: int, first: Iterable[tuple[int, Cell]], describe: Callable[[Cell], str]
    ) -> None:
        """Wrong cells of one column, so many of which the first ones are given with their rows."""
        self.total += total
        for row, value in first:
            text = cell_text(value)
            self._found.append(
                Fault(row=self.first_row + row, column=column, value=text and text[:_SHOWN], message=describe(value))
            )

    def rows(self) -> IntArray:
        """Return the rows with wrong cells that were tolerated, in order and each once, from 0 in this part."""
        return np.unique(np.concatenate(self._rows)) if self._rows else np.empty(0, np.int64)

    def first(self) -> str | None:
        """Return the place and the reason of the first wrong cell; None where all are good."""
        fault = min(self._found, key=lambda fault: fault.row or 0, default=None)
        return None if fault is None else f"{place(fault)}, column {fault.column!r}: {fault.message}"

    def columns(self) -> tuple[str, ...]:
        """Return the columns with wrong cells, each once."""
        return tuple(dict.fromkeys(fault.column for fault in self._found if fault.column is not None))

    def refuse(self, advice: str) -> NoReturn:
        """Raise InvalidRequestError with the first faults by row, their lines, and `advice`."""
        first = sorted(self._found, key=lambda fault: fault.row or 0)[:MAX_FAULTS]
        lines = self.lines([fault.row for fault in first if fault.row is not None])
        faults = [
            Fault(
                row=fault.row,
                line=None if fault.row is None else lines.get(fault.row),
                column=fault.column,
                value=fault.value,
                message=fault.message,
            )
            for fault in first
        ]
        where = f"{place(faults[0])}, column {faults[0].column!r}: {faults[0].message}"
        sentence = where if self.total == 1 else f"{self.total:,} cells cannot be used, the first at {where}"
        raise InvalidRequestError(f"{sentence}; {advice}", faults, self.total)


def place(fault: Fault) -> str:
    """Return where a person looks: the line of a file, the row of a JSON body."""
    return f"row {fault.row:,}" if fault.line is None else f"line {fault.line:,}"


def list_names(names: Sequence[str]) -> str:
    """List names in quotes, the first ten and how many more."""
    shown = ", ".join(repr(shorten(name)) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED:,} more"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 column`, `2 columns`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def json_type(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "an object"
        case _:
            return "a list"
