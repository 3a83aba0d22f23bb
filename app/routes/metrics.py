"""`GET /metrics`, for Prometheus."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.routes.http.services import in_thread, services

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    summary="Measures for Prometheus",
    responses={
        200: {
            "description": "Prometheus' text format, or OpenMetrics if `Accept` asks for it.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        }
    },
)
async def metrics(request: Request) -> Response:
    """Counts and histograms of all processes of this machine, and the queue as it is now."""
    text, media_type = await in_thread(services(request).metrics.page, request.headers.get("accept", ""))
    return Response(text, headers={"content-type": media_type})
