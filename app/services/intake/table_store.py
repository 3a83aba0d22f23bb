"""A table on its way into the store: written into a scratch folder, then kept by content."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from app.database.engine import Database
from app.errors import unwritable
from app.storage.blobs import BlobStore
from app.storage.store_identity import check_store_identity

TABLES = "tables"
"""Prefix of the tables in the store."""


@dataclass(slots=True, kw_only=True)
class StoredTable:
    """path: where to write it; afterwards its key in the store and its size in bytes."""

    path: Path
    key: str = ""
    size: int = 0


@contextmanager
def stored_table(database: Database, blobs: BlobStore, scratch: Path) -> Iterator[StoredTable]:
    """The block writes the file; at its end it is in the store.

    UnavailableError if the disk refuses it, or the store is not the database's: nobody else would find it there.
    """
    check_store_identity(database, blobs)
    try:
        with TemporaryDirectory(dir=scratch) as folder:
            table = StoredTable(path=Path(folder, "table.parquet"))
            yield table
            table.size = table.path.stat().st_size
            table.key = blobs.put(TABLES, ".parquet", table.path)
    except OSError as error:
        raise unwritable(error) from error
