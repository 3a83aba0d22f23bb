"""`POST /predict`, the hot path: raw body in, bytes out, no model of the rows in between.

It is a plain Starlette route (FastAPI's costs 35 us more a request) with its part of the OpenAPI document written by
hand. `app.services.predict.batching` decides what runs in the event loop and what in its thread; files of tables are
read in threads of their own.
"""

from collections.abc import Iterable
from functools import lru_cache

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import InvalidRequestError
from app.routes.encode import encode, negotiate
from app.routes.http.bodies import CSV, JSON, NPY, TABLES, content_type, expect_media_type, header, read_body
from app.routes.http.callers import check_model, count_rows
from app.routes.http.content_encoding import read_json
from app.routes.http.services import Services, in_heavy_thread, services
from app.services.decoding import decode, given
from app.services.predict.batching import ROW_BYTES
from app.services.predict.npy import NPY as NPY_MAGIC
from app.services.predict.npy import read_npy
from app.services.predict.options import PredictOptions, predict_options
from app.services.predict.registry import ResolvedModel
from app.services.predict.row_decoder import RowDecoder, decode_table, decode_table_and_texts
from core.arrays import FloatArray


class PredictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body: a model's reference, one of `rows` and `columns`, and its options. null is as if left out."""

    model: str
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    interval: float | list[float] | bool | msgspec.UnsetType | None = msgspec.UNSET
    quantiles: list[float] | msgspec.UnsetType | None = msgspec.UNSET
    include: list[str] | msgspec.UnsetType | None = msgspec.UNSET


async def answer(request: Request) -> Response:
    """Answer with the predictive mean and interval for every row of the body."""
    if expect_media_type(request, JSON, *TABLES) != JSON:
        return await _answer_file(request)
    if request.scope["query_string"]:
        raise InvalidRequestError("a JSON request has no query parameters: put model, interval and include in the body")
    app = services(request)
    body = await read_json(request, app.settings.max_body_bytes)
    asked = await app.batcher.run(len(body), decode, body, PredictRequest)
    check_model(request, asked.model)
    resolved = await app.registry.resolve(asked.model)
    request.scope["state"]["model"] = resolved.reference
    media_type = negotiate(header(request, b"accept", "*/*"))
    inputs = await app.batcher.run(len(body), _decode_rows, resolved.model.rows, asked)
    return await _predict(request, app, resolved, inputs, _options(asked), media_type)


async def _answer_file(request: Request) -> Response:
    reference, options, with_table = _read_query(request.scope["query_string"])
    app = services(request)
    body = await read_body(request, app.settings.max_body_bytes)
    check_model(request, reference)
    resolved = await app.registry.resolve(reference)
    request.scope["state"]["model"] = resolved.reference
    media_type = negotiate(header(request, b"accept", "*/*"))
    is_array = content_type(request) == NPY or body.startswith(NPY_MAGIC)
    if with_table:
        if is_array or media_type != CSV:
            raise InvalidRequestError(
                "table: the columns of a file come back as CSV, and an array has none: ask with `Accept: text/csv`"
            )
        schema = resolved.model.schema
        inputs, texts = await in_heavy_thread(request, decode_table_and_texts, schema, body, app.body_limits)
        arrays = await app.batcher.submit(resolved.model, inputs, options)
        return await in_heavy_thread(request, encode, resolved, arrays, options, media_type, texts)
    if not is_array:
        inputs = await in_heavy_thread(request, decode_table, resolved.model.schema, body, app.body_limits)
    else:
        inputs = await app.batcher.run(len(body), resolved.model.rows.encode_matrix, read_npy(body))
    return await _predict(request, app, resolved, inputs, options, media_type)


async def _predict(
    request: Request,
    app: Services,
    resolved: ResolvedModel,
    inputs: FloatArray,
    options: PredictOptions,
    media_type: str,
) -> Response:
    await count_rows(request, app, resolved.name, len(inputs))
    arrays = await app.batcher.submit(resolved.model, inputs, options)
    app.metrics.predicted(resolved.name, arrays)
    return await app.batcher.run(ROW_BYTES * len(inputs), encode, resolved, arrays, options, media_type)


def _decode_rows(decoder: RowDecoder, asked: PredictRequest) -> FloatArray:
    """The rows of a JSON body as (m, p)."""
    rows, columns = given(asked.rows), given(asked.columns)
    if rows is not None and columns is None:
        return decoder.decode_rows(rows)
    if columns is not None and rows is None:
        return decoder.decode_columns(columns)
    raise InvalidRequestError("expected the rows as one of `rows` and `columns`, not both and not neither")


def _options(asked: PredictRequest) -> PredictOptions:
    levels: tuple[float, ...] | None = None
    if isinstance(asked.interval, list):
        levels = tuple(asked.interval)
    elif asked.interval is True:
        raise InvalidRequestError("interval: expected a number, a list of numbers or false, got true")
    elif isinstance(asked.interval, float):
        levels = (asked.interval,)
    return predict_options(
        levels,
        tuple(asked.quantiles or ()),
        frozenset(asked.include or ()),
        asked.interval is False,
        not isinstance(asked.interval, list),
    )


@lru_cache(maxsize=1024)
def _read_query(query_string: bytes) -> tuple[str, PredictOptions, bool]:
    """Reference of the model, options, and whether the table is wanted back. Clients repeat their queries."""
    query = QueryParams(query_string)
    known = ("model", "interval", "quantiles", "include", "table")
    unknown = sorted(set(query) - set(known))
    if unknown:
        raise InvalidRequestError(f"unknown query parameter {unknown[0]!r}; known are {', '.join(known)}")
    if len(query.getlist("model")) > 1:
        raise InvalidRequestError(f"the model is named {len(query.getlist('model'))} times in the query: name one")
    if not query.get("model"):
        raise InvalidRequestError("there is no model: name it in the query, as in /predict?model=cars")
    mean_only = _words(query.getlist("interval")) == ["false"]
    levels = () if mean_only else _numbers("interval", query.getlist("interval"))
    if "interval" in query and not levels and not mean_only:
        raise InvalidRequestError("interval: expected a number, got nothing")
    quantiles = _numbers("quantiles", query.getlist("quantiles"))
    include = frozenset(_words(query.getlist("include")))
    with_table = query.get("table", "false")
    if with_table not in ("true", "false"):
        raise InvalidRequestError(f"table: expected true or false, got {with_table!r}")
    options = predict_options(levels or None, quantiles, include, mean_only, len(levels) <= 1)
    return query["model"], options, with_table == "true"


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
