"""The page for people: one document and its modules, style and pictures, which ask the public API for all they show.

Every address in it is relative, so that it works behind a proxy that serves it under a prefix, whether or not the
prefix is taken off. Its policy refuses whatever is not a file of this service.
"""

from os import stat_result
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parents[1] / "page"
EXAMPLE = Path(__file__).parents[1] / "demo" / "flights.csv"

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # asked for again each time, by its ETag: a new release is seen at once
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


class _Files(StaticFiles):
    """Files of the page, with its headers."""

    def file_response(self, full_path: Any, stat_result: stat_result, scope: Any, status_code: int = 200) -> Response:
        """Answer with a file, or 304 where the client has it."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        return response


_FILES = _Files(directory=FOLDER)


async def index(_: Request) -> Response:
    """Answer with the document."""
    return FileResponse(FOLDER / "index.html", headers=HEADERS)


async def file(request: Request) -> Response:
    """Answer with a file of the page; the server itself refuses paths that lead out of its folder."""
    return await _FILES.get_response(request.path_params["file"], request.scope)


async def example(_: Request) -> Response:
    """Answer with the table that the page offers for a first try."""
    return FileResponse(EXAMPLE, media_type="text/csv", headers=HEADERS)


routes = [
    Route("/", index, methods=["GET"], include_in_schema=False),
    Route("/page/flights.csv", example, methods=["GET"], include_in_schema=False),
    Route("/page/{file}", file, methods=["GET"], include_in_schema=False),
]
