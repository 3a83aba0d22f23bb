"""The catalogue's generation as of now: whether what a process remembers of names and aliases still holds.

Every change of the catalogue raises the generation in its own transaction (`app.storage.catalog`). A request that reads
it after it began, and finds the one that it remembers a version under, has that version or a later one than anybody had
seen before: whoever saw a change saw it in the database. No clock, no notice that may be lost or late, no process that
others must wait for.

The reading has to be cheap, for every prediction needs one:

    SQLite      3 us, in the event loop, and once for all requests that the loop goes round with: they came before
    PostgreSQL  20 us of this process and a round trip, shared by all requests that came before it was sent
"""

import asyncio
import logging
import sqlite3
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from anyio import to_thread
from sqlalchemy.exc import SQLAlchemyError

from app.database import Database
from app.services.coalescing import Coalescer
from app.storage.catalog import GENERATION_SQL

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
"""So long PostgreSQL may take to answer."""
AGAIN_SECONDS = 0.5
"""So long a connection that broke is not tried again."""


class Generations(ABC):
    """For the requests of one event loop."""

    @abstractmethod
    async def read(self) -> int | None:
        """The generation at some time after this was called; None where the database does not say at once."""

    @abstractmethod
    def close(self) -> None:
        """Give the connection back; call it in the event loop."""


def generations_of(database: Database) -> Generations:
    """The reader for this kind of database."""
    return _SQLite(database.path) if database.path is not None else _PostgreSQL(database)


class _SQLite(Generations):
    """Asks once for each time that the event loop goes round.

    What runs before `_expire` was ready to run before it was scheduled, so its request was here before the reading.
    """

    def __init__(self, path: Path) -> None:
        self._url = f"file:{quote(str(path))}?mode=rw"
        self._connection: sqlite3.Connection | None = None
        self._value: int | None = None
        self._fresh_in: asyncio.AbstractEventLoop | None = None

    async def read(self) -> int | None:
        loop = asyncio.get_running_loop()
        if self._fresh_in is not loop:
            self._value = self._ask()
            self._fresh_in = loop
            loop.call_soon(self._expire)
        return self._value

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _expire(self) -> None:
        self._fresh_in = None

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


class _PostgreSQL(Generations):
    """Asks by a connection of its own and libpq's functions, for a third of what the driver's cursors take."""

    def __init__(self, database: Database) -> None:
        self._pool = database.engine.pool.recreate()
        self._broken = (SQLAlchemyError, cast("type[Exception]", database.engine.dialect.loaded_dbapi.Error))
        self._connection: psycopg.Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[int | None] | None = None
        self._heard = 0
        self._asked = Coalescer[None, int | None](self._ask)
        self._not_before = 0.0

    async def read(self) -> int | None:
        return await self._asked.get(None)

    def close(self) -> None:
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection.pgconn.socket)
            self._connection.close()
            self._connection = None
        self._give(None)

    async def _ask(self, _: None) -> int | None:
        if self._connection is None:
            await self._wait_for_connection()
        if self._connection is None:
            return None
        loop = asyncio.get_running_loop()
        answer = self._answer = loop.create_future()
        patience = loop.call_later(ANSWER_SECONDS, self._lose, "no answer")
        try:
            self._connection.pgconn.send_query(GENERATION_SQL.encode())
            self._connection.pgconn.flush()
        except self._broken as error:
            self._lose(error)
        try:
            return await answer
        finally:
            patience.cancel()

    async def _wait_for_connection(self) -> None:
        if self._connecting is None and time.monotonic() >= self._not_before:
            self._connecting = asyncio.create_task(self._connect())
        if self._connecting is not None:
            await asyncio.wait({self._connecting}, timeout=ANSWER_SECONDS)

    async def _connect(self) -> None:
        try:
            connection = await to_thread.run_sync(self._open, abandon_on_cancel=True)
            asyncio.get_running_loop().add_reader(connection.pgconn.socket, self._hear)
            self._connection = connection
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
                    self._give(self._heard)
                    return
                if result.error_message:
                    self._lose(result.error_message.decode(errors="replace").strip())
                    return
                value = result.get_value(0, 0) if result.ntuples else None
                self._heard = 0 if value is None else int(value)
        except self._broken as error:
            self._lose(error)

    def _give(self, value: int | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(value)

    def _lose(self, reason: object) -> None:
        log.warning("the catalogue's generation cannot be read: %s", reason)
        self._not_before = time.monotonic() + AGAIN_SECONDS
        self.close()
