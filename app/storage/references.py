"""References of the catalogue to the blob store: which file belongs to what, for a copy of both and a check of it."""

from collections.abc import Iterator

from sqlalchemy import Connection, select

from app.database.tables import datasets, store_identity, versions

IDENTITY = "the identity of the store"


def references(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the key of each file that a version or a dataset needs, with the name of what needs it, and the identity of
    the store; what shares a file has it each."""
    for (key,) in connection.execute(select(store_identity.c.blob_key).where(store_identity.c.blob_key.is_not(None))):
        yield key, IDENTITY
    v = versions.c
    for row in connection.execute(select(v.model, v.version, v.artefact, v.state_key).order_by(v.model, v.version)):
        yield row.artefact, f"{row.model}@{row.version}"
        if row.state_key is not None:
            yield row.state_key, f"the training state of {row.model}@{row.version}"
    d = datasets.c
    for id_, table, fits in connection.execute(select(d.id, d.table_key, d.fits).order_by(d.id)):
        yield table, f"dataset {id_}"
        for key in (fits or {}).values():
            yield key, f"dataset {id_}"
