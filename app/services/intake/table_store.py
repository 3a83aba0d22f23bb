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
FITS = "fits"
"""Prefix of the schemas fitted to them."""


def is_made_again(key: str) -> bool:
    """True for a file of the store that whoever needs it makes again where it is lost: a fit."""
    return key.startswith(f"{FITS}/")


@dataclass(slots=True, kw_only=True)
class StoredTable:
    """A table and the fit of a schema to it.

    path, fit_path: where to write them; afterwards their keys in the store and the table's size in bytes.
    """

    path: Path
    fit_path: Path
    key: str = ""
    fit_key: str = ""
    size: int = 0


@contextmanager
def stored_table(
    database: Database, blobs: BlobStore, scratch: Path, *, suffix: str = ".parquet"
) -> Iterator[StoredTable]:
    """Keep the files that the block writes, one or both, in the store. suffix: of the table.

    UnavailableError if the disk refuses it, or the store is not the database's: nobody else would find it there.
    """
    check_store_identity(database, blobs)
    try:
        with TemporaryDirectory(dir=scratch) as folder:
            table = StoredTable(path=Path(folder, f"table{suffix}"), fit_path=Path(folder, "fit.json"))
            yield table
            if table.path.exists():
                table.size = table.path.stat().st_size
                table.key = blobs.put(TABLES, suffix, table.path)
            if table.fit_path.exists():
                table.fit_key = blobs.put(FITS, ".json", table.fit_path)
    except OSError as error:
        raise unwritable(error) from error
