"""A Table to what training needs: decides what each column is, drops or imputes rows, and encodes the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

import numpy as np

from app.errors import Fault, InvalidRequestError
from app.tables.cells import BoolArray, FloatArray, IntArray, describe_number, quote
from app.tables.prepared import Prepared
from app.tables.problems import Problems, list_names, plural
from app.tables.schema import Feature, Schema, Unseen
from app.tables.table import Column, Kind, Table

MOST_LEVELS: Final = 50
"""The most distinct texts that a column may have to be read as a category."""


_Choice = TypeVar("_Choice", bound=StrEnum)


class Missing(StrEnum):
    """What to do about missing cells: refuse the table, leave the rows out, or fill them in and mark them."""

    ERROR = "error"
    DROP = "drop"
    IMPUTE = "impute"


@dataclass(slots=True, kw_only=True)
class _Plan:
    """What the columns of a table turn out to be;

    missing_cells: the rows, by column, where a cell is missing. wide: texts with too many levels, and how many.
    """

    table: Table
    missing: Missing
    problems: Problems
    warnings: list[str] = field(default_factory=list)
    missing_cells: dict[str, IntArray] = field(default_factory=dict)
    wide: dict[str, int] = field(default_factory=dict)


def fit_schema(
    table: Table,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
    missing: str = Missing.ERROR,
    unseen: str = Unseen.ERROR,
) -> tuple[Schema, Prepared]:
    """Decides how each column is read and encodes the rows to train on.

    target: default the last column. features: default all other columns. A feature that is constant or empty is left
    out with a warning. A missing target is never imputed: under "impute" its row is dropped. Raises
    InvalidRequestError with the places: unknown column, text target, wrong or missing cells, a text column of more
    than MOST_LEVELS levels, a constant target, fewer than 2 rows. O(n p).
    """
    how, strange = _choice(Missing, "missing", missing), _choice(Unseen, "unseen", unseen)
    goal = _find_target(table, target)
    names = _find_features(table, goal, features)
    plan = _Plan(table=table, missing=how, problems=Problems(lines=table.lines))
    _check_target(plan, goal)
    kinds = {name: _read_feature(plan, name) for name in names}
    _refuse_wide(plan)
    rows = _kept_rows(plan, goal, [name for name in names if kinds[name] is not Kind.UNUSED])
    kept = table if len(rows) == table.rows else table.take(rows, [goal, *names])
    fitted = tuple(_fit_feature(plan, kept.columns[name], name, kinds[name]) for name in names)
    _check_rows(kept, goal, len(rows))
    schema = Schema(target=goal, features=fitted, unseen=strange)
    if not schema.used:
        raise InvalidRequestError(f"no feature is left to learn from; constant or empty: {list_names(names)}")
    prepared = Prepared(
        inputs=schema.encode_table(kept),
        targets=kept.columns[goal].numbers.values,
        groups=schema.groups,
        indicator=schema.indicator,
        rows=rows,
        dropped=table.rows - len(rows),
        warnings=tuple(plan.warnings),
    )
    return schema, prepared


def _choice(kind: type[_Choice], field_name: str, value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in kind)
        raise InvalidRequestError(f"{field_name}: expected one of {allowed}, got {value!r}") from None


def _find_target(table: Table, target: str | None) -> str:
    if target is None:
        return table.names[-1]
    if target not in table.columns:
        raise InvalidRequestError(
            f"target: there is no column {target!r}; there are {list_names(table.names)}",
            [Fault(column=target, message="no such column")],
        )
    return target


def _find_features(table: Table, target: str, features: Sequence[str] | None) -> list[str]:
    if features is None:
        names = [name for name in table.names if name != target]
        if not names:
            raise InvalidRequestError(f"the table has no column besides the target {target!r} to learn from")
        return names
    if not features:
        raise InvalidRequestError("features: expected at least one column name")
    unknown = [name for name in features if name not in table.columns]
    if unknown:
        raise InvalidRequestError(
            f"features: there is no column {list_names(unknown)}; there are {list_names(table.names)}",
            [Fault(column=name, message="no such column") for name in unknown],
        )
    if target in features:
        raise InvalidRequestError(f"features: {target!r} is the target")
    twice = sorted({name for name in features if list(features).count(name) > 1})
    if twice:
        raise InvalidRequestError(f"features: {list_names(twice)} named twice")
    return list(features)


def _check_target(plan: _Plan, target: str) -> None:
    column = plan.table.columns[target]
    numbers = column.numbers
    present = len(column) - int(np.count_nonzero(numbers.missing))
    if present == 0:
        raise InvalidRequestError(f"the target {target!r} has no value in any row")
    if column.guess() is Kind.CATEGORY:
        first = int(numbers.bad[0])
        raise InvalidRequestError(
            f"the target {target!r} is text, such as {quote(column.cell(first))}: {numbers.finite:,} of its "
            f"{present:,} cells are numbers; name a numeric column as target"
        )
    plan.problems.add(target, numbers.bad, column.cell, describe_number)
    plan.missing_cells[target] = np.flatnonzero(numbers.missing)


def _read_feature(plan: _Plan, name: str) -> Kind:
    """What the column is; notes its wrong and missing cells, and says if it is of no use."""
    column = plan.table.columns[name]
    kind = column.guess()
    if kind is Kind.NUMBER:
        plan.problems.add(name, column.numbers.bad, column.cell, describe_number)
    gaps = _gaps(column, kind)
    if len(gaps) == len(column):
        plan.warnings.append(f"column {name!r} is empty in every row and was left out")
        return Kind.UNUSED
    if _single(column, kind) is not None and not (len(gaps) and plan.missing is Missing.IMPUTE):
        _warn_constant(plan, name, column, kind)
        return Kind.UNUSED
    if kind is Kind.CATEGORY and len(column.levels.names) > MOST_LEVELS:
        plan.wide[name] = len(column.levels.names)
    plan.missing_cells[name] = gaps
    return kind


def _gaps(column: Column, kind: Kind) -> IntArray:
    """Rows of the missing cells."""
    return np.flatnonzero(column.numbers.missing if kind is Kind.NUMBER else column.levels.codes < 0)


def _single(column: Column, kind: Kind) -> float | str | None:
    """The one value of a column that has only one, missing and wrong cells aside."""
    if kind is Kind.NUMBER:
        if len(column.numbers.bad):
            return None
        values = column.numbers.values[~column.numbers.missing]
        return float(values[0]) if len(values) and values.min() == values.max() else None
    levels = column.levels.present()
    return levels[0] if len(levels) == 1 else None


def _warn_constant(plan: _Plan, name: str, column: Column, kind: Kind) -> None:
    plan.warnings.append(f"column {name!r} is {_single(column, kind)!r} in every row and was left out")


def _refuse_wide(plan: _Plan) -> None:
    if not plan.wide:
        return
    faults = [
        Fault(column=name, message=f"text with {levels:,} different values") for name, levels in plan.wide.items()
    ]
    which = ", ".join(f"{name!r} ({levels:,})" for name, levels in plan.wide.items())
    raise InvalidRequestError(
        f"text with more than {MOST_LEVELS} different values cannot be read as categories: {which}; "
        'list the columns to use in "features", without these',
        faults,
    )


def _kept_rows(plan: _Plan, target: str, used: Sequence[str]) -> IntArray:
    """Rows to train on. Refuses wrong cells, and missing ones under "error"."""
    table, wrong = plan.table, plan.problems.total
    if wrong:
        plan.problems.refuse('correct the file, or list the columns to use in "features"')
    gaps = {name: plan.missing_cells[name] for name in (target, *used) if len(plan.missing_cells[name])}
    if plan.missing is Missing.ERROR and gaps:
        for name, rows in gaps.items():
            plan.problems.add(name, rows, table.columns[name].cell, describe_number)
        plan.problems.refuse('set "missing" to "drop" to leave such rows out, or to "impute" to fill them in')
    keep: BoolArray = np.ones(table.rows, dtype=np.bool_)
    causes = gaps if plan.missing is Missing.DROP else {name: gaps[name] for name in (target,) if name in gaps}
    for rows in causes.values():
        keep[rows] = False
    if causes:
        dropped = table.rows - int(np.count_nonzero(keep))
        which = ", ".join(f"{name!r} {len(rows):,}" for name, rows in causes.items())
        plan.warnings.append(
            f"{dropped:,} of {plural(table.rows, 'row')} dropped because a cell is missing (by column: {which})"
        )
    return np.flatnonzero(keep)


def _fit_feature(plan: _Plan, column: Column, name: str, kind: Kind) -> Feature:
    """The feature over the rows that are kept."""
    if kind is Kind.UNUSED:
        return Feature(name=name, kind=kind)
    gaps = _gaps(column, kind)
    if len(gaps) == len(column) or (_single(column, kind) is not None and not len(gaps)):
        # Only after rows were dropped: `_read_feature` has seen to the others.
        plan.warnings.append(f"column {name!r} has one value in the rows that are left and was left out")
        return Feature(name=name, kind=Kind.UNUSED)
    if kind is Kind.CATEGORY:
        if len(gaps):
            plan.warnings.append(f"{plural(len(gaps), 'missing cell')} of column {name!r} read as a level of its own")
        return Feature(name=name, kind=kind, levels=tuple(column.levels.present()), indicator=len(gaps) > 0)
    if plan.missing is not Missing.IMPUTE:
        return Feature(name=name, kind=kind)
    fill = _median(column.numbers.values[~column.numbers.missing])
    if len(gaps):
        plan.warnings.append(
            f"{plural(len(gaps), 'missing cell')} of column {name!r} filled with the median {fill!r} "
            "and marked in an indicator column"
        )
    return Feature(name=name, kind=kind, fill=fill, indicator=len(gaps) > 0)


def _median(values: FloatArray) -> float:
    """A value of the column, never a mean of two: that could be past float64, and an integer stays one."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def _check_rows(kept: Table, target: str, rows: int) -> None:
    if rows < 2:
        raise InvalidRequestError(f"at least 2 rows are needed to learn from, got {rows}")
    values = kept.columns[target].numbers.values
    if values.min() == values.max():
        raise InvalidRequestError(
            f"the target {target!r} is {float(values[0])!r} in every row: there is nothing to predict"
        )
