"""A Table to what training needs: decides what each column is, drops rows, and encodes the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from app.errors import InvalidRequestError
from app.tables.columns.cell_errors import CellErrors, list_names, plural
from app.tables.columns.cells import BLANKS, BoolArray, FloatArray, IntArray, quote
from app.tables.columns.date_cycles import choose_cycles, subsample_rows
from app.tables.columns.dates import Cycle, DateOrder, varying_cycles
from app.tables.columns.levels import choose_levels, level_limits
from app.tables.columns.lookalikes import LOOKALIKE_ADVICE, match_lookalike
from app.tables.columns.missing import missing_values
from app.tables.columns.number_formats import PLAIN
from app.tables.columns.read_options import ReadOptions
from app.tables.columns.rounding import check_target, choose_offset, exceeds_exact
from app.tables.columns.row_numbers import is_index, row_number_start
from app.tables.columns.sentinels import Sentinel, find_sentinels, sentinel_warnings, target_sentinel_warnings
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import (
    DeclaredType,
    InferredType,
    constant_value,
    declared_type,
    identifier_reason,
    infer_type,
    invalid_rows,
    lookalike_warning,
    missing_rows,
    present_values,
)
from app.tables.schema.design_matrix import DesignMatrix, TrainingRows
from app.tables.schema.features import OTHER, Feature
from app.tables.schema.leaks import leak_warnings
from app.tables.schema.report_notes import cycle_warnings, date_warnings, format_warnings
from app.tables.schema.row_groups import GroupedBy, RowGroupColumn, check_groups, group_warnings, row_group_column
from app.tables.schema.schema import Schema, Unseen
from app.tables.schema.table_options import (
    Dates,
    Missing,
    TableOptions,
    names_several,
    parse_choice,
    resolve_features,
    resolve_targets,
    resolve_types,
)

_REASONS = 5  # why columns were left out, as a refusal lists them
_ADVICE = (
    'correct the file, list what stands for a missing cell in "missing_values", or say in "columns" what the column '
    'is ("category", "ignore")'
)


@dataclass(slots=True, kw_only=True)
class _FitState:
    """State of a fit. missing_rows: rows, by column, where a cell is missing; sentinels: numbers,
    by column, that may stand for one; distinct: how many texts each category has."""

    table: Table
    missing: Missing
    missing_values: Sequence[float | str]
    dates: Dates
    cell_errors: CellErrors
    warnings: list[str] = field(default_factory=list)
    missing_rows: dict[str, IntArray] = field(default_factory=dict)
    sentinels: dict[str, list[Sentinel]] = field(default_factory=dict)
    distinct: dict[str, int] = field(default_factory=dict)


def fit_table(table: Table, options: TableOptions) -> tuple[Schema, TrainingRows]:
    """Decide how each column is read and which rows are trained on.

    target: default the last column. features: default all other columns, without text that only tells the rows apart
    and the index of a data frame, which has no place in a positional row either.
    columns: what some columns are, over what is inferred. max_levels: of each category, rarer ones are grouped; default
    as many as the table affords (`columns.levels`). A feature that is constant or empty is left out with a warning. A
    missing target is never imputed: under "impute" its row is dropped. Raises InvalidRequestError with the places:
    unknown column, text target, wrong or missing cells, a constant target, fewer than 2 rows. O(n p); holds a column.
    """
    missing = parse_choice(Missing, "missing", options.missing)
    unseen = parse_choice(Unseen, "unseen", options.unseen)
    dates = parse_choice(Dates, "dates", options.dates)
    read_options = ReadOptions(decimal=options.decimal, thousands=options.thousands, sheet=options.sheet).with_defaults(
        table.read_options
    )
    number_formats = table.number_formats(read_options)
    table = table.read_as(missing_values(options.missing_values), number_formats)
    targets, several = resolve_targets(table, options.target), names_several(options.target, table)
    target = targets[0]
    choices = resolve_types(table, targets, options.columns)
    names = resolve_features(table, targets, options.features)
    grouped = row_group_column(table, targets, options, choices)
    if grouped is not None and grouped.by is GroupedBy.GROUPS and options.features is None:
        names = [name for name in names if name != grouped.name]  # of new rows it will be another
    state = _FitState(
        table=table,
        missing=missing,
        missing_values=options.missing_values,
        dates=dates,
        cell_errors=CellErrors(lines=table.lines),
        warnings=list(table.notes),
    )
    for each in targets:
        _check_target(state, each)
    if grouped is not None:
        grouped.note_invalid(table.columns[grouped.name], state.cell_errors)
        state.missing_rows[grouped.name] = grouped.missing_rows(table.columns[grouped.name])
    inferred_types = {name: _inspect_column(state, name, choices.get(name)) for name in names}
    wanted = {*choices, *(names if options.features is not None else ())}
    _drop_identifiers(state, inferred_types, wanted)
    names = [name for name in names if name not in table.index or inferred_types[name].kind is not Kind.UNUSED]
    _add_number_warnings(state, {name: inferred_types[name] for name in names if name not in wanted})
    used = [name for name in names if inferred_types[name].kind is not Kind.UNUSED]
    state.warnings += sentinel_warnings({name: state.sentinels[name] for name in used if name in state.sentinels})
    state.warnings[:0] = [note for each in targets for note in target_sentinel_warnings(each, state.sentinels[each])]
    if not read_options.sets_number_format:
        numbers = [name for name in used if inferred_types[name].kind is Kind.NUMBER]
        state.warnings += format_warnings(table, number_formats, [*numbers, *targets])
    rows = _kept_rows(state, targets, used, grouped, several)
    others = () if grouped is None or grouped.name in names else (grouped.name,)
    kept = table if len(rows) == table.rows else table.take(rows, [*targets, *names, *others])
    own = {each: _checked_rows(kept, each, several=several) for each in targets}
    distinct = {name: state.distinct[name] for name in used if name in state.distinct}
    limits = level_limits(distinct, len(rows), options.max_levels)
    features = tuple(
        _fit_feature(state, kept.columns[name], name, inferred_types[name], limits.get(name, 0)) for name in names
    )
    if several:  # cells of new rows are not integrated over then: `check_targets` refuses columns that lack some
        whole = {name for name in used if not len(missing_rows(kept.columns[name], inferred_types[name]))}
        features = tuple(replace(each, integrate=False, fill=None) if each.name in whole else each for each in features)
    features = _with_cycles(state, own[target], target, features)
    schema = Schema(
        target=target,
        features=features,
        unseen=unseen,
        missing=missing_values(options.missing_values),
        read_options=read_options,
        other_targets=tuple(targets[1:]) if several else None,
    )
    if not schema.used:
        _refuse_nothing(state.warnings[len(table.notes) :])
    warnings = [*state.warnings, *leak_warnings(own, schema)]
    if grouped is None:
        absent = np.isnan(table.columns[target].numbers.values[rows])
        warnings += group_warnings(table, rows[~absent], schema)
    else:
        check_groups(kept, grouped)
    return schema, TrainingRows(rows=rows, dropped=table.rows - len(rows), warnings=tuple(warnings), row_groups=grouped)


def _refuse_nothing(told: Sequence[str]) -> NoReturn:
    reasons = [*told] or ["all are to be ignored"]
    more = [f"and {len(reasons) - _REASONS:,} more"] if len(reasons) > _REASONS else []
    raise InvalidRequestError(f"no feature is left to learn from: {'; '.join(reasons[:_REASONS] + more)}")


def fit_schema(table: Table, **options: object) -> tuple[Schema, DesignMatrix]:
    """Do `fit_table` and `build_design_matrix`; options as in `TableOptions`."""
    schema, training_rows = fit_table(table, TableOptions(**options))  # type: ignore[arg-type]  # fields of TableOptions
    return schema, build_design_matrix(table, schema, training_rows)


def build_design_matrix(table: Table, schema: Schema, training_rows: TrainingRows) -> DesignMatrix:
    """The design matrix of the rows that are trained on."""
    table = schema.as_trained(table)
    used, grouped = [feature.name for feature in schema.used], training_rows.row_groups
    names = [schema.target, *used] if grouped is None or grouped.name in used else [schema.target, *used, grouped.name]
    kept = table if len(training_rows.rows) == table.rows else table.take(training_rows.rows, names)
    return DesignMatrix(
        inputs=schema.encode_table(kept),
        targets=kept.columns[schema.target].numbers.values,
        groups=schema.groups,
        indicator=schema.indicator,
        rows=training_rows.rows,
        dropped=training_rows.dropped,
        warnings=training_rows.warnings,
        row_groups=grouped,
        group_values=np.empty(0) if grouped is None else grouped.values(kept.columns[grouped.name]),
        group_names=() if grouped is None else grouped.names(kept.columns[grouped.name]),
    )


def _check_target(state: _FitState, target: str) -> None:
    column = state.table.columns[target]
    numbers = column.numbers
    present = len(column) - int(np.count_nonzero(numbers.missing))
    if present == 0:
        raise InvalidRequestError(f"the target {target!r} has no value in any row")
    if len(numbers.invalid) and infer_type(column).kind is not Kind.NUMBER:
        first = column.cell(int(numbers.invalid[0]))
        meant = match_lookalike(str(first).strip(BLANKS))
        raise InvalidRequestError(
            f"the target {target!r} is text, such as {quote(first)}: {numbers.finite_count:,} of its {present:,} cells "
            f"are numbers; name a numeric column as target{_numeric_names(state.table)}"
            f"{'' if meant is None else f', or {LOOKALIKE_ADVICE[meant]}'}"
        )
    check_target(state.table, target)
    inferred = InferredType(kind=Kind.NUMBER)
    _note_invalid(state, target, column, inferred)
    state.missing_rows[target] = missing_rows(column, inferred)
    state.sentinels[target] = find_sentinels(numbers.values)


def _numeric_names(table: Table) -> str:
    """Return the columns that are numbers throughout, in brackets; nothing where there are none."""
    numbers = {name: column.numbers for name, column in table.columns.items()}
    names = [name for name, found in numbers.items() if found.finite_count and not len(found.invalid)]
    return f" ({list_names(names)})" if names else ""


def _note_invalid(state: _FitState, name: str, column: Column, inferred: InferredType) -> None:
    as_read = Feature(name=name, kind=inferred.kind, order=inferred.order)
    state.cell_errors.add(
        name, invalid_rows(column, inferred), column.cell, lambda cell: as_read.describe(cell, column)
    )


def _inspect_column(state: _FitState, name: str, choice: DeclaredType | None) -> InferredType:
    """Infer the type of a column; note its wrong and missing cells, and why it is better left out."""
    column = state.table.columns[name]
    inferred = infer_type(column) if choice is None else declared_type(column, choice)
    if inferred.kind is Kind.UNUSED:
        if inferred.unused_reason is not None:
            state.warnings.append(f"column {name!r} {inferred.unused_reason} and was left out")
        return inferred
    _note_invalid(state, name, column, inferred)
    absent = missing_rows(column, inferred)
    if len(absent) == len(column):
        state.warnings.append(f"column {name!r} is empty in every row and was left out")
        return InferredType(kind=Kind.UNUSED)
    value = constant_value(column, inferred)
    if value is not None and not (len(absent) and state.missing is Missing.IMPUTE):
        state.warnings.append(f"column {name!r} is {value} in every row and was left out")
        return InferredType(kind=Kind.UNUSED)
    state.missing_rows[name] = absent
    state.warnings += date_warnings(name, column, inferred, chosen=choice is not None)
    if inferred.lookalike is not None:
        state.warnings.append(f"column {name!r} {lookalike_warning(inferred.lookalike)}")
    if inferred.kind is Kind.NUMBER:
        state.sentinels[name] = find_sentinels(column.numbers.values)
    if inferred.kind is Kind.CATEGORY:
        state.distinct[name] = len(column.levels.counts())
    unused_reason = identifier_reason(column, inferred)
    if name in state.table.index and inferred.kind is Kind.NUMBER and is_index(column):
        unused_reason = "is the index of a data frame (whole numbers in a column without a name)"
    return InferredType(
        kind=inferred.kind, order=inferred.order, unused_reason=unused_reason if choice is None else None
    )


def _drop_identifiers(state: _FitState, inferred_types: dict[str, InferredType], wanted: set[str]) -> None:
    """Return those that nobody asked for; an index of numbers, which may be times, only if something else is left."""
    used = {name: inferred for name, inferred in inferred_types.items() if inferred.kind is not Kind.UNUSED}
    left = [name for name, inferred in used.items() if inferred.unused_reason is None]
    for name, inferred in used.items():
        if inferred.unused_reason is None or name in wanted or (inferred.kind is Kind.NUMBER and not left):
            continue
        inferred_types[name] = InferredType(kind=Kind.UNUSED)
        state.warnings.append(
            f'column {name!r} {inferred.unused_reason} and was left out; to use it, say in "columns" what it is'
        )


def _add_number_warnings(state: _FitState, inferred_types: dict[str, InferredType]) -> None:
    """Return what looks like a row number and is used, and columns that have no name."""
    for name, inferred in inferred_types.items():
        start = row_number_start(name, state.table.columns[name]) if inferred.kind is Kind.NUMBER else None
        if start is not None:
            state.warnings.append(
                f"column {name!r} looks like a row number ({start}, {start + 1}, {start + 2}, ..) and was read as a "
                'number like others; if it says nothing of new rows, leave it out ("columns": {"...": "ignore"})'
            )
        elif inferred.kind is not Kind.UNUSED and name in state.table.index:
            state.warnings.append(f"the column without a name was read as {name!r}")


def _kept_rows(
    state: _FitState, targets: Sequence[str], used: Sequence[str], grouped: RowGroupColumn | None, several: bool
) -> IntArray:
    """Rows to train on, of several targets those that have one of them. Refuses wrong cells, and missing ones under
    "error"; under "impute" a row without a group is one of its own, and one without a place in time is dropped."""
    table = state.table
    if state.cell_errors.total:
        state.cell_errors.refuse(_ADVICE)
    by = () if grouped is None else (grouped.name,)
    absent = {
        name: state.missing_rows[name]
        for name in dict.fromkeys((*(() if several else targets), *used, *by))
        if len(state.missing_rows[name])
    }
    if state.missing is Missing.ERROR and absent:
        for name, rows in absent.items():
            state.cell_errors.add(name, rows, table.columns[name].cell, lambda cell: f"missing ({quote(cell)})")
        state.cell_errors.refuse(
            'set "missing" to "drop" to leave such rows out, or to "impute" to integrate over what they may be'
        )
    needed = (*targets, *by) if grouped is not None and grouped.by is GroupedBy.ORDER else targets
    causes = absent if state.missing is Missing.DROP else {name: absent[name] for name in needed if name in absent}
    keep: BoolArray = np.ones(table.rows, dtype=np.bool_)
    if several:
        keep[:] = False
        for name in targets:
            keep |= ~np.isin(np.arange(table.rows), state.missing_rows[name])
    for rows in causes.values():
        keep[rows] = False
    if causes:
        dropped = table.rows - int(np.count_nonzero(keep))
        which = ", ".join(f"{name!r} {len(rows):,}" for name, rows in causes.items())
        state.warnings.append(
            f"{dropped:,} of {plural(table.rows, 'row')} dropped because a cell is missing (by column: {which})"
        )
    return np.flatnonzero(keep)


def _checked_rows(kept: Table, target: str, *, several: bool) -> Table:
    """The rows that have a value of this target, which differs among them."""
    missing = np.isnan(kept.columns[target].numbers.values)
    own = kept.take(np.flatnonzero(~missing), kept.names) if several and missing.any() else kept
    _check_rows(own, target)
    return own


def _fit_feature(state: _FitState, column: Column, name: str, inferred: InferredType, limit: int) -> Feature:
    """The feature over the rows that are kept. limit: the most levels it may have."""
    if inferred.kind is Kind.UNUSED:
        return Feature(name=name, kind=inferred.kind)
    absent = missing_rows(column, inferred)
    if len(absent) == len(column) or (constant_value(column, inferred) is not None and not len(absent)):
        # Only after rows were dropped: `_inspect_column` has seen to the others.
        state.warnings.append(f"column {name!r} has one value in the rows that are left and was left out")
        return Feature(name=name, kind=Kind.UNUSED)
    integrate = state.missing is Missing.IMPUTE
    if len(absent):
        state.warnings.append(
            f"{plural(len(absent), 'missing cell')} of column {name!r}: such rows are predicted by integrating over "
            "what the cell may be, given the row's other columns"
        )
    if inferred.kind is Kind.CATEGORY:
        levels, other = _levels(state, column, name, limit)
        return Feature(name=name, kind=inferred.kind, levels=levels, other=other, integrate=integrate)
    present = present_values(column, inferred)
    offset = choose_offset(state.table, name, column) if inferred.kind is Kind.NUMBER else None
    if offset is not None and exceeds_exact(column):
        state.warnings.append(
            f"column {name!r} has integers past 2^53, which 64-bit numbers round: it was read as the difference from "
            f"{offset}"
        )
    turns: tuple[Cycle, ...] = ()
    if inferred.kind is Kind.DATE and state.dates is Dates.CYCLIC:
        turns = varying_cycles(np.round(present * 86_400e6).astype(np.int64))
    fill = _median(present) if integrate else None
    order: DateOrder | None = inferred.order
    number_format = column.number_format if inferred.kind is Kind.NUMBER else PLAIN
    return Feature(
        name=name,
        kind=inferred.kind,
        order=order,
        cycles=turns,
        number_format=number_format,
        offset=offset,
        fill=fill,
        integrate=integrate,
    )


def _with_cycles(state: _FitState, kept: Table, target: str, features: tuple[Feature, ...]) -> tuple[Feature, ...]:
    """The features, dates with the cycles that help to predict later rows, if that is to be found out."""
    if state.dates is not Dates.AUTO or not any(feature.kind is Kind.DATE for feature in features):
        return features
    filled = tuple(
        replace(feature, integrate=False, indicator=feature.integrate and len(state.missing_rows[feature.name]) > 0)
        for feature in features
    )
    schema = Schema(target=target, features=filled, missing=missing_values(state.missing_values))
    some = kept.take(subsample_rows(kept.rows), [target, *(feature.name for feature in schema.used)])
    inputs, targets = schema.encode_table(some), some.columns[target].numbers.values
    owners = [feature for feature in schema.used for _ in range(feature.width)]
    beside = inputs[:, [feature.kind is not Kind.DATE for feature in owners]]
    made = []
    for feature, as_encoded in zip(features, filled, strict=True):
        if feature.kind is Kind.DATE:
            micros = np.round(inputs[:, owners.index(as_encoded)] * 86_400e6).astype(np.int64)
            choice = choose_cycles(micros, beside, targets)
            made.append(replace(feature, cycles=choice.cycles))
            state.warnings += cycle_warnings(feature.name, choice)
        else:
            made.append(feature)
    return tuple(made)


def _levels(state: _FitState, column: Column, name: str, limit: int) -> tuple[tuple[str, ...], bool]:
    """The levels of a category, and whether the rare ones are grouped."""
    chosen = choose_levels(column.levels.counts(), limit)
    if chosen.pooled:
        state.warnings.append(
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
