"""`/v2`: the Open Inference Protocol, version 2 (KServe, MLServer, Triton), with the binary tensor data extension.

A model's outputs are tensors of doubles of shape [rows]: mean, std, lower, upper, and by request latent_std, median and
support. Who asks for the mean alone is spared the variance. Refusals are `{"error": ".."}`, in the words and with the
status of `/predict`. `infer` is as hot as that, and built as it is.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import InvalidRequestError, UnsupportedMediaError
from app.routes.http.answers import Bytes, json_answer
from app.routes.http.bodies import JSON, header, media_type
from app.routes.http.content_encoding import read_json
from app.routes.http.services import in_thread, services
from app.routes.predict import ONE_PASS_BYTES, SMALL_BYTES, wish
from app.services.decoding import decode
from app.services.predict.batching import FEW_ROWS
from app.services.predict.registry import EXTRAS, INTERVAL, Answers, Served
from app.services.predict.tensors import BYTES, ROWS, FlatTensor, InputTensor, bytes_tensor, read_tensors, to_inputs
from app.tables import Feature, Kind
from app.tables.read.strict_json import check_duplicate_keys

BINARY = "application/octet-stream"
HEADER_LENGTH = "Inference-Header-Content-Length"
OUTPUTS = ("mean", "std", "lower", "upper")
"""What is answered where nothing else is asked for."""
PLATFORM = "pursuit"

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
    if media_type(request) not in (JSON, BINARY, ""):
        raise UnsupportedMediaError(f"send {JSON}, or {BINARY} with {HEADER_LENGTH}")
    serving = services(request)
    body = await read_json(request, serving.settings.max_body_bytes)
    length = _length(header(request, _header_length), len(body))
    served = await serving.predictions.find(_reference(request.scope["path"]))
    batcher = serving.batcher
    if len(body) <= SMALL_BYTES:
        asked, inputs = _read(served, body, length)
    else:
        asked, inputs = await batcher.run(_read, served, body, length)
    names = _names(asked, served)
    levels = _levels(asked, names)
    wanted = wish(levels, (), frozenset(names) & frozenset(EXTRAS), levels is None and names == ("mean",))
    found = await batcher.predict(served.model, inputs, wanted)
    if len(inputs) <= FEW_ROWS:
        return _shaped(served, asked, names, found)
    return await batcher.run(_shaped, served, asked, names, found)


def _length(announced: str, size: int) -> int:
    """How long the JSON is."""
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


def _read(served: Served, body: bytes, length: int) -> tuple[InferRequest, NDArray[np.float64]]:
    asked = _decoded(body if length == len(body) else body[:length])
    if not asked.inputs:
        raise InvalidRequestError("inputs: expected at least one tensor")
    tensors = read_tensors(asked.inputs, body[length:])
    return asked, to_inputs(tensors, served.model.schema, served.model.rows)


def _decoded(body: bytes) -> InferRequest:
    if len(body) <= ONE_PASS_BYTES:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            asked = _flat_request.decode(body)
            if all(tensor.fit for tensor in asked.inputs):
                others = sum(one is not None for one in (asked.id, asked.parameters, asked.outputs))
                check_duplicate_keys(body, 1 + others + _TENSOR_FIELDS * len(asked.inputs))
                return asked
    return decode(body, InferRequest)


def _names(asked: InferRequest, served: Served) -> tuple[str, ...]:
    """The outputs, in the order asked for."""
    if not asked.outputs:
        return OUTPUTS[:1] if served.model.predictor.mean_only else OUTPUTS
    names = tuple(output.name for output in asked.outputs)
    for name in names:
        if name not in OUTPUTS and name not in EXTRAS:
            raise InvalidRequestError(f"outputs: expected {', '.join(OUTPUTS + EXTRAS)}, got {name!r}")
    if len(set(names)) < len(names):
        raise InvalidRequestError(f"outputs: each name once, got {', '.join(names)}")
    return names


def _levels(asked: InferRequest, names: tuple[str, ...]) -> tuple[float, ...] | None:
    """The level of the interval, if one is wanted; None where nothing needs the variance."""
    if "lower" in names or "upper" in names:
        given = None if asked.parameters is None else asked.parameters.interval
        return (INTERVAL if given is None else given,)
    return None if names == ("mean",) else ()


def _shaped(served: Served, asked: InferRequest, names: tuple[str, ...], found: Answers) -> Response:
    arrays = found.extra | {"mean": found.mean}
    if found.std is not None:
        arrays["std"] = found.std
    if found.intervals:
        arrays["lower"], arrays["upper"] = found.intervals[0]
    all_binary = asked.parameters is not None and asked.parameters.binary_data_output is True
    chosen = {
        output.name: output.parameters.binary_data for output in asked.outputs or () if output.parameters is not None
    }
    outputs: list[dict[str, object]] = []
    behind: list[bytes] = []
    for name in names:
        output: dict[str, object] = {"name": name, "datatype": "FP64", "shape": [len(found.mean)]}
        binary = chosen.get(name)
        if all_binary if binary is None else binary:
            data = bytes_tensor(arrays[name])
            behind.append(data)
            output["parameters"] = {"binary_data_size": len(data)}
        else:
            output["data"] = arrays[name]
        outputs.append(output)
    content: dict[str, object] = {"model_name": served.name, "model_version": str(served.version)}
    if asked.id is not None:
        content["id"] = asked.id
    if found.levels:
        content["parameters"] = {"interval": found.levels[0]}
    content["outputs"] = outputs
    head = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    if not behind:
        return Bytes(head, JSON)
    return Bytes(b"".join((head, *behind)), BINARY, {HEADER_LENGTH: str(len(head))})


async def server(request: Request) -> Response:
    """Which server this is, and what of the protocol's extensions it knows."""
    return json_answer({"name": "pursuit", "version": request.app.version, "extensions": ["binary_tensor_data"]})


async def live(_: Request) -> Response:
    """200 as long as the process answers."""
    return json_answer({"live": True})


async def ready(request: Request) -> Response:
    """As `/health/ready`."""
    await services(request).readiness.check()
    return json_answer({"ready": True})


async def model_ready(request: Request) -> Response:
    """200 once the model is in memory: asking for it loads it."""
    served = await services(request).predictions.find(_reference(request.scope["path"]))
    return json_answer({"name": served.name, "ready": True})


async def model(request: Request) -> Response:
    """The model's versions, inputs and outputs."""
    serving = services(request)
    served = await serving.predictions.find(_reference(request.scope["path"]))
    _, versions, _ = await in_thread(serving.models.get, served.name, limit=500, cursor=None)
    schema = served.model.schema
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
    names = ("mean",) if served.model.predictor.mean_only else OUTPUTS + EXTRAS
    content = {
        "name": served.name,
        "versions": [str(version.version) for version in versions],
        "platform": PLATFORM,
        "inputs": inputs,
        "outputs": [{"name": name, "datatype": "FP64", "shape": [-1]} for name in names],
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
    """Whether a POST to this path is for `infer`."""
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
