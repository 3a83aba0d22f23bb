"""The column that says which rows belong together: the groups, or the order in time, that rows are left out by."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from app.errors import Fault, InvalidRequestError
from app.tables.columns.cell_errors import CellErrors
from app.tables.columns.cells import FloatArray, IntArray, quote
from app.tables.columns.dates import DateOrder
from app.tables.columns.dates_and_booleans import parse_by_level
from app.tables.columns.row_set import RowSet
from app.tables.columns.sums import ColumnSums, TableSums
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import DeclaredType, InferredType, declared_type, infer_type
from app.tables.schema.features import Feature
from app.tables.schema.schema import Schema
from app.tables.schema.table_options import TableOptions, resolve

MIN_GROUPS: Final = 10
"""Values of a column from which it may be a name of groups ..."""
MIN_ROWS_EACH: Final = 2.0
"""... rows of most of them, at least ..."""
LARGEST: Final = 1.0 / 3.0
"""... and the share of the rows that one may have."""
SAMPLE: Final = 20_000
"""Rows that are looked at, at most."""
DOMINATES: Final = 2.0 / 3.0
"""Share of the target's variance between groups from which they are suggested."""
SMOOTH: Final = 0.5
"""Correlation of neighbouring groups' means from which their order says something: then it is a quantity, no name."""


class GroupedBy(StrEnum):
    """Field of the specification that names the column."""

    GROUPS = "groups"
    ORDER = "order"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupColumn:
    """A column that rows are left out by, and how it is read: text of `groups`; numbers or dates of `order`."""

    name: str
    by: GroupedBy
    kind: Kind = Kind.CATEGORY
    order: DateOrder | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON document that `from_json` reads back."""
        order = None if self.order is None else self.order.value
        return {"name": self.name, "by": self.by.value, "kind": self.kind.value, "order": order}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "RowGroupColumn":
        """Read what `to_json` wrote. KeyError, TypeError, ValueError."""
        order = document["order"]
        return cls(
            name=str(document["name"]),
            by=GroupedBy(document["by"]),
            kind=Kind(document["kind"]),
            order=None if order is None else DateOrder(order),
        )

    @property
    def inferred(self) -> InferredType:
        """How it is read."""
        return InferredType(kind=self.kind, order=self.order)

    def note_invalid(self, column: ColumnSums, cell_errors: CellErrors) -> None:
        """Note cells that are no number or date."""
        note_invalid(self.name, column, self.inferred, cell_errors)

    def values(self, column: Column) -> FloatArray | IntArray:
        """Return a number for each row, (n,): of its group, each row without one being a group of its own; or where it
        stands in time."""
        if self.by is GroupedBy.ORDER:
            if self.kind is Kind.DATE:
                return parse_by_level(column, self.kind, self.order)[0]
            return column.minus(column.offset)
        codes = column.levels.codes.astype(np.int64)
        absent = np.flatnonzero(codes < 0)
        codes[absent] = codes.max(initial=-1) + 1 + np.arange(len(absent))
        return codes

    def names(self, column: Column) -> tuple[str, ...]:
        """Return the name of each group that `values` numbers, up to the last with a name; none of times."""
        return () if self.by is GroupedBy.ORDER else tuple(map(str, column.levels.names.to_pylist()))


def row_group_column(
    table: TableSums, targets: Sequence[str], options: TableOptions, choices: Mapping[str, DeclaredType]
) -> RowGroupColumn | None:
    """Return the column that rows are left out by, None where the specification names none.

    choices: what columns are declared to be. Raises InvalidRequestError: both fields, an unknown column, a target, or
    an order that is neither numbers nor dates.
    """
    if options.groups is None and options.order is None:
        return None
    if options.groups is not None and options.order is not None:
        message = "groups and order: rows are left out by one of them; leave the other out"
        raise InvalidRequestError(message, [Fault(message=message, column="groups")])
    by, asked = GroupedBy.GROUPS, options.groups
    if asked is None:
        by, asked = GroupedBy.ORDER, str(options.order)
    name = resolve(by.value, [asked], table.table)[0]
    if name in targets:
        message = f"{by}: {name!r} is {'the target' if len(targets) == 1 else 'one of the targets'}"
        raise InvalidRequestError(message, [Fault(message=message, column=by.value)])
    if by is GroupedBy.GROUPS:
        return RowGroupColumn(name=name, by=by)
    column, choice = table[name], choices.get(name)
    told = infer_type(column) if choice in (None, DeclaredType.IGNORE) else declared_type(column, choice)
    if told.kind not in (Kind.NUMBER, Kind.DATE):
        part = next(column.parts())
        first = next((cell for cell in map(part.cell, range(min(len(part), 100))) if cell not in (None, "")), None)
        raise InvalidRequestError(
            f"order: column {name!r} holds {told.kind}, such as {quote(first)}; expected numbers or dates, which say "
            "what comes first"
        )
    return RowGroupColumn(name=name, by=by, kind=told.kind, order=told.order)


def check_groups(table: Table, column: RowGroupColumn) -> None:
    """Raise InvalidRequestError where all rows that are trained on are of one group or time."""
    values = column.values(table.columns[column.name])
    if (values == values[0]).all():
        message = f"{column.by}: column {column.name!r} is the same in every row: there is no other to leave out"
        raise InvalidRequestError(message, [Fault(message=message, column=column.name)])


def note_invalid(name: str, column: ColumnSums, inferred: InferredType, cell_errors: CellErrors) -> None:
    """Note the cells of a column that are not of its kind."""
    counts = column.cells(inferred.kind, inferred.order)
    if counts.invalid:
        as_read, part = Feature(name=name, kind=inferred.kind, order=inferred.order), next(column.parts())
        cell_errors.add_first(name, counts.invalid, counts.first, lambda cell: as_read.describe(cell, part))


def group_warnings(table: Table, rows: RowSet, schema: Schema, weights: str | None = None) -> list[str]:
    """Return a sentence on a column that may name groups: text, or whole numbers, whose values repeat and explain most
    of the target. weights: a column that does not. O(n) a column, n at most SAMPLE of the rows that are trained on."""
    if rows.count > SAMPLE:
        places = np.sort(np.random.default_rng(0).choice(rows.count, SAMPLE, replace=False))
        table = table.sample(rows.places(places), table.names)
    elif rows.left_out:
        table = table.sample(rows.numbers, table.names)
    y = table.columns[schema.target].numbers.values
    numbers = {feature.name for feature in schema.used if feature.kind is not Kind.CATEGORY}
    found: list[tuple[float, str, int]] = []
    for name in table.names:
        if name in (*schema.targets, weights) or (name in numbers and not _whole(table.columns[name])):
            continue
        between, groups = _between(table.columns[name], y)
        if between >= DOMINATES:
            found.append((between, name, groups))
    if not found:
        return []
    between, name, groups = max(found)
    option = f'"groups": {json.dumps(name, ensure_ascii=False)}'
    return [
        f"rows with the same {name!r} are alike: its {groups:,} values explain {between:.0%} of the target's variance. "
        f"If new rows will have other values of it, set {option}: whole groups are then left out, and the error bars "
        "are those of new ones"
    ]


def _whole(column: Column) -> bool:
    """Return whether all cells are whole numbers."""
    values = column.numbers.values
    return bool((values == np.rint(values)).all())


def _between(column: Column, y: FloatArray) -> tuple[float, int]:
    """Share of the target's variance between the values of a column, as one-way analysis of variance estimates it, and
    how many they are; 0 where it cannot be a name of groups."""
    codes = column.levels.codes
    known = np.flatnonzero((codes >= 0) & np.isfinite(y))
    if not len(known):
        return 0.0, 0
    levels, group, counts = np.unique(codes[known], return_inverse=True, return_counts=True)
    rows, groups = len(known), len(levels)
    if groups < MIN_GROUPS or np.median(counts) < MIN_ROWS_EACH or counts.max() > LARGEST * rows:
        return 0.0, groups
    z = y[known] - y[known].mean()
    means = np.bincount(group, z) / counts
    within = float(np.square(z - means[group]).sum()) / (rows - groups)
    among = float(counts @ np.square(means)) / (groups - 1)
    size = (rows - float(np.square(counts).sum()) / rows) / (groups - 1)
    variance = max(among - within, 0.0) / size
    if variance + within <= 0.0 or _is_quantity(column, known, group, means):
        return 0.0, groups
    return variance / (variance + within), groups


def _is_quantity(column: Column, known: IntArray, group: IntArray, means: FloatArray) -> bool:
    """Return whether the values are numbers whose neighbours have like means, or are not whole."""
    numbers = column.numbers.values[known]
    if not np.isfinite(numbers).all():
        return False
    if (numbers != np.rint(numbers)).any():
        return True
    value = np.empty(len(means))
    value[group] = numbers
    ordered = means[np.argsort(value)]
    if np.ptp(ordered) == 0.0:
        return True
    return float(np.corrcoef(ordered[:-1], ordered[1:])[0, 1]) > SMOOTH
