"""Around every request, as plain ASGI (a BaseHTTPMiddleware costs four bare requests): its id and its log line, and a
shorter way to the routes that are asked most.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import PursuitError
from app.log import request_id
from app.routes.http.bodies import first_headers
from app.routes.http.body_budget import release
from app.routes.http.callers import KEY, ROUTE
from app.routes.http.errors import CLIENT_CLOSED_REQUEST, internal_error, refuse, stopping_response
from app.routes.http.request_ids import chosen_request_id
from app.telemetry.measures import UNMATCHED, Measures
from app.telemetry.tracing import Tracing
from core.errors import CoreError

log = logging.getLogger("app.access")

_HOT = ("/predict", "/health/", "/jobs/", "/v2/", "/metrics")
"""Paths that are asked often and say little: their successes are logged at debug level only."""


class RequestContext:
    """Adds to every answer an `X-Request-ID` (the client's own, if it is a harmless word), counts it, logs one line.

    templates: path of each route by its endpoint, which whoever finds the endpoint leaves in the scope.
    tracing: None where no traces are asked for.
    """

    tracing: Tracing | None = None

    def __init__(self, app: ASGIApp, measures: Measures, templates: Mapping[object, str]) -> None:
        self.app = app
        self._measures = measures
        self._templates = templates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif self.tracing is None:
            await self._answer(scope, receive, send)
        else:
            traceparent = first_headers(scope).get(b"traceparent")
            given = None if traceparent is None else traceparent.decode("latin-1")
            with self.tracing.request(scope["method"], given) as span:
                route, status = await self._answer(scope, receive, send)
                span.update_name(f"{scope['method']} {route}")
                span.set_attributes(
                    {
                        "http.request.method": scope["method"],
                        "http.route": route,
                        "http.response.status_code": status,
                        "pursuit.request_id": scope["state"]["request_id"],
                    }
                )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> tuple[str, int]:
        """Answer one request; return its route and status."""
        chosen = chosen_request_id(first_headers(scope))
        name = chosen.decode()
        scope.setdefault("state", {})["request_id"] = name
        token = request_id.set(name)
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", chosen)]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            if not status:  # what it has begun to say cannot be taken back
                await stopping_response(Request(scope))(scope, receive, send_with_id)
            raise
        finally:
            release(scope)
            status = status or 500
            seconds = time.perf_counter() - started
            route = self._templates.get(scope.get("endpoint")) or scope.get(ROUTE, UNMATCHED)
            self._measures.request(scope["method"], route, status, seconds)
            hot = status < 400 and scope["path"].startswith(_HOT)
            level = logging.DEBUG if hot else logging.INFO
            if log.isEnabledFor(level):
                fields: dict[str, object] = {"status": status, "ms": round(1e3 * seconds, 1)}
                if (model := scope["state"].get("model")) is not None:
                    fields["model"] = model
                if KEY in scope:
                    fields["key"] = scope[KEY].id
                log.log(level, "%s %s", scope["method"], scope["path"], extra=fields)
            request_id.reset(token)
        return route, status


def allow_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Let pages of these origins (`*`: of all) ask `app` from a browser. Keys come in a header, not in cookies."""
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
        allow_headers=[
            "Accept",
            "Authorization",
            "Content-Type",
            "Content-Encoding",
            "Idempotency-Key",
            "X-Request-ID",
        ],
        expose_headers=[
            "Location",
            "Retry-After",
            "X-Columns",
            "X-Interval-Basis",
            "X-Model",
            "X-Request-ID",
            "X-Warnings",
        ],
        max_age=600,
    )


class Shortcut:
    """Short way to the routes that `hot` knows by method and path, past Starlette's and FastAPI's layers.

    Refusals and bugs are answered as everywhere, and the latter left to the server to log.
    """

    def __init__(
        self, app: ASGIApp, hot: Callable[[str, str], Callable[[Request], Awaitable[Response]] | None]
    ) -> None:
        self.app = app
        self.hot = hot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.hot(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if answer is None:
            await self.app(scope, receive, send)
            return
        scope["endpoint"] = answer  # as a router leaves it
        request = Request(scope, receive, send)
        try:
            response = await answer(request)
        except (PursuitError, CoreError) as error:
            response = await refuse(request, error)
        except ClientDisconnect:
            response = Response(status_code=CLIENT_CLOSED_REQUEST)  # nobody is left to read it
        except Exception as error:
            await (await internal_error(request, error))(scope, receive, send)
            raise
        await response(scope, receive, send)
