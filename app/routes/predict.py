"""`POST /predict`, the hot path: raw body in, bytes out, no model of the rows in between.

It is a plain Starlette route (FastAPI's costs 35 us more a request), so its part of the OpenAPI document is written
here by hand. Small requests are answered in the event loop: a thread would cost more than they do.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import InvalidRequestError, NotAcceptableError
from app.routes.answers import problems
from app.routes.bodies import CSV, JSON, TABLES, expect_media_type, read_body
from app.routes.state import in_heavy_thread, services
from app.services.decoding import decode
from app.services.prediction import EXTRAS, INTERVAL, Answers, Served, Wanted, predict

SMALL_BYTES = 16 << 10
"""Bodies up to this size (about 100 rows) are answered in the event loop ..."""
SMALL_BASIS = 1_000
"""... if the model is not huge."""


class PredictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body: a model's reference, one of `rows` and `columns`, and what is wanted."""

    model: str
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    interval: float | list[float] | msgspec.UnsetType = msgspec.UNSET
    quantiles: list[float] = []  # msgspec copies it
    include: list[str] = []


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
    if len(body) <= SMALL_BYTES and len(served.model.predictor.model.posterior.basis) <= SMALL_BASIS:
        return _predict_json(served, asked, as_csv)
    return await in_heavy_thread(request, _predict_json, served, asked, as_csv)


async def _answer_file(request: Request) -> Response:
    query = request.query_params
    known = ("model", "interval", "quantiles", "include")
    unknown = sorted(set(query) - set(known))
    if unknown:
        raise InvalidRequestError(f"unknown query parameter {unknown[0]!r}; known are {', '.join(known)}")
    if not query.get("model"):
        raise InvalidRequestError("there is no model: name it in the query, as in /predict?model=cars")
    levels = _numbers("interval", query.getlist("interval"))
    if "interval" in query and not levels:
        raise InvalidRequestError("interval: expected a number, got nothing")
    wanted = Wanted(
        levels=levels if "interval" in query else None,
        quantiles=_numbers("quantiles", query.getlist("quantiles")),
        include=frozenset(_words(query.getlist("include"))),
    )
    alone = len(levels) <= 1
    serving = services(request)
    body = await read_body(request, serving.settings.max_body_bytes)
    served = await serving.predictions.find(query["model"])
    as_csv = _wants_csv(request)

    def work() -> Response:
        inputs = serving.predictions.read_table(served, body)
        return _shape(served, inputs, wanted, alone, as_csv)

    return await in_heavy_thread(request, work)


def _words(values: Iterable[str]) -> list[str]:
    """Repeated parameters and lists with commas, alike."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def _numbers(name: str, values: Iterable[str]) -> tuple[float, ...]:
    numbers = []
    for word in _words(values):
        try:
            numbers.append(float(word))
        except ValueError:
            raise InvalidRequestError(f"{name}: expected a number, got {word!r}") from None
    return tuple(numbers)


def _predict_json(served: Served, asked: PredictRequest, as_csv: bool) -> Response:
    if isinstance(asked.rows, msgspec.Raw) and isinstance(asked.columns, msgspec.UnsetType):
        inputs = served.model.rows.rows(asked.rows)
    elif isinstance(asked.columns, msgspec.Raw) and isinstance(asked.rows, msgspec.UnsetType):
        inputs = served.model.rows.columns(asked.columns)
    else:
        raise InvalidRequestError("expected the rows as one of `rows` and `columns`, not both and not neither")
    levels = None
    if isinstance(asked.interval, list):
        levels = tuple(asked.interval)
    elif isinstance(asked.interval, float | int):
        levels = (asked.interval,)
    wanted = Wanted(levels=levels, quantiles=tuple(asked.quantiles), include=frozenset(asked.include))
    return _shape(served, inputs, wanted, not isinstance(asked.interval, list), as_csv)


def _shape(served: Served, inputs: NDArray[np.float64], wanted: Wanted, alone: bool, as_csv: bool) -> Response:
    """alone: the interval is one number, and answered as one pair of lists."""
    found = predict(served.model, inputs, wanted)
    if as_csv:
        body = _csv(_columns(found, wanted, alone))
        return Response(body, media_type=CSV, headers={"X-Model": f"{served.name}@{served.version}"})
    content: dict[str, object] = {"model": served.name, "version": served.version, "mean": found.mean}
    if found.std is not None:
        lower, upper = [ends[0] for ends in found.intervals], [ends[1] for ends in found.intervals]
        content |= {
            "std": found.std,
            "lower": lower[0] if alone else lower,
            "upper": upper[0] if alone else upper,
            **found.extra,
            "interval": found.levels[0] if alone else found.levels,
        }
    if wanted.quantiles:
        content |= {"quantiles": wanted.quantiles, "quantile_values": found.quantiles}
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)


def _columns(found: Answers, wanted: Wanted, alone: bool) -> dict[str, NDArray[np.float64]]:
    """A column for every array: lower and upper carry their level where there may be several, as in lower_0.9."""
    columns = {"mean": found.mean}
    if found.std is not None:
        columns["std"] = found.std
    for level, (lower, upper) in zip(found.levels, found.intervals, strict=True):
        mark = "" if alone else f"_{level!r}"
        columns |= {f"lower{mark}": lower, f"upper{mark}": upper}
    for probability, values in zip(wanted.quantiles, found.quantiles, strict=True):
        columns[f"quantile_{probability!r}"] = values
    return columns | found.extra


def _csv(arrays: dict[str, NDArray[np.float64]]) -> bytes:
    sink = pa.BufferOutputStream()
    sink.write(",".join(arrays).encode() + b"\n")  # Arrow would put the names in quotation marks
    pa_csv.write_csv(pa.table(arrays), sink, pa_csv.WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes()


def _wants_csv(request: Request) -> bool:
    """Whether `Accept` names CSV before JSON; NotAcceptableError if it takes neither."""
    accept = request.headers.get("accept", "*/*")
    if accept == "*/*":
        return False
    for part in accept.lower().split(","):
        kind = part.partition(";")[0].strip()
        if kind in (CSV, "text/*"):
            return True
        if kind in (JSON, "application/*", "*/*"):
            return False
    raise NotAcceptableError(f"the answer can be {JSON} or {CSV}; the Accept header has {accept!r}")


route = Route("/predict", answer, methods=["POST"])

_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_LISTS: dict[str, Any] = {"type": "array", "items": _NUMBERS}
_ENDS = {"anyOf": [_NUMBERS, _LISTS], "description": "A number for each row; several intervals: a list for each."}
_CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
_LEVEL = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_INTERVAL = {
    "anyOf": [_LEVEL, {"type": "array", "items": _LEVEL, "maxItems": 100}],
    "default": INTERVAL,
    "description": "Probability that a new observation lies between `lower` and `upper`; or several, and then both are "
    "lists of lists, one for each. Not for a model that keeps its mean alone.",
}
_QUANTILES = {
    "type": "array",
    "items": _LEVEL,
    "maxItems": 100,
    "default": [],
    "description": "Probabilities whose quantiles to add, as `quantile_values`.",
}
_INCLUDE = {
    "type": "array",
    "items": {"enum": list(EXTRAS)},
    "default": [],
    "description": "More to add: `latent_std`, the error bar of the mean itself; `median`; `support`, the share of the "
    "prior's variance that is left: 0 at the data, 1 far from all of them.",
}
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
            "quantiles": _QUANTILES,
            "include": _INCLUDE,
        },
        "oneOf": [{"required": ["rows"]}, {"required": ["columns"]}],
    },
    "PredictAnswer": {
        "type": "object",
        "required": ["model", "version", "mean"],
        "description": "Without `std`, `lower`, `upper` and `interval` where the model keeps its mean alone.",
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
            "interval": {"anyOf": [{"type": "number"}, _NUMBERS]},
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
            "and the target are ignored. A row's answer never depends on the other rows. JSON or CSV, by `Accept`.",
            "operationId": "predict",
            "parameters": [
                {"name": "model", "in": "query", "schema": _MODEL, "description": "For a file."},
                {"name": "interval", "in": "query", "schema": _INTERVAL, "description": "For a file."},
                {"name": "quantiles", "in": "query", "schema": _QUANTILES, "description": "For a file."},
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
