"""`POST /predict`, the hot path: raw body in, bytes out, no model of the rows in between.

It is a plain Starlette route (FastAPI's costs 35 us more a request) with its part of the OpenAPI document written by
hand. `app.services.predict.batching` decides what runs in the event loop and what in its thread; files of tables are
read in threads of their own.
"""

from collections.abc import Iterable
from functools import lru_cache, partial
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import InvalidRequestError, TooLargeError
from app.routes.encode import TYPED, KeptForFeedback, encode, negotiate
from app.routes.http.answers import json_answer
from app.routes.http.bodies import JSON, MULTIPART, NPY, TABLES, content_type, expect_media_type, header, read_body
from app.routes.http.callers import caller_of, check_model, count_rows
from app.routes.http.content_encoding import read_json
from app.routes.http.services import Services, in_heavy_thread, in_thread, services
from app.routes.http.table_requests import idempotency_key, uploaded
from app.routes.http.uploads import refuse_fields
from app.routes.job_body import job_json
from app.routes.predict_files import answer_file, received, small_limits, written
from app.routes.predict_joint import answer_joint, refuse_tolerance
from app.services.decoding import decode, given
from app.services.keys.caller import KeyScope
from app.services.keys.key_ring import check_scope
from app.services.monitoring.kept_predictions import check_kept, with_interval
from app.services.predict.batching import ROW_BYTES
from app.services.predict.joint import SAMPLES, Aggregate, JointOptions, Over, joint_options
from app.services.predict.kept_cells import kept_cells
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.npy import NPY as NPY_MAGIC
from app.services.predict.npy import read_npy
from app.services.predict.options import Keep, OnError, PredictOptions, predict_options, word_of
from app.services.predict.registry import ResolvedModel
from app.services.predict.row_decoder import DecodedRows, RowDecoder
from app.services.predict.table_parts import PartOptions, TablePart, matrix_part, read_part
from core.arrays import FloatArray

SMALL_BYTES = 4 << 20
"""Larger files are not held in memory."""

_WORDS = ("on_error", "keep", "keep_for_feedback", "aggregate", "over", "samples", "seed")
QUERY = ("model", "interval", "quantiles", "include", *_WORDS)
"""Options of a file's prediction: parameters of the query, or parts of a form."""


_SINGLE_ROWS = "keep, keep_for_feedback: these go with the rows one by one; leave out aggregate and samples"


class PredictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body: a model's reference, one of `rows`, `columns` and `dataset`, and its options. null is as if left
    out."""

    model: str
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    interval: float | list[float] | bool | msgspec.UnsetType | None = msgspec.UNSET
    quantiles: list[float] | msgspec.UnsetType | None = msgspec.UNSET
    include: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    on_error: str | msgspec.UnsetType | None = msgspec.UNSET
    dataset: str | msgspec.UnsetType | None = msgspec.UNSET
    keep: str | msgspec.UnsetType | None = msgspec.UNSET
    aggregate: str | msgspec.UnsetType | None = msgspec.UNSET
    over: str | msgspec.UnsetType | None = msgspec.UNSET
    samples: int | msgspec.UnsetType | None = msgspec.UNSET
    seed: int | msgspec.UnsetType | None = msgspec.UNSET
    keep_for_feedback: bool | msgspec.UnsetType | None = msgspec.UNSET


async def answer(request: Request) -> Response:
    """Answer with the predictive mean and interval for every row of the body."""
    if content_type(request) != JSON:
        refuse_fields(content_type(request))
        form = expect_media_type(request, JSON, MULTIPART, *TABLES) == MULTIPART
        return await (_answer_form(request) if form else _answer_file(request))
    if request.scope["query_string"]:
        raise InvalidRequestError("a JSON request has no query parameters: put model, interval and include in the body")
    app = services(request)
    body = await read_json(request, app.settings.max_body_bytes)
    asked = await app.batcher.run(len(body), decode, body, PredictRequest)
    check_model(request, asked.model)
    if asked.dataset:
        return await _answer_dataset(request, app, asked)
    resolved = await app.registry.resolve(asked.model)
    request.scope["state"]["model"] = resolved.reference
    media_type = negotiate(header(request, b"accept", "*/*"))
    options, joint = _options(asked), _joint_options(asked)
    if joint is not None:
        refuse_tolerance(options)
        if asked.keep or asked.keep_for_feedback:
            raise InvalidRequestError(_SINGLE_ROWS)
        inputs = await app.batcher.run(len(body), _decode_rows, resolved.model.rows, asked)
        return await answer_joint(request, app, resolved, inputs, options, joint, media_type)
    if options.on_error is OnError.NULL or asked.keep or asked.keep_for_feedback:
        part = await app.batcher.run(len(body), _decode_part, resolved.model, asked, options, media_type)
        return await _predict(
            request, app, resolved, part, options, media_type, keep_for_feedback=bool(asked.keep_for_feedback)
        )
    inputs = await app.batcher.run(len(body), _decode_rows, resolved.model.rows, asked)
    await count_rows(request, app, resolved.name, len(inputs))
    arrays = await app.batcher.submit(resolved.model, inputs, options)
    app.metrics.predicted(resolved.name, arrays)
    app.monitor.observe(resolved, inputs, arrays)
    return await app.batcher.run(ROW_BYTES * len(inputs), encode, resolved, arrays, options, media_type)


async def _answer_file(request: Request) -> Response:
    reference, options, keep, joint, feedback = _read_query(request.scope["query_string"])
    media_type = negotiate(header(request, b"accept", "*/*"))
    announced = header(request, b"content-length")
    app = services(request)
    part_options = _part_options(options, keep, media_type)
    if announced.isdigit() and int(announced) <= SMALL_BYTES:
        body = await read_body(request, app.settings.max_upload_bytes, "PURSUIT_MAX_UPLOAD_BYTES")
    else:
        async with received(request) as path:
            if path.stat().st_size > SMALL_BYTES:
                _refuse_joint(joint)
                resolved = await _resolve(request, app, reference)
                return await answer_file(request, path, resolved, options, part_options, media_type, feedback)
            body = path.read_bytes()
    resolved = await _resolve(request, app, reference)
    return await _answer_small(request, body, resolved, options, part_options, media_type, joint, feedback)


async def _answer_form(request: Request) -> Response:
    """A form with the table as its part `file`, as `curl -F` and pages send it, options as further parts or in the
    query."""
    app = services(request)
    media_type = negotiate(header(request, b"accept", "*/*"))
    async with uploaded(request, QUERY) as upload:
        fields = [(name, value.decode(errors="replace")) for name, value in upload.fields.items()]
        query = [*QueryParams(request.scope["query_string"]).multi_items(), *fields]
        reference, options, keep, joint, feedback = _read_query(urlencode(query).encode())
        part_options = _part_options(options, keep, media_type)
        resolved = await _resolve(request, app, reference)
        if upload.path.stat().st_size > SMALL_BYTES:
            _refuse_joint(joint)
            return await answer_file(request, upload.path, resolved, options, part_options, media_type, feedback)
        body = upload.path.read_bytes()
    return await _answer_small(request, body, resolved, options, part_options, media_type, joint, feedback)


async def _answer_small(
    request: Request,
    body: bytes,
    resolved: ResolvedModel,
    options: PredictOptions,
    part_options: PartOptions,
    media_type: str,
    joint: JointOptions | None,
    feedback: bool,
) -> Response:
    app = services(request)
    if content_type(request) == NPY or body.startswith(NPY_MAGIC):
        rows = read_npy(body)
        decoded = await app.batcher.run(len(body), matrix_part, resolved.model, rows, part_options)
        part = TablePart(decoded=decoded)
        return await _predict(request, app, resolved, part, options, media_type, joint, keep_for_feedback=feedback)
    try:
        limits = small_limits(app.body_limits)
        part = await in_heavy_thread(request, read_part, resolved.model, body, limits, part_options)
    except TooLargeError:  # it unpacks to more than one part
        _refuse_joint(joint)
        async with written(request, body) as path:
            return await answer_file(request, path, resolved, options, part_options, media_type, feedback)
    return await _predict(request, app, resolved, part, options, media_type, joint, keep_for_feedback=feedback)


async def _resolve(request: Request, app: Services, reference: str) -> ResolvedModel:
    check_model(request, reference)
    resolved = await app.registry.resolve(reference)
    request.scope["state"]["model"] = resolved.reference
    return resolved


async def _predict(
    request: Request,
    app: Services,
    resolved: ResolvedModel,
    part: TablePart,
    options: PredictOptions,
    media_type: str,
    joint: JointOptions | None = None,
    *,
    keep_for_feedback: bool,
) -> Response:
    if joint is not None:
        return await answer_joint(request, app, resolved, part.decoded.inputs, options, joint, media_type, part.kept)
    if keep_for_feedback:
        check_kept(resolved.model, part.decoded.rows)
    await count_rows(request, app, resolved.name, part.decoded.rows)
    found = await app.batcher.submit(resolved.model, part.decoded.inputs, options)
    app.metrics.predicted(resolved.name, found)
    app.monitor.observe(resolved, part.decoded.inputs, found)
    arrays = part.decoded.spread(found)
    write = partial(encode, reason=part.decoded.reason, kept=part.kept)
    if keep_for_feedback:
        intervals = await with_interval(app.batcher, resolved.model, part.decoded.inputs, found, options)
        prediction = await app.keeper.keep(resolved, part.decoded.spread(intervals))
        write = partial(write, kept_for_feedback=KeptForFeedback(prediction))
    return await app.batcher.run(ROW_BYTES * part.decoded.rows, write, resolved, arrays, options, media_type)


async def _answer_dataset(request: Request, app: Services, asked: PredictRequest) -> Response:
    """Queue a job that predicts the rows of a dataset."""
    _refuse_joint(_joint_options(asked))
    assert asked.dataset  # the caller has looked
    if given(asked.rows) is not None or given(asked.columns) is not None:
        raise _not_one(several=True)
    keep = word_of(Keep, asked.keep, "keep") if asked.keep else Keep.OTHERS
    caller = caller_of(request)
    if caller.key is not None:
        check_scope(caller.key, KeyScope.TRAIN)  # who may not look at datasets may not have their columns copied
    options, key = _options(asked), idempotency_key(request)
    found = await in_thread(app.datasets.get, asked.dataset)
    resolved = await app.registry.resolve(asked.model)
    resolved.model.schema.check_names([column["name"] for column in found.profile["columns"]])
    feedback = bool(asked.keep_for_feedback)
    if feedback:
        check_kept(resolved.model, found.rows)
    await count_rows(request, app, asked.model.partition("@")[0], found.rows)
    submit = partial(app.dataset_predictions.submit, keep_for_feedback=feedback, key=key, caller=caller)
    view = await in_thread(submit, asked.model, found.id, options, keep)
    if feedback:
        app.keeper.expect(resolved.model, found.rows)
    return json_answer(job_json(view), 202, {"Location": f"/jobs/{view.job.id}"})


def _part_options(options: PredictOptions, keep: Keep | None, media_type: str) -> PartOptions:
    """keep: what the query asks for; by default what is neither input nor target goes into files, where there is room
    for text."""
    if keep is None:
        keep = Keep.NONE if media_type in (JSON, NPY) else Keep.OTHERS
    elif keep is not Keep.NONE and media_type == NPY:
        raise InvalidRequestError("keep: npy has no place for columns of text; ask for another form of the answer")
    return PartOptions(on_error=options.on_error, keep=keep, typed=media_type in TYPED)


def _decode_rows(decoder: RowDecoder, asked: PredictRequest) -> FloatArray:
    """The rows of a JSON body as (m, p)."""
    rows, columns = given(asked.rows), given(asked.columns)
    if rows is not None and columns is None:
        return decoder.decode_rows(rows)
    if columns is not None and rows is None:
        return decoder.decode_columns(columns)
    raise _not_one(several=rows is not None)


def _decode_part(model: LoadedModel, asked: PredictRequest, options: PredictOptions, media_type: str) -> TablePart:
    """The rows of a JSON body with the columns that are kept, without those that cannot be read if that is asked."""
    keep = _part_options(options, word_of(Keep, asked.keep, "keep") if asked.keep else Keep.NONE, media_type).keep
    if options.on_error is OnError.REFUSE:
        decoded = DecodedRows.of(_decode_rows(model.rows, asked))
    else:
        decoded = _decode_tolerantly(model.rows, asked)
    if keep is Keep.NONE:
        return TablePart(decoded=decoded)
    rows, columns = given(asked.rows), given(asked.columns)
    kept = kept_cells(model.schema, rows or columns or msgspec.Raw(b"[]"), keep, columns=rows is None)
    return TablePart(decoded=decoded, kept=kept)


def _not_one(*, several: bool) -> InvalidRequestError:
    """Return the refusal of a body with several kinds of rows, or with none."""
    got = "several" if several else "none of them"
    return InvalidRequestError(f"expected the rows as one of `rows`, `columns` and `dataset`, got {got}")


def _decode_tolerantly(decoder: RowDecoder, asked: PredictRequest) -> DecodedRows:
    rows, columns = given(asked.rows), given(asked.columns)
    if rows is not None and columns is None:
        return decoder.decode_tolerantly(rows, columns=False)
    if columns is not None and rows is None:
        return decoder.decode_tolerantly(columns, columns=True)
    raise _not_one(several=rows is not None)


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
        frozenset(asked.include or ()) - {SAMPLES},
        asked.interval is False,
        not isinstance(asked.interval, list),
        word_of(OnError, asked.on_error, "on_error") if asked.on_error else OnError.REFUSE,
    )


def _joint_options(asked: PredictRequest) -> JointOptions | None:
    """Options about rows together, None where there are none."""
    aggregate = word_of(Aggregate, asked.aggregate, "aggregate") if asked.aggregate else None
    over = word_of(Over, asked.over, "over") if asked.over else Over.ROWS
    return joint_options(aggregate, _number(asked.samples), _number(asked.seed), frozenset(asked.include or ()), over)


def _number(value: int | msgspec.UnsetType | None) -> int | None:
    return None if isinstance(value, msgspec.UnsetType) else value


def _refuse_joint(joint: JointOptions | None) -> None:
    if joint is not None:
        raise InvalidRequestError(
            "aggregate and samples: the rows are predicted together, in one request of JSON or of a file of at most "
            f"{SMALL_BYTES >> 20} MiB"
        )


@lru_cache(maxsize=1024)
def _read_query(query_string: bytes) -> tuple[str, PredictOptions, Keep | None, JointOptions | None, bool]:
    """Reference of the model, options, columns that are kept, joint options, whether the prediction is kept."""
    query = QueryParams(query_string)
    unknown = sorted(set(query) - set(QUERY))
    if unknown:
        raise InvalidRequestError(f"unknown query parameter {unknown[0]!r}; known are {', '.join(QUERY)}")
    if len(query.getlist("model")) > 1:
        raise InvalidRequestError(f"the model is named {len(query.getlist('model'))} times in the query: name one")
    for name in _WORDS:
        if len(query.getlist(name)) > 1:
            raise InvalidRequestError(f"{name}: expected one value, got {len(query.getlist(name))}")
    if not query.get("model"):
        raise InvalidRequestError(
            "there is no model: name it in the query, as in /predict?model=cars, or as a part of the form"
        )
    mean_only = _words(query.getlist("interval")) == ["false"]
    levels = () if mean_only else _numbers("interval", query.getlist("interval"))
    if "interval" in query and not levels and not mean_only:
        raise InvalidRequestError("interval: expected a number, got nothing")
    quantiles = _numbers("quantiles", query.getlist("quantiles"))
    include = frozenset(_words(query.getlist("include")))
    on_error = word_of(OnError, query["on_error"], "on_error") if "on_error" in query else OnError.REFUSE
    keep = word_of(Keep, query["keep"], "keep") if "keep" in query else None
    aggregate = word_of(Aggregate, query["aggregate"], "aggregate") if "aggregate" in query else None
    over = word_of(Over, query["over"], "over") if "over" in query else Over.ROWS
    joint = joint_options(aggregate, _whole(query, "samples"), _whole(query, "seed"), include, over)
    include -= {SAMPLES}
    options = predict_options(levels or None, quantiles, include, mean_only, len(levels) <= 1, on_error)
    feedback = query.get("keep_for_feedback", "false")
    if feedback not in ("true", "false"):
        raise InvalidRequestError(f"keep_for_feedback: expected true or false, got {feedback[:80]!r}")
    if joint is not None and feedback == "true":
        raise InvalidRequestError(_SINGLE_ROWS)
    return query["model"], options, keep, joint, feedback == "true"


def _whole(query: QueryParams, name: str) -> int | None:
    """A whole number of the query, None where it is not there."""
    word = query.get(name)
    if word is None:
        return None
    if not (word.isascii() and word.isdigit() and len(word) < 20):
        raise InvalidRequestError(f"{name}: expected a whole number, got {word[:80]!r}")
    return int(word)


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
