"""Who works, and how large a job each may take: one row per worker, renewed while it lives.

A worker that was not seen for PATIENCE_SECONDS is taken to be gone for good; until then a job that only it could do
waits for it. Rows of workers that are long gone are removed by those that are there.
"""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Double, String, Table, delete, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from app.database import metadata, now

PATIENCE_SECONDS = 120.0
"""How long a job waits for a worker that it fits: longer than a restart of one takes."""
_FORGOTTEN_SECONDS = 86_400.0
LONGEST_WORKER = 255

workers = Table(
    "workers",
    metadata,
    Column("name", String(LONGEST_WORKER), primary_key=True),
    Column("most_memory", BigInteger),
    Column("most_rows", BigInteger),
    Column("seen_at", Double, nullable=False),
)
_w = workers.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """memory in bytes and rows of the table: what a job is thought to need, or what a worker may take. None: not
    known, or no limit.
    """

    memory: int | None = None
    rows: int | None = None


def sign(connection: Connection, name: str, most: Size) -> None:
    """This worker is here, and takes jobs up to that size."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    values = {"most_memory": most.memory, "most_rows": most.rows, "seen_at": now()}
    statement = insert(workers).values(name=name, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=[_w.name], set_=values))
    connection.execute(delete(workers).where(_w.seen_at < now() - _FORGOTTEN_SECONDS))


def largest(connection: Connection, *, patience: float = PATIENCE_SECONDS) -> Size:
    """The most that any worker of those seen lately takes, each by itself; None where one has no limit."""
    rows = connection.execute(select(_w.most_memory, _w.most_rows).where(_lately(patience))).all()
    memory, most_rows = ([row[place] for row in rows] for place in (0, 1))
    return Size(
        memory=None if None in memory else max(memory, default=0),
        rows=None if None in most_rows else max(most_rows, default=0),
    )


def somebody_fits(
    memory: ColumnElement[int | None], rows: ColumnElement[int | None], patience: float
) -> ColumnElement[bool]:
    """True if a worker seen lately takes a job of this size."""
    return (
        select(_w.name)
        .where(
            _lately(patience),
            or_(memory.is_(None), _w.most_memory.is_(None), _w.most_memory >= memory),
            or_(rows.is_(None), _w.most_rows.is_(None), _w.most_rows >= rows),
        )
        .exists()
    )


def _lately(patience: float) -> ColumnElement[bool]:
    return _w.seen_at >= now() - patience
