"""Summaries and truths in the database: they add up, on both kinds of it."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from app.database.engine import Database
from app.storage import monitoring
from app.storage.monitoring import Truth


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {"rows": one["rows"] + other["rows"]}


def test_processes_that_write_at_once_lose_nothing(database: Database) -> None:
    def write(_: int) -> None:
        with database.write() as connection:
            monitoring.add(connection, "m", 1, "2026-01-02", {"rows": 1}, merge=merged)
            truth = Truth(day="2026-01-02", rows=2, with_interval=2, covered=1, squared_error=0.25)
            monitoring.add_truth(connection, "m", 1, truth)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(12)))
    with database.read() as connection:
        assert monitoring.days(connection, "m", 1, limit=9) == [("2026-01-02", {"rows": 12})]
        (found,) = monitoring.truths(connection, "m", 1, limit=9)
    assert found == Truth(day="2026-01-02", rows=24, with_interval=24, covered=12, squared_error=3.0)


def test_days_come_newest_first_and_old_ones_go(database: Database) -> None:
    with database.write() as connection:
        for day in ("2025-12-31", "2026-01-01", "2026-01-03"):
            monitoring.add(connection, "m", 1, day, {"rows": 1}, merge=merged)
            monitoring.add_truth(
                connection, "m", 1, Truth(day=day, rows=1, with_interval=0, covered=0, squared_error=1.0)
            )
        assert [day for day, _ in monitoring.days(connection, "m", 1, limit=2)] == ["2026-01-03", "2026-01-01"]
        assert monitoring.days(connection, "m", 2, limit=2) == []
        assert monitoring.remove_before(connection, "2026-01-01") == 2
        assert [truth.day for truth in monitoring.truths(connection, "m", 1, limit=9)] == ["2026-01-03", "2026-01-01"]


def test_truths_of_several_targets_add_up_by_place(database: Database) -> None:
    """And are not those of a model of one, nor of another target; they go with the day too."""

    def write(number: int) -> None:
        truth = Truth(day="2026-01-02", rows=2, with_interval=2, covered=number % 2, squared_error=0.25)
        with database.write() as connection:
            monitoring.add_truth(connection, "m", 1, truth, place=number % 2)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(12)))
    with database.write() as connection:
        monitoring.add_truth(
            connection, "m", 1, Truth(day="2026-01-01", rows=1, with_interval=0, covered=0, squared_error=1.0), place=1
        )
        first, second = (monitoring.truths(connection, "m", 1, limit=9, place=place) for place in (0, 1))
        assert first == [Truth(day="2026-01-02", rows=12, with_interval=12, covered=0, squared_error=1.5)]
        assert [(each.day, each.rows, each.covered) for each in second] == [("2026-01-02", 12, 6), ("2026-01-01", 1, 0)]
        assert monitoring.truths(connection, "m", 1, limit=9) == []
        assert monitoring.remove_before(connection, "2026-01-02") == 1
        assert len(monitoring.truths(connection, "m", 1, limit=9, place=1)) == 1
