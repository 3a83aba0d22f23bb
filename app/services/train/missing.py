"""Missing cells of a training table: which rows are learnt from, with which values, and what the report says of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from app.services.specification import SpecBody
from app.tables import DesignMatrix, Schema, Table, TrainingRows, build_design_matrix
from core.predict.model import Model
from core.spec import TrainSpec
from core.train.incomplete import CompletedRows, complete_rows
from core.train.unlearnt import UnlearntRows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompletedTable:
    """A design matrix without missing cells, and the schema that reads it. original: with NaN for them, all rows;
    completed: which of its rows are learnt from, None where no missing cell is integrated over. marked: columns whose
    missing cells are marked instead; seconds: of reading the table and of completing its rows."""

    schema: Schema
    design_matrix: DesignMatrix
    original: DesignMatrix
    completed: CompletedRows | None = None
    marked: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    def affordable(self, body: SpecBody) -> SpecBody:
        """Return the specification with no more rows for the mean than are learnt from."""
        rows = len(self.design_matrix.rows)
        if self.completed is None or not isinstance(body.mean_rows, int) or body.mean_rows <= rows:
            return body
        return body.model_copy(update={"mean_rows": rows})

    def unlearnt(self) -> UnlearntRows | None:
        """Rows that are only scored; None where no missing cell is integrated over."""
        if self.completed is None:
            return None
        left_out = self.completed.left_out
        return UnlearntRows(
            inputs=self.original.inputs[left_out],
            targets=self.original.targets[left_out],
            donors=self.completed.donors,
            shifted=self.completed.shifted,
        )

    def report(self, unlearnt: UnlearntRows, model: Model, seed: int) -> dict[str, Any]:
        """Return what was done about missing cells, and how well rows are predicted that were left out for theirs. O(K)
        plain predictions for each of these rows."""
        schema, original, donors = self.schema, self.original, unlearnt.donors
        counts = np.isnan(original.inputs[:, schema.starts[:-1]])
        for place, (feature, block) in enumerate(zip(schema.used, schema.blocks, strict=True)):
            if feature.indicator:
                counts[:, place] = original.inputs[:, block.stop - 1] == 1.0
        rows = counts.any(axis=1)
        treated = ["marked" if feature.indicator else "integrated" for feature in schema.used]
        for place in unlearnt.shifted:
            treated[place] = "integrated and shifted"
        scores = unlearnt.scores(model, np.random.default_rng(seed))
        return {
            "cells": int(counts.sum()),
            "columns": {
                feature.name: {"cells": int(cells), "treated": how}
                for feature, cells, how in zip(schema.used, counts.sum(axis=0).tolist(), treated, strict=True)
                if cells
            },
            "rows": int(rows.sum()),
            "rows_learnt_from": int(rows.sum()) - len(unlearnt),
            "rows_left_out": len(unlearnt),
            "donors": len(donors.rows),
            "components": donors.components,
            "left_out": None if scores is None else asdict(scores),
        }


def complete_table(
    table: Table,
    schema: Schema,
    training_rows: TrainingRows,
    core_spec: Callable[[Schema, DesignMatrix], TrainSpec],
    *,
    workers: int,
) -> CompletedTable:
    """Choose the rows to learn from and complete them; mark the cells of columns whose being missing tells of the
    target, unless hyperparameters were given for the columns as they are.

    core_spec: specification of the numerics for a schema and its design matrix. Raises as that and
    `core.train.incomplete.complete_rows` do.
    """
    began = time.perf_counter()
    original = build_design_matrix(table, schema, training_rows)
    reading = time.perf_counter() - began
    if not schema.integrates:
        return CompletedTable(schema=schema, design_matrix=original, original=original, seconds={"reading": reading})
    marked: tuple[str, ...] = ()
    while True:
        spec = core_spec(schema, original)
        completed = complete_rows(
            original.inputs,
            original.targets,
            starts=schema.starts,
            groups=original.groups,
            indicator=original.indicator,
            spec=spec,
            workers=workers,
        )
        names = {schema.used[feature].name for feature in completed.marked}
        if not names or spec.start is not None:
            break
        marked = (*marked, *sorted(names))
        features = (feature.marked if feature.name in names else feature for feature in schema.features)
        schema = replace(schema, features=tuple(features))
        original = build_design_matrix(table, schema, training_rows)
    places = completed.places
    taken = original.take(places, *_warnings(completed, schema, marked))
    design_matrix = replace(taken, inputs=completed.inputs)
    return CompletedTable(
        schema=schema,
        design_matrix=design_matrix,
        original=original,
        completed=completed if schema.integrates else None,
        marked=marked,
        seconds={"reading": reading, "completing": time.perf_counter() - began - reading},
    )


def _warnings(completed: CompletedRows, schema: Schema, marked: tuple[str, ...]) -> list[str]:
    found = [
        f"missing cells of column {name!r} say something of the target by being missing: they are marked in a column "
        "of their own, and read as a value of their own"
        for name in marked
    ]
    found += [
        f"rows without a value of column {schema.used[feature].name!r} lie elsewhere than its values explain: being "
        "missing says something of the target, and shifts the predictions of such rows"
        for feature in completed.shifted
    ]
    if len(completed.left_out):
        found.append(
            f"{len(completed.left_out):,} of {len(completed.left_out) + len(completed.places):,} rows were not learnt "
            "from, since what is missing in them matters more than what they would add; they measure how well such "
            "rows are predicted (`missing.left_out` of the report)"
        )
    return found
