"""`POST /train`: a table and a specification in, a job out."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from app.routes.http.answers import STRICT_JSON, json_answer, problems
from app.routes.http.bodies import JSON, MULTIPART, content_type, expect_media_type
from app.routes.http.callers import caller_of
from app.routes.http.content_encoding import read_json
from app.routes.http.fields import DATASET_ID, REFERENCE
from app.routes.http.services import Services, in_reader_thread, in_thread, services
from app.routes.http.table_requests import (
    COLUMNS,
    FILE,
    KEY,
    ROWS,
    columns_of,
    idempotency_key,
    read_request,
    rows_of,
    spec_of,
    uploaded,
)
from app.routes.http.uploads import refuse_fields
from app.routes.job_body import JobBody, job_json
from app.services.jobs import JobView
from app.services.keys.caller import Caller

router = APIRouter(tags=["training"])

_SPEC = {"$ref": "#/components/schemas/SpecBody", "description": "How to train; every field is optional."}
_FROM = {
    "type": ["string", "null"],
    "pattern": REFERENCE,
    "description": "`name`, `name@3` or `name@alias` of a model to begin at: its hyperparameters and kernel, by the "
    "names of columns, in place of a search for a start, and its basis vectors where their rows are in the table. Of "
    "several targets each begins at that of its name, else at the model's first.",
}
_REQUEST: dict[str, Any] = {
    "parameters": [KEY],
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": FILE, "spec": _SPEC, "from": _FROM},
                },
                "encoding": {"spec": {"contentType": JSON}},
            },
            JSON: {
                "schema": {
                    "type": "object",
                    "description": STRICT_JSON,
                    "additionalProperties": False,
                    "properties": {
                        "columns": COLUMNS,
                        "rows": ROWS,
                        "dataset": {
                            "type": ["string", "null"],
                            "pattern": DATASET_ID,
                            "description": "Id of a dataset uploaded before.",
                        },
                        "spec": _SPEC,
                        "from": _FROM,
                    },
                    "anyOf": [{"required": ["columns"]}, {"required": ["rows"]}, {"required": ["dataset"]}],
                },
                "example": {
                    "columns": {"x": [0.0, 0.5, 1.0], "y": [0.0, 0.48, 0.84]},
                    "spec": {"model": "sine", "target": "y"},
                },
            },
        },
    },
}


@router.post(
    "/train",
    status_code=202,
    response_class=Response,
    summary="Train a model",
    responses={202: {"model": JobBody}, **problems(400, 404, 408, 409, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def train(request: Request) -> Response:
    """Checks table and specification, queues the training and answers with the job; `Location` is its address."""
    key, caller = idempotency_key(request), caller_of(request)
    app = services(request)
    if key is None:  # with one the job may be there already
        await in_thread(app.training.refuse_if_full, caller)
    refuse_fields(content_type(request))
    if expect_media_type(request, MULTIPART, JSON) == MULTIPART:
        async with uploaded(request, ("spec", "from")) as upload:
            origin = upload.fields.get("from")
            spec = _with_origin(spec_of(upload.fields.get("spec")), None if origin is None else origin.decode())
            view = await in_reader_thread(
                request,
                app.training.submit_file,
                upload.path,
                filename=upload.filename,
                spec=spec,
                key=key,
                caller=caller,
            )
    else:
        body = await read_json(request, app.settings.max_body_bytes)
        view = await in_reader_thread(request, _train_on_json, app, body, key, caller)
    return json_answer(job_json(view), 202, {"Location": f"/jobs/{view.job.id}"})


def _train_on_json(app: Services, body: bytes, key: str | None, caller: Caller) -> JobView:
    asked = read_request(body, app.settings.max_json_depth, "columns", "rows", "dataset", "from")
    spec = _with_origin(spec_of(asked.spec), asked.origin if isinstance(asked.origin, str) else None)
    if isinstance(asked.dataset, str):
        return app.training.submit_dataset(asked.dataset, spec=spec, key=key, caller=caller)
    if isinstance(asked.columns, msgspec.Raw):
        return app.training.submit_columns(columns_of(asked.columns), spec=spec, key=key, caller=caller)
    return app.training.submit_rows(rows_of(asked.rows), spec=spec, key=key, caller=caller)


def _with_origin(spec: Any, origin: str | None) -> Any:
    """The specification with the model to begin from, where it is one."""
    return {**spec, "from": origin} if origin and isinstance(spec, dict) else spec
