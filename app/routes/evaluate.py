"""`POST /evaluate`: a table with the truth in, scores of a model's predictions out."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.routes.http.answers import json_answer, problems
from app.routes.http.bodies import NPY, TABLES, expect_media_type, read_body
from app.routes.http.callers import check_model, count_rows
from app.routes.http.fields import ModelName, ModelVersion
from app.routes.http.services import in_heavy_thread, in_reader_thread, services
from app.services.evaluation import MOST_BY, MOST_WORST, EvaluateOptions, evaluate
from app.services.predict.options import OnError
from app.tables import Limits, Schema, Table, read_table

router = APIRouter(tags=["prediction"])

_TABLES = tuple(kind for kind in TABLES if kind != NPY)

Model = Annotated[str, Query(description="`name`, `name@3` or `name@alias`.", min_length=1)]
By = Annotated[
    list[str] | None, Query(max_length=MOST_BY, description="Columns whose groups are scored too; may be repeated.")
]
Worst = Annotated[int, Query(ge=0, le=MOST_WORST, description="How many rows with the largest errors are listed.")]
Target = Annotated[
    Annotated[str, Field(json_schema_extra={"minLength": 1})] | None,
    Query(description="Which of several targets; the only one need not be named."),
]
Errors = Annotated[OnError, Query(description="Rows that cannot be predicted: refuse the table, or leave them out.")]


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
    scores: ScoresBody = Field(description="Of all rows.")
    groups: list[GroupScoresBody] = Field(description="By the values of the columns that were asked for.")
    worst: list[WorstRowBody] = Field(description="The largest errors first.")
    warnings: list[str] = Field(description="What is to be known of these scores, in sentences.")


_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A table of any format that is read here, with the column of the target.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in _TABLES},
    }
}


@router.post(
    "/evaluate",
    response_class=Response,
    summary="Score a model on rows with the truth",
    responses={200: {"model": EvaluationBody}, **problems(400, 404, 408, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def evaluate_model(
    request: Request,
    model: Model,
    by: By = None,
    worst: Worst = 10,
    on_error: Errors = OnError.REFUSE,
    target: Target = None,
) -> Response:
    """NMSE, RMSE, MAE, R2, NLPD, coverage by level; the same of groups; the rows with the largest errors."""
    expect_media_type(request, *_TABLES)
    app = services(request)
    check_model(request, model)
    options = EvaluateOptions(by=tuple(by or ()), worst=worst, on_error=on_error, target=target)
    body = await read_body(request, app.settings.max_body_bytes, "PURSUIT_MAX_BODY_BYTES")
    resolved = await app.registry.resolve(model)
    schema = resolved.model.of_target(target).schema
    table = await in_reader_thread(request, _read, schema, body, app.body_limits)
    await count_rows(request, app, resolved.name, table.rows)
    found = await in_heavy_thread(request, evaluate, resolved.model, table, options)
    return json_answer({"model": resolved.name, "version": resolved.version, **found})


def _read(schema: Schema, body: bytes, limits: Limits) -> Table:
    sheet = schema.read_options.sheet
    known = (*schema.names, *schema.targets)
    return read_table(body, limits=limits, known=known, least_columns=2, sheet=sheet, sheet_wanted=False)
