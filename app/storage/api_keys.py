"""The API keys: what each may do, its limits, when it ends. A row stays for ever, so that the audit log has a name.

Of the secret only its SHA-256 is kept. A slow hash, as for passwords, would add nothing: a secret is 256 random bits
(`app.services.keys.tokens`), of which no list can be made, and nobody can try them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, func, or_, select, update

from app.database.clock import now
from app.database.tables import API_KEY_NAME_LENGTH, api_keys, datasets, jobs, versions
from app.errors import InvalidRequestError, NotFoundError
from app.identifiers import is_api_key_id

MAX_PAGE_SIZE = 500
"""The largest page of `page`."""
MOST_ENDED = 1_000
"""Keys that have ended which `live` returns."""
_c = api_keys.c


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """Limits of one key over all API processes; None: there is none."""

    requests_per_minute: int | None = None
    rows_per_minute: int | None = None
    queued_jobs: int | None = None
    stored_bytes: int | None = None


UNLIMITED = KeyLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One key. digest: SHA-256 of its secret; models: the only ones that it may use, None: all; times: epoch."""

    id: str
    name: str
    digest: str
    scopes: frozenset[str]
    models: frozenset[str] | None
    limits: KeyLimits
    created_at: float
    created_by: str | None
    expires_at: float | None
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveKeys:
    """All keys that are neither revoked nor expired, by id. ended: the newest others; any_ever: a key was ever
    created."""

    keys: dict[str, ApiKey]
    ended: dict[str, ApiKey]
    any_ever: bool


def add(
    connection: Connection,
    *,
    key_id: str,
    name: str,
    digest: str,
    scopes: Sequence[str],
    models: Sequence[str] | None,
    limits: KeyLimits,
    seconds: float | None,
    created_by: str | None,
) -> ApiKey:
    """Add a key that expires after so many seconds, if any. InvalidRequestError for a name that cannot be kept."""
    if len(name) > API_KEY_NAME_LENGTH or not (name.isprintable() or not name):
        raise InvalidRequestError(
            f"name: expected at most {API_KEY_NAME_LENGTH} printable characters, got {name[:80]!r}"
        )
    values = {
        "id": key_id,
        "name": name,
        "digest": digest,
        "scopes": sorted(scopes),
        "models": None if models is None else sorted(models),
        **{field.name: getattr(limits, field.name) for field in fields(KeyLimits)},
        "created_at": now(),
        "created_by": created_by,
        "expires_at": None if seconds is None else now() + seconds,
        "revision": 1,
    }
    connection.execute(api_keys.insert().values(values))
    return get(connection, key_id)


def get(connection: Connection, key_id: str, *, hold: bool = False) -> ApiKey:
    """Return a key, revoked and expired ones too; NotFoundError. hold: no other transaction holds it until the end."""
    row = None
    if is_api_key_id(key_id):
        query = select(api_keys).where(_c.id == key_id)
        row = connection.execute(query.with_for_update() if hold else query).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no API key {key_id[:80]!r}")
    return _key(row)


def page(connection: Connection, *, limit: int, cursor: str | None) -> tuple[list[ApiKey], str | None]:
    """Return a page of keys, newest first, and the cursor of the next page (None at the end)."""
    query = select(api_keys).order_by(_c.created_at.desc(), _c.id.desc()).limit(min(limit, MAX_PAGE_SIZE) + 1)
    if cursor is not None:
        try:
            last = get(connection, cursor)
        except NotFoundError:
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor[:80]!r}") from None
        query = query.where(
            (_c.created_at < last.created_at) | ((_c.created_at == last.created_at) & (_c.id < last.id))
        )
    items = [_key(row) for row in connection.execute(query)]
    return items[:limit], items[limit - 1].id if len(items) > limit else None


def revoke(connection: Connection, key_id: str) -> ApiKey:
    """End a key for good; one that is revoked stays as it is. NotFoundError."""
    get(connection, key_id)
    ended = {"revoked_at": now(), "revision": _c.revision + 1}
    connection.execute(update(api_keys).where(_c.id == key_id, _c.revoked_at.is_(None)).values(ended))
    return get(connection, key_id)


def generation(connection: Connection) -> tuple[int, float]:
    """Return the number of changes of all keys (each raises it, as no row is ever removed), and the database's time."""
    row = connection.execute(select(func.coalesce(func.sum(_c.revision), 0), now())).one()
    return int(row[0]), float(row[1])


def live(connection: Connection) -> LiveKeys:
    """Return the keys that are valid now."""
    query = select(api_keys).where(_c.revoked_at.is_(None), or_(_c.expires_at.is_(None), _c.expires_at > now()))
    keys = {row.id: _key(row) for row in connection.execute(query)}
    over = select(api_keys).where(or_(_c.revoked_at.is_not(None), _c.expires_at <= now()))
    rows = connection.execute(over.order_by(_c.created_at.desc()).limit(MOST_ENDED))
    ended = {row.id: _key(row) for row in rows}
    return LiveKeys(keys=keys, ended=ended, any_ever=bool(keys or ended))


def stored_bytes(connection: Connection, key_id: str) -> int:
    """Sum the bytes of what a key has in the store: datasets, versions, tables of its jobs that have not ended."""
    unfinished = jobs.c.state.in_(["queued", "running"])
    sums = (
        select(func.coalesce(func.sum(datasets.c.size), 0)).where(datasets.c.owner == key_id),
        select(func.coalesce(func.sum(versions.c.size), 0)).where(versions.c.owner == key_id),
        select(func.coalesce(func.sum(jobs.c.table_bytes), 0)).where(jobs.c.owner == key_id, unfinished),
    )
    return sum(int(connection.execute(one).scalar_one()) for one in sums)


def _key(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        digest=row.digest,
        scopes=frozenset(row.scopes),
        models=None if row.models is None else frozenset(row.models),
        limits=KeyLimits(**{field.name: getattr(row, field.name) for field in fields(KeyLimits)}),
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
