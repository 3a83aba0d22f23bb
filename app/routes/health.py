"""Is the process alive, and can it do its work?"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.routes.answers import json_answer, problems
from app.routes.state import services

router = APIRouter(tags=["health"])


@router.get("/health/live", response_class=Response, summary="The process runs")
async def live() -> Response:
    """200 as long as the process answers at all; touches nothing else."""
    return json_answer({"status": "live"})


@router.get("/health/ready", response_class=Response, summary="It can work", responses=problems(503))
async def ready(request: Request) -> Response:
    """200 if the database answers with this version's schema or a newer one and the artefact store can be written.

    Looked at again where the last good look is half a second old; a look that takes long leaves the last one's word
    standing for ten seconds.
    """
    await services(request).readiness.check()
    return json_answer({"status": "ready"})
