"""`POST /predict`, the hot path: raw body in, bytes out, no model of the rows in between.

It is a plain Starlette route (FastAPI's costs 35 us more a request) with its part of the OpenAPI document written by
hand. Few rows are read and predicted in the event loop, many in the thread of `app.services.predict.batching`, files of
tables are read in threads of their own.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import InvalidRequestError
from app.routes.encode import accepted, shaped
from app.routes.http.bodies import JSON, NPY, TABLES, expect_media_type, header, media_type, read_body
from app.routes.http.content_encoding import read_json
from app.routes.http.services import in_heavy_thread, services
from app.services.decoding import decode, given
from app.services.predict.batching import FEW_ROWS
from app.services.predict.npy import NPY as NPY_MAGIC
from app.services.predict.npy import read_npy
from app.services.predict.registry import Served, Wanted

SMALL_BYTES = 64 << 10
"""Bodies up to this size are read in the event loop."""
ONE_PASS_BYTES = 2 << 20
"""Bodies up to this size are read in one go where they are numbers, in 5 ms; larger ones piece by piece."""


class PredictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body: a model's reference, one of `rows` and `columns`, and what is wanted. null is as if left out."""

    model: str
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    interval: float | list[float] | bool | msgspec.UnsetType | None = msgspec.UNSET
    quantiles: list[float] | msgspec.UnsetType | None = msgspec.UNSET
    include: list[str] | msgspec.UnsetType | None = msgspec.UNSET


class _NumbersRequest(PredictRequest):
    """The commonest of them, which is read in one pass: rows that are lists of numbers."""

    rows: list[list[float]]  # type: ignore[assignment]  # mypy: in place of Raw


_numbers_request = msgspec.json.Decoder(_NumbersRequest)
_FIELDS = len(PredictRequest.__struct_fields__)


async def answer(request: Request) -> Response:
    """Predictive mean and interval for every row of the body."""
    if expect_media_type(request, JSON, *TABLES) != JSON:
        return await _answer_file(request)
    if request.scope["query_string"]:
        raise InvalidRequestError("a JSON request has no query parameters: put model, interval and include in the body")
    serving = services(request)
    body = await read_json(request, serving.settings.max_body_bytes)
    batcher = serving.batcher
    small = len(body) <= SMALL_BYTES
    asked = _read(body) if small else await batcher.run(_read, body)
    served = await serving.predictions.find(asked.model)
    form = accepted(header(request, b"accept", "*/*"))
    inputs = _inputs(served, asked, body) if small else await batcher.run(_inputs, served, asked, body)
    wanted, alone = _wanted(asked)
    found = await batcher.predict(served.model, inputs, wanted)
    if len(inputs) <= FEW_ROWS:
        return shaped(served, found, wanted, alone, form)
    return await batcher.run(shaped, served, found, wanted, alone, form)


def _read(body: bytes) -> PredictRequest:
    if len(body) <= ONE_PASS_BYTES:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            asked = _numbers_request.decode(body)
            optional = (asked.columns, asked.interval, asked.quantiles, asked.include)
            if optional.count(msgspec.UNSET) + body.count(b":") == _FIELDS:  # else a key may be there twice
                return asked
    return decode(body, PredictRequest)


def _inputs(served: Served, asked: PredictRequest, body: bytes) -> NDArray[np.float64]:
    """The rows of a JSON body as (m, p)."""
    if isinstance(asked, _NumbersRequest):
        inputs = None if asked.columns is not msgspec.UNSET else served.model.rows.numbers(asked.rows)
        if inputs is not None:
            return inputs
        asked = decode(body, PredictRequest)
    rows, columns = given(asked.rows), given(asked.columns)
    if rows is not None and columns is None:
        return served.model.rows.rows(rows)
    if columns is not None and rows is None:
        return served.model.rows.columns(columns)
    raise InvalidRequestError("expected the rows as one of `rows` and `columns`, not both and not neither")


def _wanted(asked: PredictRequest) -> tuple[Wanted, bool]:
    """What is wanted, and whether the interval is one number."""
    levels = None
    alone = True
    if isinstance(asked.interval, list):
        levels, alone = tuple(asked.interval), False
    elif asked.interval is True:
        raise InvalidRequestError("interval: expected a number, a list of numbers or false, got true")
    elif isinstance(asked.interval, float):
        levels = (asked.interval,)
    quantiles, include = tuple(asked.quantiles or ()), frozenset(asked.include or ())
    return wish(levels, quantiles, include, asked.interval is False), alone


@lru_cache(maxsize=1024)
def wish(
    levels: tuple[float, ...] | None, quantiles: tuple[float, ...], include: frozenset[str], mean_alone: bool
) -> Wanted:
    """A Wanted, checked the first time."""
    return Wanted(levels=levels, quantiles=quantiles, include=include, mean_alone=mean_alone)


async def _answer_file(request: Request) -> Response:
    name, wanted, alone = _asked_in(request.scope["query_string"])
    serving = services(request)
    batcher = serving.batcher
    body = await read_body(request, serving.settings.max_body_bytes)
    served = await serving.predictions.find(name)
    form = accepted(header(request, b"accept", "*/*"))
    if media_type(request) != NPY and not body.startswith(NPY_MAGIC):
        inputs = await in_heavy_thread(request, serving.predictions.read_table, served, body)
    elif len(body) <= SMALL_BYTES:
        inputs = served.model.rows.matrix(read_npy(body))
    else:
        inputs = await batcher.run(served.model.rows.matrix, read_npy(body))
    found = await batcher.predict(served.model, inputs, wanted)
    if len(inputs) <= FEW_ROWS or form == NPY:
        return shaped(served, found, wanted, alone, form)
    return await batcher.run(shaped, served, found, wanted, alone, form)


@lru_cache(maxsize=1024)
def _asked_in(query_string: bytes) -> tuple[str, Wanted, bool]:
    """The model, what is wanted, and whether the interval is one number. Clients repeat their queries."""
    query = QueryParams(query_string)
    known = ("model", "interval", "quantiles", "include")
    unknown = sorted(set(query) - set(known))
    if unknown:
        raise InvalidRequestError(f"unknown query parameter {unknown[0]!r}; known are {', '.join(known)}")
    if len(query.getlist("model")) > 1:
        raise InvalidRequestError(f"the model is named {len(query.getlist('model'))} times in the query: name one")
    if not query.get("model"):
        raise InvalidRequestError("there is no model: name it in the query, as in /predict?model=cars")
    mean_alone = _words(query.getlist("interval")) == ["false"]
    levels = () if mean_alone else _numbers("interval", query.getlist("interval"))
    if "interval" in query and not levels and not mean_alone:
        raise InvalidRequestError("interval: expected a number, got nothing")
    quantiles = _numbers("quantiles", query.getlist("quantiles"))
    wanted = wish(levels or None, quantiles, frozenset(_words(query.getlist("include"))), mean_alone)
    return query["model"], wanted, len(levels) <= 1


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


route = Route("/predict", answer, methods=["POST"])
