"""The catalogue's generation as of now: whether what a process remembers of names and aliases still holds.

Every change of the catalogue raises the generation in its own transaction (`app.storage.catalog`). A request that reads
it after it began, and finds the one that it remembers a version under, has that version or a later one than anybody had
seen before: whoever saw a change saw it in the database. No clock, no notice that may be lost or late, no process that
others must wait for.

The reading has to be cheap, for every prediction needs one:

    SQLite      3 us, or 14 where a model has just emptied the processor's caches; in the event loop, and once for all
                requests that the loop goes round with: they came before
    PostgreSQL  20 us of this process and a round trip, shared by all requests that came before it was sent
"""

import asyncio
import logging
import sqlite3
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast
from urllib.parse import quote

from anyio import to_thread
from sqlalchemy.exc import SQLAlchemyError

from app.database.engine import Database
from app.storage.catalog import GENERATION_SQL

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

log = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
"""Seconds that PostgreSQL may take to answer."""
AGAIN_SECONDS = 0.5
"""Seconds that a connection that broke is not tried again."""


@dataclass(slots=True, eq=False)
class Reading(Generic[T]):
    """The generation, None where the database did not say at once, and what was made of it for those who share it."""

    generation: int | None
    memo: dict[str, T] = field(default_factory=dict)


class Generations(ABC, Generic[T]):
    """Reader for the requests of one event loop. current: a reading made after all requests that can ask now came."""

    current: Reading[T] | None = None

    @abstractmethod
    async def read(self) -> Reading[T]:
        """The generation at some time after this was called."""

    @abstractmethod
    def close(self) -> None:
        """Give the connection back; call it in the event loop."""


def generations_of(database: Database) -> Generations[T]:
    """The reader for this kind of database."""
    return _SQLite(database.path) if database.path is not None else _PostgreSQL(database)


class _SQLite(Generations[T]):
    """Reader of SQLite: asks once for each time that the event loop goes round.

    What runs before `_expire` was ready to run before it was scheduled, so its request was here before the reading.
    """

    def __init__(self, path: Path) -> None:
        self._url = f"file:{quote(str(path))}?mode=rw"
        self._connection: sqlite3.Connection | None = None

    async def read(self) -> Reading[T]:
        if self.current is None:
            asyncio.get_running_loop().call_soon(self._expire)
            self.current = Reading(self._ask())
        return self.current

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _expire(self) -> None:
        self.current = None

    def _ask(self) -> int | None:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(
                    self._url, uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
                )
            row = self._connection.execute(GENERATION_SQL).fetchone()
        except sqlite3.Error as error:
            log.debug("the catalogue's generation cannot be read: %s", error)
            self.close()
            return None
        return 0 if row is None else int(row[0])


class _PostgreSQL(Generations[T]):
    """Reader of PostgreSQL.

    It asks by a connection of its own and libpq's functions, for a third of what the driver's cursors take.

    One question at a time. Who comes while it is under way waits for the next: the answer might be older than they.
    """

    def __init__(self, database: Database) -> None:
        self._pool = database.engine.pool.recreate()
        self._broken = (SQLAlchemyError, cast("type[Exception]", database.engine.dialect.loaded_dbapi.Error))
        self._connection: psycopg.Connection | None = None
        self._socket = -1  # remembered: a connection that is lost does not know its own any more
        self._connecting: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._coming: list[asyncio.Future[Reading[T]]] = []
        self._asking: list[asyncio.Future[Reading[T]]] = []
        self._scheduled = False
        self._patience: asyncio.TimerHandle | None = None
        self._heard = 0

    async def read(self) -> Reading[T]:
        mine: asyncio.Future[Reading[T]] = asyncio.get_running_loop().create_future()
        self._coming.append(mine)
        self._schedule()
        return await mine

    def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        self._drop()

    def _schedule(self) -> None:
        """Ask when all who are here have come, unless a question is under way."""
        if not self._scheduled and not self._asking:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        self._scheduled = False
        self._asking, self._coming = self._coming, []
        self._patience = loop.call_later(ANSWER_SECONDS, self._lose, "no answer")
        if self._connection is not None:
            self._send()
        elif self._connecting is None and time.monotonic() >= self._not_before:
            self._connecting = loop.create_task(self._connect())
        elif self._connecting is None:
            self._answer(None)

    def _send(self) -> None:
        assert self._connection is not None
        try:
            self._connection.pgconn.send_query(GENERATION_SQL.encode())
            self._connection.pgconn.flush()
        except self._broken as error:
            self._lose(error)

    def _answer(self, value: int | None) -> None:
        """Answer all who wait for this question; the next one is for those who came meanwhile."""
        asking, self._asking = self._asking, []
        if self._patience is not None:
            self._patience.cancel()
        reading = Reading[T](value)
        for one in asking:
            if not one.done():
                one.set_result(reading)
        if self._coming:
            self._schedule()

    async def _connect(self) -> None:
        try:
            connection = await to_thread.run_sync(self._open, abandon_on_cancel=True)
            self._connection, self._socket = connection, connection.pgconn.socket
            asyncio.get_running_loop().add_reader(self._socket, self._hear)
            if self._asking:
                self._send()
        except self._broken as error:
            self._lose(error)
        finally:
            self._connecting = None

    def _open(self) -> "psycopg.Connection":
        pooled = self._pool.connect()
        connection = cast("psycopg.Connection", pooled.driver_connection)
        pooled.detach()  # from the pool, which would close it or lend it to others
        connection.rollback()
        connection.autocommit = True
        connection.pgconn.nonblocking = 1
        return connection

    def _hear(self) -> None:
        """The connection has something to say."""
        assert self._connection is not None
        pgconn = self._connection.pgconn
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:  # the answer is complete, and the next question may be sent
                    if self._asking:
                        self._answer(self._heard)
                    return
                if result.error_message:
                    self._lose(result.error_message.decode(errors="replace").strip())
                    return
                value = result.get_value(0, 0) if result.ntuples else None
                self._heard = 0 if value is None else int(value)
        except self._broken as error:
            self._lose(error)

    def _lose(self, reason: object) -> None:
        log.warning("the catalogue's generation cannot be read: %s", reason)
        self._not_before = time.monotonic() + AGAIN_SECONDS
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            asyncio.get_running_loop().remove_reader(self._socket)
            connection.close()
        self._answer(None)
