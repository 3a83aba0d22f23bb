"""`/help`: the documentation for people, made from Markdown when a page is first asked for.

Every address in it is relative and its policy that of the page, so that it works behind a prefix and loads nothing from
another host.
"""

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from app.errors import NotFoundError
from app.help.contents import CITATION, FOLDER, read
from app.help.pages import page_html, sections
from app.routes.http.services import in_thread
from app.routes.page import HEADERS

_PICTURES = Path(__file__).parents[1] / "demo"
_FILES = {"help.css": FOLDER, "help.js": FOLDER, "flights.svg": _PICTURES}


async def start(_: Request) -> Response:
    """Lead to the first page, from whose address all others are relative."""
    return RedirectResponse("help/", headers=HEADERS)


async def page(request: Request) -> Response:
    """Answer with a page, or a file that pages load. NotFoundError for another name."""
    name = request.path_params.get("page", "")
    if name in _FILES:
        return FileResponse(_FILES[name] / name, headers=HEADERS)
    if name == "sections.json":
        return Response(await in_thread(_sections), media_type="application/json", headers=HEADERS)
    if name == CITATION:
        return Response(read(CITATION, f"deploy/{CITATION}"), media_type="text/yaml; charset=utf-8", headers=HEADERS)
    document = await in_thread(page_html, name)
    if document is None:
        raise NotFoundError(f"the help has no page {name!r}; it begins at /help")
    return HTMLResponse(document, headers=HEADERS)


@lru_cache(maxsize=1)
def _sections() -> bytes:
    return json.dumps([asdict(section) for section in sections()], ensure_ascii=False).encode()


routes = [
    Route("/help", start, methods=["GET"], include_in_schema=False),
    Route("/help/", page, methods=["GET"], include_in_schema=False),
    Route("/help/{page}", page, methods=["GET"], include_in_schema=False),
]
