"""Every route of the application has a scope, and what is public is what is meant to be."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from app.main import create_app
from app.routes.http.access import ACCESS, PUBLIC, access_of
from app.settings import Settings


def routes(found: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Method and path of every route of a router."""
    for route in found:
        included = getattr(route, "original_router", None)  # of FastAPI since 0.130
        if included is not None:
            yield from routes(included.routes)
            continue
        if isinstance(route, Mount) and isinstance(route.app, StaticFiles):
            files = [file for folder in route.app.all_directories for file in Path(folder).iterdir() if file.is_file()]
            assert len(files) > 1
            yield from (("GET", f"{route.path}/{file.name}") for file in files)
            continue
        assert isinstance(route, Route | APIRoute), f"{route}: neither other mounts nor sockets are known to the guard"
        for method in route.methods or ():
            yield method, route.path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    found = set(routes(create_app(Settings(data_dir=tmp_path_factory.mktemp("routes"))).router.routes))
    assert ("POST", "/predict") in found
    assert ("GET", "/v2/models/{name}/versions/{version}/ready") in found
    return found


def test_every_route_has_a_scope(served: set[tuple[str, str]]) -> None:
    for method, path in served:
        access = access_of(re.sub(r"\{.*?\}", "x", path))
        assert access is not None, f"{path} is not in the table"
        assert ("GET" if method == "HEAD" else method) in access.scopes, f"{method} {path} is not in the table"


def test_the_table_has_no_more_than_there_is(served: set[tuple[str, str]]) -> None:
    known = served | {("GET", f"{path.rpartition('/')[0]}/{{file}}") for _, path in served}
    assert {(method, path) for path, scopes in ACCESS.items() for method in scopes} <= known


def test_only_these_are_public() -> None:
    public = {path for path, scopes in ACCESS.items() for scope in scopes.values() if scope is PUBLIC}
    assert {path for path in public if not path.startswith(("/docs", "/page/", "/health/", "/v2/health/"))} == {
        "/",
        "/help",
        "/help/",
        "/help/{page}",
        "/openapi.json",
    }


def test_whoever_changes_or_deletes_models_is_an_administrator() -> None:
    for path, scopes in ACCESS.items():
        if path.startswith("/models"):
            assert {scope for method, scope in scopes.items() if method in {"PUT", "DELETE"}} <= {"admin"}, path


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/models/cars", "cars"),
        ("/models/cars/versions/3", "cars"),
        ("/v2/models/cars@3/infer", "cars"),
        ("/v2/models/cars/versions/3/infer", "cars"),
        ("/jobs/job_1", None),
    ],
)
def test_the_model_of_a_path(path: str, model: str | None) -> None:
    access = access_of(path)
    assert access is not None
    assert access.model_of(path) == model


@pytest.mark.parametrize(
    "path", ["", "/models/", "/models//versions/3", "/Models", "//models", "/models/a/b", "/docs/"]
)
def test_other_addresses_are_in_no_table(path: str) -> None:
    assert access_of(path) is None
