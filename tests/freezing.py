"""Processes that are stopped (SIGSTOP) while they hold no lock of the database.

One that is stopped within a transaction keeps it: SQLite's only write lock, or the rows that it has written. All that
wait for it are then refused after half a minute, which is true, and not what a test of a frozen process asks.
"""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import exc, text

from app.database.engine import Database
from tests.processes import wait_until


def freeze(process: int, database: Database) -> None:
    """Stop a process where nobody has written anything to the database that is not committed."""

    def frozen() -> bool:
        os.kill(process, signal.SIGSTOP)
        wait_until(lambda: _state(process) == "T", pause=0.001)
        if not is_locked(database):
            return True
        os.kill(process, signal.SIGCONT)
        return False

    wait_until(frozen, pause=0.01)


def is_locked(database: Database) -> bool:
    """True if a transaction that writes is open (PostgreSQL: that has written, or locked, rows of jobs or versions)."""
    return _is_locked_sqlite(database.path) if database.path is not None else _is_locked_postgresql(database)


def _is_locked_sqlite(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY":
                raise
            return True
        connection.execute("ROLLBACK")
    return False


def _is_locked_postgresql(database: Database) -> bool:
    with database.engine.connect() as connection:
        try:
            connection.execute(text("LOCK TABLE jobs, versions IN EXCLUSIVE MODE NOWAIT"))
        except exc.OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != "55P03":
                raise
            return True
        connection.rollback()
    return False


def _state(process: int) -> str:
    """The letter of a process's state; T: stopped."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
