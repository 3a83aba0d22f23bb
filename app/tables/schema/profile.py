"""Profile of a table before any training: each column's type, missing cells and spread, and warnings."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from app.errors import InvalidRequestError
from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import FloatArray, IntArray, cell_text, quote
from app.tables.columns.counts import DistinctNumbers, Ends, LevelwiseCounts
from app.tables.columns.dates_and_booleans import parse_by_level
from app.tables.columns.integers import add_offset
from app.tables.columns.row_numbers import is_index, row_number_start
from app.tables.columns.sentinels import describe
from app.tables.columns.sums import ColumnSums, TableSums
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import (
    InferredType,
    constant_value,
    identifier_reason,
    infer_type,
    lookalike_warning,
)
from app.tables.schema.fitting import fit_table
from app.tables.schema.inspection import sentinels_of
from app.tables.schema.leaks import find_leaks
from app.tables.schema.schema import Schema
from app.tables.schema.table_options import Dates, Missing, TableOptions, resolve_targets

BINS = 20
TOP = 20
"""Bins of a histogram, and how many of the most common texts are listed."""
FIRST, FIRST_CHARS = 5, 80
"""Number of cells of the first rows that are shown as they came, and length of each."""
_NAMED = 5  # wrong cells that a warning quotes


def describe_column(name: str, column: Column, *, index: bool = False) -> dict[str, Any]:
    """Describe one column. type: integer, number, boolean, date, category or empty, as training would read it unasked.

    index: whether it may be the index of a data frame, which has no name. distinct counts the values that are there.
    Dates are told as text, their histogram is over days.
    """
    sums = ColumnSums.of(column)
    return _describe(name, sums, infer_type(sums), index=index)


def _describe(name: str, column: ColumnSums, inferred: InferredType, *, index: bool) -> dict[str, Any]:
    unclear = inferred.kind is Kind.UNUSED and column.numbers.present > 0
    if unclear:
        inferred = InferredType(kind=Kind.CATEGORY, unused_reason=inferred.unused_reason)
    if inferred.kind is Kind.UNUSED:
        return {
            "name": name,
            "type": "empty",
            "missing": len(column),
            "distinct": 0,
            "warnings": ["no cell has a value"],
        }
    cells = column.cells(inferred.kind, inferred.order)
    warnings = []
    if cells.invalid:
        shown = ", ".join(quote(cell) for _, cell in cells.first[:_NAMED])
        more = "" if cells.invalid <= _NAMED else ", .."
        warnings.append(f"{plural(cells.invalid, 'cell')} cannot be read as a {inferred.kind.value}: {shown}{more}")
    if constant_value(column, inferred) is not None:
        warnings.append("the same value in every row: training leaves it out")
    elif unclear:
        warnings.append(f"{inferred.unused_reason}: training leaves it out")
    elif (reason := identifier_reason(column, inferred)) is not None:
        warnings.append(f"{reason}: training leaves it out")
    elif index and inferred.kind is Kind.NUMBER and is_index(column):
        warnings.append("the index of a data frame: training leaves it out")
    elif inferred.kind is Kind.NUMBER and (start := row_number_start(name, column)) is not None:
        warnings.append(
            f"looks like a row number ({start}, {start + 1}, {start + 2}, ..): training reads it as a number"
        )
    found = _text_facts(column) if inferred.kind is Kind.CATEGORY else _number_facts(column, inferred)
    if inferred.lookalike is not None:
        warnings.append(lookalike_warning(inferred.lookalike))
    if inferred.kind is Kind.NUMBER:
        warnings += map(describe, sentinels_of(column))
    first = [(cell_text(cell) or "")[:FIRST_CHARS] for cell in column.first_cells(FIRST)]
    return {"name": name, "missing": cells.missing, **found, "first": first, "warnings": warnings}


def _text_facts(column: ColumnSums) -> dict[str, Any]:
    counts = column.levels.counts
    common = sorted(counts, key=lambda level: (-counts[level], level))[:TOP]
    return {
        "type": "category",
        "distinct": column.levels.distinct,
        "top": [{"value": level, "count": counts[level]} for level in common],
    }


def _number_facts(column: ColumnSums, inferred: InferredType) -> dict[str, Any]:
    cells = column.cells(inferred.kind, inferred.order)
    offset = column.numbers.offset if inferred.kind is Kind.NUMBER else None
    values = (_present(part, inferred) for part in column.parts())
    if isinstance(cells, LevelwiseCounts) and cells.kind is Kind.BOOLEAN:
        spread = _Spread(cells.ends)
        spread.add_all(values)
        true = round((spread.mean or 0.0) * cells.usable)
        counts = {"true": true, "false": cells.usable - true}
        top = [{"value": value, "count": count} for value, count in counts.items()]
        return {"type": "boolean", "distinct": spread.distinct.count, "mean": spread.mean, "top": top}
    spread = _Spread(cells.ends)
    spread.add_all(values)
    if offset is not None:
        spread.distinct = DistinctNumbers()
        for part in column.parts():
            exact = part.minus(offset)
            spread.distinct.add(exact[~np.isnan(exact)])
    facts: dict[str, Any] = {"distinct": spread.distinct.count, "histogram": spread.histogram()}
    if isinstance(cells, LevelwiseCounts):
        dates = (
            {} if cells.earliest is None or cells.latest is None else {"min": cells.earliest[1], "max": cells.latest[1]}
        )
        return {"type": "date", **dates, **facts}
    if not cells.ends.known:
        return {"type": "number", **facts}
    low, high = _min_max(column, offset)
    return {
        "type": "integer" if column.numbers.whole else "number",
        "min": low,
        "mean": spread.mean,
        "max": high,
        **facts,
    }


def _present(part: Column, inferred: InferredType) -> FloatArray:
    """The numbers of a part that are there."""
    read = part.numbers.values
    if inferred.kind is not Kind.NUMBER:
        read = parse_by_level(part, inferred.kind, inferred.order)[0]
    return read[~np.isnan(read)]


def _min_max(column: ColumnSums, offset: int | None) -> tuple[float | int, float | int]:
    """The least and the largest number, all digits of integers that JSON's readers take."""
    exact, read = column.ends(offset), column.numbers.ends
    low, high = (add_offset(end, offset) for end in (exact.low, exact.high))
    return (low, high) if low >= -(2**63) and high < 2**64 else (read.low, read.high)


class _Spread:
    """How numbers with these ends are spread: their mean, different values, and counts in bins."""

    def __init__(self, ends: Ends) -> None:
        self.distinct = DistinctNumbers()
        self._ends = ends
        self._scale = max(abs(ends.low), abs(ends.high)) or 1.0  # the sum itself may be past float64
        self._count, self._sum = 0, 0.0
        self._edges = bin_edges(ends.low, ends.high) if ends.known else np.empty(0)
        self._counts = np.zeros(max(len(self._edges) - 1, 0), dtype=np.int64)

    def add_all(self, parts: Iterable[FloatArray]) -> None:
        """Add the numbers of each part, none of them NaN."""
        for present in parts:
            if len(present):
                self.distinct.add(present)
                self._sum += float(np.sum(present / self._scale))
                self._count += len(present)
                self._counts += bin_counts(present, self._edges)

    @property
    def mean(self) -> float | None:
        """Return the mean, None of no number."""
        return self._sum / self._count * self._scale if self._count else None

    def histogram(self) -> dict[str, Any]:
        """Counts in BINS bins of equal width between the least and the largest value; edges has one more."""
        return {"edges": self._edges.tolist(), "counts": self._counts.tolist()}


def bin_edges(low: float, high: float) -> FloatArray:
    """Edges of BINS bins of equal width, or of one where all values are the same."""
    if low == high:
        return np.array([low, high])
    half_low, half_high = 0.5 * low, 0.5 * high  # the width of all may be past float64
    edges: FloatArray = 2.0 * (half_low + (half_high - half_low) * np.linspace(0.0, 1.0, BINS + 1))
    edges[0], edges[-1] = low, high
    return edges


def bin_counts(present: FloatArray, edges: FloatArray) -> IntArray:
    """Count the values in each bin."""
    bins = len(edges) - 1
    if bins == 1:
        return np.array([len(present)])
    places: IntArray = np.clip(np.searchsorted(edges, present, side="right") - 1, 0, bins - 1)
    return np.asarray(np.bincount(places, minlength=bins), np.int64)


def histogram(present: FloatArray) -> dict[str, Any]:
    """Counts in BINS bins of equal width between the least and the largest value; edges has one more."""
    if not len(present):
        return {"edges": [], "counts": []}
    edges = bin_edges(float(present.min()), float(present.max()))
    return {"edges": edges.tolist(), "counts": bin_counts(present, edges).tolist()}


def describe_table(table: Table, target: str | None) -> dict[str, Any]:
    """Describe all columns, and warn: how the file was read, and what gives the target away. O(cells).

    "levels" of a category: how many of its values training tells apart. target: by default the last column; if it
    cannot be learned, the warnings say why. InvalidRequestError for a name that is not there.
    """
    goal = resolve_targets(table, target)[0]
    columns, ignored, sums = [], {}, TableSums(table)
    sums.gather(table.names)
    for name in table.names:
        column = sums[name]
        inferred = infer_type(column)
        columns.append(_describe(name, column, inferred, index=name in table.index))
        if name != goal and _has_invalid_cells(column, inferred):
            ignored[name] = "ignore"
    warnings = list(table.notes)
    try:
        options = TableOptions(target=goal, missing=Missing.IMPUTE, dates=Dates.ELAPSED, columns=ignored)
        schema, training_rows = fit_table(table, options)
        _add_level_counts(columns, schema)
        warnings += find_leaks(table.keep(training_rows.kept, table.names), schema)
    except InvalidRequestError as error:
        if target is not None or len(table.names) > 1:
            warnings.append(f"{goal!r} cannot be the target as it is: {error.message}")
    return {"columns": columns, "target": goal, "warnings": warnings}


def _add_level_counts(columns: list[dict[str, Any]], schema: Schema) -> None:
    """Return how many values of each category would be levels, and a warning where others are grouped."""
    features = {feature.name: feature for feature in schema.used if feature.kind is Kind.CATEGORY}
    for column in columns:
        feature = features.get(column["name"])
        if feature is None:
            continue
        column["levels"] = len(feature.levels)
        if feature.other:
            column["warnings"].append(
                f"{column['distinct']:,} different values: training groups all but the {len(feature.levels):,} most "
                'common, unless "max_levels" asks for more'
            )


def _has_invalid_cells(column: ColumnSums, inferred: InferredType) -> bool:
    """Return whether some cells are not of the column's kind, so that training would refuse them."""
    return inferred.kind is not Kind.UNUSED and column.cells(inferred.kind, inferred.order).invalid > 0
