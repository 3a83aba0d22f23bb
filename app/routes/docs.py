"""The documentation of every address, for people: Swagger UI over /openapi.json, without another host.

Its files are SmartBear's, Apache 2.0, from npm (swagger-ui-dist 5.35.0) as they came; licence and checksums lie beside
them in `app/swagger_ui`. All links are relative to the page, so that it works
behind a proxy that serves it under a prefix, whether or not the prefix is taken off.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pursuit API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="documentation"><noscript>Without JavaScript: <a href="openapi.json">openapi.json</a></noscript></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""

START = """"use strict";
async function start() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`openapi.json: ${answer.status} ${answer.statusText}`);
  const document = await answer.json();
  const prefix = location.pathname.replace(/\\/docs$/, "");
  if (prefix && !document.servers) document.servers = [{url: prefix}];
  SwaggerUIBundle({
    spec: document,
    dom_id: "#documentation",
    deepLinking: true,
    showExtensions: true,
    showCommonExtensions: true,
    validatorUrl: null,
  });
}
start().catch((error) => {
  document.getElementById("documentation").textContent = String(error);
});
"""

_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Swagger UI has style attributes and pictures in its style sheet; what it asks for is this service.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_KEPT = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
FOLDER = Path(__file__).parents[1] / "swagger_ui"
_TYPES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}


async def page(_: Request) -> Response:
    """Answer with the page."""
    return HTMLResponse(PAGE, headers=_HEADERS)


async def start(_: Request) -> Response:
    """Answer with the script that builds the page: a script inside of it would be refused by its policy."""
    return Response(START, media_type="text/javascript", headers={"x-content-type-options": "nosniff"})


async def asset(request: Request) -> Response:
    """Answer with a file of Swagger UI."""
    name = request.url.path.rpartition("/")[2]
    return FileResponse(FOLDER / name, media_type=_TYPES[name], headers=_KEPT)


routes = [
    Route("/docs", page, methods=["GET"], include_in_schema=False),
    Route("/docs/start.js", start, methods=["GET"], include_in_schema=False),
    *(Route(f"/docs/{name}", asset, methods=["GET"], include_in_schema=False) for name in _TYPES),
]
