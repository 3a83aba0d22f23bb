"""The database: its clock, its transactions, and its errors when it does not answer."""

import math
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import exc, select, text, update

from app.database.clock import now
from app.database.engine import Database
from app.database.tables import jobs
from app.errors import ConflictError, UnavailableError
from app.jobs import queries, queue
from tests.app.jobs.helpers import submit_echo


def test_clock_is_utc_epoch_seconds_below_a_tenth(database: Database) -> None:
    with database.read() as connection:
        first = connection.execute(select(now())).scalar_one()
        time.sleep(0.02)
        second = connection.execute(select(now())).scalar_one()
    assert abs(first - time.time()) < 1.0
    assert 0.015 <= second - first < 1.0, "the clock stands still within a transaction or is too coarse"


def test_write_is_all_or_nothing(database: Database) -> None:
    with pytest.raises(ConflictError), database.write() as connection:  # noqa: PT012  the block is what is tested
        queue.submit(connection, kind="echo", model="m", payload={})
        raise ConflictError("changed my mind")
    with database.read() as connection:
        assert queries.list_jobs(connection) == ([], None)


def test_writers_from_many_threads_do_not_fail(database: Database) -> None:
    job = submit_echo(database)

    def add() -> None:
        for _ in range(10):
            with database.write() as connection:
                priority = connection.execute(
                    select(jobs.c.priority).where(jobs.c.id == job.id).with_for_update()
                ).scalar_one()
                connection.execute(update(jobs).values(priority=priority + 1))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        assert queries.get(connection, job.id).priority == 80


def test_reads_go_on_while_another_writes(database: Database) -> None:
    job = submit_echo(database)
    with database.write() as writer:
        writer.execute(update(jobs).values(priority=7))
        began = time.monotonic()
        with database.read() as reader:
            assert queries.get(reader, job.id).priority == 0
        assert time.monotonic() - began < 1.0


def test_sqlite_is_durable_and_checks_references(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/not/there/yet/pursuit.db")
    with database.read() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    database.close()
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30000}


def test_json_is_kept_to_the_last_bit_and_nan_is_refused(database: Database) -> None:
    payload = {
        "theta": [0.1 + 0.2, 1e-320, -1.7976931348623157e308, 2**60],
        "text": "snow ☃ \u0000 \ud800 end",
        "none": None,
    }
    job = submit_echo(database, payload=payload)
    with database.read() as connection:
        assert queries.get(connection, job.id).payload == payload
    with pytest.raises((exc.StatementError, ValueError), match="JSON"):
        submit_echo(database, payload={"x": math.nan})


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UnavailableError), Database(f"sqlite:///{tmp_path}/file/pursuit.db").read():
        pass
    with pytest.raises(UnavailableError), Database(f"sqlite:///{tmp_path}").read():
        pass


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("psycopg", reason="the postgres extra is not installed")
    database = Database("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(UnavailableError, match="does not answer"), database.read():
        pass


def test_errors_in_sql_are_not_called_unavailable(database: Database) -> None:
    with pytest.raises(exc.DBAPIError), database.read() as connection:
        connection.execute(text("SELECT * FROM nothing"))


def test_a_server_that_only_reads_or_refuses_is_unavailable(database: Database) -> None:
    """A standby after a failover, a role without rights: once an internal error."""
    if database.is_sqlite:
        pytest.skip("PostgreSQL's")
    for words, refusal in (
        (["SET TRANSACTION READ ONLY"], "read-only transaction"),
        (["CREATE ROLE pursuit_test_nobody", "SET LOCAL ROLE pursuit_test_nobody"], "permission denied for table jobs"),
    ):
        with pytest.raises(UnavailableError, match=refusal), database.write() as connection:  # noqa: PT012  as above
            for word in words:
                connection.execute(text(word))
            queue.submit(connection, kind="echo", model="m", payload={})
    assert submit_echo(database).state == "queued"


def test_a_lost_connection_is_unavailable_and_the_next_one_works(database: Database) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite has no connection to lose")
    with pytest.raises(UnavailableError), database.write() as connection:  # noqa: PT012  as above
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with database.read() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": own})
        connection.execute(text("SELECT 1"))
    with database.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("mysql://host/name", "expected a sqlite:/// or postgresql:// URL"),
        ("pursuit.db", "not a database URL"),
    ],
)
def test_urls_that_are_refused(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Database(url)
