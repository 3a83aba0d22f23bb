"""Limits of keys a minute over all API processes, without a write to the database for each request.

A process takes a key's limit in shares of a twentieth (SHARES), or as much as one request needs, from the one row that
all processes share (`app.storage.key_usage`), and counts them down in memory. So never more than the limit is let in
within a minute of the database's clock; each process may hold a share that it does not use, so that a client whose
requests are spread over n processes may be refused n - 1 twentieths early. A key costs at most SHARES writes a minute,
and one for each process.

While the database does not answer each process counts for itself: the limit holds for each of them.
"""

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field

from anyio import to_thread

from app.database.engine import Database
from app.errors import LimitExceededError, TooLargeError, UnavailableError
from app.storage import key_usage
from app.storage.api_keys import ApiKey
from app.storage.key_usage import Grant

log = logging.getLogger(__name__)

REQUESTS, ROWS = "requests", "rows"
SHARES = 20
"""Shares of a limit."""
ALONE_SECONDS = 60.0
"""Seconds that a process counts for itself before it asks a database again that did not answer: a minute's limit."""


@dataclass(slots=True, eq=False)
class _Share:
    """Budget that this process may still let in. used_up: the database has no more before `until`, a monotonic time."""

    left: int = 0
    until: float = 0.0
    used_up: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Budgets:
    """Counts requests and rows of keys, for the requests of one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._shares: dict[tuple[str, str], _Share] = {}

    async def take_request(self, key: ApiKey) -> None:
        """Count one request. Raises LimitExceededError."""
        if key.limits.requests_per_minute is not None:
            await self._take(key, REQUESTS, 1, key.limits.requests_per_minute)

    async def take_rows(self, key: ApiKey | None, rows: int) -> None:
        """Count rows. Raises LimitExceededError; TooLargeError where they are more than a whole minute's."""
        if key is not None and key.limits.rows_per_minute is not None and rows:
            await self._take(key, ROWS, rows, key.limits.rows_per_minute)

    async def _take(self, key: ApiKey, unit: str, amount: int, limit: int) -> None:
        if amount > limit:
            raise TooLargeError(f"the request has {amount:,} {unit}, and this API key may send {limit:,} a minute")
        share = self._shares.get((key.id, unit))
        if share is None:
            share = self._shares[key.id, unit] = _Share()
        if not self._took(share, amount):
            async with share.lock:
                while not self._took(share, amount):
                    if share.used_up:
                        raise _exceeded(unit, limit, amount, share)
                    await self._refill(share, key.id, unit, amount, limit)

    @staticmethod
    def _took(share: _Share, amount: int) -> bool:
        if time.monotonic() >= share.until:
            share.left, share.used_up = 0, False
        if share.left < amount:
            return False
        share.left -= amount
        return True

    async def _refill(self, share: _Share, key_id: str, unit: str, amount: int, limit: int) -> None:
        wanted = max(amount - share.left, limit // SHARES, 1)
        asked = time.monotonic()
        try:
            found = await to_thread.run_sync(self._grant, key_id, unit, wanted, limit)
        except UnavailableError as error:
            log.warning("limits of API keys are counted by this process alone: %s", error)
            found = Grant(amount=limit, seconds=ALONE_SECONDS)
            share.left, wanted = 0, limit
        share.left += found.amount
        share.used_up = found.amount < wanted or share.left >= limit
        share.until = asked + found.seconds

    def _grant(self, key_id: str, unit: str, wanted: int, limit: int) -> Grant:
        with self._database.write() as connection:
            return key_usage.grant(connection, key_id=key_id, unit=unit, wanted=wanted, limit=limit)


def _exceeded(unit: str, limit: int, amount: int, share: _Share) -> LimitExceededError:
    seconds = max(1, math.ceil(share.until - time.monotonic()))
    left = f", of which {share.left:,} are left, and the request has {amount:,}" if share.left else ""
    return LimitExceededError(
        f"this API key may send {limit:,} {unit} a minute{left}; the next minute begins in {seconds} s",
        retry_seconds=seconds,
    )
