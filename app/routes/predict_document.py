"""`POST /predict` in the OpenAPI document, written by hand: the route is not declared to FastAPI."""

from typing import Any

from app.routes.encode import FILES
from app.routes.http.answers import STRICT_JSON, problems
from app.routes.http.bodies import CSV, JSON, MULTIPART, NPY, TABLES
from app.routes.http.fields import DATASET_ID, NAME, REFERENCE
from app.routes.http.table_requests import COLUMNS, FILE, KEY
from app.services.predict.joint import DEFAULT_SAMPLES, MOST_NUMBERS, MOST_SAMPLES, SAMPLES, Aggregate, Over
from app.services.predict.options import EXTRAS, INTERVAL, Keep, OnError
from core.predict.calibration import IntervalBasis
from core.predict.joint import MOST_DRAWN_ROWS, MOST_TOTAL_ROWS

_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": ["number", "null"]}}
_LISTS: dict[str, Any] = {"type": "array", "items": _NUMBERS}
_ENDS = {"anyOf": [_NUMBERS, _LISTS], "description": "A number for each row; several intervals: a list for each."}
_END = {"anyOf": [{"type": "number"}, _NUMBERS], "description": "Several intervals: a number for each."}
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
    "items": {"enum": [*EXTRAS, SAMPLES]},
    "default": [],
    "description": "More to add: `samples`, see there; `latent_std`, the error bar of the mean itself; `median`; "
    "`support`, the share of the prior's variance that is left: 0 at the data, 1 far from all of them; `imputed`, how "
    "many cells of the row were missing, over whose plausible values the prediction is integrated (CSV has "
    "it unasked where there are any).",
}
_ON_ERROR = {
    "enum": list(OnError),
    "default": OnError.REFUSE.value,
    "description": "What becomes of a row that cannot be predicted, such as one with a cell that is no number: the "
    "request is refused, naming the cells, or `null`: the row's numbers are null (empty in CSV, NaN in npy), and the "
    "rows are counted. A file that is damaged, or lacks a column, is refused always.",
}
_KEEP = {
    "enum": list(Keep),
    "description": "Columns of the table that stand before the predictions, in its order: `none`, `others` (neither "
    "inputs nor the target, such as an id), or `all`. By default `others` in CSV, Arrow and Parquet, `none` in JSON, "
    "where they are in `columns`; npy has no place for them. One that is called as a prediction gets `_input` "
    "after its name.",
}
_AGGREGATE = {
    "enum": list(Aggregate),
    "description": "The sum or the mean over the request's rows in place of the rows, with its error bar, which is not "
    "the sum of theirs: errors of near rows are alike. `std`, `lower` and `upper` are for a total of new observations, "
    "with the noise of each row, independent; `latent_std` is without noise. Exact under the posterior (`method`), for "
    f"up to {MOST_TOTAL_ROWS:,} rows; of a transformed target from draws, for up to {MOST_DRAWN_ROWS:,}.",
}
_OVER = {
    "enum": list(Over),
    "default": Over.ROWS.value,
    "description": "Of several targets: a total over the rows for each target (`rows`), over the targets for each row "
    "(`targets`), or over `both`. The error bar of a sum over targets is by the correlation of their errors of "
    "left-out rows (`error_correlation` of the report), the same for all rows and totals, with noise and without: the "
    "targets' standard deviations s give sqrt(s'Rs).",
}
_SAMPLES = {
    "type": "integer",
    "minimum": 1,
    "maximum": MOST_SAMPLES,
    "description": f"Draws of the latent function over all rows together, by default {DEFAULT_SAMPLES} where `include` "
    f"names them: for up to {MOST_DRAWN_ROWS:,} rows and {MOST_NUMBERS:,} numbers. Their variances are those of "
    "`latent_std`, their correlations those of the posterior. In files: columns `sample_0` and so on.",
}
_SEED = {"type": "integer", "minimum": 0, "default": 0, "description": "Of the draws: the same gives the same."}
_KEEP_FOR_FEEDBACK: dict[str, Any] = {
    "type": "boolean",
    "default": False,
    "description": "Keep mean and interval of each row, so that `POST /feedback` with the `prediction_id` of this "
    "answer (`X-Prediction-Id` of files, the `result` of the job for a dataset) can tell the truth later. At most "
    "100,000 rows, which count for each of several targets.",
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
            "kind": {"enum": ["far", "failed"], "description": "What is the matter with them."},
            "message": {"type": "string", "description": "The same as a sentence."},
            "count": {"type": "integer", "minimum": 1, "description": "How many rows."},
            "rows": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "maxItems": 20,
                "description": "The first of them, from 0.",
            },
        },
    },
    "description": "Only where some rows are `far` from all training rows (`support` of .9 or more), or `failed` and "
    "have nulls for numbers: how many, and the first 20 of them.",
}
_MODEL = {
    "type": "string",
    "pattern": REFERENCE,
    "description": "`name`, `name@3` or `name@alias`; a plain name is `champion`, else `latest`.",
}

_NAMED = {"type": "string", "pattern": NAME, "description": "Name of the model."}
_VERSION = {"type": "integer", "minimum": 1, "description": "Number of the version that answered."}
_LEVELS = {"anyOf": [{"type": "number"}, _NUMBERS], "description": "Level of `lower` and `upper`, or several."}
_FILE = {"type": "string", "format": "binary"}
_ARRAY = (
    "NumPy's own file of an array of doubles: a row for each row, with the columns that CSV has, in this order: mean, "
    "std, lower, upper (or lower_0.5, upper_0.5, lower_0.9, .. for several intervals), quantile_0.1, .., and what "
    "`include` names. Of the mean alone: one column."
)

_TABLE = (
    "Columns as in CSV, doubles with nulls; columns that are kept have the types of a Parquet or Arrow file, or of "
    "JSON; others are texts, or doubles where the model reads numbers."
)
_FORMS = {CSV: "A header line, and a line for each row.", NPY: _ARRAY}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field that is null as if it were left out."""
    return {**schema, "enum": [*schema["enum"], None]}


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
            "columns": COLUMNS,
            "interval": _INTERVAL,
            "quantiles": _QUANTILES,
            "include": _INCLUDE,
            "on_error": _nullable(_ON_ERROR),
            "dataset": {
                "type": ["string", "null"],
                "pattern": DATASET_ID,
                "description": "Id of a dataset: its rows are predicted by a job, which leaves a Parquet file.",
            },
            "aggregate": _nullable(_AGGREGATE),
            "over": _nullable(_OVER),
            "samples": _SAMPLES | {"type": ["integer", "null"]},
            "seed": _SEED | {"type": ["integer", "null"]},
            "keep": _nullable(_KEEP),
            "keep_for_feedback": {**_KEEP_FOR_FEEDBACK, "type": ["boolean", "null"]},
        },
        "description": "One of `rows`, `columns` and `dataset`, and the model.",
        "anyOf": [{"required": ["rows"]}, {"required": ["columns"]}, {"required": ["dataset"]}],
    },
    "PredictAnswer": {
        "type": "object",
        "required": ["model", "version", "mean"],
        "description": "Without `std`, `lower`, `upper` and `interval` where the model keeps its mean alone, or "
        "`interval` was false.",
        "properties": {
            "model": _NAMED,
            "version": _VERSION,
            "mean": _NUMBERS | {"description": "Predictive means, in the target's unit."},
            "std": _NUMBERS | {"description": "Of a new observation, noise included, in the target's unit."},
            "lower": _ENDS,
            "upper": _ENDS,
            "latent_std": _NUMBERS | {"description": "Of the mean itself; only if it was asked for."},
            "median": _NUMBERS | {"description": "Only if it was asked for."},
            "support": _NUMBERS | {"description": "0 at the data, 1 far from all; only if it was asked for."},
            "imputed": {
                "type": "array",
                "items": {"type": ["integer", "null"], "minimum": 0},
                "description": "Missing cells of each row; only if it was asked for.",
            },
            "interval": _LEVELS,
            "interval_basis": {"anyOf": [_BASIS, {"type": "array", "items": _BASIS}], "description": _BASES},
            "warnings": _WARNINGS,
            "samples": _LISTS | {"description": "A list for each draw, with a number for each row."},
            "quantiles": _NUMBERS | {"description": "The probabilities asked for."},
            "quantile_values": _LISTS | {"description": "A list for each of them."},
            "columns": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": _CELL},
                "description": "Columns of the table, if `keep` asks for them: those of files as text.",
            },
            "prediction_id": {
                "type": ["string", "null"],
                "description": "For `POST /feedback`, only if `keep_for_feedback` asks for it; null where the database "
                "did not take it.",
            },
        },
    },
    "TotalAnswer": {
        "type": "object",
        "required": ["model", "version", "aggregate", "rows", "mean"],
        "description": "Where `aggregate` asks for a total.",
        "properties": {
            "model": _NAMED,
            "version": _VERSION,
            "aggregate": {"enum": list(Aggregate), "description": "What was asked for."},
            "rows": {"type": "integer", "minimum": 1, "description": "How many rows it is of."},
            "mean": {"type": "number", "description": "Predictive mean of the total."},
            "std": {"type": "number", "description": "Of a total of new observations, noise included."},
            "latent_std": {"type": "number", "description": "Of the total of the function, without noise."},
            "lower": _END,
            "upper": _END,
            "median": {"type": "number", "description": "Only if it was asked for."},
            "interval": _LEVELS,
            "interval_basis": {"anyOf": [_BASIS, {"type": "array", "items": _BASIS}], "description": _BASES},
            "method": {
                "enum": ["exact", "samples"],
                "description": "Error bar and interval in closed form, or from draws of a transformed target.",
            },
            "quantiles": _NUMBERS | {"description": "The probabilities asked for."},
            "quantile_values": _NUMBERS | {"description": "A number for each of them."},
            "samples": _NUMBERS | {"description": "A total for each draw."},
        },
    },
}
"""Components of the OpenAPI document."""


def _by_target(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of a model of several targets: an object by target wherever they differ."""
    common = {"model", "version", "interval", "quantiles", "warnings", "imputed", "columns", "aggregate", "rows"}
    common |= {"prediction_id"}
    fields: dict[str, Any] = answer["properties"]
    properties = {
        name: field
        if name in common
        else {"type": "object", "additionalProperties": field, "description": f"By target: {field['description']}"}
        for name, field in fields.items()
    }
    return answer | {"properties": properties, "description": "Of a model of several targets: by target."}


SCHEMAS["TargetsAnswer"] = _by_target(SCHEMAS["PredictAnswer"])
SCHEMAS["TargetsTotalAnswer"] = _by_target(SCHEMAS["TotalAnswer"])
_TOTAL: dict[str, Any] = SCHEMAS["TotalAnswer"]["properties"]
SCHEMAS["TargetsSumAnswer"] = SCHEMAS["PredictAnswer"] | {
    "description": "Where `over` asks for a total over the targets of each row.",
    "properties": {name: _TOTAL[name] for name in ("aggregate", "rows", "method")}
    | SCHEMAS["PredictAnswer"]["properties"]
    | {"over": _OVER | {"enum": [Over.TARGETS]}},
}
_TOTAL["over"] = _OVER | {"enum": [Over.BOTH]}

FILE_OPTIONS: dict[str, dict[str, Any]] = {
    "model": _MODEL,
    "interval": _INTERVAL,
    "quantiles": _QUANTILES,
    "include": _INCLUDE,
    "on_error": _ON_ERROR,
    "keep": _KEEP,
    "keep_for_feedback": _KEEP_FOR_FEEDBACK,
    "aggregate": _AGGREGATE,
    "over": _OVER,
    "samples": _SAMPLES,
    "seed": _SEED,
}
"""Options of a file's prediction by name: parameters of the query, or parts of a form."""

PATHS: dict[str, Any] = {
    "/predict": {
        "post": {
            "tags": ["prediction"],
            "summary": "Predict",
            "description": "Predictive mean and interval for every row. Columns are matched by name; extra columns "
            "and the target are ignored. A row's answer never depends on the other rows. JSON, CSV, npy, Arrow or "
            "Parquet, by `Accept`. Files may be as large as uploads: those of more than 4 MiB are read and answered by "
            f"way of the disk. A dataset is predicted by a job: 202, and the job. {STRICT_JSON}",
            "operationId": "predict",
            "parameters": [
                *(
                    {"name": name, "in": "query", "schema": schema, "description": "For a file."}
                    for name, schema in FILE_OPTIONS.items()
                ),
                KEY | {"description": "For a dataset: the same key gives the same job."},
            ],
            "requestBody": {
                "required": True,
                "content": {
                    JSON: {
                        "schema": {"$ref": "#/components/schemas/PredictRequest"},
                        "example": {"model": "sine", "rows": [{"x": 0.25}, {"x": 0.75}], "interval": 0.9},
                    },
                    MULTIPART: {
                        "schema": {
                            "type": "object",
                            "required": ["file"],
                            "additionalProperties": False,
                            "description": "A file as pages and `curl -F file=@new.csv` send it; its options as "
                            "parts of the form or in the query.",
                            "properties": {"file": FILE, **FILE_OPTIONS},
                        }
                    },
                    CSV: {"schema": {"type": "string"}, "example": "x\n0.25\n0.75\n"},
                    **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in TABLES[1:]},
                },
            },
            "responses": {
                "200": {
                    "description": "One number for each row in each list",
                    "headers": {
                        "X-Model": {
                            "schema": {"type": "string", "pattern": REFERENCE},
                            "description": "Files: `name@version`.",
                        },
                        "X-Interval-Basis": {
                            "schema": {"type": "string", "pattern": "^[a-z]+(,[a-z]+)*$"},
                            "description": "Files: `interval_basis`, with commas between several.",
                        },
                        "X-Warnings": {
                            "schema": {"type": "string", "minLength": 1},
                            "description": "Files: what `warnings` says, if anything.",
                        },
                        "X-Rows": {"schema": {"type": "integer"}, "description": "Files: how many rows."},
                        "X-Failed-Rows": {
                            "schema": {"type": "integer"},
                            "description": "Files: how many rows have no prediction, if any (`on_error`).",
                        },
                        "X-Prediction-Id": {
                            "schema": {"type": "string", "pattern": "^pred_[0-9a-f]{32}$"},
                            "description": "Files: `prediction_id`, if it was kept for feedback.",
                        },
                        "X-Columns": {
                            "schema": {"type": "string", "minLength": 1},
                            "description": "npy: the names of the array's columns, with commas between, since an array "
                            "has no place for names.",
                        },
                    },
                    "content": {
                        JSON: {
                            "schema": {
                                "anyOf": [
                                    {"$ref": "#/components/schemas/PredictAnswer"},
                                    {"$ref": "#/components/schemas/TargetsAnswer"},
                                    {"$ref": "#/components/schemas/TotalAnswer"},
                                    {"$ref": "#/components/schemas/TargetsTotalAnswer"},
                                    {"$ref": "#/components/schemas/TargetsSumAnswer"},
                                ]
                            }
                        },
                        **{kind: {"schema": _FILE | {"description": _FORMS.get(kind, _TABLE)}} for kind in FILES},
                    },
                },
                "202": {
                    "description": "The job that predicts a dataset",
                    "headers": {
                        "Location": {
                            "schema": {"type": "string", "pattern": "^/jobs/job_"},
                            "description": "`/jobs/{id}`.",
                        }
                    },
                    "content": {JSON: {"schema": {"$ref": "#/components/schemas/JobBody"}}},
                },
                **{str(status): value for status, value in problems(400, 404, 406, 408, 409, 413, 415, 422).items()},
            },
        }
    }
}
"""Paths of the OpenAPI document."""
