"""A Table to what training needs: decides what each column is, drops rows, and encodes the rest."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from app.errors import InvalidRequestError
from app.tables.columns.cell_errors import CellErrors, plural
from app.tables.columns.cells import FloatArray
from app.tables.columns.date_cycles import choose_cycles, subsample_rows
from app.tables.columns.dates import Cycle, varying_cycles
from app.tables.columns.dates_and_booleans import parse_by_level
from app.tables.columns.levels import choose_levels, level_limits
from app.tables.columns.missing import missing_values
from app.tables.columns.number_formats import PLAIN
from app.tables.columns.outliers import outlier_warning
from app.tables.columns.read_options import ReadOptions
from app.tables.columns.rounding import choose_offset, exceeds_exact
from app.tables.columns.sentinels import (
    sentinel_warnings,
    target_sentinel_warnings,
)
from app.tables.columns.sums import ColumnSums, TableSums
from app.tables.columns.table import Kind, Table
from app.tables.columns.type_inference import (
    DeclaredType,
    InferredType,
    constant_value,
)
from app.tables.schema.design_matrix import DesignMatrix, TrainingRows
from app.tables.schema.features import OTHER, Feature
from app.tables.schema.inspection import (
    FitState,
    add_number_warnings,
    cells_of,
    drop_identifiers,
    inspect_column,
    inspect_target,
    note_missing,
)
from app.tables.schema.kept_rows import checked_rows, kept_rows, rows_with_target
from app.tables.schema.leaks import leak_warnings
from app.tables.schema.report_notes import cycle_warnings, format_warnings
from app.tables.schema.row_groups import (
    GroupedBy,
    RowGroupColumn,
    check_groups,
    group_warnings,
    row_group_column,
)
from app.tables.schema.row_weights import note_weights, rows_that_count, weight_column
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


def fit_table(table: Table, options: TableOptions) -> tuple[Schema, TrainingRows]:
    """Decide how each column is read and which rows are trained on.

    target: default the last column. features: default all other columns, without text that only tells the rows apart
    and the index of a data frame, which has no place in a positional row either.
    columns: what some columns are, over what is inferred. max_levels: of each category, rarer ones are grouped; default
    as many as the table affords (`columns.levels`). A feature that is constant or empty is left out with a warning. A
    missing target is never imputed: under "impute" its row is dropped. Raises InvalidRequestError with the places:
    unknown column, text target, wrong or missing cells, a constant target, fewer than 2 rows. O(n p); of a table
    that is read by parts it holds one, and a byte for each row where some are left out.
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
    sums = TableSums(table)
    sums.gather((*targets, *(name for name in names if choices.get(name) is not DeclaredType.IGNORE)))
    grouped = row_group_column(sums, targets, options, choices)
    weights = weight_column(table, targets, options, choices, grouped)
    names = _without_row_columns(names, options, grouped, weights)
    state = FitState(
        table=table,
        sums=sums,
        missing=missing,
        missing_values=options.missing_values,
        dates=dates,
        cell_errors=CellErrors(lines=table.lines),
        warnings=list(table.notes),
    )
    for each in targets:
        inspect_target(state, each)
    _inspect_row_columns(state, grouped, weights)
    inferred_types = {name: inspect_column(state, name, choices.get(name)) for name in names}
    wanted = {*choices, *(names if options.features is not None else ())}
    drop_identifiers(state, inferred_types, wanted)
    names = [name for name in names if name not in table.index or inferred_types[name].kind is not Kind.UNUSED]
    add_number_warnings(state, {name: inferred_types[name] for name in names if name not in wanted})
    used = [name for name in names if inferred_types[name].kind is not Kind.UNUSED]
    _add_sentinel_warnings(state, targets, used)
    numbers = [name for name in used if inferred_types[name].kind is Kind.NUMBER]
    if not read_options.sets_number_format:
        state.warnings += format_warnings(table, number_formats, [*numbers, *targets])
    rows = rows_that_count(state, kept_rows(state, targets, used, grouped, weights, several), weights)
    others = () if grouped is None or grouped.name in names else (grouped.name,)
    kept = table.keep(rows, [*targets, *names, *others])
    kept_sums = _sums_of_kept(state, kept, (*targets, *numbers))
    own = {each: checked_rows(kept, kept_sums, each, several=several) for each in targets}
    limits = level_limits(
        {name: state.distinct[name] for name in used if name in state.distinct}, rows.count, options.max_levels
    )
    features = tuple(
        _fit_feature(state, kept_sums[name], name, inferred_types[name], limits.get(name, 0)) for name in names
    )
    if several:  # cells of new rows are not integrated over then: `check_targets` refuses columns that lack some
        whole = {name for name in used if not cells_of(kept_sums[name], inferred_types[name]).missing}
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
        own_rows = rows_with_target(state, rows, target) if several else rows
        warnings += group_warnings(table, own_rows, schema, weights)
    else:
        check_groups(kept, grouped)
    return schema, TrainingRows(kept=rows, warnings=tuple(warnings), row_groups=grouped, weights=weights)


def _without_row_columns(
    names: list[str], options: TableOptions, grouped: RowGroupColumn | None, weights: str | None
) -> list[str]:
    """Features, without the columns that say something of rows, unless those of groups are asked for by name."""
    if grouped is not None and grouped.by is GroupedBy.GROUPS and options.features is None:
        names = [name for name in names if name != grouped.name]  # of new rows it will be another
    return [name for name in names if name != weights]


def _inspect_row_columns(state: FitState, grouped: RowGroupColumn | None, weights: str | None) -> None:
    """Note wrong and missing cells of the columns that say something of rows."""
    if grouped is not None:
        grouped.note_invalid(state.sums[grouped.name], state.cell_errors)
        note_missing(state, grouped.name, grouped.inferred)
    if weights is not None:
        note_weights(state.sums[weights], weights, state.cell_errors)
        note_missing(state, weights, InferredType(kind=Kind.NUMBER))


def _sums_of_kept(state: FitState, kept: Table, names: Iterable[str]) -> TableSums:
    """The sums over the rows that are kept. names: columns of numbers."""
    if kept is state.table:
        return state.sums
    sums = TableSums(kept)
    sums.gather(names)
    return sums


def _add_sentinel_warnings(state: FitState, targets: Sequence[str], used: Sequence[str]) -> None:
    state.warnings += sentinel_warnings({name: state.sentinels[name] for name in used if name in state.sentinels})
    state.warnings[:0] = [note for each in targets for note in _target_warnings(state, each)]


def _target_warnings(state: FitState, target: str) -> list[str]:
    """What stands before all other warnings: targets that are codes, and those far from all others."""
    found = state.outliers[target]
    far = [] if found is None else [outlier_warning(target, found)]
    return target_sentinel_warnings(target, state.sentinels[target]) + far


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
    used, grouped, weights = [feature.name for feature in schema.used], training_rows.row_groups, training_rows.weights
    names = [schema.target, *used] if grouped is None or grouped.name in used else [schema.target, *used, grouped.name]
    names += [] if weights is None else [weights]
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
        weight_column=weights,
        weights=np.empty(0) if weights is None else kept.columns[weights].numbers.values,
    )


def _fit_feature(state: FitState, column: ColumnSums, name: str, inferred: InferredType, limit: int) -> Feature:
    """The feature over the rows that are kept. limit: the most levels it may have."""
    if inferred.kind is Kind.UNUSED:
        return Feature(name=name, kind=inferred.kind)
    absent = cells_of(column, inferred).missing
    if absent == len(column) or (not absent and constant_value(column, inferred) is not None):
        # Only after rows were dropped: `inspect_column` has seen to the others.
        state.warnings.append(f"column {name!r} has one value in the rows that are left and was left out")
        return Feature(name=name, kind=Kind.UNUSED)
    integrate = state.missing is Missing.IMPUTE
    if absent:
        state.warnings.append(
            f"{plural(absent, 'missing cell')} of column {name!r}: such rows are predicted by integrating over "
            "what the cell may be, given the row's other columns"
        )
    if inferred.kind is Kind.CATEGORY:
        levels, other = _levels(state, column, name, limit)
        return Feature(name=name, kind=inferred.kind, levels=levels, other=other, integrate=integrate)
    offset = None
    if inferred.kind is Kind.NUMBER:
        offset = choose_offset(state.table, name, column, state.sums[name])
        if offset is not None and exceeds_exact(column):
            state.warnings.append(
                f"column {name!r} has integers past 2^53, which 64-bit numbers round: it was read as the difference "
                f"from {offset}"
            )
    turns: tuple[Cycle, ...] = ()
    if inferred.kind is Kind.DATE and state.dates is Dates.CYCLIC:
        turns = _cycles(column, inferred)
    fill = _median(column.read_values(inferred.kind, inferred.order)) if integrate else None
    number_format = next(column.parts()).number_format if inferred.kind is Kind.NUMBER else PLAIN
    return Feature(
        name=name,
        kind=inferred.kind,
        order=inferred.order,
        cycles=turns,
        number_format=number_format,
        offset=offset,
        fill=fill,
        integrate=integrate,
    )


def _cycles(column: ColumnSums, inferred: InferredType) -> tuple[Cycle, ...]:
    """The cycles that tell the dates of a column apart."""
    found: dict[Cycle, None] = {}
    first = np.empty(0, dtype=np.int64)
    for part in column.parts():
        days = parse_by_level(part, inferred.kind, inferred.order)[0]
        micros = np.round(days[~np.isnan(days)] * 86_400e6).astype(np.int64)
        # One of the rows before stands for all: they are alike in every cycle that is not found yet.
        found |= dict.fromkeys(varying_cycles(np.concatenate((first, micros))))
        first = first if len(first) else micros[:1]
    return tuple(cycle for cycle in Cycle if cycle in found)


def _with_cycles(state: FitState, kept: Table, target: str, features: tuple[Feature, ...]) -> tuple[Feature, ...]:
    """The features, dates with the cycles that help to predict later rows, if that is to be found out."""
    if state.dates is not Dates.AUTO or not any(feature.kind is Kind.DATE for feature in features):
        return features
    filled = tuple(
        replace(feature, integrate=False, indicator=feature.integrate and feature.name in state.absent)
        for feature in features
    )
    schema = Schema(target=target, features=filled, missing=missing_values(state.missing_values))
    some = kept.sample(subsample_rows(kept.rows), [target, *(feature.name for feature in schema.used)])
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


def _levels(state: FitState, column: ColumnSums, name: str, limit: int) -> tuple[tuple[str, ...], bool]:
    """The levels of a category, and whether the rare ones are grouped."""
    levels = column.levels
    chosen = choose_levels(levels.counts, limit)
    if chosen.pooled:
        cells = chosen.cells + levels.cells - sum(levels.counts.values())
        state.warnings.append(
            f"column {name!r} is text with {'' if levels.complete else 'about '}{levels.distinct:,} different values: "
            f"the {limit:,} most common are levels, the others ({plural(cells, 'cell')}) were grouped as {OTHER!r}; "
            'for more, set "max_levels"'
        )
    return chosen.names, chosen.pooled > 0


def _median(values: FloatArray) -> float:
    """A value of the column, never a mean of two: that could be past float64, and an integer stays one."""
    present = values[~np.isnan(values)]
    middle = (len(present) - 1) // 2
    return float(np.partition(present, middle)[middle])
