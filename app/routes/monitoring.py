"""`/models/{name}/monitoring` and `/feedback`: drift of what models are asked, and the truth that came back."""

from typing import Annotated, Any

import msgspec
import numpy as np
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.http.answers import STRICT_JSON, json_answer, problems
from app.routes.http.bodies import JSON, expect_media_type
from app.routes.http.callers import check_model, count_rows
from app.routes.http.content_encoding import read_json
from app.routes.http.services import in_heavy_thread, in_thread, services
from app.services.decoding import decode, given
from app.services.predict.options import predict_options

router = APIRouter(tags=["monitoring"])

CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}


class ColumnDriftBody(BaseModel):
    """A column against its training profile."""

    name: str
    psi: float = Field(description="Population stability index: from .25 on the distribution is another one.")
    missing_share: float
    out_of_range_share: float
    unseen_share: float


class DriftBody(BaseModel):
    """A request and its answer."""

    rows: int
    near_prior_share: float | None = Field(description="Share of rows far from all training rows; null: not known.")
    counted_rows: int = Field(description="Rows whose cells were counted: a sample where there are very many.")
    columns: list[ColumnDriftBody]
    prediction_psi: float | None = Field(description="Of the predicted means against the targets of training.")


class DayBody(DriftBody):
    """One day, in UTC."""

    day: str


class CoverageBody(BaseModel):
    """Live coverage, with Wilson's interval at 95%."""

    level: float
    share: float
    covered: int
    rows: int
    lower: float
    upper: float


class TruthBody(BaseModel):
    """Rows whose truth came back."""

    rows: int
    coverage: CoverageBody | None
    rmse: float | None
    nmse: float | None = Field(description="Mean squared error over the variance of the target in training.")
    message: str | None = Field(description="Where the level is outside of the interval of the coverage.")


class MonitoringBody(BaseModel):
    """Last days of a version."""

    model: str
    version: int
    has_profile: bool = Field(description="False for a version of an earlier release: its columns are not compared.")
    total: DriftBody = Field(description="Of all these days together.")
    days: list[DayBody] = Field(description="The newest first.")
    feedback: TruthBody
    messages: list[str] = Field(description="What has drifted, in sentences.")


class FeedbackBody(BaseModel):
    """Rows that were taken."""

    model: str
    version: int
    rows: int
    covered: int | None = Field(description="Inside of their 95% interval; null for a model without intervals.")


class FeedbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /feedback`."""

    model: str
    rows: msgspec.Raw
    truth: list[float]


_FEEDBACK: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["model", "rows", "truth"],
                    "additionalProperties": False,
                    "description": STRICT_JSON,
                    "properties": {
                        "model": {"type": "string", "description": "`name@3`, the version that answered."},
                        "rows": {
                            "description": "The rows, as they were predicted.",
                            "anyOf": [
                                {"type": "array", "items": {"type": "object", "additionalProperties": CELL}},
                                {"type": "array", "items": {"type": "array", "items": CELL}},
                            ],
                        },
                        "truth": {"type": "array", "items": {"type": "number"}, "description": "The target of each."},
                    },
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
    name: Annotated[str, Path(description="Name of the model, or a reference of one.")],
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
    responses={200: {"model": FeedbackBody}, **problems(400, 404, 408, 413, 415, 422)},
    openapi_extra=_FEEDBACK,
)
async def add_feedback(request: Request) -> Response:
    """Rows that were predicted, with the targets that came out: they are predicted again by the version that is named,
    and its error and the coverage of its 95% intervals are kept by day."""
    expect_media_type(request, JSON)
    app = services(request)
    body = await read_json(request, app.settings.max_body_bytes)
    asked = await app.batcher.run(len(body), decode, body, FeedbackRequest)
    check_model(request, asked.model)
    resolved = await app.registry.resolve(asked.model)
    rows = given(asked.rows)
    if rows is None:
        raise InvalidRequestError("rows: expected a list of rows, got null")
    inputs = await app.batcher.run(len(body), resolved.model.rows.decode_rows, rows)
    await count_rows(request, app, resolved.name, len(inputs))
    arrays = await app.batcher.submit(resolved.model, inputs, predict_options())
    truth = np.array(asked.truth, np.float64)
    found = await in_thread(app.monitoring.add_truth, resolved.name, resolved.version, truth, arrays)
    return json_answer(found)
