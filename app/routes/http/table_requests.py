"""Requests that bring a table, as a form with a file or as JSON: what /train and /datasets share."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request

from app.errors import InvalidRequestError
from app.identifiers import KEY_LENGTH, check_idempotency_key
from app.routes.http.bodies import stream_body
from app.routes.http.services import services
from app.routes.http.uploads import Upload, receive_upload, temporary_upload
from app.services.decoding import check_depth, decode, decode_any, given

CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
COLUMNS: dict[str, Any] = {
    "type": ["object", "null"],
    "additionalProperties": {"type": "array", "items": CELL},
    "description": "Cells by column name, as many in each.",
}
ROWS: dict[str, Any] = {
    "type": ["array", "null"],
    "items": {"type": "object", "additionalProperties": CELL},
    "description": "Rows, each by column name.",
}
FILE: dict[str, Any] = {
    "type": "string",
    "format": "binary",
    "description": "CSV (comma, tab, semicolon, pipe), JSON Lines, Parquet, Arrow, Excel (.xlsx); plain, gzip or zstd.",
}
_WAYS = ("columns", "rows", "dataset", "location")
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH},
    "description": "The same key gives the same answer, however often the request is sent.",
}
"""Parts of the OpenAPI document."""


class TableRequest(msgspec.Struct, forbid_unknown_fields=True, rename={"origin": "from"}):
    """The JSON body: one of `columns`, `rows`, `dataset` and `location`, and the specification. null is as if left out.
    origin: `from`, for a training."""

    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    rows: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    dataset: str | msgspec.UnsetType | None = msgspec.UNSET
    location: str | msgspec.UnsetType | None = msgspec.UNSET
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    origin: str | msgspec.UnsetType | None = msgspec.UNSET


@asynccontextmanager
async def uploaded(
    request: Request, known: Sequence[str] = ("spec",), repeated: Sequence[str] = (), *, in_memory: bool = False
) -> AsyncIterator[Upload]:
    """The form of the request, its file on disk until the end of the block. known: names of its other parts; repeated:
    those that may come more than once. in_memory: the table will be held in memory, as a body is."""
    app = services(request)
    settings = app.settings
    limit, setting = settings.max_upload_bytes, "PURSUIT_MAX_UPLOAD_BYTES"
    if in_memory:
        limit, setting = settings.max_body_bytes, "PURSUIT_MAX_BODY_BYTES"
    pieces = stream_body(request, limit, setting, seconds=settings.max_upload_seconds)
    with temporary_upload(app.scratch.path) as file:
        yield await receive_upload(request.headers["content-type"], pieces, file, known, repeated)


def read_request(body: bytes, depth: int, *known: str) -> TableRequest:
    """The JSON body with exactly one of the `known` ways to give a table. Raises what is wrong."""
    check_depth(body, depth)
    asked = decode(body, TableRequest)
    for name in ("columns", "rows", "spec"):
        if given(getattr(asked, name)) is None:
            setattr(asked, name, msgspec.UNSET)
    if "from" not in known and isinstance(asked.origin, str):
        raise InvalidRequestError("from: goes with POST /train")
    known = tuple(name for name in known if name != "from")
    ways = [name for name in _WAYS if getattr(asked, name) not in (msgspec.UNSET, None)]
    if len(ways) != 1 or ways[0] not in known:
        got = " and ".join(ways) or "none of them"
        expected = ", ".join(f"`{name}`" for name in known[:-1]) + f" and `{known[-1]}`"
        raise InvalidRequestError(f"expected the table as one of {expected}, got {got}")
    return asked


def columns_of(raw: msgspec.Raw) -> dict[str, list[Any]]:
    """Columns of JSON values. Raises InvalidRequestError for another shape."""
    columns = decode_any(raw, where="columns")
    if not isinstance(columns, dict) or not all(isinstance(cells, list) for cells in columns.values()):
        raise InvalidRequestError("columns: expected an object of lists of cells by column name")
    return columns


def rows_of(raw: object) -> list[dict[str, Any]]:
    """Rows of JSON values."""
    rows = decode_any(raw, where="rows") if isinstance(raw, msgspec.Raw) else None
    if not isinstance(rows, list):
        raise InvalidRequestError("rows: expected a list of objects by column name")
    return rows


def spec_of(raw: msgspec.Raw | msgspec.UnsetType | bytes | None) -> Any:
    """The specification; an empty one if there is none, or null."""
    if raw is None or isinstance(raw, msgspec.UnsetType) or bytes(raw).strip() in (b"", b"null"):
        return {}
    return decode_any(raw, where="spec")


def idempotency_key(request: Request) -> str | None:
    """The header, if it is there. InvalidRequestError for one that cannot be kept."""
    return check_idempotency_key(request.headers.get("idempotency-key"))
