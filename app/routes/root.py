"""The first page: whoever opens the address in a browser is led to what there is."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route


async def root(_: Request) -> Response:
    """Redirect to the documentation of every address."""
    return RedirectResponse("docs")  # relative: it may lie under a prefix


route = Route("/", root, methods=["GET"], include_in_schema=False)
