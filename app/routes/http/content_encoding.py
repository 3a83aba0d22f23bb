"""JSON bodies that come compressed, as `Content-Encoding` says or as their first bytes do."""

from starlette.requests import Request

from app.errors import MalformedError, TooLargeError, UnsupportedMediaError
from app.routes.http.bodies import header, read_body, too_large
from app.routes.http.services import in_heavy_thread, services
from app.tables import Limits, Source

_MAGIC = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_KINDS = {"gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}


async def read_json(request: Request, limit: int, setting: str = "PURSUIT_MAX_BODY_BYTES") -> bytes:
    """The whole JSON body, unpacked; the limit holds before and after.

    Raises UnsupportedMediaError for an encoding that is not read, MalformedError for a body that is not in the one it
    is said to be in, TooLargeError.
    """
    body = await read_body(request, limit, setting)
    encoding = header(request, b"content-encoding", "identity")
    if encoding == "identity" and not body.startswith(_MAGIC):
        return body
    unpacked = await in_heavy_thread(request, _decompressed, body, encoding.strip().lower(), limit, setting)
    services(request).bodies.reserve(request.scope, len(unpacked))
    return unpacked


def _decompressed(body: bytes, encoding: str, limit: int, setting: str) -> bytes:
    source = Source(origin=body, limits=Limits(bytes=limit))
    if encoding not in ("identity", *_KINDS):
        raise UnsupportedMediaError(f"content encoding {encoding!r} is not read; send gzip, zstd, or no encoding")
    found = source.compression()
    if encoding != "identity" and found != _KINDS[encoding]:
        raise MalformedError(f"the body is not in {encoding}, as its Content-Encoding says")
    try:
        with source.decompressed() as stream:
            return stream.read()
    except TooLargeError as error:
        raise TooLargeError(f"unpacked, {too_large(limit + 1, limit, setting)}") from error
