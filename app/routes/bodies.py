"""Bodies as bytes: how large they may be, and what they say they are."""

from collections.abc import AsyncIterator

from starlette.requests import Request

from app.errors import TooLargeError, UnsupportedMediaError

JSON = "application/json"
CSV = "text/csv"
MULTIPART = "multipart/form-data"


def media_type(request: Request) -> str:
    """The content type without its parameters, in small letters; empty if none is given."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def expect_media_type(request: Request, *known: str) -> str:
    """The content type, which must be one of `known`. Raises UnsupportedMediaError listing them.

    Tables may be compressed, which their first bytes say; JSON may not.
    """
    given = media_type(request)
    if given not in known:
        said = f"content type {given!r} is not read here" if given else "there is no Content-Type header"
        raise UnsupportedMediaError(f"{said}; send {' or '.join(known)}")
    encoding = request.headers.get("content-encoding", "identity")
    if given == JSON and encoding != "identity":
        raise UnsupportedMediaError(f"content encoding {encoding!r} is not read for JSON; send it plain")
    return given


async def stream_body(request: Request, limit: int, setting: str) -> AsyncIterator[bytes]:
    """The body in pieces. Raises TooLargeError as soon as more than `limit` bytes are announced or have come."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise TooLargeError(_too_large(int(announced), limit, setting))
    received = 0
    async for piece in request.stream():
        received += len(piece)
        if received > limit:
            raise TooLargeError(_too_large(received, limit, setting))
        yield piece


async def read_body(request: Request, limit: int, setting: str = "PURSUIT_MAX_BODY_BYTES") -> bytes:
    """The whole body in memory."""
    return b"".join([piece async for piece in stream_body(request, limit, setting)])


def _too_large(got: int, limit: int, setting: str) -> str:
    return f"the body has {got} bytes or more, at most {limit} are taken here (setting {setting})"
