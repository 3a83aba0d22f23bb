"""A database and its store belong together: a share that is not mounted, or another bucket, is not an empty store; and
what one database does not refer to may be what another one lives on.

The first process that meets a database without a mark puts one into the store: a blob with a random token, which the
database had first. From then on a store without that blob is not the one that the database means, and one with the mark
of another database is never marked again.
"""

import secrets

from sqlalchemy import Column, Connection, Integer, String, Table, select, update
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
    Column("token", String(64), nullable=False),
    Column("blob", String(255)),  # none until it is in the store
)


def check_pairing(database: Database, blobs: BlobStore) -> None:
    """WrongStoreError where the store is not the database's; marks both where the database has no mark yet.

    UnavailableError where one of them does not answer. Cost: a row, and a listing of a prefix with one blob.
    """
    with database.read() as connection:
        known = _known(connection)
    mark = None if known is None else known[1]
    if mark is None:
        mark = _marked(database, blobs)
    elif mark not in _found(blobs):
        raise WrongStoreError(
            f"the store does not belong to the database, whose mark {mark} is not in it: "
            "is it another one (PURSUIT_ARTEFACT_URL), or a folder that is not mounted?"
        )


def _marked(database: Database, blobs: BlobStore) -> str:
    """The mark, put into the store: the same one by all who do so at once, or again after one that died on the way."""
    with database.write() as connection:
        insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        connection.execute(insert(_marks).values(id=_ONLY, token=secrets.token_hex(32)).on_conflict_do_nothing())
        known = _known(connection)
    assert known is not None
    mark = blobs.put(MARKS, "", known[0].encode())
    if others := _found(blobs) - {mark}:
        blobs.delete(mark)
        raise WrongStoreError(
            f"the store belongs to another database, whose mark {min(others)} is in it: "
            "each database needs a folder, or a prefix of a bucket, of its own (PURSUIT_ARTEFACT_URL)"
        )
    with database.write() as connection:
        connection.execute(update(_marks).values(blob=mark))
    return mark


def _known(connection: Connection) -> tuple[str, str | None] | None:
    """The token, and the mark once it is in the store."""
    row = connection.execute(select(_marks.c.token, _marks.c.blob)).one_or_none()
    return None if row is None else (row.token, row.blob)


def _found(blobs: BlobStore) -> set[str]:
    return {blob.key for blob in blobs.keys(MARKS)}
