"""A Table to what training needs: decides what each column is, drops or imputes rows, and encodes the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from app.errors import InvalidRequestError
from app.tables.columns.cell_errors import Problems, plural
from app.tables.columns.cells import BLANKS, BoolArray, FloatArray, IntArray, quote
from app.tables.columns.date_cycles import choose_cycles, thinned
from app.tables.columns.dates import Cycle, DateOrder, cycles
from app.tables.columns.integers import with_offset
from app.tables.columns.levels import choose_levels, level_limits
from app.tables.columns.lookalikes import INSTEAD, lookalike
from app.tables.columns.missing import missing_values
from app.tables.columns.number_formats import PLAIN
from app.tables.columns.read_options import ReadOptions
from app.tables.columns.rounding import check_target, fit_offset, is_past
from app.tables.columns.row_numbers import count_start, is_index
from app.tables.columns.sentinels import Sentinel, find_sentinels, tell_sentinels
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import (
    Choice,
    Guess,
    chosen_kind,
    gaps,
    guess_kind,
    identifies,
    only_value,
    tell_lookalike,
    values,
    wrong,
)
from app.tables.schema.design_matrix import Fitted, Prepared
from app.tables.schema.features import OTHER, Feature
from app.tables.schema.leaks import find_leaks
from app.tables.schema.report_notes import tell_cycles, tell_dates, tell_forms
from app.tables.schema.schema import Schema, Unseen
from app.tables.schema.table_options import Dates, Missing, Wishes, choice, find_choices, find_features, find_target

_REASONS = 5  # why columns were left out, as a refusal lists them
_ADVICE = (
    'correct the file, list what stands for a missing cell in "missing_values", or say in "columns" what the column '
    'is ("category", "ignore")'
)


@dataclass(slots=True, kw_only=True)
class _Plan:
    """What the columns of a table turn out to be. gaps: rows, by column, where a cell is missing; sentinels: numbers,
    by column, that may stand for one; distinct: how many texts each category has."""

    table: Table
    missing: Missing
    missing_values: Sequence[float | str]
    dates: Dates
    problems: Problems
    warnings: list[str] = field(default_factory=list)
    gaps: dict[str, IntArray] = field(default_factory=dict)
    sentinels: dict[str, list[Sentinel]] = field(default_factory=dict)
    distinct: dict[str, int] = field(default_factory=dict)


def fit_table(table: Table, wishes: Wishes) -> tuple[Schema, Fitted]:
    """Decides how each column is read and which rows are trained on.

    target: default the last column. features: default all other columns, without text that only tells the rows apart
    and the index of a data frame, which has no place in a positional row either.
    columns: what some columns are, over the guess. max_levels: of each category, rarer ones are grouped; default as
    many as the table affords (`columns.levels`). A feature that is constant or empty is left out with a warning. A
    missing target is never imputed: under "impute" its row is dropped. Raises InvalidRequestError with the places:
    unknown column, text target, wrong or missing cells, a constant target, fewer than 2 rows. O(n p); holds a column.
    """
    missing = choice(Missing, "missing", wishes.missing)
    unseen = choice(Unseen, "unseen", wishes.unseen)
    dates = choice(Dates, "dates", wishes.dates)
    said = ReadOptions(decimal=wishes.decimal, thousands=wishes.thousands, sheet=wishes.sheet).over(table.said)
    forms = table.forms(said)
    table = table.reading(missing_values(wishes.missing_values), forms)
    goal = find_target(table, wishes.target)
    choices = find_choices(table, goal, wishes.columns)
    names = find_features(table, goal, wishes.features)
    plan = _Plan(
        table=table,
        missing=missing,
        missing_values=wishes.missing_values,
        dates=dates,
        problems=Problems(lines=table.lines),
        warnings=list(table.notes),
    )
    _check_target(plan, goal)
    guesses = {name: _read_feature(plan, name, choices.get(name)) for name in names}
    wanted = {*choices, *(names if wishes.features is not None else ())}
    _leave_out_identifiers(plan, guesses, wanted)
    names = [name for name in names if name not in table.index or guesses[name].kind is not Kind.UNUSED]
    _tell_numbers(plan, {name: guesses[name] for name in names if name not in wanted})
    used = [name for name in names if guesses[name].kind is not Kind.UNUSED]
    plan.warnings += tell_sentinels({name: plan.sentinels[name] for name in (goal, *used) if name in plan.sentinels})
    if not said.marks_said:
        numbers = [name for name in used if guesses[name].kind is Kind.NUMBER]
        plan.warnings += tell_forms(table, forms, [*numbers, goal])
    rows = _kept_rows(plan, goal, used)
    kept = table if len(rows) == table.rows else table.take(rows, [goal, *names])
    _check_rows(kept, goal)
    distinct = {name: plan.distinct[name] for name in used if name in plan.distinct}
    limits = level_limits(distinct, len(rows), wishes.max_levels)
    fitted = tuple(_fit_feature(plan, kept.columns[name], name, guesses[name], limits.get(name, 0)) for name in names)
    fitted = _with_cycles(plan, kept, goal, fitted)
    schema = Schema(
        target=goal,
        features=fitted,
        unseen=unseen,
        missing=missing_values(wishes.missing_values),
        said=said,
    )
    if not schema.used:
        reasons = plan.warnings[len(table.notes) :] or ["all are to be ignored"]
        more = [f"and {len(reasons) - _REASONS:,} more"] if len(reasons) > _REASONS else []
        raise InvalidRequestError(f"no feature is left to learn from: {'; '.join(reasons[:_REASONS] + more)}")
    warnings = (*plan.warnings, *find_leaks(kept, schema))
    return schema, Fitted(rows=rows, dropped=table.rows - len(rows), warnings=warnings)


def fit_schema(table: Table, **wishes: object) -> tuple[Schema, Prepared]:
    """`fit_table` and `prepare` in one; wishes as in `Wishes`."""
    schema, fitted = fit_table(table, Wishes(**wishes))  # type: ignore[arg-type]  # fields of Wishes
    return schema, prepare(table, schema, fitted)


def prepare(table: Table, schema: Schema, fitted: Fitted) -> Prepared:
    """The design matrix of the rows that are trained on."""
    table = schema.as_trained(table)
    used = [feature.name for feature in schema.used]
    kept = table if len(fitted.rows) == table.rows else table.take(fitted.rows, [schema.target, *used])
    return Prepared(
        inputs=schema.encode_table(kept),
        targets=kept.columns[schema.target].numbers.values,
        groups=schema.groups,
        indicator=schema.indicator,
        rows=fitted.rows,
        dropped=fitted.dropped,
        warnings=fitted.warnings,
    )


def _check_target(plan: _Plan, target: str) -> None:
    column = plan.table.columns[target]
    numbers = column.numbers
    present = len(column) - int(np.count_nonzero(numbers.missing))
    if present == 0:
        raise InvalidRequestError(f"the target {target!r} has no value in any row")
    if len(numbers.bad) and guess_kind(column).kind is not Kind.NUMBER:
        first = column.cell(int(numbers.bad[0]))
        meant = lookalike(str(first).strip(BLANKS))
        raise InvalidRequestError(
            f"the target {target!r} is text, such as {quote(first)}: {numbers.finite:,} of its {present:,} cells are "
            f"numbers; name a numeric column as target{'' if meant is None else f', or {INSTEAD[meant]}'}"
        )
    check_target(plan.table, target)
    guess = Guess(kind=Kind.NUMBER)
    _note_wrong(plan, target, column, guess)
    plan.gaps[target] = gaps(column, guess)
    plan.sentinels[target] = find_sentinels(numbers.values)


def _note_wrong(plan: _Plan, name: str, column: Column, guess: Guess) -> None:
    as_read = Feature(name=name, kind=guess.kind, order=guess.order)
    plan.problems.add(name, wrong(column, guess), column.cell, lambda cell: as_read.describe(cell, column))


def _read_feature(plan: _Plan, name: str, choice: Choice | None) -> Guess:
    """What the column is; notes its wrong and missing cells, and says if it is of no use."""
    column = plan.table.columns[name]
    guess = guess_kind(column) if choice is None else chosen_kind(column, choice)
    if guess.kind is Kind.UNUSED:
        if guess.useless is not None:
            plan.warnings.append(f"column {name!r} {guess.useless} and was left out")
        return guess
    _note_wrong(plan, name, column, guess)
    absent = gaps(column, guess)
    if len(absent) == len(column):
        plan.warnings.append(f"column {name!r} is empty in every row and was left out")
        return Guess(kind=Kind.UNUSED)
    value = only_value(column, guess)
    if value is not None and not (len(absent) and plan.missing is Missing.IMPUTE):
        plan.warnings.append(f"column {name!r} is {value} in every row and was left out")
        return Guess(kind=Kind.UNUSED)
    plan.gaps[name] = absent
    plan.warnings += tell_dates(name, column, guess, chosen=choice is not None)
    if guess.seen is not None:
        plan.warnings.append(f"column {name!r} {tell_lookalike(guess.seen)}")
    if guess.kind is Kind.NUMBER:
        plan.sentinels[name] = find_sentinels(column.numbers.values)
    if guess.kind is Kind.CATEGORY:
        plan.distinct[name] = len(column.levels.counts())
    useless = identifies(column, guess)
    if name in plan.table.index and guess.kind is Kind.NUMBER and is_index(column):
        useless = "is the index of a data frame (whole numbers in a column without a name)"
    return Guess(kind=guess.kind, order=guess.order, useless=useless if choice is None else None)


def _leave_out_identifiers(plan: _Plan, guesses: dict[str, Guess], wanted: set[str]) -> None:
    """Return those that nobody asked for; an index of numbers, which may be times, only if something else is left."""
    used = {name: guess for name, guess in guesses.items() if guess.kind is not Kind.UNUSED}
    left = [name for name, guess in used.items() if guess.useless is None]
    for name, guess in used.items():
        if guess.useless is None or name in wanted or (guess.kind is Kind.NUMBER and not left):
            continue
        guesses[name] = Guess(kind=Kind.UNUSED)
        plan.warnings.append(
            f'column {name!r} {guess.useless} and was left out; to use it, say in "columns" what it is'
        )


def _tell_numbers(plan: _Plan, guesses: dict[str, Guess]) -> None:
    """Return what looks like a row number and is used, and columns that have no name."""
    for name, guess in guesses.items():
        start = count_start(name, plan.table.columns[name]) if guess.kind is Kind.NUMBER else None
        if start is not None:
            plan.warnings.append(
                f"column {name!r} looks like a row number ({start}, {start + 1}, {start + 2}, ..) and was read as a "
                'number like others; if it says nothing of new rows, leave it out ("columns": {"...": "ignore"})'
            )
        elif guess.kind is not Kind.UNUSED and name in plan.table.index:
            plan.warnings.append(f"the column without a name was read as {name!r}")


def _kept_rows(plan: _Plan, target: str, used: Sequence[str]) -> IntArray:
    """Rows to train on. Refuses wrong cells, and missing ones under "error"."""
    table = plan.table
    if plan.problems.total:
        plan.problems.refuse(_ADVICE)
    absent = {name: plan.gaps[name] for name in (target, *used) if len(plan.gaps[name])}
    if plan.missing is Missing.ERROR and absent:
        for name, rows in absent.items():
            plan.problems.add(name, rows, table.columns[name].cell, lambda cell: f"missing ({quote(cell)})")
        plan.problems.refuse('set "missing" to "drop" to leave such rows out, or to "impute" to fill them in')
    causes = absent if plan.missing is Missing.DROP else {name: absent[name] for name in (target,) if name in absent}
    keep: BoolArray = np.ones(table.rows, dtype=np.bool_)
    for rows in causes.values():
        keep[rows] = False
    if causes:
        dropped = table.rows - int(np.count_nonzero(keep))
        which = ", ".join(f"{name!r} {len(rows):,}" for name, rows in causes.items())
        plan.warnings.append(
            f"{dropped:,} of {plural(table.rows, 'row')} dropped because a cell is missing (by column: {which})"
        )
    return np.flatnonzero(keep)


def _fit_feature(plan: _Plan, column: Column, name: str, guess: Guess, limit: int) -> Feature:
    """The feature over the rows that are kept. limit: the most levels it may have."""
    if guess.kind is Kind.UNUSED:
        return Feature(name=name, kind=guess.kind)
    absent = gaps(column, guess)
    if len(absent) == len(column) or (only_value(column, guess) is not None and not len(absent)):
        # Only after rows were dropped: `_read_feature` has seen to the others.
        plan.warnings.append(f"column {name!r} has one value in the rows that are left and was left out")
        return Feature(name=name, kind=Kind.UNUSED)
    marked = len(absent) > 0
    if guess.kind is Kind.CATEGORY:
        if marked:
            plan.warnings.append(f"{plural(len(absent), 'missing cell')} of column {name!r} read as a level of its own")
        levels, other = _levels(plan, column, name, limit)
        return Feature(name=name, kind=guess.kind, levels=levels, other=other, indicator=marked)
    present = values(column, guess)
    offset = fit_offset(plan.table, name, column) if guess.kind is Kind.NUMBER else None
    if offset is not None and is_past(column):
        plan.warnings.append(
            f"column {name!r} has integers past 2^53, which 64-bit numbers round: it was read as the difference from "
            f"{offset}"
        )
    turns: tuple[Cycle, ...] = ()
    if guess.kind is Kind.DATE and plan.dates is Dates.CYCLIC:
        turns = cycles(np.round(present * 86_400e6).astype(np.int64))
    fill = None if plan.missing is not Missing.IMPUTE else _median(present)
    if marked:
        what = f"median {with_offset(fill or 0.0, offset)!r}" if guess.kind is Kind.NUMBER else "median"
        plan.warnings.append(
            f"{plural(len(absent), 'missing cell')} of column {name!r} filled with the {what} "
            "and marked in an indicator column"
        )
    order: DateOrder | None = guess.order
    form = column.form if guess.kind is Kind.NUMBER else PLAIN
    return Feature(
        name=name,
        kind=guess.kind,
        order=order,
        cycles=turns,
        form=form,
        offset=offset,
        fill=fill,
        indicator=marked,
    )


def _with_cycles(plan: _Plan, kept: Table, target: str, fitted: tuple[Feature, ...]) -> tuple[Feature, ...]:
    """The features, dates with the cycles that help to predict later rows, if that is to be found out."""
    if plan.dates is not Dates.AUTO or not any(feature.kind is Kind.DATE for feature in fitted):
        return fitted
    schema = Schema(target=target, features=fitted, missing=missing_values(plan.missing_values))
    some = kept.take(thinned(kept.rows), [target, *(feature.name for feature in schema.used)])
    inputs, targets = schema.encode_table(some), some.columns[target].numbers.values
    owners = [feature for feature in schema.used for _ in range(feature.width)]
    beside = inputs[:, [feature.kind is not Kind.DATE for feature in owners]]
    made = []
    for feature in fitted:
        if feature.kind is Kind.DATE:
            micros = np.round(inputs[:, owners.index(feature)] * 86_400e6).astype(np.int64)
            choice = choose_cycles(micros, beside, targets)
            feature = replace(feature, cycles=choice.cycles)  # noqa: PLW2901  the same one
            plan.warnings += tell_cycles(feature.name, choice)
        made.append(feature)
    return tuple(made)


def _levels(plan: _Plan, column: Column, name: str, limit: int) -> tuple[tuple[str, ...], bool]:
    """The levels of a category, and whether the rare ones are grouped."""
    chosen = choose_levels(column.levels.counts(), limit)
    if chosen.pooled:
        plan.warnings.append(
            f"column {name!r} is text with {len(chosen.names) + chosen.pooled:,} different values: the {limit:,} most "
            f"common are levels, the others ({plural(chosen.cells, 'cell')}) were grouped as {OTHER!r}; for more, set "
            '"max_levels"'
        )
    return chosen.names, chosen.pooled > 0


def _median(present: FloatArray) -> float:
    """A value of the column, never a mean of two: that could be past float64, and an integer stays one."""
    middle = (len(present) - 1) // 2
    return float(np.partition(present, middle)[middle])


def _check_rows(kept: Table, target: str) -> None:
    if kept.rows < 2:
        raise InvalidRequestError(f"at least 2 rows are needed to learn from, got {kept.rows}")
    found = kept.columns[target].numbers.values
    if found.min() == found.max():
        raise InvalidRequestError(
            f"the target {target!r} is {float(found[0])!r} in every row: there is nothing to predict, and nothing "
            "tells how far off that may be; name another target, or send rows in which it differs"
        )
