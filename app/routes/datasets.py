"""`/datasets`: a table in, its columns described; for training by its id."""

from copy import deepcopy
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.http.answers import STRICT_JSON, json_answer, problems
from app.routes.http.bodies import JSON, MULTIPART, expect_media_type
from app.routes.http.callers import caller_of
from app.routes.http.content_encoding import read_json
from app.routes.http.fields import DatasetCursor, DatasetIdText, Moment, NextCursor
from app.routes.http.fields import DatasetIdPath as Id
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
    uploaded,
)
from app.services.keys.caller import Caller
from app.storage.datasets import MAX_PAGE_SIZE, Dataset
from app.tables import AUTODETECT, ReadOptions
from app.times import rfc3339

router = APIRouter(tags=["datasets"])

Target = Annotated[
    Annotated[str, Field(json_schema_extra={"minLength": 1})] | None,
    Query(description="What the warnings are about; by default the last column."),
]
Decimal = Annotated[
    Literal[",", "."] | None, Query(description="Decimal mark of the numbers in text; by default as each column shows.")
]
Thousands = Annotated[
    Literal[",", ".", " ", "'", ""] | None,
    Query(description="What groups their digits by three, empty for nothing; by default as each column shows."),
]
Sheet = Annotated[
    str | None,
    Query(
        min_length=1, description="Sheet of an Excel workbook: its name, or its number from 1; by default the first."
    ),
]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="How many at most.")]

_REQUEST: dict[str, Any] = {
    "parameters": [KEY],
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {"schema": {"type": "object", "required": ["file"], "properties": {"file": FILE}}},
            JSON: {
                "schema": {
                    "type": "object",
                    "description": STRICT_JSON,
                    "additionalProperties": False,
                    "properties": {"columns": COLUMNS, "rows": ROWS},
                    "anyOf": [{"required": ["columns"]}, {"required": ["rows"]}],
                },
                "example": {"columns": {"x": [0.0, 0.5, 1.0], "y": [0.0, 0.48, 0.84]}},
            },
        },
    },
}
_LOCATION: dict[str, Any] = {
    "type": ["string", "null"],
    "description": "Folder of Parquet files with the same columns, s3://bucket/folder/ or an absolute path, below one "
    "that the operator allows (PURSUIT_DATASET_LOCATIONS). The files stay there and are read by ranges; in the order "
    "of their names they are one table.",
}
_ADDED: dict[str, Any] = deepcopy(_REQUEST)
_ADDED["requestBody"]["content"][JSON]["schema"]["properties"]["location"] = _LOCATION
_ADDED["requestBody"]["content"][JSON]["schema"]["anyOf"].append({"required": ["location"]})


class AddOptions(TypedDict):
    """Fields of a request beside its table."""

    target: str | None
    key: str | None
    options: ReadOptions
    caller: Caller


class DatasetBody(BaseModel):
    """A dataset in a list."""

    id: DatasetIdText = Field(description="Id of the dataset.")
    name: str = Field(description="Of the file.")
    created_at: Moment = Field(description="When it was uploaded.")
    rows: int = Field(description="How many rows it has.")
    size_bytes: int = Field(description="Bytes that it takes in the store.")


class DatasetDetailBody(DatasetBody):
    """A dataset with its columns."""

    target: str = Field(description="The column that the warnings are about.")
    columns: list[dict[str, Any]] = Field(
        description="Name, type, missing, distinct, the first cells, warnings; min, mean, max and a histogram, or the "
        "top texts and the number of levels."
    )
    warnings: list[str] = Field(description="What is to be looked at before training, in sentences.")
    location: str | None = Field(description="Folder of its files, where they are not in the store.")
    files: int | None = Field(description="How many they are.")
    location_bytes: int | None = Field(description="Bytes of them all.")


class DatasetsBody(BaseModel):
    """A page of datasets, the newest first."""

    datasets: list[DatasetBody] = Field(description="Datasets of this page.")
    next_cursor: NextCursor


@router.post(
    "/datasets",
    status_code=201,
    response_class=Response,
    summary="Upload a dataset",
    responses={201: {"model": DatasetDetailBody}, **problems(400, 408, 409, 413, 415, 422)},
    openapi_extra=_ADDED,
)
async def add(
    request: Request,
    target: Target = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    sheet: Sheet = None,
) -> Response:
    """Read the table, keep it, and describe its columns. To train on it: `{"dataset": "ds_..", "spec": {..}}`."""
    key = idempotency_key(request)
    if decimal is not None and decimal == thousands:
        raise InvalidRequestError(f"thousands: expected another sign than decimal; got {decimal!r} for both")
    app = services(request)
    add_options: AddOptions = {
        "target": target,
        "key": key,
        "options": ReadOptions(decimal=decimal, thousands=thousands, sheet=sheet),
        "caller": caller_of(request),
    }
    await in_thread(app.datasets.refuse_if_full, add_options["caller"])
    if expect_media_type(request, MULTIPART, JSON) == MULTIPART:
        async with uploaded(request) as upload:
            found = await in_reader_thread(
                request, app.datasets.add_file, upload.path, filename=upload.filename, **add_options
            )
    else:
        body = await read_json(request, app.settings.max_body_bytes)
        found = await in_reader_thread(request, _add_json, app, body, add_options)
    return json_answer(_detail(found), 201, {"Location": f"/datasets/{found.id}"})


def _add_json(app: Services, body: bytes, add_options: AddOptions) -> Dataset:
    asked = read_request(body, app.settings.max_json_depth, "columns", "rows", "location")
    if isinstance(asked.location, str):
        if add_options["options"] != AUTODETECT:
            raise InvalidRequestError("location: decimal, thousands and sheet are of uploads: Parquet has types")
        return app.datasets.add_location(
            asked.location, target=add_options["target"], key=add_options["key"], caller=add_options["caller"]
        )
    if isinstance(asked.columns, msgspec.Raw):
        return app.datasets.add_columns(columns_of(asked.columns), **add_options)
    return app.datasets.add_rows(rows_of(asked.rows), **add_options)


@router.post(
    "/datasets/{dataset}/rows",
    status_code=201,
    response_class=Response,
    summary="Append rows to a dataset",
    responses={201: {"model": DatasetDetailBody}, **problems(400, 404, 408, 409, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def append(request: Request, dataset: Id) -> Response:
    """Keep the dataset with these rows after its own, as a new dataset; both stay as they are. The rows have the same
    columns, in any order, and cells of the kinds that these have."""
    key, caller = idempotency_key(request), caller_of(request)
    app = services(request)
    await in_thread(app.datasets.refuse_if_full, caller)
    if expect_media_type(request, MULTIPART, JSON) == MULTIPART:
        async with uploaded(request, ()) as upload:
            found = await in_reader_thread(
                request, app.datasets.append_file, dataset, upload.path, key=key, caller=caller
            )
    else:
        body = await read_json(request, app.settings.max_body_bytes)
        found = await in_reader_thread(request, _append_json, app, dataset, body, key, caller)
    return json_answer(_detail(found), 201, {"Location": f"/datasets/{found.id}"})


def _append_json(app: Services, dataset: str, body: bytes, key: str | None, caller: Caller) -> Dataset:
    asked = read_request(body, app.settings.max_json_depth, "columns", "rows")
    if isinstance(asked.columns, msgspec.Raw):
        return app.datasets.append_columns(dataset, columns_of(asked.columns), key=key, caller=caller)
    return app.datasets.append_rows(dataset, rows_of(asked.rows), key=key, caller=caller)


@router.get(
    "/datasets",
    response_class=Response,
    summary="List datasets",
    responses={200: {"model": DatasetsBody}, **problems(422)},
)
async def list_datasets(request: Request, limit: Limit = 50, cursor: DatasetCursor = None) -> Response:
    """The newest first; `next_cursor` is null on the last page."""
    found, following = await in_thread(services(request).datasets.page, limit=limit, cursor=cursor)
    return json_answer({"datasets": [_json(dataset) for dataset in found], "next_cursor": following})


@router.get(
    "/datasets/{dataset}",
    response_class=Response,
    summary="A dataset and its columns",
    responses={200: {"model": DatasetDetailBody}, **problems(404)},
)
async def get(request: Request, dataset: Id) -> Response:
    """The dataset as it was read when it was uploaded."""
    return json_answer(_detail(await in_thread(services(request).datasets.get, dataset)))


@router.delete(
    "/datasets/{dataset}", status_code=204, response_class=Response, summary="Delete a dataset", responses=problems(404)
)
async def delete(request: Request, dataset: Id) -> Response:
    """Jobs that train on it go on, models trained on it stay."""
    await in_thread(services(request).datasets.delete, dataset, caller=caller_of(request))
    return Response(status_code=204)


def _json(dataset: Dataset) -> dict[str, Any]:
    return {
        "id": dataset.id,
        "name": dataset.name,
        "created_at": rfc3339(dataset.created_at),
        "rows": dataset.rows,
        "size_bytes": dataset.size,
    }


def _detail(dataset: Dataset) -> dict[str, Any]:
    more = {name: dataset.profile.get(name) for name in ("location", "files", "location_bytes")}
    return _json(dataset) | {name: dataset.profile[name] for name in ("target", "columns", "warnings")} | more
