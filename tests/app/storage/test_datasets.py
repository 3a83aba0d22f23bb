"""The table of datasets, on both databases."""

import threading

import pytest
from sqlalchemy import update

from app.database.clock import now
from app.database.engine import Database
from app.database.tables import datasets as datasets_table
from app.database.tables import jobs as jobs_table
from app.errors import InvalidRequestError, NotFoundError
from app.jobs import queue
from app.storage import datasets
from app.storage.datasets import Dataset


def add(database: Database, name: str = "a.csv", key: str | None = None) -> tuple[Dataset, bool]:
    with database.write() as connection:
        return datasets.add(
            connection, name=name, table=f"tables/{name}", size=10, rows=2, profile={"target": "y"}, key=key
        )


def test_what_is_added_is_there_until_it_is_deleted(database: Database) -> None:
    made, created = add(database)
    assert created
    assert (made.name, made.table, made.size, made.rows, made.profile) == (
        "a.csv",
        "tables/a.csv",
        10,
        2,
        {"target": "y"},
    )
    with database.write() as connection:
        assert datasets.get(connection, made.id) == made
        assert datasets.referenced_tables(connection) == {"tables/a.csv"}
        datasets.delete(connection, made.id)
        assert datasets.referenced_tables(connection) == set()
        for unknown in (made.id, "ds_0", "ds_\0", ""):
            with pytest.raises(NotFoundError, match="no dataset"):
                datasets.get(connection, unknown)
            with pytest.raises(NotFoundError, match="no dataset"):
                datasets.delete(connection, unknown)


def test_the_latest_fits_are_kept(database: Database) -> None:
    made, _ = add(database)
    assert made.fits == {}
    with database.write() as connection:
        for number in (*range(datasets.MAX_FITS + 1), 3):
            datasets.keep_fit(connection, made.id, f"digest {number}", f"fits/{number}")
        found = datasets.get(connection, made.id).fits
        assert list(found.values()) == [f"fits/{number}" for number in (1, 2, *range(4, datasets.MAX_FITS + 1), 3)]
        assert datasets.referenced_fits(connection) == set(found.values())
        datasets.keep_fit(connection, "ds_gone", "digest", "fits/gone")
        datasets.delete(connection, made.id)
        assert datasets.referenced_fits(connection) == set()


def test_a_key_gives_one_dataset_however_many_ask(database: Database) -> None:
    found: list[tuple[Dataset, bool]] = []
    threads = [threading.Thread(target=lambda: found.append(add(database, key="k"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({dataset.id for dataset, _ in found}) == 1
    assert [created for _, created in found].count(True) == 1
    assert add(database)[0].id != add(database)[0].id


def test_pages_hold_each_once(database: Database) -> None:
    made = {add(database, f"{number}.csv")[0].id for number in range(7)}
    seen: list[str] = []
    cursor = None
    with database.read() as connection:
        while True:
            page, cursor = datasets.page(connection, limit=3, cursor=cursor)
            seen += [dataset.id for dataset in page]
            if cursor is None:
                break
        assert len(seen) == 7
        assert set(seen) == made
        with pytest.raises(InvalidRequestError, match="begin with the first page"):
            datasets.page(connection, limit=3, cursor="ds_gone")


def test_datasets_that_no_job_used_for_long_are_removed(database: Database) -> None:
    """Not one whose table a job may still train on, nor one that was trained on since."""
    made = {name: add(database, name=name, key=name)[0] for name in ("idle", "queued", "recent", "new")}
    with database.write() as connection:
        for name in ("queued", "recent"):
            queue.submit(connection, kind="train", model="m", payload={}, table=made[name].table)
        connection.execute(update(datasets_table).where(datasets_table.c.name != "new").values(created_at=1000.0))
        connection.execute(
            update(jobs_table)
            .where(jobs_table.c.table_key == made["recent"].table)
            .values(state="failed", finished_at=now())
        )
        connection.execute(
            update(jobs_table).where(jobs_table.c.table_key == made["queued"].table).values(created_at=1000.0)
        )
        assert datasets.forget_keys(connection, older_than=60.0) == 3
        assert datasets.remove_unused(connection, older_than=60.0) == 1
        assert datasets.remove_unused(connection, older_than=60.0) == 0
        left, _ = datasets.page(connection, limit=10, cursor=None)
    assert {found.name for found in left} == {"queued", "recent", "new"}
    assert add(database, name="other", key="queued")[1], "its key is free again"
    assert not add(database, name="new", key="new")[1]
