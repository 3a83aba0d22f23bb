"""Can this process do its work now?

A look asks the database and writes to the store, in a thread. A busy event loop lets such a thread on slowly, so nobody
waits long for one: who asks meanwhile hears how the last look ended, and `watch` sees to it that there is one.
"""

import asyncio
import logging
import time
from typing import NoReturn

from app.database.engine import Database
from app.errors import UnavailableError
from app.services.served_models import ServedModels
from app.storage import catalog
from app.storage.blobs import BlobStore
from app.storage.store_identity import check_store_identity

log = logging.getLogger(__name__)

GOOD_SECONDS = 0.5
"""Seconds that a good look counts: probes are many when the service is busy, and each look costs it work."""
PATIENCE_SECONDS = 0.1
"""Seconds that a probe waits for a new look before it takes the last one's word."""
WATCH_SECONDS = 3.0
"""Seconds between two looks while nobody asks, so that the first probe in a while does not wait for its look."""
OLD_SECONDS = 10.0
"""From this age on the last look says nothing any more."""

TOLD_VERSIONS = 20
"""Damaged versions that are named."""


class Readiness:
    """Probe of what the service cannot do without; used from one event loop."""

    def __init__(self, database: Database, blobs: BlobStore, served: ServedModels | None = None) -> None:
        self._database = database
        self._blobs = blobs
        self._served = served
        self._probe_task: asyncio.Task[None] | None = None
        self._error: UnavailableError | None = None
        self._probed_at = -OLD_SECONDS
        self.quarantined: tuple[str, ...] = ()
        """Versions whose stored artefacts are damaged, as the last look found; others stand for them."""

    @property
    def is_good(self) -> bool:
        """True where the last look found nothing wrong, and is not too old to say so."""
        return self._error is None and time.monotonic() - self._probed_at < OLD_SECONDS

    async def check(self) -> None:
        """Raise UnavailableError: no database, a schema that is not the newest, a store that takes no bytes or is
        not the database's, a model that is served and does not load here or predicts other numbers."""
        age = time.monotonic() - self._probed_at
        if self._error is not None or age >= GOOD_SECONDS:
            patience = PATIENCE_SECONDS if age < OLD_SECONDS else None
            waited, _ = await asyncio.wait({self._current_probe()}, timeout=patience)
            for look in waited:
                look.result()  # an error that has no name here is the prober's to see
        if self._error is not None:
            raise self._error.with_traceback(None)

    async def watch(self) -> NoReturn:
        """Probe from time to time until it is cancelled; then the look that is under way has a moment to end."""
        try:
            while True:
                await asyncio.sleep(WATCH_SECONDS)
                ended, _ = await asyncio.wait({self._current_probe()})
                for look in ended:
                    if look.exception() is not None:
                        log.error("the look at database and store failed", exc_info=look.exception())
        finally:
            if self._probe_task is not None:
                await asyncio.wait({self._probe_task}, timeout=1.0)

    def _current_probe(self) -> asyncio.Task[None]:
        """The look that is under way, or a new one."""
        if self._probe_task is None:
            self._probe_task = asyncio.create_task(self._probe())
        return self._probe_task

    async def _probe(self) -> None:
        began = time.monotonic()
        try:
            before, self._error = self._error, await asyncio.to_thread(self._find_error)
            if self._error is None and before is not None:
                log.info("ready again")
            elif str(before) != str(self._error):
                log.warning("not ready: %s", self._error)
            self._probed_at = began
        finally:
            self._probe_task = None

    def _find_error(self) -> UnavailableError | None:
        try:
            if not self._database.is_usable():
                return UnavailableError("the database's schema is older than this version needs: run `pursuit migrate`")
            self._blobs.check()
            check_store_identity(self._database, self._blobs)
            error = None if self._served is None else self._served.find_error()
            with self._database.read() as connection:
                found = catalog.quarantined(connection, limit=TOLD_VERSIONS)
            self.quarantined = tuple(version.reference for version in found)
        except UnavailableError as unavailable:
            return unavailable
        return error
