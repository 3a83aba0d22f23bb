"""Calls to the store, and to the disks of shards and copies, that wait for one that is unavailable or full."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.errors import UnavailableError

RETRY_SECONDS = 300.0
"""Seconds that a job waits for an unavailable store; then it goes back to the queue."""
LONGEST_PAUSE = 5.0

Result = TypeVar("Result")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreRetries:
    """Calls that are tried again while the store is unavailable. tell: hears why a job waits, and None once it goes on;
    seconds: how long a call is tried."""

    tell: Callable[[str | None], None] = lambda _: None
    seconds: float = RETRY_SECONDS

    def __call__(self, call: Callable[[], Result]) -> Result:
        """Return the result of `call`; UnavailableError after so long."""
        until, pause, waited = time.monotonic() + self.seconds, 0.5, False
        while True:
            try:
                result = call()
            except UnavailableError as error:
                if time.monotonic() + pause > until:
                    raise
                log.warning("waiting for the store, again in %.1f s: %s", pause, error)
                self.tell(str(error))
                waited = True
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if waited:
                    self.tell(None)
                return result
