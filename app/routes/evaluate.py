"""`POST /evaluate`: a table with the truth in, scores of a model's predictions out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.http.answers import STRICT_JSON, json_answer, problems
from app.routes.http.bodies import JSON, MULTIPART, NPY, TABLES, content_type, expect_media_type, read_body
from app.routes.http.callers import check_model, count_rows
from app.routes.http.content_encoding import read_json
from app.routes.http.fields import REFERENCE, ModelName, ModelVersion
from app.routes.http.services import Services, in_heavy_thread, in_reader_thread, services
from app.routes.http.table_requests import COLUMNS, FILE, ROWS, columns_of, rows_of, uploaded
from app.routes.http.uploads import Upload, refuse_fields
from app.services.decoding import check_depth, decode, given
from app.services.evaluation import MOST_BY, MOST_WORST, EvaluateOptions, evaluate
from app.services.predict.options import OnError, word_of
from app.tables import Limits, Schema, Table, from_columns, from_rows, read_table

router = APIRouter(tags=["prediction"])

_DEFAULTS = EvaluateOptions()
_TABLES = tuple(kind for kind in TABLES if kind != NPY)


class EvaluateQuery(BaseModel):
    """Options of an evaluation: parameters of the query, or parts of a form."""

    model: str | None = Field(
        None,
        min_length=1,
        description="`name`, `name@3` or `name@alias`; here, or as a part of the form.",
        json_schema_extra={"pattern": REFERENCE},
    )
    by: list[str] = Field([], max_length=MOST_BY, description="Columns whose groups are scored too; may be repeated.")
    worst: int = Field(
        _DEFAULTS.worst, ge=0, le=MOST_WORST, description="How many rows with the largest errors are listed."
    )
    on_error: OnError = Field(
        _DEFAULTS.on_error, description="Rows that cannot be predicted: refuse the table, or leave them out."
    )
    target: Annotated[str, Field(json_schema_extra={"minLength": 1})] | None = Field(
        None, description="Which of several targets; the only one need not be named."
    )

    def options(self) -> EvaluateOptions:
        """Return what is asked of the service."""
        return EvaluateOptions(by=tuple(self.by), worst=self.worst, on_error=self.on_error, target=self.target)


class EvaluateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body: a model's reference, one of `rows` and `columns`, and options. null is as if left out."""

    model: str
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    by: list[str] | None = None
    worst: int | None = None
    on_error: str | None = None
    target: str | None = None


class ScoresBody(BaseModel):
    """Scores of some rows. Those from `nlpd` on are missing where the model keeps its mean alone."""

    rows: int = Field(description="How many rows.")
    nmse: float | None = Field(description="Mean squared error over the variance of the truth.")
    rmse: float = Field(description="Root mean squared error.")
    mae: float = Field(description="Mean absolute error.")
    r2: float | None = Field(description="1 - nmse.")
    nlpd: float | None = Field(None, description="Mean negative log predictive density, in nats.")
    nlpd_standard_error: float | None = Field(None, description="Standard error of `nlpd`.")
    crps: float | None = Field(None, description="Mean continuous ranked probability score, in the target's unit.")
    crps_standard_error: float | None = Field(None, description="Standard error of `crps`.")
    coverage: dict[str, float] | None = Field(None, description="Share inside of the interval, by level.")
    coverage_standard_error: dict[str, float] | None = Field(None, description="Standard errors of `coverage`.")
    mean_width: dict[str, float] | None = Field(None, description="Mean width of the interval, by level.")
    reliability: dict[str, float] | None = Field(None, description="Share below the quantile, by probability.")


class GroupScoresBody(ScoresBody):
    """Scores of the rows with one value of a column."""

    column: str = Field(description="Name of the column.")
    value: str | None = Field(description="Null where the cell is missing; of many numbers a range.")


class WorstRowBody(BaseModel):
    """A row with a large error."""

    row: int = Field(description="From 0.")
    line: int | None = Field(description="Of the file, from 1; null where it has none.")
    target: float = Field(description="The truth.")
    mean: float = Field(description="Predictive mean.")
    error: float = Field(description="Truth minus mean.")
    std: float | None = Field(None, description="Standard deviation of a new observation.")
    lower: float | None = Field(None, description="Of the 95% interval.")
    upper: float | None = Field(None, description="Of the 95% interval.")


class EvaluationBody(BaseModel):
    """A model on rows whose truth is known."""

    model: ModelName
    version: ModelVersion
    target: str = Field(description="Column that is predicted.")
    rows: int = Field(description="Rows that count.")
    rows_without_truth: int = Field(description="Rows whose target is missing.")
    rows_failed: int = Field(description="Rows that cannot be predicted.")
    rows_of_weight_zero: int = Field(description="Rows that count nothing, by the model's `weights`.")
    weights: str | None = Field(
        description="Column of the model's `weights`, by which each row's noise is its own and squared and absolute "
        "errors are means; null: the model has none, or the table lacks it, and error bars are of a row of mean weight."
    )
    scores: ScoresBody = Field(description="Of all rows.")
    groups: list[GroupScoresBody] = Field(description="By the values of the columns that were asked for.")
    worst: list[WorstRowBody] = Field(description="The largest errors first.")
    warnings: list[str] = Field(description="What is to be known of these scores, in sentences.")


_FIELDS = tuple(EvaluateQuery.model_fields)
_OPTIONS: dict[str, Any] = EvaluateQuery.model_json_schema()["properties"] | {
    "on_error": {
        "enum": list(OnError),
        "default": _DEFAULTS.on_error.value,
        "description": EvaluateQuery.model_fields["on_error"].description,
    }
}
_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A table of any format that is read here, with the column of the target.",
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "description": STRICT_JSON,
                    "additionalProperties": False,
                    "required": ["model"],
                    "properties": _OPTIONS | {"columns": COLUMNS, "rows": ROWS},
                    "anyOf": [{"required": ["columns"]}, {"required": ["rows"]}],
                },
                "example": {"model": "sine", "rows": [{"x": 0.25, "y": 1.02}, {"x": 0.75, "y": -0.98}], "worst": 1},
            },
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "additionalProperties": False,
                    "description": "A file as pages and `curl -F file=@new.csv` send it; its options as parts of the "
                    "form or in the query.",
                    "properties": {"file": FILE, **_OPTIONS},
                }
            },
            **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in _TABLES},
        },
    }
}


@router.post(
    "/evaluate",
    response_class=Response,
    summary="Score a model on rows with the truth",
    responses={200: {"model": EvaluationBody}, **problems(400, 404, 408, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def evaluate_model(request: Request, asked: Annotated[EvaluateQuery, Query()]) -> Response:
    """NMSE, RMSE, MAE, R2, NLPD, coverage by level; the same of groups; the rows with the largest errors."""
    app = services(request)
    refuse_fields(content_type(request))
    kind = expect_media_type(request, JSON, MULTIPART, *_TABLES)
    if kind == JSON:
        return await _answer_json(request, app)
    if kind == MULTIPART:
        async with uploaded(request, _FIELDS, repeated=("by",), in_memory=True) as upload:
            return await _answer_file(request, app, _with_parts(request, asked, upload), upload.path)
    body = await read_body(request, app.settings.max_body_bytes, "PURSUIT_MAX_BODY_BYTES")
    return await _answer_file(request, app, asked, body)


async def _answer_json(request: Request, app: Services) -> Response:
    if request.scope["query_string"]:
        raise InvalidRequestError("a JSON request has no query parameters: put model, by and worst in the body")
    body = await read_json(request, app.settings.max_body_bytes)
    check_depth(body, app.settings.max_json_depth)
    asked = decode(body, EvaluateRequest)
    options = EvaluateOptions(by=tuple(asked.by or ()), target=asked.target)
    if asked.worst is not None:
        options = replace(options, worst=asked.worst)
    if asked.on_error is not None:
        options = replace(options, on_error=word_of(OnError, asked.on_error, "on_error"))
    return await _answer(request, app, asked.model, options, lambda _: _table_of(asked, app.body_limits))


async def _answer_file(request: Request, app: Services, asked: EvaluateQuery, file: Path | bytes) -> Response:
    if not asked.model:
        raise InvalidRequestError(
            "there is no model: name it in the query, as in /evaluate?model=cars, or as a part of the form"
        )
    return await _answer(
        request, app, asked.model, asked.options(), lambda schema: _read(schema, file, app.body_limits)
    )


async def _answer(
    request: Request, app: Services, model: str, options: EvaluateOptions, read: Callable[[Schema], Table]
) -> Response:
    check_model(request, model)
    resolved = await app.registry.resolve(model)
    table = await in_reader_thread(request, read, resolved.model.of_target(options.target).schema)
    await count_rows(request, app, resolved.name, table.rows)
    found = await in_heavy_thread(request, evaluate, resolved.model, table, options)
    return json_answer({"model": resolved.name, "version": resolved.version, **found})


def _with_parts(request: Request, asked: EvaluateQuery, upload: Upload) -> EvaluateQuery:
    """Return the options of the query and of the form together; RequestValidationError naming what cannot be read."""
    both = [name for name in upload.fields if name in request.query_params]
    if both:
        raise InvalidRequestError(f"{both[0]}: it is in the query and in the form: give it once")
    parts = {name: value.decode(errors="replace") for name, value in upload.fields.items()}
    by = [value.decode(errors="replace") for value in upload.repeated.get("by", ())]
    try:
        return EvaluateQuery.model_validate(asked.model_dump(exclude_unset=True) | parts | ({"by": by} if by else {}))
    except ValidationError as error:
        raise RequestValidationError([{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]) from error


def _table_of(asked: EvaluateRequest, limits: Limits) -> Table:
    """Return the table of a JSON body."""
    rows, columns = given(asked.rows), given(asked.columns)
    if rows is not None and columns is None:
        return from_rows(rows_of(rows), limits=limits)
    if columns is not None and rows is None:
        return from_columns(columns_of(columns), limits=limits)
    raise InvalidRequestError("expected the rows as one of `rows` and `columns`, not both and not neither")


def _read(schema: Schema, file: Path | bytes, limits: Limits) -> Table:
    sheet = schema.read_options.sheet
    known = (*schema.names, *schema.targets)
    return read_table(file, limits=limits, known=known, least_columns=2, sheet=sheet, sheet_wanted=False)
