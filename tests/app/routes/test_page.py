"""The page stands on its own: all it loads comes from this service, wherever that lies, and there is little of it."""

import re
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from app.routes.page import EXAMPLE, FOLDER
from tests.app.routes.service import Service

FILES = sorted(path for path in FOLDER.iterdir() if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]
IMPORTED = re.compile(r'(?:from|import) "\./([a-z]+\.js)"')
FIRST_VIEW_BYTES = 100_000
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}


def check_page(client: httpx.Client, prefix: str) -> None:
    """Get the page, and all that it loads by itself, as a browser resolves it."""
    page = client.get(f"{prefix}/", follow_redirects=False)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    names = set(re.findall(r'<(?:link|script|img)\b[^>]*?\b(?:href|src)="([^"]*)"', page.text))
    assert names == {"page/icon.svg", "page/style.css", "page/main.js"}
    for name in names:
        answer = client.get(urljoin(f"{prefix}/", name))
        assert answer.status_code == 200, name
        assert answer.headers["content-type"].startswith(TYPES[Path(name).suffix])


def test_all_it_loads_is_there(empty: Service) -> None:
    check_page(empty.client, "")
    for path in FILES:
        answer = empty.client.get(f"/page/{path.name}")
        assert (answer.status_code, answer.content) == (200, path.read_bytes())
        again = empty.client.get(f"/page/{path.name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert empty.client.get("/page/flights.csv").content == EXAMPLE.read_bytes()
    for gone in ("/page/", "/page/../routes/page.py", "/page/%2e%2e/main.py", "/page/none.js"):
        assert empty.client.get(gone).status_code == 404, gone


def test_its_policy_refuses_what_is_not_a_file_of_this_service(empty: Service) -> None:
    for place in ("/", "/page/main.js", "/page/style.css"):
        headers = empty.client.get(place).headers
        policy = {name: places for name, *places in map(str.split, headers["content-security-policy"].split(";"))}
        assert policy.pop("default-src") == policy.pop("base-uri") == ["'none'"]
        assert policy.pop("form-action") == policy.pop("frame-ancestors") == ["'none'"]
        assert policy == {f"{kind}-src": ["'self'"] for kind in ("script", "style", "img", "connect")}
        assert headers["x-content-type-options"] == "nosniff"


def test_nothing_stands_in_the_document_and_nothing_comes_from_elsewhere() -> None:
    document = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", document)
    for path in FILES:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert not re.search(r"https?://|[\"'(]//", text), path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path.name


def closure(start: str) -> set[str]:
    """Return the modules that one needs before it can run."""
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            text = (FOLDER / name).read_text(encoding="utf-8")
            waiting += IMPORTED.findall(re.sub(r'import\("[^"]*"\)', "", text))
    return found


def test_every_module_is_there_and_used() -> None:
    later = set(re.findall(r'import\("\./([a-z]+\.js)"\)', "".join(path.read_text() for path in MODULES)))
    reached = set().union(*map(closure, {"main.js", *later}))
    assert reached == {path.name for path in MODULES}


@pytest.mark.parametrize("view", ["home.js", "dataset.js", "job.js", "model.js"])
def test_a_first_view_is_small(view: str) -> None:
    modules = closure("main.js") | closure(view)
    modules |= closure("look.js") if view == "model.js" else set()
    size = sum((FOLDER / name).stat().st_size for name in {"index.html", "style.css", "icon.svg", *modules})
    assert size < FIRST_VIEW_BYTES - 40_000  # for what it asks: 20 models with their scores


def test_the_answers_of_a_first_view_are_small_too(service: Service) -> None:
    answer = service.client.get("/models?limit=20")
    assert len(answer.content) / len(answer.json()["models"]) < 2_000
    listed = {model["name"]: model for model in answer.json()["models"]}
    version = service.client.get("/models/waves").json()["versions"][0]
    assert listed["waves"]["summary"] == version["summary"]
    assert listed["waves"]["trained_at"] == version["created_at"]
