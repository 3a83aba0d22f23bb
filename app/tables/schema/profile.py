"""Profile of a table before any training: each column's type, missing cells and spread, and warnings."""

from typing import Any

import numpy as np

from app.errors import InvalidRequestError
from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import FloatArray, IntArray, cell_text, quote
from app.tables.columns.dates import DateOrder, parse_date
from app.tables.columns.integers import add_offset
from app.tables.columns.row_numbers import is_index, row_number_start
from app.tables.columns.sentinels import describe, find_sentinels
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import (
    InferredType,
    all_integers,
    constant_value,
    identifier_reason,
    infer_type,
    invalid_rows,
    lookalike_warning,
    missing_rows,
    present_values,
)
from app.tables.schema.fitting import fit_table
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
    return _describe(name, column, infer_type(column), index=index)


def _describe(name: str, column: Column, inferred: InferredType, *, index: bool) -> dict[str, Any]:
    unclear = inferred.kind is Kind.UNUSED and not column.numbers.missing.all()
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
    absent, bad = missing_rows(column, inferred), invalid_rows(column, inferred)
    warnings = []
    if len(bad):
        shown = ", ".join(quote(column.cell(row)) for row in bad[:_NAMED].tolist())
        more = "" if len(bad) <= _NAMED else ", .."
        warnings.append(f"{plural(len(bad), 'cell')} cannot be read as a {inferred.kind.value}: {shown}{more}")
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
        warnings += map(describe, find_sentinels(column.numbers.values))
    first = [(cell_text(column.cell(row)) or "")[:FIRST_CHARS] for row in range(min(FIRST, len(column)))]
    return {"name": name, "missing": len(absent), **found, "first": first, "warnings": warnings}


def _text_facts(column: Column) -> dict[str, Any]:
    counts = column.levels.counts()
    common = sorted(counts, key=lambda level: (-counts[level], level))[:TOP]
    return {
        "type": "category",
        "distinct": len(counts),
        "top": [{"value": level, "count": counts[level]} for level in common],
    }


def _number_facts(column: Column, inferred: InferredType) -> dict[str, Any]:
    present = present_values(column, inferred)
    distinct = len(np.unique(present))
    if inferred.kind is Kind.NUMBER:
        present = column.numbers.values[~np.isnan(column.numbers.values)]
    if inferred.kind is Kind.BOOLEAN:
        counts = {"true": int(np.count_nonzero(present)), "false": int(np.count_nonzero(present == 0.0))}
        top = [{"value": value, "count": count} for value, count in counts.items()]
        return {"type": "boolean", "distinct": distinct, "mean": _mean(present), "top": top}
    facts: dict[str, Any] = {"distinct": distinct, "histogram": histogram(present)}
    if inferred.kind is Kind.DATE:
        return {"type": "date", **_date_range(column, inferred.order or DateOrder.YEAR_FIRST), **facts}
    if not len(present):
        return {"type": "number", **facts}
    kind = "integer" if all_integers(present) else "number"
    low, high = _min_max(column, present)
    return {"type": kind, "min": low, "mean": _mean(present), "max": high, **facts}


def _min_max(column: Column, present: FloatArray) -> tuple[float | int, float | int]:
    """The least and the largest number, all digits of integers that JSON's readers take."""
    exact = column.minus(column.offset)
    low, high = (add_offset(float(end), column.offset) for end in (np.nanmin(exact), np.nanmax(exact)))
    fit = low >= -(2**63) and high < 2**64
    return (low, high) if fit else (float(present.min()), float(present.max()))


def _date_range(column: Column, order: DateOrder) -> dict[str, str]:
    """The first and the last date as they were written."""
    dated = [(when, text) for text in column.levels.counts() if (when := parse_date(text, order)) is not None]
    return {"min": min(dated)[1], "max": max(dated)[1]} if dated else {}


def _mean(present: FloatArray) -> float | None:
    """Return the mean, though the sum may be past float64; None for no value."""
    if not len(present):
        return None
    scale = float(np.abs(present).max()) or 1.0
    return float(np.mean(present / scale)) * scale


def histogram(present: FloatArray) -> dict[str, Any]:
    """Counts in BINS bins of equal width between the least and the largest value; edges has one more."""
    if not len(present):
        return {"edges": [], "counts": []}
    low, high = float(present.min()), float(present.max())
    if low == high:
        return {"edges": [low, high], "counts": [len(present)]}
    half_low, half_high = 0.5 * low, 0.5 * high  # the width of all may be past float64
    edges = 2.0 * (half_low + (half_high - half_low) * np.linspace(0.0, 1.0, BINS + 1))
    edges[0], edges[-1] = low, high
    places: IntArray = np.clip(np.searchsorted(edges, present, side="right") - 1, 0, BINS - 1)
    return {"edges": edges.tolist(), "counts": np.bincount(places, minlength=BINS).tolist()}


def describe_table(table: Table, target: str | None) -> dict[str, Any]:
    """Describe all columns, and warn: how the file was read, and what gives the target away. O(cells).

    "levels" of a category: how many of its values training tells apart. target: by default the last column; if it
    cannot be learned, the warnings say why. InvalidRequestError for a name that is not there.
    """
    goal = resolve_targets(table, target)[0]
    columns, ignored = [], {}
    for name in table.names:
        column = table.columns[name]
        inferred = infer_type(column)
        columns.append(_describe(name, column, inferred, index=name in table.index))
        if name != goal and _has_invalid_cells(column, inferred):
            ignored[name] = "ignore"
    warnings = list(table.notes)
    try:
        options = TableOptions(target=goal, missing=Missing.IMPUTE, dates=Dates.ELAPSED, columns=ignored)
        schema, training_rows = fit_table(table, options)
        _add_level_counts(columns, schema)
        warnings += find_leaks(table.take(training_rows.rows, table.names), schema)
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


def _has_invalid_cells(column: Column, inferred: InferredType) -> bool:
    """Return whether some cells are not of the column's kind, so that training would refuse them."""
    return inferred.kind is not Kind.UNUSED and len(invalid_rows(column, inferred)) > 0
