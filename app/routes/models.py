"""`/models`: list, look, promote, roll back, download, delete."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.identifiers import LARGEST_VERSION
from app.routes.http.answers import json_answer, problems
from app.routes.http.bodies import JSON, expect_media_type, stream_body
from app.routes.http.callers import caller_of
from app.routes.http.content_encoding import read_json
from app.routes.http.fields import (
    AliasPath,
    AliasText,
    JobIdText,
    Limit,
    ModelName,
    ModelVersion,
    Moment,
    NameCursor,
    NextCursor,
    VersionCursor,
    VersionNumber,
)
from app.routes.http.fields import NamePath as Name
from app.routes.http.fields import NumberPath as Number
from app.routes.http.fields import TargetQuery as Target
from app.routes.http.services import in_heavy_thread, in_reader_thread, in_thread, services
from app.routes.http.uploads import receive_file, temporary_upload
from app.services.decoding import decode
from app.services.export.forms import Form
from app.storage.artefact import HIDDEN, TARGET_NAMES, ModelArtefact
from app.storage.blobs import digest_of
from app.storage.catalog import LATEST, Model, Version
from app.tables import Schema
from app.times import rfc3339

router = APIRouter(tags=["models"])

ARTEFACT = "application/octet-stream"

Basis = Annotated[bool, Query(description="false: without the basis vectors, their rows and gains, which may be long.")]
FormQuery = Annotated[
    Form,
    Query(
        alias="format",
        description="`safetensors`: what `POST ../versions` imports. `onnx`: an ONNX model (float64, opset 17), its "
        "inputs described in its metadata. `numpy`: a zip of predict.py and model.npz.",
    ),
]
Level = Annotated[
    float | None, Query(gt=0.0, lt=1.0, description="Level of `lower` and `upper` of onnx and numpy, 0.95 by default.")
]
ExportedTarget = Annotated[
    str | None, Query(description="One of several targets, for onnx and numpy; by default all of them (onnx alone).")
]
Force = Annotated[bool, Query(description="Delete even what an alias points at, and the alias with it.")]


class VersionBody(BaseModel):
    """A published version in a list."""

    version: ModelVersion
    created_at: Moment = Field(description="When it was published.")
    size_bytes: int = Field(description="Bytes of the artefact.")
    sha256: str = Field(description="SHA-256 of the artefact, checked whenever it is loaded.", pattern="^[0-9a-f]{64}$")
    quarantined_at: Moment | None = Field(
        description="When its stored file was found damaged or lost; until that is whole again, aliases of the version "
        "mean the newest good one before it. Null for a good one."
    )
    job: JobIdText | None = Field(description="Null for an imported one.")
    aliases: list[AliasText] = Field(description="Aliases that point at it.")
    summary: dict[str, Any] = Field(
        description="Rows, basis size, target and scores; of an update `scores_of`: version whose training they are of."
    )


class ModelBody(BaseModel):
    """A model in a list."""

    name: ModelName
    created_at: Moment = Field(description="When its first version was published.")
    latest: VersionNumber = Field(description="Number of the newest version.")
    versions: int = Field(description="How many versions there are.")
    aliases: dict[AliasText, VersionNumber] = Field(description="Versions by alias.")
    trained_at: Moment = Field(description="When the newest version was published.")
    summary: dict[str, Any] = Field(description="Of the newest version: rows, basis size, target and scores.")


class ModelsBody(BaseModel):
    """A page of models, by name."""

    models: list[ModelBody] = Field(description="Models of this page.")
    next_cursor: NextCursor


class ModelVersionsBody(BaseModel):
    """A model and a page of its versions, the newest first."""

    name: ModelName
    created_at: Moment = Field(description="When its first version was published.")
    latest: VersionNumber = Field(description="Number of the newest version.")
    aliases: dict[AliasText, VersionNumber] = Field(description="Versions by alias.")
    versions: list[VersionBody] = Field(description="Versions of this page.")
    next_cursor: NextCursor


class VersionDetailBody(VersionBody):
    """Details of a version."""

    model: ModelName
    target: str = Field(description="Column that is predicted; of several the one that is asked for.")
    targets: list[str] = Field(description="All that it predicts; `?target=` is whom the rest is about.")
    features: list[dict[str, Any]] = Field(description="Columns it is predicted from, with how each is read.")
    spec: dict[str, Any] = Field(description="What was asked for, every field with its default.")
    hyperparameters: dict[str, Any] = Field(description="In standardized units; lengthscales by column.")
    basis: list[list[float]] | None = Field(
        None, description="(d, p): basis vectors in raw units; categories as 0 and 1."
    )
    basis_columns: list[str] = Field(description="(p,): names of the columns of `basis`.")
    basis_rows: list[int] | None = Field(
        None, description="(d,): 0-based row numbers of the upload, in the order chosen."
    )
    mean_rows: int = Field(description="Rows that the mean rests on: the basis vectors, or more rows (`mean_rows`).")
    moved: bool = Field(description="The basis vectors moved on (`refine`): each only started from its row.")
    artefact: dict[str, Any] | None = Field(
        description="What is kept of the model: kind, bytes, mean_rows, the precision it predicts in; of a compact one "
        "its size, the largest error of an error bar on the training rows and its certified bound. Null for an "
        "older one."
    )
    gains: list[float | None] | None = Field(
        None, description="(d,): what the criterion said of each; null for a method without."
    )
    calibration: dict[str, Any] = Field(
        description="Factors of the two parts of the variance; quantiles of the standardized error, from how many rows."
    )
    target_transform: dict[str, Any] = Field(description="What the target was learnt as, and with which numbers.")
    report: dict[str, Any] = Field(description="Report of the training.")


class AliasBody(BaseModel):
    """An alias and its version."""

    model: ModelName
    alias: AliasText = Field(description="Name of the alias.")
    version: ModelVersion


class AliasRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `PUT /models/{name}/aliases/{alias}`."""

    version: int | float


_ALIAS_REQUEST = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["version"],
                    "additionalProperties": False,
                    "properties": {
                        "version": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": LARGEST_VERSION,
                            "description": "Number of the version that it is to mean.",
                        }
                    },
                },
                "example": {"version": 2},
            }
        },
    }
}


_ARTEFACT_REQUEST = {
    "requestBody": {
        "required": True,
        "content": {ARTEFACT: {"schema": {"type": "string", "format": "binary", "description": "A safetensors file."}}},
    }
}


@router.get(
    "/models", response_class=Response, summary="List models", responses={200: {"model": ModelsBody}, **problems(422)}
)
async def list_models(request: Request, limit: Limit = 50, cursor: NameCursor = None) -> Response:
    """List models by name; `next_cursor` is null on the last page."""
    found, following = await in_thread(
        services(request).models.page, limit=limit, cursor=cursor, only=caller_of(request).models
    )
    models = [
        _model_json(model)
        | {
            "versions": model.versions,
            "trained_at": rfc3339(model.newest.created_at),
            "summary": model.newest.summary,
        }
        for model in found
    ]
    return json_answer({"models": models, "next_cursor": following})


@router.get(
    "/models/{name}",
    response_class=Response,
    summary="A model and its versions",
    responses={200: {"model": ModelVersionsBody}, **problems(404, 422)},
)
async def get_model(request: Request, name: Name, limit: Limit = 50, cursor: VersionCursor = None) -> Response:
    """Get its aliases, and its versions with the newest first."""
    model, versions, following = await in_thread(services(request).models.get, name, limit=limit, cursor=cursor)
    body = _model_json(model) | {"versions": [_version_json(version) for version in versions]}
    return json_answer(body | {"next_cursor": following})


@router.delete(
    "/models/{name}", status_code=204, response_class=Response, summary="Delete a model", responses=problems(404, 409)
)
async def delete_model(request: Request, name: Name, force: Force = False) -> Response:
    """Delete it; 409 where an alias other than `latest` points at one, unless forced. A training that is under
    way publishes its version nevertheless: cancel it first."""
    await in_thread(services(request).models.delete_model, name, force=force, caller=caller_of(request))
    return Response(status_code=204)


@router.get(
    "/models/{name}/versions/{version}",
    response_class=Response,
    summary="All about a version",
    responses={200: {"model": VersionDetailBody}, **problems(404, 422)},
)
async def get_version(
    request: Request, name: Name, version: Number, basis: Basis = True, target: Target = None
) -> Response:
    """Hyperparameters, lengthscales by column, the basis and how it was chosen, the training's report."""
    return await in_heavy_thread(
        request, lambda: _detail(*services(request).models.version(name, version, target), basis=basis)
    )


@router.post(
    "/models/{name}/versions",
    status_code=201,
    response_class=Response,
    summary="Import a version",
    responses={201: {"model": VersionDetailBody}, **problems(400, 408, 413, 415, 422)},
    openapi_extra=_ARTEFACT_REQUEST,
)
async def import_version(request: Request, name: Name) -> Response:
    """Publish an artefact, as `GET ../artefact` gives it, as the next version of a model, which may be new. Every
    tensor's shape, type and value and every field of its description is checked; a refusal names what is wrong."""
    expect_media_type(request, ARTEFACT)
    app = services(request)
    settings = app.settings
    pieces = stream_body(
        request, settings.max_artefact_bytes, "PURSUIT_MAX_ARTEFACT_BYTES", seconds=settings.max_upload_seconds
    )
    with temporary_upload(app.scratch.path) as file:
        path = await receive_file(pieces, file)
        version, model = await in_reader_thread(request, app.imports.add, name, path, caller=caller_of(request))
    answer = await in_heavy_thread(request, _detail, version, model)
    answer.status_code = 201
    answer.headers["Location"] = f"/models/{version.model}/versions/{version.version}"
    return answer


@router.delete(
    "/models/{name}/versions/{version}",
    status_code=204,
    response_class=Response,
    summary="Delete a version",
    responses=problems(404, 409, 422),
)
async def delete_version(request: Request, name: Name, version: Number, force: Force = False) -> Response:
    """Delete it. Its number is never used again; 409 where an alias other than `latest` points at it, unless forced."""
    await in_thread(services(request).models.delete_version, name, version, force=force, caller=caller_of(request))
    return Response(status_code=204)


@router.get(
    "/models/{name}/versions/{version}/artefact",
    response_class=Response,
    summary="Download a version",
    responses={
        200: {"description": "The model as a file.", "content": {ARTEFACT: {}, "application/zip": {}}},
        **problems(404, 422),
    },
)
async def get_artefact(
    request: Request,
    name: Name,
    version: Number,
    form: FormQuery = Form.SAFETENSORS,
    interval: Level = None,
    target: Target = None,
) -> Response:
    """The model itself: arrays and one JSON document, nothing in it can run. Or as a model of ONNX, or as a script and
    its arrays for numpy alone, which predict mean, std, lower and upper without a server."""
    found, data = await in_heavy_thread(
        request, services(request).models.exported, name, version, form, interval, target
    )
    headers = {"Content-Disposition": f'attachment; filename="{found.model}-{found.version}{form.suffix}"'}
    return Response(data, media_type=form.media_type, headers=headers)


@router.put(
    "/models/{name}/aliases/{alias}",
    response_class=Response,
    summary="Point an alias at a version",
    responses={200: {"model": AliasBody}, **problems(400, 404, 408, 413, 415, 422)},
    openapi_extra=_ALIAS_REQUEST,
)
async def put_alias(request: Request, name: Name, alias: AliasPath) -> Response:
    """Promote or roll back: `champion` is what the plain name then means."""
    expect_media_type(request, JSON)
    body = decode(await read_json(request, services(request).settings.max_body_bytes), AliasRequest)
    if body.version != int(body.version) or not 1 <= body.version <= LARGEST_VERSION:
        raise InvalidRequestError(f"version: expected a whole number from 1, got {body.version}")
    version = int(body.version)  # JSON does not tell 2 from 2.0
    found = await in_thread(services(request).models.put_alias, name, alias, version, caller=caller_of(request))
    return json_answer({"model": found.model, "alias": alias, "version": found.version})


@router.delete(
    "/models/{name}/aliases/{alias}",
    status_code=204,
    response_class=Response,
    summary="Remove an alias",
    responses=problems(404, 409),
)
async def delete_alias(request: Request, name: Name, alias: AliasPath) -> Response:
    """The version it points at stays."""
    await in_thread(services(request).models.delete_alias, name, alias, caller=caller_of(request))
    return Response(status_code=204)


def _model_json(model: Model) -> dict[str, object]:
    return {
        "name": model.name,
        "created_at": rfc3339(model.created_at),
        "latest": model.aliases[LATEST],
        "aliases": model.aliases,
    }


def _version_json(version: Version) -> dict[str, object]:
    return {
        "version": version.version,
        "created_at": rfc3339(version.created_at),
        "size_bytes": version.size,
        "sha256": digest_of(version.artefact),
        "quarantined_at": rfc3339(version.quarantined_at),
        "job": version.job_id,
        "aliases": version.aliases,
        "summary": version.summary,
    }


def _detail(version: Version, model: ModelArtefact, basis: bool = True) -> Response:
    return json_answer(
        _version_json(version)
        | {
            "model": version.model,
            "target": model.schema["target"],
            "targets": model.report.get(TARGET_NAMES, [model.schema["target"]]),
            "features": model.schema["features"],
            "spec": model.spec,
            "hyperparameters": model.hyperparameters,
            "basis_columns": model.basis_columns,
            "mean_rows": model.mean_rows,
            "moved": model.report["moved"],
            "artefact": model.report.get("artefact"),
            "calibration": model.calibration.to_json(),
            "target_transform": model.transform.to_json(),
            "report": {name: part for name, part in model.report.items() if name not in HIDDEN},
        }
        | (_basis(model) if basis else {})
    )


def _basis(model: ModelArtefact) -> dict[str, Any]:
    return {
        "basis": model.posterior.basis + Schema.from_json(model.schema).offsets,
        "basis_rows": model.basis_rows,
        "gains": model.gains,
    }
