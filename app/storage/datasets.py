"""The uploaded datasets: where each lies in the store, and what was found in it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
    select,
)
from sqlalchemy import delete as sql_delete
from sqlalchemy.dialects import postgresql, sqlite

from app.database import metadata, now
from app.errors import InvalidRequestError, NotFoundError

LARGEST_PAGE = 500
_ID = re.compile(r"ds_[0-9a-f]{32}")

datasets = Table(
    "datasets",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("blob", String(255), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("profile", JSON, nullable=False),
    Column("idempotency_key", String(255)),
    Column("created_at", Double, nullable=False),
    UniqueConstraint("idempotency_key"),
    Index(None, "created_at", "id"),
)
_c = datasets.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """name: of the uploaded file; table: its key in the store; size: bytes there; created_at: epoch."""

    id: str
    name: str
    table: str
    size: int
    rows: int
    profile: Mapping[str, Any]
    created_at: float


def add(
    connection: Connection, *, name: str, table: str, size: int, rows: int, profile: Mapping[str, Any], key: str | None
) -> tuple[Dataset, bool]:
    """A new dataset and True, or the one that has this idempotency key already and False. Safe under races."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    row = insert(datasets).values(
        id=f"ds_{uuid4().hex}",
        name=name[:255],
        blob=table,
        size=size,
        rows=rows,
        profile=dict(profile),
        idempotency_key=key,
        created_at=now(),
    )
    added = connection.execute(row.on_conflict_do_nothing(index_elements=[_c.idempotency_key]).returning(_c.id))
    made = added.scalar_one_or_none()
    if made is not None:
        return get(connection, made), True
    return _dataset(connection.execute(select(datasets).where(_c.idempotency_key == key)).one()), False


def get(connection: Connection, dataset: str, *, hold: bool = False) -> Dataset:
    """NotFoundError if there is none of that id. hold: nobody deletes it until the transaction ends."""
    known = _ID.fullmatch(dataset) is not None
    query = select(datasets).where(_c.id == dataset)
    row = connection.execute(query.with_for_update(read=True) if hold else query).one_or_none() if known else None
    if row is None:
        raise NotFoundError(f"there is no dataset {dataset!r}")
    return _dataset(row)


def page(connection: Connection, *, limit: int, cursor: str | None) -> tuple[Sequence[Dataset], str | None]:
    """The newest first, and the cursor of the next page."""
    query = select(datasets).order_by(_c.created_at.desc(), _c.id.desc()).limit(min(limit, LARGEST_PAGE) + 1)
    if cursor is not None:
        try:
            last = get(connection, cursor)
        except NotFoundError:
            message = f"cursor: there is no dataset {cursor!r} any more; begin with the first page"
            raise InvalidRequestError(message) from None
        older = (_c.created_at < last.created_at) | ((_c.created_at == last.created_at) & (_c.id < last.id))
        query = query.where(older)
    found = [_dataset(row) for row in connection.execute(query)]
    return found[:limit], found[limit - 1].id if len(found) > limit else None


def delete(connection: Connection, dataset: str) -> None:
    """NotFoundError if there is none. Its bytes stay while a job needs them."""
    get(connection, dataset)
    if connection.execute(sql_delete(datasets).where(_c.id == dataset)).rowcount == 0:
        raise NotFoundError(f"there is no dataset {dataset!r}")


def referenced_tables(connection: Connection) -> set[str]:
    """The keys of all tables that a dataset needs."""
    return set(connection.execute(select(_c.blob).distinct()).scalars())


def _dataset(row: Any) -> Dataset:
    return Dataset(
        id=row.id,
        name=row.name,
        table=row.blob,
        size=row.size,
        rows=row.rows,
        profile=row.profile,
        created_at=row.created_at,
    )
