"""The table of errors is complete, and a bug says nothing but where to look."""

import asyncio
import logging

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

import app.errors
import core.errors
from app.errors import Fault, InvalidRequestError
from app.main import create_app
from app.routes.http.bodies import read_body
from app.routes.http.errors import STATUS, install, internal_error, refuse, status_of
from app.routes.http.middleware import RequestContext, Shortcut
from app.settings import Settings
from app.telemetry.measures import Measures
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import Service
from tests.processes import wait_until


def classes(base: type[Exception]) -> list[type[Exception]]:
    return [base, *(found for child in base.__subclasses__() for found in classes(child))]


@pytest.mark.parametrize("base", [app.errors.PursuitError, core.errors.CoreError])
def test_every_error_has_a_status(base: type[Exception]) -> None:
    for error in classes(base)[1:]:
        assert any(issubclass(error, known) for known in STATUS), error


def test_status_of_a_subclass_is_its_nearest_base() -> None:
    assert status_of(core.errors.TooFewRowsError(1))[0] == 422
    assert status_of(core.errors.NotPositiveDefiniteError("Kuu", 3, 1e-6))[0] == 500
    assert status_of(ValueError())[0] == 500


def request() -> Request:
    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [], "query_string": b"", "server": ("a", 1)}
    return Request(scope | {"scheme": "http", "state": {"request_id": "abc"}})


def test_a_bug_is_told_by_its_request_id_only() -> None:
    answer = asyncio.run(internal_error(request(), ValueError("the secret")))
    assert answer.status_code == 500
    assert b"secret" not in answer.body
    assert b"abc" in answer.body


@pytest.mark.parametrize("path", ["/predict", "/slow"])
def test_a_bug_is_answered_where_it_is_and_raised_for_the_log(path: str) -> None:
    """The short way to the busiest routes answers as the long one does."""

    async def broken(_: Request) -> Response:
        raise ValueError("the secret")

    api = FastAPI()
    api.router.routes.append(Route("/slow", broken))
    install(api)
    hot = {"/predict": broken}
    shortcut = Shortcut(api.build_middleware_stack(), hot=lambda _, path: hot.get(path))
    stack = RequestContext(shortcut, Measures(), {})

    def ask(*, raising: bool) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(stack, raise_app_exceptions=raising)
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                return await client.get(path, headers={"x-request-id": "abc"})

        return asyncio.run(ask())

    answer = ask(raising=False)
    assert_problem(answer, 500, "abc")
    assert answer.headers.get_list("x-request-id") == ["abc"]
    assert "secret" not in answer.text
    with pytest.raises(ValueError, match="the secret"):
        ask(raising=True)


def test_who_leaves_while_a_body_comes_is_no_bug() -> None:
    async def reading(request: Request) -> Response:
        return Response(await read_body(request, 10))

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    asyncio.run(Shortcut(FastAPI(), hot=lambda *_: reading)(dict(request().scope), gone, send))
    assert [message.get("status") for message in sent] == [499, None], "for the log: the server drops it"


def test_faults_leave_out_what_is_not_known() -> None:
    error = InvalidRequestError("no", [Fault(message="bad", column="x")], total=40)
    answer = asyncio.run(refuse(request(), error))
    assert b'"errors":[{"message":"bad","column":"x"}],"error_count":40' in answer.body


def test_request_ids(service: Service) -> None:
    given = service.client.get("/health/live", headers={"x-request-id": "my-id.1"})
    assert given.headers.get_list("x-request-id") == ["my-id.1"]
    odd = service.client.get("/health/live", headers={"x-request-id": "a b\tc"}).headers["x-request-id"]
    assert odd.isalnum()
    assert service.client.get("/none").headers["x-request-id"]


def test_each_request_is_one_line(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="app.access"):
        service.client.get("/models", headers={"x-request-id": "one"})
        service.client.get("/health/live")
        service.client.get("/models/none")
        wait_until(lambda: sum(record.name == "app.access" for record in caplog.records) == 2)  # after the answer
    lines = [(record.message, vars(record)["status"]) for record in caplog.records if record.name == "app.access"]
    assert lines == [("GET /models", 200), ("GET /models/none", 404)]


def test_an_application_opens_nothing_before_it_serves(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cold") / "data"
    create_app(Settings(data_dir=folder))
    assert not folder.exists()
