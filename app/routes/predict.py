"""`POST /predict`, the hot path: raw body in, bytes out, no model of the rows in between.

It is a plain Starlette route (FastAPI's costs 35 us more a request), so its part of the OpenAPI document is written
here by hand. Small requests are answered in the event loop: a thread would cost more than they do.
"""

from typing import Any, Literal

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import InvalidRequestError, UnsupportedMediaError
from app.routes.answers import problems
from app.routes.bodies import CSV, JSON, TABLES, expect_media_type, read_body
from app.routes.state import in_heavy_thread, services
from app.services.decoding import decode
from app.services.prediction import Intervals, Served, predict

SMALL_BYTES = 16 << 10
"""Bodies up to this size (about 100 rows) are answered in the event loop ..."""
SMALL_BASIS = 1_000
"""... if the model is not huge."""

INTERVAL = 0.95


class PredictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body: a model's reference, one of `rows` and `columns`, and what is wanted."""

    model: str
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    interval: float = INTERVAL
    include: list[Literal["latent_std"]] = []  # msgspec copies it


async def answer(request: Request) -> Response:
    """Predictive mean and interval for every row of the body."""
    if expect_media_type(request, JSON, *TABLES) != JSON:
        return await _answer_file(request)
    if request.scope["query_string"]:
        raise InvalidRequestError("a JSON request has no query parameters: put model, interval and include in the body")
    body = await read_body(request, services(request).settings.max_body_bytes)
    asked = decode(body, PredictRequest)
    served = await services(request).predictions.find(asked.model)
    as_csv = _wants_csv(request)
    if len(body) <= SMALL_BYTES and len(served.model.predictor.posterior.basis) <= SMALL_BASIS:
        return _predict_json(served, asked, as_csv)
    return await in_heavy_thread(request, _predict_json, served, asked, as_csv)


async def _answer_file(request: Request) -> Response:
    query = request.query_params
    unknown = sorted(set(query) - {"model", "interval", "include"})
    if unknown:
        raise InvalidRequestError(f"unknown query parameter {unknown[0]!r}; known are model, interval and include")
    if not query.get("model"):
        raise InvalidRequestError("there is no model: name it in the query, as in /predict?model=cars")
    try:
        interval = float(query.get("interval", INTERVAL))
    except ValueError:
        raise InvalidRequestError(f"interval: expected a number, got {query['interval']!r}") from None
    include = [name for value in query.getlist("include") for name in value.split(",") if name]
    if set(include) - {"latent_std"}:
        raise InvalidRequestError(f"include: expected latent_std, got {','.join(include)}")
    serving = services(request)
    body = await read_body(request, serving.settings.max_body_bytes)
    served = await serving.predictions.find(query["model"])
    as_csv = _wants_csv(request)

    def work() -> Response:
        inputs = serving.predictions.read_table(served, body)
        return _shape(served, inputs, interval, bool(include), as_csv)

    return await in_heavy_thread(request, work)


def _predict_json(served: Served, asked: PredictRequest, as_csv: bool) -> Response:
    if isinstance(asked.rows, msgspec.Raw) and isinstance(asked.columns, msgspec.UnsetType):
        inputs = served.model.rows.rows(asked.rows)
    elif isinstance(asked.columns, msgspec.Raw) and isinstance(asked.rows, msgspec.UnsetType):
        inputs = served.model.rows.columns(asked.columns)
    else:
        raise InvalidRequestError("expected the rows as one of `rows` and `columns`, not both and not neither")
    return _shape(served, inputs, asked.interval, bool(asked.include), as_csv)


def _shape(served: Served, inputs: NDArray[np.float64], interval: float, latent: bool, as_csv: bool) -> Response:
    found = predict(served.model, inputs, interval=interval, latent=latent)
    if as_csv:
        return Response(_csv(found), media_type=CSV, headers={"X-Model": f"{served.name}@{served.version}"})
    content: dict[str, object] = {"model": served.name, "version": served.version}
    content |= _arrays(found)
    content["interval"] = interval
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)


def _arrays(found: Intervals) -> dict[str, NDArray[np.float64]]:
    arrays = {"mean": found.mean, "std": found.std, "lower": found.lower, "upper": found.upper}
    return arrays if found.latent_std is None else arrays | {"latent_std": found.latent_std}


def _csv(found: Intervals) -> bytes:
    arrays = _arrays(found)
    sink = pa.BufferOutputStream()
    sink.write(",".join(arrays).encode() + b"\n")  # Arrow would put the names in quotation marks
    pa_csv.write_csv(pa.table(arrays), sink, pa_csv.WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes()


def _wants_csv(request: Request) -> bool:
    """Whether `Accept` names CSV before JSON; UnsupportedMediaError if it takes neither."""
    accept = request.headers.get("accept", "*/*")
    if accept == "*/*":
        return False
    for part in accept.lower().split(","):
        kind = part.partition(";")[0].strip()
        if kind in (CSV, "text/*"):
            return True
        if kind in (JSON, "application/*", "*/*"):
            return False
    raise UnsupportedMediaError(f"the answer can be {JSON} or {CSV}; the Accept header has {accept!r}")


route = Route("/predict", answer, methods=["POST"])

_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
_INTERVAL = {
    "type": "number",
    "exclusiveMinimum": 0,
    "exclusiveMaximum": 1,
    "default": INTERVAL,
    "description": "Probability that a new observation lies between `lower` and `upper`.",
}
_INCLUDE = {"type": "array", "items": {"const": "latent_std"}, "default": []}
_MODEL = {
    "type": "string",
    "description": "`name`, `name@3` or `name@alias`; a plain name is `champion`, else `latest`.",
}

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
                ],
            },
            "columns": {"type": "object", "additionalProperties": {"type": "array", "items": _CELL}},
            "interval": _INTERVAL,
            "include": _INCLUDE,
        },
        "oneOf": [{"required": ["rows"]}, {"required": ["columns"]}],
    },
    "PredictAnswer": {
        "type": "object",
        "required": ["model", "version", "mean", "std", "lower", "upper", "interval"],
        "properties": {
            "model": {"type": "string"},
            "version": {"type": "integer"},
            "mean": _NUMBERS,
            "std": _NUMBERS | {"description": "Of a new observation, noise included, in the target's unit."},
            "lower": _NUMBERS,
            "upper": _NUMBERS,
            "latent_std": _NUMBERS | {"description": "Of the mean itself; only if it was asked for."},
            "interval": {"type": "number"},
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
            "and the target are ignored. A row's answer never depends on the other rows. JSON or CSV, by `Accept`.",
            "operationId": "predict",
            "parameters": [
                {"name": "model", "in": "query", "schema": _MODEL, "description": "For a file."},
                {"name": "interval", "in": "query", "schema": _INTERVAL, "description": "For a file."},
                {"name": "include", "in": "query", "schema": _INCLUDE, "description": "For a file."},
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
                    "content": {
                        JSON: {"schema": {"$ref": "#/components/schemas/PredictAnswer"}},
                        CSV: {"schema": {"type": "string"}},
                    },
                },
                **{str(status): value for status, value in problems(400, 404, 413, 415, 422, 503).items()},
            },
        }
    }
}
"""Paths of the OpenAPI document."""
