"""`/models/{name}/monitoring` and `/feedback`: drift of what models are asked, and the truth that came back."""

from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.http.answers import STRICT_JSON, json_answer, problems
from app.routes.http.bodies import JSON, expect_media_type
from app.routes.http.callers import caller_of, check_model, count_rows
from app.routes.http.content_encoding import read_json
from app.routes.http.fields import REFERENCE, ModelName, ModelVersion, ReferencePath
from app.routes.http.services import in_heavy_thread, in_thread, services
from app.services.decoding import decode, given
from app.services.monitoring.kept_predictions import RowNumbers
from app.services.monitoring.truths import targets_of
from app.services.predict.options import predict_options

router = APIRouter(tags=["monitoring"])

CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}


class ColumnDriftBody(BaseModel):
    """A column against its training profile."""

    name: str = Field(description="Name of the column.")
    psi: float = Field(description="Population stability index: from .25 on the distribution is another one.")
    missing_share: float = Field(description="Share of missing cells.")
    out_of_range_share: float = Field(description="Share of cells beyond the range in training.")
    unseen_share: float = Field(description="Share of cells of a level that training has not seen.")


class DriftBody(BaseModel):
    """Numbers of what was asked and answered; of several targets an object by target where it depends on the target."""

    rows: int = Field(description="How many rows were predicted.")
    near_prior_share: float | dict[str, float | None] | None = Field(
        description="Share of rows far from all training rows; null: not known."
    )
    counted_rows: int = Field(description="Rows whose cells were counted: a sample where there are very many.")
    columns: list[ColumnDriftBody] | dict[str, list[ColumnDriftBody]] = Field(
        description="Every column against the rows of training, which may be others for each target."
    )
    prediction_psi: float | dict[str, float | None] | None = Field(
        description="Of the predicted means against the targets of training."
    )


class DayBody(DriftBody):
    """One day, in UTC."""

    day: Annotated[str, Field(json_schema_extra={"format": "date"})] = Field(description="The day, in UTC.")


class CoverageBody(BaseModel):
    """Live coverage, with Wilson's interval at 95%."""

    level: float = Field(description="Level of the interval.")
    share: float = Field(description="Share of rows inside of it.")
    covered: int = Field(description="How many rows were inside.")
    rows: int = Field(description="Of how many.")
    lower: float = Field(description="Lower end of Wilson's interval.")
    upper: float = Field(description="Upper end of Wilson's interval.")


class TruthBody(BaseModel):
    """Rows whose truth came back."""

    rows: int = Field(description="How many rows.")
    coverage: CoverageBody | None = Field(description="Live coverage; null without rows or intervals.")
    rmse: float | None = Field(description="Root mean squared error.")
    nmse: float | None = Field(description="Mean squared error over the variance of the target in training.")
    message: str | None = Field(description="Where the level is outside of the interval of the coverage.")


class MonitoringBody(BaseModel):
    """Last days of a version."""

    model: ModelName
    version: ModelVersion
    has_profile: bool = Field(description="False for a version of an earlier release: its columns are not compared.")
    total: DriftBody = Field(description="Of all these days together.")
    days: list[DayBody] = Field(description="The newest first.")
    feedback: TruthBody | dict[str, TruthBody] = Field(
        description="How the truth came out, where it came back; of several targets by target."
    )
    messages: list[str] = Field(description="What has drifted, in sentences.")


class FeedbackBody(BaseModel):
    """Rows that were taken; of several targets by target."""

    model: ModelName
    version: ModelVersion
    rows: int | dict[str, int] = Field(description="How many rows were taken.")
    covered: int | dict[str, int | None] | None = Field(
        description="Inside of their 95% interval; null for a model without intervals."
    )
    waiting: int | dict[str, int] = Field(description="Rows of the kept prediction whose truth has not come.")
    message: str | None = Field(
        None, description="Error bars that `covered` is of, where the model was trained with `weights`; else missing."
    )


class FeedbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /feedback`: a kept prediction, or a model and rows; and the truth."""

    truth: msgspec.Raw
    prediction_id: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_TRUTH = {"type": "array", "items": {"type": ["number", "null"]}}
_FEEDBACK: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["truth"],
                    "additionalProperties": False,
                    "description": f"`prediction_id`, or `model` and `rows`. {STRICT_JSON}",
                    "properties": {
                        "prediction_id": {
                            "type": ["string", "null"],
                            "pattern": "^pred_[0-9a-f]{32}$",
                            "description": "Id that a prediction got which was asked for with `keep_for_feedback`.",
                        },
                        "model": {
                            "type": ["string", "null"],
                            "pattern": REFERENCE,
                            "description": "`name@3`, the version that answered.",
                        },
                        "rows": {
                            "description": "The rows, as they were predicted.",
                            "anyOf": [
                                {"type": "array", "items": {"type": "object", "additionalProperties": CELL}},
                                {"type": "array", "items": {"type": "array", "items": CELL}},
                                {"type": "null"},
                            ],
                        },
                        "truth": {
                            "anyOf": [_TRUTH, {"type": "object", "additionalProperties": _TRUTH}],
                            "description": "The target of each row; null where it is not known. Of several targets an "
                            "object of such lists by target; one that is not known of any row may be left out.",
                        },
                    },
                    "anyOf": [{"required": ["prediction_id"]}, {"required": ["model", "rows"]}],
                },
                "example": {"model": "sine@1", "rows": [{"x": 0.25}], "truth": [0.25]},
            }
        },
    }
}


@router.get(
    "/models/{name}/monitoring",
    response_class=Response,
    summary="Drift of a version",
    responses={200: {"model": MonitoringBody}, **problems(404, 422)},
)
async def get_monitoring(
    request: Request,
    name: ReferencePath,
    days: Annotated[int, Query(ge=1, le=400, description="How many days.")] = 30,
) -> Response:
    """Inputs and predictions of its last days against the rows that it was trained on, and how the truth came out.
    Counts of other processes are some seconds old."""
    check_model(request, name)
    app = services(request)
    await in_heavy_thread(request, app.monitor.flush)
    return json_answer(await in_heavy_thread(request, app.monitoring.report, name, days=days))


@router.post(
    "/feedback",
    response_class=Response,
    summary="Tell the truth",
    responses={200: {"model": FeedbackBody}, **problems(400, 404, 408, 409, 413, 415, 422)},
    openapi_extra=_FEEDBACK,
)
async def add_feedback(request: Request) -> Response:
    """The targets that came out of a prediction that was kept (`keep_for_feedback`), each counted once; or of rows,
    which are predicted again by the version that is named. Error and coverage of the 95% intervals are kept by day, and
    for each target."""
    expect_media_type(request, JSON)
    app = services(request)
    body = await read_json(request, app.settings.max_body_bytes)
    asked = await app.batcher.run(len(body), decode, body, FeedbackRequest)
    rows = given(asked.rows)
    if asked.prediction_id:
        if asked.model or rows is not None:
            raise InvalidRequestError("prediction_id: its model and rows are known: leave out `model` and `rows`")
        answer = app.monitoring.answer
        return json_answer(await in_thread(answer, asked.prediction_id, asked.truth, caller_of(request)))
    if not asked.model or rows is None:
        raise InvalidRequestError("expected `prediction_id`, or `model` and `rows`, beside `truth`")
    check_model(request, asked.model)
    resolved = await app.registry.resolve(asked.model)
    inputs = await app.batcher.run(len(body), resolved.model.rows.decode_rows, rows)
    await count_rows(request, app, resolved.name, len(inputs))
    arrays = await app.batcher.submit(resolved.model, inputs, predict_options())
    numbers, targets = RowNumbers.of(resolved.model, arrays), targets_of(resolved.model)
    add = partial(app.monitoring.add_truth, resolved.name, resolved.version, asked.truth, numbers, targets)
    return json_answer(await in_thread(add))
