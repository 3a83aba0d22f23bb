"""The two inserts, on both databases: the new row, the row that is there, and races."""

import threading
from typing import Any

import pytest
from sqlalchemy import exc, select

from app.database.clock import now
from app.database.engine import Database
from app.database.tables import datasets, workers
from app.database.upsert import insert_or_ignore, insert_or_update


def dataset(number: int, key: str | None) -> dict[str, Any]:
    return {
        "id": f"ds_{number}",
        "name": "cars.csv",
        "table_key": "tables/x",
        "size": 1,
        "rows": number,
        "profile": {},
        "idempotency_key": key,
        "created_at": now(),
    }


def test_insert_or_ignore_returns_the_new_row_or_none(database: Database) -> None:
    key = [datasets.c.idempotency_key]
    with database.write() as connection:
        first = insert_or_ignore(connection, datasets, dataset(1, "k"), key=key)
        assert first is not None
        assert (first.id, first.rows, first.table_key) == ("ds_1", 1, "tables/x")
        assert insert_or_ignore(connection, datasets, dataset(2, "k"), key=key) is None
        for number in (3, 4):  # NULL is no key
            assert insert_or_ignore(connection, datasets, dataset(number, None), key=key) is not None
        assert set(connection.execute(select(datasets.c.rows)).scalars()) == {1, 3, 4}
    with pytest.raises(exc.IntegrityError), database.write() as connection:
        insert_or_ignore(connection, datasets, dataset(1, "another"), key=key)  # the conflict is in another key


def test_insert_or_update_may_refer_to_the_row_that_is_there(database: Database) -> None:
    c = workers.c

    def raised() -> None:
        for _ in range(10):
            with database.write() as connection:
                values = {"name": "w", "max_rows": 1, "seen_at": now()}
                insert_or_update(connection, workers, values, key=[c.name], update={"max_rows": c.max_rows + 1})

    threads = [threading.Thread(target=raised) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        assert connection.execute(select(c.max_rows, c.max_memory)).all() == [(40, None)]
