"""Counts of what keys read, by key, minute and model, written to the database from time to time.

One row a minute and not one a prediction. What a killed process has not written yet, FLUSH_SECONDS of counts, is lost.
"""

import asyncio
import logging
import time

from anyio import to_thread

from app.database.engine import Database
from app.errors import PursuitError
from app.storage import key_usage
from app.storage.api_keys import ApiKey

log = logging.getLogger(__name__)

PREDICT, READ = "predict", "read"
FLUSH_SECONDS = 5.0
MOST_COUNTS = 100_000
"""Counts that are kept for a database that does not answer; later ones are lost, and said so."""

_Counts = dict[tuple[int, str, str, str], tuple[int, int]]


class UsageCounter:
    """Counts for the requests of one event loop. `close` it when no more come."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: _Counts = {}
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None

    def count(self, key: ApiKey | None, action: str, model: str, rows: int = 0) -> None:
        """Count one request by a key for a model that there is."""
        if key is None:
            return
        place = (int(time.time() // 60), key.id, model, action)
        requests, before = self._counts.get(place, (0, 0))
        if not requests and len(self._counts) >= MOST_COUNTS:
            log.error("the use of API keys is not counted: the database does not take it")
            return
        self._counts[place] = (requests + 1, before + rows)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._begin)

    async def close(self) -> None:
        """Write what is counted."""
        if self._timer is not None:
            self._timer.cancel()
        if self._flushing is not None:
            await asyncio.wait({self._flushing})
        await self._flush()

    def _begin(self) -> None:
        self._flushing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        counts, self._counts, self._timer = self._counts, {}, None
        try:
            if counts:
                await to_thread.run_sync(self._write, counts)
        except PursuitError as error:
            log.warning("the use of API keys could not be written, and will be: %s", error)
            for place, (requests, rows) in counts.items():
                more = self._counts.get(place, (0, 0))
                self._counts[place] = (requests + more[0], rows + more[1])
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._begin)

    def _write(self, counts: _Counts) -> None:
        with self._database.write() as connection:
            key_usage.add_usage(connection, counts)
