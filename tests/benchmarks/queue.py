"""Milliseconds of processor time of the queue's statements, with 100,000 ended and 20,000 queued jobs.

    python -m tests.benchmarks.queue [URL of an empty database, else SQLite in a temporary folder]

Time of this process and, on PostgreSQL, the time that the server took by its own account is within the seconds of the
wall, which are printed beside it: on an idle machine they bound both.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, insert, text

from app.database.engine import Database
from app.database.tables import aliases, jobs, models, versions
from app.jobs import queries, queue
from app.jobs.job import JobState
from app.jobs.workers import Resources, record_heartbeat
from app.services.jobs import Jobs
from app.storage import catalog

ENDED, QUEUED, MODELS = 100_000, 20_000, 200
REPEATS = 30


def fill(database: Database) -> None:
    """Insert the jobs with payloads, results and sizes such as trainings have, and some models."""
    payload = {"table": "", "fit": "", "spec": {"target": "y", "features": ["x"] * 20, "notes": "n" * 200}}
    result = {
        "model": "m",
        "version": 1,
        "report": {"columns": [{"name": f"c{i}", "kind": "number"} for i in range(40)]},
    }
    began = time.time() - 1e6
    rows = []
    for number in range(ENDED + QUEUED):
        queued = number >= ENDED
        created = began + number
        rows.append(
            {
                "id": f"job_{int(created * 1e6):014x}{number:018x}",
                "kind": "train",
                "model": f"m{number % MODELS}",
                "state": "queued" if queued else ("succeeded", "failed", "cancelled")[number % 3],
                "priority": 0 if number % 10 else number % 7,
                "payload": payload | {"table": f"tables/{number}", "fit": f"fits/{number}"},
                "result": None if queued else result,
                "needs_memory": 300 << 20,
                "needs_rows": 1000,
                "table_key": f"tables/{number}",
                "fit_key": f"fits/{number}",
                "created_at": created,
                "updated_at": created,
                "finished_at": None if queued else created + 60.0,
            }
        )
    kept = {column.key for column in jobs.c}
    rows = [{name: value for name, value in row.items() if name in kept} for row in rows]
    with database.write() as connection:
        connection.execute(insert(jobs), rows)
        connection.execute(insert(models), [_model(number) for number in range(MODELS)])
        connection.execute(insert(versions), [_version(n, v) for n in range(MODELS) for v in range(1, 21)])
        connection.execute(
            insert(aliases), [{"model": f"m{n:03d}", "alias": "latest", "version": 20} for n in range(MODELS)]
        )
        record_heartbeat(connection, "small", Resources(memory=1 << 30, rows=10_000))
    if not database.is_sqlite:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))  # as autovacuum does within a minute


def _model(number: int) -> dict[str, object]:
    return {"name": f"m{number:03d}", "next_version": 21, "created_at": 1.0}


def _version(number: int, version: int) -> dict[str, object]:
    summary = json.dumps({"rows": 100, "features": ["x"] * 10})
    names = {"model": f"m{number:03d}", "version": version, "artefact": f"models/{number}-{version}"}
    return names | {"size": 9, "created_at": 1.0, "summary": summary}


def measures(database: Database) -> dict[str, Callable[[Connection], object]]:
    """Return what is measured, by name; each gets a connection of a transaction that is rolled back."""
    view = Jobs(database)
    with database.read() as connection:
        page = queries.list_jobs(connection, state=JobState.QUEUED)[0]
        first = [connection.execute(text("SELECT min(id) FROM jobs WHERE state = 'queued'")).scalar_one()]
        first_job = queries.get(connection, first[0])
    keys = [f"tables/{number}" for number in range(0, ENDED + QUEUED, 300)]

    def claim(connection: Connection) -> object:
        return queue.claim(connection, worker="w", lease_seconds=60.0, limits=Resources(memory=1 << 30))

    def claim_nothing(connection: Connection) -> object:
        return queue.claim(connection, worker="w", lease_seconds=60.0, limits=Resources(memory=1 << 20))

    return {
        "GET /jobs?state=succeeded": lambda _: view.page(state="succeeded", model=None, limit=50, cursor=None),
        "GET /jobs?state=queued": lambda _: view.page(state="queued", model=None, limit=50, cursor=None),
        "GET /jobs?state=running": lambda _: view.page(state="running", model=None, limit=50, cursor=None),
        "GET /jobs?model=": lambda _: view.page(state=None, model="m7", limit=50, cursor=None),
        "positions of one job": lambda connection: queries.positions(connection, [first_job]),
        "positions of the last 50": lambda connection: queries.positions(connection, page),
        "the queue in GET /metrics": queries.backlog,
        "has_work": queue.has_work,
        "claim": claim,
        "claim where all are too large": claim_nothing,
        "fail_oversized": queue.fail_oversized,
        "tables in use, of 400 keys": lambda connection: queries.tables_in_use(connection, keys),
        "GET /models": lambda connection: catalog.list_models(connection, limit=50),
    }


def main(url: str | None) -> None:
    """Fill an empty database and print a line for each measure."""
    with tempfile.TemporaryDirectory() as folder, Database(url or f"sqlite:///{Path(folder, 'queue.db')}") as database:
        database.migrate()
        fill(database)
        print(f"{'':34s} {'processor ms':>12s} {'wall ms':>8s}")
        for name, measure in measures(database).items():
            spent, wall = [], []
            for _ in range(REPEATS):
                with database.write() as connection:
                    began, clock = time.process_time(), time.perf_counter()
                    measure(connection)
                    spent.append(time.process_time() - began)
                    wall.append(time.perf_counter() - clock)
                    connection.rollback()
            print(f"{name:34s} {1e3 * sorted(spent)[REPEATS // 2]:12.2f} {1e3 * sorted(wall)[REPEATS // 2]:8.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
