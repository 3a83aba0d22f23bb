"""Notification of idle workers: LISTEN and NOTIFY of PostgreSQL, so that a new job is claimed at once.

It only shortens a wait. A worker polls the queue when it is notified and in any case when the poll interval is over: a
notification that is lost, a connection that drops or a pooler that forwards none costs one interval. On SQLite there
are no notifications, and a worker polls.
"""

import logging
import threading
import time
from typing import TYPE_CHECKING, cast

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from app.database.engine import Database

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

CHANNEL = "pursuit_jobs"
RECONNECT_SECONDS = 5.0
"""Seconds after a dropped connection until the next one is tried."""
_STOP_CHECK_SECONDS = 0.25


def notify_workers(connection: Connection) -> None:
    """Wake the workers that wait, once this transaction is committed; no effect on SQLite."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})


class JobListener:
    """Subscription of one worker to notifications; for one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: psycopg.Connection | None = None
        self._retry_at = 0.0

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait for a notification, for `stop`, or until the time is up.

        Returns at once when it has only now subscribed: what came before was not received.
        """
        if self._database.is_sqlite:
            stop.wait(seconds)
            return
        until = time.monotonic() + seconds
        if self._connection is None and time.monotonic() >= self._retry_at and self._subscribe():
            return
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            if self._connection is None:
                stop.wait(left)
            elif self._notified(min(left, _STOP_CHECK_SECONDS)):
                return

    def close(self) -> None:
        """Close the subscription."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _subscribe(self) -> bool:
        try:
            pooled = self._database.engine.raw_connection()
            self._connection = cast("psycopg.Connection", pooled.driver_connection)
            pooled.detach()  # from the pool, which would close it or lend it to others
            self._connection.rollback()
            self._connection.autocommit = True
            self._connection.execute(f"LISTEN {CHANNEL}")
        except self._connection_errors() as error:
            self._drop(error)
            return False
        return True

    def _notified(self, seconds: float) -> bool:
        assert self._connection is not None
        try:
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))
        except self._connection_errors() as error:
            self._drop(error)
            return False

    def _connection_errors(self) -> tuple[type[Exception], ...]:
        """Error classes of the driver and of the pool."""
        return (SQLAlchemyError, cast("type[Exception]", self._database.engine.dialect.loaded_dbapi.Error))

    def _drop(self, error: Exception) -> None:
        """Forget the connection, at debug level: polling goes on, and warns when the database is unavailable."""
        log.debug("not subscribed to notifications of jobs: %s", error)
        self.close()
        self._retry_at = time.monotonic() + RECONNECT_SECONDS
