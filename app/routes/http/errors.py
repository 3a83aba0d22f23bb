"""The one table from error class to status, and the body of every refusal: `application/problem+json` (RFC 9457).

{"type": "/problems/invalid-request", "title": "Invalid request", "status": 422, "detail": "...",
 "instance": "/train", "errors": [{"row": 17, "line": 19, "column": "x", "value": "?", "message": "..."}],
 "error_count": 1}

Under `/v2` the Open Inference Protocol has another: {"error": "..."}.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from app.errors import (
    BrokenArtefactError,
    BusyError,
    ConflictError,
    DamagedFileError,
    ForbiddenError,
    InvalidRequestError,
    LeaseLostError,
    LimitExceededError,
    MalformedError,
    NotAcceptableError,
    NotFoundError,
    PursuitError,
    TooLargeError,
    TooSlowError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedMediaError,
)
from app.services.validation_messages import plain_message
from core.errors import (
    CoreError,
    InvalidDataError,
    InvalidSpecError,
    MeanOnlyError,
    NumericalError,
)

log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499
PROBLEM = "application/problem+json"

STATUS: Mapping[type[Exception], tuple[int, str]] = {
    MalformedError: (400, "Malformed body"),
    UnauthenticatedError: (401, "Unauthorized"),
    ForbiddenError: (403, "Forbidden"),
    NotFoundError: (404, "Not found"),
    NotAcceptableError: (406, "Not acceptable"),
    ConflictError: (409, "Conflict"),
    TooSlowError: (408, "Request timeout"),
    TooLargeError: (413, "Too large"),
    UnsupportedMediaError: (415, "Unsupported media type"),
    InvalidRequestError: (422, "Invalid request"),
    InvalidSpecError: (422, "Invalid request"),
    InvalidDataError: (422, "Invalid data"),
    MeanOnlyError: (422, "Invalid request"),
    LimitExceededError: (429, "Too many requests"),
    NumericalError: (500, "Numerical failure"),
    LeaseLostError: (409, "Conflict"),
    BrokenArtefactError: (500, "Broken artefact"),
    UnavailableError: (503, "Unavailable"),
    DamagedFileError: (503, "Damaged file"),
}
"""Status and title of each error class; a subclass has its nearest base's."""

NOTHING_HERE = "there is nothing at this address"
METHOD_NOT_ALLOWED = "method not allowed at this address"
_DETAILS = {404: NOTHING_HERE, 405: METHOD_NOT_ALLOWED}
_CHALLENGE = 'Bearer realm="pursuit"'


def nothing_here(scope: Scope) -> str:
    """Say that there is nothing at an address, and why where a name in it has a slash."""
    slash = b"%2f" in (scope.get("raw_path") or b"").lower()
    return f"{NOTHING_HERE}: a name has no slash (%2F)" if slash else NOTHING_HERE


def status_of(error: Exception) -> tuple[int, str]:
    """Status and title of an error; (500, ...) for one that is not in the table."""
    for base in type(error).__mro__:
        if issubclass(base, Exception) and base in STATUS:
            return STATUS[base]
    return 500, "Internal error"


def problem(
    request: Request,
    status: int,
    title: str,
    detail: str,
    *,
    errors: list[dict[str, object]] | None = None,
    total: int = 0,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem+json answer; `errors` are the places and `total` how many there are in all.

    Under `/v2` it is the Open Inference Protocol's, which has one field.
    """
    if f"{request.url.path}/".startswith("/v2/"):
        return Response(orjson.dumps({"error": detail}), status, headers, "application/json")
    body: dict[str, object] = {
        "type": "/problems/" + title.lower().replace(" ", "-"),
        "title": title,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
    }
    if errors:
        body |= {"errors": errors, "error_count": total}
    return Response(orjson.dumps(body), status_code=status, media_type=PROBLEM, headers=headers)


async def refuse(request: Request, error: Exception) -> Response:
    """The answer to an error of the table."""
    status, title = status_of(error)
    if status >= 500:
        level = logging.WARNING if isinstance(error, BusyError) else logging.ERROR
        log.log(level, "%s", error, exc_info=error if status == 500 else None)
    headers = _headers(error, status)
    if not isinstance(error, PursuitError):
        return problem(request, status, title, str(error), headers=headers)
    faults = [{name: v for name, v in asdict(f).items() if v is not None} for f in error.faults]
    return problem(request, status, title, error.message, errors=faults, total=error.total, headers=headers)


def _headers(error: Exception, status: int) -> dict[str, str] | None:
    """Return headers that tell when to come again, or what would let a client in (RFC 6750, 3)."""
    if isinstance(error, DamagedFileError):
        return None  # to come again is of no use before somebody has mended it
    if status in (429, 503):
        return {"Retry-After": str(getattr(error, "retry_seconds", 1))}
    if isinstance(error, UnauthenticatedError):
        return {"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"' if error.invalid else _CHALLENGE}
    if isinstance(error, ForbiddenError) and error.scope is not None:
        return {"WWW-Authenticate": f'{_CHALLENGE}, error="insufficient_scope", scope="{error.scope}"'}
    return None


async def refuse_http(request: Request, error: Exception) -> Response:
    """Starlette's own refusals: no such route, wrong method."""
    assert isinstance(error, HTTPException)  # registered for this class only
    title = HTTPStatus(error.status_code).phrase
    detail = _DETAILS.get(error.status_code, str(error.detail))
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = nothing_here(request.scope)
    return problem(request, error.status_code, title.capitalize(), detail, headers=error.headers)


async def refuse_parameters(request: Request, error: Exception) -> Response:
    """A path or query parameter that FastAPI could not read."""
    assert isinstance(error, RequestValidationError)  # registered for this class only
    errors: list[dict[str, object]] = []
    for fault in error.errors():
        message = fault["msg"]
        if message.startswith("Input should be"):
            message = f"expected {plain_message(message)}; got {fault['input']!r}"
        errors.append({"column": ".".join(str(part) for part in fault["loc"][1:]), "message": message})
    detail = "; ".join(f"{fault['column']}: {fault['message']}" for fault in errors)
    return problem(request, 422, "Invalid request", detail, errors=errors[:20], total=len(errors))


async def internal_error(request: Request, error: Exception) -> Response:
    """A bug: nothing of it leaves the server but the request's id, by which the log finds it."""
    name = request.scope.get("state", {}).get("request_id", "")
    detail = f"the server failed at this; its log has the reason under request id {name}"
    log.error("unhandled %s", type(error).__name__)
    return problem(request, 500, "Internal error", detail)


async def client_left(_: Request, __: Exception) -> Response:
    """The client has left: nobody reads this, but the log has a status for it (nginx's)."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


def stopping_response(request: Request) -> Response:
    """The server stops and cannot wait for this one any longer."""
    detail = "the server is stopping; send the request again"
    return problem(request, 503, "Unavailable", detail, headers={"Retry-After": "1"})


def install(app: FastAPI) -> None:
    """Answer every error of `app` in this form."""
    app.add_exception_handler(PursuitError, refuse)
    app.add_exception_handler(CoreError, refuse)
    app.add_exception_handler(HTTPException, refuse_http)
    app.add_exception_handler(RequestValidationError, refuse_parameters)
    app.add_exception_handler(ClientDisconnect, client_left)
    app.add_exception_handler(Exception, internal_error)
