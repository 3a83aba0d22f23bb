"""`POST /train`: a table and a specification in, a job out."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.answers import json_answer, problems
from app.routes.bodies import JSON, MULTIPART, expect_media_type, read_body, stream_body
from app.routes.jobs import JobBody, job_json
from app.routes.state import Services, in_heavy_thread, services
from app.routes.uploads import landing_place, receive_upload
from app.services.decoding import decode, decode_any
from app.services.jobs import JobView

router = APIRouter(tags=["training"])

_LONGEST_KEY = 255

_SPEC = {"$ref": "#/components/schemas/SpecBody"}
_CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
_REQUEST = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "maxLength": _LONGEST_KEY},
            "description": "The same key gives the same job, however often the request is sent.",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "CSV with a header line (comma, tab or semicolon; UTF-8; plain or gzip).",
                        },
                        "spec": _SPEC,
                    },
                },
                "encoding": {"spec": {"contentType": JSON}},
            },
            JSON: {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "columns": {"type": "object", "additionalProperties": {"type": "array", "items": _CELL}},
                        "rows": {"type": "array", "items": {"type": "object", "additionalProperties": _CELL}},
                        "spec": _SPEC,
                    },
                    "oneOf": [{"required": ["columns"]}, {"required": ["rows"]}],
                },
                "example": {
                    "columns": {"x": [0.0, 0.5, 1.0], "y": [0.0, 0.48, 0.84]},
                    "spec": {"model": "sine", "target": "y"},
                },
            },
        },
    },
}


class TrainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body: one of `columns` and `rows`, and the specification."""

    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@router.post(
    "/train",
    status_code=202,
    response_class=Response,
    summary="Train a model",
    responses={202: {"model": JobBody}, **problems(400, 409, 413, 415, 422, 503)},
    openapi_extra=_REQUEST,
)
async def train(request: Request) -> Response:
    """Checks table and specification, queues the training and answers with the job; `Location` is its address."""
    key = _idempotency_key(request)
    serving = services(request)
    if expect_media_type(request, MULTIPART, JSON) == MULTIPART:
        view = await _train_on_file(request, serving, key)
    else:
        body = await read_body(request, serving.settings.max_body_bytes)
        view = await in_heavy_thread(request, _train_on_json, serving, body, key)
    return json_answer(job_json(view), 202, {"Location": f"/jobs/{view.job.id}"})


async def _train_on_file(request: Request, serving: Services, key: str | None) -> JobView:
    settings = serving.settings
    pieces = stream_body(request, settings.max_upload_bytes, "PURSUIT_MAX_UPLOAD_BYTES")
    with landing_place(settings.uploads) as file:
        upload = await receive_upload(request.headers["content-type"], pieces, file)
        spec: Any = {} if not upload.spec or not upload.spec.strip() else decode_any(upload.spec, where="spec")
        return await in_heavy_thread(
            request, serving.training.submit_file, upload.path, filename=upload.filename, spec=spec, key=key
        )


def _train_on_json(serving: Services, body: bytes, key: str | None) -> JobView:
    asked = decode(body, TrainRequest)
    spec: Any = {} if isinstance(asked.spec, msgspec.UnsetType) else decode_any(asked.spec, where="spec")
    given = [name for name in ("columns", "rows") if getattr(asked, name) is not msgspec.UNSET]
    if len(given) != 1:
        got = " and ".join(given) or "neither"
        raise InvalidRequestError(f"expected the table as one of `columns` and `rows`, got {got}")
    if isinstance(asked.columns, msgspec.Raw):
        columns = decode_any(asked.columns, where="columns")
        if not isinstance(columns, dict) or not all(isinstance(cells, list) for cells in columns.values()):
            raise InvalidRequestError("columns: expected an object of lists of cells by column name")
        return serving.training.submit_columns(columns, spec=spec, key=key)
    rows = decode_any(asked.rows, where="rows") if isinstance(asked.rows, msgspec.Raw) else None
    if not isinstance(rows, list):
        raise InvalidRequestError("rows: expected a list of objects by column name")
    return serving.training.submit_rows(rows, spec=spec, key=key)


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise InvalidRequestError(f"Idempotency-Key: expected 1 to {_LONGEST_KEY} printable characters")
    return key
