"""`POST /models/{name}/explain`: why rows are predicted as they are."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.http.answers import STRICT_JSON, json_answer, problems
from app.routes.http.bodies import JSON, expect_media_type
from app.routes.http.callers import check_model, count_rows
from app.routes.http.content_encoding import read_json
from app.routes.http.fields import TARGET, ModelName, ModelVersion, ReferencePath
from app.routes.http.services import in_heavy_thread, services
from app.routes.http.table_requests import COLUMNS
from app.services.decoding import decode, given
from app.services.explain.explainer import MOST_NEAREST, MOST_ROWS, NEAREST

router = APIRouter(tags=["prediction"])

Cell = float | int | str | bool | None
_CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}


class PartBody(BaseModel):
    """A column's part of the difference between a row's prediction and the baseline."""

    column: str = Field(description="Name of the column.")
    value: Cell = Field(description="The row's, as it was read; null where it is missing or an unseen level.")
    part: float = Field(description="On the scale of the baseline.")


class NearRowBody(BaseModel):
    """A row that the mean rests on, near the one that is explained."""

    row: int | None = Field(
        description="Its 0-based number in the upload; null where the model does not know it, or the row was moved."
    )
    distance: float = Field(description="In lengthscales: sqrt(sum ((x - z) / lengthscale)^2).")
    similarity: float = Field(description="Kernel value over that of equal rows: 1 for those, 0 far away.")
    adds: float = Field(
        description="To the mean, on the scale of the parts: its weight times the kernel value. Weights of rows "
        "close together correct each other, and may be large and of opposite sign."
    )
    values: dict[str, Cell] = Field(description="By column.")


class ExplainedRowBody(BaseModel):
    """One row."""

    mean: float = Field(description="As `POST /predict` has it, in the target's unit.")
    centre: float = Field(description="Baseline and parts together, on their scale.")
    centre_target: float = Field(description="The same in the target's unit, and within the target's bounds.")
    parts: list[PartBody] = Field(description="Every column, the largest part first.")
    support: float | None = Field(
        description="Share of the prior's variance that is left: 0 at the data, 1 far from all; null: not known."
    )
    far: bool = Field(description="Far from all training rows: little more than an average.")
    outside: list[str] = Field(description="Columns beyond their range in training, or of a level it has not seen.")
    distance: float = Field(description="To the nearest row, in lengthscales.")
    nearest: list[NearRowBody] = Field(description="Rows that the mean rests on, the nearest first.")
    others_add: float = Field(description="What all other rows add.")
    prior: float = Field(description="The mean far from all rows: with what they all add it is `centre`.")


class ExplanationBody(BaseModel):
    """Why rows are predicted as they are."""

    model: ModelName
    version: ModelVersion
    target: str = Field(description="Column that is predicted.")
    columns: list[str] = Field(description="What it is predicted from, in their order.")
    scale: str = Field(description="On which parts add up: `target`, or the transform that the target was learnt in.")
    baseline: float = Field(
        description="Mean where no column is known: all drawn independently, as they are distributed in training."
    )
    baseline_target: float = Field(description="The same in the target's unit.")
    rows_of_mean: int = Field(description="How many rows the mean rests on.")
    remainder: float = Field(
        description="The most that computed parts missed the prediction by, before they were made to add up to it."
    )
    rows: list[ExplainedRowBody] = Field(description="Explanations, row by row.")


class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body: one of `rows` and `columns`, as `POST /predict` takes them."""

    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    nearest: int | msgspec.UnsetType | None = msgspec.UNSET
    target: str | msgspec.UnsetType | None = msgspec.UNSET


_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "description": STRICT_JSON,
                    "properties": {
                        "rows": {
                            "description": f"At most {MOST_ROWS}, fewer of a model whose mean rests on many rows.",
                            "anyOf": [
                                {"type": "array", "items": {"type": "object", "additionalProperties": _CELL}},
                                {"type": "array", "items": {"type": "array", "items": _CELL}},
                                {"type": "null"},
                            ],
                        },
                        "columns": COLUMNS,
                        "target": TARGET,
                        "nearest": {
                            "type": ["integer", "null"],
                            "minimum": 0,
                            "maximum": MOST_NEAREST,
                            "default": NEAREST,
                            "description": "How many of the nearest rows to name.",
                        },
                    },
                    "anyOf": [{"required": ["rows"]}, {"required": ["columns"]}],
                },
                "example": {"rows": [{"x": 0.25}]},
            }
        },
    }
}


@router.post(
    "/models/{name}/explain",
    response_class=Response,
    summary="Explain predictions",
    responses={200: {"model": ExplanationBody}, **problems(400, 404, 408, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def explain(request: Request, name: ReferencePath) -> Response:
    """Each column's part of the difference between a row's prediction and the baseline (exact Shapley values, under
    columns drawn independently: what the model does with them, not what causes what), the nearest of the rows that the
    mean rests on with what they add, and how far the row is from the data. Takes 1 to 100 ms a row with 500 basis
    vectors, seconds with a mean on 20,000 rows."""
    expect_media_type(request, JSON)
    check_model(request, name)
    app = services(request)
    body = await read_json(request, app.settings.max_body_bytes)
    asked = await app.batcher.run(len(body), decode, body, ExplainRequest)
    resolved = await app.registry.resolve(name)
    request.scope["state"]["model"] = resolved.reference
    rows, columns = given(asked.rows), given(asked.columns)
    target = asked.target if isinstance(asked.target, str) else None
    decoder = resolved.model.of_target(target).rows
    if rows is not None and columns is None:
        inputs = await app.batcher.run(len(body), decoder.decode_rows, rows)
    elif columns is not None and rows is None:
        inputs = await app.batcher.run(len(body), decoder.decode_columns, columns)
    else:
        raise InvalidRequestError("expected the rows as one of `rows` and `columns`, not both and not neither")
    await count_rows(request, app, resolved.name, len(inputs))
    nearest = NEAREST if asked.nearest is None or asked.nearest is msgspec.UNSET else asked.nearest
    return json_answer(await in_heavy_thread(request, app.explanations.explain, resolved, inputs, nearest, target))
