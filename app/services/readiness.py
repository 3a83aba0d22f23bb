"""Can this process do its work now?"""

import threading
import time

from app.database import Database
from app.errors import UnavailableError
from app.storage.blobs import BlobStore

GOOD_SECONDS = 0.5
"""So long a good look counts: probes are many when the service is busy, and each look costs it work."""


class Readiness:
    """Looks at what the service cannot do without."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs
        self._looking = threading.Lock()
        self._good_until = 0.0

    def check(self) -> None:
        """Raises UnavailableError: no database, a schema that is not the newest, a store that takes no bytes."""
        with self._looking:
            began = time.monotonic()
            if began >= self._good_until:
                self._look()
                self._good_until = began + GOOD_SECONDS

    def _look(self) -> None:
        if not self._database.is_migrated():
            raise UnavailableError("the database's schema is not the newest: run `pursuit migrate`")
        self._blobs.check()
