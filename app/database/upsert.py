"""INSERT .. ON CONFLICT, which SQLAlchemy has for each dialect and not for both.

Safe under races: of several transactions that insert the same key one makes the row, and the others wait for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Row, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_or_ignore(
    connection: Connection, table: Table, values: Mapping[str, Any], *, key: Sequence[Column[Any]]
) -> Row[Any] | None:
    """Insert a row unless one has the same key; return the new row, None if there was one.

    Args:
        connection: in a transaction that may write.
        table: where to insert.
        values: the new row, by name of the column; missing ones get their default.
        key: the columns of a unique constraint. A key with NULL in it never conflicts.
    """
    statement = _insert(connection, table).values(**values).on_conflict_do_nothing(index_elements=list(key))
    return connection.execute(statement.returning(*table.c)).one_or_none()


def insert_or_update(
    connection: Connection,
    table: Table,
    values: Mapping[str, Any],
    *,
    key: Sequence[Column[Any]],
    update: Mapping[str, Any],
) -> None:
    """Insert a row, or change the one that has the same key.

    Args:
        connection: in a transaction that may write.
        table: where to insert.
        values: the new row, by name of the column.
        key: the columns of a unique constraint.
        update: what a row that is there gets instead; may refer to what it has (`table.c.number + 1`).
    """
    statement = _insert(connection, table).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=dict(update)))


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
