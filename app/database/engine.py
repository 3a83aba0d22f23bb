"""The one database: SQLite in a file (the embedded default) or PostgreSQL, through SQLAlchemy Core.

All writes are made inside `Database.write()`. On SQLite that is BEGIN IMMEDIATE: the write lock is
taken at the start, so a transaction never reads first and then finds that another one has written. Reads are plain
BEGIN, which WAL lets run beside a writer. On PostgreSQL both are ordinary READ COMMITTED transactions, and
the code takes row locks where it needs them.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, create_engine, event, exc, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection

from app.errors import UnavailableError

log = logging.getLogger(__name__)

BUSY_SECONDS = 30
MIGRATION_LOCK = 0x70757273756974  # "pursuit": an advisory lock of PostgreSQL is named by a number
_WAL_TRIES = 100
_POSTGRESQL_UNAVAILABLE = ("42501", "25006")
"""SQLSTATE of a missing right to a table, and of a server that only reads (a standby): an operator mends both."""


class Database:
    """An engine with its transactions and migrations. Safe to share between threads; not across a fork.

    `url` is `sqlite:///path/to/file` or `postgresql://user:password@host/name`. The folder of an SQLite
    file is created. Nothing is opened before the first transaction. path: SQLite's file, else None.
    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        parsed = _normalized(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        arguments: dict[str, Any]
        if self.is_sqlite:
            arguments = {"timeout": BUSY_SECONDS}
        else:
            arguments = {
                "connect_timeout": 10,
                "application_name": "pursuit",
                # a worker that hangs inside a transaction must not keep its rows locked for ever
                "options": f"-c idle_in_transaction_session_timeout={BUSY_SECONDS}s",
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
            }
        self.path = Path(parsed.database or "") if self.is_sqlite else None
        self.engine = create_engine(
            parsed,
            connect_args=arguments,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_pre_ping=not self.is_sqlite,
            json_serializer=_to_json,
        )
        self._immediate = self.engine.execution_options(pursuit_begin="BEGIN IMMEDIATE")
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads; UnavailableError if the database does not answer."""
        self._make_folder()
        with _translate_errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that may write: committed at the end, rolled back if the block raises.

        UnavailableError if the database does not answer or stays locked for BUSY_SECONDS. When the answer to a COMMIT
        is lost it may have happened or not: write so that a second try does no harm.
        """
        self._make_folder()
        with _translate_errors(), self._immediate.connect() as connection, connection.begin():
            yield connection

    def migrate(self) -> None:
        """Bring the schema to the newest revision. Of processes that start together one does it, the others wait.

        UnavailableError if the database was made by a newer Pursuit than this one.
        """
        from app.migrations.upgrade import upgrade  # noqa: PLC0415  Alembic is slow to import, few processes need it

        if self.is_migrated():
            return
        with self.write() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:name)"), {"name": MIGRATION_LOCK})
            upgrade(connection)

    def is_migrated(self) -> bool:
        """True if the schema is at the newest revision that this code knows."""
        from app.migrations.upgrade import current, newest  # noqa: PLC0415  as above

        with self.read() as connection:
            return current(connection) == newest()

    def is_usable(self) -> bool:
        """True if the schema is at the newest revision, or at one that a newer version has brought it to."""
        from app.migrations.upgrade import current, is_ahead, newest  # noqa: PLC0415  as above

        with self.read() as connection:
            return current(connection) == newest() or is_ahead(connection)

    def close(self) -> None:
        """Close the pooled connections; the object may be used again. Leaving a `with` block does it too."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_folder(self) -> None:
        if self.path is None or self.path.parent.is_dir():
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"the database's folder cannot be made: {error}") from error


def copy_sqlite(connection: Connection, path: Path) -> None:
    """Copy an SQLite database into a new file, as the open transaction sees it; others may write. UnavailableError."""
    import sqlite3  # noqa: PLC0415  not needed on PostgreSQL

    source: Any = connection.connection.driver_connection
    try:
        with closing(sqlite3.connect(path)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    except sqlite3.Error as error:
        raise UnavailableError(f"the database cannot be copied to {path}: {error}") from error


def _normalized(url: str) -> URL:
    """Return the URL with the driver we ship; ValueError for other databases and for SQLite in memory."""
    try:
        parsed = make_url(url)
    except exc.ArgumentError as error:
        raise ValueError(f"not a database URL: {url!r}") from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ValueError("SQLite needs a file, sqlite:///path/to/pursuit.db: API and workers are two processes")
        return parsed.set(drivername="sqlite+pysqlite")
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise ValueError(f"expected a sqlite:/// or postgresql:// URL, got one for {backend!r}")


def _to_json(value: object) -> str:
    """Encode strict JSON, as PostgreSQL demands it; ValueError for NaN and infinity, on SQLite too."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _prepare_sqlite(connection: DBAPIConnection, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin by itself: `_begin_sqlite` does
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = FULL")
        _switch_to_wal(cursor)
    finally:
        cursor.close()


def _switch_to_wal(cursor: Any) -> None:
    """Switch to WAL, which is kept in the file; SQLite does not wait for its lock by itself, so this does."""
    import sqlite3  # noqa: PLC0415  not needed on PostgreSQL

    for attempt in range(_WAL_TRIES):
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or attempt == _WAL_TRIES - 1:
                raise
            time.sleep(0.05)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("pursuit_begin", "BEGIN"))


_SQLITE_UNAVAILABLE = (
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_IOERR",
    "SQLITE_FULL",
    "SQLITE_CANTOPEN",
    "SQLITE_READONLY",
)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise UnavailableError for errors that pass or that an operator mends; errors in our own SQL as they are."""
    try:
        yield
    except exc.TimeoutError as error:
        raise UnavailableError("all database connections are in use") from error
    except exc.DBAPIError as error:
        if not _is_unavailable(error):
            raise
        raise UnavailableError(f"the database does not answer: {str(error.orig).strip()}") from error


def _is_unavailable(error: exc.DBAPIError) -> bool:
    name = getattr(error.orig, "sqlite_errorname", None)
    if name is not None:
        return str(name).startswith(_SQLITE_UNAVAILABLE)
    if getattr(error.orig, "sqlstate", None) in _POSTGRESQL_UNAVAILABLE:
        return True
    return error.connection_invalidated or isinstance(error, exc.OperationalError | exc.InterfaceError)
