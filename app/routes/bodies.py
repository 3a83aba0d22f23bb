"""Bodies as bytes: how large they may be, and what they say they are."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request

from app.errors import TooLargeError, UnsupportedMediaError

JSON = "application/json"
CSV = "text/csv"
MULTIPART = "multipart/form-data"
TABLES = (
    CSV,
    "text/tab-separated-values",
    "application/x-ndjson",
    "application/jsonl",
    "application/vnd.apache.parquet",
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.arrow.file",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/x-npy",
    "application/octet-stream",
)
"""Content types of tables; what the bytes are they say themselves."""


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


async def stream_body(
    request: Request, limit: int, setting: str, *, seconds: float | None = None
) -> AsyncIterator[bytes]:
    """The body in pieces. Raises TooLargeError as soon as more than `limit` bytes are announced or have come, or when
    it takes longer than so many seconds.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise TooLargeError(_too_large(int(announced), limit, setting))
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
            raise TooLargeError(f"the upload took longer than {seconds:g} s (max_upload_seconds)") from None
        received += len(piece)
        if received > limit:
            raise TooLargeError(_too_large(received, limit, setting))
        yield piece


async def read_body(request: Request, limit: int, setting: str = "PURSUIT_MAX_BODY_BYTES") -> bytes:
    """The whole body in memory."""
    return b"".join([piece async for piece in stream_body(request, limit, setting)])


def _too_large(got: int, limit: int, setting: str) -> str:
    return f"the body has {got} bytes or more, at most {limit} are taken here (setting {setting})"
