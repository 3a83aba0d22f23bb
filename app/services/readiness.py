"""Can this process do its work now?"""

from app.database import Database
from app.errors import UnavailableError
from app.storage.blobs import BlobStore


class Readiness:
    """Looks at what the service cannot do without."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def check(self) -> None:
        """Raises UnavailableError: no database, a schema that is not the newest, a store that takes no bytes."""
        if not self._database.is_migrated():
            raise UnavailableError("the database's schema is not the newest: run `pursuit migrate`")
        self._blobs.check()
