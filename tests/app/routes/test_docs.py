"""The documentation page stands on its own: all it loads comes from this service, wherever that lies."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from app.main import create_app
from app.routes.docs import START
from app.settings import Settings
from tests.app.routes.service import Service
from tests.app.routes.test_page import check_page as check_front_page
from tests.processes import wait_until

TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


def loaded(html: str) -> list[str]:
    """Return what a browser asks for, all by itself."""
    return re.findall(r'<(?:link|script|img)\b[^>]*?\b(?:href|src)="([^"]*)"', html)


def check_page(client: httpx.Client, prefix: str) -> None:
    """Follow the front page's link to the documentation, and get all that it loads."""
    check_front_page(client, prefix)
    front = client.get(f"{prefix}/")
    (link,) = set(re.findall(r'href="(docs[^"]*)"', front.text))
    place = urljoin(f"{prefix}/", link)
    page = client.get(place)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "//" not in page.text
    assert not re.search(r"<script>|<style|\bon\w+=", page.text)  # its policy refuses what stands in the page
    names = loaded(page.text)
    assert names.pop(0) == "data:,"
    assert len(names) == 3
    for name in names:
        answer = client.get(urljoin(place, name))
        assert answer.status_code == 200, name
        assert answer.headers["content-type"] == TYPES[name.rpartition(".")[2]]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert len(answer.content) == int(answer.headers["content-length"])
    (document,) = re.findall(r'fetch\("([^"]+)"\)', START)
    assert client.get(urljoin(place, document)).json()["info"]["title"] == "Pursuit"


def test_all_it_loads_is_there(empty: Service) -> None:
    check_page(empty.client, "")
    for gone in ("/redoc", "/docs/oauth2-redirect", "/docs/redoc.standalone.js", "/docs/../routes/docs.py"):
        assert empty.client.get(gone).status_code == 404


def test_it_is_what_its_names_say(empty: Service) -> None:
    assert "SwaggerUIBundle=" in empty.client.get("/docs/swagger-ui-bundle.js").text.replace(" ", "")
    assert ".swagger-ui" in empty.client.get("/docs/swagger-ui.css").text


def test_the_policy_names_no_other_host_and_no_script_of_the_page(empty: Service) -> None:
    told = empty.client.get("/docs").headers["content-security-policy"]
    policy = {name: places for name, *places in (part.split() for part in told.split(";"))}
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["connect-src"] == ["'self'"]
    assert not any("http" in place or "*" in place for places in policy.values() for place in places)


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[httpx.Client]:
    """The application under two prefixes: /told, which it is told of, and /cut, which the proxy takes off."""
    inner = create_app(Settings(data_dir=tmp_path))

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        prefix, _, path = scope["path"].removeprefix("/").partition("/")
        here = {"root_path": "/told"} if prefix == "told" else {"path": f"/{path}"}
        await inner({**scope, **here}, receive, send)

    server = uvicorn.Server(uvicorn.Config(proxy, port=0, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def test_it_works_under_a_prefix(behind: httpx.Client) -> None:
    check_page(behind, "/told")
    check_page(behind, "/cut")
    assert behind.get("/told/openapi.json").json()["servers"] == [{"url": "/told"}]
