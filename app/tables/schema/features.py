"""Feature: how one column of the upload becomes columns of the design matrix."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from app.tables.columns.cell_errors import CellErrors, list_names
from app.tables.columns.cells import Cell, FloatArray, cell_text, describe_number, is_blank, quote
from app.tables.columns.dates import Cycle, DateOrder, sine_cosine
from app.tables.columns.dates_and_booleans import date_pattern, parse_by_level
from app.tables.columns.integers import add_offset
from app.tables.columns.number_formats import PLAIN, NumberFormat
from app.tables.columns.table import MISSING_LEVEL, UNSEEN_LEVEL, Column, Kind
from app.tables.read.names import closest_name

UNSEEN_DISTANCE: Final = 1e6
"""Value in the first column of a block for an unseen level: far from every row."""
OTHER: Final = "other"
"""Name of all levels without a place of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Column of the upload as a model reads it.

    levels: of a category, sorted; other: one more column of its block stands for all other texts. order, cycles: of a
    date. number_format: how the numbers of the column were written. offset: what is taken from a number first, exactly,
    since 64-bit numbers would round it. fill: what stands for a missing number (less the offset), boolean or date (in
    days); None refuses them. integrate: missing cells are NaN in every column instead, for predictions that integrate
    over what they may be. indicator: a 0/1 column marks the missing cells. unseen_value: what stands in each column of
    a category for an unseen level that is to be answered; None for UNSEEN_DISTANCE in the first of them. index: the
    place of each level.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    other: bool = False
    order: DateOrder | None = None
    cycles: tuple[Cycle, ...] = ()
    number_format: NumberFormat = PLAIN
    offset: int | None = None
    fill: float | None = None
    integrate: bool = False
    indicator: bool = False
    unseen_value: float | None = None
    index: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {level: place for place, level in enumerate(self.levels)})

    @property
    def width(self) -> int:
        """Columns of the design matrix."""
        return sum(self.group_sizes)

    @property
    def takes_missing(self) -> bool:
        """Return whether a missing cell is answered rather than refused."""
        return self.integrate or (self.indicator if self.kind is Kind.CATEGORY else self.fill is not None)

    @property
    def marked(self) -> "Feature":
        """Return the feature whose missing cells are filled in and marked in a column of their own."""
        return replace(self, integrate=False, indicator=True)

    @property
    def replacement(self) -> float | int | None:
        """Return what stands for a missing cell, as the column has it."""
        return None if self.fill is None or self.integrate else add_offset(self.fill, self.offset)

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Return how many columns each of its lengthscales has; those of a category, marks included, share one."""
        match self.kind:
            case Kind.UNUSED:
                return ()
            case Kind.CATEGORY:
                return (len(self.levels) + self.other + self.indicator,)
            case _:
                return (1, *(2 for _ in self.cycles), *(1 for _ in range(self.indicator)))

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of its lengthscales."""
        if self.kind is Kind.UNUSED:
            return ()
        if self.kind is Kind.CATEGORY:
            return (self.name,)
        marks = (f"{self.name} (missing)",) if self.indicator else ()
        return (self.name, *(f"{self.name} ({cycle.value})" for cycle in self.cycles), *marks)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of its columns of the design matrix."""
        marks = (f"{self.name} (missing)",) if self.indicator else ()
        if self.kind is Kind.CATEGORY:
            others = (f"{self.name} ({OTHER})",) if self.other else ()
            return (*(f"{self.name}={level}" for level in self.levels), *others, *marks)
        if self.kind is Kind.UNUSED:
            return ()
        turns = tuple(f"{self.name} ({cycle.value} {part})" for cycle in self.cycles for part in ("sin", "cos"))
        return (self.name, *turns, *marks)

    @property
    def indicators(self) -> tuple[bool, ...]:
        """Return which of its columns are 0/1 and keep their unit."""
        whole = self.kind in (Kind.CATEGORY, Kind.BOOLEAN)
        turns = 2 * len(self.cycles)
        return tuple(whole or place > turns for place in range(self.width))

    def to_json(self) -> dict[str, Any]:
        """A JSON document; what only some kinds have is left out where there is none."""
        document: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind.value,
            "levels": list(self.levels),
            "fill": self.fill,
            "indicator": self.indicator,
        }
        if self.integrate:
            document["integrate"] = True
        if self.other:
            document["other"] = True
        document |= self.number_format.to_json()
        if self.unseen_value is not None:
            document["unseen_value"] = self.unseen_value
        if self.offset is not None:
            document["offset"] = str(self.offset)  # it may be past what JSON's readers take for a number
        if self.order is not None:
            document |= {"order": self.order.value, "cycles": [cycle.value for cycle in self.cycles]}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Feature":
        """Read what `to_json` wrote. ValueError, TypeError or KeyError for something else."""
        kind, fill, indicator = Kind(document["kind"]), document["fill"], document["indicator"]
        levels = tuple(expect_text(level) for level in document["levels"])
        order, offset = document.get("order"), document.get("offset")
        if (kind is Kind.CATEGORY) != bool(levels) or len(set(levels)) != len(levels):
            raise ValueError(f"levels {levels!r} of a {kind}")
        if (kind is Kind.DATE) != (order is not None):
            raise ValueError(f"order {order!r} of a {kind}")
        if not isinstance(indicator, bool) or (fill is not None and not math.isfinite(fill)):
            raise ValueError(f"fill {fill!r}, indicator {indicator!r}")
        unseen_value = document.get("unseen_value")
        if unseen_value is not None and not math.isfinite(unseen_value):
            raise ValueError(f"unseen_value {unseen_value!r}")
        return cls(
            name=expect_text(document["name"]),
            kind=kind,
            levels=levels,
            other=bool(document.get("other", False)),
            order=None if order is None else DateOrder(order),
            cycles=tuple(Cycle(cycle) for cycle in document.get("cycles", ())),
            number_format=NumberFormat.from_json(document),
            offset=None if offset is None else int(expect_text(offset)),
            fill=None if fill is None else float(fill),
            integrate=bool(document.get("integrate", False)),
            indicator=indicator,
            unseen_value=None if unseen_value is None else float(unseen_value),
        )

    def encode(self, column: Column, out: FloatArray, cell_errors: CellErrors, *, allow_unseen: bool) -> bool:
        """Fill `out` (m, width), which is zero; add what is wrong; return whether anything but missing cells is.

        allow_unseen: a text that training has not seen is a level apart from all others.
        """
        if self.kind is Kind.CATEGORY:
            return self._encode_category(column, out, cell_errors, allow_unseen=allow_unseen)
        if self.kind is Kind.NUMBER:
            floats = column.floats() if self.offset is None else None
            if floats is not None:  # the rows of most requests
                out[:, 0] = floats
                return False
            numbers = column.numbers
            values, missing, bad = column.minus(self.offset), numbers.missing, numbers.invalid
        else:
            values, missing, bad = parse_by_level(column, self.kind, self.order)
        out[:, 0] = values
        if self.fill is not None and not self.integrate:
            out[missing, 0] = self.fill
        start = 1
        for cycle in self.cycles:
            micros = np.round(np.nan_to_num(out[:, 0]) * 86_400e6).astype(np.int64)
            out[:, start : start + 2] = sine_cosine(micros, cycle)
            start += 2
        if self.indicator:
            out[:, -1] = missing
        if self.integrate:
            out[missing] = np.nan
        wrong = bad if self.takes_missing else np.flatnonzero(np.isnan(values))
        cell_errors.add(self.name, wrong, column.cell, lambda cell: self.describe(cell, column))
        return len(bad) > 0

    def _encode_category(self, column: Column, out: FloatArray, cell_errors: CellErrors, *, allow_unseen: bool) -> bool:
        places = column.level_codes(self.index)
        missing = places == MISSING_LEVEL
        unseen = places == UNSEEN_LEVEL
        if self.other:
            places[unseen] = len(self.levels)
        elif allow_unseen and self.unseen_value is None:
            out[unseen, 0] = UNSEEN_DISTANCE
        elif allow_unseen:
            out[unseen] = self.unseen_value
        if self.other or allow_unseen:
            unseen = np.zeros_like(unseen)
        known = np.flatnonzero(places >= 0)
        out[known, places[known]] = 1.0
        if self.integrate:
            out[missing] = np.nan
        elif self.indicator:
            out[missing, -1] = 1.0
        if self.takes_missing:
            missing = np.zeros_like(missing)
        wrong = np.flatnonzero(missing | unseen)
        cell_errors.add(self.name, wrong, column.cell, lambda cell: self.describe(cell, column))
        return bool(unseen.any())

    def describe(self, cell: Cell, column: Column) -> str:
        """Describe why a cell of this column cannot be used."""
        absent = is_blank(cell) or (column.missing is not None and column.missing.matches(cell, column.number_format))
        if absent:
            return f"missing ({quote(cell)})"
        match self.kind:
            case Kind.NUMBER:
                return describe_number(cell, column.number_format)
            case Kind.BOOLEAN:
                return f"{quote(cell)} is neither true nor false"
            case Kind.DATE:
                return f"{quote(cell)} is no date of the form {date_pattern(self.order or DateOrder.YEAR_FIRST)}"
            case _:
                near = closest_name(cell_text(cell) or "", self.levels)
                hint = "" if near is None else f"; did you mean {near!r}?"
                return f"{quote(cell)} was not seen in training; known are {list_names(self.levels)}{hint}"


def expect_text(value: object) -> str:
    """The value, which must be text. TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r}")
    return value
