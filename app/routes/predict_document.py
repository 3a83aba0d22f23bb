"""`POST /predict` in the OpenAPI document, written by hand: the route is not declared to FastAPI."""

from typing import Any

from app.routes.http.answers import STRICT_JSON, problems
from app.routes.http.bodies import CSV, JSON, NPY, TABLES
from app.services.predict.options import EXTRAS, INTERVAL
from core.predict.calibration import IntervalBasis

_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_LISTS: dict[str, Any] = {"type": "array", "items": _NUMBERS}
_ENDS = {"anyOf": [_NUMBERS, _LISTS], "description": "A number for each row; several intervals: a list for each."}
_CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
_LEVEL = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_INTERVAL = {
    "anyOf": [_LEVEL, {"type": "array", "items": _LEVEL, "maxItems": 100}, {"const": False}, {"type": "null"}],
    "default": INTERVAL,
    "description": "Probability that a new observation lies between `lower` and `upper`; or several, and then both are "
    "lists of lists, one for each. Not for a model that keeps its mean alone. `false`: the mean and nothing else, for "
    "a tenth of the time or less (a transformed target's mean follows from its variance, and takes as long as ever).",
}
_QUANTILES = {
    "type": ["array", "null"],
    "items": _LEVEL,
    "maxItems": 100,
    "default": [],
    "description": "Probabilities whose quantiles to add, as `quantile_values`.",
}
_INCLUDE = {
    "type": ["array", "null"],
    "items": {"enum": list(EXTRAS)},
    "default": [],
    "description": "More to add: `latent_std`, the error bar of the mean itself; `median`; `support`, the share of the "
    "prior's variance that is left: 0 at the data, 1 far from all of them; `imputed`, how many cells of the row were "
    "missing, over whose plausible values the prediction is integrated (CSV has it unasked where there are any).",
}
_TABLE = {
    "type": "boolean",
    "default": False,
    "description": "true: the columns of the file come back before those of the prediction, as CSV. Where the file has "
    "a column of such a name, that of the prediction is `predicted_mean` and so on.",
}
_BASIS = {"enum": list(IntervalBasis)}
_BASES = (
    "For each level: `conformal`, from the ranks of rows that were left out; `tail`, from a distribution fitted to "
    "them, for they are too few for this level; `normal`, the model's own, which was not calibrated."
)
_WARNINGS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["kind", "message", "count", "rows"],
        "properties": {
            "kind": {"const": "far"},
            "message": {"type": "string"},
            "count": {"type": "integer"},
            "rows": {"type": "array", "items": {"type": "integer"}},
        },
    },
    "description": "Only where some rows are far from all training rows (`support` of .9 or more): how many, and the "
    "first 20 of them.",
}
_MODEL = {
    "type": "string",
    "description": "`name`, `name@3` or `name@alias`; a plain name is `champion`, else `latest`.",
}

_ARRAY = (
    "NumPy's own file of an array of doubles: a row for each row, with the columns that CSV has, in this order: mean, "
    "std, lower, upper (or lower_0.5, upper_0.5, lower_0.9, .. for several intervals), quantile_0.1, .., and what "
    "`include` names. Of the mean alone: one column."
)

SCHEMAS: dict[str, Any] = {
    "PredictRequest": {
        "type": "object",
        "required": ["model"],
        "additionalProperties": False,
        "properties": {
            "model": _MODEL,
            "rows": {
                "description": "Rows by column name, or as lists in the order of the model's features.",
                "anyOf": [
                    {"type": "array", "items": {"type": "object", "additionalProperties": _CELL}},
                    {"type": "array", "items": {"type": "array", "items": _CELL}},
                    {"type": "null"},
                ],
            },
            "columns": {"type": ["object", "null"], "additionalProperties": {"type": "array", "items": _CELL}},
            "interval": _INTERVAL,
            "quantiles": _QUANTILES,
            "include": _INCLUDE,
        },
        "description": "One of `rows` and `columns`, and the model.",
        "anyOf": [{"required": ["rows"]}, {"required": ["columns"]}],
    },
    "PredictAnswer": {
        "type": "object",
        "required": ["model", "version", "mean"],
        "description": "Without `std`, `lower`, `upper` and `interval` where the model keeps its mean alone, or "
        "`interval` was false.",
        "properties": {
            "model": {"type": "string"},
            "version": {"type": "integer"},
            "mean": _NUMBERS,
            "std": _NUMBERS | {"description": "Of a new observation, noise included, in the target's unit."},
            "lower": _ENDS,
            "upper": _ENDS,
            "latent_std": _NUMBERS | {"description": "Of the mean itself; only if it was asked for."},
            "median": _NUMBERS | {"description": "Only if it was asked for."},
            "support": _NUMBERS | {"description": "0 at the data, 1 far from all; only if it was asked for."},
            "imputed": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "Missing cells of each row; only if it was asked for.",
            },
            "interval": {"anyOf": [{"type": "number"}, _NUMBERS]},
            "interval_basis": {"anyOf": [_BASIS, {"type": "array", "items": _BASIS}], "description": _BASES},
            "warnings": _WARNINGS,
            "quantiles": _NUMBERS | {"description": "The probabilities asked for."},
            "quantile_values": _LISTS | {"description": "A list for each of them."},
        },
    },
}
"""Components of the OpenAPI document."""

PATHS: dict[str, Any] = {
    "/predict": {
        "post": {
            "tags": ["prediction"],
            "summary": "Predict",
            "description": "Predictive mean and interval for every row. Columns are matched by name; extra columns "
            "and the target are ignored. A row's answer never depends on the other rows. JSON, CSV or npy, by "
            f"`Accept`. {STRICT_JSON}",
            "operationId": "predict",
            "parameters": [
                {"name": "model", "in": "query", "schema": _MODEL, "description": "For a file."},
                {"name": "interval", "in": "query", "schema": _INTERVAL, "description": "For a file."},
                {"name": "quantiles", "in": "query", "schema": _QUANTILES, "description": "For a file."},
                {"name": "include", "in": "query", "schema": _INCLUDE, "description": "For a file."},
                {"name": "table", "in": "query", "schema": _TABLE, "description": "For a file."},
            ],
            "requestBody": {
                "required": True,
                "content": {
                    JSON: {
                        "schema": {"$ref": "#/components/schemas/PredictRequest"},
                        "example": {"model": "sine", "rows": [{"x": 0.25}, {"x": 0.75}], "interval": 0.9},
                    },
                    CSV: {"schema": {"type": "string"}, "example": "x\n0.25\n0.75\n"},
                    **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in TABLES[1:]},
                },
            },
            "responses": {
                "200": {
                    "description": "One number for each row in each list",
                    "headers": {
                        "X-Model": {"schema": {"type": "string"}, "description": "CSV and npy: `name@version`."},
                        "X-Interval-Basis": {
                            "schema": {"type": "string"},
                            "description": "CSV and npy: `interval_basis`, with commas between several.",
                        },
                        "X-Warnings": {
                            "schema": {"type": "string"},
                            "description": "CSV and npy: what `warnings` says, if anything.",
                        },
                        "X-Rows": {"schema": {"type": "integer"}, "description": "CSV: how many rows."},
                        "X-Columns": {
                            "schema": {"type": "string"},
                            "description": "npy: the names of the array's columns, with commas between, since an array "
                            "has no place for names.",
                        },
                    },
                    "content": {
                        JSON: {"schema": {"$ref": "#/components/schemas/PredictAnswer"}},
                        CSV: {"schema": {"type": "string"}},
                        NPY: {"schema": {"type": "string", "format": "binary", "description": _ARRAY}},
                    },
                },
                **{str(status): value for status, value in problems(400, 404, 406, 408, 413, 415, 422).items()},
            },
        }
    }
}
"""Paths of the OpenAPI document."""
