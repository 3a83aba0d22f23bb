"""Routes that tell whether the process is alive, and whether it can do its work."""

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.routes.http.answers import json_answer, problems
from app.routes.http.services import services
from app.services.version import describe

router = APIRouter(tags=["health"])


class LiveBody(BaseModel):
    """Answer of a running process."""

    status: Literal["live"] = Field(description="Always `live`.")


class ReadyBody(BaseModel):
    """Answer of a process that can work."""

    status: Literal["ready"] = Field(description="Always `ready`.")
    quarantined: list[str] = Field(
        description="Versions whose stored artefacts were found damaged, 20 at most: their aliases mean older ones."
    )


@router.get("/health/live", response_class=Response, summary="The process runs", responses={200: {"model": LiveBody}})
async def live() -> Response:
    """200 as long as the process answers at all; touches nothing else."""
    return json_answer({"status": "live"})


@router.get(
    "/health/ready",
    response_class=Response,
    summary="It can work",
    responses={200: {"model": ReadyBody}, **problems()},
)
async def ready(request: Request) -> Response:
    """200 if the database answers with this version's schema or a newer one, the artefact store can be written, and
    every model that an alias means loads here and predicts its stored probe row as it did when it was trained.

    Looked at again where the last good look is half a second old; a look that takes long leaves the last one's word
    standing for ten seconds.
    """
    readiness = services(request).readiness
    await readiness.check()
    return json_answer({"status": "ready", "quarantined": readiness.quarantined})


class VersionBody(BaseModel):
    """Versions of what runs here."""

    version: str = Field(description="Version of the package.")
    api_revision: int = Field(description="Raised when the API changes in what clients rely on.")
    artefact_format: int = Field(description="Newest format of stored models that is read here; all before it are too.")
    schema_revision: str = Field(description="Revision of the database's schema that this version needs.")
    commit: str | None = Field(description="Commit that it was built from, where the build said it.")


@router.get("/version", response_class=Response, summary="What runs here", responses={200: {"model": VersionBody}})
async def version(request: Request) -> Response:
    """Versions of the package, its API, its artefacts and its schema."""
    return json_answer(describe(services(request).settings.commit))
