"""Targets of a specification: one column, or several by names and patterns, each with the rows that have it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.errors import Fault, InvalidRequestError
from app.tables.columns.cell_errors import list_names
from app.tables.columns.cells import IntArray
from app.tables.columns.table import Table
from app.tables.schema.design_matrix import DesignMatrix, TrainingRows
from app.tables.schema.fitting import build_design_matrix
from app.tables.schema.schema import Schema


def target_rows(table: Table, target: str, rows: IntArray) -> IntArray:
    """Return those of the rows (n,) of a table, read as it was trained, that have a value of a target."""
    return rows[~np.isnan(table.columns[target].numbers.values[rows])]


def schema_of(schema: Schema, target: str) -> Schema:
    """Return the schema of a model of several targets as that of one of them."""
    return replace(schema, target=target, other_targets=tuple(name for name in schema.targets if name != target))


def design_matrices(table: Table, schema: Schema, training_rows: TrainingRows) -> list[DesignMatrix]:
    """Return the design matrix of each target, with the rows that have it: the same inputs for all."""
    whole = build_design_matrix(table, schema, training_rows)
    read = schema.as_trained(table)
    found = []
    for target in schema.targets:
        values = read.columns[target].numbers.values[training_rows.rows]
        places = np.flatnonzero(~np.isnan(values))
        own = replace(whole, targets=values)
        if len(places) < len(values):
            absent = len(values) - len(places)
            own = own.take(places, f"{absent:,} of {len(values):,} rows have no value of the target {target!r}")
        found.append(own)
    return found


def check_targets(schema: Schema, names: Sequence[str]) -> None:
    """Refuse what no model of several targets does yet."""
    integrated = [feature.name for feature in schema.used if feature.integrate]
    if integrated:
        message = (
            f"impute is for one target so far, and cells of {list_names(integrated)} are missing: with several targets "
            "use drop, which leaves such rows out, or leave these columns out"
        )
        raise InvalidRequestError(f"missing: {message}", [Fault(message=message, column="missing")])
    if schema.unseen.value == "prior":
        message = "an unseen category is answered for one target: with several (" + list_names(names) + ") use error"
        raise InvalidRequestError(f"unseen: {message}", [Fault(message=message, column="unseen")])
