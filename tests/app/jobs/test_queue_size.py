"""The queue does not slow down with its length: what statements do when it is many times as long.

SQLite counts the steps of its virtual machine, which do not depend on the machine's load. Of PostgreSQL the plans are
looked at: none goes through all jobs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, text

from app.database.engine import Database
from app.database.tables import jobs
from app.jobs import queries, queue, retention
from app.jobs.job import JobState
from app.jobs.watch import Watch
from app.jobs.workers import Resources, record_heartbeat
from app.services.jobs import Jobs

SHORT, LONG = 300, 3_000
QUEUED_SHARE = 5
STEPS = 20
"""Steps of SQLite's machine that are counted at once."""


def fill(database: Database, count: int) -> None:
    """Insert ended jobs, a fifth as many queued ones, and a worker that is too small for some."""
    rows: list[dict[str, Any]] = []
    for number in range(count + count // QUEUED_SHARE):
        queued = number >= count
        rows.append(
            {
                "id": f"job_{number:014x}{number:018x}",
                "kind": "train",
                "model": f"m{number % 10}",
                "state": "queued" if queued else ("succeeded", "failed", "cancelled")[number % 3],
                "priority": number % 3,
                "payload": {"table": f"tables/{number}"},
                "needs_memory": 1 << 20,
                "needs_rows": 1_000,
                "table_key": f"tables/{number}",
                "fit_key": f"fits/{number}",
                "owner": f"{number % 5:016x}",
                "created_at": 1.0 + number,
                "updated_at": 1.0 + number,
                "finished_at": None if queued else 2.0 + number,
            }
        )
    with database.write() as connection:
        connection.execute(insert(jobs), rows)
        record_heartbeat(connection, "small", Resources(memory=1 << 30, rows=10_000))
    if not database.is_sqlite:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE jobs"))


def statements(connection: Connection) -> dict[str, Callable[[], object]]:
    """Questions to the queue while it is long, by name."""
    newest = queries.list_jobs(connection, state=JobState.QUEUED, limit=20)[0]
    keys = [f"tables/{number}" for number in range(0, SHORT, 10)]
    known = {job.id: (job.revision, 1) for job in newest}
    return {
        "a page of a state": lambda: queries.list_jobs(connection, state=JobState.SUCCEEDED),
        "a page of a state that none is in": lambda: queries.list_jobs(connection, state=JobState.RUNNING),
        "a page of a model": lambda: queries.list_jobs(connection, model="m7"),
        "a page of a model and a state": lambda: queries.list_jobs(
            connection, model="m7", state=JobState.QUEUED, limit=3
        ),
        "one job": lambda: queries.get(connection, newest[0].id),
        "changes that followers look for": lambda: queries.revisions(connection, known),
        "is there work": lambda: queue.has_work(connection),
        "is there work that fits": lambda: queue.has_work(connection, limits=Resources(memory=1 << 30)),
        "claim": lambda: queue.claim(connection, worker="w", lease_seconds=60.0),
        "jobs of a worker that died": lambda: queue.release_lost(connection, "lost"),
        "is there room for the owner": lambda: queries.refuse_if_owner_is_full(connection, "f" * 16, 10),
        "tables in use": lambda: queries.tables_in_use(connection, keys),
        "fits in use": lambda: queries.fits_in_use(connection, [key.replace("tables", "fits") for key in keys]),
        "jobs to remove": lambda: retention.remove_ended(connection, older_than=1e12),
    }


@contextmanager
def sized(folder: Path, count: int) -> Iterator[Database]:
    with Database(f"sqlite:///{folder}/{count}.db") as database:
        database.migrate()
        fill(database, count)
        yield database


def steps(connection: Connection, ask: Callable[[], object]) -> int:
    """Return the steps of SQLite's machine that a question takes, in parts of STEPS."""
    raw: Any = connection.connection.driver_connection
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    raw.set_progress_handler(count, STEPS)
    ask()
    raw.set_progress_handler(None, STEPS)
    return counted


def all_steps(database: Database) -> dict[str, int]:
    with database.write() as connection:
        found = {name: steps(connection, ask) for name, ask in statements(connection).items()}
        connection.rollback()
    return found


def test_no_statement_takes_longer_with_ten_times_the_jobs(tmp_path: Path) -> None:
    with sized(tmp_path, SHORT) as short, sized(tmp_path, LONG) as long:
        before, after = all_steps(short), all_steps(long)
    grown = {name: (before[name], after[name]) for name in before if after[name] > 1.5 * before[name] + 20}
    assert grown == {}


def test_what_looks_at_all_queued_jobs_does_it_once_and_in_an_index(tmp_path: Path) -> None:
    queued = LONG // QUEUED_SHARE
    with sized(tmp_path, LONG) as long, long.write() as connection:
        page = queries.list_jobs(connection, state=JobState.QUEUED, limit=50)[0]
        positions = steps(connection, lambda: queries.positions(connection, page))
        oversized = steps(connection, lambda: queue.fail_oversized(connection, watch=Watch()))
        measured = steps(connection, lambda: queries.backlog(connection))
    assert max(positions, oversized, measured) * STEPS < 60 * queued


def test_no_plan_of_postgresql_goes_through_all_jobs(database: Database) -> None:
    if database.is_sqlite:
        pytest.skip("counted in steps")
    fill(database, LONG)
    asked: list[tuple[str, Any]] = []

    def remember(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        asked.append((statement, parameters))

    scans: dict[str, str] = {}
    with database.write() as connection:
        wanted = statements(connection)
        for name, ask in wanted.items():
            asked.clear()
            event.listen(database.engine, "before_cursor_execute", remember)
            ask()
            event.remove(database.engine, "before_cursor_execute", remember)
            for statement, parameters in [one for one in asked if "jobs" in one[0]]:
                plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
                if any("Seq Scan on jobs" in line for line in plan):
                    scans[name] = "\n".join(plan)
        connection.rollback()
    assert scans == {}


def test_the_service_asks_for_a_page_by_few_statements(database: Database) -> None:
    fill(database, SHORT)
    asked: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda _, __, statement, *___: asked.append(statement))
    Jobs(database).page(state="queued", model=None, limit=50, cursor=None)
    assert len([statement for statement in asked if statement.startswith("SELECT")]) <= 4
