"""Can this process do its work now?

A look asks the database and writes to the store, in a thread. A busy event loop lets such a thread on slowly, so nobody
waits long for one: who asks meanwhile hears how the last look ended.
"""

import asyncio
import time

from app.database import Database
from app.errors import UnavailableError
from app.storage.blobs import BlobStore

GOOD_SECONDS = 0.5
"""So long a good look counts: probes are many when the service is busy, and each look costs it work."""
PATIENCE_SECONDS = 0.1
"""So long a probe waits for a new look before it takes the last one's word."""
OLD_SECONDS = 10.0
"""From this age on the last look says nothing any more."""


class Readiness:
    """Looks at what the service cannot do without; used from one event loop."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs
        self._looking: asyncio.Task[None] | None = None
        self._fault: UnavailableError | None = None
        self._looked_at = -OLD_SECONDS

    async def check(self) -> None:
        """Raises UnavailableError: no database, a schema that is not the newest, a store that takes no bytes."""
        age = time.monotonic() - self._looked_at
        if self._fault is not None or age >= GOOD_SECONDS:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look())
            waited, _ = await asyncio.wait({self._looking}, timeout=PATIENCE_SECONDS if age < OLD_SECONDS else None)
            for look in waited:
                look.result()  # an error that has no name here is the prober's to see
        if self._fault is not None:
            raise self._fault.with_traceback(None)

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            self._fault = await asyncio.to_thread(self._found)
            self._looked_at = began
        finally:
            self._looking = None

    def _found(self) -> UnavailableError | None:
        try:
            if not self._database.is_migrated():
                return UnavailableError("the database's schema is not the newest: run `pursuit migrate`")
            self._blobs.check()
        except UnavailableError as error:
            return error
        return None
