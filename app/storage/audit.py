"""The audit log: who changed what, when and from where. An entry is written in the transaction of its change."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, select

from app.database.clock import now
from app.database.tables import ADDRESS_LENGTH, REQUEST_ID_LENGTH, audit
from app.errors import InvalidRequestError
from app.identifiers import check_api_key_id

MAX_PAGE_SIZE = 500
"""The largest page of `page`."""
_SUBJECT_LENGTH = 255
_LARGEST_ID = 2**63 - 1
_c = audit.c


class AuditAction(StrEnum):
    """Kind of change."""

    TRAIN = "train"
    UPDATE = "update"
    PREDICT = "predict"
    CANCEL = "cancel"
    UPLOAD = "upload"
    IMPORT = "import"
    SET_ALIAS = "set-alias"
    DELETE_ALIAS = "delete-alias"
    DELETE_VERSION = "delete-version"
    DELETE_MODEL = "delete-model"
    DELETE_DATASET = "delete-dataset"
    CREATE_KEY = "create-key"
    REVOKE_KEY = "revoke-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change. subject: the model, dataset, job or key; key_id: None where no key was needed; at: epoch."""

    id: int
    at: float
    action: str
    subject: str
    detail: Mapping[str, Any] | None
    key_id: str | None
    address: str
    request_id: str


def record(
    connection: Connection,
    *,
    action: AuditAction,
    subject: str,
    detail: Mapping[str, Any] | None,
    key_id: str | None,
    address: str,
    request_id: str,
) -> None:
    """Add an entry, with the database's time."""
    values = {
        "at": now(),
        "action": action.value,
        "subject": subject[:_SUBJECT_LENGTH],
        "detail": None if detail is None else dict(detail),
        "key_id": key_id,
        "address": address[:ADDRESS_LENGTH],
        "request_id": request_id[:REQUEST_ID_LENGTH],
    }
    connection.execute(audit.insert().values(values))


def page(
    connection: Connection,
    *,
    limit: int,
    cursor: str | None,
    action: AuditAction | None = None,
    key_id: str | None = None,
) -> tuple[list[AuditEntry], str | None]:
    """Return a page of entries, newest first, and the cursor of the next page (None at the end)."""
    query = select(audit).order_by(_c.id.desc()).limit(min(limit, MAX_PAGE_SIZE) + 1)
    if action is not None:
        query = query.where(_c.action == action.value)
    if key_id is not None:
        query = query.where(_c.key_id == check_api_key_id(key_id))
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20 and int(cursor) <= _LARGEST_ID):
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor[:80]!r}")
        query = query.where(_c.id < int(cursor))
    items = [AuditEntry(**row._mapping) for row in connection.execute(query)]
    return items[:limit], str(items[limit - 1].id) if len(items) > limit else None


def remove_old(connection: Connection, *, older_than: float) -> int:
    """Remove the entries so many seconds old; return how many."""
    return connection.execute(delete(audit).where(_c.at < now() - older_than)).rowcount
