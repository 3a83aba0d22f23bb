"""Migrations: from any revision to the tables, by one of many processes, all or nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import exc, text

from app.database.engine import Database
from app.database.tables import metadata
from app.errors import UnavailableError
from app.jobs import queries, queue
from app.jobs.watch import Watch
from app.jobs.workers import Resources, largest_limits, running_limits
from app.migrations.upgrade import newest, scripts, upgrade
from app.storage import catalog, datasets
from tests.app.jobs.helpers import submit_echo
from tests.processes import finish

JOB_ID, DATASET_ID = f"job_{'0' * 32}", f"ds_{'0' * 32}"
ROWS = {
    "0001": (
        "INSERT INTO jobs (id, kind, model, state, priority, payload, attempts, claims, fence, cancel_requested,"
        " last_death, revision, created_at, updated_at)"
        " VALUES (:job, 'train', 'cars', 'queued', 0, '{\"n\": 1}', 1, 2, 2, false, 'killed by signal 9', 3, 1.0, 2.0)",
        "INSERT INTO models (name, next_version, created_at) VALUES ('cars', 2, 1.0)",
        "INSERT INTO versions (model, version, artefact, size, created_at, summary)"
        " VALUES ('cars', 1, 'models/x', 9, 1.0, '{}')",
        "INSERT INTO aliases (model, alias, version) VALUES ('cars', 'latest', 1)",
    ),
    "0002": (
        "INSERT INTO datasets (id, name, blob, size, rows, profile, created_at)"
        " VALUES (:dataset, 'cars.csv', 'tables/y', 9, 3, '{}', 1.0)",
    ),
    "0003": ("INSERT INTO workers (name, most_memory, most_rows, seen_at) VALUES ('w', 5, 7, 1.0)",),
    "0004": ("INSERT INTO store_mark (id, token, blob) VALUES (1, 'token', 'marks/z')",),
}


def test_tables_are_what_the_migrations_make(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_migrating_again_changes_nothing(database: Database) -> None:
    assert database.is_migrated()
    job = submit_echo(database)
    database.migrate()
    with database.read() as connection:
        assert queries.get(connection, job.id) == job


def test_processes_that_start_together_migrate_once(database_url: str) -> None:
    code = (
        f"from app.database.engine import Database; d = Database({database_url!r}); d.migrate(); assert d.is_migrated()"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    finish(started)
    with Database(database_url) as database, database.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [newest()]


def test_commands_that_start_together_migrate_once(database_url: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PURSUIT_DATABASE_URL": database_url, "PURSUIT_DATA_DIR": str(tmp_path / "data")}
    started = [
        subprocess.Popen([sys.executable, "-m", "app.cli", "migrate"], stderr=subprocess.PIPE, env=environment)
        for _ in range(2)
    ]
    finish(started, 200.0)
    with Database(database_url) as database:
        assert database.is_migrated()


def test_a_failed_migration_leaves_nothing(database_url: str) -> None:
    """A statement that fails half-way: the tables before it are rolled back too, on both databases."""
    database = Database(database_url)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE aliases (x INTEGER)"))  # the last table that the first revision makes
    with pytest.raises(exc.DBAPIError):
        database.migrate()
    with database.write() as connection:
        connection.execute(text("DROP TABLE aliases"))
    database.migrate()
    assert database.is_migrated()
    database.close()


def test_a_newer_schema_is_refused_in_words(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert not database.is_migrated()
    with pytest.raises(UnavailableError, match="'9999', which this version of Pursuit does not know"):
        database.migrate()


def test_rows_of_every_earlier_release_are_read_after_the_upgrade(database_url: str) -> None:
    """A job that went back to the queue, a version, a worker and an identity, written in SQL as those releases did."""
    revisions = [script.revision for script in reversed(list(scripts().walk_revisions()))]
    assert revisions[:4] == ["0001", "0002", "0003", "0004"]
    with Database(database_url) as database:
        for revision in revisions:
            with database.write() as connection:
                upgrade(connection, revision)
                for statement in ROWS.get(revision, ()):
                    given = {"job": JOB_ID, "dataset": DATASET_ID}
                    names = [name for name in given if f":{name}" in statement]
                    connection.execute(text(statement), {name: given[name] for name in names})
        assert database.is_migrated()
        with database.read() as connection:
            job = queries.get(connection, JOB_ID)
            assert (job.state, job.claims, job.payload) == ("queued", 2, {"n": 1})
            assert (job.requeue_reason, job.needs_memory) == ("killed by signal 9", None)
            assert catalog.resolve(connection, "cars").artefact == "models/x"
            assert datasets.get(connection, DATASET_ID).table == "tables/y"
            assert datasets.get(connection, DATASET_ID).fits == {}
            assert datasets.referenced_fits(connection) == set()
            assert largest_limits(running_limits(connection, Watch(), timeout=1e12)) == Resources(memory=5, rows=7)
        with database.write() as connection:
            claimed = queue.claim(connection, worker="w", lease_seconds=60.0)
            assert claimed is not None
            queue.requeue_after_death(connection, claimed, "killed by signal 11")
            released = connection.execute(text("SELECT last_death FROM jobs")).scalar_one()
        assert released == "killed by signal 11", "where the release before looks for it"
