"""Answers of routes: JSON by orjson, times as RFC 3339, problems in the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.routes.http.errors import PROBLEM


class FaultBody(BaseModel):
    """One place that is wrong."""

    message: str = Field(description="What is wrong there.")
    row: int | None = Field(None, description="0-based data row.")
    line: int | None = Field(None, description="1-based line of the file.")
    column: str | None = Field(None, description="Column of the table, or field of the request.")
    value: str | None = Field(None, description="What was found there.")


class ProblemBody(BaseModel):
    """A refusal (RFC 9457)."""

    type: str = Field(
        json_schema_extra={"pattern": "^/problems/[a-z-]+$"}, description="`/problems/` and the title, with dashes."
    )
    title: str = Field(description="Kind of the refusal.")
    status: int = Field(ge=400, le=599, description="Status of the answer.")
    detail: str = Field(description="What was expected, what came, and what to do.")
    instance: str = Field(description="Path of the request.")
    errors: list[FaultBody] | None = Field(None, description="The first 20 places.")
    error_count: int | None = Field(None, description="How many places there are in all.")


STRICT_JSON = (
    "JSON is read strictly: NaN, Infinity, numbers beyond 1.8e308 and an object that has a key twice are refused, in "
    "columns that are ignored too. A field that is null is as if it were left out."
)
"""Status codes and their meaning, for the OpenAPI document."""

_MEANING = {
    400: "The bytes are not what they claim to be",
    401: "An API key is needed, or this one is not valid",
    403: "The API key lacks the scope, or may not use the model",
    404: "There is no such thing",
    406: "No form of the answer that Accept takes is written here",
    409: "The state of the thing forbids it",
    408: "The body did not come within its time",
    413: "A limit is passed",
    415: "A content type that is not read here",
    422: "Understood, but a field, a column or a cell is wrong",
    429: "The API key has used up a limit of its own; `Retry-After` says when to come again",
    503: "The database or the store does not answer; try again",
}


class Bytes(Response):
    """A finished body: what Starlette's own answer does, for a quarter of the time."""

    def __init__(self, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [
            (b"content-length", str(len(body)).encode("latin-1")),
            (b"content-type", media_type.encode("latin-1")),
        ]
        if headers:
            self.raw_headers += [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route for these refusals, and for 503: nearly every route needs the database."""
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    return {status: {"description": _MEANING[status], "content": content} for status in sorted({*statuses, 503})}


def json_answer(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """`content` as JSON; numpy arrays are written as lists, floats in their shortest form."""
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status_code=status, media_type="application/json", headers=headers)
