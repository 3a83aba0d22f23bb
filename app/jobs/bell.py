"""Waiting for work: on PostgreSQL a worker hears at once of a job that came into the queue; elsewhere it just waits.

The bell only shortens a wait. Whoever waits looks into the queue afterwards, and looks in any case when the time is up:
a notification that is lost, a connection that drops or a pooler that passes none on cost no more than that.
"""

import logging
import threading
import time
from typing import TYPE_CHECKING, cast

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from app.database import Database

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

CHANNEL = "pursuit_jobs"
AGAIN_SECONDS = 5.0
"""So long a connection that dropped is not tried again."""
_SLICE = 0.25


def ring(connection: Connection) -> None:
    """Wake the workers that wait, once this transaction is committed. Nothing on SQLite."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})


class Bell:
    """One waiting worker; for one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listening: psycopg.Connection | None = None
        self._not_before = 0.0

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Until a job comes, `stop` is set, or the time is up; also back at once when it has only now begun to listen,
        for what came before was not heard.
        """
        if self._database.is_sqlite:
            stop.wait(seconds)
            return
        until = time.monotonic() + seconds
        if self._listening is None and time.monotonic() >= self._not_before and self._listen():
            return
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            if self._listening is None:
                stop.wait(left)
            elif self._rang(min(left, _SLICE)):
                return

    def close(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def _listen(self) -> bool:
        try:
            pooled = self._database.engine.raw_connection()
            self._listening = cast("psycopg.Connection", pooled.driver_connection)
            pooled.detach()  # from the pool, which would close it or lend it to others
            self._listening.rollback()
            self._listening.autocommit = True
            self._listening.execute(f"LISTEN {CHANNEL}")
        except self._lost() as error:
            self._drop(error)
            return False
        return True

    def _rang(self, seconds: float) -> bool:
        assert self._listening is not None
        try:
            return any(True for _ in self._listening.notifies(timeout=seconds, stop_after=1))
        except self._lost() as error:
            self._drop(error)
            return False

    def _lost(self) -> tuple[type[Exception], ...]:
        """What the driver raises, and what its pool makes of it."""
        return (SQLAlchemyError, cast("type[Exception]", self._database.engine.dialect.loaded_dbapi.Error))

    def _drop(self, error: Exception) -> None:
        """Quietly: the queue is looked into all the same, and says so when the database is away."""
        log.debug("not listening for jobs: %s", error)
        self.close()
        self._not_before = time.monotonic() + AGAIN_SECONDS
