"""Checks of a table against a specification: whether it could be trained on, and in how much memory."""

import contextlib
import time
from dataclasses import replace
from pathlib import Path

from app.errors import MalformedError
from app.services.core_spec import core_spec
from app.services.intake.large_table import PART_ROWS, is_large, sample_rows
from app.services.intake.spread import check_spread, check_transform
from app.services.specification import SpecBody
from app.tables import RowSet, Table, TableFit, TableOptions, TrainingRows, check_targets, target_rows
from core.arrays import IntArray
from core.errors import InvalidSpecError
from core.train.memory import training_bytes
from core.train.sharing import unshared_reason

PROCESS_BYTES = 200 << 20
"""Bytes that the process of a training holds before it reads anything."""
TARGET_BYTES = 1_500
"""Bytes that a row takes for each target beyond the first: columns of the iterations for its mean, and its copies."""
READ_BYTES = 40
"""Bytes that one cell of the table takes while it is read, about."""


def table_options(body: SpecBody) -> TableOptions:
    """Options of the table in the specification."""
    return TableOptions(
        target=body.target,
        features=body.features,
        columns=body.columns,
        missing=body.missing,
        missing_values=body.missing_values,
        dates=body.dates,
        unseen=body.unseen,
        decimal=body.decimal,
        thousands=body.thousands,
        sheet=body.sheet,
        max_levels=body.max_levels,
        groups=body.groups,
        order=body.order,
        weights=body.weights,
    )


def check_training(table: Table, body: SpecBody, kept: Path | None, *, parsing: float, large_rows: int | None) -> int:
    """Return the bytes of memory that training on the table is thought to take. Raises what is wrong with either.

    kept, large_rows: `fit` and `large_rows` of an IngestRequest; parsing: seconds that it took.
    """
    fit = _fit(table, body, kept, parsing)
    schema, training_rows = fit.schema, fit.training_rows
    if schema.other_targets is not None:
        check_targets(schema, schema.targets)
    spec = core_spec(body, schema.group_names, _named_rows(body, training_rows))
    if schema.other_targets is not None and body.share is True and (reason := unshared_reason(spec)):
        raise InvalidSpecError("share", reason)
    rows, read = training_rows.kept.count, table.rows
    if large_rows is not None and is_large(fit, body, least=large_rows):
        rows, read = sample_rows(rows, schema.width), PART_ROWS
    memory = PROCESS_BYTES + READ_BYTES * read * len(table.names) + training_bytes(rows, schema.width, spec)
    memory += TARGET_BYTES * training_rows.kept.count * len(schema.other_targets or ())
    trained = schema.as_trained(table)
    for target in schema.targets:
        own, used = replace(schema, target=target), training_rows
        if schema.other_targets is not None:
            used = replace(used, kept=RowSet.of_numbers(target_rows(trained, target, used.rows), table.rows))
        check_spread(table, own, used, standardize=body.standardize)
        check_transform(table, own, used, body.target_transform)
    return memory


def _named_rows(spec: SpecBody, training_rows: TrainingRows) -> IntArray | range:
    """Return the numbers of the rows that are trained on; where the specification names none, how many they are."""
    return range(training_rows.kept.count) if spec.bounds is None else training_rows.rows


def _fit(table: Table, spec: SpecBody, kept: Path | None, parsing: float) -> TableFit:
    """Return the fit that is kept in this file if it is one of this table and these options, else make and keep it."""
    options = table_options(spec)
    if kept is not None and kept.exists():
        with contextlib.suppress(MalformedError):
            fit = TableFit.from_bytes(kept.read_bytes())
            if fit.is_of(table, options):
                return fit
    began = time.perf_counter()
    fit = TableFit.of(table, options)
    fit = replace(fit, seconds={"parsing": parsing, "fitting": time.perf_counter() - began})
    if kept is not None:
        kept.write_bytes(fit.to_bytes())
    return fit
