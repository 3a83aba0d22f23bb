"""A database and its store belong together: a share that is not mounted, or another bucket, is not an empty store.

The first process that meets a database without a mark puts one into the store, a blob of random bytes, and its key into
the database. From then on a store without that blob is not the one that the database means.
"""

import secrets

from sqlalchemy import Column, Connection, Integer, String, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from app.database import Database, metadata
from app.errors import WrongStoreError
from app.storage.blobs import BlobStore

MARKS = "marks"
"""The prefix of marks in the store."""

_ONLY = 1
_marks = Table(
    "store_mark",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("blob", String(255), nullable=False),
)


def check_pairing(database: Database, blobs: BlobStore) -> None:
    """WrongStoreError where the store is not the database's; marks both where the database has no mark yet.

    UnavailableError where one of them does not answer.

    Cost: a row, and a listing of a prefix with one blob.
    """
    with database.read() as connection:
        mark = _mark(connection)
    if mark is None:
        made = blobs.put(MARKS, "", secrets.token_bytes(32))
        with database.write() as connection:
            mark = _set(connection, made)
    if mark not in {blob.key for blob in blobs.keys(MARKS)}:
        raise WrongStoreError(
            f"the store does not belong to the database, whose mark {mark} is not in it: "
            "is it another one (PURSUIT_ARTEFACT_URL), or a folder that is not mounted?"
        )


def _mark(connection: Connection) -> str | None:
    return connection.execute(select(_marks.c.blob)).scalar_one_or_none()


def _set(connection: Connection, made: str) -> str:
    """Two may be the first: one comes first, and its store is the other's too or the other's is wrong."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(insert(_marks).values(id=_ONLY, blob=made).on_conflict_do_nothing())
    mark = _mark(connection)
    assert mark is not None
    return mark
