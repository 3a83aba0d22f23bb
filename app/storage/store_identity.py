"""The identity of a blob store, by which its database knows it again.

A share that is not mounted, or another bucket, is not an empty store; and what one database does not refer to may be
what another one needs. The first process that meets a database without an identity puts one into the store: a blob with
a random token, which the database had first. From then on a store without that blob is not the database's, and one with
the identity of another database never gets a second.
"""

import secrets

from sqlalchemy import Connection, select, update

from app.database.engine import Database
from app.database.tables import store_identity
from app.database.upsert import insert_or_ignore
from app.errors import WrongStoreError
from app.storage.blobs import BlobStore

IDENTITY_PREFIX = "marks"
"""The prefix of identities in the store; stores have it, so it keeps its name."""

_ROW_ID = 1
_c = store_identity.c


def check_store_identity(database: Database, blobs: BlobStore) -> None:
    """Raise WrongStoreError where the store is not the database's; give both an identity where there is none yet.

    UnavailableError where one of them does not answer. Cost: a row, and a list request of a prefix with one blob.
    """
    with database.read() as connection:
        known = _read(connection)
    identity = None if known is None else known[1]
    if identity is None:
        _create(database, blobs)
    elif identity not in _in_store(blobs):
        raise WrongStoreError(
            f"the store does not belong to the database, whose identity {identity} is not in it: "
            "is it another one (PURSUIT_ARTEFACT_URL), or a folder that is not mounted?"
        )


def identity_bytes(connection: Connection) -> bytes:
    """Return the bytes of the identity in the store, from which it can be put there again; none where there is none."""
    known = _read(connection)
    return b"" if known is None or known[1] is None else known[0].encode()


def _create(database: Database, blobs: BlobStore) -> None:
    """Put the identity into the store: the same one by all processes that do, also after one that died half-way."""
    with database.write() as connection:
        values = {"id": _ROW_ID, "token": secrets.token_hex(32)}
        insert_or_ignore(connection, store_identity, values, key=[_c.id])
        known = _read(connection)
    assert known is not None
    identity = blobs.put(IDENTITY_PREFIX, "", known[0].encode())
    if others := _in_store(blobs) - {identity}:
        blobs.delete(identity)
        raise WrongStoreError(
            f"the store belongs to another database, whose identity {min(others)} is in it: "
            "each database needs a folder, or a prefix of a bucket, of its own (PURSUIT_ARTEFACT_URL)"
        )
    with database.write() as connection:
        connection.execute(update(store_identity).values({_c.blob_key: identity}))


def _read(connection: Connection) -> tuple[str, str | None] | None:
    """Return the token, and the identity's key once it is in the store."""
    row = connection.execute(select(_c.token, _c.blob_key)).one_or_none()
    return None if row is None else (row.token, row.blob_key)


def _in_store(blobs: BlobStore) -> set[str]:
    return {blob.key for blob in blobs.keys(IDENTITY_PREFIX)}
