"""Is the process alive, and can it do its work?"""

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.routes.http.answers import json_answer, problems
from app.routes.http.services import services

router = APIRouter(tags=["health"])


class LiveBody(BaseModel):
    """Answer of a running process."""

    status: Literal["live"]


class ReadyBody(BaseModel):
    """Answer of a process that can work."""

    status: Literal["ready"]
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
    """200 if the database answers with this version's schema or a newer one and the artefact store can be written.

    Looked at again where the last good look is half a second old; a look that takes long leaves the last one's word
    standing for ten seconds.
    """
    readiness = services(request).readiness
    await readiness.check()
    return json_answer({"status": "ready", "quarantined": readiness.quarantined})
