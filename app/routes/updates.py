"""`POST /models/{name}/update`: new rows for a model, a job out."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Request
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
from app.services.train.updates import MOST_EXTRA_BASIS, MOST_FORGOTTEN

router = APIRouter(tags=["training"])

Name = Annotated[
    str,
    Path(
        description="Model to update: its latest version, or `name@3`, `name@alias`.",
        json_schema_extra={"pattern": REFERENCE},
    ),
]

_SPEC: dict[str, Any] = {
    "description": "What to change; every field is optional.",
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {
        "extra_basis": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": MOST_EXTRA_BASIS,
            "default": 0,
            "description": "Basis vectors to add from the new rows: those that the basis explains least.",
        },
        "forget": {
            "type": ["array", "null"],
            "items": {"type": "integer", "minimum": 0},
            "maxItems": MOST_FORGOTTEN,
            "default": [],
            "description": "Numbers of rows to forget: 0-based, of the upload that was trained on, and of rows that "
            "updates brought those after them, in order.",
        },
    },
}
_REQUEST: dict[str, Any] = {
    "parameters": [KEY],
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": {"type": "object", "required": ["file"], "properties": {"file": FILE, "spec": _SPEC}},
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
                    },
                    "anyOf": [{"required": ["columns"]}, {"required": ["rows"]}, {"required": ["dataset"]}],
                },
                "example": {"rows": [{"x": 0.25, "y": 0.24}], "spec": {"extra_basis": 1}},
            },
        },
    },
}


@router.post(
    "/models/{name}/update",
    status_code=202,
    response_class=Response,
    summary="Update a model with new rows",
    responses={202: {"model": JobBody}, **problems(400, 404, 408, 409, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def update(request: Request, name: Name) -> Response:
    """Hyperparameters, units and basis vectors stay; sums, weights, error bars and their calibration are as if the rows
    had been there. A job, which publishes the next version; its `report.update.drift` says when a full training pays.
    Of several targets each learns the rows with a value of it, and every row has one of them; `report.targets` tells.
    409 while another update of the model is not done."""
    key, caller = idempotency_key(request), caller_of(request)
    app = services(request)
    if key is None:  # with one the job may be there already
        await in_thread(app.training.refuse_if_full, caller)
    refuse_fields(content_type(request))
    if expect_media_type(request, MULTIPART, JSON) == MULTIPART:
        async with uploaded(request) as upload:
            spec = spec_of(upload.fields.get("spec"))
            view = await in_reader_thread(
                request, app.updates.submit_file, name, upload.path, spec=spec, key=key, caller=caller
            )
    else:
        body = await read_json(request, app.settings.max_body_bytes)
        view = await in_reader_thread(request, _update_by_json, app, name, body, key, caller)
    return json_answer(job_json(view), 202, {"Location": f"/jobs/{view.job.id}"})


def _update_by_json(app: Services, name: str, body: bytes, key: str | None, caller: Caller) -> JobView:
    asked = read_request(body, app.settings.max_json_depth, "columns", "rows", "dataset")
    spec, updates = spec_of(asked.spec), app.updates
    if isinstance(asked.dataset, str):
        return updates.submit_dataset(name, asked.dataset, spec=spec, key=key, caller=caller)
    if isinstance(asked.columns, msgspec.Raw):
        return updates.submit_columns(name, columns_of(asked.columns), spec=spec, key=key, caller=caller)
    return updates.submit_rows(name, rows_of(asked.rows), spec=spec, key=key, caller=caller)
