"""Bodies as bytes: how large they may be, and what they say they are."""

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from app.errors import TooLargeError, TooSlowError, UnsupportedMediaError
from app.routes.http.services import services

JSON = "application/json"
CSV = "text/csv"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
MULTIPART = "multipart/form-data"
TABLES = (
    CSV,
    "text/tab-separated-values",
    "application/x-ndjson",
    "application/jsonl",
    PARQUET,
    ARROW,
    "application/vnd.apache.arrow.file",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    NPY,
    "application/octet-stream",
)
"""Content types of tables; what the bytes are they say themselves."""


def header(request: Request, name: bytes, default: str = "") -> str:
    """Return the first header of this name (in small letters); Starlette's `headers` decodes all of them for one."""
    known = request.scope.get("first_headers") or first_headers(request.scope)
    value = known.get(name)
    return default if value is None else str(value, "latin-1")


def first_headers(scope: Scope) -> dict[bytes, bytes]:
    """Return headers by name in small letters, the first of each name; looked up once for a request."""
    found: dict[bytes, bytes] | None = scope.get("first_headers")
    if found is None:
        found = scope["first_headers"] = dict(reversed(list(scope["headers"])))
    return found


def content_type(request: Request) -> str:
    """The content type without its parameters, in small letters; empty if none is given."""
    return _essence(header(request, b"content-type"))


@lru_cache(maxsize=256)
def _essence(value: str) -> str:
    return value.partition(";")[0].strip().lower()


def expect_media_type(request: Request, *known: str) -> str:
    """The content type, which must be one of `known`. Raises UnsupportedMediaError listing them."""
    given = content_type(request)
    if given not in known:
        said = f"content type {given!r} is not read here" if given else "there is no Content-Type header"
        raise UnsupportedMediaError(f"{said}; send {' or '.join(known)}")
    return given


async def stream_body(
    request: Request, limit: int, setting: str, *, seconds: float | None = None
) -> AsyncIterator[bytes]:
    """The body in pieces. Raises TooLargeError as soon as more than `limit` bytes are announced or have come, or when
    it takes longer than so many seconds.
    """
    _check_announced(request, limit, setting)
    received = 0
    end = None if seconds is None else asyncio.get_running_loop().time() + seconds
    pieces = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout_at(end):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise TooSlowError(f"the upload took longer than {seconds:g} s (PURSUIT_MAX_UPLOAD_SECONDS)") from None
        received += len(piece)
        if received > limit:
            raise TooLargeError(too_large(received, limit, setting))
        yield piece


async def read_body(request: Request, limit: int, setting: str = "PURSUIT_MAX_BODY_BYTES") -> bytes:
    """The whole body in memory. Raises TooLargeError and TooSlowError as `stream_body` does, and BusyError where the
    bodies of all requests leave no room. A small body costs next to nothing: the server gives it in one piece, and
    closes connections that stay silent.
    """
    _check_announced(request, limit, setting)
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    first: bytes = message.get("body", b"")
    if len(first) > limit:
        raise TooLargeError(too_large(len(first), limit, setting))
    if not message.get("more_body", False):
        return first
    return await _read_rest(request, first, limit, setting)


async def _read_rest(request: Request, first: bytes, limit: int, setting: str) -> bytes:
    app = services(request)
    seconds = app.settings.max_body_seconds
    pieces = [first]
    received = len(first)
    app.bodies.reserve(request.scope, received)
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece: bytes = message.get("body", b"")
                received += len(piece)
                if received > limit:
                    raise TooLargeError(too_large(received, limit, setting))
                app.bodies.reserve(request.scope, len(piece))
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise TooSlowError(f"the body took longer than {seconds:g} s (PURSUIT_MAX_BODY_SECONDS)") from None


def _check_announced(request: Request, limit: int, setting: str) -> None:
    announced = header(request, b"content-length")
    if announced.isdigit() and int(announced) > limit:
        raise TooLargeError(too_large(int(announced), limit, setting))


def too_large(got: int, limit: int, setting: str) -> str:
    """The sentence for a body beyond a limit."""
    return f"the body has {got} bytes or more, at most {limit} are taken here (setting {setting})"
