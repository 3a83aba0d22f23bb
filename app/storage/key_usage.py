"""Use of API keys: shares of their limits a minute, given out to the API processes, and counts of what they read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, tuple_, update

from app.database.clock import now
from app.database.tables import key_budgets, key_usage
from app.database.upsert import insert_or_ignore, insert_or_update
from app.errors import InvalidRequestError
from app.identifiers import check_api_key_id

MAX_PAGE_SIZE = 500
"""The largest page of `page`."""
_b, _u = key_budgets.c, key_usage.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A share of a minute's limit. amount: may be 0; seconds: until the minute is over, by the database's clock."""

    amount: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Requests of one kind, by one key, for one model, within one minute since 1970."""

    minute: int
    key_id: str
    model: str
    action: str
    requests: int
    rows: int


def grant(connection: Connection, *, key_id: str, unit: str, wanted: int, limit: int) -> Grant:
    """Take up to `wanted` of what is left of a key's limit in this minute. Never more than `limit` in all."""
    clock = float(connection.execute(select(now())).scalar_one())
    minute = int(clock // 60)
    fresh = {"key_id": key_id, "unit": unit, "minute": minute, "used": 0}
    insert_or_ignore(connection, key_budgets, fresh, key=[_b.key_id, _b.unit])
    mine = (_b.key_id == key_id, _b.unit == unit)
    row = connection.execute(select(_b.minute, _b.used).where(*mine).with_for_update()).one()
    used = row.used if row.minute == minute else 0
    amount = max(0, min(wanted, limit - used))
    connection.execute(update(key_budgets).where(*mine).values(minute=minute, used=used + amount))
    return Grant(amount=amount, seconds=60.0 * (minute + 1) - clock)


def add_usage(connection: Connection, counts: Mapping[tuple[int, str, str, str], tuple[int, int]]) -> None:
    """Add requests and rows by (minute, key, model, action)."""
    for (minute, key_id, model, action), (requests, rows) in sorted(counts.items()):  # in one order: no deadlock
        names = {"minute": minute, "key_id": key_id, "model": model, "action": action}
        insert_or_update(
            connection,
            key_usage,
            {**names, "requests": requests, "rows": rows},
            key=[_u.minute, _u.key_id, _u.model, _u.action],
            update={"requests": _u.requests + requests, "rows": _u.rows + rows},
        )


def page(
    connection: Connection, *, limit: int, cursor: str | None, key_id: str | None = None
) -> tuple[list[Usage], str | None]:
    """Return a page of counts, newest first, and the cursor of the next page (None at the end)."""
    order = (_u.minute, _u.key_id, _u.model, _u.action)
    query = select(key_usage).order_by(*(column.desc() for column in order)).limit(min(limit, MAX_PAGE_SIZE) + 1)
    if key_id is not None:
        query = query.where(_u.key_id == check_api_key_id(key_id))
    if cursor is not None:
        query = query.where(tuple_(*order) < tuple_(*_position(cursor)))
    items = [Usage(**row._mapping) for row in connection.execute(query)]
    last = items[limit - 1] if len(items) > limit else None
    return items[:limit], None if last is None else ":".join(
        map(str, (last.minute, last.key_id, last.model, last.action))
    )


def remove_old_usage(connection: Connection, *, older_than: float) -> int:
    """Remove the counts of minutes so many seconds ago; return how many."""
    clock = float(connection.execute(select(now())).scalar_one())
    return connection.execute(delete(key_usage).where(_u.minute < int((clock - older_than) // 60))).rowcount


def _position(cursor: str) -> Iterable[int | str]:
    parts = cursor.split(":")
    if len(parts) != 4 or not (
        parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 12 and cursor.isprintable()
    ):
        raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor[:80]!r}")
    return int(parts[0]), *parts[1:]
