"""`POST /models/{name}/suggest`: which rows to measure next."""

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
from app.routes.http.table_requests import CELL, ROWS, rows_of
from app.services.decoding import decode, decode_any, given
from app.services.predict.options import word_of
from app.services.suggestions import (
    DEFAULT_CANDIDATES,
    DEFAULT_COUNT,
    Criterion,
    Goal,
    Question,
)
from core.predict.suggest import MOST_CANDIDATES, MOST_REGION, MOST_SUGGESTED

router = APIRouter(tags=["prediction"])

Cell = float | int | str | bool | None


class SuggestionBody(BaseModel):
    """A row to measure."""

    row: dict[str, Cell] = Field(description="Its cells by column.")
    number: int | None = Field(description="Of the row in the request; null where it was drawn from ranges.")
    gain: float = Field(
        description="What its measurement takes off the mean variance over the region, once those before it are "
        "measured; or the improvement that is expected of it. On the scale of `scale`, the first squared."
    )
    mean: float = Field(description="Predictive mean, in the target's unit.")
    std: float = Field(description="Standard deviation of a new observation.")
    latent_std: float = Field(description="Error bar of the mean itself.")


class RegionBody(BaseModel):
    """The region: root of the mean variance of the function, now and with all suggestions measured."""

    rows: int = Field(description="Rows that stand for it.")
    latent_std_before: float = Field(description="Now.")
    latent_std_after: float = Field(description="With all suggestions measured.")


class SuggestBody(BaseModel):
    """Rows to measure next, in order."""

    model: ModelName
    version: ModelVersion
    target: str = Field(description="Column that is to be known.")
    criterion: Criterion = Field(description="What rows were chosen by.")
    scale: str = Field(description="`target`, or the transform that the target was learnt in.")
    goal: Goal | None = Field(None, description="What improvement means.")
    best: float | None = Field(None, description="What improvement had to beat, in the target's unit.")
    region: RegionBody | None = Field(None, description="Where the variance is to fall; null for improvement.")
    suggestions: list[SuggestionBody] = Field(description="The rows.")


class SuggestRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body: candidates as one of `rows` and `ranges`, or neither for the ranges of training."""

    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    ranges: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    candidates: int | None = None
    region: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    count: int | None = None
    criterion: str | None = None
    goal: str | None = None
    best: float | None = None
    seed: int | None = None
    target: str | None = None


_VALUES = {"type": "array", "items": CELL, "description": "Values to choose from."}
_RANGES: dict[str, Any] = {
    "type": ["object", "null"],
    "description": 'By column `[lowest, highest]` of a number, `{"values": [..]}`, or one value; columns that are not '
    "named have the range, or the levels, of the training rows (a date its middle). Without `rows`, `{}` by default.",
    "additionalProperties": {
        "anyOf": [
            {"type": "array", "items": CELL},
            {"type": "object", "required": ["values"], "properties": {"values": _VALUES}},
            *CELL["anyOf"],
        ]
    },
}
_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "description": STRICT_JSON,
                    "additionalProperties": False,
                    "properties": {
                        "rows": ROWS | {"description": f"Candidates, at most {MOST_CANDIDATES:,}."},
                        "ranges": _RANGES,
                        "candidates": {
                            "type": ["integer", "null"],
                            "minimum": 1,
                            "maximum": MOST_CANDIDATES,
                            "default": DEFAULT_CANDIDATES,
                            "description": "How many are drawn from ranges.",
                        },
                        "region": {
                            "description": "Where the function is to be known: rows, or ranges; by default the "
                            f"candidates. At most {MOST_REGION:,} rows. For `variance`.",
                            "anyOf": [ROWS, _RANGES],
                        },
                        "target": TARGET,
                        "count": {
                            "type": ["integer", "null"],
                            "minimum": 1,
                            "maximum": MOST_SUGGESTED,
                            "default": DEFAULT_COUNT,
                            "description": "How many rows to suggest.",
                        },
                        "criterion": {
                            "enum": [*Criterion, None],
                            "default": Criterion.VARIANCE.value,
                            "description": "`variance`: what leaves the least variance over the region; "
                            "`improvement`: what may be beyond the best so far. Greedy, each pick as if those before "
                            "it were measured (for improvement at their means).",
                        },
                        "goal": {
                            "enum": [*Goal, None],
                            "default": Goal.MAX.value,
                            "description": "Whether large targets are wanted, or small ones.",
                        },
                        "best": {
                            "type": ["number", "null"],
                            "description": "What improvement has to beat; by default the best mean at the rows that "
                            "the model rests on.",
                        },
                        "seed": {
                            "type": ["integer", "null"],
                            "minimum": 0,
                            "default": 0,
                            "description": "Of the rows that are drawn: the same gives the same.",
                        },
                    },
                },
                "example": {"ranges": {"x": [0, 1]}, "count": 3},
            }
        },
    }
}


@router.post(
    "/models/{name}/suggest",
    response_class=Response,
    summary="Suggest rows to measure next",
    responses={200: {"model": SuggestBody}, **problems(400, 404, 408, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def suggest(request: Request, name: ReferencePath) -> Response:
    """The candidates that are worth measuring: those after which the function is known best over a region, or those
    that may be better than all so far. Targets are not needed: each pick is taken as measured before the next."""
    expect_media_type(request, JSON)
    check_model(request, name)
    app = services(request)
    body = await read_json(request, app.settings.max_body_bytes)
    question, rows = await in_heavy_thread(request, _read, body)
    resolved = await app.registry.resolve(name)
    request.scope["state"]["model"] = resolved.reference
    await count_rows(request, app, resolved.name, rows)
    return json_answer(await in_heavy_thread(request, app.suggester.suggest, resolved, question))


def _read(body: bytes) -> tuple[Question, int]:
    """The question, and how many rows it is about."""
    asked = decode(body, SuggestRequest)
    rows, ranges, region = given(asked.rows), given(asked.ranges), given(asked.region)
    region_rows = region_ranges = None
    if region is not None:
        if bytes(region).lstrip().startswith(b"["):
            region_rows = rows_of(region)
        else:
            region_ranges = _object(region, "region")
    found = Question(
        rows=None if rows is None else rows_of(rows),
        ranges=None if ranges is None else _object(ranges, "ranges"),
        candidates=DEFAULT_CANDIDATES if asked.candidates is None else asked.candidates,
        region_rows=region_rows,
        region_ranges=region_ranges,
        count=DEFAULT_COUNT if asked.count is None else asked.count,
        criterion=Criterion.VARIANCE if asked.criterion is None else word_of(Criterion, asked.criterion, "criterion"),
        goal=Goal.MAX if asked.goal is None else word_of(Goal, asked.goal, "goal"),
        best=asked.best,
        seed=0 if asked.seed is None else asked.seed,
        target=asked.target,
    )
    of_region = found.candidates if region_ranges is not None else len(region_rows or ())
    return found, (found.candidates if found.rows is None else len(found.rows)) + of_region


def _object(raw: msgspec.Raw, where: str) -> dict[str, Any]:
    found = decode_any(raw, where=where)
    if not isinstance(found, dict):
        raise InvalidRequestError(f"{where}: expected an object by column name")
    return found
