"""`/v2`: the Open Inference Protocol, version 2 (KServe, MLServer, Triton), with the binary tensor data extension.

A model's outputs are tensors of doubles of shape [rows]: mean, std, lower, upper, and by request latent_std, median,
support and imputed. Who asks for the mean alone is spared the variance. Refusals are `{"error": ".."}`, in the words
and with the status of `/predict`. `infer` is as hot as that, and built as it is.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import InvalidRequestError, UnsupportedMediaError
from app.routes.http.answers import Bytes, json_answer
from app.routes.http.bodies import JSON, content_type, header
from app.routes.http.callers import count_rows
from app.routes.http.content_encoding import read_json
from app.routes.http.services import in_thread, services
from app.services.decoding import decode
from app.services.predict.array_names import of_target, target_of
from app.services.predict.batching import ROW_BYTES
from app.services.predict.options import EXTRAS, IMPUTED, INTERVAL, PredictOptions, predict_options
from app.services.predict.registry import ResolvedModel
from app.services.predict.row_notes import RowNotes
from app.services.predict.run import interval_bases
from app.services.predict.tensors import BYTES, ROWS, FlatTensor, InputTensor, bytes_tensor, read_tensors, to_inputs
from app.tables import Feature, Kind
from app.tables.read.strict_json import check_duplicate_keys
from core.arrays import FloatArray

BINARY = "application/octet-stream"
HEADER_LENGTH = "Inference-Header-Content-Length"
OUTPUTS = ("mean", "std", "lower", "upper")
"""The answer where nothing else is asked for."""
PLATFORM = "pursuit"

ONE_PASS_BYTES = 2 << 20
"""JSON up to this size is read in one go where it is numbers, in 5 ms; larger ones piece by piece."""

_header_length = HEADER_LENGTH.lower().encode()
_DATATYPES = {Kind.NUMBER: "FP64", Kind.BOOLEAN: "BOOL", Kind.DATE: BYTES, Kind.CATEGORY: BYTES}


class RequestParameters(msgspec.Struct, forbid_unknown_fields=True):
    """interval: probability that a new observation lies between `lower` and `upper`. The last four are for other
    servers, and sent by clients that know no better."""

    interval: float | None = None
    binary_data_output: bool | None = None
    content_type: Any = None
    headers: Any = None
    priority: Any = None
    timeout: Any = None


class OutputParameters(msgspec.Struct, forbid_unknown_fields=True):
    """binary_data: as bytes behind the JSON, or not; by default as the request says for all."""

    binary_data: bool | None = None
    content_type: Any = None


class RequestedOutput(msgspec.Struct, forbid_unknown_fields=True):
    """One of OUTPUTS and EXTRAS."""

    name: str
    parameters: OutputParameters | None = None


class InferRequest(msgspec.Struct):
    """The JSON of a request. Fields that are not of the protocol are ignored, as clients of other servers expect."""

    inputs: list[InputTensor]
    id: str | None = None
    parameters: RequestParameters | None = None
    outputs: list[RequestedOutput] | None = None


class _FlatRequest(InferRequest):
    """The commonest of them, which is read in one pass."""

    inputs: list[FlatTensor]  # type: ignore[assignment]  # mypy: a narrower list


_flat_request = msgspec.json.Decoder(_FlatRequest)
_TENSOR_FIELDS = 4  # name, shape, datatype and data


async def infer(request: Request) -> Response:
    """Predictions for tensors."""
    if content_type(request) not in (JSON, BINARY, ""):
        raise UnsupportedMediaError(f"send {JSON}, or {BINARY} with {HEADER_LENGTH}")
    app = services(request)
    body = await read_json(request, app.settings.max_body_bytes)
    length = _length(header(request, _header_length), len(body))
    resolved = await app.registry.resolve(_reference(request.scope["path"]))
    request.scope["state"]["model"] = resolved.reference
    asked, inputs = await app.batcher.run(len(body), _read, resolved, body, length)
    keys = _names(asked, resolved)
    names = tuple(dict.fromkeys(target_of(key)[0] for key in keys.values()))
    levels = _levels(asked, names)
    mean_only = levels is None and names == ("mean",)
    options = predict_options(levels, (), frozenset(names) & frozenset(EXTRAS), mean_only)
    await count_rows(request, app, resolved.name, len(inputs))
    arrays = await app.batcher.submit(resolved.model, inputs, options)
    app.metrics.predicted(resolved.name, arrays)
    app.monitor.observe(resolved, inputs, arrays)
    return await app.batcher.run(ROW_BYTES * len(inputs), _encode, resolved, asked, keys, arrays, options)


def _length(announced: str, size: int) -> int:
    """Length of the JSON in bytes."""
    if not announced:
        return size
    if not (announced.isascii() and announced.isdigit()) or int(announced) > size:
        raise InvalidRequestError(f"{HEADER_LENGTH}: expected at most {size}, the body's bytes, got {announced!r}")
    return int(announced)


@lru_cache(maxsize=1024)
def _reference(path: str) -> str:
    """`/v2/models/name[/versions/3]..` as `name[@3]`; an alias may stand for the number."""
    parts = path.split("/")
    return f"{parts[3]}@{parts[5]}" if parts[4:5] == ["versions"] else parts[3]


def _read(resolved: ResolvedModel, body: bytes, length: int) -> tuple[InferRequest, FloatArray]:
    asked = _decoded(body if length == len(body) else body[:length])
    if not asked.inputs:
        raise InvalidRequestError("inputs: expected at least one tensor")
    tensors = read_tensors(asked.inputs, body[length:])
    return asked, to_inputs(tensors, resolved.model.schema, resolved.model.rows)


def _decoded(body: bytes) -> InferRequest:
    if len(body) <= ONE_PASS_BYTES:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            asked = _flat_request.decode(body)
            if all(tensor.fit for tensor in asked.inputs):
                others = sum(one is not None for one in (asked.id, asked.parameters, asked.outputs))
                check_duplicate_keys(body, 1 + others + _TENSOR_FIELDS * len(asked.inputs))
                return asked
    return decode(body, InferRequest)


def _names(asked: InferRequest, resolved: ResolvedModel) -> dict[str, str]:
    """The outputs in the order asked for, and the arrays that they are."""
    if not asked.outputs:
        return _outputs(resolved, OUTPUTS[:1] if resolved.model.predictor.mean_only else OUTPUTS)
    known = _outputs(resolved, OUTPUTS + EXTRAS)
    names = tuple(output.name for output in asked.outputs)
    for name in names:
        if name not in known:
            raise InvalidRequestError(f"outputs: expected {', '.join(known)}, got {name!r}")
    if len(set(names)) < len(names):
        raise InvalidRequestError(f"outputs: each name once, got {', '.join(names)}")
    return {name: known[name] for name in names}


def _outputs(resolved: ResolvedModel, names: tuple[str, ...]) -> dict[str, str]:
    """Outputs by name and the arrays that they are: `mean`, or with several targets `y1.mean`."""
    model = resolved.model
    if model.others is None:
        return {name: name for name in names}
    return {
        name if name == IMPUTED else f"{target}.{name}": name if name == IMPUTED else of_target(name, place)
        for place, target in enumerate(model.schema.targets)
        for name in names
    }


def _levels(asked: InferRequest, names: tuple[str, ...]) -> tuple[float, ...] | None:
    """The level of the interval, if one is wanted; None where nothing needs the variance."""
    if "lower" in names or "upper" in names:
        given = None if asked.parameters is None else asked.parameters.interval
        return (INTERVAL if given is None else given,)
    return None if set(names) <= {"mean", IMPUTED} else ()


def _encode(
    resolved: ResolvedModel,
    asked: InferRequest,
    keys: dict[str, str],
    arrays: dict[str, FloatArray],
    options: PredictOptions,
) -> Response:
    all_binary = asked.parameters is not None and asked.parameters.binary_data_output is True
    chosen = {
        output.name: output.parameters.binary_data for output in asked.outputs or () if output.parameters is not None
    }
    outputs: list[dict[str, object]] = []
    behind: list[bytes] = []
    for name, key in keys.items():
        output: dict[str, object] = {"name": name, "datatype": "FP64", "shape": [len(arrays["mean"])]}
        binary = chosen.get(name)
        if all_binary if binary is None else binary:
            data = bytes_tensor(arrays[key])
            behind.append(data)
            output["parameters"] = {"binary_data_size": len(data)}
        else:
            output["data"] = arrays[key]
        outputs.append(output)
    content: dict[str, Any] = {"model_name": resolved.name, "model_version": str(resolved.version)}
    if asked.id is not None:
        content["id"] = asked.id
    if "lower" in arrays:
        basis = interval_bases(resolved.model, options)[0]
        content["parameters"] = {"interval": options.interval_levels[0], "interval_basis": basis}
    notes = RowNotes()
    notes.add(arrays)
    if sentence := notes.sentence():
        content["parameters"] = {**content.get("parameters", {}), "warnings": sentence}
    content["outputs"] = outputs
    head = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    if not behind:
        return Bytes(head, JSON)
    return Bytes(b"".join((head, *behind)), BINARY, {HEADER_LENGTH: str(len(head))})


async def server(request: Request) -> Response:
    """Answer with the server's name and the extensions of the protocol that it knows."""
    return json_answer({"name": "pursuit", "version": request.app.version, "extensions": ["binary_tensor_data"]})


async def live(_: Request) -> Response:
    """200 as long as the process answers."""
    return json_answer({"live": True})


async def ready(request: Request) -> Response:
    """Answer as `/health/ready` does."""
    await services(request).readiness.check()
    return json_answer({"ready": True})


async def model_ready(request: Request) -> Response:
    """200 once the model is in memory: asking for it loads it."""
    resolved = await services(request).registry.resolve(_reference(request.scope["path"]))
    return json_answer({"name": resolved.name, "ready": True})


async def model(request: Request) -> Response:
    """The model's versions, inputs and outputs."""
    app = services(request)
    resolved = await app.registry.resolve(_reference(request.scope["path"]))
    _, versions, _ = await in_thread(app.models.get, resolved.name, limit=500, cursor=None)
    schema = resolved.model.schema
    inputs: list[dict[str, object]]
    if schema.numeric_only:
        inputs = [
            {
                "name": ROWS,
                "datatype": "FP64",
                "shape": [-1, len(schema.names)],
                "parameters": {"columns": schema.names},
            }
        ]
    else:
        inputs = [{"name": feature.name, "datatype": _datatype(feature), "shape": [-1]} for feature in schema.used]
    names = ("mean",) if resolved.model.predictor.mean_only else OUTPUTS + EXTRAS
    content = {
        "name": resolved.name,
        "versions": [str(version.version) for version in versions],
        "platform": PLATFORM,
        "inputs": inputs,
        "outputs": [{"name": name, "datatype": "FP64", "shape": [-1]} for name in _outputs(resolved, names)],
    }
    return json_answer(content)


def _datatype(feature: Feature) -> str:
    """The tensor's type that holds every number of the column: integers that doubles round have a type of their own."""
    if feature.offset is None:
        return _DATATYPES[feature.kind]
    if -(2**63) <= feature.offset < 2**63:
        return "INT64"
    return "UINT64" if 0 <= feature.offset < 2**64 else BYTES


def is_infer(path: str) -> bool:
    """Return whether a POST to this path is for `infer`."""
    if not (path.startswith("/v2/models/") and path.endswith("/infer")):
        return False
    parts = path.split("/")
    return len(parts) == 5 or (len(parts) == 7 and parts[4] == "versions")


routes = [
    Route("/v2", server, methods=["GET"]),
    Route("/v2/health/live", live, methods=["GET"]),
    Route("/v2/health/ready", ready, methods=["GET"]),
    *(
        Route(f"/v2/models/{{name}}{version}{rest}", endpoint, methods=methods)
        for version in ("", "/versions/{version}")
        for rest, endpoint, methods in (
            ("", model, ["GET"]),
            ("/ready", model_ready, ["GET"]),
            ("/infer", infer, ["POST"]),
        )
    ),
]
