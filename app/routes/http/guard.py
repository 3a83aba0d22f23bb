"""Guard before every route: its key, scope, model and limit; methods that it does not take; HEAD and OPTIONS.

Plain ASGI, and cheap: 8 us a request with a key, 2 without keys, and no look at the database.
"""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import NotFoundError, PursuitError, UnavailableError
from app.routes.http.access import ADMIN, MONITOR, Access, access_of
from app.routes.http.bodies import first_headers
from app.routes.http.callers import KEY, ROUTE
from app.routes.http.errors import METHOD_NOT_ALLOWED, nothing_here, problem, refuse
from app.routes.http.services import Services
from app.services.keys.caller import Caller
from app.services.keys.key_ring import check_scope
from app.services.keys.usage import READ
from app.storage.api_keys import ApiKey


class Guard:
    """Lets requests through to `app`; what it refuses never reaches it. guarded: keys are asked for."""

    def __init__(self, app: ASGIApp, *, guarded: bool = True) -> None:
        self.app = app
        self._guarded = guarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path, method = _route_path(scope), scope["method"]
        access = access_of(path)
        as_get = "GET" if method == "HEAD" else method
        if access is not None and as_get not in access.scopes:
            scope[ROUTE] = access.path
            await _other_method(scope, access)(scope, receive, send)
            return
        if self._guarded and (access is None or access.scopes[as_get] is not None):
            services: Services = scope["app"].state.services
            try:
                key = await _identify(services, scope, access, as_get)
                if key is not None:
                    scope[KEY] = key
                    if access is None and ADMIN not in key.scopes:
                        raise NotFoundError(nothing_here(scope))
                    await _check(key, path, access, as_get, services)
            except PursuitError as error:
                if access is not None:
                    scope[ROUTE] = access.path
                await (await refuse(Request(scope), error))(scope, receive, send)
                return
            if key is not None and as_get == "GET" and access is not None and access.model is not None:
                send = _counting(send, services, key, access.model_of(path) or "")
        if method == "HEAD":
            await self._head(scope, send)
            return
        await self.app(scope, receive, send)

    async def _head(self, scope: Scope, send: Send) -> None:
        """Answer as to GET; the server leaves the body out. One without an end is ended."""
        ended = False

        async def send_once(message: Message) -> None:
            nonlocal ended
            if not ended:
                ended = message["type"] == "http.response.body" and not message.get("more_body", False)
                await send(message)

        inner = {**scope, "method": "GET"}
        await self.app(inner, _leaving(), send_once)
        await send_once({"type": "http.response.body"})
        if "endpoint" in inner:
            scope["endpoint"] = inner["endpoint"]


def _route_path(scope: Scope) -> str:
    """The path as routes know it: without the prefix that the application is mounted under."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    return path[len(prefix) :] if prefix and path.startswith(f"{prefix}/") else path


async def _identify(services: Services, scope: Scope, access: Access | None, method: str) -> ApiKey | None:
    """Return the key; None where none is needed: for measures of a service that only its own machine can reach not even
    while the keys are unknown, as the database never answered: they are what tells that it does not."""
    try:
        return await services.key_ring.identify(first_headers(scope).get(b"authorization", b""))
    except UnavailableError:
        if services.key_ring.private and access is not None and access.scopes[method] == MONITOR:
            return None
        raise


async def _check(key: ApiKey, path: str, access: Access | None, method: str, services: Services) -> None:
    """Raise ForbiddenError, LimitExceededError."""
    wanted = ADMIN if access is None else access.scopes[method]
    if wanted is not None:
        check_scope(key, wanted)
    if access is not None and access.model is not None:
        Caller(key=key).check_model(access.model_of(path) or "")
    await services.budgets.take_request(key)


def _other_method(scope: Scope, access: Access) -> Response:
    headers = {"Allow": access.methods}
    if scope["method"] == "OPTIONS":
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)
    return problem(Request(scope), 405, "Method not allowed", METHOD_NOT_ALLOWED, headers=headers)


def _counting(send: Send, services: Services, key: ApiKey, model: str) -> Send:
    """Count a read of a model that there is."""

    async def counted(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < HTTPStatus.BAD_REQUEST:
            services.usage.count(key, READ, model)
        await send(message)

    return counted


def _leaving() -> Receive:
    """The messages of a client that sends no body and waits for none: an answer without an end is ended."""
    messages: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if len(messages) > 1 else messages[0]

    return receive
