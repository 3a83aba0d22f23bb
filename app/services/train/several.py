"""Training of a model of several targets: one version, whose artefact has a model for each.

All targets have the same columns as inputs; each has the rows in which it has a value. The job's report is that of the
first target, with those of the others by name, and the correlation of the errors of left-out rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.services.core_spec import core_spec
from app.services.specification import SpecBody
from app.services.train.assemble import build_artefact, build_report, dataset_of, profile_of, with_copies_told
from app.services.train.origin import Start
from app.storage.artefact import ERROR_CORRELATION, HIDDEN, TARGET_NAMES, ModelArtefact
from app.tables import DesignMatrix, Schema, Table, TableFit, design_matrices, schema_of
from core.copies import copies
from core.numeric.shards import Compute
from core.train.progress import Checkpoint, Listener
from core.train.several import SeveralResult, TargetTable, train_several
from core.train.state import TrainingState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetsModel:
    """A model of several targets, the report that its job shows, and the state of each training, None of rows that do
    not stand alone."""

    artefact: ModelArtefact
    report: dict[str, Any]
    states: tuple[TrainingState | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Figures for the reports: rows of the upload, and seconds of what came before the training."""

    rows: int
    seconds: Mapping[str, float]


def train_targets(
    table: Table,
    fit: TableFit,
    body: SpecBody,
    told: Told,
    listen: Listener,
    resume: Checkpoint | None,
    *,
    workers: int,
    compute: Compute | None,
    start: Start | None = None,
) -> TargetsModel:
    """Train a model for each target and put them together. Raises as `core.train.several.train_several`."""
    matrices = design_matrices(table, fit.schema, fit.training_rows)
    return train_matrices(
        matrices, fit.schema, body, told, listen, resume, workers=workers, compute=compute, start=start
    )


def train_matrices(
    matrices: list[DesignMatrix],
    schema: Schema,
    body: SpecBody,
    told: Told,
    listen: Listener | None = None,
    resume: Checkpoint | None = None,
    *,
    workers: int,
    compute: Compute | None = None,
    start: Start | None = None,
) -> TargetsModel:
    """Do the same with the rows of each target of the schema."""
    if body.duplicates == "drop":
        matrices = [with_copies_told(matrix, schema.group_names) for matrix in _without_copies(matrices)]
    fewest = min((matrix.rows for matrix in matrices), key=len)
    spec = core_spec(body, schema.group_names, fewest)
    tables = [
        TargetTable(
            dataset=dataset_of(matrix), rows=matrix.rows, warm=None if start is None else start.warm(schema, name)
        )
        for name, matrix in zip(schema.targets, matrices, strict=True)
    ]
    share = None if body.share == "auto" else body.share
    found = train_several(tables, spec, share=share, listen=listen, resume=resume, workers=workers, compute=compute)
    names, models = schema.targets, []
    correlation = {"targets": list(names), "correlation": _plain(found)}
    for place, (name, matrix, result) in enumerate(zip(names, matrices, found.results, strict=True)):
        own = schema_of(schema, name)
        profile = profile_of(own, matrix)
        report = build_report(own, matrix, result, profile=profile, rows_uploaded=told.rows, seconds=told.seconds)
        how = found.sharing[place]
        report |= {
            TARGET_NAMES: list(names),
            "sharing": {"with": [names[other] for other in how.theta_with if other != place], "reason": how.reason},
            ERROR_CORRELATION: correlation,
            **({} if start is None else start.told(name)),
        }
        models.append(build_artefact(body, own, matrix, result, report, profile))
    states = tuple(
        None if result.state is None or matrix.row_groups is not None else result.state.numbered(matrix.rows)
        for matrix, result in zip(matrices, found.results, strict=True)
    )
    artefact, shown = together(models)
    return TargetsModel(artefact=artefact, report=shown, states=states)


def together(models: Sequence[ModelArtefact]) -> tuple[ModelArtefact, dict[str, Any]]:
    """Return the models of all targets as one, and the report of its job."""
    first, *others = models
    names = [model.schema["target"] for model in models]
    shown = [{field: part for field, part in model.report.items() if field not in HIDDEN} for model in models]
    return replace(first, others=tuple(others)), {**shown[0], "targets": dict(zip(names, shown, strict=True))}


def _plain(found: SeveralResult) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in found.correlation]


def _without_copies(matrices: list[DesignMatrix]) -> list[DesignMatrix]:
    """Leave out exact copies of earlier rows, with a warning, target by target; where all targets have the same rows,
    only copies in all of them, so that they keep the same rows."""
    first = matrices[0]
    if all(np.array_equal(matrix.rows, first.rows) for matrix in matrices):
        everything = np.column_stack([first.inputs, *(matrix.targets for matrix in matrices[1:])])
        found = [copies(everything, first.targets)] * len(matrices)
    else:
        found = [copies(matrix.inputs, matrix.targets) for matrix in matrices]
    return [
        matrix
        if not len(places)
        else matrix.without(
            places,
            f"{len(places):,} of {len(matrix.targets):,} rows are exact copies of earlier rows, inputs and target, and "
            'left out: a copy on the other side of a split would look like a row that was predicted; "duplicates": '
            '"keep" has them in',
        )
        for matrix, places in zip(matrices, found, strict=True)
    ]
