"""Report and artefact of a finished training: what its job shows, and what is stored of its model."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.services.background import marginals
from app.services.importance import SHARES as IMPORTANCE
from app.services.importance import variance_shares
from app.services.intake.large_table import LargeTable
from app.services.monitoring.profile import training_profile
from app.services.predict.probe import probe_of
from app.services.specification import SpecBody
from app.services.train.feature_ranges import feature_ranges
from app.storage.artefact import PREDICTED_ROWS, TRAINING_PROFILE, WEIGHTS, ModelArtefact
from app.tables import DesignMatrix, GroupedBy, Kind, Schema
from core.copies import copies, copies_but_for
from core.data import Dataset
from core.explain.product_mean import ProductMean
from core.predict.missing import Donors
from core.row_groups import Grouping, RowGroups
from core.train.predicted_rows import LEVEL
from core.train.report import TrainResult

_FEW_ROWS, _FEW_SHARE, _FEW_SHARE_OF_FEW = 50, 0.1, 0.5
"""Effective rows below which a few decide: so many, or this share of the rows; of fewer rows than twice that, half."""


def dataset_of(design_matrix: DesignMatrix) -> Dataset:
    """Return the rows as `core` takes them, with what is left out together."""
    column, groups = design_matrix.row_groups, RowGroups()
    if column is not None:
        by = Grouping.GROUP if column.by is GroupedBy.GROUPS else Grouping.ORDER
        groups = RowGroups.of(by, design_matrix.group_values)
    return Dataset(
        inputs=design_matrix.inputs,
        targets=design_matrix.targets,
        groups=design_matrix.groups,
        indicator=design_matrix.indicator,
        row_groups=groups,
        weights=design_matrix.weights,
    )


def without_copies(design_matrix: DesignMatrix) -> DesignMatrix:
    """Return the rows that are no exact copies of earlier ones, of the same weight, with a warning that tells how many
    were."""
    inputs, weights = design_matrix.inputs, design_matrix.weights
    found = copies(np.column_stack((inputs, weights)) if len(weights) else inputs, design_matrix.targets)
    if not len(found):
        return design_matrix
    total, count = len(design_matrix.targets), len(found)
    said = "is an exact copy" if count == 1 else "are exact copies"
    return design_matrix.without(
        found,
        f"{count:,} of {total:,} rows {said} of earlier rows, inputs and target, and left out: a copy on the other "
        'side of a split would look like a row that was predicted; "duplicates": "keep" has them in',
    )


def with_copies_told(design_matrix: DesignMatrix, names: Sequence[str]) -> DesignMatrix:
    """Return the same rows, with a warning where most are copies of others but for one column. names: of the columns.
    Where the rows' groups or their order are known, rows of one group or time may be alike."""
    if design_matrix.row_groups is not None:
        return design_matrix
    found = copies_but_for(design_matrix.inputs, design_matrix.targets, design_matrix.groups)
    if found is None:
        return design_matrix
    name, count = names[found[0]], found[1]
    said = (
        f"{count:,} of {len(design_matrix.targets):,} rows are copies of others, inputs and target, but for the column "
        f"{name!r}: a row that was left out had been seen, and the report's error bars are too short for new rows; "
        'leave the column out ("features"), so that copies count once, or say which rows belong together ("groups")'
    )
    return replace(design_matrix, warnings=(*design_matrix.warnings, said))


def profile_of(schema: Schema, design_matrix: DesignMatrix) -> dict[str, Any]:
    """Return how the rows of a training are distributed, as JSON."""
    return training_profile(schema, design_matrix.inputs, design_matrix.targets)


def build_report(
    schema: Schema,
    design_matrix: DesignMatrix,
    result: TrainResult,
    *,
    rows_uploaded: int,
    profile: Mapping[str, Any],
    seconds: Mapping[str, float],
    peak_memory: int | None = None,
    large: LargeTable | None = None,
) -> dict[str, Any]:
    """Return the report that the job shows for its result and the model keeps: see API.md.

    profile: of the rows, see `profile_of`. seconds: of what came before the training itself. peak_memory: bytes, None
    where they were not measured. large: the table whose sample the design matrix is, None where it is all of it.
    """
    found: dict[str, Any] = result.report.to_json()
    rows_of_mean = (result.model.mean or result.model.posterior).basis
    mean = ProductMean(result.model, schema.starts, marginals(schema, profile, rows_of_mean))
    hyperparameters = result.report.hyperparameters
    ranges = feature_ranges(schema, design_matrix.inputs if large is None else large.with_ends())
    columns = [
        {
            "name": feature.name,
            "kind": feature.kind.value,
            **({"levels": list(feature.levels)} if feature.levels else {}),
            **({"others_grouped": True} if feature.other else {}),
            **({"order": feature.order.value, "cycles": list(feature.cycles)} if feature.order is not None else {}),
            **feature.number_format.to_json(),
            **({"difference_from": str(feature.offset)} if feature.offset is not None else {}),
            **({"missing_replaced_by": feature.replacement} if feature.replacement is not None else {}),
            **({"missing": "integrated" if feature.integrate else "marked"} if feature.takes_missing else {}),
            **ranges.get(feature.name, {}),
        }
        for feature in schema.features
    ]
    names = schema.column_names
    found["input_transform"]["columns"] = [names[column] for column in found["input_transform"]["columns"]]
    if found["bounds"] is not None:
        found["bounds"]["rows"] = [int(design_matrix.rows[row]) for row in found["bounds"]["rows"]]
    if design_matrix.row_groups is not None:
        found["splits"]["column"] = design_matrix.row_groups.name
    few: list[str] = []
    if len(design_matrix.weights):
        found[WEIGHTS] = weights_report(design_matrix)
        few = _few_effective(found[WEIGHTS], len(design_matrix.weights))
    local = result.report.local_coverage.to_json(schema.group_names, _names_of_groups(design_matrix))
    doubts = [local["worst"]] if local["alarming"] else []
    return found | {
        "moved": result.moved,
        "local_coverage": local,
        IMPORTANCE: variance_shares(schema, mean),
        "rows": len(design_matrix.targets) if large is None else large.count,
        "rows_dropped": design_matrix.dropped,
        "rows_uploaded": rows_uploaded,
        "target": schema.target,
        "columns": columns,
        "hyperparameters": {
            "signal_variance": hyperparameters.signal_variance,
            "bias_variance": hyperparameters.bias_variance,
            "noise_variance": hyperparameters.noise_variance,
            "lengthscales": dict(zip(schema.group_names, hyperparameters.lengthscales.tolist(), strict=True)),
        },
        "seconds": dict(seconds) | {f"{phase}": took for phase, took in found["seconds"].items()},
        "peak_memory_bytes": peak_memory,
        "warnings": [
            *design_matrix.warnings,
            *few,
            *_date_warnings(schema, design_matrix),
            *result.report.warnings,
            *doubts,
        ],
    }


def weights_report(design_matrix: DesignMatrix) -> dict[str, Any]:
    """Return what the rows count, as JSON. effective_rows: how many rows of equal weight say as much of a mean (Kish
    1965)."""
    weights = design_matrix.weights / design_matrix.weights.max()
    return {
        "column": design_matrix.weight_column,
        "least": float(design_matrix.weights.min()),
        "mean": float(weights.mean() * design_matrix.weights.max()),
        "greatest": float(design_matrix.weights.max()),
        "effective_rows": float(weights.sum() ** 2 / np.square(weights).sum()),
    }


def _few_effective(weights: Mapping[str, Any], rows: int) -> list[str]:
    """Say where a few rows of great weight decide what is learnt; not of rows that are few themselves."""
    effective = weights["effective_rows"]
    if effective >= max(min(_FEW_ROWS, _FEW_SHARE_OF_FEW * rows), _FEW_SHARE * rows):
        return []
    return [
        f"the weights of a few rows decide: by {weights['column']!r} the {rows:,} rows say as much as {effective:.3g} "
        "of equal weight, and error bars, scores and what is learnt rest on these; where a weight only says which rows "
        "matter, or the noise does not shrink as fast, make the weights more even"
    ]


def _names_of_groups(design_matrix: DesignMatrix) -> list[str]:
    """Name of each group, as `core` numbers them; a row without one has none."""
    names = design_matrix.group_names
    values = np.unique(design_matrix.group_values).astype(np.int64).tolist()
    return [names[value] if value < len(names) else "" for value in values] if names else []


def _date_warnings(schema: Schema, design_matrix: DesignMatrix) -> list[str]:
    """Say of each date that later rows are extrapolation, unless rows are left out forward in time."""
    if design_matrix.row_groups is not None:
        return []
    return [
        f"rows after the last date of column {feature.name!r} are extrapolation, which no left-out row was: "
        f'"order": {json.dumps(feature.name, ensure_ascii=False)} measures and calibrates by the latest rows'
        for feature in schema.used
        if feature.kind is Kind.DATE
    ]


def build_artefact(
    body: SpecBody,
    schema: Schema,
    design_matrix: DesignMatrix,
    result: TrainResult,
    report: Mapping[str, Any],
    profile: Mapping[str, Any],
    donors: Donors | None = None,
) -> ModelArtefact:
    """Return all that is stored of a model, with rows that it had not seen as it predicted them.

    profile: of the rows, see `profile_of`. donors: rows that values of missing cells are taken from.
    """
    model, rows = result.model, result.report.predicted_rows
    predicted = {
        "held_out": rows.held_out,
        "total": rows.total,
        "interval": LEVEL,
        "rows": design_matrix.rows[rows.rows].tolist(),
    }
    stored = ModelArtefact(
        posterior=result.stored,
        noise=model.noise,
        calibration=model.calibration,
        transform=model.transform,
        precision=model.precision,
        mean=model.mean,
        donors=None if donors is None else donors.rows,
        shifts=None if donors is None else donors.shifts,
        near=model.near,
        schema=schema.to_json(),
        spec=body.model_dump(mode="json"),
        hyperparameters=report["hyperparameters"],
        basis_columns=schema.column_names,
        basis_rows=tuple(int(design_matrix.rows[index]) for index in result.selection.indices),
        gains=tuple(gain if math.isfinite(gain) else None for gain in result.selection.gains.tolist()),
        report={**report, PREDICTED_ROWS: predicted | rows.columns(), TRAINING_PROFILE: dict(profile)},
    )
    return replace(stored, probe=probe_of(stored))
